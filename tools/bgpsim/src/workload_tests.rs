//! Plans against a model of a router.

use crate::message::{Attributes, Voice};
use crate::order::{Mix, Order, Schedule};
use crate::routes;
use crate::scenario::Scenario;
use crate::stream::Stream;
use crate::table::{Size, Table};
use crate::tally::Tally;
use crate::trace::Trace;
use crate::wire::as_path::{self, Width, segments};
use crate::wire::attribute::{self, code};
use crate::wire::{Update, header};
use crate::workload::{ANY_NUMBER, Action, Cast, Families, Phase, Spread, Workload};
use proptest::prelude::*;
use sluice_base::{Asn, Family, IpPrefix};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::time::Instant;

const TARGET: Asn = Asn(64500);

fn voice(asn: u32) -> Voice {
    Voice {
        asn: Asn(asn),
        internal: false,
        next_hop_v4: Ipv4Addr::new(10, 0, 0, 2),
        next_hop_v6: "2001:db8::2".parse().unwrap(),
        per_message: ANY_NUMBER,
        paths: 1,
    }
}

fn cast(senders: usize, order: Order, mix: Mix) -> Cast {
    let voices = (0..senders).map(|s| voice(65001 + s as u32)).collect();
    Cast { voices, families: Families { v4: true, v6: true }, target_as: TARGET, order, mix, seed: 5 }
}

/// A model of a router that stores only the length and the sender of a path.
#[derive(Default)]
struct Model {
    routes: HashMap<IpPrefix, BTreeMap<usize, usize>>,
}

impl Model {
    fn best(&self, prefix: IpPrefix) -> Option<(usize, usize)> {
        self.routes.get(&prefix)?.iter().map(|(sender, length)| (*length, *sender)).min()
    }

    fn change(&mut self, prefix: IpPrefix, sender: usize, length: Option<usize>, out: &mut Stream) {
        let before = self.best(prefix);
        let routes = self.routes.entry(prefix).or_default();
        match length {
            Some(length) => _ = routes.insert(sender, length),
            None => _ = routes.remove(&sender),
        }
        let after = self.best(prefix);
        match after {
            Some(_) if after != before => _ = voice(64500).announce(&Attributes::default(), &[prefix], out),
            None if before.is_some() => voice(64500).withdraw(&[prefix], out),
            _ => {}
        }
    }

    /// Takes a sender's message; returns the resulting messages.
    fn take(&mut self, sender: usize, message: &[u8]) -> Stream {
        let frame = header::frame(message).unwrap().unwrap();
        assert_eq!(frame.len(), message.len());
        let update = Update::decode(frame.body).unwrap();
        let attributes = attribute::Attributes::new(update.attributes).map(Result::unwrap);
        let path = attributes.filter(|a| a.code == code::AS_PATH).map(|a| a.value).next().unwrap_or_default();
        let path = segments(path, Width::Four).unwrap();
        let has_loop = path.iter().any(|segment| segment.asns.contains(&TARGET));
        let mut out = Stream::default();
        routes::each(frame.body, |prefix, announced| {
            let length = (announced && !has_loop).then(|| as_path::length(&path));
            self.change(prefix, sender, length, &mut out);
        })
        .unwrap();
        out
    }

    /// The messages for a new neighbor.
    fn all(&self) -> Stream {
        let mut out = Stream::default();
        for prefix in self.routes.keys().filter(|p| self.best(**p).is_some()) {
            voice(64500).announce(&Attributes::default(), &[*prefix], &mut out);
        }
        out
    }

    /// The prefixes of a sender's routes.
    fn of(&self, sender: usize) -> BTreeSet<IpPrefix> {
        self.routes
            .iter()
            .filter(|(_, routes)| routes.contains_key(&sender))
            .map(|(prefix, _)| *prefix)
            .collect()
    }

    /// The first `senders` are gone.
    fn lose(&mut self, senders: usize) -> Stream {
        let mut out = Stream::default();
        let all: Vec<IpPrefix> = self.routes.keys().copied().collect();
        for prefix in all {
            (0..senders).for_each(|s| self.change(prefix, s, None, &mut out));
        }
        out
    }
}

/// The messages of a phase, in an order of its schedule.
fn messages(streams: &[Stream], schedule: &Schedule) -> Vec<(usize, usize)> {
    match schedule {
        Schedule::Threads(groups) => {
            groups.iter().flatten().flat_map(|p| (0..streams[*p].len()).map(move |m| (*p, m))).collect()
        }
        Schedule::Turns(turns) => {
            let mut next = vec![0; streams.len()];
            let mut all = Vec::new();
            for turn in turns {
                for _ in 0..turn.messages {
                    all.push((turn.peer, next[turn.peer]));
                    next[turn.peer] += 1;
                }
            }
            all
        }
    }
}

fn count(tally: &mut Tally, said: &Stream) {
    let mut rest = said.octets(0..said.len());
    while let Some(frame) = header::frame(rest).unwrap() {
        tally.update(frame.body, Instant::now()).unwrap();
        rest = &rest[frame.len()..];
    }
}

