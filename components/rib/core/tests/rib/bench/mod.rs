//! A RIB on a test bench: two interfaces, a trusting engine, virtual time.

use sluice_base::interest::InterestAnswer;
use sluice_base::{
    Address, AnyPrefix, Distance, Duration, FamilyId, FibBatch, FibRoute, Forwarding, GroupId, Instant,
    Interface, InterfaceAddress, InterfaceEvent, InterfaceIndex, Ipv4Prefix, Ipv6Prefix, NextHop, Prefix,
    Provenance, RouteAction, RouteBatch, RouteSet, RouteUpdate, TableId, Xid, XidPrefix,
};
use sluice_machine::{Budget, Machine, Outbox, Progress, Request};
use sluice_rib::RibPolicies;
use sluice_rib::TableKey;
use sluice_rib::family::RibTable;
use sluice_rib::request::{PlumbStage, SetPolicies, UnplumbStage, UpdateRoutes};
use sluice_rib::{Input, OriginSettings, Output, Rib, Scope, SubscriptionId, WatcherId};
use sluice_stage::{OrderedStore, Stage, StageId};
use std::collections::BTreeMap;

pub mod plan;
pub mod policies;

/// The file of the family, compiled in each crate that implements its own traits for the key.
#[path = "../../../../../../testkit/families/label.rs"]
pub mod label;
pub use label::Label;

impl TableKey for Label {
    type Store<V: Send> = OrderedStore<Self, V>;
}

/// A family to test with.
pub trait Net: TableKey {
    /// The engine's routes of the family.
    fn engine(bench: &mut Bench) -> &mut BTreeMap<Self, GroupId>;
    /// Reads gateways in the notation of tests.
    fn gateway(text: &str) -> Address {
        Address::Ip(text.parse().unwrap())
    }
    /// Asks as for a next hop.
    fn ask(rib: &mut Rib, addr: Self::Addr) -> InterestAnswer<Self> {
        rib.interest(TableId::MAIN, WatcherId(1), addr, Scope::NextHop)
    }
}

impl Net for Ipv4Prefix {
    fn engine(bench: &mut Bench) -> &mut BTreeMap<Self, GroupId> {
        &mut bench.v4
    }
}

impl Net for Ipv6Prefix {
    fn engine(bench: &mut Bench) -> &mut BTreeMap<Self, GroupId> {
        &mut bench.v6
    }
}

impl Net for Label {
    fn engine(bench: &mut Bench) -> &mut BTreeMap<Self, GroupId> {
        &mut bench.labels
    }

    fn gateway(text: &str) -> Address {
        match text.parse() {
            Ok(ip) => Address::Ip(ip),
            Err(_) => text.parse::<Label>().unwrap().addr().into(),
        }
    }
}

impl Net for XidPrefix {
    fn engine(bench: &mut Bench) -> &mut BTreeMap<Self, GroupId> {
        &mut bench.xids
    }

    fn gateway(text: &str) -> Address {
        match text.parse() {
            Ok(ip) => Address::Ip(ip),
            Err(_) => text.parse::<Xid>().unwrap().into(),
        }
    }
}

pub struct Bench {
    pub rib: Rib,
    pub outputs: Vec<Output>,
    pub routes_sent: usize,
    /// The number of groups sent to the engine.
    pub groups_sent: usize,
    /// True for each prefix whose route was sent to the engine as external.
    pub externals: BTreeMap<String, bool>,
    /// True if the engine currently accepts no changes.
    pub busy: bool,
    now: Instant,
    groups: BTreeMap<GroupId, Forwarding<Address>>,
    v4: BTreeMap<Ipv4Prefix, GroupId>,
    v6: BTreeMap<Ipv6Prefix, GroupId>,
    labels: BTreeMap<Label, GroupId>,
    xids: BTreeMap<XidPrefix, GroupId>,
}

pub fn batch<P: Net>(prefix: P, gateways: Option<&str>) -> RouteBatch<P> {
    let mut batch = RouteBatch::default();
    let action = match gateways {
        Some(text) => {
            let hops = text.split(' ').map(|g| NextHop::via(P::gateway(g)));
            let forwarding = Forwarding::many(hops).unwrap();
            batch.sets.push(RouteSet::plain(forwarding));
            RouteAction::Set(0)
        }
        None => RouteAction::Delete,
    };
    batch.updates.push(RouteUpdate { prefix, action, provenance: Provenance::new(9, 1) });
    batch
}

