//! Actions of people that go past the manager, such as `clear` and `request`: by the Finder's word, who gave the person's
//! process the key for the method. The manager's own methods write their records themselves, with the result.

use crate::ManagerProcess;
use crate::audit::record::{Act, Who};
use sluice_manager::roles::Role;
use sluice_xrl::{Action, PeoplesActions};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The time after which the next connection of a person is a log-in again.
const FORGOTTEN: Duration = Duration::from_secs(3600);
/// The most people remembered.
const MOST: usize = 1024;

/// The people seen lately, with the time.
#[derive(Default)]
pub struct SeenLately(RefCell<BTreeMap<String, Instant>>);

impl SeenLately {
    /// Returns true if a person was not seen within the last hour.
    fn is_new(&self, principal: &str, now: Instant) -> bool {
        let mut seen = self.0.borrow_mut();
        seen.retain(|_, last| now.duration_since(*last) < FORGOTTEN);
        seen.len() < MOST && seen.insert(principal.to_owned(), now).is_none()
    }
}

impl ManagerProcess {
    /// Writes the records of what people did since the last call.
    pub(crate) async fn note_actions(&self) {
        let PeoplesActions { connected, actions, others } = self.finder.take_actions();
        for (principal, peer) in connected {
            if self.seen_lately.is_new(&principal, Instant::now()) {
                let who = Who { principal, uid: Some(peer.uid), pid: peer.pid };
                self.audit.note(who, Act::LogIn, Vec::new(), "done".into(), None).await;
            }
        }
        let reading = Role::read_only().calls;
        let is_action = |action: &Action| {
            let own = action.method.starts_with("manager");
            !own && !reading.iter().any(|pattern| sluice_xrl::matches(pattern, &action.method))
        };
        for action in actions.into_iter().filter(is_action) {
            let who = Who { principal: action.principal, uid: Some(action.uid), pid: action.pid };
            self.audit.note(who, Act::Call, vec![action.method], "allowed".into(), None).await;
        }
        if others > 0 {
            let lines = vec![format!("{others} further calls of people")];
            self.audit.note(Who::default(), Act::Call, lines, "allowed".into(), None).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_logs_in_once_an_hour() {
        let (seen, start) = (SeenLately::default(), Instant::now());
        let at = |s| start + Duration::from_secs(s);
        assert!(seen.is_new("user:ann", start));
        assert!(!seen.is_new("user:ann", at(3000)));
        assert!(seen.is_new("user:bob", at(3000)));
        assert!(!seen.is_new("user:ann", at(6000)), "the hour counts from the last connection");
        assert!(seen.is_new("user:ann", at(10_000)));
    }
}
