//! The choice of the next step: the oldest result first, as far as the time allows.

use super::record::Record;
use super::steps::Step;
use std::time::Duration;

/// The time that a step without an earlier run needs at least.
pub const LEAST: Duration = Duration::from_secs(180);

/// Sorts steps by the dates of their last runs: steps that have never run come first, and steps of equal age keep the
/// order of the campaigns. So an interrupted campaign continues with the step after the last completed one.
pub fn oldest_first(steps: &mut [Step], record: &Record) {
    steps.sort_by_key(|step| record.last(step.campaign, &step.name).map(|run| run.date.clone()));
}

/// Returns true if a step may start: its last duration fits into the remaining time, or the step has never run and
/// [`LEAST`] remains. Every step fits without a limit.
pub fn fits(step: &Step, record: &Record, left: Option<Duration>) -> bool {
    let Some(left) = left else { return true };
    match record.last(step.campaign, &step.name) {
        Some(run) => Duration::from_secs(run.seconds) <= left,
        None => left >= LEAST,
    }
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::run;
    use super::*;

    fn names(steps: &[Step]) -> Vec<&str> {
        steps.iter().map(|step| step.name.as_str()).collect()
    }

    #[test]
    fn an_interrupted_campaign_continues() {
        let mut steps = vec![Step::named("a", "1"), Step::named("a", "2"), Step::named("b", "3")];
        let mut record = Record::default();
        oldest_first(&mut steps, &record);
        assert_eq!(names(&steps), ["1", "2", "3"], "the declared order");
        record.put(run("a", "1", "2026-01-03", 60));
        oldest_first(&mut steps, &record);
        assert_eq!(names(&steps), ["2", "3", "1"], "never run, then the rest");
        record.put(run("b", "3", "2026-01-01", 60));
        record.put(run("a", "2", "2026-01-02", 60));
        oldest_first(&mut steps, &record);
        assert_eq!(names(&steps), ["3", "2", "1"], "by age");
    }

    #[test]
    fn a_step_starts_if_its_last_duration_fits() {
        let step = Step::named("a", "1");
        let mut record = Record::default();
        assert!(fits(&step, &record, None) && fits(&step, &record, Some(LEAST)));
        assert!(!fits(&step, &record, Some(LEAST / 2)));
        record.put(run("a", "1", "2026-01-01", 60));
        assert!(fits(&step, &record, Some(Duration::from_secs(60))));
        assert!(!fits(&step, &record, Some(Duration::from_secs(59))));
        record.put(run("a", "1", "2026-01-02", 6000));
        assert!(!fits(&step, &record, Some(LEAST)) && fits(&step, &record, None));
    }
}
