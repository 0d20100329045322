//! Programs of components in the path of packets: put there and taken out by the FEA (`fea.v1.Programs`).

use crate::{Frame, descriptor};
use sluice_xrl::XrlError;
use sluice_xrl::idl::fea::v1 as fea;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use tracing::debug;

/// A program of a component in the path of packets: its maps, by name.
#[derive(Debug)]
pub struct PacketProgram {
    maps: BTreeMap<String, OwnedFd>,
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
    ///
    /// # Errors
    /// [`PacketProgramError`].
    pub async fn put(
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
