//! Control groups (cgroups(7)): bounds on the memory, the processor share and the number of processes of a component.
//!
//! Version 2 is used where the manager may hand its controllers down (the unit of systemd has `Delegate=yes`), else the
//! hierarchies of version 1. The groups of a router are below the manager's own group: `GROUP/ROUTER/COMPONENT`.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The period over which the processor share is bounded, in microseconds.
const PERIOD: u64 = 100_000;

/// The controllers that bound a component.
const CONTROLLERS: [&str; 3] = ["memory", "cpu", "pids"];

/// Bounds on a group; `None` bounds nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Bounds {
    /// Octets of memory.
    pub memory: Option<u64>,
    /// Percent of one processor.
    pub processor: Option<u32>,
    /// Processes and threads.
    pub processes: Option<u32>,
}

/// The control groups of a router's components.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Groups {
    version: Version,
    /// The folder of the router's groups by controller; one folder under three names in version 2.
    folders: BTreeMap<&'static str, PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    One,
    Two,
}

/// The reason why a router has no control groups.
#[derive(Debug, Error)]
pub enum GroupsError {
    /// Version 2 is not mounted.
    #[error("version 2 is not mounted")]
    NotMounted,
    /// Version 2 lacks a controller.
    #[error("version 2 has no controller `{0}` here")]
    Controller(&'static str),
    /// Other processes are in the manager's group, so that the group cannot be divided.
    #[error("version 2 is not delegated: other processes are in the manager's group")]
    Shared,
    /// The kernel refuses to divide the manager's group.
    #[error("version 2 is not delegated: {0}")]
    Refused(#[from] io::Error),
    /// Neither version can be used; the reason of version 2.
    #[error("{0}, and the hierarchies of version 1 cannot be written")]
    Neither(Box<GroupsError>),
}

/// A file of a group and the value to be written.
type Setting = (&'static str, &'static str, String);

impl Groups {
    /// Makes the groups of a router below the group of the calling process. `router` is a name that no other router of
    /// the host has.
    ///
    /// # Errors
    ///
    /// If neither version can be used; the reason names what is missing.
    pub fn prepare(router: &str) -> Result<Self, GroupsError> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let second = unified(&mounts, &own).ok_or(GroupsError::NotMounted);
        match second.and_then(|folder| delegate(&folder, router)) {
            Ok(folder) => {
                let folders = CONTROLLERS.iter().map(|controller| (*controller, folder.clone())).collect();
                Ok(Groups { version: Version::Two, folders })
            }
            Err(second) => {
                let mut folders = BTreeMap::new();
                for controller in CONTROLLERS {
                    let folder = hierarchy(&mounts, &own, controller).map(|group| group.join(router));
                    let made = folder.filter(|folder| make(folder).is_ok());
                    folders.extend(made.map(|folder| (controller, folder)));
                }
                match folders.is_empty() {
                    true => Err(GroupsError::Neither(Box::new(second))),
                    false => Ok(Groups { version: Version::One, folders }),
                }
            }
        }
    }

    /// Returns the controllers that the host does not offer.
    pub fn missing(&self) -> Vec<&'static str> {
        CONTROLLERS.into_iter().filter(|controller| !self.folders.contains_key(controller)).collect()
    }

    /// Makes the group of a component and sets its bounds. Returns the files at which the component's process enters.
    ///
    /// # Errors
    ///
    /// If the kernel refuses the group or a bound.
    pub fn make(&self, component: &str, bounds: &Bounds) -> io::Result<Vec<PathBuf>> {
        let settings = settings(self.version, bounds);
        // A hierarchy of version 1 that bounds nothing would only cost accounting.
        let is_needed = |controller: &str| {
            self.version == Version::Two || settings.iter().any(|(needs, ..)| *needs == controller)
        };
        let needed: BTreeMap<_, _> =
            self.folders.iter().filter(|(controller, _)| is_needed(controller)).collect();
        for folder in needed.values() {
            make(&folder.join(component))?;
        }
        for (controller, file, value) in &settings {
            if let Some(folder) = needed.get(controller) {
                let path = folder.join(component).join(file);
                let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
                fs::write(&path, value).map_err(named)?;
            }
        }
        let mut entries: Vec<PathBuf> =
            needed.values().map(|folder| folder.join(component).join("cgroup.procs")).collect();
        entries.dedup();
        Ok(entries)
    }

    /// Removes the group of a component without processes.
    pub fn remove(&self, component: &str) {
        for folder in self.folders.values() {
            // A group that still has processes stays, and is used again.
            let _ = fs::remove_dir(folder.join(component));
        }
    }

