//! Remarkable UPDATEs of one session. Only the first UPDATE of a kind within a window of time is reported with its octets; the
//! rest is counted in the intake, so a flood of such UPDATEs neither slows the session nor fills the log.

use crate::attributes::AttributeError;
use crate::event::PeerEvent;
use crate::family::ByFamily;
use crate::reader::Remarks;
use alloc::vec::Vec;
use sluice_base::{Duration, Instant};

/// The time for which UPDATEs of a kind are counted before the next report.
const WINDOW: Duration = Duration::from_secs(10);
/// Kinds that are distinguished within a window; UPDATEs of further kinds are counted together.
const MOST_KINDS: usize = 16;

/// Malformed UPDATEs of a kind in the current window: the first was reported, the rest counted.
#[derive(Debug)]
struct Counted {
    error: AttributeError,
    withdrawn: bool,
    suppressed: u64,
}

/// The remarkable UPDATEs of a session.
#[derive(Debug, Default)]
pub(super) struct Remarkable {
    kinds: Vec<Counted>,
    /// UPDATEs of kinds that are not distinguished.
    others: u64,
    /// The beginning of the window; `None` without an open window.
    since: Option<Instant>,
    /// Families whose End-of-RIB marker was reported.
    ended: ByFamily<bool>,
}

impl Remarkable {
    /// Returns the event to report for an UPDATE; `None` for a counted UPDATE.
    pub fn event(&mut self, remarks: &Remarks, body: &[u8]) -> Option<PeerEvent> {
        if let Some((error, withdrawn)) = remarks.malformed {
            return self.is_first(error, withdrawn).then(|| PeerEvent::Malformed {
                error,
                withdrawn,
                update: body.to_vec(),
            });
        }
        let family = remarks.end_of_rib?;
        let is_first = !core::mem::replace(&mut self.ended[family], true);
        is_first.then_some(PeerEvent::EndOfRib(family))
    }

    fn is_first(&mut self, error: AttributeError, withdrawn: bool) -> bool {
        let known = self.kinds.iter_mut().find(|kind| (kind.error, kind.withdrawn) == (error, withdrawn));
        if let Some(kind) = known {
            kind.suppressed += 1;
            return false;
        }
        let is_distinct = self.kinds.len() < MOST_KINDS;
        if is_distinct {
            self.kinds.push(Counted { error, withdrawn, suppressed: 0 });
        } else {
            self.others += 1;
        }
        is_distinct
    }

    /// Returns true if a window is open.
    pub fn counts(&self) -> bool {
        !self.kinds.is_empty()
    }

    /// Begins the window at the first call after the first UPDATE; after its time, ends the window and reports the counts.
    pub fn look(&mut self, now: Instant) -> Vec<PeerEvent> {
        if self.kinds.is_empty() {
            return Vec::new();
        }
        let since = *self.since.get_or_insert(now);
        if now.saturating_since(since) < WINDOW {
            return Vec::new();
        }
        self.drain()
    }

    /// Ends the window and reports the counts.
    pub fn drain(&mut self) -> Vec<PeerEvent> {
        self.since = None;
        let others = core::mem::take(&mut self.others);
        let counted = self.kinds.drain(..).filter(|kind| kind.suppressed > 0);
        let mut events: Vec<PeerEvent> = counted
            .map(|kind| PeerEvent::MoreMalformed {
                of: Some((kind.error, kind.withdrawn)),
                count: kind.suppressed,
            })
            .collect();
        if others > 0 {
            events.push(PeerEvent::MoreMalformed { of: None, count: others });
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::Problem;
    use crate::family::FamilyIndex;

    fn malformed(code: u8) -> Remarks {
        let error = AttributeError { code, problem: Problem::Value };
        Remarks { malformed: Some((error, false)), end_of_rib: None }
    }

    #[test]
    fn the_first_of_a_kind_is_reported_and_the_others_are_counted() {
        let mut remarkable = Remarkable::default();
        let begin = Instant::ZERO + Duration::from_secs(5);
        let reported = (0..1000).filter(|_| remarkable.event(&malformed(5), &[1]).is_some()).count();
        assert_eq!(reported, 1);
        assert!(remarkable.event(&malformed(9), &[1]).is_some(), "another kind");
        assert!(remarkable.look(begin).is_empty());
        assert!(remarkable.look(begin + WINDOW / 2).is_empty());
        let error = AttributeError { code: 5, problem: Problem::Value };
        let more = PeerEvent::MoreMalformed { of: Some((error, false)), count: 999 };
        assert_eq!(remarkable.look(begin + WINDOW), [more]);
        assert!(!remarkable.counts());
        assert!(remarkable.event(&malformed(5), &[1]).is_some(), "a new window");
    }

    #[test]
    fn kinds_have_an_end_and_so_have_end_of_rib_markers() {
        let mut remarkable = Remarkable::default();
        let reported = (0..=255).filter(|code| remarkable.event(&malformed(*code), &[]).is_some()).count();
        assert_eq!(reported, MOST_KINDS);
        let others = PeerEvent::MoreMalformed { of: None, count: 256 - MOST_KINDS as u64 };
        assert_eq!(remarkable.drain(), [others]);
        let marker = Remarks { malformed: None, end_of_rib: Some(FamilyIndex::IPV6) };
        assert_eq!(remarkable.event(&marker, &[]), Some(PeerEvent::EndOfRib(FamilyIndex::IPV6)));
        assert_eq!(remarkable.event(&marker, &[]), None);
    }
}
