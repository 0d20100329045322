//! A map of devices to which a program gives one frame at once, with a program that runs for the copy of each device.

use crate::{BpfError, Loaded, ffi};
use std::collections::BTreeSet;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The devices of a map (`BPF_MAP_TYPE_DEVMAP_HASH`), by their interface indices in this process's network namespace.
#[derive(Debug)]
pub struct Devices {
    map: OwnedFd,
    /// The program that runs for each copy.
    program: OwnedFd,
    present: BTreeSet<u32>,
}

impl Devices {
    /// Takes the empty map `name` of a loaded program, and the program for copies.
    ///
    /// # Errors
    ///
    /// If there is no such map, or a descriptor cannot be copied.
    pub fn new(loaded: &Loaded, name: &str, program: &Loaded) -> Result<Self, BpfError> {
        let copy =
            |fd: BorrowedFd<'_>| fd.try_clone_to_owned().map_err(BpfError::call("copying a descriptor"));
        let (map, program) = (copy(loaded.map(name)?)?, copy(program.program())?);
        Ok(Devices { map, program, present: BTreeSet::new() })
    }

    /// Makes the map hold these devices. A device that has just vanished is left out.
    ///
    /// # Errors
    ///
    /// If the kernel refuses; the other devices are in the map as wanted.
    pub fn set(&mut self, wanted: BTreeSet<u32>) -> Result<(), BpfError> {
        let mut refused = None;
        for device in self.present.difference(&wanted) {
            match ffi::map_remove(self.map.as_fd(), *device) {
                // The kernel removes devices that vanish.
                Err(error) if error.kind() != io::ErrorKind::NotFound => refused = Some(error),
                _ => {}
            }
        }
        // An interface that came again under its number is another device: all entries are written anew. The kernel answers EINVAL
        // for a device that does not exist.
        for device in &wanted {
            if let Err(error) = ffi::device_store(self.map.as_fd(), *device, self.program.as_fd())
                && error.raw_os_error() != Some(libc::EINVAL)
            {
                refused = Some(error);
            }
        }
        self.present = wanted;
        refused.map_or(Ok(()), |error| Err(BpfError::call("writing a device")(error)))
    }
}
