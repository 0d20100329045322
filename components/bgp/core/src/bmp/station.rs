//! The state of a connection to a monitoring station: the known peers, and the parts of the RIBs sent so far.
//!
//! The order of messages is as in RFC 7854, sections 3.3 and 5: Initiation; Peer Up before any route of the peer; routes from before,
//! then changes; End-of-RIB behind the routes from before; Peer Down, after which routes of the peer are not withdrawn one by one. The
//! tables know of sessions earlier or later than control. Each chunk of routes therefore names the routes' sessions
//! ([`TableChunk::sessions`]): routes of sessions unknown to the station are left out.

use super::monitored::{
    MirroredMessages, MonitoredPeer, MonitoredRouter, MonitoredSession, Now, PeerChange, PeerStatistics,
    StationCounters,
};
use super::{
    PeerHeader, PeerUp, Statistic, Termination, Timestamp, flag, put_end_of_rib, put_initiation,
    put_mirrored, put_peer_down, put_peer_up, put_routes, put_statistics, put_termination,
};
use crate::family::{ByFamily, Families, FamilyIndex};
use crate::shard::{MonitoredRib, MonitoredRibs, PeerIndex};
use crate::table::{SessionEpoch, TableChunk};
use crate::wire::open::VERSION;
use crate::wire::{Capability, Open};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// AS_TRANS (RFC 6793, section 9).
const AS_TRANS: u16 = 23_456;

/// A peer known to the station.
#[derive(Debug)]
struct Known {
    epoch: SessionEpoch,
    header: PeerHeader,
    families: Families,
    /// Families whose End-of-RIB marker of the Adj-RIB-In was sent.
    ended: Families,
    /// Families whose marker follows the present contents of the tables.
    ending: Families,
}

/// A connection to a station.
#[derive(Debug)]
pub struct Station {
    router: MonitoredRouter,
    ribs: MonitoredRibs,
    peers: BTreeMap<PeerIndex, Known>,
    /// True once the earlier routes were sent.
    is_dumped: bool,
    counters: StationCounters,
    out: Vec<u8>,
}

impl Station {
    /// Begins a connection to a station that is sent `ribs`: with Initiation, and Peer Up of the Loc-RIB. `name` is the router's,
    /// `description` the software's.
    pub fn new(
        router: MonitoredRouter,
        ribs: MonitoredRibs,
        (name, description): (&str, &str),
        now: Now,
    ) -> Self {
        let (peers, counters) = (BTreeMap::new(), StationCounters::default());
        let mut station = Station { router, ribs, peers, is_dumped: false, counters, out: Vec::new() };
        station.put(|_, out| put_initiation(name, description, out));
        if ribs.has(MonitoredRib::LocalRib) {
            let open = station.loc_rib_open();
            station.put(|station, out| {
                let up = PeerUp {
                    local: None,
                    ports: (0, 0),
                    sent: &open,
                    received: &open,
                    table: Some(&station.router.instance.name),
                };
                put_peer_up(&station.loc_rib(), now.timestamp(), &up, out);
            });
        }
        station
    }

    /// Takes the messages for the station.
    pub fn take_octets(&mut self) -> Vec<u8> {
        core::mem::take(&mut self.out)
    }

    /// Returns the counts of the connection.
    pub const fn counters(&self) -> StationCounters {
        self.counters
    }

    /// Returns the number of known peers, without the Loc-RIB.
    pub fn peers(&self) -> usize {
        self.peers.len()
    }

    /// Returns true once the earlier routes were sent.
    pub const fn is_dumped(&self) -> bool {
        self.is_dumped
    }

    /// Returns the known session of a peer, and the families with a known end.
    pub fn known(&self, peer: PeerIndex) -> Option<(SessionEpoch, Families)> {
        let known = self.peers.get(&peer)?;
        let ended = Families::of(|family| known.ended.has(family) || known.ending.has(family));
        Some((known.epoch, ended))
    }

    /// Iterates over the known peers.
    pub fn known_peers(&self) -> impl Iterator<Item = PeerIndex> {
        self.peers.keys().copied()
    }

    /// Returns true if a chunk has routes of unknown sessions: control must be asked first.
    pub fn lacks_sessions(&self, chunk: &TableChunk) -> bool {
        let is_known = |(peer, epoch): (&PeerIndex, &SessionEpoch)| {
            self.peers.get(peer).is_some_and(|known| known.epoch >= *epoch)
        };
        !chunk.sessions.iter().all(is_known)
    }

