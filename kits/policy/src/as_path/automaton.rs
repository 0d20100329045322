//! The deterministic automaton of an expression.

use super::expression::{Asns, Expression, Repeat};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sluice_wire::Cursor;
use smallvec::SmallVec;

/// The most states of an automaton, and of the automaton with choices before.
const MOST_STATES: usize = 4096;
/// The most steps of an automaton: states times classes of AS numbers.
const MOST_STEPS: usize = 1 << 17;
/// The most states with choices in all states of an automaton together.
const MOST_MEMBERS: usize = 1 << 16;
/// The segment type of an unordered set of ASes (RFC 4271, section 4.3).
const AS_SET: u8 = 1;

/// An expression needs more states or steps than an automaton may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TooManyStates;

/// A deterministic automaton over classes of AS numbers. Reading a path costs one step for each AS.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Automaton {
    /// The first AS number of each class's interval, in order, beginning with 0.
    bounds: Vec<u32>,
    /// The class of each interval.
    classes: Vec<u16>,
    class_count: usize,
    /// The next state, by state and class; [`NOWHERE`] for none.
    steps: Vec<u16>,
    /// True for states at the end of a matching path.
    accepts: Vec<bool>,
}

const NOWHERE: u16 = u16::MAX;
const START: u16 = 0;

impl Automaton {
    /// Makes the automaton of an expression.
    ///
    /// # Errors
    ///
    /// If the automaton would have more than 4,096 states, or more than 131,072 steps from a state by a class of AS numbers.
    pub fn new(expression: &Expression) -> Result<Self, TooManyStates> {
        let mut choices = Choices::default();
        let (start, end) = (choices.state()?, choices.state()?);
        choices.add(expression, start, end)?;
        let alphabet = Alphabet::of(&choices.sets);
        choices.determine(start, end, &alphabet)
    }

    /// Returns true if the automaton describes a path: the octets of an AS_PATH attribute with AS numbers of 4 octets (RFC
    /// 6793). A malformed path ends before the first malformed segment.
    pub fn matches(&self, path: &[u8]) -> bool {
        let mut cursor = Cursor::new(path);
        let mut states: SmallVec<[u16; 4]> = SmallVec::from_slice(&[START]);
        while let Ok([kind, count]) = cursor.array()
            && let Ok(members) = cursor.take(usize::from(count) * 4)
        {
            let members = members.as_chunks::<4>().0.iter().map(|asn| u32::from_be_bytes(*asn));
            if kind == AS_SET {
                states = self.after_any(&states, members);
            } else {
                for asn in members {
                    match &mut states[..] {
                        [state] => *state = self.after(*state, asn),
                        several => several.iter_mut().for_each(|state| *state = self.after(*state, asn)),
                    }
                }
                states.retain(|state| *state != NOWHERE);
            }
            if states.is_empty() {
                return false;
            }
        }
        states.iter().any(|state| self.accepts[usize::from(*state)])
    }

    /// Returns the states after an AS_SET.
    fn after_any(&self, states: &[u16], members: impl Iterator<Item = u32>) -> SmallVec<[u16; 4]> {
        let mut classes: SmallVec<[u16; 16]> = members.map(|asn| self.class(asn)).collect();
        classes.sort_unstable();
        classes.dedup();
        let step = |(state, class): (u16, u16)| {
            self.steps[usize::from(state) * self.class_count + usize::from(class)]
        };
        let pairs = states.iter().flat_map(|state| classes.iter().map(|class| (*state, *class)));
        let mut next: SmallVec<[u16; 4]> = pairs.map(step).filter(|state| *state != NOWHERE).collect();
        next.sort_unstable();
        next.dedup();
        next
    }

    #[inline]
    fn after(&self, state: u16, asn: u32) -> u16 {
        if state == NOWHERE {
            return NOWHERE;
        }
        self.steps[usize::from(state) * self.class_count + usize::from(self.class(asn))]
    }

    #[inline]
    fn class(&self, asn: u32) -> u16 {
        // The first bound is 0: there is always an interval.
        self.classes[self.bounds.partition_point(|bound| *bound <= asn) - 1]
    }

    /// Returns the number of states.
    pub fn states(&self) -> usize {
        self.accepts.len()
    }
}

/// The AS numbers of some sets, divided into classes: no set distinguishes two numbers of one class.
struct Alphabet {
    bounds: Vec<u32>,
    classes: Vec<u16>,
    /// The classes in each set, as a row of flags.
    members: Vec<Vec<bool>>,
    count: usize,
}

