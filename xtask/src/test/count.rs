//! Counts of tests, from the lines of their programs.

/// Tests by their ends.
#[derive(Default)]
pub struct Count {
    pub passed: u64,
    pub failed: u64,
    pub ignored: u64,
    /// Lines with a result: a process that died has none.
    pub results: u64,
    pub failures: Vec<String>,
}

impl Count {
    /// Adds the counts of another run.
    pub fn add(&mut self, mut other: Count) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.results += other.results;
        self.failures.append(&mut other.failures);
    }

    /// Adds the counts in a line of a Rust test program.
    pub fn rust(&mut self, line: &str) {
        if let Some(rest) = line.strip_prefix("test result: ") {
            self.results += 1;
            for part in rest.split([';', '.']) {
                let mut words = part.split_whitespace();
                let Some(number) = words.next().and_then(|n| n.parse::<u64>().ok()) else { continue };
                match words.next() {
                    Some("passed") => self.passed += number,
                    Some("failed") => self.failed += number,
                    Some("ignored") => self.ignored += number,
                    _ => {}
                }
            }
        } else if let Some(test) = line.strip_prefix("test ").and_then(|l| l.strip_suffix(" ... FAILED")) {
            self.failures.push(test.to_owned());
        }
    }

    /// Adds the counts in a line of Python's unittest: `Ran 12 tests in 1.2s`, `FAILED (failures=1, errors=2)`,
    /// `OK (skipped=1)`.
    pub fn python(&mut self, line: &str) {
        let number_after = |word: &str| -> u64 {
            let digits = line.split_once(word).map(|(_, rest)| rest).unwrap_or_default();
            digits.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0)
        };
        if line.starts_with("Ran ") {
            self.passed += number_after("Ran ");
            self.results += 1;
        } else if line.starts_with("FAILED") || line.starts_with("OK") {
            let failed = number_after("failures=") + number_after("errors=");
            let skipped = number_after("skipped=");
            self.failed += failed;
            self.ignored += skipped;
            self.passed = self.passed.saturating_sub(failed + skipped);
        } else if let Some(test) = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: ")) {
            self.failures.push(test.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_of_rust_tests_are_added() {
        let mut count = Count::default();
        count.rust(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.3s",
        );
        count.rust("test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out");
        count.rust("test a::b ... FAILED");
        count.rust("test a::c ... ok");
        assert_eq!((count.passed, count.failed, count.ignored), (15, 2, 1));
        assert_eq!(count.failures, ["a::b"]);
    }

    #[test]
    fn results_of_python_tests_are_added() {
        let mut count = Count::default();
        count.python("Ran 20 tests in 3.1s");
        count.python("FAILED (failures=1, errors=2, skipped=4)");
        assert_eq!((count.passed, count.failed, count.ignored), (13, 3, 4));
        let mut count = Count::default();
        count.python("Ran 7 tests in 3.1s");
        count.python("OK");
        assert_eq!((count.passed, count.failed, count.ignored), (7, 0, 0));
    }
}
