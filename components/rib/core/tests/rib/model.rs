//! Random lives of a RIB against a naive model: whatever happened, in the end the engine has what a plain computation over the
//! origins' routes gives, and every interest answer that was not taken back still holds.

use crate::bench::plan::Plan;
use crate::bench::policies::{compiled, policies, policy};
use crate::bench::{Bench, Label};
use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use sluice_base::{Address, AnyPrefix, Ipv4Prefix, Ipv6Prefix, TableId, XidPrefix};
use sluice_machine::{Outbox, Request};
use sluice_rib::Input;
use sluice_rib::family::{RibRoute, RibTable};
use sluice_rib::request::Subscribe;
use sluice_stage::{Batch, Stage, Upstream};
use std::collections::{BTreeMap, BTreeSet};

const ORIGINS: [(&str, u8, bool); 4] =
    [("static", 1, false), ("ospf", 110, false), ("ebgp", 20, true), ("ibgp", 200, true)];

#[derive(Clone, Debug)]
enum Op {
    Set {
        origin: usize,
        prefix: u8,
        gateway: u8,
    },
    Delete {
        origin: usize,
        prefix: u8,
    },
    /// The route is added and removed, or removed and added, in a single batch.
    Flap {
        origin: usize,
        prefix: u8,
        gateway: u8,
        stays: bool,
    },
    Interface {
        index: u32,
        up: bool,
    },
    Restart {
        origin: usize,
    },
    Refreshed {
        origin: usize,
    },
    RestartEngine,
    /// The engine is absent or accepts no routes, until it restarts.
    EngineGone,
    /// The engine accepts no changes, or accepts waiting changes again.
    EngineBusy(bool),
    Ask {
        addr: u8,
    },
    /// A stage that drops every second prefix is plugged in, guarded or not; or the stage leaves.
    Filter {
        guarded: bool,
    },
    Unfilter,
    /// An origin gets another policy; after some slices of background work the origin sends a route.
    Import {
        origin: usize,
        policy: Policy,
        slices: usize,
        prefix: u8,
        gateway: u8,
    },
    /// The subscriber's policy changes.
    Subscribed(Policy),
}

/// A policy of an origin or a subscriber.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Policy {
    /// Routes pass.
    Absent,
    /// All routes are rejected.
    RejectAll,
    /// Long prefixes are rejected.
    RejectLong,
    /// The routes of a list of prefixes are rejected.
    RejectListed,
    /// The routes of a list of prefixes have another distance.
    Distance(u8),
    /// All routes have another distance.
    DistanceOfAll(u8),
}

/// The origins of a subscriber, by number; an empty list: all. `None`: there is no subscriber.
type Listener = Option<&'static [usize]>;

fn listener() -> impl Strategy<Value = Listener> {
    prop::sample::select(vec![None, Some(&[][..]), Some(&[0, 2][..])])
}

/// The shortest long prefix.
const LONG: u8 = 20;

impl Policy {
    /// Returns condition and actions.
    fn text(self) -> (&'static str, String) {
        match self {
            Policy::Absent => ("", "accept".into()),
            Policy::RejectAll => ("", "reject".into()),
            Policy::RejectLong => ("prefix-length 20-128", "reject".into()),
            Policy::RejectListed => ("prefix-list list", "reject".into()),
            Policy::Distance(distance) => ("prefix-list list", format!("distance {distance}")),
            Policy::DistanceOfAll(distance) => ("", format!("distance {distance}; tag 7")),
        }
    }

    /// Returns the distance of a route that would have `distance` without the policy; `None` if the route is rejected.
    fn distance<P: Plan>(self, prefix: P, distance: u8) -> Option<u8> {
        // Policies are about IP prefixes.
        if AnyPrefix::of(prefix).ip().is_none() {
            return Some(distance);
        }
        let is_listed = listed::<P>().contains(&prefix);
        match self {
            Policy::RejectAll => None,
            Policy::RejectLong if prefix.len() >= LONG => None,
            Policy::RejectListed if is_listed => None,
            Policy::Distance(distance) if is_listed => Some(distance),
            Policy::DistanceOfAll(distance) => Some(distance),
            _ => Some(distance),
        }
    }
}

/// The prefixes of the list in policies.
fn listed<P: Plan>() -> BTreeSet<P> {
    (0..24).step_by(3).map(nth).collect()
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let distance = || prop::sample::select(vec![1, 5, 150, 250, 255]);
    prop_oneof![
        Just(Policy::Absent),
        Just(Policy::RejectAll),
        Just(Policy::RejectLong),
        Just(Policy::RejectListed),
        distance().prop_map(Policy::Distance),
        distance().prop_map(Policy::DistanceOfAll),
    ]
}

