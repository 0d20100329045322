//! Counts of caught bugs by judge, from the record.

use super::record::Record;
use std::collections::BTreeMap;

/// The campaign of the seeded bugs.
pub const CAMPAIGN: &str = "seeded bugs";

/// Caught bugs of a judge.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Caught {
    /// The caught bugs.
    pub caught: u64,
    /// All bugs that were judged.
    pub of: u64,
}

impl Caught {
    /// Returns the share in percent.
    pub fn share(self) -> f64 {
        100.0 * self.caught as f64 / self.of.max(1) as f64
    }
}

/// Adds up the recorded steps of each judge: the first word of a step is the judge.
pub fn by_judge(record: &Record) -> BTreeMap<String, Caught> {
    let mut all: BTreeMap<String, Caught> = BTreeMap::new();
    for run in record.runs().filter(|run| run.campaign == CAMPAIGN) {
        let (Some(caught), Some(of)) = (run.caught, run.of) else { continue };
        let judge = run.step.split(' ').next().unwrap_or_default().to_owned();
        let sum = all.entry(judge).or_default();
        (sum.caught, sum.of) = (sum.caught + caught, sum.of + of);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::super::campaigns::named;
    use super::super::record::tests::run;
    use super::*;

    #[test]
    fn the_steps_of_a_judge_are_added() {
        assert!(named(CAMPAIGN).is_some());
        let mut record = Record::default();
        for (step, caught) in [("rib 1 to 12", Some(11)), ("rib 13 to 24", Some(12)), ("fea 1 to 12", None)] {
            let mut run = run(CAMPAIGN, step, "2026-01-01", 1);
            (run.caught, run.of) = (caught, caught.map(|_| 12));
            record.put(run);
        }
        record.put(run("fuzz", "rib", "2026-01-01", 1));
        let all = by_judge(&record);
        assert_eq!(all.len(), 1);
        assert_eq!(all["rib"], Caught { caught: 23, of: 24 });
        assert!((all["rib"].share() - 95.8).abs() < 0.1);
    }
}
