//! The audit of the fast path: a cycle over all words of the tables and the ports' entries in less than a second.
//!
//! A cycle runs in slices, between which the process does its work. A word is therefore compared at least once a second, unless
//! the process has no time: the audit takes at most half of it.

use crate::FeaProcess;
use sluice_fea::xdp::{Area, Auditor};
use std::rc::Rc;
use std::time::Duration;
use tokio::time::{Instant, sleep};
use tracing::warn;

/// The time from the begin of a cycle to the begin of the next.
const PERIOD: Duration = Duration::from_millis(900);

/// The words that are compared in a slice: about a millisecond.
pub(super) const SLICE: usize = 1 << 17;

/// The audit's state and counts.
#[derive(Debug, Default)]
pub(super) struct Audit {
    /// The audit of the tables.
    pub(super) tables: Auditor,
    /// Entries of ports that were mended.
    pub(super) ports: u64,
    /// The first entry of a port that was mended since the last report.
    pub(super) port: Option<String>,
    reported: u64,
}

impl Audit {
    /// Returns the mended words by the names of areas, and the mended entries of ports.
    pub(super) fn mended(&self) -> impl Iterator<Item = (String, u64)> {
        let areas = Area::ALL.into_iter().map(|area| (area.to_string(), self.tables.mended(area)));
        areas.chain([("ports".to_owned(), self.ports)])
    }

    /// Logs the damage since the last report, as one event.
    pub(super) fn report(&mut self) {
        let total: u64 = self.mended().map(|(_, count)| count).sum();
        let new = total - std::mem::replace(&mut self.reported, total);
        let words = self.tables.take_mends();
        let port = self.port.take();
        if new == 0 {
            return;
        }
        let first = words.first().map(ToString::to_string).or(port).unwrap_or_default();
        warn!(
            event = "forwarding.mended",
            words = new,
            first,
            "{new} damaged words of the fast path's maps are mended; the first: {first}"
        );
    }
}

/// Audits the running fast path, for ever.
pub(crate) async fn run(process: Rc<FeaProcess>) {
    loop {
        let begin = Instant::now();
        while process.fast_path.audit_slice() {
            tokio::task::yield_now().await;
        }
        let taken = begin.elapsed();
        sleep(PERIOD.saturating_sub(taken).max(taken)).await;
    }
}
