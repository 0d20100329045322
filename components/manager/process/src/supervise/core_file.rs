//! Core files: the memory of a process that died by a signal. The kernel writes a core to the path of
//! `/proc/sys/kernel/core_pattern`, or pipes the core to a program (core(5)). With `SLUICE_CORES=1` components may
//! write cores, to their own folder if the pattern leaves the folder open; without the variable nothing in a
//! component's memory can be read, because the memory holds secrets.

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use sluice_process::{CORES, CORES_DIR};
use std::fs;
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::SystemTime;
use tracing::warn;

/// Cores that are kept.
const KEPT: usize = 3;
/// Signals by which the kernel writes a core (signal(7)).
const DUMPING: [i32; 10] = [3, 4, 5, 6, 7, 8, 11, 24, 25, 31];
/// Octets of a process's name that the kernel keeps (`TASK_COMM_LEN`, without the end).
const NAME: usize = 15;

/// The facts about a process that ended.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Its number.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The signal that ended the process.
    pub signal: i32,
    /// The host's name.
    pub host: &'a str,
    /// Its executable.
    pub executable: &'a str,
}

/// The destination of a core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Destination {
    /// A file; `*` stands for unknown parts. A relative path begins in the working folder of the process.
    File(String),
    /// To the standard input of this program.
    Program(String),
    /// Nowhere: the pattern is empty.
    Nowhere,
}

/// Returns the destination of a process's core by `/proc/sys/kernel/core_pattern`; `uses_pid` is `/proc/sys/kernel/core_uses_pid` (core(5),
/// "Naming of core dump files").
pub fn expand(pattern: &str, uses_pid: bool, facts: &Facts<'_>) -> Destination {
    let pattern = pattern.trim_end_matches('\n');
    if let Some(line) = pattern.strip_prefix('|') {
        // The line is cut into words before anything is put in for what stands in it.
        return Destination::Program(line.split_whitespace().next().unwrap_or_default().into());
    }
    let (mut out, mut has_pid) = (String::new(), false);
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let name = facts.executable.rsplit('/').next().unwrap_or_default();
        match rest.next() {
            None => {} // a single one at the end is dropped
            Some('%') => out.push('%'),
            Some('p') => {
                has_pid = true;
                out += &facts.pid.to_string();
            }
            Some('u') => out += &facts.uid.to_string(),
            Some('g') => out += &facts.gid.to_string(),
            Some('s') => out += &facts.signal.to_string(),
            Some('h') => out += facts.host,
            Some('e') => out += &name[..name.floor_char_boundary(NAME)],
            Some('f') => out += name,
            Some('E') => out += &facts.executable.replace('/', "!"),
            // Numbers that others see, times, threads, limits, processors.
            Some('P' | 'i' | 'I' | 't' | 'c' | 'C' | 'd' | 'F') => out.push('*'),
            Some(_) => {} // unknown ones are dropped
        }
    }
    if out.is_empty() {
        return Destination::Nowhere;
    }
    if uses_pid && !has_pid {
        out += &format!(".{}", facts.pid);
    }
    Destination::File(out)
}

/// Returns true if a name matches `pattern`, in which `*` is anything.
pub fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, tail)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut rest) = name.strip_prefix(head) else { return false };
    let mut pieces: Vec<&str> = tail.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

/// Returns the way to fetch a core that a program took.
fn how_to_fetch(program: &str, pid: u32) -> String {
    let name = program.rsplit('/').next().unwrap_or_default();
    match name {
        "systemd-coredump" => {
            format!("`coredumpctl info {pid}` shows it, `coredumpctl dump {pid} -o FILE` fetches it")
        }
        "apport" => {
            "it is in a report in /var/crash, from which `apport-unpack REPORT FOLDER` fetches it".into()
        }
        "abrt-hook-ccpp" => "`abrt-cli list` shows where it is".into(),
        _ => "see that program's documentation for where it puts it".into(),
    }
}

/// The cores of a router's components.
pub struct Cores {
    /// The folder of cores, if cores are written.
    folder: Option<PathBuf>,
}

impl Cores {
    /// Returns the folder of cores in the state folder, if the environment enables cores of components.
    pub fn folder(state_dir: &Path) -> Option<PathBuf> {
        let wanted = std::env::var(CORES).as_deref() == Ok("1");
        wanted.then(|| std::path::absolute(state_dir).unwrap_or_else(|_| state_dir.into()).join("cores"))
    }

