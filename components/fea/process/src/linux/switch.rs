//! Kernel settings that are on or off (`/proc/sys/net`). Containers often mount the settings read-only. There a setting that has the
//! wanted value already needs no write, so that whoever starts the container can choose the values.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// An open setting. It stays the setting of the network namespace in which it was opened.
#[derive(Debug)]
pub struct Switch {
    file: File,
    is_read_only: bool,
}

impl Switch {
    /// Opens a setting, read-only on a read-only file system.
    pub fn open(path: &str) -> io::Result<Self> {
        let opened = File::options().read(true).write(true).open(path);
        let is_read_only = opened.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EROFS));
        let opened = if is_read_only { File::open(path) } else { opened };
        let named = |e: io::Error| io::Error::new(e.kind(), format!("{path}: {e}"));
        Ok(Switch { file: opened.map_err(named)?, is_read_only })
    }

    /// Returns true if the setting is on.
    pub fn is_on(&self) -> io::Result<bool> {
        let mut digit = [0];
        self.file.read_exact_at(&mut digit, 0)?;
        Ok(digit != *b"0")
    }

    /// Sets the setting.
    pub fn set(&self, on: bool) -> io::Result<()> {
        if self.is_read_only {
            let is_set = self.is_on()? == on;
            return if is_set { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EROFS)) };
        }
        // The kernel ignores, without an error, what is not written at the beginning (`kernel.sysctl_writes_strict`).
        self.file.write_all_at(if on { b"1" } else { b"0" }, 0)
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
        let read_only = Switch { file: File::open(&path).unwrap(), is_read_only: true };
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
