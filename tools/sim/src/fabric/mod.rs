//! What the routers of a world share: virtual time, future events, links, connections.

pub mod connections;
pub mod end;
pub mod history;
pub mod ipc;
pub mod link;
pub mod queue;
pub mod tcp;

use crate::fabric::connections::Connections;
use crate::fabric::history::History;
use crate::fabric::link::Link;
use crate::fabric::queue::Queue;
use crate::network;
use crate::rewrite::Rewrite;
use sluice_base::{Asn, Rng};
use sluice_bgp::speaker::Output;
use sluice_machine::Outbox;
use std::net::IpAddr;

/// Nanoseconds in a second.
pub const SECOND: u64 = 1_000_000_000;

/// Nanoseconds in a millisecond.
pub const MILLISECOND: u64 = 1_000_000;

/// A window larger than any small table.
pub const WHOLE_WINDOW: usize = 256 << 10;

/// The parameters of a world.
#[derive(Clone, Debug)]
pub struct Settings {
    /// BGP alone: next hops on links count as connected, and there is no RIB, no FEA and no kernel.
    pub light: bool,
    /// The reaction time of a router, in nanoseconds; messages that arrive meanwhile are handled together.
    pub reaction: u64,
    /// Octets that BGP writes to a neighbor at a time.
    pub fill: usize,
    /// Background work in a turn.
    pub slice: u32,
    /// Routes in a batch between processes.
    pub batch: usize,
    /// Tables that BGP spreads its prefixes over.
    pub tables: u16,
    /// Checking stages in BGP.
    pub check: bool,
    /// IPv6 beside IPv4.
    pub ipv6: bool,
    /// Proposed hold time in seconds.
    pub hold_time: u16,
    /// Octets in flight that a TCP connection holds; a sender with more octets waits.
    pub window: usize,
}

impl Settings {
    /// Full routers, as in the real processes.
    pub const fn full() -> Self {
        Settings {
            light: false,
            reaction: 100_000,
            fill: 65_536,
            slice: 1024,
            batch: 1024,
            tables: 1,
            check: false,
            ipv6: false,
            hold_time: 90,
            window: WHOLE_WINDOW,
        }
    }

    /// BGP alone, for networks of thousands of routers.
    pub const fn light() -> Self {
        Settings { light: true, reaction: MILLISECOND, slice: 1 << 16, batch: 4096, ..Self::full() }
    }
}

/// A tap, called with the input of a router.
pub type Tap = Box<dyn FnMut(u64, u32, Asn, IpAddr, Asn, &[u8]) + Send>;

/// The shared parts of a world, without the routers.
pub struct Fabric {
    /// Virtual time in nanoseconds.
    pub now: u64,
    /// The future events.
    pub queue: Queue,
    /// The links.
    pub links: Vec<Link>,
    /// The connections.
    pub connections: Connections,
    /// The past events.
    pub history: History,
    /// Randomness of links.
    pub rng: Rng,
    /// The seed of everything.
    pub seed: u64,
    /// The parameters of the world.
    pub settings: Settings,
    /// Which routers are on.
    pub up: Vec<bool>,
    /// Routers whose next turn is more than the passing of time.
    pub busy_hosts: usize,
    /// Violations on the way to rest.
    pub wrong: Vec<String>,
    /// Space for BGP's outputs.
    pub outbox: Outbox<Output>,
    pub(crate) ends: Vec<[u32; 2]>,
    pub(crate) asns: Vec<Asn>,
    pub(crate) rewrites: Vec<[Rewrite; 2]>,
    pub(crate) tap: Option<Tap>,
}

impl Fabric {
    /// The router at a side of a link.
    pub fn host_at(&self, link: u32, side: usize) -> u32 {
        self.ends.get(link as usize).map_or(u32::MAX, |ends| ends[side])
    }

    /// Returns a router's side of a link.
    pub fn sides(&self, link: u32, host: u32) -> u8 {
        u8::from(self.ends[link as usize][0] != host)
    }

    /// Returns true if a router is on.
    pub fn is_host_up(&self, host: u32) -> bool {
        self.up[host as usize]
    }

    /// The rewriting of a router's announcements to the neighbor at `address`.
    pub fn rewrite(&self, address: IpAddr) -> Rewrite {
        let place = network::place(address);
        place.map_or(Rewrite::default(), |(link, side)| self.rewrites[link as usize][1 - side])
    }

    /// Passes octets received by a router to the tap.
    pub fn tap(&mut self, host: u32, asn: Asn, neighbor: IpAddr, octets: &[u8]) {
        if let Some(tap) = &mut self.tap {
            let peer =
                network::place(neighbor).map_or(u32::MAX, |(link, side)| self.ends[link as usize][side]);
            let peer_as = self.asns.get(peer as usize).copied().unwrap_or(Asn(0));
            tap(self.now, host, asn, neighbor, peer_as, octets);
        }
    }
}
