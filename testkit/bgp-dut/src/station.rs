//! A monitoring station: reads BMP (RFC 7854) by the RFC's layout, and keeps what a router's RIBs are by that.

use super::{Dut, Net, ScriptedPeer, TestPolicy};
use crate::oracle::{best, exported};
use sluice_base::Instant;
use sluice_bgp::attributes::canonical;
use sluice_bgp::bmp::{Instance, Now, Station};
use sluice_bgp::shard::{MonitoredRib, MonitoredRibs};
use sluice_bgp::wire::attribute::{Attributes, code};
use sluice_bgp::wire::multiprotocol::{MpReach, MpUnreach, NextHop};
use sluice_bgp::wire::{Nlri, Open, Update, header};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Flags of the per-peer header.
const IPV6: u8 = 0x80;
const POST: u8 = 0x40;
const OUT: u8 = 0x10;

/// The number of the station's monitor.
pub const MONITOR: u32 = 9;

/// A route as a station has it: octets of the next hop, and the attributes without it.
type StationRoute = (Vec<u8>, Vec<u8>);

/// A RIB of a peer: type of the peer, flags, and address.
type RibKey = (u8, u8, IpAddr);

/// What a station knows.
pub struct Watcher<P> {
    station: Station,
    /// Peers that are up, and true for those with path identifiers.
    up: BTreeMap<IpAddr, bool>,
    ribs: BTreeMap<RibKey, BTreeMap<(P, Option<u32>), StationRoute>>,
    /// RIBs whose End-of-RIB marker came.
    pub ended: BTreeSet<RibKey>,
    /// The received BMP messages, in order.
    pub messages: Vec<Vec<u8>>,
}

fn now() -> Now {
    Now { instant: Instant::from_nanos(5_000_000_000), since_1970: 1_700_000_000_000_000 }
}

/// Takes octets off the front.
fn take<'a>(octets: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = octets.split_at(count);
    *octets = rest;
    taken
}

fn number(octets: &[u8]) -> u64 {
    octets.iter().fold(0, |number, octet| number << 8 | u64::from(*octet))
}

/// Takes a whole BGP message, and returns its body.
fn message<'a>(octets: &mut &'a [u8]) -> &'a [u8] {
    let frame = header::frame_within(octets, 65_535).unwrap().unwrap();
    take(octets, frame.len());
    frame.body
}

impl<P: Net> Watcher<P> {
    /// Begins to watch a router.
    pub fn begin(dut: &mut Dut<P>) -> Self {
        let ribs: MonitoredRibs = MonitoredRib::ALL.into_iter().collect();
        dut.speaker.begin_monitor(MONITOR, ribs);
        let instance = Instance { name: "global".into(), distinguisher: 0 };
        let router = dut.speaker.monitored_router(instance);
        let station = Station::new(router, ribs, ("router", "a test"), now());
        Watcher {
            station,
            up: BTreeMap::new(),
            ribs: BTreeMap::new(),
            ended: BTreeSet::new(),
            messages: vec![],
        }
    }

    /// Takes about `limit` changes of each table; returns true if there are more.
    pub fn serve(&mut self, dut: &mut Dut<P>, limit: usize) -> bool {
        let more = dut.speaker.serve_station(MONITOR, limit, &mut self.station, now()).unwrap();
        let octets = self.station.take_octets();
        let mut rest = &octets[..];
        while !rest.is_empty() {
            assert_eq!(rest[0], 3, "the version");
            let len = number(&rest[1..5]) as usize;
            let message = take(&mut rest, len);
            self.messages.push(message.to_vec());
            self.receive(message[5], &message[6..]);
        }
        more
    }

