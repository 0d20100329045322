//! Listen ranges: neighbors that come and go, bounds, AS numbers, changes of the configuration, restarts and live upgrades.

use crate::world::World;
use proptest::prelude::*;
use sluice_base::{Asn, Duration, Instant, IpPrefix, RouterId};
use sluice_bgp::endpoints::Endpoints;
use sluice_bgp::event::{PeerEvent, RangeRefusal};
use sluice_bgp::family::FamilyCodes;
use sluice_bgp::intake::Message;
use sluice_bgp::session::{ConnectionId, Direction, Received, State};
use sluice_bgp::speaker::control::{Control, Input as ControlInput, Output as ControlOutput};
use sluice_bgp::speaker::{
    Config, DefaultPolicy, Identity, ListenRange, NeighborConfig, OPENING, Output, RATE, RangeView, Speaker,
};
use sluice_bgp::table::{Order, TableEvent};
use sluice_bgp::wire::notification::{Notification, code, open};
use sluice_bgp::wire::{Capability, Open};
use sluice_machine::{Machine, Outbox};
use std::net::IpAddr;

const SECOND: Duration = Duration::from_secs(1);
const HUB: &str = "10.0.0.1";
const SPOKES: [&str; 3] = ["10.0.0.2", "10.0.0.3", "10.0.0.4"];

fn prefix(text: &str) -> IpPrefix {
    text.parse().unwrap()
}

fn range(text: &str, peer_as: &[&str]) -> ListenRange {
    let prefix = prefix(text);
    let template = NeighborConfig {
        group: Some("edge".into()),
        default_policy: Some(DefaultPolicy::Accept),
        ..NeighborConfig::new(prefix.addr(), Asn(65002))
    };
    let peer_as = peer_as.iter().map(|text| text.parse().unwrap()).collect();
    ListenRange { prefix, peer_as, limit: 100, idle_time: 0, template }
}

/// A hub of AS 65001 with these ranges, and spokes of the ASes 65002, 65003 and 65004 that connect to it.
fn hub(ranges: &[ListenRange]) -> World {
    let mut world =
        World::new(&[(65001, &[HUB]), (65002, &[SPOKES[0]]), (65003, &[SPOKES[1]]), (65004, &[SPOKES[2]])]);
    world.routers[0].config.ranges = ranges.into();
    for spoke in 1..4 {
        let network = format!("172.16.{spoke}.0/24").parse().unwrap();
        let to_hub = NeighborConfig {
            default_policy: Some(DefaultPolicy::Accept),
            restart_time: Some(120),
            ..NeighborConfig::new(HUB.parse().unwrap(), Asn(65001))
        };
        world.routers[spoke].config =
            Config { neighbors: vec![to_hub], networks: vec![network], ..Config::default() };
    }
    world.configure_all();
    world
}

fn neighbors(world: &World) -> Vec<String> {
    world.routers[0].speaker.neighbors().map(|address| address.to_string()).collect()
}

fn view(world: &World) -> RangeView {
    world.routers[0].speaker.ranges().swap_remove(0)
}

fn is_up(world: &World, spoke: usize) -> bool {
    let address = SPOKES[spoke - 1].parse().unwrap();
    world.routers[0].speaker.neighbor(address).is_some_and(|view| view.state == State::Established)
}

fn networks(world: &World) -> Vec<String> {
    world.routers[0].rib.keys().map(ToString::to_string).collect()
}