fn interface(index: u32, running: bool) -> Interface {
    let addr =
        |text: &str, prefix_len| InterfaceAddress { addr: text.parse().unwrap(), prefix_len, peer: None };
    Interface {
        index: InterfaceIndex::new(index).unwrap(),
        name: format!("eth{index}"),
        admin_up: running,
        running,
        loopback: false,
        point_to_point: false,
        multicast: true,
        mtu: 1500,
        mac: vec![2, 0, 0, 0, 0, index as u8],
        addresses: match index {
            1 => vec![addr("10.0.0.1", 24), addr("2001:db8::1", 64), addr("fe80::1", 64)],
            _ => vec![addr("10.0.1.1", 24), addr("2001:db8:0:1::1", 64)],
        },
    }
}

impl Bench {
    pub fn new() -> Self {
        let mut bench = Bench {
            rib: Rib::with_engine_for(1, 2, &[FamilyId::IPV4, FamilyId::IPV6, Label::ID, FamilyId::XID]),
            outputs: Vec::new(),
            routes_sent: 0,
            groups_sent: 0,
            externals: BTreeMap::new(),
            busy: false,
            now: Instant::ZERO,
            groups: BTreeMap::new(),
            v4: BTreeMap::new(),
            v6: BTreeMap::new(),
            labels: BTreeMap::new(),
            xids: BTreeMap::new(),
        };
        bench.interface(1, true);
        bench.interface(2, true);
        bench
    }

    pub fn interface(&mut self, index: u32, running: bool) {
        self.input(Input::Interface(InterfaceEvent::Changed(interface(index, running))));
    }

    pub fn usable(&mut self, origin: &str, gateway: &str, is_usable: bool) {
        let gateway = Address::Ip(gateway.parse().unwrap());
        self.input(Input::GatewayUsable(TableId::MAIN, origin.into(), gateway, is_usable));
    }

    pub fn origin(&mut self, name: &str, distance: u8, external: bool) {
        self.origin_with_kinds(name, distance, external, &[]);
    }

    pub fn origin_with_kinds(&mut self, name: &str, distance: u8, external: bool, kinds: &[&str]) {
        let settings = OriginSettings {
            name: name.into(),
            distance: Distance(distance),
            external,
            grace: Duration::from_secs(60),
            kinds: kinds.iter().map(|kind| String::from(*kind)).collect(),
        };
        self.input(Input::RegisterOrigin(TableId::MAIN, settings));
    }

    pub fn set(&mut self, origin: &str, prefix: &str, gateways: &str) {
        self.changes::<Ipv4Prefix>(origin, &[(prefix.parse().unwrap(), Some(gateways))]);
    }

    pub fn set6(&mut self, origin: &str, prefix: &str, gateways: &str) {
        self.changes::<Ipv6Prefix>(origin, &[(prefix.parse().unwrap(), Some(gateways))]);
    }

    pub fn delete(&mut self, origin: &str, prefix: &str) {
        self.changes::<Ipv4Prefix>(origin, &[(prefix.parse().unwrap(), None)]);
    }

    pub fn delete6(&mut self, origin: &str, prefix: &str) {
        self.changes::<Ipv6Prefix>(origin, &[(prefix.parse().unwrap(), None)]);
    }

    /// Sends several changes in a batch; `None`: the route is removed.
    pub fn changes<P: Net>(&mut self, origin: &str, changes: &[(P, Option<&str>)]) {
        let mut all = RouteBatch::default();
        for (prefix, gateways) in changes {
            let mut one = batch(*prefix, *gateways);
            let first = all.sets.len() as u32;
            all.sets.append(&mut one.sets);
            all.updates.extend(one.updates.into_iter().map(|update| RouteUpdate {
                action: match update.action {
                    RouteAction::Set(n) => RouteAction::Set(first + n),
                    RouteAction::Delete => RouteAction::Delete,
                },
                ..update
            }));
        }
        self.update(origin, all);
    }

    /// Sets a route, and lets only so many slices of background work follow.
    pub fn set_in_slices(&mut self, origin: &str, prefix: &str, gateway: &str, slices: usize) {
        let batch = batch::<Ipv4Prefix>(prefix.parse().unwrap(), Some(gateway));
        let mut out = Outbox::new();
        UpdateRoutes { table: TableId::MAIN, origin: origin.into(), batch }.make(
            &mut self.rib,
            self.now,
            &mut out,
        );
        for _ in 0..slices {
            self.rib.run_slice(self.now, Budget(3), &mut out);
        }
        self.outputs.extend(out.drain());
    }

