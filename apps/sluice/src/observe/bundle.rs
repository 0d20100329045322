//! `sluice support-bundle`: the data needed to investigate a problem, in a single file, without secrets.

use crate::command_line::front;
use crate::commands;
use crate::components::COMMANDS;
use crate::connection::session::Session;
use crate::doctor;
use crate::output::{Failure, Output, Wanted};
use serde_json::{Value, json};
use sluice_cli::{Values, render, split};
use std::cell::RefCell;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Commands of the operational mode whose output goes in, with the file's name.
const SHOWN: [(&str, &str); 12] = [
    ("show version", "version.json"),
    ("show processes", "processes.json"),
    ("show memory", "memory.json"),
    ("show interfaces", "interfaces.json"),
    ("show summary", "summary.json"),
    ("show metrics", "metrics.json"),
    ("show targets", "targets.json"),
    ("show packages", "packages.json"),
    ("show revisions", "revisions.json"),
    ("show configuration", "configuration.conf"),
    ("show routes limit 1000", "routes-first-1000.json"),
    ("show events last 4096", "events.json"),
];

/// Programs that print the kernel's state; some may be missing.
const KERNEL: [(&str, &str); 8] = [
    ("ip -details address", "kernel-addresses.txt"),
    ("ip -statistics link", "kernel-links.txt"),
    ("ip rule", "kernel-rules.txt"),
    ("ip -6 rule", "kernel-rules-ipv6.txt"),
    ("ip route show table all", "kernel-routes.txt"),
    ("ip -6 route show table all", "kernel-routes-ipv6.txt"),
    ("ip nexthop", "kernel-nexthops.txt"),
    ("ss -tlnp", "listeners.txt"),
];

/// The most octets of a command's output.
const MOST: usize = 4 << 20;

/// Returns a program's output, at most [`MOST`].
fn run_program(line: &str) -> String {
    let mut words = line.split(' ');
    let child = Command::new(words.next().unwrap_or_default())
        .args(words)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut child) = child else { return format!("`{line}` cannot be run here\n") };
    let mut text = Vec::new();
    if let Some(out) = child.stdout.take() {
        // What was read before an error is what there is.
        let _ = std::io::Read::read_to_end(&mut std::io::Read::take(out, MOST as u64), &mut text);
    }
    // A program with more output than is kept stops at its closed output.
    let _ = child.wait();
    String::from_utf8_lossy(&text).into_owned()
}