#[test]
fn neighbors_come_with_their_connection_and_go_with_their_session() {
    let mut world = hub(&[range("10.0.0.0/24", &["65002", "65004-65010"])]);
    assert_eq!(neighbors(&world), [] as [&str; 0]);
    world.pass(SECOND * 20);
    assert!(is_up(&world, 1) && is_up(&world, 3));
    let first = world.routers[0].speaker.neighbor(SPOKES[0].parse().unwrap()).unwrap();
    assert_eq!((first.config.peer_as, first.config.range), (Asn(65002), Some(prefix("10.0.0.0/24"))));
    assert_eq!(first.config.group.as_deref(), Some("edge"));
    assert_eq!(networks(&world), ["172.16.1.0/24", "172.16.3.0/24"]);
    // The second one is of an AS that is not allowed, and learns that from a NOTIFICATION.
    let refused = world.routers[2].speaker.neighbor(HUB.parse().unwrap()).unwrap();
    assert!(refused.reason().contains("bad peer AS"), "{}", refused.reason());
    let range = view(&world);
    assert_eq!((range.neighbors, range.established), (2, 2));
    assert!(range.counters.refused_for_as > 0 && range.counters.refused_for_limit == 0);
    let reports = world.routers[0].events.iter().filter(|event| {
        matches!(event.what, PeerEvent::Refused { refusal: RangeRefusal::PeerAs(Asn(65003)), .. })
    });
    assert_eq!(reports.count(), 1, "one report, and a counter");
    let is_attempt = |event: &&sluice_bgp::event::Event| matches!(event.what, PeerEvent::NotOpened(_));
    assert_eq!(world.routers[0].events.iter().filter(is_attempt).count(), 0, "the range's report is enough");
    // A spoke that ends its session is gone at once, with its routes.
    world.routers[1].config.neighbors.clear();
    world.configure(1);
    world.pass(SECOND);
    assert_eq!(neighbors(&world), [SPOKES[2]]);
    assert_eq!(networks(&world), ["172.16.3.0/24"]);
    world.check();
}

#[test]
fn the_longest_range_and_configured_neighbors_win() {
    let mut world = hub(&[range("10.0.0.0/24", &["1-64000"]), range("10.0.0.2/31", &["65002-65003"])]);
    let own = NeighborConfig { hold_time: 30, ..NeighborConfig::new(SPOKES[2].parse().unwrap(), Asn(65004)) };
    world.routers[0].config.neighbors.push(own);
    world.configure(0);
    world.pass(SECOND * 20);
    assert!(is_up(&world, 1) && is_up(&world, 2) && is_up(&world, 3));
    let range = |spoke: usize| {
        let view = world.routers[0].speaker.neighbor(SPOKES[spoke - 1].parse().unwrap()).unwrap();
        (view.config.range.map(|range| range.to_string()), view.config.hold_time)
    };
    assert_eq!(range(1), (Some("10.0.0.2/31".into()), 90));
    assert_eq!(range(3), (None, 30));
}

#[test]
fn a_neighbor_that_restarts_keeps_its_routes_until_its_restart_time() {
    let mut world = hub(&[range("10.0.0.0/24", &["65002-65004"])]);
    world.pass(SECOND * 20);
    world.sever(HUB, SPOKES[0]);
    world.pass(SECOND * 100);
    let all = ["172.16.1.0/24", "172.16.2.0/24", "172.16.3.0/24"];
    assert_eq!(
        (neighbors(&world), networks(&world)),
        (SPOKES.map(String::from).into(), all.map(String::from).into())
    );
    // It comes back, and nothing has changed for anybody.
    world.mend();
    world.pass(SECOND * 60);
    assert!(is_up(&world, 1));
    assert_eq!(networks(&world), all);
    // It does not come back.
    world.sever(HUB, SPOKES[0]);
    world.pass(SECOND * 119);
    assert_eq!(networks(&world), all);
    world.pass(SECOND * 3);
    assert_eq!(
        (neighbors(&world), networks(&world)),
        (
            SPOKES[1..].iter().map(|s| s.to_string()).collect(),
            all[1..].iter().map(|s| s.to_string()).collect()
        )
    );
    world.check();
}

#[test]
fn an_idle_neighbor_stays_as_long_as_its_range_allows() {
    let mut world = hub(&[ListenRange { idle_time: 40, ..range("10.0.0.0/24", &["65002-65004"]) }]);
    world.pass(SECOND * 20);
    world.routers[1].config.neighbors.clear();
    world.configure(1);
    world.pass(SECOND * 39);
    assert_eq!(neighbors(&world), SPOKES);
    let gone = world.routers[0].speaker.neighbor(SPOKES[0].parse().unwrap()).unwrap();
    assert!(gone.reason().contains("peer de-configured"), "{}", gone.reason());
    world.pass(SECOND * 2);
    assert_eq!(neighbors(&world), SPOKES[1..]);
}