impl Alphabet {
    fn of(sets: &[Asns]) -> Self {
        let ranges = sets.iter().flat_map(|set| &set.ranges);
        let edges = ranges.flat_map(|(first, last)| [Some(*first), last.checked_add(1)]);
        let mut bounds: Vec<u32> = edges.flatten().chain([0]).collect();
        bounds.sort_unstable();
        bounds.dedup();
        let mut numbers: BTreeMap<Vec<bool>, u16> = BTreeMap::new();
        let mut classes = Vec::with_capacity(bounds.len());
        for bound in &bounds {
            let signature: Vec<bool> = sets.iter().map(|set| set.contains(*bound)).collect();
            let next = numbers.len() as u16;
            classes.push(*numbers.entry(signature).or_insert(next));
        }
        let count = numbers.len();
        let mut members = alloc::vec![alloc::vec![false; count]; sets.len()];
        for (signature, class) in numbers {
            for (set, is_member) in signature.into_iter().enumerate() {
                members[set][usize::from(class)] = is_member;
            }
        }
        Alphabet { bounds, classes, members, count }
    }
}

/// The automaton with choices (Thompson's construction): several states at a time.
#[derive(Default)]
struct Choices {
    sets: Vec<Asns>,
    states: Vec<State>,
}

#[derive(Default)]
struct State {
    /// States without a step in between.
    free: Vec<u16>,
    /// The number of a set, and the state behind an AS of the set.
    steps: Vec<(u16, u16)>,
}

impl Choices {
    fn state(&mut self) -> Result<u16, TooManyStates> {
        if self.states.len() >= MOST_STATES {
            return Err(TooManyStates);
        }
        self.states.push(State::default());
        Ok((self.states.len() - 1) as u16)
    }

    /// Adds the ways of an expression from a state to another state.
    fn add(&mut self, expression: &Expression, from: u16, to: u16) -> Result<(), TooManyStates> {
        match expression {
            Expression::Empty => self.states[usize::from(from)].free.push(to),
            Expression::One(asns) => {
                let known = self.sets.iter().position(|set| set == asns);
                let set = known.unwrap_or_else(|| {
                    self.sets.push(asns.clone());
                    self.sets.len() - 1
                }) as u16;
                self.states[usize::from(from)].steps.push((set, to));
            }
            Expression::Sequence(all) => {
                let mut from = from;
                for part in all {
                    let next = self.state()?;
                    self.add(part, from, next)?;
                    from = next;
                }
                self.states[usize::from(from)].free.push(to);
            }
            Expression::Either(all) => all.iter().try_for_each(|part| self.add(part, from, to))?,
            Expression::Repeated(inner, repeat) => self.repeat(inner, *repeat, from, to)?,
        }
        Ok(())
    }

    fn repeat(
        &mut self,
        inner: &Expression,
        repeat: Repeat,
        mut from: u16,
        to: u16,
    ) -> Result<(), TooManyStates> {
        for _ in 0..repeat.least {
            let next = self.state()?;
            self.add(inner, from, next)?;
            from = next;
        }
        match repeat.most {
            Some(most) => {
                for _ in repeat.least..most {
                    self.states[usize::from(from)].free.push(to);
                    let next = self.state()?;
                    self.add(inner, from, next)?;
                    from = next;
                }
                self.states[usize::from(from)].free.push(to);
            }
            None => {
                // A state of its own: what stands before must not be repeated too.
                let (begin, end) = (self.state()?, self.state()?);
                self.states[usize::from(from)].free.push(begin);
                self.add(inner, begin, end)?;
                self.states[usize::from(end)].free.push(begin);
                self.states[usize::from(begin)].free.push(to);
            }
        }
        Ok(())
    }

    /// Adds the states without a step in between, and sorts all.
    fn close(&self, states: &mut Vec<u16>) {
        let mut seen = alloc::vec![false; self.states.len()];
        let mut next = core::mem::take(states);
        while let Some(state) = next.pop() {
            if !core::mem::replace(&mut seen[usize::from(state)], true) {
                states.push(state);
                next.extend(&self.states[usize::from(state)].free);
            }
        }
        states.sort_unstable();
    }

