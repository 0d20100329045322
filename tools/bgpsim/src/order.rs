//! The order of sending: the client's variants and the traffic mixes of the thesis (sections 4.1.2 and 4.2.4).

use crate::stream::{Stamp, Stream};
use sluice_base::Rng;
use std::str::FromStr;
use thiserror::Error;

/// The order of messages of different peers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// As in the trace; a table's messages in a random order, equal in every run.
    Trace,
    /// So many of each peer, then of the next.
    RoundRobin(usize),
    /// A thread for each peer, and no order between the threads.
    Threads,
}

/// A text names no order.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum OrderError {
    /// The text behind the colon is no number of messages.
    #[error("`{0}` is not a number of messages")]
    Number(String),
    /// The word is none of the three.
    #[error("expected trace, round-robin:K or threads")]
    Word,
}

impl FromStr for Order {
    type Err = OrderError;

    fn from_str(s: &str) -> Result<Self, OrderError> {
        match s.split_once(':') {
            None if s == "trace" => Ok(Order::Trace),
            None if s == "threads" => Ok(Order::Threads),
            None if s == "round-robin" => Ok(Order::RoundRobin(1)),
            Some(("round-robin", k)) => match k.parse() {
                Ok(k) if k > 0 => Ok(Order::RoundRobin(k)),
                _ => Err(OrderError::Number(k.into())),
            },
            _ => Err(OrderError::Word),
        }
    }
}

impl std::fmt::Display for Order {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Order::Trace => f.write_str("trace"),
            Order::RoundRobin(k) => write!(f, "round-robin:{k}"),
            Order::Threads => f.write_str("threads"),
        }
    }
}

/// Number of peers that send at a time (the thesis's table 4.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Mix {
    /// Every peer, a message at a time.
    Best,
    /// Every peer, in a realistic order.
    #[value(name = "1")]
    One,
    /// Four peers, then the next four.
    #[value(name = "2")]
    Two,
    /// Two peers, then the next two.
    #[value(name = "3")]
    Three,
    /// Single peers in turn.
    Worst,
}

impl Mix {
    /// Number of peers that send at a time, out of `peers`.
    pub fn at_a_time(self, peers: usize) -> usize {
        match self {
            Mix::Best | Mix::One => peers.max(1),
            Mix::Two => 4,
            Mix::Three => 2,
            Mix::Worst => 1,
        }
    }

    /// The mix's name in the thesis.
    pub const fn name(self) -> &'static str {
        match self {
            Mix::Best => "best",
            Mix::One => "1",
            Mix::Two => "2",
            Mix::Three => "3",
            Mix::Worst => "worst",
        }
    }
}

/// The next messages of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// Whose.
    pub peer: usize,
    /// Number of messages.
    pub messages: usize,
}

/// The messages of a phase in their order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// Turns in sequence.
    Turns(Vec<Turn>),
    /// Groups of peers in sequence; the peers of a group run in parallel.
    Threads(Vec<Vec<usize>>),
}

/// Schedules the messages of the given peers.
pub fn schedule(order: Order, mix: Mix, streams: &[Stream], seed: u64) -> Schedule {
    let speaking: Vec<usize> = (0..streams.len()).filter(|p| !streams[*p].is_empty()).collect();
    let groups = speaking.chunks(mix.at_a_time(streams.len()));
    if order == Order::Threads {
        return Schedule::Threads(groups.map(<[usize]>::to_vec).collect());
    }
    let mut turns = Turns::default();
    let mut rng = Rng::from_seed(seed);
    for group in groups {
        match order {
            Order::RoundRobin(k) => round_robin(group, k, streams, &mut turns),
            _ if group.iter().all(|p| streams[*p].seen(0).is_some()) => as_seen(group, streams, &mut turns),
            _ => by_chance(group, streams, &mut rng, &mut turns),
        }
    }
    Schedule::Turns(turns.0)
}

#[derive(Default)]
struct Turns(Vec<Turn>);

impl Turns {
    fn add(&mut self, peer: usize, messages: usize) {
        match self.0.last_mut() {
            Some(last) if last.peer == peer => last.messages += messages,
            _ => self.0.push(Turn { peer, messages }),
        }
    }
}

fn round_robin(group: &[usize], k: usize, streams: &[Stream], turns: &mut Turns) {
    let most = group.iter().map(|p| streams[*p].len()).max().unwrap_or(0);
    for begin in (0..most).step_by(k) {
        for peer in group {
            let left = streams[*peer].len().saturating_sub(begin);
            if left > 0 {
                turns.add(*peer, left.min(k));
            }
        }
    }
}

/// In the order of the trace's stamps. Messages without a stamp, at a stream's end, come last.
fn as_seen(group: &[usize], streams: &[Stream], turns: &mut Turns) {
    const LAST: Stamp = Stamp { time: u64::MAX, place: u32::MAX };
    let messages = group
        .iter()
        .flat_map(|p| (0..streams[*p].len()).map(move |m| (streams[*p].seen(m).unwrap_or(LAST), *p)));
    let mut all: Vec<(Stamp, usize)> = messages.collect();
    all.sort_by_key(|(stamp, _)| stamp.place);
    all.iter().for_each(|(_, peer)| turns.add(*peer, 1));
}

