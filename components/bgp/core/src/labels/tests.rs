use super::*;
use crate::attributes::ReceiveRules;
use crate::batch::Batches;
use crate::endpoints::{OwnNextHop, Subnets};
use crate::family::{ByFamily, Families, FamilyCodes, FamilyIndex, FamilyVisitor, Sharded};
use crate::hash::HashSeed;
use crate::reader::{Framer, Reader};
use crate::shard::{
    ExportView, Interest, OwnRouter, PeerIndex, PeerInfo, RouteSource, Sent, SentCommunities,
};
use crate::table::{
    Order, PeerExport, PeerImport, Spread, Table, TableEvent, TablePart, Tables, Versioned, import,
};
use crate::wire::attribute::{code, put_header};
use alloc::boxed::Box;
use alloc::vec;
use core::net::IpAddr;
use sluice_base::interest::{InterestAnswer, ResolvingRoute};
use sluice_base::{
    Asn, Distance, Forwarding, InterfaceIndex, Metric, NextHop, Provenance, RouteBatch, RouterId,
};
use sluice_machine::{Budget, Outbox, Progress};

const LOCAL_AS: Asn = Asn(65001);
const SPREAD: Spread = Spread::new(HashSeed(1), 1);
/// The neighbors that announce routes, each in the AS of its number, and the neighbor that receives them.
const SENDERS: [u16; 2] = [20, 21];
const RECEIVER: u16 = 22;

