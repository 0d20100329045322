//! Order and admission of jobs, without processes: longest first, as many as keep the processors busy.

use super::weights::Weight;
use std::collections::{BTreeMap, VecDeque};

/// Assumed share of a job without a weight.
const UNKNOWN_SHARE: f64 = 1.0;

/// Expected load of a job.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Estimate {
    /// Seconds until the end.
    wall: f64,
    /// Processors in use on average.
    share: f64,
}

impl Estimate {
    /// Returns the estimate for a measured weight. A job without a weight uses one processor, and is either long
    /// (begins before all others) or short. A job that computes uses one processor at least: a smaller measured share
    /// shows that other programs used the processors.
    pub fn new(weight: Option<Weight>, is_long_if_unknown: bool, computes: bool) -> Self {
        let unknown = if is_long_if_unknown { f64::INFINITY } else { 0.0 };
        let wall = weight.map_or(unknown, |weight| weight.wall);
        let share = weight
            .filter(|weight| weight.wall > 0.0)
            .map_or(UNKNOWN_SHARE, |weight| weight.cpu / weight.wall);
        Self { wall, share: if computes { share.max(1.0) } else { share } }
    }
}

/// Waiting and running jobs, by number.
pub struct Schedule {
    cores: f64,
    max_running: usize,
    waiting: VecDeque<(usize, f64)>,
    running: BTreeMap<usize, f64>,
}

impl Schedule {
    /// Orders the jobs; at most `max_running` of them run at a time.
    pub fn new(estimates: &[Estimate], cores: usize, max_running: usize) -> Self {
        let mut order: Vec<(usize, Estimate)> = estimates.iter().copied().enumerate().collect();
        order.sort_by(|(_, a), (_, b)| b.wall.total_cmp(&a.wall));
        Self {
            cores: cores as f64,
            max_running: max_running.max(1),
            waiting: order.into_iter().map(|(job, estimate)| (job, estimate.share)).collect(),
            running: BTreeMap::new(),
        }
    }

    /// Moves the next job from waiting to running, if the running jobs leave a part of a processor free.
    pub fn start(&mut self) -> Option<usize> {
        let busy: f64 = self.running.values().sum();
        let is_full = self.running.len() >= self.max_running || busy >= self.cores;
        if is_full && !self.running.is_empty() {
            return None;
        }
        let (job, share) = self.waiting.pop_front()?;
        self.running.insert(job, share);
        Some(job)
    }

    /// Removes an ended job.
    pub fn end(&mut self, job: usize) {
        self.running.remove(&job);
    }

    /// Returns the running jobs.
    pub fn running(&self) -> impl Iterator<Item = usize> {
        self.running.keys().copied()
    }

    /// Returns true if no job runs or waits.
    pub fn is_done(&self) -> bool {
        self.running.is_empty() && self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(wall: f64, cpu: f64) -> Estimate {
        Estimate::new(Some(Weight { wall, cpu }), true, false)
    }

    fn start_all(schedule: &mut Schedule) -> Vec<usize> {
        std::iter::from_fn(|| schedule.start()).collect()
    }

    #[test]
    fn the_longest_job_begins_and_unknown_jobs_before_it() {
        let estimates = [
            known(5.0, 1.0),
            known(50.0, 1.0),
            Estimate::new(None, true, false),
            Estimate::new(None, false, false),
            known(9.0, 1.0),
        ];
        let mut schedule = Schedule::new(&estimates, 1, 1);
        let order: Vec<usize> = std::iter::from_fn(|| {
            let job = schedule.start()?;
            schedule.end(job);
            Some(job)
        })
        .collect();
        assert_eq!(order, [2, 1, 4, 0, 3]);
        assert!(schedule.is_done());
    }

    #[test]
    fn waiting_jobs_run_many_beside_each_other_and_computing_jobs_one_a_processor() {
        let labs = [known(8.0, 2.0); 12];
        assert_eq!(start_all(&mut Schedule::new(&labs, 2, 100)).len(), 8, "shares of 0.25 fill 2 processors");
        assert_eq!(start_all(&mut Schedule::new(&labs, 2, 6)).len(), 6);
        let cores = [known(10.0, 10.0); 12];
        assert_eq!(start_all(&mut Schedule::new(&cores, 2, 8)).len(), 2);
        let slowed = [Estimate::new(Some(Weight { wall: 10.0, cpu: 2.0 }), true, true); 12];
        assert_eq!(start_all(&mut Schedule::new(&slowed, 2, 8)).len(), 2);
        let unknown = [Estimate::new(None, true, false); 12];
        assert_eq!(start_all(&mut Schedule::new(&unknown, 4, 8)).len(), 4);
    }

    #[test]
    fn an_ended_job_makes_room() {
        let mut schedule = Schedule::new(&[known(3.0, 3.0), known(2.0, 2.0), known(1.0, 1.0)], 2, 8);
        assert_eq!(start_all(&mut schedule), [0, 1]);
        schedule.end(1);
        assert_eq!(start_all(&mut schedule), [2]);
        assert_eq!(schedule.running().collect::<Vec<_>>(), [0, 2]);
        assert!(!schedule.is_done());
    }

    #[test]
    fn a_job_of_many_processors_still_begins() {
        let mut schedule = Schedule::new(&[known(3.0, 30.0), known(2.0, 20.0)], 2, 0);
        assert_eq!(start_all(&mut schedule), [0]);
        schedule.end(0);
        assert_eq!(start_all(&mut schedule), [1]);
    }
}
