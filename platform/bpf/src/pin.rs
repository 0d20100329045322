//! Pins: programs, maps and links below a folder on a bpffs, so that forwarding goes on while no process of ours runs.
//!
//! A bpffs holds BPF objects, folders and symbolic links, but no files. The records beside the pins are therefore symbolic
//! links to nowhere whose target is the record: the version of the layouts, the hash of each program, the hook of each
//! link. Records end with the pins when the bpffs is unmounted.

use crate::layout::LAYOUT_VERSION;
use crate::{BpfError, Link, Loaded, Mode, ffi};
use nix::mount::{MsFlags, mount};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// `BPF_FS_MAGIC`.
const BPF_FS: i64 = 0xcafe_4a11;

/// A folder of pins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pins {
    folder: PathBuf,
}

impl Pins {
    /// Mounts a bpffs on `mount_point` unless one is mounted there. The folder is made if it does not exist.
    ///
    /// # Errors
    ///
    /// If the folder cannot be made, or the kernel does not let this process mount a bpffs.
    pub fn mount(mount_point: &Path) -> Result<(), BpfError> {
        let at = |source| BpfError::Pin { path: mount_point.into(), source };
        fs::create_dir_all(mount_point).map_err(at)?;
        if is_bpffs(mount_point).map_err(at)? {
            return Ok(());
        }
        let none: Option<&str> = None;
        mount(
            Some("bpf"),
            mount_point,
            Some("bpf"),
            MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
            none,
        )
        .map_err(|error| BpfError::NotAvailable {
            feature: "bpffs",
            because: format!("it cannot be mounted on {}: {error}", mount_point.display()),
        })
    }

    /// Opens the folder of pins `folder`, and makes it if it does not exist.
    ///
    /// # Errors
    ///
    /// If the folder is not on a bpffs, or has pins of another version of the layouts.
    pub fn open(folder: &Path) -> Result<Self, BpfError> {
        let at = |source| BpfError::Pin { path: folder.into(), source };
        let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(folder);
        if !is_bpffs(existing).map_err(at)? {
            return Err(BpfError::NotAvailable {
                feature: "bpffs",
                because: format!("{} is on no bpffs; `mount -t bpf bpf FOLDER` makes one", folder.display()),
            });
        }
        for kind in ["maps", "programs", "links"] {
            fs::create_dir_all(folder.join(kind)).map_err(at)?;
        }
        let pins = Pins { folder: folder.into() };
        let expected = LAYOUT_VERSION.to_string();
        match pins.record(Path::new("layout"))? {
            None => pins.set_record(Path::new("layout"), &expected)?,
            Some(found) if found == expected => {}
            Some(found) => {
                return Err(BpfError::Layout { path: folder.into(), found, expected: LAYOUT_VERSION });
            }
        }
        Ok(pins)
    }

    /// Opens a folder of pins of any version of the layouts; `None` if it does not exist. Its links can be taken over, and
    /// the folder can be removed.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read, or is not on a bpffs.
    pub fn open_old(folder: &Path) -> Result<Option<Self>, BpfError> {
        let at = |source| BpfError::Pin { path: folder.into(), source };
        if !folder.try_exists().map_err(at)? {
            return Ok(None);
        }
        if !is_bpffs(folder).map_err(at)? {
            return Err(BpfError::NotAvailable {
                feature: "bpffs",
                because: format!("{} is on no bpffs", folder.display()),
            });
        }
        Ok(Some(Pins { folder: folder.into() }))
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of a map's pin, for [`crate::Loader::share`].
    pub fn map_path(&self, map: &str) -> PathBuf {
        self.folder.join("maps").join(escape(map))
    }

    /// Opens a pinned map; `None` if it is not pinned.
    ///
    /// # Errors
    ///
    /// If the pin cannot be opened.
    pub fn map(&self, map: &str) -> Result<Option<OwnedFd>, BpfError> {
        opened(&self.map_path(map))
    }

    /// Pins a map under `name`, in the place of one that was pinned under that name.
    ///
    /// # Errors
    ///
    /// If the pin cannot be made.
    pub fn pin_map(&self, name: &str, map: BorrowedFd<'_>) -> Result<(), BpfError> {
        self.pin(&Path::new("maps").join(escape(name)), map)
    }

    /// Pins a program under `name`, in the place of one that was pinned under that name.
    ///
    /// # Errors
    ///
    /// If the pin or its record cannot be made.
    pub fn pin_program(&self, name: &str, program: &Loaded) -> Result<(), BpfError> {
        let name = Path::new("programs").join(escape(name));
        self.pin(&name, program.program())?;
        self.set_record(&beside(&name), program.hash())
    }

    /// Opens the program pinned under `name`; `None` if none is pinned.
    ///
    /// # Errors
    ///
    /// If the program has another hash than `hash`: it was compiled from other sources or has other constants.
    pub fn program(&self, name: &str, hash: &str) -> Result<Option<OwnedFd>, BpfError> {
        let relative = Path::new("programs").join(escape(name));
        let path = self.folder.join(&relative);
        let Some(fd) = opened(&path)? else { return Ok(None) };
        let found = self.record(&beside(&relative))?.unwrap_or_else(|| "unknown".into());
        if found != hash {
            return Err(BpfError::Program { path, found, expected: hash.into() });
        }
        Ok(Some(fd))
    }

    /// Pins a link under its interface's name. The program stays attached after this process has ended.
    ///
    /// # Errors
    ///
    /// If the pin or its record cannot be made.
    pub fn pin_link(&self, link: &Link) -> Result<(), BpfError> {
        let name = Path::new("links").join(escape(link.interface()));
        self.pin(&name, link.as_fd())?;
        let mode = match link.mode() {
            Mode::Native => "native".into(),
            Mode::Generic { because } => format!("generic {because}"),
        };
        self.set_record(&beside(&name), &mode)
    }

    /// Takes up the pinned link of an interface; `None` if none is pinned, or its interface was removed meanwhile.
    ///
    /// # Errors
    ///
    /// If the pin cannot be opened.
    pub fn link(&self, interface: &str) -> Result<Option<Link>, BpfError> {
        let name = Path::new("links").join(escape(interface));
        let Some(fd) = opened(&self.folder.join(&name))? else { return Ok(None) };
        let mode = match self.record(&beside(&name))?.as_deref().map(|record| record.split_once(' ')) {
            Some(Some(("generic", because))) => Mode::Generic { because: because.into() },
            _ => Mode::Native,
        };
        let link = Link::of(fd, interface, mode);
        if link.interface_index()? == 0 {
            self.remove_link(interface)?;
            return Ok(None);
        }
        Ok(Some(link))
    }

    /// Takes up all pinned links. The pins of links whose interfaces were removed are removed.
    ///
    /// # Errors
    ///
    /// If a pin cannot be read.
    pub fn links(&self) -> Result<Vec<Link>, BpfError> {
        let folder = self.folder.join("links");
        let at = |source| BpfError::Pin { path: folder.clone(), source };
        let entries = match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(at)?,
        };
        let mut links = Vec::new();
        for entry in entries {
            let name = entry.map_err(at)?.file_name().to_string_lossy().into_owned();
            if !name.contains("%record") && !name.contains("%new") {
                links.extend(self.link(&unescape(&name))?);
            }
        }
        Ok(links)
    }