/// Draws the peer of each next message, weighted by the number of messages that the peer has left.
fn by_chance(group: &[usize], streams: &[Stream], rng: &mut Rng, turns: &mut Turns) {
    let mut left: Vec<u64> = group.iter().map(|p| streams[*p].len() as u64).collect();
    let mut sum: u64 = left.iter().sum();
    while sum > 0 {
        let mut drawn = rng.below(sum);
        let at = left.iter().position(|n| {
            let here = drawn < *n;
            drawn = drawn.saturating_sub(*n);
            here
        });
        // Below the sum there always is one.
        let Some(at) = at else { return };
        turns.add(group[at], 1);
        left[at] -= 1;
        sum -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn streams(lengths: &[usize]) -> Vec<Stream> {
        let one = |length: &usize| {
            let mut stream = Stream::default();
            (0..*length).for_each(|_| stream.push(1, |out| out.push(0)));
            stream
        };
        lengths.iter().map(one).collect()
    }

    fn turns(schedule: Schedule) -> Vec<(usize, usize)> {
        match schedule {
            Schedule::Turns(turns) => turns.iter().map(|t| (t.peer, t.messages)).collect(),
            Schedule::Threads(_) => panic!("not by threads"),
        }
    }

    #[test]
    fn the_five_mixes() {
        let check = |mix, order, lengths: &[usize], expected: &[(usize, usize)]| {
            assert_eq!(turns(schedule(order, mix, &streams(lengths), 1)), expected, "{mix:?} {order:?}");
        };
        let rr = Order::RoundRobin;
        check(Mix::Best, rr(1), &[2, 1, 0, 2], &[(0, 1), (1, 1), (3, 1), (0, 1), (3, 1)]);
        check(Mix::Best, rr(2), &[3, 1], &[(0, 2), (1, 1), (0, 1)]);
        check(Mix::Worst, rr(1), &[2, 3], &[(0, 2), (1, 3)]);
        check(Mix::Worst, Order::Trace, &[2, 3], &[(0, 2), (1, 3)]);
        check(Mix::Three, rr(1), &[1, 1, 2, 1], &[(0, 1), (1, 1), (2, 1), (3, 1), (2, 1)]);
        check(Mix::Two, rr(9), &[1, 1, 1, 1, 1], &[(0, 1), (1, 1), (2, 1), (3, 1), (4, 1)]);
        let threads = schedule(Order::Threads, Mix::Three, &streams(&[1, 1, 0, 1]), 1);
        assert_eq!(threads, Schedule::Threads(vec![vec![0, 1], vec![3]]));
    }

    #[test]
    fn as_the_trace_was() {
        let mut all = streams(&[0, 0]);
        for (place, peer) in [1, 1, 0, 1].into_iter().enumerate() {
            all[peer].push(1, |out| out.push(0));
            all[peer].stamp(Stamp { time: place as u64, place: place as u32 });
        }
        // At the end something that the trace does not have.
        all.iter_mut().for_each(|s| s.push(1, |out| out.push(0)));
        let order = turns(schedule(Order::Trace, Mix::One, &all, 1));
        assert_eq!(order, [(1, 2), (0, 1), (1, 1), (0, 1), (1, 1)]);
    }

    #[test]
    fn names() {
        for text in ["trace", "threads", "round-robin:7"] {
            assert_eq!(text.parse::<Order>().map(|o| o.to_string()), Ok(text.into()));
        }
        for text in ["", "round-robin:0", "round-robin:x", "thread", "trace:1"] {
            assert!(text.parse::<Order>().is_err(), "{text}");
        }
    }

    proptest! {
        /// In any order: every message is sent once, at most the mix's number of peers are unfinished in parallel, and
        /// round robin gives no peer more than K messages while a further peer has messages left.
        #[test]
        fn all_messages_once(
            lengths in prop::collection::vec(0usize..30, 0..12),
            mix in prop::sample::select(vec![Mix::Best, Mix::One, Mix::Two, Mix::Three, Mix::Worst]),
            k in 0usize..4,
        ) {
            let streams = streams(&lengths);
            let order = if k == 0 { Order::Trace } else { Order::RoundRobin(k) };
            let turns = turns(schedule(order, mix, &streams, 3));
            let mut sent = vec![0; lengths.len()];
            for (peer, messages) in &turns {
                prop_assert!(*messages > 0);
                let begun = |p: &usize| sent[*p] > 0 && sent[*p] < lengths[*p];
                let others = (0..lengths.len()).filter(|p| p != peer).filter(begun).count();
                prop_assert!(others < mix.at_a_time(lengths.len()));
                let alone = (0..lengths.len()).filter(|p| p != peer).all(|p| sent[p] == lengths[p]);
                let last_of_group = mix.at_a_time(lengths.len()) == 1 || others == 0;
                prop_assert!(k == 0 || *messages <= k || alone || last_of_group);
                sent[*peer] += messages;
            }
            prop_assert_eq!(sent, lengths);
        }
    }
}