    /// Returns true if the station does not know a session yet: control is to be asked first.
    pub fn lacks_session(&self, peer: PeerIndex, epoch: SessionEpoch) -> bool {
        self.peers.get(&peer).is_none_or(|known| known.epoch < epoch)
    }

    /// Takes malformed messages of a peer (RFC 7854, section 4.7). Messages of unknown sessions are left out.
    pub fn mirror(&mut self, mirrored: &MirroredMessages) {
        let known = self.peers.get(&mirrored.peer).filter(|known| known.epoch == mirrored.epoch);
        let Some(header) = known.map(|known| known.header) else { return };
        let flags = if mirrored.four_octet_as { 0 } else { flag::LEGACY_AS_PATH };
        let time = Now::of_microseconds(mirrored.since_1970);
        for message in &mirrored.messages {
            self.put(|_, out| put_mirrored(&header, flags, time, Some(message), out));
            self.counters.mirrored += 1;
        }
    }

    /// Reports lost malformed messages, of any known peer.
    pub fn mirroring_lost(&mut self, now: Now) {
        let headers: Vec<PeerHeader> = self.peers.values().map(|known| known.header).collect();
        for header in headers {
            self.put(|_, out| put_mirrored(&header, 0, now.timestamp(), None, out));
        }
    }

    /// Takes changes of peers, in order for each peer.
    pub fn change_peers(&mut self, changes: Vec<MonitoredPeer>, now: Now) {
        for MonitoredPeer { peer, change } in changes {
            match change {
                PeerChange::Down(cause) => {
                    if let Some(known) = self.peers.remove(&peer) {
                        self.put(|_, out| put_peer_down(&known.header, now.timestamp(), &cause, out));
                    }
                }
                PeerChange::Up(session) => self.peer_up(peer, &session, now),
                PeerChange::Ended(families) => {
                    if let Some(known) = self.peers.get_mut(&peer) {
                        known.ending = families.and(known.families).without(known.ended);
                    }
                }
            }
        }
    }

    fn peer_up(&mut self, peer: PeerIndex, session: &MonitoredSession, now: Now) {
        let header = PeerHeader {
            distinguisher: self.router.instance.distinguisher,
            address: Some(session.address),
            asn: session.received.asn(),
            router_id: session.received.router_id,
        };
        let MonitoredSession { epoch, families, .. } = *session;
        let (ended, ending) = (Families::default(), Families::default());
        self.peers.insert(peer, Known { epoch, header, families, ended, ending });
        self.put(|_, out| {
            let up = PeerUp {
                local: Some(session.local),
                ports: session.ports,
                sent: &session.sent,
                received: &session.received,
                table: None,
            };
            put_peer_up(&header, now.at(session.since), &up, out);
        });
    }

    /// Takes routes of a table. Routes of unknown sessions are left out.
    pub fn take_routes(&mut self, chunk: &TableChunk, now: Now) {
        let loc_rib = self.loc_rib();
        for (update, octets) in chunk.chunk.messages() {
            let header = if update.rib == MonitoredRib::LocalRib {
                if !self.router.families.has(update.family) {
                    continue;
                }
                loc_rib
            } else {
                let session = chunk.sessions.get(&update.peer);
                match self.peers.get(&update.peer) {
                    Some(known) if session == Some(&known.epoch) => known.header,
                    _ => continue,
                }
            };
            // When a route from before came, nobody has noted.
            let time = if update.is_from_before { Timestamp::default() } else { now.timestamp() };
            self.put_routes(|_, out| put_routes(&header, update.rib, time, octets, out));
        }
    }

    /// Records that the contents of the tables at the last question for peers were sent; `is_dumped` if with the earlier routes. Due
    /// End-of-RIB markers follow.
    pub fn passed(&mut self, is_dumped: bool, now: Now) {
        let begins = is_dumped && !self.is_dumped;
        self.is_dumped |= is_dumped;
        if !self.is_dumped {
            return;
        }
        let time = now.timestamp();
        let ribs = self.ribs;
        let mut due: Vec<(PeerHeader, MonitoredRib, FamilyIndex)> = Vec::new();
        for known in self.peers.values_mut() {
            let families = if begins { known.families } else { known.ending };
            let is_adj_rib_in =
                |rib: &MonitoredRib| matches!(rib, MonitoredRib::PrePolicy | MonitoredRib::PostPolicy);
            let of_peer = ribs.iter().filter(|rib| *rib != MonitoredRib::LocalRib);
            for rib in of_peer.filter(|rib| begins || is_adj_rib_in(rib)) {
                due.extend(families.iter().map(|family| (known.header, rib, family)));
            }
            known.ended = Families::of(|family| known.ended.has(family) || families.has(family));
            known.ending = Families::default();
        }
        if begins && ribs.has(MonitoredRib::LocalRib) {
            let header = self.loc_rib();
            due.extend(self.router.families.iter().map(|family| (header, MonitoredRib::LocalRib, family)));
        }
        for (header, rib, family) in due {
            self.put_routes(|station, out| {
                put_end_of_rib(&header, rib, (family, &station.router.codes), time, out);
            });
        }
    }

