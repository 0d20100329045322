//! Kernel settings that are on or off (`/proc/sys/net`). Containers often mount the settings read-only, or AppArmor refuses writes.
//! A setting with the wanted value needs no write there, so the values can be chosen at the start of the container.

use caps::{CapSet, Capability};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// An open setting. The setting stays tied to the network namespace of the opening.
#[derive(Debug)]
pub struct Switch {
    file: File,
    /// The kernel's reason for a read-only setting.
    refusal: Option<i32>,
}

impl Switch {
    /// Opens a setting; only for reading where a process with CAP_NET_ADMIN cannot write the setting.
    pub fn open(path: &str) -> io::Result<Self> {
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{path}: {e}"));
        match File::options().read(true).write(true).open(path) {
            Ok(file) => Ok(Switch { file, refusal: None }),
            Err(e) if is_read_only(&e) => {
                Ok(Switch { file: File::open(path).map_err(named)?, refusal: e.raw_os_error() })
            }
            Err(e) => Err(named(e)),
        }
    }

    /// Returns true if the setting is on.
    pub fn is_on(&self) -> io::Result<bool> {
        let mut digit = [0];
        self.file.read_exact_at(&mut digit, 0)?;
        Ok(digit != *b"0")
    }

    /// Sets the setting.
    pub fn set(&self, on: bool) -> io::Result<()> {
        if let Some(refusal) = self.refusal {
            let is_set = self.is_on()? == on;
            return if is_set { Ok(()) } else { Err(io::Error::from_raw_os_error(refusal)) };
        }
        // The kernel ignores, without an error, what is not written at the beginning (`kernel.sysctl_writes_strict`).
        self.file.write_all_at(if on { b"1" } else { b"0" }, 0)
    }
}

/// Returns true if the error is not for want of CAP_NET_ADMIN, which permits writes otherwise.
fn is_read_only(error: &io::Error) -> bool {
    match error.raw_os_error() {
        Some(libc::EROFS) => true,
        Some(libc::EACCES | libc::EPERM) => {
            caps::has_cap(None, CapSet::Effective, Capability::CAP_NET_ADMIN).unwrap_or(false)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_setting_keeps_its_value() {
        let path = std::env::temp_dir().join(format!("switch-{}", std::process::id()));
        std::fs::write(&path, "1\n").unwrap();
        let writable = Switch::open(path.to_str().unwrap()).unwrap();
        let read_only = Switch { file: File::open(&path).unwrap(), refusal: Some(libc::EROFS) };
        std::fs::remove_file(&path).unwrap();
        assert!(read_only.is_on().unwrap() && read_only.set(true).is_ok());
        assert_eq!(read_only.set(false).unwrap_err().raw_os_error(), Some(libc::EROFS));
        writable.set(false).unwrap();
        assert!(!read_only.is_on().unwrap() && read_only.set(false).is_ok());
    }

    #[test]
    fn errors_name_the_setting() {
        assert!(Switch::open("/nowhere").unwrap_err().to_string().contains("/nowhere"));
    }
}