/// Compiles the policies of origins and of the subscriber.
fn all_policies<P: Plan>(imports: &[Policy; 4], subscriber: Policy) -> sluice_rib::RibPolicies {
    let list = match AnyPrefix::of(nth::<P>(0)).ip() {
        Some(_) => listed::<P>().iter().map(ToString::to_string).collect(),
        None => Vec::new(),
    };
    let origins = ORIGINS.iter().zip(imports).filter(|(_, import)| **import != Policy::Absent);
    let named = |((name, _, _), import): (&(&'static str, u8, bool), &Policy)| (*name, *import);
    let origins: Vec<(&str, Policy)> = origins.map(named).collect();
    let all = origins.iter().copied().chain([("subscriber", subscriber)]);
    let statements = all.map(|(name, import)| {
        let (from, then) = import.text();
        policy(name, from, &then)
    });
    let imports: Vec<(&str, &str)> = origins.iter().map(|(name, _)| (*name, *name)).collect();
    compiled(policies(statements.collect(), list), &imports)
}

fn op() -> impl Strategy<Value = Op> {
    let origin = || 0..ORIGINS.len();
    prop_oneof![
        12 => (origin(), any::<u8>(), any::<u8>()).prop_map(|(origin, prefix, gateway)| Op::Set { origin, prefix, gateway }),
        5 => (origin(), any::<u8>()).prop_map(|(origin, prefix)| Op::Delete { origin, prefix }),
        3 => (origin(), any::<u8>(), any::<u8>(), any::<bool>())
            .prop_map(|(origin, prefix, gateway, stays)| Op::Flap { origin, prefix, gateway, stays }),
        1 => (1u32..3, any::<bool>()).prop_map(|(index, up)| Op::Interface { index, up }),
        1 => origin().prop_map(|origin| Op::Restart { origin }),
        1 => origin().prop_map(|origin| Op::Refreshed { origin }),
        1 => Just(Op::RestartEngine),
        1 => Just(Op::EngineGone),
        2 => any::<bool>().prop_map(Op::EngineBusy),
        3 => any::<u8>().prop_map(|addr| Op::Ask { addr }),
        1 => any::<bool>().prop_map(|guarded| Op::Filter { guarded }),
        1 => Just(Op::Unfilter),
        3 => (origin(), any_policy(), 0usize..5, any::<u8>(), any::<u8>()).prop_map(
            |(origin, policy, slices, prefix, gateway)| Op::Import { origin, policy, slices, prefix, gateway }
        ),
        1 => any_policy().prop_map(Op::Subscribed),
    ]
}

/// A few nested prefixes, with a length that depends on the number.
fn nth<P: Plan>(n: u8) -> P {
    let n = n % 24;
    let len = [8, 16, 20, 24][usize::from(n % 4)];
    P::new(P::far(n / 8, (n % 8) * 16, 0), len + P::LONGER).unwrap()
}

/// Drops the routes of some prefixes.
struct Dropping<P>(BTreeSet<P>);

impl<P: Plan> Dropping<P> {
    fn new() -> Self {
        Dropping((0..24).step_by(2).map(nth).collect())
    }

    fn pass(&self, prefix: P, route: Option<RibRoute>) -> Option<RibRoute> {
        route.filter(|_| !self.0.contains(&prefix))
    }
}

impl<P: Plan> Stage<RibTable<P>> for Dropping<P> {
    fn name(&self) -> &'static str {
        "dropping"
    }

    fn process(
        &mut self,
        input: &mut Batch<RibTable<P>>,
        _up: Upstream<'_, RibTable<P>>,
        out: &mut Batch<RibTable<P>>,
    ) {
        for change in input.drain() {
            let (old, new) = change.action.into_halves();
            out.push_between(
                change.key,
                self.pass(change.key, old),
                self.pass(change.key, new),
                change.provenance,
            );
        }
    }

    fn lookup(&self, key: P, up: Upstream<'_, RibTable<P>>) -> Option<RibRoute> {
        self.pass(key, up.lookup(key))
    }
}

const GATEWAYS: u8 = 8;
/// Number of prefixes on links.
const NEAR_GATEWAYS: u8 = 5;

/// Gateways on either link, including invalid ones, and behind some of the prefixes.
fn gateway<P: Plan>(n: u8) -> Address {
    match n % GATEWAYS {
        0 => P::near(0, 2),
        1 => P::near(1, 2),
        2 => P::near(0, 1),
        3 => P::near(1, 255),
        4 => P::near(0, 0),
        5 => P::far(0, 16, 1).into(),
        6 => P::far(1, 32, 1).into(),
        _ => P::far(2, 64, 1).into(),
    }
}

/// The way to a gateway.
struct Way {
    /// The last next hop.
    next_hop: String,
    /// The length of the prefix that reaches the gateway; `None` on a link.
    length: Option<u8>,
}

impl Way {
    /// Returns true if a route of `prefix` through the gateway would be the most specific one to the gateway.
    fn is_captured_by<P: Plan>(&self, prefix: P, gateway: Address) -> bool {
        let is_inside = P::Addr::try_from(gateway).is_ok_and(|gateway| prefix.contains(gateway));
        is_inside && self.length.is_some_and(|length| length < prefix.len())
    }
}

/// The routes of each origin in a simple implementation: the way to each gateway is computed from all routes.
struct Model<P> {
    routes: BTreeMap<(usize, P), Address>,
    stale: BTreeMap<(usize, P), bool>,
    down: [bool; 3],
    /// The prefixes whose routes a stage drops on their way to the engine.
    dropped: BTreeSet<P>,
    imports: [Policy; 4],
    subscriber: Policy,
}

impl<P: Plan> Model<P> {
    fn new() -> Self {
        Model {
            routes: BTreeMap::new(),
            stale: BTreeMap::new(),
            down: [false; 3],
            dropped: BTreeSet::new(),
            imports: [Policy::Absent; 4],
            subscriber: Policy::Absent,
        }
    }

    /// Returns every origin's announcements, whatever the decision.
    fn announced(&self) -> BTreeMap<(String, P), String> {
        let named = |((origin, prefix), gateway): (&(usize, P), &Address)| {
            ((ORIGINS[*origin].0.to_string(), *prefix), gateway.to_string())
        };
        self.routes.iter().map(named).collect()
    }

    /// Returns the distance of an origin's route after the origin's policy; `None` if the route is not used.
    fn distance(&self, origin: usize, prefix: P) -> Option<u8> {
        self.imports[origin].distance(prefix, ORIGINS[origin].1).filter(|distance| *distance < 255)
    }

    fn connected(&self, addr: Address) -> Option<u32> {
        let (link, _) = P::place(addr)?;
        (!self.down[usize::from(link) + 1]).then(|| u32::from(link) + 1)
    }

    /// Returns true for the router's own address and for broadcast addresses of a subnet.
    fn is_no_gateway(&self, addr: Address) -> bool {
        P::place(addr).is_some_and(|(_, host)| P::NO_GATEWAYS.contains(&host))
            && self.connected(addr).is_some()
    }

    /// Returns the selected route of a prefix: its origin, gateway, and next hop.
    fn best(&self, prefix: P) -> Option<(usize, Address, String)> {
        self.ranked(prefix).into_iter().find_map(|(origin, gateway)| {
            let way = self.way(gateway, &mut Vec::new())?;
            let is_captured = ORIGINS[origin].2 && way.is_captured_by(prefix, gateway);
            (!is_captured).then_some((origin, gateway, way.next_hop))
        })
    }

    /// Returns the routes of a prefix that policies allow, the best first.
    fn ranked(&self, prefix: P) -> Vec<(usize, Address)> {
        let of = self.routes.iter().filter(|((_, of), _)| *of == prefix);
        let allowed = of.filter_map(|((o, p), gw)| Some((self.distance(*o, *p)?, *o, *gw)));
        let mut ranked: Vec<(u8, usize, Address)> = allowed.collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, origin, gateway)| (origin, gateway)).collect()
    }

    /// Returns the way to a gateway, which leads through none of the gateways in `path`.
    fn way(&self, gw: Address, path: &mut Vec<Address>) -> Option<Way> {
        if self.is_no_gateway(gw) {
            return None;
        }
        if let Some(index) = self.connected(gw) {
            // Packets are sent to an identifier, however that is reached.
            let next_hop = format!("{gw}@{}", gw.ip().map_or(0, |_| index));
            return Some(Way { next_hop, length: None });
        }
        let addr = P::Addr::try_from(gw).ok()?;
        let mut covering: Vec<P> = self.routes.keys().map(|(_, p)| *p).filter(|p| p.contains(addr)).collect();
        covering.sort_by_key(|p| std::cmp::Reverse(p.len()));
        covering.dedup();
        path.push(gw);
        let reached = covering.into_iter().find_map(|prefix| {
            self.ranked(prefix).into_iter().find_map(|(origin, next)| {
                let way = Some(next).filter(|next| !path.contains(next)).and_then(|n| self.way(n, path))?;
                let is_captured = ORIGINS[origin].2 && way.is_captured_by(prefix, next);
                (!is_captured).then_some(Way { next_hop: way.next_hop, length: Some(prefix.len()) })
            })
        });
        path.pop();
        // Through an identifier that can be reached packets are sent to the identifier.
        let next_hop = |way: &Way| if gw.ip().is_none() { format!("{gw}@0") } else { way.next_hop.clone() };
        reached.map(|way| Way { next_hop: next_hop(&way), ..way })
    }

    fn prefixes(&self) -> BTreeSet<P> {
        self.routes.keys().map(|(_, p)| *p).collect()
    }

    /// The routes that the engine has.
    fn table(&self) -> BTreeMap<P, String> {
        let resolved = |p| Some((p, self.best(p)?.2));
        self.prefixes().difference(&self.dropped).copied().filter_map(resolved).collect()
    }

    /// The routes that a subscriber receives.
    fn selected(&self, listener: Listener) -> BTreeMap<P, String> {
        let is_wanted = |origin: usize| listener.is_none_or(|of| of.is_empty() || of.contains(&origin));
        let selected = |p| {
            let (_, gateway, _) = self.best(p).filter(|(origin, ..)| is_wanted(*origin))?;
            Some((p, gateway.to_string()))
        };
        let passed = |p: &P| self.subscriber.distance(*p, 0).is_some();
        self.prefixes().difference(&self.dropped).copied().filter(passed).filter_map(selected).collect()
    }

    fn set(&mut self, origin: usize, prefix: P, gateway: Address) {
        self.routes.insert((origin, prefix), gateway);
        self.stale.insert((origin, prefix), false);
    }
}