#[test]
fn a_changed_configuration_is_that_of_the_neighbors() {
    let ranges = [range("10.0.0.0/24", &["65002-65004"])];
    let mut world = hub(&ranges);
    world.pass(SECOND * 20);
    let configure = |world: &mut World, change: &dyn Fn(&mut Config)| {
        let old =
            {
                let mut config = world.routers[0].config.clone();
                config.neighbors.extend(SPOKES.iter().filter_map(|spoke| {
                    Some(world.routers[0].speaker.neighbor(spoke.parse().unwrap())?.config)
                }));
                config
            };
        change(&mut world.routers[0].config);
        let touched = old.touched(&world.routers[0].config, Asn(65001));
        let ups = world.ups(0);
        world.configure(0);
        world.pass(SECOND * 60);
        let names = |all: Vec<IpAddr>| all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
        (names(touched.reset), names(touched.refiltered), names(touched.stopped), world.ups(0) - ups)
    };
    let none = String::new;
    let all = || SPOKES.join(" ");
    // A note is a note, a policy is applied, and another hold time needs other sessions.
    let noted = configure(&mut world, &|config| config.ranges[0].template.description = "edge".into());
    assert_eq!(noted, (none(), none(), none(), 0));
    let filtered = configure(&mut world, &|config| config.ranges[0].template.next_hop_self = true);
    assert_eq!(filtered, (none(), all(), none(), 0));
    let reset = configure(&mut world, &|config| config.ranges[0].template.hold_time = 30);
    assert_eq!(reset, (all(), none(), none(), 3));
    // A lower limit and another idle time end no session.
    let bounded =
        configure(&mut world, &|config| (config.ranges[0].limit, config.ranges[0].idle_time) = (1, 7));
    assert_eq!(bounded, (none(), none(), none(), 0));
    assert_eq!(view(&world).neighbors, 3);
    // A longer range takes its neighbors over; one of an AS that it does not allow goes.
    let longer = configure(&mut world, &|config| {
        let mut longer = config.ranges[0].clone();
        (longer.prefix, longer.peer_as) = (prefix("10.0.0.2/31"), vec!["65002".parse().unwrap()]);
        config.ranges.push(longer);
    });
    assert_eq!((longer.0, longer.2), (none(), SPOKES[1].into()));
    // The refused router would connect again and again.
    world.routers[2].config.neighbors.clear();
    world.configure(2);
    world.pass(SECOND * 60);
    assert_eq!(neighbors(&world), [SPOKES[0], SPOKES[2]]);
    // A configured neighbor is one without a new session; the range no longer counts it.
    let own = configure(&mut world, &|config| {
        let template = config.ranges[1].template.clone();
        let own = NeighborConfig { address: SPOKES[0].parse().unwrap(), peer_as: Asn(65002), ..template };
        config.neighbors.push(own);
    });
    assert_eq!(own, (none(), none(), none(), 0));
    let counts: Vec<u32> = world.routers[0].speaker.ranges().iter().map(|range| range.neighbors).collect();
    assert_eq!(counts, [1, 0]);
    // A range that is removed ends the sessions of its neighbors, and so does a group that is not enabled.
    let removed = configure(&mut world, &|config| config.ranges.clear());
    assert_eq!((removed.2, neighbors(&world)), (SPOKES[2].into(), vec![SPOKES[0].to_string()]));
    let off = configure(&mut world, &|config| {
        config.ranges = ranges.to_vec();
        config.ranges[0].template.enabled = false;
    });
    assert_eq!((off.3, neighbors(&world)), (0, vec![SPOKES[0].to_string()]));
    world.check();
}

#[test]
fn a_live_upgrade_keeps_the_sessions() {
    let mut world = hub(&[range("10.0.0.0/24", &["65002-65003"])]);
    world.pass(SECOND * 20);
    let before = view(&world);
    assert_eq!((before.neighbors, before.counters.joined >= 2), (2, true));
    assert!(before.counters.refused_for_as > 0);
    world.rest(0);
    let state = world.routers[0].speaker.export();
    let now = world.now;
    let (mut next, mut out) = (Speaker::starting_at(identity(), now), Outbox::new());
    next.import(now, state, &mut out);
    let outputs: Vec<Output> = out.drain().collect();
    world.replace(0, next, outputs);
    let (ups, after) = (world.ups(0), view(&world));
    assert_eq!((after.neighbors, after.established, after.counters), (2, 2, before.counters));
    world.configure(0);
    world.pass(SECOND * 200);
    assert_eq!((world.ups(0), neighbors(&world).len()), (ups, 2));
    assert_eq!(networks(&world), ["172.16.1.0/24", "172.16.2.0/24"]);
    world.check();
}