    /// Adds a Statistics Report of each known peer, and of the Loc-RIB, which has `selected` routes.
    pub fn report(
        &mut self,
        statistics: impl Fn(PeerIndex) -> PeerStatistics,
        selected: &ByFamily<u64>,
        now: Now,
    ) {
        let time = now.timestamp();
        let of_peers: Vec<(PeerHeader, Vec<Statistic>)> = self
            .peers
            .iter()
            .map(|(peer, known)| (known.header, of_peer(&statistics(*peer), known.families)))
            .collect();
        let loc_rib = self.ribs.has(MonitoredRib::LocalRib).then(|| {
            let families = || self.router.families.iter();
            let all: u64 = families().map(|family| selected[family]).sum();
            let of_families = families().map(|family| Statistic::OfFamily(10, family, selected[family]));
            let statistics = core::iter::once(Statistic::Gauge(8, all)).chain(of_families).collect();
            (self.loc_rib(), statistics)
        });
        for (header, statistics) in of_peers.into_iter().chain(loc_rib) {
            self.put(|station, out| {
                put_statistics(&header, time, &statistics, &station.router.codes, out);
            });
        }
    }

    /// Adds the last message.
    pub fn terminate(&mut self, reason: Termination) {
        self.put(|_, out| put_termination(reason, out));
    }

    /// Appends a message.
    fn put(&mut self, put: impl FnOnce(&Self, &mut Vec<u8>)) {
        let mut out = core::mem::take(&mut self.out);
        let before = out.len();
        put(self, &mut out);
        self.counters.messages += 1;
        self.counters.octets += (out.len() - before) as u64;
        self.out = out;
    }

    fn put_routes(&mut self, put: impl FnOnce(&Self, &mut Vec<u8>)) {
        self.put(put);
        self.counters.route_monitoring += 1;
    }

    /// Returns the header of the Loc-RIB (RFC 9069, section 5.1).
    const fn loc_rib(&self) -> PeerHeader {
        let MonitoredRouter { local_as, router_id, ref instance, .. } = self.router;
        PeerHeader { distinguisher: instance.distinguisher, address: None, asn: local_as, router_id }
    }

    /// Returns the OPEN for the Loc-RIB's UPDATEs (RFC 9069, section 5.2).
    fn loc_rib_open(&self) -> Open {
        let MonitoredRouter { local_as, router_id, codes, .. } = &self.router;
        let of_family = |family: FamilyIndex| {
            let code = codes.of(family);
            Capability::Multiprotocol { afi: code.afi, safi: code.safi }
        };
        let four_octets = Capability::FourOctetAs(*local_as);
        Open {
            version: VERSION,
            as_field: u16::try_from(local_as.0).unwrap_or(AS_TRANS),
            hold_time: 0,
            router_id: *router_id,
            capabilities: self.router.families.iter().map(of_family).chain([four_octets]).collect(),
        }
    }
}

/// Returns the statistics of a peer with these families.
fn of_peer(statistics: &PeerStatistics, families: Families) -> Vec<Statistic> {
    let PeerStatistics { loops, treated_as_withdraw, received, sent } = statistics;
    let sum = |counts: &ByFamily<u32>| counts.iter().map(|(_, count)| u64::from(*count)).sum();
    let mut all = Vec::from([
        Statistic::Counter(4, *loops),
        Statistic::Gauge(7, sum(received)),
        Statistic::Counter(11, *treated_as_withdraw),
        Statistic::Gauge(15, sum(sent)),
    ]);
    for family in families.iter() {
        all.push(Statistic::OfFamily(9, family, received[family].into()));
        all.push(Statistic::OfFamily(17, family, sent[family].into()));
    }
    all
}
