//! The parts of a component's state, their versions, and the agreement of two processes about them.

use serde::{Deserialize, Serialize};
use std::fmt;
use thiserror::Error;

/// Versions of a part, from the oldest to the newest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Versions {
    /// The oldest version.
    pub oldest: u16,
    /// The newest version, at least the oldest.
    pub newest: u16,
}

impl Versions {
    /// The versions from `oldest` to `newest`.
    pub const fn new(oldest: u16, newest: u16) -> Self {
        Versions { oldest, newest }
    }

    /// One version.
    pub const fn only(version: u16) -> Self {
        Versions { oldest: version, newest: version }
    }

    /// Returns the newest version in both; `None` if there is none.
    fn newest_common(self, other: Self) -> Option<u16> {
        let newest = self.newest.min(other.newest);
        (newest >= self.oldest && newest >= other.oldest).then_some(newest)
    }
}

impl fmt::Display for Versions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.oldest == self.newest {
            true => write!(f, "version {}", self.newest),
            false => write!(f, "versions {} to {}", self.oldest, self.newest),
        }
    }
}

/// What is lost with a part in an old version.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loss {
    /// The oldest version with everything: an older one has less.
    pub whole_since: u16,
    /// What an older version has not, as a sentence for the operator: "flap histories are dropped".
    pub text: &'static str,
}

/// A part of a component's state: a section of a hand-over with a version of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatePart {
    /// The name, with the component's class before a period: `bgp.paths`.
    pub name: &'static str,
    /// The versions that the component writes.
    pub writes: Versions,
    /// The versions that the component reads.
    pub reads: Versions,
    /// True if the component does not hand over, or take over, without the part.
    pub is_required: bool,
    /// What an older version has not.
    pub losses: &'static [Loss],
}

impl StatePart {
    /// A required part that is written and read in `versions`.
    pub const fn new(name: &'static str, versions: Versions) -> Self {
        StatePart { name, writes: versions, reads: versions, is_required: true, losses: &[] }
    }

    /// The same part, which the other process need not know.
    #[must_use]
    pub const fn optional(self) -> Self {
        StatePart { is_required: false, ..self }
    }

    /// The same part with what is lost by older versions.
    #[must_use]
    pub const fn losing(self, losses: &'static [Loss]) -> Self {
        StatePart { losses, ..self }
    }
}

/// The abilities of a process for a part, as they are sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PartAbilities {
    name: String,
    writes: Versions,
    reads: Versions,
    is_required: bool,
}

/// The abilities of a process, as they are sent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Abilities {
    /// The version of the program.
    pub program: String,
    parts: Vec<PartAbilities>,
}

impl Abilities {
    /// The abilities of this program for the given parts.
    pub fn of<'p>(parts: impl IntoIterator<Item = &'p StatePart>) -> Self {
        let part = |part: &StatePart| PartAbilities {
            name: part.name.into(),
            writes: part.writes,
            reads: part.reads,
            is_required: part.is_required,
        };
        Abilities { program: env!("CARGO_PKG_VERSION").into(), parts: parts.into_iter().map(part).collect() }
    }

    fn part(&self, name: &str) -> Option<&PartAbilities> {
        self.parts.iter().find(|part| part.name == name)
    }

    /// Returns the parts that a process with these abilities hands over to `next`, in order, each in the newest version that both
    /// know.
    ///
    /// # Errors
    /// A required part is unknown to the other process, or has no version that both know.
    pub fn agree(&self, next: &Abilities) -> Result<Vec<AgreedPart>, Disagreement> {
        let missing = next.parts.iter().find(|part| part.is_required && self.part(&part.name).is_none());
        if let Some(part) = missing {
            return Err(Disagreement::NotWritten(part.name.clone()));
        }
        let mut agreed = Vec::new();
        for part in &self.parts {
            match next.part(&part.name) {
                None if part.is_required => return Err(Disagreement::NotRead(part.name.clone())),
                None => {}
                Some(reader) => match part.writes.newest_common(reader.reads) {
                    Some(version) => agreed.push(AgreedPart { name: part.name.clone(), version }),
                    None if !part.is_required && !reader.is_required => {}
                    None => {
                        return Err(Disagreement::NoCommonVersion {
                            name: part.name.clone(),
                            writes: part.writes,
                            reads: reader.reads,
                        });
                    }
                },
            }
        }
        Ok(agreed)
    }
}

