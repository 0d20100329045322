//! The slots of the chain: a program array that all programs of a chain share.
//!
//! The kernel empties a program array when its last descriptor and pin are gone, even while programs use the array; a
//! chain that outlives its process has the map pinned.

use crate::layout::Slot;
use crate::{BpfError, ffi};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The map `slots`.
#[derive(Debug)]
pub struct Slots {
    map: OwnedFd,
}

impl Slots {
    /// Takes the map `slots` of a loaded program.
    ///
    /// # Errors
    ///
    /// If the descriptor cannot be copied.
    pub fn new(map: BorrowedFd<'_>) -> Result<Self, BpfError> {
        let map = map.try_clone_to_owned().map_err(BpfError::call("copying a map's descriptor"))?;
        Ok(Slots { map })
    }

    /// Fills a slot, or replaces its program in one step.
    ///
    /// # Errors
    ///
    /// If the kernel refuses; a program of another type than the array's cannot be in the array.
    pub fn set(&self, slot: Slot, program: BorrowedFd<'_>) -> Result<(), BpfError> {
        use std::os::fd::AsRawFd;
        let fd = program.as_raw_fd() as u32;
        ffi::map_store_u32(self.map.as_fd(), slot.index(), fd).map_err(BpfError::call("filling a slot"))
    }

    /// Empties a slot. Frames skip the slot.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn clear(&self, slot: Slot) -> Result<(), BpfError> {
        match ffi::map_remove(self.map.as_fd(), slot.index()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(BpfError::call("emptying a slot")(error))
            }
            _ => Ok(()),
        }
    }

    /// Returns the kernel's number of a slot's program, `None` if the slot is empty.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub fn program_id(&self, slot: Slot) -> Result<Option<u32>, BpfError> {
        match ffi::map_load_u32(self.map.as_fd(), slot.index()) {
            Ok(id) => Ok(Some(id)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(BpfError::call("reading a slot")(error)),
        }
    }
}
