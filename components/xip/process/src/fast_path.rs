//! The program `xip` in the path of packets, its maps, and the cache in them.

use crate::config::Settings;
use crate::maps::{CacheLines, ProgramMaps};
use sluice_bpf::BpfError;
use sluice_process::{Frame, PacketPath, PacketProgram, PacketProgramError};
use sluice_xip::cache::{Cache, HashKey};

/// The name of the program.
pub(crate) const PROGRAM: &str = "xip";
/// The time for which the program goes on without the process.
const GRACE_MS: u32 = 60_000;

/// The reason why the program does not run.
#[derive(Debug, thiserror::Error)]
pub enum FastPathError {
    /// The program is not in the path of packets.
    #[error(transparent)]
    Put(#[from] PacketProgramError),
    /// The maps are others than expected.
    #[error(transparent)]
    Maps(#[from] BpfError),
    /// There is no secret key.
    #[error("the operating system gives no randomness: {0}")]
    Random(#[from] getrandom::Error),
}

/// Puts the program into the path of packets of the configured interfaces. Returns the empty cache, and the other maps.
///
/// # Errors
/// [`FastPathError`]; packets then come to this process.
pub async fn start(
    frame: &Frame,
    path: &PacketPath,
    settings: &Settings,
) -> Result<(Cache<CacheLines>, ProgramMaps), FastPathError> {
    let interfaces = settings.core.interfaces.keys().cloned().collect();
    let program = path.put(frame, PROGRAM, interfaces, GRACE_MS).await?;
    let missing = |name: &str| BpfError::NoSuch { program: PROGRAM, kind: "map", name: name.into() };
    let (lines, maps) = ProgramMaps::new(|name| program.map(name).ok_or_else(|| missing(name)))?;
    let cache = Cache::new(lines, settings.line_bits, draw_key()?);
    maps.set_hashes(cache.key(), cache.line_shift());
    maps.set_settings(settings.program);
    Ok((cache, maps))
}

/// Takes the program out of the path of packets.
pub async fn stop(frame: &Frame) {
    PacketProgram::take_out(frame, PROGRAM).await;
}

fn draw_key() -> Result<HashKey, getrandom::Error> {
    let mut error = None;
    let key = HashKey::draw(|| {
        getrandom::u64().unwrap_or_else(|failure| {
            error = Some(failure);
            0
        })
    });
    error.map_or(Ok(key), Err)
}
