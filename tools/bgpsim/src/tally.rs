//! A receiver's messages in a phase, compared with the expectation.
//!
//! Where prefixes have several paths (RFC 7911), each path of a prefix counts as a prefix does otherwise: path identifiers are the
//! target's own, so that the first identifier of a prefix stands for the first path, and so on.

use crate::index::{Bits, Index};
use crate::routes;
use crate::wire::Malformed;
use std::sync::Arc;
use std::time::Instant;

/// The messages that every receiver should have received by the end of a phase. With several paths of each prefix, the sets have a number
/// for each path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Expectation {
    /// Prefixes that have a route at the end.
    pub present: Bits,
    /// Prefixes that must change in the phase, in any way.
    pub news: Bits,
}

/// The path identifiers of every prefix.
#[derive(Clone, Debug)]
struct Paths {
    /// Paths of each prefix.
    each: usize,
    /// The identifiers of the paths, prefix by prefix; `None` where a path is absent.
    ids: Vec<Option<u32>>,
}

impl Paths {
    /// Takes a change of a path of the prefix with a number. Returns the path's number; `None` for a path too many, and for the withdrawal
    /// of an unknown path.
    fn change(&mut self, prefix: usize, id: u32, announced: bool) -> Option<usize> {
        let first = prefix * self.each;
        let ids = &mut self.ids[first..first + self.each];
        let known = ids.iter().position(|known| *known == Some(id));
        let at = known.or_else(|| ids.iter().position(|known| announced && known.is_none()))?;
        ids[at] = announced.then_some(id);
        Some(first + at)
    }
}

/// Counts of a receiver in a phase.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Announced prefixes, including repetitions.
    pub announced: u64,
    /// Withdrawn prefixes, including repetitions.
    pub withdrawn: u64,
    /// Announced prefixes that were present already.
    pub replaced: u64,
    /// Prefixes that no sender announces, and paths of which no sender announces so many.
    pub unexpected: u64,
    /// UPDATEs.
    pub messages: u64,
    /// Octets of the messages.
    pub octets: u64,
    /// The time when the first news came.
    pub first: Option<Instant>,
    /// The time when the last news came.
    pub last: Option<Instant>,
    /// The time since which the expectation is met; `None` if it is not met.
    pub complete: Option<Instant>,
}

/// A receiver's view.
#[derive(Clone, Debug)]
pub struct Tally {
    index: Arc<Index>,
    expectation: Arc<Expectation>,
    /// `None` in sessions without path identifiers.
    paths: Option<Paths>,
    /// Only the number of received prefixes matters, including repetitions.
    count: Option<u64>,
    present: Bits,
    news: Bits,
    /// Prefixes that are wrongly present or wrongly absent.
    wrong: usize,
    /// Prefixes of which there should have been news.
    awaited: usize,
    /// The number after the last received number.
    next: usize,
    /// The counts of the current phase.
    pub counts: Counts,
}

impl Tally {
    /// A receiver without received prefixes and without an expectation, in a session with so many paths of each prefix; with more than one,
    /// path identifiers stand before prefixes.
    pub fn new(index: Arc<Index>, paths: u32) -> Self {
        let each = paths as usize;
        let none = Bits::none(index.len() * each);
        let expectation = Arc::new(Expectation { present: none.clone(), news: none.clone() });
        let (wrong, awaited, next) = (0, 0, 0);
        let paths = (each > 1).then(|| Paths { each, ids: vec![None; index.len() * each] });
        Tally {
            index,
            expectation,
            paths,
            count: None,
            present: none.clone(),
            news: none,
            wrong,
            awaited,
            next,
            counts: Counts::default(),
        }
    }

    /// Returns a tally of the same kind for a receiver without received prefixes.
    pub fn blank(&self) -> Tally {
        Tally::new(self.index.clone(), self.each() as u32)
    }

    /// Returns the number of paths of each prefix.
    fn each(&self) -> usize {
        self.paths.as_ref().map_or(1, |paths| paths.each)
    }

    /// Begins a phase: counts restart, present prefixes stay.
    pub fn begin(&mut self, expectation: Arc<Expectation>) {
        self.news = Bits::none(self.index.len() * self.each());
        self.awaited = expectation.news.count();
        self.wrong = expectation.present.without(&self.present).count()
            + self.present.without(&expectation.present).count();
        self.expectation = expectation;
        self.count = None;
        self.counts = Counts::default();
    }

