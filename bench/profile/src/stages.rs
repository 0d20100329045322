//! The cost of each parallel stage, for given feeds and receivers: every intake, every table and every writer
//! separately, each from beginning to end as if on a thread of its own, in thread processor time.

use crate::clock::now;
use crate::next_hop::connected;
use crate::passes::PIECE as READ;
use crate::table::EXTERNAL;
use anyhow::{Result, anyhow};
use sluice_base::{Asn, Ipv4Prefix, Ipv6Prefix, Prefix, Provenance, RouteBatch, RouterId};
use sluice_bgp::attributes::ReceiveRules;
use sluice_bgp::batch::Batches;
use sluice_bgp::endpoints::OwnNextHop;
use sluice_bgp::family::{ByFamily, Families, FamilyCodes, FamilyIndex};
use sluice_bgp::hash::HashSeed;
use sluice_bgp::reader::{Framer, Reader};
use sluice_bgp::shard::{Interest, OwnRouter, PeerIndex, PeerInfo, RouteSource, Sent};
use sluice_bgp::table::{
    Order, PeerExport, PeerImport, SessionEpoch, Sharded, Spread, Table, TableEvent, Versioned,
};
use sluice_bgp::wire::MessageType;
use sluice_machine::{Budget, Outbox, Progress};
use smallvec::SmallVec;
use std::net::{Ipv4Addr, Ipv6Addr};

/// The router's AS.
const LOCAL_AS: Asn = Asn(65000);
/// The AS of the first peer.
const FIRST_AS: u32 = 65001;
/// Octets that a table fills in for a neighbor at a time.
const PIECE: usize = 32_768;
/// Routes that the RIB is handed at a time.
const RIB_BATCH: usize = 4096;
/// Every session is its peer's first.
const LIFE: SessionEpoch = 1;

/// The senders, their messages, and the number of receivers.
#[derive(Clone, Debug)]
pub struct Scene<'a> {
    /// The UPDATEs of each sender.
    pub feeds: Vec<&'a [u8]>,
    /// Peers that only receive. Senders also receive the routes of the remaining senders.
    pub receivers: usize,
    /// True if IPv6 is spoken beside IPv4.
    pub ipv6: bool,
}

/// The cost of a table, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct TableCost {
    /// Taking batches, deciding, and preparing routes for the RIB.
    pub decide: f64,
    /// Packing messages and copying them for each peer.
    pub fill: f64,
}

/// The cost of the stages with a number of tables, without messages between threads and the kernel's part of reading
/// and writing.
#[derive(Clone, Debug, Default)]
pub struct Stages {
    /// Each sender's intake, in seconds: framing, parsing, canonical attributes, and the spread over the tables.
    pub intakes: Vec<f64>,
    /// Each table.
    pub tables: Vec<TableCost>,
    /// Octets sent to each peer; senders first.
    pub advertised: Vec<usize>,
    /// Batches that intakes hand to each table.
    pub batches: Vec<usize>,
    /// Pieces that each table hands to writers.
    pub pieces: Vec<usize>,
    /// Number of read UPDATEs, and of their prefixes.
    pub read: (u64, u64),
    /// Routes for the RIB.
    pub for_rib: usize,
}

/// The batches from an intake's read for each table, with the intake's number.
type Messages = Vec<(usize, Batches)>;

/// Measures a scene with so many tables.
///
/// # Errors
/// If a feed is not well-formed.
pub fn measure(scene: &Scene<'_>, tables: u16) -> Result<Stages> {
    let spread = Spread::new(HashSeed(7), tables);
    let mut stages = Stages::default();
    for (number, feed) in scene.feeds.iter().enumerate() {
        stages.intakes.push(time_intake(number, feed, spread)?);
    }
    let messages = messages(scene, spread, &mut stages.read)?;
    let peers = scene.feeds.len() + scene.receivers;
    stages.advertised = vec![0; peers];
    for messages in messages {
        stages.batches.push(messages.iter().filter(|l| !l.1.is_empty()).count());
        let mut driven = Driven::new(scene, spread);
        for (at, (sender, mut batches)) in messages.into_iter().enumerate() {
            driven.take(sender, &mut batches)?;
            // As often as a table looks for other work: when every sender has had its turn.
            if (at + 1).is_multiple_of(scene.feeds.len()) {
                driven.work()?;
            }
        }
        while driven.work()? {}
        stages.tables.push(driven.cost);
        stages.pieces.push(driven.pieces);
        stages.for_rib += driven.for_rib;
        stages.advertised.iter_mut().zip(&driven.advertised).for_each(|(all, one)| *all += one);
    }
    Ok(stages)
}