    /// Makes the deterministic automaton: a state for each reachable set of states.
    fn determine(&self, start: u16, end: u16, alphabet: &Alphabet) -> Result<Automaton, TooManyStates> {
        let mut first = Vec::from([start]);
        self.close(&mut first);
        let mut numbers = BTreeMap::from([(first.clone(), START)]);
        let mut todo = Vec::from([first]);
        let (mut steps, mut accepts) = (Vec::new(), Vec::new());
        let (mut at, mut members) = (0, 0);
        while at < todo.len() {
            let states = todo[at].clone();
            accepts.push(states.contains(&end));
            if steps.len() + alphabet.count > MOST_STEPS {
                return Err(TooManyStates);
            }
            for class in 0..alphabet.count {
                let all = states.iter().flat_map(|state| &self.states[usize::from(*state)].steps);
                let fitting = all.filter(|(set, _)| alphabet.members[usize::from(*set)][class]);
                let mut next: Vec<u16> = fitting.map(|(_, to)| *to).collect();
                self.close(&mut next);
                let number = match numbers.get(&next) {
                    _ if next.is_empty() => NOWHERE,
                    Some(number) => *number,
                    None if numbers.len() >= MOST_STATES || members > MOST_MEMBERS => {
                        return Err(TooManyStates);
                    }
                    None => {
                        let number = numbers.len() as u16;
                        members += next.len();
                        numbers.insert(next.clone(), number);
                        todo.push(next);
                        number
                    }
                };
                steps.push(number);
            }
            at += 1;
        }
        let (bounds, classes) = (alphabet.bounds.clone(), alphabet.classes.clone());
        Ok(Automaton { bounds, classes, class_count: alphabet.count, steps, accepts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_model::{Path, naive_path_match};
    use proptest::prelude::*;
    use std::string::String;

    fn automaton(text: &str) -> Automaton {
        Automaton::new(&text.parse().expect(text)).expect("not too large")
    }

    fn check(text: &str, matching: &[&[u32]], others: &[&[u32]]) {
        let automaton = automaton(text);
        for (paths, expected) in [(matching, true), (others, false)] {
            for path in paths {
                let octets = Path::sequence(path).octets();
                assert_eq!(automaton.matches(&octets), expected, "{text}: {path:?}");
            }
        }
    }

    #[test]
    fn whole_paths_are_described() {
        check("", &[&[]], &[&[1]]);
        check("65001", &[&[65001]], &[&[], &[65001, 2], &[2, 65001]]);
        check("65001 .*", &[&[65001], &[65001, 2, 3]], &[&[2, 65001], &[]]);
        check(".* 3356 .*", &[&[3356], &[1, 3356], &[1, 3356, 2, 2]], &[&[1, 2], &[]]);
        check("(1 2)+", &[&[1, 2], &[1, 2, 1, 2]], &[&[1, 2, 1], &[]]);
        check(".{0,2}", &[&[], &[9], &[9, 9]], &[&[1, 2, 3]]);
        check("[64512-65534 4200000000-4294967294]", &[&[64512], &[4_294_967_294]], &[&[64511], &[u32::MAX]]);
        check("[^1]", &[&[2], &[0], &[u32::MAX]], &[&[1], &[]]);
        check("1|2 3|()", &[&[1], &[2, 3], &[]], &[&[1, 3], &[2]]);
    }

    #[test]
    fn a_set_is_each_of_its_members() {
        let set = Path(Vec::from([(2, Vec::from([1])), (AS_SET, Vec::from([5, 6]))])).octets();
        assert!(
            automaton("1 5").matches(&set)
                && automaton("1 6").matches(&set)
                && automaton("1 .").matches(&set)
        );
        assert!(!automaton("1 5 6").matches(&set) && !automaton("1 7").matches(&set));
        assert!(automaton("1 [^5]").matches(&set), "6 is not 5");
    }

    #[test]
    fn states_are_bounded() {
        let text = "(.* 1 .{10})";
        assert!(automaton(text).states() > 1000);
        assert_eq!(Automaton::new(&"(.* 1 .{20})".parse().expect("valid")), Err(TooManyStates));
        assert_eq!(Automaton::new(&"((.{255}){255}){255}".parse().expect("valid")), Err(TooManyStates));
    }

    fn expressions() -> impl Strategy<Value = String> {
        let atom = prop_oneof![
            Just(".".into()),
            (1..5u32).prop_map(|n| std::format!("{n}")),
            Just("[^1]".into()),
            Just("2-3".into()),
            Just("()".into())
        ];
        atom.prop_recursive(4, 24, 4, |inner: BoxedStrategy<String>| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 1..4)
                    .prop_map(|all| std::format!("({})", all.join(" "))),
                proptest::collection::vec(inner.clone(), 1..4)
                    .prop_map(|all| std::format!("({})", all.join("|"))),
                (inner.clone(), prop_oneof![Just("*"), Just("+"), Just("?"), Just("{2}"), Just("{1,3}")])
                    .prop_map(|(e, r)| std::format!("({e}){r}")),
            ]
        })
    }

    proptest! {
        /// The automaton agrees with a search through all ways to read the path.
        #[test]
        fn it_agrees_with_a_search(text in expressions(), path in Path::any(6)) {
            let expression: Expression = text.parse().expect("valid");
            let Ok(automaton) = Automaton::new(&expression) else { return Ok(()) };
            prop_assert_eq!(automaton.matches(&path.octets()), naive_path_match(&expression, &path), "{} {:?}", text, path);
        }

        #[test]
        fn no_octets_are_too_wild(octets in proptest::collection::vec(any::<u8>(), 0..64)) {
            automaton(".* [1-1000] .*").matches(&octets);
        }
    }
}