    /// Prepares the folder of cores, if there is one; `have_users` is true if components have users of their own. An
    /// obstacle to cores is logged, and the router runs without cores.
    pub fn prepare(folder: Option<PathBuf>, have_users: bool) -> Self {
        let Some(folder) = folder else { return Cores { folder: None } };
        if let Err(error) = open(&folder, have_users) {
            warn!(
                event = "process.cores-unwritable",
                reason = %error,
                "cores cannot be written to {}: {error}; mend that and start the router anew, it runs without",
                folder.display()
            );
        }
        Cores { folder: Some(folder) }
    }

    /// Returns the environment variables of a component's process.
    pub fn environment(&self) -> Vec<(&'static str, PathBuf)> {
        let folder = self.folder.iter().map(|folder| (CORES_DIR, folder.clone()));
        self.folder.iter().map(|_| (CORES, "1".into())).chain(folder).collect()
    }

    /// Describes the end of a process of `class` and of a user, with the place of its core.
    pub fn end_in_words(
        &self,
        status: ExitStatus,
        class: &str,
        (pid, user): (u32, u32),
        executable: &Path,
    ) -> String {
        match status.signal() {
            Some(signal) if DUMPING.contains(&signal) => {
                format!("{status}; {}", self.place(status, signal, class, (pid, user), executable))
            }
            _ => status.to_string(),
        }
    }

    fn place(
        &self,
        status: ExitStatus,
        signal: i32,
        class: &str,
        (pid, user): (u32, u32),
        executable: &Path,
    ) -> String {
        let Some(folder) = self.folder.as_deref() else {
            return match status.core_dumped() {
                true => {
                    "there is a core, which the router did not ask for: see /proc/sys/kernel/core_pattern"
                        .into()
                }
                false => format!("no core, as cores are off: start the router with {CORES}=1 to have them"),
            };
        };
        if !status.core_dumped() {
            return format!(
                "no core, though {CORES}=1: see the hard limit (`ulimit -Hc`), /proc/sys/kernel/core_pattern, and the space and rights in {}",
                folder.display()
            );
        }
        let read = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).unwrap_or_default();
        let executable = executable.to_string_lossy();
        let host = read("hostname");
        let facts = Facts { pid, uid: user, gid: user, signal, host: host.trim(), executable: &executable };
        match expand(&read("core_pattern"), read("core_uses_pid").trim() == "1", &facts) {
            Destination::Program(program) => {
                format!("its core went to {program}: {}", how_to_fetch(&program, pid))
            }
            Destination::Nowhere => "its core went nowhere".into(),
            Destination::File(file) if file.starts_with('/') => match newest(Path::new(&file)) {
                Some(found) => format!("core: {}", found.display()),
                None => format!("core: {file}"),
            },
            Destination::File(file) => {
                match newest(&folder.join(&file)).and_then(|f| keep(folder, &f, class, pid)) {
                    Some(kept) => format!("core: {}", kept.display()),
                    None => format!("core: {}", folder.join(file).display()),
                }
            }
        }
    }
}

/// Makes the folder and lets components write there; allows cores of any size for the process's children.
fn open(folder: &Path, have_users: bool) -> io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::set_permissions(folder, fs::Permissions::from_mode(0o1777))?;
    let (_, hard) = getrlimit(Resource::RLIMIT_CORE)?;
    setrlimit(Resource::RLIMIT_CORE, hard, hard)?;
    if hard == 0 {
        return Err(io::Error::other("the hard limit for cores is 0 (`ulimit -Hc`, LimitCORE= of the unit)"));
    }
    if !have_users {
        return Ok(());
    }
    let closed = folder.ancestors().find(|f| fs::metadata(f).is_ok_and(|m| m.mode() & 0o001 == 0));
    match closed {
        Some(closed) => Err(io::Error::other(format!(
            "components may not pass {} (`chmod o+x {0}` lets them)",
            closed.display()
        ))),
        None => Ok(()),
    }
}

/// Returns the newest file matching a path with `*` in its last part.
fn newest(path: &Path) -> Option<PathBuf> {
    let pattern = path.file_name()?.to_str()?;
    let entries = fs::read_dir(path.parent()?).ok()?.filter_map(Result::ok);
    let fitting = entries.filter(|e| e.file_name().to_str().is_some_and(|name| matches(pattern, name)));
    fitting.max_by_key(changed).map(|e| e.path())
}

