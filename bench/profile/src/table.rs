//! The tables as a session's reader sees them: the only file here that uses their interface.

use crate::next_hop::connected;
use anyhow::{Result, anyhow};
use sluice_base::{Asn, Family, Ipv4Prefix, Prefix, Provenance, RouterId};
use sluice_bgp::attributes::ReceiveRules;
use sluice_bgp::batch::Batches;
use sluice_bgp::endpoints::OwnNextHop;
use sluice_bgp::family::{ByFamily, Families, FamilyCodes, FamilyIndex};
use sluice_bgp::hash::HashSeed;
use sluice_bgp::reader::{Framer, Reader};
use sluice_bgp::shard::{
    ExportView, Interest, OwnRouter, PeerIndex, PeerInfo, RouteSource, Sent, SentCommunities,
};
use sluice_bgp::table::{Order, PeerExport, PeerImport, SessionEpoch, Spread, Table, TableEvent, Versioned};
use sluice_bgp::wire::MessageType;
use sluice_machine::{Budget, Outbox, Progress};
use smallvec::SmallVec;
use std::net::Ipv4Addr;

/// The view of an external peer with 4-octet AS numbers.
pub const EXTERNAL: ExportView = ExportView {
    further: None,
    default_route: None,
    internal: false,
    four_octet_as: true,
    extended_messages: false,
    paced: None,
    wanted: None,
    link_local: false,
    next_hop_self: false,
    reflection: None,
    transparent: false,
    overridden_as: None,
    other_as: None,
    relationship: None,
    graceful_shutdown: false,
    long_lived_stale: false,
    communities: SentCommunities::ALL,
    paths: None,
    policy: None,
};

/// The router's AS.
const LOCAL_AS: Asn = Asn(65000);
/// Octets that a receiver takes at a time.
const OUTPUT: usize = 65_536;

/// The parameters for driving the tables.
#[derive(Clone, Copy, Debug)]
pub struct Way {
    /// Tables that prefixes are spread over.
    pub tables: u16,
    /// Changes passed to a table at a time.
    pub batch: usize,
}

impl Default for Way {
    fn default() -> Self {
        Way { tables: 1, batch: sluice_bgp::batch::Batch::<Ipv4Prefix>::FULL }
    }
}

/// A session into tables of its own.
pub struct Session {
    way: Way,
    framer: Framer,
    reader: Reader,
    batches: Vec<Batches>,
    tables: Vec<Table>,
    out: Outbox<TableEvent>,
    answers: u64,
    receivers: Vec<PeerIndex>,
    buffer: Vec<u8>,
    /// Octets and UPDATEs for receivers.
    pub advertised: (usize, usize),
}

/// The sending peer.
const SENDER: PeerIndex = PeerIndex(PeerIndex::OWN_SOURCES);
/// Every session is its peer's first.
const LIFE: SessionEpoch = 1;

impl Session {
    /// An empty router with a sending session and the given number of receivers.
    pub fn new(way: Way, receivers: usize) -> Self {
        let spread = Spread::new(HashSeed(7), way.tables);
        let local = Ipv4Addr::new(10, 0, 0, 1).into();
        let rules = ReceiveRules::new(LOCAL_AS, RouterId(1), Asn(65001), local);
        let rules = ReceiveRules { enforce_first_as: false, ..rules };
        let mut tables: Vec<Table> = (0..way.tables)
            .map(|_| Table::new(OwnRouter::new(LOCAL_AS, RouterId(1)), spread.seed(), FamilyCodes::DEFAULT))
            .collect();
        let mut out = Outbox::new();
        let receivers: Vec<PeerIndex> = (0..receivers).map(|n| PeerIndex(SENDER.0 + 1 + n as u16)).collect();
        for (number, peer) in std::iter::once(&SENDER).chain(&receivers).enumerate() {
            let address = Ipv4Addr::from_bits(Ipv4Addr::new(10, 0, 0, 2).to_bits() + number as u32);
            let router_id = RouterId(number as u32 + 2);
            let info = PeerInfo {
                source: RouteSource::Session,
                router_id,
                address: address.into(),
                internal: false,
                client: false,
                direct: false,
                path_check: None,
            };
            let up = Order::PeerUp { peer: *peer, life: LIFE, info, import: PeerImport::default() };
            tables.iter_mut().for_each(|table| table.order(up.clone(), &mut out));
        }
        Session {
            way,
            framer: Framer::default(),
            reader: Reader::new(rules, spread),
            batches: std::iter::repeat_with(Batches::default).take(way.tables.into()).collect(),
            tables,
            out,
            answers: 0,
            receivers,
            buffer: Vec::new(),
            advertised: (0, 0),
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
            let is_full = |b: &Batches| b.len().into_values().any(|changes| changes >= self.way.batch);
            if self.batches.iter().any(is_full) {
                self.hand_over(apply);
            }
        }
        Ok(())
    }