fn reader(number: usize, spread: Spread) -> Reader {
    let peer_as = Asn(FIRST_AS + number as u32);
    let rules = ReceiveRules::new(LOCAL_AS, RouterId(1), peer_as, Ipv4Addr::new(10, 1, 0, 1).into());
    Reader::new(ReceiveRules { enforce_first_as: false, ..rules }, spread)
}

fn empty(spread: Spread) -> Vec<Batches> {
    std::iter::repeat_with(Batches::default).take(spread.tables()).collect()
}

/// Reads octets into batches.
fn read(reader: &mut Reader, framer: &mut Framer, mut octets: &[u8], into: &mut [Batches]) -> Result<()> {
    while let Some(frame) = framer.next(&mut octets).map_err(|e| anyhow!("{e}"))? {
        if frame.kind == MessageType::Update {
            let read = reader.update(frame.body, Provenance::NONE, into);
            read.map_err(|n| anyhow!("the session would end: {n}"))?;
        }
    }
    Ok(())
}

/// Times an intake with reused batches, as in the process.
fn time_intake(number: usize, feed: &[u8], spread: Spread) -> Result<f64> {
    let (mut reader, mut framer, mut batches) = (reader(number, spread), Framer::default(), empty(spread));
    let begin = now()?;
    for piece in feed.chunks(READ) {
        read(&mut reader, &mut framer, piece, &mut batches)?;
        batches.iter_mut().for_each(Batches::clear);
    }
    Ok((now()? - begin) / 1e9)
}