    pub fn update<P: Net>(&mut self, origin: &str, batch: RouteBatch<P>) {
        let mut out = Outbox::new();
        UpdateRoutes { table: TableId::MAIN, origin: origin.into(), batch }.make(
            &mut self.rib,
            self.now,
            &mut out,
        );
        self.outputs.extend(out.drain());
        self.idle();
    }

    pub fn plumb<P: Net>(&mut self, stage: Box<dyn Stage<RibTable<P>>>, is_guarded: bool) -> StageId {
        let plumb = PlumbStage { table: TableId::MAIN, position: 0, stage, is_guarded };
        let id = plumb.make(&mut self.rib, self.now, &mut Outbox::new());
        self.idle();
        id
    }

    pub fn unplumb<P: Net>(&mut self, stage: StageId) {
        let unplumb = UnplumbStage::<P>::new(TableId::MAIN, stage);
        assert!(unplumb.make(&mut self.rib, self.now, &mut Outbox::new()));
        self.idle();
    }

    /// Sets the policies, and lets only so many slices of background work follow.
    pub fn set_policies(&mut self, policies: RibPolicies, slices: usize) {
        let mut out = Outbox::new();
        SetPolicies(policies).make(&mut self.rib, self.now, &mut out);
        for _ in 0..slices {
            self.rib.run_slice(self.now, Budget(3), &mut out);
        }
        self.outputs.extend(out.drain());
    }

    pub fn input(&mut self, input: Input) {
        let mut out = Outbox::new();
        self.rib.handle(self.now, input, &mut out);
        self.outputs.extend(out.drain());
        self.idle();
    }

    pub fn pass_time(&mut self, by: Duration) {
        self.now = self.now + by;
        let mut out = Outbox::new();
        self.rib.on_deadline(self.now, &mut out);
        self.outputs.extend(out.drain());
        self.idle();
    }

    /// Lets background work end and the engine take everything.
    pub fn idle(&mut self) {
        let mut out = Outbox::new();
        let mut slices = 0;
        while self.rib.run_slice(self.now, Budget(3), &mut out) == Progress::More {
            slices += 1;
            assert!(slices < 100_000, "background work never ends");
        }
        self.outputs.extend(out.drain());
        if !self.busy {
            self.feed_engine();
        }
    }

    pub fn engine_busy(&mut self, busy: bool) {
        self.busy = busy;
        self.idle();
    }

    fn feed_engine(&mut self) {
        let work: Vec<_> = self.rib.fib_work().collect();
        for (table, family) in work {
            match family {
                FamilyId::IPV4 => self.feed_table::<Ipv4Prefix>(table),
                FamilyId::IPV6 => self.feed_table::<Ipv6Prefix>(table),
                Label::ID => self.feed_table::<Label>(table),
                FamilyId::XID => self.feed_table::<XidPrefix>(table),
                other => panic!("{other} has no engine"),
            }
        }
        assert_eq!(self.rib.fib_work().count(), 0);
    }

    fn feed_table<P: Net>(&mut self, table: TableId) {
        loop {
            let mut batch = FibBatch::<P, Address>::default();
            self.rib.fill_fib(table, 2, &mut batch);
            if batch.is_empty() {
                return;
            }
            self.routes_sent += batch.routes.len();
            self.groups_sent += batch.groups.len();
            let external = |route: &FibRoute<P>| (AnyPrefix::of(route.prefix).to_string(), route.is_external);
            self.externals.extend(batch.routes.iter().map(external));
            let mut groups = std::mem::take(&mut self.groups);
            apply(&mut groups, P::engine(self), batch);
            self.groups = groups;
        }
    }

    pub fn restart_engine(&mut self) {
        self.clear_engine();
        self.input(Input::FibRestarted);
    }

    /// The engine is gone, or wants no routes.
    pub fn engine_gone(&mut self) {
        self.clear_engine();
        self.input(Input::FibGone);
    }

    fn clear_engine(&mut self) {
        self.groups.clear();
        self.v4.clear();
        self.v6.clear();
        self.labels.clear();
        self.xids.clear();
    }

