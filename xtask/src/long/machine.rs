//! The circumstances of a run: machine, commit, date.

use super::record::{FILE, Machine};
use anyhow::{Context, Result, ensure};
use std::fs::read_to_string;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

/// Describes the machine.
pub fn machine() -> Machine {
    let info = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Machine {
        cpu: model.trim_start_matches([' ', '\t', ':']).to_owned(),
        cores: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
        kernel: kernel.trim().to_owned(),
    }
}

/// Returns the commit of the sources, with `+` behind it if files other than the record differ from the commit.
///
/// # Errors
///
/// If git cannot be started, or the sources are in no repository.
pub fn commit(root: &Path) -> Result<String> {
    let git = |words: &[&str]| -> Result<String> {
        let output =
            Command::new("git").args(words).current_dir(root).output().context("git does not start")?;
        ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?.trim().to_owned())
    };
    let except = format!(":!{FILE}");
    let changes = git(&["status", "--porcelain", "--untracked-files=no", "--", ".", &except])?;
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    Ok(if changes.is_empty() { commit } else { commit + "+" })
}

/// Returns the date and time (UTC) in the form of RFC 3339.
pub fn now() -> String {
    date(SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs()))
}

/// Returns the date of a number of seconds since 1970 (UTC).
fn date(seconds: u64) -> String {
    let (mut days, time) = (seconds / 86_400, seconds % 86_400);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{year}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}Z", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_798_761_599), "2026-12-31T23:59:59Z");
    }
}