fn run(phase: &Phase, senders: usize, model: &mut Model, tally: &mut Tally) {
    tally.begin(phase.expectation.clone());
    match &phase.action {
        Action::Close(first) => {
            assert!(*first == senders || *first == 1);
            count(tally, &model.lose(*first));
        }
        Action::Probe { sender, stream } => {
            for message in 0..stream.len() {
                assert!(!tally.is_complete());
                count(tally, &model.take(*sender, stream.octets(message..message + 1)));
            }
        }
        Action::Join => {
            *tally = tally.blank();
            tally.begin(phase.expectation.clone());
            assert!(!tally.is_complete());
            count(tally, &model.all());
        }
        Action::Restart { streams, schedule } => {
            let mut stale = model.of(0);
            for (sender, message) in messages(streams, schedule) {
                assert!(!tally.is_complete(), "complete before the restart is over");
                let octets = streams[sender].octets(message..message + 1);
                count(tally, &model.take(sender, octets));
                let body = header::frame(octets).unwrap().unwrap().body;
                let end = (body == [0; 4]).then_some(Family::Ipv4);
                let end = end.or((body == [0, 0, 0, 6, 0x80, 15, 3, 0, 2, 1]).then_some(Family::Ipv6));
                routes::each(body, |prefix, _| _ = stale.remove(&prefix)).unwrap();
                for prefix in stale.iter().filter(|prefix| Some(prefix.family()) == end) {
                    let mut said = Stream::default();
                    model.change(*prefix, 0, None, &mut said);
                    count(tally, &said);
                }
            }
        }
        Action::Send { streams, schedule } => {
            let all = messages(streams, schedule);
            assert_eq!(all.len(), streams.iter().map(Stream::len).sum::<usize>());
            for (at, (sender, message)) in all.iter().enumerate() {
                let stream = &streams[*sender];
                // Behind the last prefix there may be End-of-RIB markers.
                let is_end = stream.prefixes(*message..message + 1) == 0;
                assert!(is_end || !tally.is_complete(), "complete after {at} of {} messages", all.len());
                let said = model.take(*sender, stream.octets(*message..message + 1));
                count(tally, &said);
            }
        }
    }
    assert!(tally.is_complete(), "{}: {:?} {:?}", phase.name, tally.missing(), tally.surplus());
    assert_eq!(tally.counts.unexpected, 0);
}

fn check(workload: &Workload, senders: usize) {
    let mut model = Model::default();
    let mut tally = Tally::new(workload.index.clone(), 1);
    workload.phases.iter().for_each(|phase| run(phase, senders, &mut model, &mut tally));
}

const SCENARIOS: [Scenario; 14] = [
    Scenario::Announce,
    Scenario::Numbered(1),
    Scenario::Numbered(2),
    Scenario::Numbered(3),
    Scenario::Numbered(4),
    Scenario::Numbered(5),
    Scenario::Numbered(6),
    Scenario::Numbered(7),
    Scenario::Numbered(8),
    Scenario::Lost,
    Scenario::LostBest,
    Scenario::Restart,
    Scenario::Latency,
    Scenario::Late,
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// A receiver behind a router receives what the plan expects, at the end of each phase and not before.
    #[test]
    fn scenarios(
        scenario in prop::sample::select(&SCENARIOS[..]),
        senders in 2usize..6,
        (v4, v6) in (1usize..200, 0usize..60),
        sharing in 1usize..9,
        spread in prop::sample::select(vec![Spread::Split, Spread::Same]),
        order in prop::sample::select(vec![Order::Trace, Order::RoundRobin(1), Order::RoundRobin(3), Order::Threads]),
        mix in prop::sample::select(vec![Mix::Best, Mix::One, Mix::Two, Mix::Three, Mix::Worst]),
    ) {
        let table = Table::synthetic(Size { v4, v6 }, sharing, 3).unwrap();
        let spread = if scenario.needs_two() { Spread::Split } else { spread };
        let workload = cast(senders, order, mix).table(&table, scenario, spread, ANY_NUMBER).unwrap();
        prop_assert_eq!(workload.phases.iter().filter(|p| p.measured).count(), 1);
        check(&workload, senders);
    }

    /// Split: a single peer has each prefix; same: every peer has each prefix.
    #[test]
    fn every_prefix_once(senders in 1usize..7, v4 in 1usize..300, per_message in 1usize..20, same in any::<bool>()) {
        let table = Table::synthetic(Size { v4, v6: 0 }, 3, 3).unwrap();
        let spread = if same { Spread::Same } else { Spread::Split };
        let workload =
            cast(senders, Order::Threads, Mix::One).table(&table, Scenario::Announce, spread, per_message).unwrap();
        let Action::Send { streams, .. } = &workload.phases[0].action else { panic!("nothing is sent") };
        let mut said = BTreeSet::new();
        for (sender, stream) in streams.iter().enumerate() {
            let mut rest = stream.octets(0..stream.len());
            while let Some(frame) = header::frame(rest).unwrap() {
                let mut in_message = 0;
                routes::each(frame.body, |prefix, announced| {
                    assert!(announced && said.insert((prefix, sender)), "{prefix} twice by {sender}");
                    in_message += 1;
                })
                .unwrap();
                prop_assert!(in_message <= per_message);
                rest = &rest[frame.len()..];
            }
        }
        let copies = if same { senders } else { 1 };
        prop_assert_eq!(workload.phases[0].routes, v4 * copies);
        // Each sender's marks, one of each family, come on top.
        prop_assert_eq!(said.len(), v4 * copies + 2 * senders);
        let distinct: BTreeSet<IpPrefix> = said.iter().map(|(p, _)| *p).collect();
        prop_assert_eq!(distinct.len(), v4 + 2 * senders);
    }
}

