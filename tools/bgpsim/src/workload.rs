//! The content of a run: phases with the senders' messages and the messages that receivers should receive.

use crate::index::{Bits, Index};
use crate::message::{Attributes, Voice};
use crate::order::{Mix, Order, Schedule, schedule};
use crate::scenario::{Act, Scenario};
use crate::stream::Stream;
use crate::table::Table;
use crate::tally::Expectation;
use crate::trace::Trace;
use crate::wire::as_path;
use anyhow::{Result, ensure};
use sluice_base::ip::{V4Addr, V6Addr};
use sluice_base::{Asn, Family, IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Address families in use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Families {
    /// IPv4.
    pub v4: bool,
    /// IPv6.
    pub v6: bool,
}

/// The distribution of a table over the senders.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Spread {
    /// Each sender announces its own part.
    Split,
    /// Each sender announces the whole table.
    Same,
}

/// The senders' action in a phase.
#[derive(Debug)]
pub enum Action {
    /// Sends messages.
    Send {
        /// The messages of each sender.
        streams: Vec<Stream>,
        /// In which order.
        schedule: Schedule,
    },
    /// Closes the connections of the first senders.
    Close(usize),
    /// The first sender's connection breaks. The sender connects again and sends messages.
    Restart {
        /// The messages of this sender alone.
        streams: Vec<Stream>,
        /// In which order.
        schedule: Schedule,
    },
    /// A single sender sends its messages in sequence, each after the arrival of the message before.
    Probe {
        /// Which.
        sender: usize,
        /// The sender's messages.
        stream: Stream,
    },
    /// Further receivers connect; the phase's expectation has the messages for them.
    Join,
}

/// A part of a run, which begins with the end of the part before.
#[derive(Debug)]
pub struct Phase {
    /// For people.
    pub name: &'static str,
    /// True for the measured phase, false for a preparing phase.
    pub measured: bool,
    /// The action.
    pub action: Action,
    /// Prefixes that senders announce or withdraw, without the end marks.
    pub routes: usize,
    /// The messages that receivers should receive.
    pub expectation: Arc<Expectation>,
}

/// A run.
#[derive(Debug)]
pub struct Workload {
    /// In order.
    pub phases: Vec<Phase>,
    /// Every prefix of the plan.
    pub index: Arc<Index>,
    /// Messages of a trace that could not be sent.
    pub skipped: usize,
    /// Paths of each prefix.
    pub paths: u32,
}

/// The parameters of a plan apart from the routes.
#[derive(Clone, Debug)]
pub struct Cast {
    /// The senders.
    pub voices: Vec<Voice>,
    /// The peers' families.
    pub families: Families,
    /// The target.
    pub target_as: Asn,
    /// Variant.
    pub order: Order,
    /// Traffic mix.
    pub mix: Mix,
    /// Seed of the random choices.
    pub seed: u64,
}

/// The limit of prefixes in a message if only the message's length limits them.
pub const ANY_NUMBER: usize = usize::MAX;

/// Number of single routes followed to the receiver.
const PROBES: u8 = 200;

/// A single route's prefix, in the part of the block for benchmarks (RFC 2544) that marks of ordinary runs do not reach.
fn probe(number: u8) -> IpPrefix {
    Ipv4Prefix::host(V4Addr(Ipv4Addr::new(198, 19, 255, number))).into()
}

/// The prefix with which a sender marks the end of a phase: a host in the blocks for benchmarks (RFC 2544, RFC 5180).
fn mark(number: usize, v4: bool) -> IpPrefix {
    if v4 {
        let first = Ipv4Addr::new(198, 18, 0, 0).to_bits();
        // The block has 2^17 addresses, of which only very large plans come round to the first.
        Ipv4Prefix::host(V4Addr(Ipv4Addr::from_bits(first + (number as u32 & 0x1_ffff)))).into()
    } else {
        let first = Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 0).to_bits();
        Ipv6Prefix::host(V6Addr(Ipv6Addr::from_bits(first + number as u128))).into()
    }
}