/// The messages to each table, with senders taking turns.
fn messages(scene: &Scene<'_>, spread: Spread, read_in_all: &mut (u64, u64)) -> Result<Vec<Messages>> {
    let mut messages: Vec<Messages> = (0..spread.tables()).map(|_| Messages::new()).collect();
    let start = |(number, feed): (usize, &&'_ [u8])| (reader(number, spread), Framer::default(), feed.len());
    let mut intakes: Vec<(Reader, Framer, usize)> = scene.feeds.iter().enumerate().map(start).collect();
    let longest = intakes.iter().map(|i| i.2).max().unwrap_or(0);
    for from in (0..longest).step_by(READ) {
        for (number, (reader, framer, length)) in intakes.iter_mut().enumerate() {
            let mut batches = empty(spread);
            let piece = from.min(*length)..(from + READ).min(*length);
            read(reader, framer, &scene.feeds[number][piece], &mut batches)?;
            messages.iter_mut().zip(batches).for_each(|(to, batches)| to.push((number, batches)));
        }
    }
    for (reader, ..) in &intakes {
        read_in_all.0 += reader.counters.updates;
        read_in_all.1 += reader.counters.announced;
    }
    Ok(messages)
}

/// A table by itself.
struct Driven {
    table: Table,
    out: Outbox<TableEvent>,
    answers: u64,
    peers: usize,
    cost: TableCost,
    pieces: usize,
    advertised: Vec<usize>,
    for_rib: usize,
    buffer: Vec<u8>,
}

/// Peers are numbered from 1.
const fn peer(number: usize) -> PeerIndex {
    PeerIndex(number as u16 + 1)
}

impl Driven {
    /// A stage with every session up.
    fn new(scene: &Scene<'_>, spread: Spread) -> Self {
        let peers = scene.feeds.len() + scene.receivers;
        let mut out = Outbox::new();
        let mut table =
            Table::new(OwnRouter::new(LOCAL_AS, RouterId(1)), spread.seed(), FamilyCodes::DEFAULT);
        for number in 0..peers {
            let address = Ipv4Addr::from_bits(Ipv4Addr::new(10, 1, 0, 2).to_bits() + number as u32);
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
            table.order(
                Order::PeerUp { peer: peer(number), life: LIFE, info, import: PeerImport::default() },
                &mut out,
            );
            table.order(Order::Open(peer(number), Box::new(outlet(scene.ipv6))), &mut out);
        }
        let (cost, advertised) = (TableCost::default(), vec![0; peers]);
        Driven { table, out, answers: 0, peers, cost, pieces: 0, advertised, for_rib: 0, buffer: Vec::new() }
    }

    /// Takes an intake's batches.
    fn take(&mut self, sender: usize, batches: &mut Batches) -> Result<()> {
        let begin = now()?;
        if !batches.is_empty() {
            self.table.apply(peer(sender), LIFE, batches, &mut self.out);
        }
        self.answer();
        self.cost.decide += (now()? - begin) / 1e9;
        Ok(())
    }

    /// Handles some waiting work, and sends the changes to peers and the RIB; returns true if there was work.
    fn work(&mut self) -> Result<bool> {
        let begin = now()?;
        let mut busy = self.table.run_slice(Budget::SLICE, &mut self.out) == Progress::More;
        self.answer();
        busy |= self.for_rib::<Ipv4Prefix>() | self.for_rib::<Ipv6Prefix>();
        let between = now()?;
        for number in 0..self.peers {
            if self.table.has_output(peer(number)) {
                self.buffer.clear();
                self.table.fill(peer(number), PIECE, &mut self.buffer, &mut Sent::default());
                self.advertised[number] += self.buffer.len();
                self.pieces += 1;
                busy |= !self.buffer.is_empty();
            }
        }
        self.cost.decide += (between - begin) / 1e9;
        self.cost.fill += (now()? - between) / 1e9;
        Ok(busy)
    }

    fn for_rib<P: Sharded>(&mut self) -> bool {
        if !self.table.has_rib_changes(P::INDEX) {
            return false;
        }
        let mut batch = RouteBatch::<P>::default();
        let more = self.table.rib_batch(RIB_BATCH, &mut batch);
        self.for_rib += batch.updates.len();
        more
    }

    /// Every next hop is on a connected subnet.
    fn answer(&mut self) {
        let asked: Vec<TableEvent> = self.out.drain().collect();
        for question in asked {
            self.answers += 1;
            let number = self.answers;
            let order = match question {
                TableEvent::InterestIpv4(_, Interest::Register(address), _) => {
                    connected(Ipv4Prefix::new(address, 24))
                        .map(|answer| Order::AnswerIpv4(Versioned { number, answer }, Provenance::NONE))
                }
                TableEvent::InterestIpv6(_, Interest::Register(address), _) => {
                    connected(Ipv6Prefix::new(address, 64))
                        .map(|answer| Order::AnswerIpv6(Versioned { number, answer }, Provenance::NONE))
                }
                _ => None,
            };
            if let Some(order) = order {
                self.table.order(order, &mut self.out);
            }
        }
    }
}

/// Returns the families of the benchmark: IPv4, and IPv6 too if that is wanted.
fn families(ipv6: bool) -> Families {
    Families::of(|family| family == FamilyIndex::IPV4 || (ipv6 && family == FamilyIndex::IPV6))
}

fn outlet(ipv6: bool) -> PeerExport {
    let own = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 1);
    let mut next_hops: ByFamily<OwnNextHop> = ByFamily::default();
    next_hops[FamilyIndex::IPV4] = SmallVec::from_slice(&[10, 1, 0, 1]);
    next_hops[FamilyIndex::IPV6] = SmallVec::from_slice(&own.octets());
    PeerExport {
        paced: false,
        agreed: families(ipv6),
        families: families(ipv6),
        counted: Families::default(),
        next_hops,
        subnets: sluice_bgp::endpoints::Subnets::NONE,
        keeps_third_party: false,
        address: [10, 255, 0, 1].into(),
        views: ByFamily::from_fn(|_| EXTERNAL.into()),
    }
}
