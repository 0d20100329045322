//! The router of XIP: the root program and the program `xip` on the ports, and the core that fills the cache.

use crate::domains::Domains;
use crate::rows;
use anyhow::{Context, Result, ensure};
use bench_forward::network::{IN, WAYS, interface};
use sluice_base::{Instant, Rng};
use sluice_bpf::layout::Slot;
use sluice_bpf::{Embedded, Loaded};
use sluice_fea_process::xdp::chain::Chain;
use sluice_lab::Lab;
use sluice_pktgen::{XipFormat, domain};
use sluice_xip::anchor::Touched;
use sluice_xip::answers::Answers;
use sluice_xip::cache::{Cache, HashKey};
use sluice_xip::route::Route;
use sluice_xip_process::maps::{CacheLines, Member, NAMES, ProgramMaps, ProgramSettings};
use std::path::{Path, PathBuf};

/// Lines of the cache as a power of two: the most that the program has.
const LINE_BITS: u32 = 19;
/// Links of the forest, as the process has.
pub const MOST_LINKS: usize = 8 << 20;
/// The largest packet of the links.
const MTU: u32 = 1500;

/// A router with a redirect for each domain, and a decision on each row in the cache.
pub struct XiaRouter {
    answers: Answers<CacheLines>,
    octets: Vec<[u8; 4]>,
    ways: Vec<usize>,
    chain: Option<(Chain, Loaded)>,
    folder: PathBuf,
}

impl XiaRouter {
    /// Starts a router with `ports` ways out on a thread inside the node `r`. `pins` is a mounted bpffs.
    pub fn start(lab: &Lab, format: XipFormat, domains: &Domains, ports: usize, pins: &Path) -> Result<Self> {
        let mut chain = Chain::open(pins)?;
        let program = chain.load(Embedded::Xip, &NAMES)?;
        let (lines, maps) = ProgramMaps::new(|name| program.map(name))?;
        let used = || WAYS.into_iter().take(ports);
        for name in used().map(|(port, _, _)| port).chain([IN]) {
            let (index, mac) = interface(lab, "r", name)?;
            chain.attach(index, name)?;
            chain.set_port(index, sluice_base::Mac(mac), 0, 0);
        }
        for (way, (port, node, name)) in used().enumerate() {
            let (index, source) = interface(lab, "r", port)?;
            let destination = interface(lab, node, name)?.1;
            let member = Member { interface: index.number(), mtu: MTU, destination, source };
            maps.set_member(way as u32, member);
        }
        let mut random = Rng::from_seed(rows::SEED);
        let cache = Cache::new(lines, LINE_BITS, HashKey::draw(|| random.next_u64()));
        maps.set_hashes(cache.key(), cache.line_shift());
        // No process takes packets: those without an answer are dropped.
        maps.set_settings(ProgramSettings {
            shadow_interval: 0,
            punts_per_second: 1,
            punt_burst: 0,
            has_reports: false,
            ether_type: sluice_xip::wire::ETHERTYPE_XIP,
            tunnel: None,
        });
        chain.fill(Slot::Xip, &program)?;

        let octets: Vec<[u8; 4]> = domains.octets().collect();
        let ways: Vec<usize> = (0..octets.len()).map(|number| number % ports).collect();
        let mut router = rows::wide_router(format, ports)?;
        for (octets, way) in octets.iter().zip(&ways) {
            rows::redirect(&mut router, *octets, *way)?;
        }
        let mut answers = Answers::new(router, MOST_LINKS, rows::SEED);
        answers.set_cache(Some(cache));
        let rows = octets.iter().map(|octets| rows::row(format, *octets));
        for row in rows::first_row(format).into_iter().chain(rows) {
            answers.answer(Instant::ZERO, &row).context("a row cannot be decided")?;
        }
        ensure!(!answers.needs_key(), "two rows have equal tags");
        Ok(XiaRouter { answers, octets, ways, chain: Some((chain, program)), folder: pins.to_owned() })
    }

    /// Returns the share of the domains whose row is in the cache.
    pub fn cached(&self) -> f64 {
        let cached = self.answers.cache().map_or(0, Cache::len);
        (cached as f64 / self.octets.len() as f64).min(1.0)
    }

    /// Moves a domain to another way and decides its row again in place.
    pub fn move_to(&mut self, number: usize, way: usize) -> Result<()> {
        let xid = domain(self.octets[number]);
        let (prefix, route) = (rows::whole(xid)?, Some(Route::Redirect(rows::host(way))));
        let changed = self.answers.change(Instant::ZERO, |router| match router.change(prefix, route) {
            Ok(touched) => (Ok(()), touched),
            Err(error) => (Err(error), Touched::default()),
        });
        changed.map_err(|error| anyhow::anyhow!("{xid}: {error}"))?;
        self.ways[number] = way;
        Ok(())
    }

    /// Returns the way of a domain.
    pub fn way(&self, number: usize) -> usize {
        self.ways[number]
    }

    /// Returns the number of domains.
    pub fn domains(&self) -> usize {
        self.octets.len()
    }
}

impl Drop for XiaRouter {
    fn drop(&mut self) {
        self.chain = None;
        // The next router reports pins that stay.
        let _ = Chain::remove(&self.folder);
    }
}