    /// Removes the groups of the router, once the groups of all components are removed.
    pub fn remove_all(&self) {
        for folder in self.folders.values() {
            for entry in fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok) {
                let _ = fs::remove_dir(entry.path());
            }
            let _ = fs::remove_dir(folder);
        }
    }

    /// Returns the bounds of a component's group by the kernel's word, in words, and the number of processes that the
    /// kernel killed for memory.
    pub fn observed(&self, component: &str) -> GroupReport {
        let read = |controller: &str, file: &str| {
            let path = self.folders.get(controller)?.join(component).join(file);
            fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
        };
        match self.version {
            Version::One => GroupReport {
                memory: read("memory", "memory.limit_in_bytes").and_then(|text| bounded(&text)),
                processor: percent(
                    read("cpu", "cpu.cfs_quota_us").as_deref(),
                    read("cpu", "cpu.cfs_period_us").as_deref(),
                ),
                processes: read("pids", "pids.max").and_then(|text| bounded(&text)),
                killed: count(&read("memory", "memory.oom_control").unwrap_or_default(), "oom_kill"),
            },
            Version::Two => {
                let max = read("cpu", "cpu.max").unwrap_or_default();
                let mut words = max.split(' ');
                GroupReport {
                    memory: read("memory", "memory.max").and_then(|text| bounded(&text)),
                    processor: percent(words.next(), words.next()),
                    processes: read("pids", "pids.max").and_then(|text| bounded(&text)),
                    killed: count(&read("memory", "memory.events").unwrap_or_default(), "oom_kill"),
                }
            }
        }
    }
}

/// The kernel's report on a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GroupReport {
    /// Octets of memory; `None` without a bound.
    pub memory: Option<u64>,
    /// Percent of one processor; `None` without a bound.
    pub processor: Option<u64>,
    /// Processes and threads; `None` without a bound.
    pub processes: Option<u64>,
    /// Processes that the kernel ended because of the memory's bound.
    pub killed: u64,
}

/// Returns the files to write for bounds.
fn settings(version: Version, bounds: &Bounds) -> Vec<Setting> {
    let mut settings = Vec::new();
    let quota = bounds.processor.map(|percent| PERIOD * u64::from(percent) / 100);
    match version {
        Version::One => {
            settings
                .extend(bounds.memory.map(|octets| ("memory", "memory.limit_in_bytes", octets.to_string())));
            if let Some(quota) = quota {
                settings.push(("cpu", "cpu.cfs_period_us", PERIOD.to_string()));
                settings.push(("cpu", "cpu.cfs_quota_us", quota.to_string()));
            }
        }
        Version::Two => {
            settings.extend(bounds.memory.map(|octets| ("memory", "memory.max", octets.to_string())));
            settings.extend(quota.map(|quota| ("cpu", "cpu.max", format!("{quota} {PERIOD}"))));
        }
    }
    settings.extend(bounds.processes.map(|processes| ("pids", "pids.max", processes.to_string())));
    settings
}

/// Makes a folder; one that exists is used.
fn make(folder: &Path) -> io::Result<()> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Returns the folder of the own group in the hierarchy of a controller of version 1.
fn hierarchy(mounts: &str, own: &str, controller: &str) -> Option<PathBuf> {
    let has = |list: &str| list.split(',').any(|name| name == controller);
    let mount = mounts.lines().filter_map(Mount::parse).find(|m| m.kind == "cgroup" && has(m.options))?;
    let path = own.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next()?, fields.next()?, fields.next()?);
        has(controllers).then_some(path)
    })?;
    Some(mount.folder_of(path))
}

/// Returns the folder of the own group of version 2.
fn unified(mounts: &str, own: &str) -> Option<PathBuf> {
    let mount = mounts.lines().filter_map(Mount::parse).find(|m| m.kind == "cgroup2")?;
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    Some(mount.folder_of(path))
}

/// A line of `/proc/self/mountinfo` (proc(5)).
struct Mount<'a> {
    root: &'a str,
    point: &'a str,
    kind: &'a str,
    options: &'a str,
}

impl<'a> Mount<'a> {
    fn parse(line: &'a str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(3);
        let mut after = after.split(' ');
        Some(Mount {
            root: before.next()?,
            point: before.next()?,
            kind: after.next()?,
            options: after.nth(1)?,
        })
    }

    /// Returns the folder of a group, whose path counts from the hierarchy's root, which may not be the mount's.
    fn folder_of(&self, path: &str) -> PathBuf {
        let below = path.strip_prefix(self.root.trim_end_matches('/')).unwrap_or(path);
        Path::new(self.point).join(below.trim_start_matches('/'))
    }
}