impl Cast {
    /// A table by a scenario.
    pub fn table(
        &self,
        table: &Table,
        scenario: Scenario,
        spread: Spread,
        per_message: usize,
    ) -> Result<Workload> {
        let acts = scenario.acts();
        ensure!(
            !scenario.needs_two() || self.voices.len() > 1 && spread == Spread::Split,
            "scenario {scenario} needs two senders or more, each with a part of the table: --senders 2 --spread split"
        );
        let paths = self.paths();
        ensure!(
            paths == 1 || !scenario.needs_two() && spread == Spread::Split && !acts.contains(&Act::Probe),
            "with several paths of a prefix, all of them are from one sender: not in scenario {scenario} with this --spread"
        );
        let mut index = Index::default();
        for prefix in table.prefixes() {
            index.add(prefix);
        }
        let routes = index.len();
        ensure!(routes > 0, "there is no route in the table that the peers can speak of");
        let marks: Vec<Vec<usize>> = (0..acts.len()).map(|phase| self.marks(phase, &mut index)).collect();
        let probes: Vec<usize> = if acts.contains(&Act::Probe) {
            ensure!(self.families.v4, "single routes are of IPv4");
            (0..PROBES).map(|n| index.add(probe(n))).collect()
        } else {
            Vec::new()
        };
        let mut phases = Vec::new();
        let mut present = Bits::none(index.len());
        for (phase, act) in acts.iter().enumerate() {
            let measured = phase + 1 == acts.len();
            let mut news = Bits::none(index.len());
            let before = present.clone();
            let families = self.marked_families().count();
            if matches!(act, Act::CloseFirst | Act::RestartFirst) {
                // The others have all routes, or all routes stay; only what the first one marked the ends of phases with goes.
                if *act == Act::CloseFirst {
                    (0..routes).for_each(|n| _ = news.set(n, true));
                } else {
                    marks[phase][..families]
                        .iter()
                        .for_each(|n| _ = (news.set(*n, true), present.set(*n, true)));
                }
                marks[..phase].iter().flat_map(|m| &m[..families]).for_each(|n| {
                    news.set(*n, true);
                    present.set(*n, false);
                });
            } else if act.is_loss() {
                news = before;
                present = Bits::none(index.len());
            } else if *act == Act::Join {
                news = before;
            } else if *act == Act::Probe {
                probes.iter().for_each(|n| _ = (news.set(*n, true), present.set(*n, true)));
            } else {
                marks[phase].iter().for_each(|n| _ = (news.set(*n, true), present.set(*n, true)));
                for number in 0..routes {
                    present.set(number, !matches!(act, Act::Withdraw));
                    news.set(number, act.is_news());
                }
            }
            let limit = if measured { scenario.per_message().unwrap_or(per_message) } else { ANY_NUMBER };
            let (action, said) = if *act == Act::Join {
                (Action::Join, news.count() * paths as usize)
            } else if *act == Act::Probe {
                let mut stream = Stream::default();
                let sender = self.voices.len() - 1;
                for number in &probes {
                    self.voices[sender].announce(
                        &Attributes::default(),
                        &[index.prefix(*number)],
                        &mut stream,
                    );
                }
                (Action::Probe { sender, stream }, probes.len())
            } else if act.is_loss() {
                let first = *act == Act::CloseFirst;
                let copies = if spread == Spread::Same && !first { self.voices.len() } else { 1 };
                (Action::Close(if first { 1 } else { self.voices.len() }), routes * copies)
            } else {
                let mut streams = self.say(table, *act, spread, limit);
                let said = streams.iter().map(|s| s.prefixes(0..s.len())).sum();
                let restarts = *act == Act::RestartFirst;
                if restarts {
                    streams.truncate(1);
                }
                let marks = &marks[phase][..families * streams.len()];
                self.put_marks(marks, &index, &mut streams);
                if scenario.restarts() {
                    self.put_ends(*act, &mut streams);
                }
                (if restarts { self.restart(streams) } else { self.send(streams, measured) }, said)
            };
            let expand = |set: &Bits| set.repeated(index.len(), paths as usize);
            let expectation = Arc::new(if paths > 1 {
                Expectation { present: expand(&present), news: expand(&news) }
            } else {
                Expectation { present: present.clone(), news }
            });
            phases.push(Phase { name: act.name(), measured, action, routes: said, expectation });
        }
        Ok(Workload { phases, index: Arc::new(index), skipped: 0, paths })
    }