    /// From now to the end of the phase, only the number of received prefixes matters, including repetitions. A relay
    /// that copies several senders' messages about the same prefixes may send them in any order.
    pub fn only_count(&mut self, prefixes: u64) {
        self.count = Some(prefixes);
    }

    /// Takes the body of an UPDATE that was read at `at`.
    pub fn update(&mut self, body: &[u8], at: Instant) -> Result<(), Malformed> {
        let Tally { index, expectation, paths, present, news, wrong, awaited, next, counts, .. } = self;
        let mut any = false;
        let mut change = |prefix, announced, path: Option<(u32, &mut Paths)>| {
            any = true;
            *if announced { &mut counts.announced } else { &mut counts.withdrawn } += 1;
            let Some(mut number) = index.number_near(prefix, *next) else {
                counts.unexpected += 1;
                return;
            };
            *next = number + 1;
            if let Some((id, paths)) = path {
                let Some(of_path) = paths.change(number, id, announced) else {
                    counts.unexpected += u64::from(announced);
                    return;
                };
                number = of_path;
            }
            let before = present.set(number, announced);
            let wanted = expectation.present.has(number);
            *wrong = *wrong + usize::from(announced != wanted) - usize::from(before != wanted);
            counts.replaced += u64::from(before && announced);
            if !news.set(number, true) && expectation.news.has(number) {
                *awaited -= 1;
            }
        };
        match paths {
            None => routes::each(body, |prefix, announced| change(prefix, announced, None))?,
            Some(paths) => routes::each_path(body, |prefix, id, announced| {
                change(prefix, announced, Some((id, &mut *paths)));
            })?,
        }
        counts.messages += 1;
        if any {
            counts.first.get_or_insert(at);
            counts.last = Some(at);
            let complete = self.is_complete();
            let since = &mut self.counts.complete;
            *since = if complete { since.or(Some(at)) } else { None };
        }
        Ok(())
    }

    /// Returns true if the expectation is met.
    pub fn is_complete(&self) -> bool {
        match self.count {
            Some(count) => self.counts.announced + self.counts.withdrawn == count,
            None => self.wrong == 0 && self.awaited == 0,
        }
    }

    /// Prefixes that are wrongly absent, or that should have changed: their number, and some of them.
    pub fn missing(&self) -> (usize, Vec<String>) {
        let gone = self.expectation.present.without(&self.present);
        let silent = self
            .expectation
            .news
            .without(&self.news)
            .filter(|n| self.present.has(*n) == self.expectation.present.has(*n));
        self.named(gone.chain(silent))
    }

    /// Prefixes of the senders that are wrongly present: their number, and some of them.
    pub fn surplus(&self) -> (usize, Vec<String>) {
        self.named(self.present.without(&self.expectation.present))
    }