/// A buffer to write to and read afterward.
#[derive(Clone, Default)]
struct Memory(Rc<RefCell<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, octets: &[u8]) -> std::io::Result<usize> {
        let mut all = self.0.borrow_mut();
        let room = MOST.saturating_sub(all.len()).min(octets.len());
        all.extend_from_slice(&octets[..room]);
        Ok(octets.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Returns a command's output, or its error.
async fn printed(session: &Session, text: &str, as_json: bool) -> String {
    let memory = Memory::default();
    let wanted = Wanted { json: as_json, no_pager: true, no_color: true, quiet: true };
    let mut out = Output::into_sink(wanted, Box::new(memory.clone()));
    let grammar = front::grammar();
    let done = match grammar.read(&split(text).texts()) {
        Ok(read) => Box::pin(commands::run(session, &read, &mut out)).await,
        Err(error) => Err(Failure::usage(error)),
    };
    if let Err(failure) = done {
        match as_json {
            true => out.fail(&failure),
            false => out.line(&failure.text()),
        }
    }
    out.close();
    let text = memory.0.borrow();
    String::from_utf8_lossy(&text).into_owned()
}

/// Removes apparent secrets: the router hides its own secrets, so the filter is for text written by operators and
/// foreign programs.
fn redacted(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    for line in text.lines() {
        let lower = line.to_lowercase();
        let found = ["password", "passphrase", "secret", "private-key"].iter().find_map(|s| {
            let at = lower.find(s)?;
            Some(at + s.len())
        });
        match found.and_then(|end| line.get(..end)) {
            Some(before) if line.len() > before.len() + 1 => {
                lines.push_str(before);
                lines.push_str(" (hidden)");
                lines.push_str(if line.trim_end().ends_with(';') { ";" } else { "" });
                lines.push_str(if line.trim_end().ends_with(',') { "," } else { "" });
            }
            _ => lines.push_str(line),
        }
        lines.push('\n');
    }
    lines
}

fn name() -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let time: String = render::time(now * 1000).chars().take(19).filter(|c| !"-:".contains(*c)).collect();
    format!("sluice-support-{time}Z")
}

/// Collects the files, writes the bundle, and lists its content.
pub async fn run(session: &Session, values: &Values, out: &mut Output) -> Result<(), Failure> {
    let name = name();
    let file = values.text("into").map_or_else(|| PathBuf::from(format!("{name}.tar.gz")), PathBuf::from);
    let mut entries: Vec<(String, String)> = Vec::new();
    let findings = doctor::value(&doctor::findings(session).await);
    entries.push(("doctor.json".into(), format!("{findings:#}\n")));
    let platform = SHOWN.iter().map(|(command, file)| (*command, (*file).to_string()));
    let of_components = COMMANDS.iter().flat_map(|(_, own)| own.bundled);
    let named = of_components.map(|command| {
        let words = command.strip_prefix("show ").unwrap_or(command);
        (*command, format!("{}.json", words.replace(' ', "-")))
    });
    for (command, file) in platform.chain(named) {
        // The connection is refused at once where no router runs.
        let text = printed(session, command, file.ends_with(".json")).await;
        entries.push((file, text));
    }
    for (line, file) in KERNEL {
        entries.push((file.into(), run_program(line)));
    }
    entries.push(("host.txt".into(), run_program("uname -a")));
    for entry in &mut entries {
        entry.1 = redacted(&entry.1);
    }
    write_archive(&file, &name, &entries)?;
    let shown = file.display().to_string();
    if out.is_json() {
        let files: Vec<Value> =
            entries.iter().map(|(name, text)| json!({ "name": name, "bytes": text.len() })).collect();
        out.json(&json!({ "file": shown, "files": files }));
        return Ok(());
    }
    out.line(&format!("{shown}:"));
    for (name, text) in &entries {
        out.line(&format!("  {name:<28} {}", render::bytes(text.len() as u64)));
    }
    out.line("passwords and secrets are left out; look through it before you give it away");
    Ok(())
}

/// Writes a tar archive through gzip. Only the owner may read the file.
fn write_archive(file: &Path, folder: &str, entries: &[(String, String)]) -> Result<(), Failure> {
    let wrong = |e: std::io::Error| Failure::io(&file.display().to_string(), &e);
    let target = std::fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(file);
    let target = target.map_err(wrong)?;
    let mut gzip = Command::new("gzip").stdin(Stdio::piped()).stdout(target).spawn().map_err(wrong)?;
    let written = gzip.stdin.take().map_or(Ok(()), |mut pipe| {
        for (name, text) in entries {
            pipe.write_all(&tar_header(&format!("{folder}/{name}"), text.len()))?;
            pipe.write_all(text.as_bytes())?;
            pipe.write_all(&vec![0; text.len().next_multiple_of(512) - text.len()])?;
        }
        pipe.write_all(&[0; 1024])
    });
    written.map_err(wrong)?;
    match gzip.wait().map_err(wrong)?.success() {
        true => Ok(()),
        false => Err(Failure::failed(format!("{}: gzip failed", file.display()))),
    }
}

/// The header of a file in a tar archive (POSIX.1, pax, "ustar Interchange Format").
fn tar_header(name: &str, size: usize) -> [u8; 512] {
    let mut header = [0; 512];
    let mut put = |at: usize, text: &str| header[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000600\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{size:011o}\0"));
    put(136, "00000000000\0");
    // The checksum counts as blanks while it is made.
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = header.iter().map(|o| u32::from(*o)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_out() {
        let text = "  password \"hunter2\";\nneighbor 192.0.2.1\n\"md5_password\": \"x\",\n";
        let text = redacted(text);
        assert!(!text.contains("hunter2") && !text.contains("\"x\""), "{text}");
        assert!(text.contains("neighbor 192.0.2.1\n"));
    }

    #[test]
    fn a_bundle_can_be_unpacked() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.tar.gz");
        let entries = [("a.txt".to_string(), "hello\n".to_string()), ("b".to_string(), "x".repeat(1000))];
        write_archive(&file, "top", &entries).unwrap();
        let unpacked = Command::new("tar").arg("-xzf").arg(&file).arg("-C").arg(folder.path()).status();
        assert!(unpacked.unwrap().success());
        assert_eq!(std::fs::read_to_string(folder.path().join("top/a.txt")).unwrap(), "hello\n");
        assert_eq!(std::fs::read(folder.path().join("top/b")).unwrap().len(), 1000);
    }
}