fn lives_as_in_the_model<P: Plan>(ops: Vec<Op>, behind_links: bool, listener: Listener) -> TestCaseResult {
    let mut b = Bench::new();
    let mut m = Model::<P>::new();
    for (name, distance, external) in ORIGINS {
        b.origin(name, distance, external);
    }
    // Gateways behind prefixes make resolution recursive, through routes of each origin, with cycles.
    let allowed = |n: u8| gateway::<P>(if behind_links { n } else { n % NEAR_GATEWAYS });
    b.set_policies(all_policies::<P>(&m.imports, m.subscriber), 0);
    let origins: Vec<String> = listener.into_iter().flatten().map(|n| ORIGINS[*n].0.into()).collect();
    let subscriber = listener.map(|_| {
        let policy = b.rib.policies().for_subscriber("subscriber").unwrap();
        let subscribe = Subscribe::<P>::new(TableId::MAIN, origins.clone()).through(policy);
        subscribe.make(&mut b.rib, sluice_base::Instant::ZERO, &mut Outbox::new())
    });
    let mut received = BTreeMap::new();
    let announced = b.rib.subscribe_announced::<P>(TableId::MAIN, Vec::new());
    let mut received_announced = BTreeMap::new();
    let mut gone = false;
    let mut filter = None;
    let mut answers: BTreeMap<String, (P::Addr, String)> = BTreeMap::new();
    for op in ops {
        match op {
            Op::Set { origin, prefix: n, gateway: g } => {
                let gw = allowed(g);
                b.changes::<P>(ORIGINS[origin].0, &[(nth(n), Some(&gw.to_string()))]);
                m.set(origin, nth(n), gw);
            }
            Op::Flap { origin, prefix: n, gateway: g, stays } => {
                let (prefix, gw) = (nth::<P>(n), allowed(g));
                let text = gw.to_string();
                let (comes, goes) = ((prefix, Some(text.as_str())), (prefix, None));
                m.routes.remove(&(origin, prefix));
                if stays {
                    b.changes(ORIGINS[origin].0, &[goes, comes]);
                    m.set(origin, prefix, gw);
                } else {
                    b.changes(ORIGINS[origin].0, &[comes, goes]);
                }
            }
            Op::Delete { origin, prefix: n } => {
                b.changes::<P>(ORIGINS[origin].0, &[(nth(n), None)]);
                m.routes.remove(&(origin, nth(n)));
            }
            Op::Interface { index, up } => {
                b.interface(index, up);
                m.down[index as usize] = !up;
            }
            Op::Restart { origin } => {
                b.input(Input::OriginDied(TableId::MAIN, ORIGINS[origin].0.into()));
                b.origin(ORIGINS[origin].0, ORIGINS[origin].1, ORIGINS[origin].2);
                for ((o, _), stale) in m.stale.iter_mut() {
                    *stale |= *o == origin;
                }
            }
            Op::Refreshed { origin } => {
                b.input(Input::EndOfRefresh(TableId::MAIN, ORIGINS[origin].0.into()));
                let stale = m.stale.clone();
                m.routes.retain(|key, _| key.0 != origin || !stale.get(key).copied().unwrap_or(false));
            }
            Op::RestartEngine => {
                b.restart_engine();
                gone = false;
            }
            Op::EngineGone => {
                b.engine_gone();
                gone = true;
            }
            Op::EngineBusy(busy) => b.engine_busy(busy),
            Op::Filter { guarded } if filter.is_none() => {
                filter = Some(b.plumb::<P>(Box::new(Dropping::new()), guarded));
                m.dropped = Dropping::new().0;
            }
            Op::Filter { .. } => {}
            Op::Unfilter => {
                if let Some(stage) = filter.take() {
                    b.unplumb::<P>(stage);
                }
                m.dropped.clear();
            }
            Op::Import { origin, policy, slices, prefix: n, gateway: g } => {
                m.imports[origin] = policy;
                b.set_policies(all_policies::<P>(&m.imports, m.subscriber), slices);
                let gw = allowed(g);
                b.changes::<P>(ORIGINS[origin].0, &[(nth(n), Some(&gw.to_string()))]);
                m.set(origin, nth(n), gw);
            }
            Op::Subscribed(policy) => {
                m.subscriber = policy;
                b.set_policies(all_policies::<P>(&m.imports, policy), 0);
                b.idle();
            }
            Op::Ask { addr } => {
                let a = if addr < 128 { gateway::<P>(addr) } else { P::near(addr % 2, addr) };
                // A neighbor's address is no label, and no XID that routes lead to.
                let Some(asked) = P::asked(a) else { continue };
                let answer = P::ask(&mut b.rib, asked);
                let is_near = m.connected(a).is_some();
                prop_assert_eq!(is_near && answer.route.is_none(), m.is_no_gateway(a));
                let others = (0..=255).flat_map(|n| [P::near(0, n), P::near(1, n)]);
                let answered = others.filter(|other| {
                    *other != a && P::asked(*other).is_some_and(|o| answer.valid.contains(o))
                });
                prop_assert_eq!(answered.filter(|other| m.is_no_gateway(*other)).count(), 0);
                answers.insert(answer.valid.to_string(), (asked, format!("{:?}", answer.route)));
            }
        }
        for range in b.invalidated() {
            answers.remove(&range);
        }
        if gone {
            prop_assert_eq!((b.rib.fib_work().count(), b.engine_table::<P>()), (0, BTreeMap::new()));
        } else if !b.busy {
            prop_assert_eq!(b.engine_table::<P>(), m.table());
        }
        if let Some(id) = subscriber {
            b.receive(id, &mut received);
            prop_assert_eq!(&received, &m.selected(listener));
        }
        b.receive_announced(announced, 2, &mut received_announced);
        prop_assert_eq!(&received_announced, &m.announced());
    }
    b.engine_busy(false);
    if gone {
        b.restart_engine();
    }
    prop_assert_eq!(b.engine_table::<P>(), m.table());
    for (range, (addr, route)) in answers {
        let again = P::ask(&mut b.rib, addr);
        prop_assert_eq!((again.valid.to_string(), format!("{:?}", again.route)), (range, route));
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_life_ends_as_in_the_model(ops in proptest::collection::vec(op(), 1..60), behind_links in any::<bool>(), listener in listener()) {
        lives_as_in_the_model::<Ipv4Prefix>(ops, behind_links, listener)?;
    }

    #[test]
    fn any_life_of_ipv6_ends_as_in_the_model(ops in proptest::collection::vec(op(), 1..60), behind_links in any::<bool>(), listener in listener()) {
        lives_as_in_the_model::<Ipv6Prefix>(ops, behind_links, listener)?;
    }

    #[test]
    fn any_life_of_labels_ends_as_in_the_model(ops in proptest::collection::vec(op(), 1..60), behind_links in any::<bool>(), listener in listener()) {
        lives_as_in_the_model::<Label>(ops, behind_links, listener)?;
    }

    #[test]
    fn any_life_of_xids_ends_as_in_the_model(ops in proptest::collection::vec(op(), 1..60), behind_links in any::<bool>(), listener in listener()) {
        lives_as_in_the_model::<XidPrefix>(ops, behind_links, listener)?;
    }
}