    /// The changes that a subscriber receives, recorded as prefix and announced gateways; routes without gateways are
    /// left out.
    pub fn receive<P: Net>(&mut self, id: SubscriptionId, received: &mut BTreeMap<P, String>) {
        let (batch, _) = self.rib.take_subscribed::<P>(TableId::MAIN, id, usize::MAX).unwrap();
        for update in batch.routes.updates {
            let RouteAction::Set(set) = update.action else {
                received.remove(&update.prefix);
                continue;
            };
            let hops = batch.routes.sets[set as usize].forwarding.next_hops();
            let gateways = hops.iter().filter_map(|h| h.gateway).map(|g| g.to_string());
            received.insert(update.prefix, gateways.collect::<Vec<_>>().join(" "));
        }
        received.retain(|_, gateways| !gateways.is_empty());
    }

    /// The announcements that a subscriber before the decision receives, by origin and prefix, recorded as gateways. Returns true if the
    /// first dump ended.
    pub fn receive_announced<P: Net>(
        &mut self,
        id: SubscriptionId,
        limit: usize,
        received: &mut BTreeMap<(String, P), String>,
    ) -> bool {
        let mut is_end = false;
        while self.rib.ready_subscriptions::<P>().contains(&(TableId::MAIN, id)) {
            let (batch, done) = self.rib.take_subscribed::<P>(TableId::MAIN, id, limit).unwrap();
            is_end |= done;
            for update in batch.routes.updates {
                let key = (batch.origins[0].name.clone(), update.prefix);
                let RouteAction::Set(set) = update.action else {
                    received.remove(&key);
                    continue;
                };
                let hops = batch.routes.sets[set as usize].forwarding.next_hops();
                let gateways = hops.iter().filter_map(|h| h.gateway).map(|g| g.to_string());
                received.insert(key, gateways.collect::<Vec<_>>().join(" "));
            }
            self.idle();
        }
        is_end
    }

    /// The engine's next hops for a prefix, as `gateway@interface ...`; `-` for no route.
    pub fn engine(&self, prefix: &str) -> String {
        self.v4.get(&prefix.parse().unwrap()).map_or("-".into(), |g| text(&self.groups[g]))
    }

    pub fn engine6(&self, prefix: &str) -> String {
        self.v6.get(&prefix.parse().unwrap()).map_or("-".into(), |g| text(&self.groups[g]))
    }

    /// Returns the number of groups in the engine.
    pub fn engine_groups(&self) -> usize {
        self.groups.len()
    }

    /// Returns the engine's routes.
    pub fn engine_table<P: Net>(&mut self) -> BTreeMap<P, String> {
        let routes = P::engine(self).clone();
        routes.into_iter().map(|(p, g)| (p, text(&self.groups[&g]))).collect()
    }

    /// Returns the ranges of answers invalidated since the last call.
    pub fn invalidated(&mut self) -> Vec<String> {
        let mut all = Vec::new();
        for output in self.outputs.drain(..) {
            if let Output::InterestInvalid(_, _, ranges) = output {
                all.extend(ranges.iter().map(ToString::to_string));
            }
        }
        all
    }
}

fn apply<P: Prefix>(
    groups: &mut BTreeMap<GroupId, Forwarding<Address>>,
    table: &mut BTreeMap<P, GroupId>,
    batch: FibBatch<P, Address>,
) {
    groups.extend(batch.groups);
    for route in batch.routes {
        match route.group {
            Some(group) => {
                assert!(groups.contains_key(&group), "route {:?} before its group", route.prefix);
                table.insert(route.prefix, group);
            }
            None => assert!(table.remove(&route.prefix).is_some(), "deleted {:?} twice", route.prefix),
        }
    }
    for group in batch.unused {
        assert!(!table.values().any(|g| *g == group), "group {group:?} is still used");
        groups.remove(&group);
    }
}

fn text(forwarding: &Forwarding<Address>) -> String {
    if *forwarding == Forwarding::Discard {
        return "discard".into();
    }
    let hops = forwarding.next_hops().iter().map(|h| {
        let gateway = h.gateway.map_or("link".into(), |g| g.to_string());
        let backup = if h.is_backup { "backup " } else { "" };
        format!("{backup}{gateway}@{}", h.interface.map_or(0, InterfaceIndex::number))
    });
    hops.collect::<Vec<_>>().join(" ")
}
