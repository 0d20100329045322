//! The program `balance` in the path of packets, and its maps.

use crate::maps::ProgramMaps;
use sluice_bpf::BpfError;
use sluice_process::{Frame, PacketPath, PacketProgram, PacketProgramError};

/// The name of the program.
const PROGRAM: &str = "balance";
/// How long the program goes on without this process.
const GRACE_MS: u32 = 120_000;

/// The reason why the program does not run.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The program is not in the path of packets.
    #[error(transparent)]
    Put(#[from] PacketProgramError),
    /// The maps are others than expected.
    #[error(transparent)]
    Maps(#[from] BpfError),
}

/// Puts the program into the path of packets of some interfaces, and returns the maps.
///
/// # Errors
/// [`ProgramError`]; no frames are balanced then.
pub async fn start(
    frame: &Frame,
    path: &PacketPath,
    interfaces: Vec<String>,
) -> Result<ProgramMaps, ProgramError> {
    let program = path.put(frame, PROGRAM, interfaces, GRACE_MS).await?;
    let missing = |name: &str| BpfError::NoSuch { program: PROGRAM, kind: "map", name: name.into() };
    Ok(ProgramMaps::new(|name| program.map(name).ok_or_else(|| missing(name)))?)
}

/// Takes the program out of the path of packets.
pub async fn stop(frame: &Frame) {
    PacketProgram::take_out(frame, PROGRAM).await;
}