    fn named(&self, numbers: impl Iterator<Item = usize>) -> (usize, Vec<String>) {
        const SHOWN: usize = 5;
        let (mut count, mut shown) = (0, Vec::new());
        for number in numbers {
            count += 1;
            if count <= SHOWN {
                shown.push(self.index.prefix(number / self.each()).to_string());
            }
        }
        (count, shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Attributes, Voice};
    use crate::stream::Stream;
    use crate::wire::{WirePrefix, header};
    use sluice_base::{Asn, IpPrefix, Ipv4Prefix};
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn bodies(write: impl FnOnce(&Voice, &mut Stream)) -> Vec<u8> {
        let voice = Voice {
            asn: Asn(65001),
            internal: false,
            next_hop_v4: Ipv4Addr::new(10, 0, 0, 2),
            next_hop_v6: Ipv6Addr::UNSPECIFIED,
            per_message: 9999,
            paths: 1,
        };
        let mut stream = Stream::default();
        write(&voice, &mut stream);
        header::frame(stream.octets(0..1)).unwrap().unwrap().body.to_vec()
    }

    /// An UPDATE that announces or withdraws paths of prefixes of IPv4, by their identifiers.
    fn paths(announced: bool, paths: &[(u32, &str)]) -> Vec<u8> {
        let mut nlri = Vec::new();
        for (id, prefix) in paths {
            nlri.extend_from_slice(&id.to_be_bytes());
            prefix.parse::<Ipv4Prefix>().unwrap().put(&mut nlri);
        }
        if announced {
            [vec![0; 4], nlri].concat()
        } else {
            [(nlri.len() as u16).to_be_bytes().to_vec(), nlri, vec![0, 0]].concat()
        }
    }

    /// A prefix is there with all of its paths, whatever identifiers the target gives them.
    #[test]
    fn each_path_counts() {
        let mut index = Index::default();
        let all = ["10.0.0.0/8", "20.0.0.0/8"];
        all.iter().for_each(|p| _ = index.add(p.parse().unwrap()));
        let (mut full, none) = (Bits::none(4), Bits::none(4));
        (0..4).for_each(|n| _ = full.set(n, true));
        let mut tally = Tally::new(Arc::new(index), 2);
        let now = Instant::now();
        tally.begin(Arc::new(Expectation { present: full.clone(), news: full.clone() }));
        tally.update(&paths(true, &[(7, all[0]), (7, all[1]), (9, all[0])]), now).unwrap();
        assert_eq!(tally.missing(), (1, vec![all[1].to_owned()]));
        // The same path again is no other path.
        tally.update(&paths(true, &[(7, all[1])]), now).unwrap();
        assert_eq!((tally.is_complete(), tally.counts.replaced), (false, 1));
        tally.update(&paths(true, &[(0, all[1])]), now).unwrap();
        assert!(tally.is_complete());
        // One too many, and one that nobody knows.
        tally.update(&paths(true, &[(1, all[1])]), now).unwrap();
        tally.update(&paths(false, &[(2, all[1])]), now).unwrap();
        assert_eq!((tally.is_complete(), tally.counts.unexpected), (true, 1));
        // A path that goes makes room for another.
        tally.update(&paths(false, &[(7, all[1])]), now).unwrap();
        assert!(!tally.is_complete());
        tally.update(&paths(true, &[(8, all[1])]), now).unwrap();
        assert!(tally.is_complete());
        tally.begin(Arc::new(Expectation { present: none, news: full }));
        tally.update(&paths(false, &[(8, all[1]), (0, all[1]), (9, all[0])]), now).unwrap();
        assert_eq!((tally.is_complete(), tally.surplus()), (false, (1, vec![all[0].to_owned()])));
        tally.update(&paths(false, &[(7, all[0])]), now).unwrap();
        assert!(tally.is_complete());
    }

    #[test]
    fn from_nothing_to_all_and_back() {
        let all: Vec<IpPrefix> = (0..100).map(|i| format!("20.{i}.0.0/16").parse().unwrap()).collect();
        let mut index = Index::default();
        all.iter().for_each(|p| _ = index.add(*p));
        let index = Arc::new(index);
        let (mut full, none) = (Bits::none(100), Bits::none(100));
        (0..100).for_each(|n| _ = full.set(n, true));
        let expectation =
            |present: &Bits| Arc::new(Expectation { present: present.clone(), news: full.clone() });
        let announce = |p: &[IpPrefix]| bodies(|v, s| _ = v.announce(&Attributes::of_path(&[Asn(1)]), p, s));
        let now = Instant::now();

        let mut tally = Tally::new(index, 1);
        assert!(tally.is_complete());
        tally.begin(expectation(&full));
        tally.update(&announce(&all[..99]), now).unwrap();
        assert!(!tally.is_complete());
        assert_eq!(tally.missing(), (1, vec!["20.99.0.0/16".into()]));
        tally.update(&announce(&all[50..]), now).unwrap();
        assert!(tally.is_complete());
        let unknown: IpPrefix = "30.0.0.0/8".parse().unwrap();
        tally.update(&announce(&[unknown]), now).unwrap();
        let c = &tally.counts;
        assert_eq!((c.announced, c.replaced, c.unexpected, c.withdrawn, c.messages), (150, 49, 1, 0, 3));
        assert!(c.complete.is_some());

        // All is there, but there has to be news of it.
        tally.begin(expectation(&full));
        assert!(!tally.is_complete());
        assert_eq!(tally.missing().0, 100);
        tally.update(&announce(&all), now).unwrap();
        assert!(tally.is_complete());

        tally.begin(expectation(&none));
        tally.update(&bodies(|v, s| v.withdraw(&all[1..], s)), now).unwrap();
        assert_eq!((tally.is_complete(), tally.surplus()), (false, (1, vec!["20.0.0.0/16".into()])));
        tally.update(&bodies(|v, s| v.withdraw(&all[..1], s)), now).unwrap();
        assert!(tally.is_complete());
        assert!(tally.update(&[0], now).is_err());
    }
}