/// Hands the controllers of a group of version 2 down to the router's group. The manager moves into a group of its own,
/// because a group with controllers of its own cannot have processes (cgroups(7), "no internal processes").
fn delegate(own: &Path, router: &str) -> Result<PathBuf, GroupsError> {
    // A manager started anew is in its group already.
    let top = if own.ends_with("manager") { own.parent().unwrap_or(own) } else { own };
    let read = |file: &str| fs::read_to_string(top.join(file)).unwrap_or_default();
    let offered = read("cgroup.controllers");
    let lacks = |controller: &&str| !offered.split_whitespace().any(|name| name == *controller);
    if let Some(controller) = CONTROLLERS.iter().find(|controller| lacks(controller)) {
        return Err(GroupsError::Controller(controller));
    }
    let others = read("cgroup.procs").lines().filter(|pid| *pid != std::process::id().to_string()).count();
    if others > 0 {
        return Err(GroupsError::Shared);
    }
    let manager = top.join("manager");
    make(&manager)?;
    fs::write(manager.join("cgroup.procs"), "0")?;
    let router = top.join(router);
    make(&router)?;
    for folder in [top, &router] {
        fs::write(folder.join("cgroup.subtree_control"), "+memory +cpu +pids")?;
    }
    Ok(router)
}

/// Reads a bound; `None` without one. Version 1 has no word for "without" in the memory's: a number near the largest.
fn bounded(text: &str) -> Option<u64> {
    text.parse().ok().filter(|octets| *octets < 1 << 62)
}

fn percent(quota: Option<&str>, period: Option<&str>) -> Option<u64> {
    let (quota, period): (u64, u64) = (quota?.parse().ok()?, period?.parse().ok()?);
    (quota * 100).checked_div(period)
}

/// Reads a counter of a file of lines `NAME NUMBER`.
fn count(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "\
        25 22 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n\
        26 25 0:23 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n\
        27 25 0:24 /docker/x /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n\
        28 25 0:25 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn groups_are_found_in_every_mount() {
        let own = "5:cpu,cpuacct:/user.slice\n4:memory:/docker/x/y\n0::/user.slice\n";
        let of = |controller| hierarchy(MOUNTS, own, controller);
        assert_eq!(of("cpu"), Some("/sys/fs/cgroup/cpu/user.slice".into()));
        assert_eq!(of("memory"), Some("/sys/fs/cgroup/memory/y".into()));
        assert_eq!(of("pids"), None);
        assert_eq!(unified(MOUNTS, own), Some("/sys/fs/cgroup/unified/user.slice".into()));
        assert_eq!(unified("nonsense\n - \n", "0:"), None);
    }

    #[test]
    fn bounds_become_files_of_either_version() {
        let bounds = Bounds { memory: Some(1 << 20), processor: Some(25), processes: Some(32) };
        let first = settings(Version::One, &bounds);
        assert!(first.contains(&("cpu", "cpu.cfs_quota_us", "25000".into())));
        assert!(first.contains(&("memory", "memory.limit_in_bytes", "1048576".into())));
        let second = settings(Version::Two, &bounds);
        assert_eq!(
            second,
            [
                ("memory", "memory.max", "1048576".into()),
                ("cpu", "cpu.max", "25000 100000".into()),
                ("pids", "pids.max", "32".into())
            ]
        );
    }

    #[test]
    fn a_group_of_version_two_is_handed_down_only_if_it_is_the_managers_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |file: &str, text: &str| fs::write(folder.path().join(file), text).expect("written");
        write("cgroup.controllers", "hugetlb\n");
        assert!(delegate(folder.path(), "r").expect_err("no controller").to_string().contains("`memory`"));
        write("cgroup.controllers", "cpu memory pids\n");
        write("cgroup.procs", "1\n");
        assert!(delegate(folder.path(), "r").expect_err("others").to_string().contains("other processes"));
        write("cgroup.procs", &format!("{}\n", std::process::id()));
        let router = delegate(folder.path(), "r").expect("delegated");
        assert_eq!(
            fs::read_to_string(router.join("cgroup.subtree_control")).ok().as_deref(),
            Some("+memory +cpu +pids")
        );
        // The next manager begins in the group that this one moved to.
        assert_eq!(delegate(&folder.path().join("manager"), "r").ok(), Some(router));
    }

    #[test]
    fn the_kernels_words_are_read() {
        assert_eq!(bounded("9223372036854771712"), None);
        assert_eq!(bounded("max"), None);
        assert_eq!(bounded("268435456"), Some(268_435_456));
        assert_eq!(percent(Some("25000"), Some("100000")), Some(25));
        assert_eq!(percent(Some("-1"), Some("100000")), None);
        assert_eq!(percent(Some("1"), Some("0")), None);
        assert_eq!(count("low 0\noom_kill 3\n", "oom_kill"), 3);
    }
}