/// The view of an external neighbor.
const EXTERNAL: ExportView = ExportView {
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

fn label(text: &str) -> Label {
    text.parse().unwrap()
}

fn reader(peer_as: u16) -> Reader {
    let rules = ReceiveRules::new(Asn(1), RouterId(1), Asn(peer_as.into()), IpAddr::from([10, 0, 0, 99]));
    Reader::new(rules, SPREAD)
}

/// The body of an UPDATE that announces a label with an AS_PATH, or withdraws it.
fn update(label: Label, path: Option<&[u16]>) -> Vec<u8> {
    let [afi_high, afi_low] = Label::AFI.to_be_bytes();
    let mut field = vec![];
    let mut put = |flags, code, value: &[u8]| {
        put_header(&mut field, flags, code, value.len());
        field.extend_from_slice(value);
    };
    if let Some(path) = path {
        let mut reach = vec![afi_high, afi_low, Label::SAFI, 4, 10, 0, 0, path[0] as u8, 0];
        label.put(&mut reach);
        let mut segment = vec![2, path.len() as u8];
        path.iter().for_each(|asn| segment.extend_from_slice(&u32::from(*asn).to_be_bytes()));
        put(0x40, code::ORIGIN, &[0]);
        put(0x40, code::AS_PATH, &segment);
        put(0x80, code::MP_REACH_NLRI, &reach);
    } else {
        let mut unreach = vec![afi_high, afi_low, Label::SAFI];
        label.put(&mut unreach);
        put(0x80, code::MP_UNREACH_NLRI, &unreach);
    }
    let mut body = vec![0, 0];
    body.extend_from_slice(&(field.len() as u16).to_be_bytes());
    body.extend_from_slice(&field);
    body
}

/// A table whose neighbors have sessions.
struct Router {
    table: Table,
    out: Outbox<TableEvent>,
    answers: u64,
}

impl Router {
    fn new() -> Self {
        let table = Table::new(OwnRouter::new(LOCAL_AS, RouterId(1)), SPREAD.seed(), FamilyCodes::DEFAULT);
        let mut router = Router { table, out: Outbox::new(), answers: 0 };
        for number in SENDERS.into_iter().chain([RECEIVER]) {
            let (peer, address) = (PeerIndex(number), IpAddr::from([10, 0, 0, number as u8]));
            let info = PeerInfo {
                source: RouteSource::Session,
                router_id: RouterId(number.into()),
                address,
                internal: false,
                client: false,
                direct: false,
                path_check: None,
            };
            let families = Families::only(FamilyIndex::of::<Label>());
            let export = PeerExport {
                paced: false,
                agreed: families,
                families,
                counted: Families::NONE,
                next_hops: ByFamily::from_fn(|_| OwnNextHop::from_slice(&[10, 0, 0, 1])),
                subnets: Subnets::NONE,
                keeps_third_party: false,
                address,
                views: ByFamily::from_fn(|_| EXTERNAL.into()),
            };
            router.order(Order::PeerUp { peer, life: 1, info, import: PeerImport::default() });
            router.order(Order::Open(peer, Box::new(export)));
        }
        router
    }

    fn order(&mut self, order: Order) {
        self.table.order(order, &mut self.out);
        self.settle();
    }

    /// Takes an UPDATE of a neighbor.
    fn receive(&mut self, peer: u16, body: &[u8]) {
        let mut batches = Batches::default();
        let read = reader(peer).update(body, Provenance::NONE, core::slice::from_mut(&mut batches));
        assert_eq!(read.unwrap().malformed, None);
        self.table.apply(PeerIndex(peer), 1, &mut batches, &mut self.out);
        self.settle();
    }

    /// Answers questions about next hops: each is on a connected subnet.
    fn settle(&mut self) {
        loop {
            let asked: Vec<TableEvent> = self.out.drain().collect();
            for event in asked {
                let TableEvent::InterestIpv4(family, Interest::Register(address), _) = event else {
                    continue;
                };
                assert_eq!(family, FamilyIndex::of::<Label>());
                let prefix = Ipv4Prefix::new(address, 24).unwrap();
                let route = ResolvingRoute {
                    prefix,
                    metric: Metric(0),
                    distance: Distance::CONNECTED,
                    connected: true,
                    forwarding: Forwarding::one(NextHop::on(InterfaceIndex::new(1).unwrap())),
                };
                self.answers += 1;
                let answer = InterestAnswer { valid: prefix, route: Some(route) };
                let order = Order::AnswerIpv4(Versioned { number: self.answers, answer }, Provenance::NONE);
                self.table.order(order, &mut self.out);
            }
            let progress = self.table.run_slice(Budget::SLICE, &mut self.out);
            if progress == Progress::Done && self.out.is_empty() {
                return;
            }
        }
    }

    /// Returns the neighbor whose path of a label is the best.
    fn best(&self, label: Label) -> Option<u16> {
        let tables = Tables { tables: core::slice::from_ref(&self.table), spread: SPREAD };
        let best = tables.route(label)?.paths.into_iter().find(|path| path.lost.is_none());
        best.map(|path| path.peer.0)
    }

    /// Returns the changes that the receiver is sent: each label, and true if it is withdrawn.
    fn sent(&mut self) -> Vec<(Label, bool)> {
        let (mut octets, mut batches) = (vec![], Batches::default());
        self.table.fill(PeerIndex(RECEIVER), usize::MAX, &mut octets, &mut Sent::default());
        let (mut framer, mut reader) = (Framer::default(), reader(LOCAL_AS.0 as u16));
        let mut rest = &octets[..];
        while let Some(frame) = framer.next(&mut rest).unwrap() {
            reader.update(frame.body, Provenance::NONE, core::slice::from_mut(&mut batches)).unwrap();
        }
        let changes = batches.of::<Label>().changes();
        assert_eq!(batches.len().into_values().sum::<usize>(), changes.len());
        changes.iter().map(|change| (change.prefix, change.is_withdrawal())).collect()
    }

    /// Returns the changes that the RIB is sent.
    fn for_rib(&mut self) -> usize {
        let mut batch = RouteBatch::<Label>::default();
        while self.table.rib_batch(16, &mut batch) {}
        batch.updates.len()
    }
}

#[test]
fn a_family_is_a_key_and_a_row() {
    let (mut router, one) = (Router::new(), label("family-200:abcd00/16"));
    let [near, far] = SENDERS;
    router.receive(far, &update(one, Some(&[far, 7])));
    assert_eq!((router.best(one), router.sent(), router.for_rib()), (Some(far), vec![(one, false)], 1));
    router.receive(near, &update(one, Some(&[near])));
    assert_eq!((router.best(one), router.sent(), router.for_rib()), (Some(near), vec![(one, false)], 1));

    let mut successor = Router::new();
    for part in router.table.parts() {
        let octets = serde_json::to_vec(&part).unwrap();
        let part: TablePart = serde_json::from_slice(&octets).unwrap();
        import(core::slice::from_mut(&mut successor.table), SPREAD, &part);
    }
    successor.settle();
    assert_eq!((successor.best(one), successor.sent()), (Some(near), vec![(one, false)]));

    router.receive(near, &update(one, None));
    assert_eq!((router.best(one), router.sent(), router.for_rib()), (Some(far), vec![(one, false)], 1));
    router.receive(far, &update(one, None));
    assert_eq!((router.best(one), router.sent(), router.for_rib()), (None, vec![(one, true)], 1));
    assert_eq!((router.sent(), router.for_rib()), (vec![], 0));
}

/// Looks at everything that is kept by family.
struct Typed<'a>(FamilyIndex, &'a Table);

impl FamilyVisitor for Typed<'_> {
    type Output = ();

    fn visit<P: Sharded>(self) {
        let Typed(family, table) = self;
        assert_eq!((P::INDEX, family.row().id), (family, P::ID));
        let mut batches = Batches::default();
        batches.of_mut::<P>().push(P::default_route(), u32::MAX);
        assert_eq!(batches.len(), ByFamily::from_fn(|other| usize::from(other == family)));
        assert_eq!(table.shard::<P>().view().prefixes, 0);
    }
}

#[test]
fn what_is_kept_by_family_has_the_family_s_keys() {
    let router = Router::new();
    FamilyIndex::all().for_each(|family| family.visit(Typed(family, &router.table)));
}
