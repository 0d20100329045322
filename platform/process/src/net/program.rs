//! Programs of components in the path of packets: put there and taken out by the FEA (`fea.v1.Programs`).

use crate::{Frame, descriptor};
use sluice_xrl::XrlError;
use sluice_xrl::idl::fea::v1 as fea;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tracing::debug;

/// A program of a component in the path of packets: its maps, by name.
#[derive(Debug)]
pub struct PacketProgram {
    maps: BTreeMap<String, OwnedFd>,
}

/// The FEA's path of packets, as a component knows it that has a program there. The path ends and begins anew, as by another engine in
/// the configuration or with another process of the FEA, and the component puts its program again each time.
#[derive(Debug, Default)]
pub struct PacketPath {
    /// The number of times that the path began or ended.
    version: Cell<u64>,
    takes_programs: Cell<bool>,
}

impl PacketPath {
    /// Reads a call of `fea.v1.InterfaceObserver`. Returns true if the component is to put its program again.
    pub fn read(&self, request: &fea::InterfaceChangedRequest) -> bool {
        let Some(takes_programs) = request.takes_programs else { return false };
        self.takes_programs.set(takes_programs);
        self.version.set(self.version.get() + 1);
        true
    }

    /// Returns true while the path takes programs: a component without its program misses it then.
    pub fn takes_programs(&self) -> bool {
        self.takes_programs.get()
    }

    /// Puts a program into the path, as [`PacketProgram::put`], and again if the path ended or began anew meanwhile.
    ///
    /// # Errors
    /// [`PacketProgramError`].
    pub async fn put(
        &self,
        frame: &Frame,
        program: &str,
        interfaces: Vec<String>,
        grace_ms: u32,
    ) -> Result<PacketProgram, PacketProgramError> {
        loop {
            let version = self.version.get();
            let put = PacketProgram::put(frame, program, interfaces.clone(), grace_ms).await;
            if self.version.get() == version {
                return put;
            }
        }
    }
}

/// The reason why a program is not in the path of packets.
#[derive(Debug, thiserror::Error)]
pub enum PacketProgramError {
    /// The FEA refuses.
    #[error("{0}")]
    Refused(#[from] XrlError),
    /// A map cannot be fetched.
    #[error("a map cannot be fetched: {0}")]
    Fetch(#[from] io::Error),
}

impl PacketProgram {
    /// Puts a program into the path of packets of some interfaces. After the process has ended, the program goes on for `grace_ms`
    /// milliseconds.
    async fn put(
        frame: &Frame,
        program: &str,
        interfaces: Vec<String>,
        grace_ms: u32,
    ) -> Result<Self, PacketProgramError> {
        let request = fea::PutRequest { program: program.into(), interfaces, grace_ms };
        let reply = fea::ProgramsClient::new(&frame.router, "fea").put(request).await?;
        let mut maps = BTreeMap::new();
        for map in reply.maps {
            maps.insert(map.name, descriptor::fetch(&frame.run_dir, &map.token).await?);
        }
        Ok(PacketProgram { maps })
    }

    /// Returns a map; `None` if the program has none of that name.
    pub fn map(&self, name: &str) -> Option<BorrowedFd<'_>> {
        self.maps.get(name).map(AsFd::as_fd)
    }

    /// Takes a program out of the path of packets.
    pub async fn take_out(frame: &Frame, program: &str) {
        let request = fea::TakeOutRequest { program: program.into() };
        if let Err(error) = fea::ProgramsClient::new(&frame.router, "fea").take_out(request).await {
            debug!(%error, "the program {program} ends with the FEA");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_put_again_when_the_path_ended_or_began() {
        let path = PacketPath::default();
        let changed = |takes_programs| fea::InterfaceChangedRequest { takes_programs, ..Default::default() };
        assert!(!path.read(&changed(None)) && !path.takes_programs());
        assert!(path.read(&changed(Some(true))) && path.takes_programs());
        assert!(!path.read(&changed(None)) && path.takes_programs(), "a change of interfaces alone");
        assert!(path.read(&changed(Some(false))) && !path.takes_programs());
        assert_eq!(path.version.get(), 2);
    }
}