    /// Removes the pin of an interface's link. The program is detached when no process has the link.
    ///
    /// # Errors
    ///
    /// If the pin exists and cannot be removed.
    pub fn remove_link(&self, interface: &str) -> Result<(), BpfError> {
        let name = Path::new("links").join(escape(interface));
        self.remove(&name)?;
        self.remove(&beside(&name))
    }

    /// Removes all pins and the folder. The kernel detaches and frees what no process has open.
    ///
    /// # Errors
    ///
    /// If a pin cannot be removed.
    pub fn remove_all(self) -> Result<(), BpfError> {
        fs::remove_dir_all(&self.folder).map_err(|source| BpfError::Pin { path: self.folder, source })
    }

    /// Pins at a temporary name and renames the pin, so that an old pin is replaced in one step.
    fn pin(&self, name: &Path, fd: BorrowedFd<'_>) -> Result<(), BpfError> {
        let path = self.folder.join(name);
        let at = |source| BpfError::Pin { path: path.clone(), source };
        let new = self.folder.join(suffixed(name, "%new"));
        self.remove(&suffixed(name, "%new"))?;
        ffi::pin(fd, &new).map_err(at)?;
        fs::rename(&new, &path).map_err(at)
    }

    fn set_record(&self, name: &Path, text: &str) -> Result<(), BpfError> {
        let path = self.folder.join(name);
        let at = |source| BpfError::Pin { path: path.clone(), source };
        let new = self.folder.join(suffixed(name, "%new"));
        self.remove(&suffixed(name, "%new"))?;
        symlink(text, &new).map_err(at)?;
        fs::rename(&new, &path).map_err(at)
    }

    fn record(&self, name: &Path) -> Result<Option<String>, BpfError> {
        let path = self.folder.join(name);
        match fs::read_link(&path) {
            Ok(target) => Ok(Some(target.to_string_lossy().into_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(BpfError::Pin { path, source }),
        }
    }

    fn remove(&self, name: &Path) -> Result<(), BpfError> {
        let path = self.folder.join(name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(BpfError::Pin { path, source: error })
            }
            _ => Ok(()),
        }
    }
}

fn is_bpffs(path: &Path) -> io::Result<bool> {
    Ok(nix::sys::statfs::statfs(path)?.filesystem_type().0 == BPF_FS)
}

fn opened(path: &Path) -> Result<Option<OwnedFd>, BpfError> {
    match ffi::pinned(path) {
        Ok(fd) => Ok(Some(fd)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            Err(BpfError::call("opening a pin")(error))
        }
        Err(source) => Err(BpfError::Pin { path: path.into(), source }),
    }
}

/// Returns a name without dots and slashes: a bpffs reserves dots, and names of interfaces have some.
fn escape(name: &str) -> String {
    name.replace('%', "%25").replace('.', "%2e").replace('/', "%2f")
}

/// Returns the name whose pin has the name `escaped`.
fn unescape(escaped: &str) -> String {
    escaped.replace("%2f", "/").replace("%2e", ".").replace("%25", "%")
}

/// Returns the name of the record beside a pin.
fn beside(name: &Path) -> PathBuf {
    suffixed(name, "%record")
}

fn suffixed(name: &Path, suffix: &str) -> PathBuf {
    let mut name = name.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::{escape, unescape};

    #[test]
    fn different_names_have_different_pins() {
        assert_eq!(escape("eth0.5"), "eth0%2e5");
        assert_ne!(escape("eth0.5"), escape("eth0%2e5"));
        for name in ["eth0.5", "eth0%2e5", "a%b", "%252e"] {
            assert_eq!(unescape(&escape(name)), name);
        }
        assert!(!escape("../x").contains(['.', '/']));
    }
}