    /// Passes the batches to the tables.
    fn hand_over(&mut self, apply: bool) {
        if apply {
            for (table, batches) in self.tables.iter_mut().zip(&mut self.batches) {
                table.apply(SENDER, LIFE, batches, &mut self.out);
            }
            self.answer();
        }
        self.batches.iter_mut().for_each(Batches::clear);
    }

    /// Passes the last batches; then runs the tables' deferred work.
    pub fn finish(&mut self) {
        self.hand_over(true);
        while self.slice() == Progress::More {
            self.answer();
        }
    }

    fn slice(&mut self) -> Progress {
        let out = &mut self.out;
        let each = self.tables.iter_mut().map(|table| table.run_slice(Budget::SLICE, out));
        each.fold(Progress::Done, Progress::or)
    }

    /// Sends every table the same order.
    fn order(&mut self, order: &Order) {
        self.tables.iter_mut().for_each(|table| table.order(order.clone(), &mut self.out));
    }

    /// Every next hop is on a connected subnet.
    fn answer(&mut self) {
        let asked: Vec<TableEvent> = self.out.drain().collect();
        for question in asked {
            let TableEvent::InterestIpv4(_, Interest::Register(address), _) = question else { continue };
            let Some(answer) = connected(Ipv4Prefix::new(address, 24)) else { continue };
            self.answers += 1;
            self.order(&Order::AnswerIpv4(Versioned { number: self.answers, answer }, Provenance::NONE));
        }
    }

    /// Every receiver requests the whole table. With `together`, receivers in the same state become one group before
    /// any route exists.
    pub fn join(&mut self, together: bool) {
        for peer in self.receivers.clone() {
            let mut next_hops: ByFamily<OwnNextHop> = ByFamily::default();
            next_hops[FamilyIndex::IPV4] = SmallVec::from_slice(&[10, 0, 0, 1]);
            let outlet = PeerExport {
                paced: false,
                agreed: Families::only(FamilyIndex::IPV4),
                families: Families::only(FamilyIndex::IPV4),
                counted: Families::default(),
                next_hops,
                subnets: sluice_bgp::endpoints::Subnets::NONE,
                keeps_third_party: false,
                address: [10, 255, 0, 1].into(),
                views: ByFamily::from_fn(|_| EXTERNAL.into()),
            };
            self.order(&Order::Open(peer, Box::new(outlet)));
        }
        if together {
            self.advertise();
        }
    }

    /// Sends the waiting changes to receivers, until no change is left.
    pub fn advertise(&mut self) {
        let mut busy = true;
        while std::mem::take(&mut busy) {
            for peer in &self.receivers {
                for table in &mut self.tables {
                    self.buffer.clear();
                    let mut sent = Sent::default();
                    table.fill(*peer, OUTPUT, &mut self.buffer, &mut sent);
                    self.advertised.0 += self.buffer.len();
                    self.advertised.1 += sent.updates as usize;
                    busy |= !self.buffer.is_empty();
                }
            }
        }
    }

    /// Attribute sets in the tables.
    pub fn sets(&self) -> usize {
        self.tables.iter().map(|t| t.view(Family::Ipv4).attribute_sets).sum()
    }

    /// Prefixes in the tables.
    pub fn prefixes(&self) -> usize {
        self.tables.iter().map(|t| t.view(Family::Ipv4).prefixes).sum()
    }
}
