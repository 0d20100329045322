//! The program `balance` in the path of packets: asked for at the FEA, and its maps.

use crate::maps::{NAMES, ProgramMaps};
use sluice_bpf::BpfError;
use sluice_process::{Frame, descriptor};
use sluice_xrl::XrlError;
use sluice_xrl::idl::fea::v1 as fea;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The name of the program.
const PROGRAM: &str = "balance";
/// How long the program goes on without this process.
const GRACE_MS: u32 = 120_000;

/// The reason why the program does not run.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The FEA does not put the program into the path of packets.
    #[error("{0}")]
    Refused(#[from] XrlError),
    /// A map cannot be fetched.
    #[error("a map cannot be fetched: {0}")]
    Fetch(#[from] io::Error),
    /// The maps are others than expected.
    #[error(transparent)]
    Maps(#[from] BpfError),
}

/// Puts the program into the path of packets of some interfaces, and returns the maps.
///
/// # Errors
/// [`ProgramError`]; no frames are balanced then.
pub async fn start(frame: &Frame, interfaces: Vec<String>) -> Result<ProgramMaps, ProgramError> {
    let request = fea::PutRequest { program: PROGRAM.into(), interfaces, grace_ms: GRACE_MS };
    let reply = fea::ProgramsClient::new(&frame.router, "fea").put(request).await?;
    let mut descriptors: BTreeMap<String, OwnedFd> = BTreeMap::new();
    for map in reply.maps {
        descriptors.insert(map.name, descriptor::fetch(&frame.run_dir, &map.token).await?);
    }
    let map = |name: &str| {
        let descriptor = descriptors.get(name).map(AsFd::as_fd);
        descriptor.ok_or_else(|| BpfError::Shape {
            map: name.into(),
            found: "nothing".into(),
            expected: format!("one of {}", NAMES.join(", ")),
        })
    };
    Ok(ProgramMaps::new(map)?)
}

/// Takes the program out of the path of packets.
pub async fn stop(frame: &Frame) {
    let request = fea::TakeOutRequest { program: PROGRAM.into() };
    if let Err(error) = fea::ProgramsClient::new(&frame.router, "fea").take_out(request).await {
        tracing::debug!(%error, "the program balance ends with the FEA");
    }
}