    fn receive(&mut self, kind: u8, mut body: &[u8]) {
        if kind == 4 {
            assert_eq!(self.messages.len(), 1, "Initiation is the first message");
            return;
        }
        let [peer_type, flags] = *take(&mut body, 2).first_chunk().unwrap();
        assert_eq!(number(take(&mut body, 8)), 0, "peer distinguisher");
        let address: [u8; 16] = take(&mut body, 16).try_into().unwrap();
        let address = match flags & IPV6 {
            0 => IpAddr::from(*address.last_chunk::<4>().unwrap()),
            _ => IpAddr::from(address),
        };
        // AS, BGP Identifier and time.
        take(&mut body, 16);
        match kind {
            0 => {
                let several = *self.up.get(&address).unwrap_or_else(|| panic!("{address} is not up"));
                self.routes((peer_type, flags, address), several, message(&mut body));
            }
            2 => {
                self.up.remove(&address).unwrap_or_else(|| panic!("{address} was not up"));
                self.ribs.retain(|(_, _, of), _| *of != address);
                self.ended.retain(|(_, _, of)| *of != address);
            }
            3 => {
                take(&mut body, 20);
                let opens = [message(&mut body), message(&mut body)].map(|open| Open::decode(open).unwrap());
                let several = opens.iter().all(|open| format!("{open:?}").contains("AddPath"));
                assert_eq!(self.up.insert(address, several), None, "{address} was up already");
            }
            _ => panic!("message type {kind}"),
        }
    }

    fn routes(&mut self, key: RibKey, several: bool, update: &[u8]) {
        let update = Update::decode(update).unwrap();
        let (mut attributes, mut hop) = (vec![], vec![]);
        let (mut announced, mut withdrawn) = (vec![], vec![]);
        let nlri = |field, out: &mut Vec<(P, Option<u32>)>| {
            let nlri = Nlri::<P>::new(field, 0);
            if several {
                out.extend(nlri.with_path_ids().map(|path| path.unwrap()).map(|(id, p)| (p, Some(id))));
            } else {
                out.extend(nlri.map(|prefix| (prefix.unwrap(), None)));
            }
        };
        nlri(update.withdrawn, &mut withdrawn);
        nlri(update.nlri, &mut announced);
        let mut is_marker = update.is_empty();
        for attribute in Attributes::new(update.attributes, 0).map(Result::unwrap) {
            match attribute.code {
                code::NEXT_HOP => hop = attribute.value.to_vec(),
                code::MP_REACH_NLRI => {
                    let reach = MpReach::decode(attribute.value, 0).unwrap();
                    hop = reach.next_hop.to_vec();
                    if (reach.afi, reach.safi) == (P::AFI, P::SAFI) {
                        nlri(reach.nlri, &mut announced);
                    }
                }
                code::MP_UNREACH_NLRI => {
                    let unreach = MpUnreach::decode(attribute.value, 0).unwrap();
                    is_marker = unreach.withdrawn.is_empty();
                    nlri(unreach.withdrawn, &mut withdrawn);
                }
                _ => attribute.put(&mut attributes),
            }
        }
        if is_marker {
            self.ended.insert(key);
        }
        let rib = self.ribs.entry(key).or_default();
        for route in withdrawn {
            rib.remove(&route);
        }
        for route in announced {
            rib.insert(route, (hop.clone(), attributes.clone()));
        }
    }

    fn rib(&self, peer: IpAddr, flags: u8) -> BTreeMap<(P, Option<u32>), StationRoute> {
        let family = if peer.is_ipv6() { IPV6 } else { 0 };
        self.ribs.get(&(0, flags | family, peer)).cloned().unwrap_or_default()
    }

