//! The tables as a session's reader sees them: the only place here that knows their interface.

use anyhow::{Result, anyhow};
use sluice_base::interest::{InterestAnswer, ResolvingRoute};
use sluice_base::{
    Asn, Distance, Family, Forwarding, InterfaceIndex, Ipv4Prefix, Metric, NextHop, Prefix, Provenance,
    RouterId,
};
use sluice_bgp::attributes::ReceiveRules;
use sluice_bgp::hash::HashSeed;
use sluice_bgp::reader::{Batches, Framer, Reader};
use sluice_bgp::session::Families;
use sluice_bgp::shard::{GroupKey, Interest, PeerIndex, PeerInfo, Sent};
use sluice_bgp::shards::{Shards, Spread, Tables};
use sluice_bgp::wire::MessageType;
use sluice_machine::{Budget, Progress};
use std::net::Ipv4Addr;

/// The router's AS.
const LOCAL_AS: Asn = Asn(65000);
/// Octets that a receiver takes at a time.
const OUTPUT: usize = 65_536;

/// How the tables are driven.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Tables that prefixes are spread over.
    pub tables: u16,
    /// Changes that are handed over to a table at a time.
    pub batch: usize,
}

impl Default for Way {
    fn default() -> Self {
        Way { tables: 1, batch: sluice_bgp::batch::Batch::<Ipv4Prefix>::FULL }
    }
}

/// One session into tables of its own.
pub struct Session {
    way: Way,
    framer: Framer,
    reader: Reader,
    batches: Vec<Batches>,
    shards: Shards,
    receivers: Vec<PeerIndex>,
    buffer: Vec<u8>,
    /// Octets and UPDATEs that receivers were told.
    pub told: (usize, usize),
}

/// The peer that sends.
const SENDER: PeerIndex = PeerIndex(1);

impl Session {
    /// An empty router with a session that sends and so many that are told.
    pub fn new(way: Way, receivers: usize) -> Self {
        let spread = Spread::new(HashSeed(7), way.tables);
        let rules = ReceiveRules {
            local_as: LOCAL_AS,
            peer_as: Asn(65001),
            four_octet_as: true,
            families: Families { ipv4: true, ipv6: true },
            local_address: Ipv4Addr::new(10, 0, 0, 1).into(),
            enforce_first_as: false,
        };
        let mut shards = Shards::new(LOCAL_AS, RouterId(1), spread);
        let receivers: Vec<PeerIndex> = (0..receivers).map(|n| PeerIndex(n as u16 + 2)).collect();
        for (number, peer) in std::iter::once(&SENDER).chain(&receivers).enumerate() {
            let address = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 2).to_bits() + number as u32);
            let router_id = RouterId(number as u32 + 2);
            shards.peer_up(
                *peer,
                PeerInfo { router_id, address: address.into(), internal: false, direct: false },
            );
        }
        Session {
            way,
            framer: Framer::default(),
            reader: Reader::new(rules, spread),
            batches: std::iter::repeat_with(Batches::default).take(way.tables.into()).collect(),
            shards,
            receivers,
            buffer: Vec::new(),
            told: (0, 0),
        }
    }

    /// Cuts octets into messages; how many UPDATEs there were.
    pub fn frame(&mut self, mut octets: &[u8]) -> Result<usize> {
        let mut updates = 0;
        while let Some(frame) = self.framer.next(&mut octets).map_err(|e| anyhow!("{e}"))? {
            updates += usize::from(frame.kind == MessageType::Update);
        }
        Ok(updates)
    }

    /// Cuts octets into messages and reads them into batches, which are thrown away, or with `apply` given to the tables.
    pub fn read(&mut self, mut octets: &[u8], apply: bool) -> Result<()> {
        while let Some(frame) = self.framer.next(&mut octets).map_err(|e| anyhow!("{e}"))? {
            if frame.kind != MessageType::Update {
                continue;
            }
            let read = self.reader.update(frame.body, Provenance::NONE, &mut self.batches);
            read.map_err(|n| anyhow!("the session would end: {n}"))?;
            let is_full = |b: &Batches| b.len().0.max(b.len().1) >= self.way.batch;
            if self.batches.iter().any(is_full) {
                self.hand_over(apply);
            }
        }
        Ok(())
    }

    /// What is in the batches goes to the tables.
    fn hand_over(&mut self, apply: bool) {
        if apply {
            self.shards.apply(SENDER, &mut self.batches);
            self.answer();
        }
        self.batches.iter_mut().for_each(|b| {
            b.ipv4.clear();
            b.ipv6.clear();
        });
    }

    /// The last batches; then everything that the tables left for later.
    pub fn finish(&mut self) {
        self.hand_over(true);
        while self.slice() == Progress::More {
            self.answer();
        }
    }

    fn slice(&mut self) -> Progress {
        self.shards.run_slice::<Ipv4Prefix>(Budget::SLICE)
    }

    /// Every next hop is on a connected subnet.
    fn answer(&mut self) {
        let asked: Vec<Interest<Ipv4Prefix>> = self.shards.interests::<Ipv4Prefix>().drain().collect();
        for question in asked {
            let Interest::Register(address) = question else { continue };
            let (Some(valid), Some(interface)) = (Ipv4Prefix::new(address, 24), InterfaceIndex::new(1))
            else {
                continue;
            };
            let route = ResolvingRoute {
                prefix: valid,
                metric: Metric(0),
                distance: Distance::CONNECTED,
                connected: true,
                forwarding: Forwarding::one(NextHop::on(interface)),
            };
            self.shards.answer(&InterestAnswer { valid, route: Some(route) }, Provenance::NONE);
        }
    }

    /// All receivers ask for everything. With `together` those that know the same become one group, before there is anything.
    pub fn join(&mut self, together: bool) {
        let key = GroupKey { internal: false, four_octet_as: true, link_local: false, next_hop_self: false };
        for peer in self.receivers.clone() {
            self.shards.join::<Ipv4Prefix>(peer, key);
        }
        if together {
            self.tell();
        }
    }

    /// Tells receivers what there is to be told, until there is nothing more.
    pub fn tell(&mut self) {
        let hop = Ipv4Addr::new(10, 0, 0, 1).octets();
        let mut busy = true;
        while std::mem::take(&mut busy) {
            for peer in &self.receivers {
                for table in 0..self.batches.len() {
                    self.buffer.clear();
                    let mut sent = Sent::default();
                    self.shards.fill::<Ipv4Prefix>(table, *peer, &hop, OUTPUT, &mut self.buffer, &mut sent);
                    self.told.0 += self.buffer.len();
                    self.told.1 += sent.updates as usize;
                    busy |= !self.buffer.is_empty();
                }
            }
        }
    }

    /// Attribute sets in all tables.
    pub fn sets(&self) -> usize {
        self.shards.view(Family::Ipv4).attribute_sets
    }

    /// Prefixes in all tables.
    pub fn prefixes(&self) -> usize {
        self.shards.view(Family::Ipv4).prefixes
    }
}