/// Several paths of each prefix are announced by its sender, each worse than the path before, and every path is expected.
#[test]
fn paths_of_a_prefix() {
    let table = Table::synthetic(Size { v4: 90, v6: 9 }, 3, 3).unwrap();
    let mut cast = cast(2, Order::Threads, Mix::One);
    cast.voices.iter_mut().for_each(|voice| voice.paths = 3);
    let workload = cast.table(&table, Scenario::Late, Spread::Split, ANY_NUMBER).unwrap();
    let Action::Send { streams, .. } = &workload.phases[0].action else { panic!("nothing is sent") };
    let mut paths: BTreeMap<IpPrefix, BTreeMap<u32, usize>> = BTreeMap::new();
    for stream in streams {
        let mut rest = stream.octets(0..stream.len());
        while let Some(frame) = header::frame(rest).unwrap() {
            let update = Update::decode(frame.body).unwrap();
            let path = attribute::Attributes::new(update.attributes)
                .map(Result::unwrap)
                .find(|a| a.code == code::AS_PATH);
            let length = as_path::length(&segments(path.unwrap().value, Width::Four).unwrap());
            routes::each_path(frame.body, |prefix, id, _| {
                assert_eq!(paths.entry(prefix).or_default().insert(id, length), None);
            })
            .unwrap();
            rest = &rest[frame.len()..];
        }
    }
    assert_eq!(
        (paths.len(), workload.phases[0].routes, workload.phases[1].routes),
        (99 + 4, 99 * 3, 103 * 3)
    );
    for of_prefix in paths.values() {
        let lengths: Vec<usize> = of_prefix.values().copied().collect();
        assert_eq!(of_prefix.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(lengths, [lengths[0], lengths[0] + 1, lengths[0] + 2]);
    }
    let expectation = &workload.phases[0].expectation;
    assert_eq!((expectation.present.count(), expectation.news.count()), (103 * 3, 103 * 3));
    for (scenario, spread) in [
        (Scenario::LostBest, Spread::Split),
        (Scenario::Latency, Spread::Split),
        (Scenario::Announce, Spread::Same),
    ] {
        let refused = cast.table(&table, scenario, spread, ANY_NUMBER).unwrap_err();
        assert!(refused.to_string().contains("several paths"), "{refused}");
    }
}

#[test]
fn one_sender_cannot_do_everything() {
    let table = Table::synthetic(Size { v4: 9, v6: 0 }, 3, 3).unwrap();
    let plan = |senders, spread| {
        cast(senders, Order::Threads, Mix::One).table(&table, Scenario::Numbered(5), spread, ANY_NUMBER)
    };
    for (senders, spread) in [(1, Spread::Split), (2, Spread::Same)] {
        assert!(plan(senders, spread).unwrap_err().to_string().contains("two senders"));
    }
    let empty =
        cast(1, Order::Threads, Mix::One).table(&Table::default(), Scenario::Announce, Spread::Split, 1);
    assert!(empty.unwrap_err().to_string().contains("no route"));
}

#[test]
fn a_real_trace() {
    let Some(octets) = sluice_testkit::read("data/bgp/updates/ris.updates.20160811.1600.gz") else { return };
    let trace = Trace::read(&octets).unwrap();
    for (senders, order, mix) in
        [(1, Order::Trace, Mix::One), (7, Order::Trace, Mix::One), (40, Order::RoundRobin(2), Mix::Two)]
    {
        let workload = cast(senders, order, mix).trace(&trace).unwrap();
        // Not through `check`: what is there in the end may be there before a trace is over.
        let mut model = Model::default();
        let mut tally = Tally::new(workload.index.clone(), 1);
        let phase = &workload.phases[0];
        tally.begin(phase.expectation.clone());
        let Action::Send { streams, schedule } = &phase.action else { panic!("nothing is sent") };
        for (sender, message) in messages(streams, schedule) {
            let said = model.take(sender, streams[sender].octets(message..message + 1));
            count(&mut tally, &said);
        }
        assert!(tally.is_complete(), "{:?} {:?}", tally.missing(), tally.surplus());
    }
}