    /// Takes all that there is, and compares what the station knows with what the router's tables hold.
    pub fn compare(&mut self, dut: &mut Dut<P>, prefixes: u32) {
        while self.serve(dut, 100) {}
        let unspecified = IpAddr::from([0; 4]);
        let mut expected: BTreeMap<RibKey, BTreeMap<(P, Option<u32>), StationRoute>> = BTreeMap::new();
        let index = |dut: &Dut<P>, peer: &ScriptedPeer<P>| dut.speaker.neighbor(peer.address).unwrap().index;
        let up: Vec<usize> = (0..dut.peers.len()).filter(|n| dut.peers[*n].connection.is_some()).collect();
        for prefix in (0..prefixes).map(P::nth) {
            let paths = dut.speaker.tables().route(prefix).map(|route| route.paths).unwrap_or_default();
            for peer in up.iter().map(|n| &dut.peers[*n]) {
                let family = if peer.address.is_ipv6() { IPV6 } else { 0 };
                let number = index(dut, peer);
                for path in paths.iter().filter(|path| path.peer == number && !path.stale) {
                    let key = (prefix, path.path_id);
                    let post = (route_of(path.next_hop, &path.attributes), path.rejected_by.is_none());
                    let pre = match &path.received {
                        Some(came) => route_of(came.next_hop, &came.attributes),
                        None => post.0.clone(),
                    };
                    expected.entry((0, family, peer.address)).or_default().insert(key, pre);
                    if post.1 {
                        expected.entry((0, family | POST, peer.address)).or_default().insert(key, post.0);
                    }
                }
                if let Some(route) = dut.speaker.tables().advertised_route(number, prefix) {
                    for path in &route.paths {
                        let sent = route_of(path.next_hop, &path.attributes);
                        let key = (0, family | POST | OUT, peer.address);
                        expected.entry(key).or_default().insert((prefix, path.path_id), sent);
                    }
                }
            }
            if let Some(best) = paths.iter().find(|path| path.lost.is_none()) {
                let of = (3, 0, unspecified);
                let route = route_of(best.next_hop, &best.attributes);
                expected.entry(of).or_default().insert((prefix, None), route);
            }
        }
        let is_out_pre = |key: &RibKey| key.1 & (OUT | POST) == OUT;
        let mut found = self.ribs.clone();
        found.retain(|key, rib| !is_out_pre(key) && !rib.is_empty());
        for (key, rib) in &expected {
            assert_eq!(found.get(key), Some(rib), "the RIB {key:?}");
        }
        assert_eq!(found.keys().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>());
        let selected = expected.get(&(3, 0, unspecified)).map_or(0, BTreeMap::len);
        assert_eq!(
            dut.speaker.tables().view(P::INDEX).selected as usize,
            selected,
            "count of selected routes"
        );
        self.compare_before_export_policy(dut, &up, prefixes);
        for peer in up.iter().map(|n| &dut.peers[*n]) {
            assert!(self.up.contains_key(&peer.address), "{} is up", peer.address);
        }
        assert!(self.ended.contains(&(3, 0, unspecified)), "End-of-RIB of the Loc-RIB");
    }

    /// Compares the prefixes of each Adj-RIB-Out before policy with those of a router without export policies.
    fn compare_before_export_policy(&self, dut: &mut Dut<P>, up: &[usize], prefixes: u32) {
        for n in up.iter().copied() {
            if dut.peers[n].several {
                continue;
            }
            let export = std::mem::take(&mut dut.peers[n].export);
            assert_eq!(dut.peers[n].export, TestPolicy::default());
            let peer = &dut.peers[n];
            let is_sent = |prefix: &P| {
                best(dut, *prefix).is_some_and(|best| exported(dut, *prefix, &best, peer).is_some())
            };
            let expected: BTreeSet<P> = (0..prefixes).map(P::nth).filter(is_sent).collect();
            let found: BTreeSet<P> =
                self.rib(peer.address, OUT).into_keys().map(|(prefix, _)| prefix).collect();
            assert_eq!(found, expected, "Adj-RIB-Out before policy of {}", peer.address);
            dut.peers[n].export = export;
        }
    }
}

/// Returns a route of a view as a station has it.
fn route_of(hop: NextHop, attributes: &[u8]) -> StationRoute {
    let mut hop_octets = match hop.address {
        sluice_base::Address::Ip(IpAddr::V4(address)) => address.octets().to_vec(),
        sluice_base::Address::Ip(IpAddr::V6(address)) => address.octets().to_vec(),
        sluice_base::Address::Identifier(id) => id.octets().to_vec(),
    };
    if let Some(link_local) = hop.link_local {
        hop_octets.extend_from_slice(&link_local.octets());
    }
    let mut out = vec![];
    canonical::attributes(attributes).for_each(|attribute| attribute.put(&mut out));
    (hop_octets, out)
}
