//! The ends of sessions and of attempts to open one: the end shown to operators, and the reported ends of attempts.

pub(super) use crate::event::down::DownReason;
use crate::state::State;
use crate::wire::Notification;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{Duration, Instant};

/// The time for which an attempt without a reason does not replace a specific reason: the longest rest of many speakers, which
/// meanwhile close connections without a message.
const REASON_VALIDITY: Duration = Duration::from_secs(120);
/// The time without a second report of a reason, after the first report; each further report doubles the time.
const FIRST_SILENCE: Duration = Duration::from_secs(60);
/// The longest such time.
const LONGEST_SILENCE: Duration = Duration::from_secs(3600);
/// The most remembered reported reasons. While every remembered reason is silent, no further reason is reported.
const MOST_REASONS: usize = 8;

/// The end of an established session.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SessionEnd {
    /// The time of the end.
    pub at: Instant,
    /// The reason.
    pub reason: DownReason,
    /// The time for which the session was established.
    pub lasted: Duration,
}

/// The ends of a session and of attempts to open the session.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Ends {
    /// Time and reason of the last end, of the session or of an attempt.
    pub last: Option<(Instant, DownReason)>,
    /// The last end of the established session.
    pub session: Option<SessionEnd>,
    reported: Vec<Report>,
}

/// A reported reason, reduced to the part for recognition.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Report {
    reason: DownReason,
    due: Instant,
    silence: Duration,
}

impl Ends {
    /// Imports the ends known to the previous process.
    pub fn resumed(last: Option<(Instant, DownReason)>, session: Option<SessionEnd>) -> Self {
        Ends { last, session, reported: Vec::new() }
    }

    /// Notes the end of a connection in state `was`. `since` is the time at which the session was established. Returns the reason if an
    /// attempt failed and no known reason is more specific.
    pub fn note(
        &mut self,
        now: Instant,
        was: State,
        since: Option<Instant>,
        reason: DownReason,
    ) -> Option<DownReason> {
        if reason.is_collision() {
            return None;
        }
        if was == State::Established {
            let lasted = now.saturating_since(since.unwrap_or(now));
            self.session = Some(SessionEnd { at: now, reason: reason.clone(), lasted });
            self.last = Some((now, reason));
            return None;
        }
        if reason.is_own_cease() {
            // This router ends the attempt to begin another one, or none: what is known of attempts before holds no longer.
            self.last = None;
            return None;
        }
        let is_hidden = reason == DownReason::ConnectionLost && self.has_specific_reason(now);
        if is_hidden {
            return None;
        }
        self.last = Some((now, reason.clone()));
        Some(reason)
    }

    /// Returns true if the last end has a specific reason, and is recent.
    fn has_specific_reason(&self, now: Instant) -> bool {
        self.last
            .as_ref()
            .is_some_and(|(at, known)| known.is_specific() && now.saturating_since(*at) < REASON_VALIDITY)
    }

    /// Forgets the reports: the session is up, or an operator wants a new attempt.
    pub(crate) fn forget_reports(&mut self) {
        self.reported.clear();
    }

    /// Returns true if a failed attempt is to be reported: the reason is new, or the silent time is over.
    pub(crate) fn is_report_due(&mut self, now: Instant, reason: &DownReason) -> bool {
        let reason = recognized(reason);
        if let Some(report) = self.reported.iter_mut().find(|report| report.reason == reason) {
            let is_due = report.due <= now;
            if is_due {
                report.silence = (report.silence * 2).min(LONGEST_SILENCE);
                report.due = now + report.silence;
            }
            return is_due;
        }
        if self.reported.len() >= MOST_REASONS {
            let Some(place) = self.reported.iter().position(|report| report.due <= now) else { return false };
            self.reported.swap_remove(place);
        }
        self.reported.push(Report { reason, due: now + FIRST_SILENCE, silence: FIRST_SILENCE });
        true
    }
}

/// Returns the part of a reason for recognition: the data of a NOTIFICATION may differ each time.
fn recognized(reason: &DownReason) -> DownReason {
    let without_data = |n: &Notification| Notification::new(n.code, n.subcode);
    match reason {
        DownReason::Sent(n) => DownReason::Sent(without_data(n)),
        DownReason::Received(n) => DownReason::Received(without_data(n)),
        reason => reason.clone(),
    }
}
