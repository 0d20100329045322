//! The cache with validated ROA payloads, for routers that validate origins.

use crate::contender::{CACHE, PEERS};
use anyhow::{Context, Result, ensure};
use bench_lab::CACHE_PORT;
use serde_json::Value;
use sluice_lab::Lab;
use sluice_load::{RoutingTable, payloads};
use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tempfile::NamedTempFile;

/// Payloads at most, about.
const MOST: usize = 400_000;
/// Octets of the shortest PDU of a payload: that of IPv4 (RFC 8210, section 5.6).
const SHORTEST: u64 = 20;
/// The longest wait for the cache.
const PATIENCE: Duration = Duration::from_secs(120);
/// The pause between two looks.
const GLANCE: Duration = Duration::from_millis(100);

/// Payloads for a table.
pub struct Payloads {
    /// The validators' JSON.
    file: NamedTempFile,
    /// The number of distinct payloads.
    pub count: usize,
}

impl Payloads {
    /// Makes payloads for a share of the prefixes of a table.
    pub fn of(table: &RoutingTable) -> Result<Self> {
        let distinct: BTreeSet<_> = payloads::of(table, MOST).into_iter().collect();
        let file = NamedTempFile::new()?;
        std::fs::write(file.path(), payloads::json(&distinct))?;
        Ok(Payloads { file, count: distinct.len() })
    }

    /// Starts the cache on the peers' node, and waits until the cache has sent every payload.
    pub fn hand_out(&self, lab: &mut Lab) -> Result<()> {
        let before = sent(lab)?;
        let mut command = lab.command(PEERS, "stayrtr")?;
        let bind = format!("{CACHE}:{CACHE_PORT}");
        command.args(["-bind", &bind, "-metrics.addr", "127.0.0.1:9847", "-checktime=false", "-cache"]);
        command.arg(self.file.path()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        lab.spawn(PEERS, "stayrtr", command)?;
        let begin = Instant::now();
        while sent(lab)? - before < SHORTEST * self.count as u64 {
            ensure!(begin.elapsed() < PATIENCE, "the router did not take the payloads of its cache");
            std::thread::sleep(GLANCE);
        }
        Ok(())
    }
}

/// Returns the octets that the peers' node has sent to the router.
fn sent(lab: &Lab) -> Result<u64> {
    let shown = lab.exec(PEERS, "ip", ["-s", "-j", "link", "show", "dev", "router"])?;
    let links: Value = serde_json::from_str(&shown).context("the counters of the peers' link")?;
    links[0]["stats64"]["tx"]["bytes"].as_u64().context("the peers' link counts octets")
}
