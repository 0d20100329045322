//! The record that tests write about themselves: skipped tests, and long tests that did not run.

use std::collections::BTreeMap;

/// Environment variable with the file for the record (`sluice-testkit` appends to the file).
pub const VARIABLE: &str = "SLUICE_RECORD";

/// Skipped tests with their reasons, and long tests with their campaigns.
#[derive(Default, PartialEq, Eq, Debug)]
pub struct Record {
    pub skipped: BTreeMap<String, String>,
    pub long: BTreeMap<String, String>,
}

impl Record {
    /// Reads the lines `skipped<TAB>NAME: REASON` and `long<TAB>NAME<TAB>CAMPAIGN`. A test that is skipped in several
    /// parts is recorded once, with all reasons. An unknown line counts as a skipped test: an uncounted line would be a
    /// success.
    pub fn parse(text: &str) -> Self {
        let mut record = Self::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some((test, campaign)) = line.strip_prefix("long\t").and_then(|rest| rest.split_once('\t'))
            {
                record.long.insert(test.to_owned(), campaign.to_owned());
                continue;
            }
            let rest = line.strip_prefix("skipped\t").unwrap_or(line);
            let (test, reason) = rest.split_once(": ").unwrap_or((rest, ""));
            let reasons = record.skipped.entry(test.to_owned()).or_default();
            if !reasons.split("; ").any(|known| known == reason) {
                if !reasons.is_empty() {
                    reasons.push_str("; ");
                }
                reasons.push_str(reason);
            }
        }
        record
    }

    /// Returns the number of tests that returned early and are not among `failures`. Their program counts each of them
    /// as passed.
    pub fn not_run(&self, failures: &[String]) -> u64 {
        let names: std::collections::BTreeSet<&String> =
            self.skipped.keys().chain(self.long.keys()).collect();
        names.into_iter().filter(|name| !failures.contains(name)).count() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_and_long_tests_are_counted_apart() {
        let text = "skipped\ta::b: no BIRD here: sorry\nlong\tc::d\tkills at full table\n\nskipped\ta::b: no FRR\n\
                    skipped\ta::b: no FRR\nodd\n";
        let record = Record::parse(text);
        let skipped: Vec<_> = record.skipped.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(skipped, [("a::b", "no BIRD here: sorry; no FRR"), ("odd", "")]);
        assert_eq!(record.long["c::d"], "kills at full table");
        assert_eq!(record.not_run(&[]), 3);
        assert_eq!(record.not_run(&["a::b".into()]), 2, "a failed test was not counted as passed");
    }
}