fn identity() -> Identity {
    Identity {
        started: Instant::ZERO,
        is_restarted: false,
        local_as: Asn(65001),
        router_id: RouterId(1),
        seed: 1,
        tables: 1,
        source: 1,
        codes: FamilyCodes::DEFAULT,
        decision: Default::default(),
    }
}

/// Control alone, with addresses that connect.
struct Door {
    control: Control,
    now: Instant,
    numbers: u32,
    open: Vec<(IpAddr, ConnectionId)>,
    sent: Vec<Vec<u8>>,
}

impl Door {
    fn new(ranges: &[ListenRange]) -> Door {
        let control = Control::new(identity(), Instant::ZERO);
        let mut door = Door { control, now: Instant::ZERO, numbers: 0, open: vec![], sent: vec![] };
        door.input(ControlInput::Configure(Config { ranges: ranges.into(), ..Config::default() }));
        door
    }

    fn carry_out(&mut self, mut out: Outbox<ControlOutput>) {
        while !out.is_empty() {
            let mut next = Outbox::new();
            for output in out.drain() {
                match output {
                    ControlOutput::Close(address, id) => self.open.retain(|known| *known != (address, id)),
                    ControlOutput::Send(_, _, octets) => self.sent.push(octets),
                    // The table has nothing to forget.
                    ControlOutput::Order(_, Order::PeerDown(peer, life, _)) => {
                        let drained = TableEvent::Drained(peer, life);
                        self.control.handle(self.now, ControlInput::Table(0, drained), &mut next);
                    }
                    _ => {}
                }
            }
            out = next;
        }
    }

    fn input(&mut self, input: ControlInput) {
        let mut out = Outbox::new();
        self.control.handle(self.now, input, &mut out);
        self.carry_out(out);
    }

    /// An address connects. Returns true if it is a neighbor's.
    fn connect(&mut self, address: IpAddr) -> bool {
        self.input(ControlInput::Offered(address));
        if self.control.neighbor_config(address).is_none() {
            return false;
        }
        let id = ConnectionId { direction: Direction::Incoming, number: self.numbers };
        self.numbers += 1;
        self.open.push((address, id));
        let endpoints = Endpoints::new(HUB.parse().unwrap());
        self.input(ControlInput::Accepted(address, id, endpoints));
        true
    }

    fn message(&mut self, place: usize, received: Received) {
        let Some(&(address, id)) = self.open.get(place) else { return };
        self.input(ControlInput::Message(address, id, Message::Session(received)));
    }

    fn say_open(&mut self, place: usize, asn: u32) {
        let capabilities = vec![Capability::FourOctetAs(Asn(asn))];
        let router_id = RouterId(place as u32 + 7);
        let as_field = Asn(asn).to_u16();
        self.message(
            place,
            Received::Open(Open { version: 4, as_field, hold_time: 0, router_id, capabilities }),
        );
    }

    fn close(&mut self, place: usize) {
        if place < self.open.len() {
            let (address, id) = self.open.remove(place);
            self.input(ControlInput::Closed(address, id));
        }
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(at) = self.control.next_deadline().filter(|at| *at <= end) {
            self.now = self.now.max(at);
            let mut out = Outbox::new();
            self.control.on_deadline(self.now, &mut out);
            self.carry_out(out);
        }
        self.now = end;
    }

    fn view(&self) -> RangeView {
        self.control.ranges().swap_remove(0)
    }

    /// Checks the range's counts against the neighbors. Returns the number of neighbors.
    fn check(&self) -> usize {
        let all = self.control.neighbors().count();
        let established = self.control.neighbors().filter(|a| self.control.established(*a).is_some()).count();
        let view = self.view();
        assert_eq!((view.neighbors as usize, view.established as usize), (all, established));
        assert!(all <= usize::from(view.config.limit), "{all} neighbors");
        all
    }
}

fn address(number: u8) -> IpAddr {
    IpAddr::from([10, 0, 0, number])
}