fn changed(entry: &fs::DirEntry) -> SystemTime {
    // Not that of what a link leads to: other users can write here.
    entry.metadata().and_then(|m| m.modified()).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Gives a core a unique name, and removes the oldest cores.
fn keep(folder: &Path, found: &Path, class: &str, pid: u32) -> Option<PathBuf> {
    let kept = folder.join(format!("{class}-{pid}.core"));
    fs::rename(found, &kept).ok()?;
    let mut all: Vec<fs::DirEntry> = fs::read_dir(folder).ok()?.filter_map(Result::ok).collect();
    all.sort_by_key(|entry| std::cmp::Reverse(changed(entry)));
    for old in all.iter().skip(KEPT) {
        let _ = fs::remove_file(old.path()); // it takes space and nothing else
    }
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: Facts<'static> = Facts {
        pid: 4711,
        uid: 65534,
        gid: 65533,
        signal: 11,
        host: "edge1",
        executable: "/usr/lib/sluice/a-long-component-name",
    };

    fn check(pattern: &str, uses_pid: bool, expected: &str) {
        let destination = expand(pattern, uses_pid, &FACTS);
        assert_eq!(destination, Destination::File(expected.into()), "{pattern}");
    }

    #[test]
    fn patterns_expand_as_the_kernel_does_it() {
        check("core\n", false, "core");
        check("core\n", true, "core.4711");
        check("core.%p", true, "core.4711");
        check("/var/cores/%e.%p.%t", false, "/var/cores/a-long-componen.4711.*");
        check("%f-%s-%u-%g-%h", false, "a-long-component-name-11-65534-65533-edge1");
        check("%E", false, "!usr!lib!sluice!a-long-component-name");
        check("a%%b%", false, "a%b");
        check("a%zb", false, "ab");
        check("c.%P.%i.%I.%c.%C.%d", false, "c.*.*.*.*.*.*");
        for nowhere in ["", "\n", "%", "%z"] {
            assert_eq!(expand(nowhere, true, &FACTS), Destination::Nowhere, "{nowhere}");
        }
        let program =
            |line, name: &str| assert_eq!(expand(line, false, &FACTS), Destination::Program(name.into()));
        program("|/usr/lib/systemd/systemd-coredump %P %u %g %s %t", "/usr/lib/systemd/systemd-coredump");
        program("|/usr/share/apport/apport -p%p", "/usr/share/apport/apport");
        program("|", "");
    }

    #[test]
    fn stars_stand_for_anything() {
        for (pattern, name, fits) in [
            ("core", "core", true),
            ("core", "core.1", false),
            ("core.*", "core.1", true),
            ("*.core", "x.core", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
    }

    #[test]
    fn programs_that_take_cores_are_known() {
        assert!(how_to_fetch("/usr/lib/systemd/systemd-coredump", 7).contains("coredumpctl info 7"));
        assert!(how_to_fetch("/usr/share/apport/apport", 7).contains("/var/crash"));
        assert!(how_to_fetch("/opt/own", 7).contains("documentation"));
    }

    #[test]
    fn the_newest_three_are_kept() {
        let folder = tempfile::tempdir().unwrap();
        let mut place = None;
        for pid in 1..=5 {
            let found = folder.path().join("core");
            let file = fs::File::create(&found).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(pid)).unwrap();
            assert_eq!(newest(&folder.path().join("c*e")).as_deref(), Some(found.as_path()));
            place = keep(folder.path(), &found, "bgp", pid as u32);
        }
        assert_eq!(place, Some(folder.path().join("bgp-5.core")));
        let mut left: Vec<String> = fs::read_dir(folder.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["bgp-3.core", "bgp-4.core", "bgp-5.core"]);
    }

    #[test]
    fn an_end_states_how_to_get_a_core() {
        let off = Cores { folder: None };
        let words = |raw| off.end_in_words(ExitStatus::from_raw(raw), "bgp", (1, 0), Path::new("/bin/x"));
        assert_eq!(words(9), "signal: 9 (SIGKILL)");
        assert_eq!(words(256), "exit status: 1");
        assert!(
            words(11)
                .ends_with("no core, as cores are off: start the router with SLUICE_CORES=1 to have them")
        );
        let folder = tempfile::tempdir().unwrap();
        let on = Cores { folder: Some(folder.path().into()) };
        let words = on.end_in_words(ExitStatus::from_raw(11), "bgp", (1, 0), Path::new("/bin/x"));
        assert!(words.contains("ulimit -Hc"), "{words}");
    }
}