    /// A trace.
    pub fn trace(&self, trace: &Trace<'_>) -> Result<Workload> {
        let said = trace.said(&self.voices, self.families, self.target_as);
        ensure!(!said.events.is_empty(), "the trace has no route of a family that the peers speak");
        ensure!(self.paths() == 1, "a trace has one path of each prefix from each sender");
        let mut index = Index::default();
        let mut last: Vec<(usize, usize, bool)> =
            said.events.iter().map(|e| (index.add(e.prefix), e.sender, e.announced)).collect();
        let marks = self.marks(0, &mut index);
        // Of each sender's words about a prefix the last ones count, and one sender's route is enough.
        last.sort_by_key(|(number, sender, _)| (*number, *sender));
        let mut present = Bits::none(index.len());
        for of_sender in last.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1)) {
            if let [.., (number, _, true)] = of_sender {
                present.set(*number, true);
            }
        }
        let mut news = Bits::none(index.len());
        marks.iter().for_each(|n| _ = (news.set(*n, true), present.set(*n, true)));
        let (mut streams, routes) = (said.streams, said.events.len());
        self.put_marks(&marks, &index, &mut streams);
        let action = self.send(streams, true);
        let expectation = Arc::new(Expectation { present, news });
        let phase = Phase { name: "trace", measured: true, action, routes, expectation };
        Ok(Workload { phases: vec![phase], index: Arc::new(index), skipped: said.skipped, paths: 1 })
    }

    fn send(&self, streams: Vec<Stream>, measured: bool) -> Action {
        let (order, mix) = if measured { (self.order, self.mix) } else { (Order::Threads, Mix::One) };
        let schedule = schedule(order, mix, &streams, self.seed);
        Action::Send { streams, schedule }
    }

    fn restart(&self, streams: Vec<Stream>) -> Action {
        let schedule = schedule(self.order, self.mix, &streams, self.seed);
        Action::Restart { streams, schedule }
    }

    /// Paths of each prefix.
    fn paths(&self) -> u32 {
        self.voices.first().map_or(1, |voice| voice.paths)
    }

    fn marked_families(&self) -> impl Iterator<Item = bool> {
        [self.families.v4.then_some(true), self.families.v6.then_some(false)].into_iter().flatten()
    }

    /// The numbers of the prefixes that mark the end of a phase, sender by sender.
    fn marks(&self, phase: usize, index: &mut Index) -> Vec<usize> {
        let senders = self.voices.len();
        let all =
            (0..senders).flat_map(|s| self.marked_families().map(move |v4| mark(phase * senders + s, v4)));
        all.map(|p| index.add(p)).collect()
    }

    fn put_marks(&self, marks: &[usize], index: &Index, streams: &mut [Stream]) {
        let each = marks.len() / streams.len().max(1);
        for ((voice, stream), marks) in self.voices.iter().zip(streams).zip(marks.chunks(each.max(1))) {
            for number in marks {
                voice.announce(&Attributes::default(), &[index.prefix(*number)], stream);
            }
        }
    }

    /// Puts End-of-RIB markers behind the routes of senders that announce their table in an act.
    fn put_ends(&self, act: Act, streams: &mut [Stream]) {
        for (sender, (voice, stream)) in self.voices.iter().zip(streams).enumerate() {
            for v4 in self.marked_families().filter(|_| act.concerns(sender, 0, true)) {
                voice.end_of_rib(if v4 { Family::Ipv4 } else { Family::Ipv6 }, stream);
            }
        }
    }

    /// The messages of each sender for the table in an act.
    fn say(&self, table: &Table, act: Act, spread: Spread, per_message: usize) -> Vec<Stream> {
        let senders = self.voices.len();
        let mut streams = vec![Stream::default(); senders];
        let is_split = spread == Spread::Split;
        for (number, group) in table.groups.iter().enumerate() {
            let owner = (number + usize::from(act.by_another())) % senders;
            for sender in (0..senders).filter(|s| act.concerns(*s, owner, is_split)) {
                let voice = Voice { per_message, ..self.voices[sender] };
                match act {
                    Act::Withdraw => voice.withdraw(&group.prefixes, &mut streams[sender]),
                    _ if act.is_longer() => {
                        let attributes = longer(&group.attributes, voice.asn);
                        voice.announce(&attributes, &group.prefixes, &mut streams[sender]);
                    }
                    _ => _ = voice.announce(&group.attributes, &group.prefixes, &mut streams[sender]),
                }
            }
        }
        streams
    }
}

/// The attributes with a path longer by two.
fn longer(attributes: &Attributes, asn: Asn) -> Attributes {
    let (mut once, mut twice) = (Vec::new(), Vec::new());
    as_path::put_prepended(&attributes.path, asn, &mut once);
    as_path::put_prepended(&once, asn, &mut twice);
    Attributes { path: twice, ..attributes.clone() }
}