#[test]
fn an_as_that_is_not_allowed_is_refused_before_anything_is_established() {
    for (allowed, received) in
        [(&["65002", "65005-65009"][..], 65003), (&["65002"], 65003), (&["1-4"], 65003)]
    {
        let mut door = Door::new(&[range("10.0.0.0/24", allowed)]);
        assert!(door.connect(address(2)));
        door.sent.clear();
        door.say_open(0, received);
        let mut expected = Vec::new();
        Notification::new(code::OPEN, open::PEER_AS).put(&mut expected);
        assert_eq!(door.sent, [expected]);
        assert!(door.open.is_empty());
        door.pass(Duration::ZERO);
        assert_eq!((door.check(), door.view().counters.refused_for_as), (0, 1));
    }
}

#[test]
fn an_as_is_that_of_the_whole_session() {
    let mut door = Door::new(&[range("10.0.0.0/24", &["65002-65009"])]);
    door.connect(address(2));
    door.say_open(0, 65003);
    // Another connection by an AS that is allowed too: the first one has been answered.
    door.connect(address(2));
    door.say_open(1, 65004);
    assert_eq!(door.open.len(), 1);
    door.message(0, Received::Keepalive);
    let known = door.control.neighbor_config(address(2)).unwrap();
    assert_eq!((known.peer_as, door.view().established), (Asn(65003), 1));
    // The next session may be of another AS.
    door.close(0);
    door.connect(address(2));
    door.say_open(0, 65004);
    door.message(0, Received::Keepalive);
    assert_eq!(door.control.neighbor_config(address(2)).map(|known| known.peer_as), Some(Asn(65004)));
}

#[test]
fn a_storm_fills_the_range_and_no_more() {
    let storm = ListenRange { limit: 5, ..range("10.0.0.0/24", &["65002"]) };
    let mut door = Door::new(std::slice::from_ref(&storm));
    let admitted = (1..=200).filter(|number| door.connect(address(*number))).count();
    assert_eq!((admitted, door.check(), door.open.len()), (5, 5, 5));
    assert_eq!(door.view().counters.refused_for_limit, 195);
    // A silent spoke is gone in time, and others may come: not all at once.
    door.pass(OPENING - SECOND);
    assert_eq!(door.check(), 5);
    door.pass(SECOND);
    assert_eq!((door.check(), door.open.len()), (0, 0));
    // Those that come and go again take their turns.
    let mut admitted = 0;
    for _ in 0..100 {
        if door.connect(address(9)) {
            admitted += 1;
            door.close(0);
            door.pass(Duration::ZERO);
        }
        assert_eq!(door.check(), 0);
    }
    assert_eq!((admitted, door.view().counters.refused_for_rate), (5, 95));
    door.pass(SECOND);
    let again = (0..100).filter(|number| door.connect(address(*number + 1))).count();
    assert_eq!(again, 5.min(RATE as usize));
    // An address of no range is nobody's.
    assert!(!door.connect(IpAddr::from([10, 0, 1, 1])));
}

#[derive(Clone, Debug)]
enum Step {
    Connect(u8),
    Open(usize, bool),
    Keepalive(usize),
    Close(usize),
    Pass(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1u8..30).prop_map(Step::Connect),
        3 => (0usize..8, any::<bool>()).prop_map(|(place, good)| Step::Open(place, good)),
        3 => (0usize..8).prop_map(Step::Keepalive),
        2 => (0usize..8).prop_map(Step::Close),
        2 => (0u64..40_000).prop_map(Step::Pass),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn there_are_never_more_than_the_limit_and_none_after_their_time(
        steps in proptest::collection::vec(step(), 0..120),
        limit in 1u16..8,
        idle_time in 0u16..50,
    ) {
        let range = ListenRange { limit, idle_time, ..range("10.0.0.0/24", &["65002-65003"]) };
        let mut door = Door::new(&[range]);
        for step in steps {
            match step {
                Step::Connect(number) => {
                    let _ = door.connect(address(number));
                }
                Step::Open(place, good) => door.say_open(place, if good { 65003 } else { 65009 }),
                Step::Keepalive(place) => door.message(place, Received::Keepalive),
                Step::Close(place) => door.close(place),
                Step::Pass(ms) => door.pass(Duration::from_millis(ms)),
            }
            door.check();
        }
        while !door.open.is_empty() {
            door.close(0);
        }
        door.pass(OPENING.max(Duration::from_secs(idle_time.into())));
        prop_assert_eq!(door.check(), 0);
        prop_assert_eq!(door.control.next_deadline(), None);
    }
}
