//! A view of the host's files without the sockets of the host's programs: a mount namespace in which folders are empty but
//! for the process's own paths (mount_namespaces(7)). Landlock does not restrict connections to Unix sockets by path; a
//! path that is not there cannot be connected to.

use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

/// Folders in which programs of a host make sockets, or users keep files.
pub const HIDDEN: [&str; 8] = ["/run", "/tmp", "/var", "/home", "/root", "/srv", "/mnt", "/media"];

const NOTHING: Option<&str> = None;

/// Moves the process to a mount namespace in which `hidden` folders contain the `kept` paths only. Folders and paths that do
/// not exist are skipped.
///
/// # Errors
///
/// If the kernel refuses the namespace or a mount.
pub fn enter(hidden: &[PathBuf], kept: &[PathBuf]) -> io::Result<()> {
    unshare(CloneFlags::CLONE_NEWNS)?;
    // A file system that the host unmounts goes here too.
    mount(NOTHING, "/", NOTHING, MsFlags::MS_REC | MsFlags::MS_SLAVE, NOTHING)?;
    let hidden: Vec<PathBuf> = hidden.iter().filter_map(|folder| fs::canonicalize(folder).ok()).collect();
    let opened = opened(&hidden, kept)?;
    for folder in &hidden {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("none"), folder, Some("tmpfs"), flags, Some("mode=755,size=1m"))?;
    }
    for (path, file) in &opened {
        put_back(path, file)?;
    }
    Ok(())
}

/// Opens the kept paths in hidden folders, before the folders are hidden. A path that leads over links is kept under its
/// own name and under the name without links, because both are hidden. Paths below other paths come with those.
fn opened(hidden: &[PathBuf], kept: &[PathBuf]) -> io::Result<Vec<(PathBuf, OwnedFd)>> {
    let names = |path: &PathBuf| {
        let plain = fs::canonicalize(path).ok()?;
        Some([path.clone(), plain])
    };
    let is_named = |path: &PathBuf| {
        let is_plain = path.is_absolute() && path.components().all(|part| part != Component::ParentDir);
        is_plain && hidden.iter().any(|folder| path.starts_with(folder))
    };
    let mut paths: Vec<PathBuf> = kept.iter().filter_map(names).flatten().filter(is_named).collect();
    outermost(&mut paths);
    let opened = paths.into_iter().map(|path| {
        let file = open(&path, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
        Ok((path, file))
    });
    opened.collect()
}

/// Removes paths below other paths, and duplicates.
fn outermost(paths: &mut Vec<PathBuf>) {
    paths.sort();
    let mut last: Option<PathBuf> = None;
    paths.retain(|path| {
        let is_outer = last.as_ref().is_none_or(|outer| !path.starts_with(outer));
        if is_outer {
            last = Some(path.clone());
        }
        is_outer
    });
}

fn put_back(path: &Path, file: &OwnedFd) -> io::Result<()> {
    let source = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    if fs::metadata(&source)?.is_dir() {
        fs::create_dir_all(path)?;
    } else {
        path.parent().map(fs::create_dir_all).transpose()?;
        fs::write(path, "")?;
    }
    Ok(mount(Some(&source), path, NOTHING, MsFlags::MS_BIND | MsFlags::MS_REC, NOTHING)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_over_a_link_has_two_names() {
        let folder = tempfile::tempdir().expect("a folder");
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        fs::create_dir_all(target.join("inner")).expect("a folder");
        std::os::unix::fs::symlink(&target, &link).expect("a link");
        let inner = target.join("inner");
        let check = |path: PathBuf, expected: &[&PathBuf]| {
            let opened = opened(&[folder.path().into()], &[path]).expect("opened");
            assert!(opened.iter().map(|(name, _)| name).eq(expected.iter().copied()), "{opened:?}");
        };
        check(link.join("inner"), &[&link.join("inner"), &inner]);
        check(target.clone(), &[&target]);
        check(link.join("../target/inner"), &[&inner]);
        check("/usr".into(), &[]);
        check(target.join("missing"), &[]);
    }

    #[test]
    fn paths_below_others_come_with_those() {
        let mut paths: Vec<PathBuf> =
            ["/run/a/b", "/run/ab", "/run/a", "/run/a", "/run/a/c/d"].map(Into::into).into();
        outermost(&mut paths);
        assert_eq!(paths, ["/run/a", "/run/ab"].map(PathBuf::from));
    }
}
