//! The circumstances of a run: machine, commit, date.

use serde::{Deserialize, Serialize};
use std::fs::read_to_string;
use std::io;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

/// Files that runs write: a change of them is no change of the sources.
const RECORDS: [&str; 3] = ["docs/long-runs.json", "docs/performance.json", "docs/performance.md"];

/// The machine of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's model.
    pub cpu: String,
    /// The number of processors.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
}

/// Describes this machine.
pub fn machine() -> Machine {
    let info = read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let kernel = read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Machine {
        cpu: model.trim_start_matches([' ', '\t', ':']).to_owned(),
        cores: std::thread::available_parallelism().map_or(1, usize::from),
        kernel: kernel.trim().to_owned(),
    }
}

/// Returns the commit of the sources in `folder`, with `+` behind it if tracked files differ from the commit. Records of runs may
/// differ.
///
/// # Errors
///
/// If git cannot be started, or the folder is in no repository.
pub fn commit(folder: &Path) -> io::Result<String> {
    let git = |words: &[&str]| -> io::Result<String> {
        let output = Command::new("git").args(words).current_dir(folder).output()?;
        if !output.status.success() {
            return Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let except = RECORDS.map(|file| format!(":(top,exclude){file}"));
    let mut status = vec!["status", "--porcelain", "--untracked-files=no", "--", ":/"];
    status.extend(except.iter().map(String::as_str));
    let changes = git(&status)?;
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
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_798_761_599), "2026-12-31T23:59:59Z");
    }

    #[test]
    fn a_change_of_a_record_is_no_change_of_the_sources() {
        let folder = tempfile::tempdir().unwrap();
        let git = |words: &[&str]| {
            let named = ["-c", "user.name=a", "-c", "user.email=a@example.net"];
            let done =
                Command::new("git").args(named).args(words).current_dir(folder.path()).output().unwrap();
            assert!(done.status.success(), "{done:?}");
        };
        git(&["init", "-q"]);
        let (record, source) = (folder.path().join(RECORDS[1]), folder.path().join("a.rs"));
        std::fs::create_dir(folder.path().join("docs")).unwrap();
        for file in [&record, &source] {
            std::fs::write(file, "1").unwrap();
        }
        git(&["add", "."]);
        git(&["commit", "-q", "-m", "a"]);
        let clean = commit(folder.path()).unwrap();
        assert_eq!(clean.len(), 12);
        std::fs::write(&record, "2").unwrap();
        assert_eq!(commit(&folder.path().join("docs")).unwrap(), clean);
        std::fs::write(&source, "2").unwrap();
        assert_eq!(commit(folder.path()).unwrap(), clean + "+");
        assert!(commit(Path::new("/")).is_err());
    }
}