/// A part as two processes have agreed on it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct AgreedPart {
    /// The part's name.
    pub name: String,
    /// The version in which the part is handed over.
    pub version: u16,
}

/// Returns what is lost by the versions of a hand-over: a sentence for each loss.
pub fn losses<'p>(parts: impl IntoIterator<Item = &'p StatePart>, agreed: &[AgreedPart]) -> Vec<String> {
    let lost = |part: &StatePart| -> Vec<String> {
        let version = agreed.iter().find(|known| known.name == part.name).map_or(0, |known| known.version);
        let lost = part.losses.iter().filter(|loss| version < loss.whole_since);
        lost.map(|loss| loss.text.to_owned()).collect()
    };
    parts.into_iter().flat_map(lost).collect()
}

/// The reason why two processes cannot agree.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Disagreement {
    /// The new process does not know a part that must not be lost.
    #[error("the new process does not know the part {0} of the state")]
    NotRead(String),
    /// The old process has not what the new process needs.
    #[error("the new process needs the part {0} of the state, which this process does not hand over")]
    NotWritten(String),
    /// There is no version that the old process writes and the new process reads.
    #[error("the part {name} of the state: this process writes {writes}, the new process reads {reads}")]
    NoCommonVersion {
        /// The part's name.
        name: String,
        /// What the old process writes.
        writes: Versions,
        /// What the new process reads.
        reads: Versions,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PATHS: StatePart = StatePart::new("bgp.paths", Versions::new(2, 4));
    const HISTORIES: StatePart = StatePart::new("bgp.histories", Versions::only(1)).optional();

    fn agreed(parts: &[(&str, u16)]) -> Vec<AgreedPart> {
        parts.iter().map(|(name, version)| AgreedPart { name: (*name).into(), version: *version }).collect()
    }

    #[test]
    fn the_newest_version_that_both_know_is_handed_over() {
        let own = Abilities::of(&[PATHS, HISTORIES]);
        assert_eq!(own.agree(&own), Ok(agreed(&[("bgp.paths", 4), ("bgp.histories", 1)])));
        let older = StatePart { reads: Versions::new(1, 3), ..PATHS };
        assert_eq!(own.agree(&Abilities::of(&[older])), Ok(agreed(&[("bgp.paths", 3)])));
    }

    #[test]
    fn a_disagreement_names_the_part_and_both_ranges() {
        let own = Abilities::of(&[PATHS]);
        let far = StatePart { reads: Versions::new(5, 7), ..PATHS };
        let error = own.agree(&Abilities::of(&[far])).expect_err("no common version").to_string();
        assert!(
            error.contains("bgp.paths") && error.contains("2 to 4") && error.contains("5 to 7"),
            "{error}"
        );
        assert_eq!(own.agree(&Abilities::of(&[])), Err(Disagreement::NotRead("bgp.paths".into())));
        let more = StatePart::new("bgp.more", Versions::only(1));
        let wanted = Abilities::of(&[PATHS, more]);
        assert_eq!(own.agree(&wanted), Err(Disagreement::NotWritten("bgp.more".into())));
    }

    #[test]
    fn losses_are_those_of_older_versions_and_of_parts_that_are_left_out() {
        const PART: StatePart = PATHS.losing(&[Loss { whole_since: 4, text: "marks are dropped" }]);
        assert_eq!(losses([&PART], &agreed(&[("bgp.paths", 4)])), Vec::<String>::new());
        assert_eq!(losses([&PART], &agreed(&[("bgp.paths", 3)])), ["marks are dropped"]);
        assert_eq!(losses([&PART], &[]), ["marks are dropped"]);
    }

    proptest! {
        /// Whatever versions two processes have, what they agree on is written by one and read by the other, and nothing newer is.
        #[test]
        fn an_agreement_is_the_best_one(writes in (0..6_u16, 0..6_u16), reads in (0..6_u16, 0..6_u16)) {
            let range = |(a, more): (u16, u16)| Versions::new(a, a + more);
            let (writes, reads) = (range(writes), range(reads));
            let part = |writes, reads| Abilities::of(&[StatePart { writes, reads, ..PATHS }]);
            let within = |version: u16| {
                [writes, reads].iter().all(|range| (range.oldest..=range.newest).contains(&version))
            };
            let best = (0..12).rev().find(|version| within(*version));
            let found = part(writes, writes).agree(&part(reads, reads));
            prop_assert_eq!(found.ok().map(|parts| parts[0].version), best);
        }
    }
}
