//! The program `xip` in the path of packets: asked for at the FEA, and its maps.

use crate::config::Settings;
use crate::maps::{CacheLines, NAMES, ProgramMaps};
use sluice_bpf::BpfError;
use sluice_process::{Frame, descriptor};
use sluice_xip::cache::{Cache, HashKey};
use sluice_xrl::XrlError;
use sluice_xrl::idl::fea::v1 as fea;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// The name of the program.
const PROGRAM: &str = "xip";
/// How long the program goes on without this process.
const GRACE_MS: u32 = 60_000;

/// The reason why the program does not run.
#[derive(Debug, thiserror::Error)]
pub enum FastPathError {
    /// The FEA does not put the program into the path of packets.
    #[error("{0}")]
    Refused(#[from] XrlError),
    /// A map cannot be fetched.
    #[error("a map cannot be fetched: {0}")]
    Fetch(#[from] io::Error),
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
    settings: &Settings,
) -> Result<(Cache<CacheLines>, ProgramMaps), FastPathError> {
    let request = fea::PutRequest {
        program: PROGRAM.into(),
        interfaces: settings.core.interfaces.keys().cloned().collect(),
        grace_ms: GRACE_MS,
    };
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
    let (lines, maps) = ProgramMaps::new(map)?;
    let cache = Cache::new(lines, settings.line_bits, draw_key()?);
    maps.set_hashes(cache.key(), cache.line_shift());
    maps.set_settings(settings.program);
    Ok((cache, maps))
}

/// Takes the program out of the path of packets.
pub async fn stop(frame: &Frame) {
    let request = fea::TakeOutRequest { program: PROGRAM.into() };
    if let Err(error) = fea::ProgramsClient::new(&frame.router, "fea").take_out(request).await {
        tracing::debug!(%error, "the program xip ends with the FEA");
    }
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
