//! Presence: which watched prefixes have routes, on its way to clients.

use super::Client;
use super::subscriptions::RESEND;
use crate::RibProcess;
use sluice_base::{AnyPrefix, IpPrefix, TableId};
use sluice_process::clock;
use sluice_rib::{Input, Presence, WatcherId};
use sluice_xrl::XrlError;
use sluice_xrl::idl::rib::v1 as pb;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tracing::debug;

/// Returns the state of a watched prefix as a message; `None`: not known yet.
pub fn message(prefix: AnyPrefix, except: Option<String>, is_present: Option<bool>) -> pb::Presence {
    pb::Presence {
        net: Some(prefix.into()),
        except_origin: except.unwrap_or_default(),
        present: is_present == Some(true),
        unknown: is_present.is_none(),
    }
}

/// A watched prefix: the table, the prefix, and the origin whose routes do not count.
type Watched = (TableId, AnyPrefix, Option<String>);

/// The changes that clients have not taken yet: the newest state of each watched prefix, so that a client that does not answer costs
/// no more than its watches.
#[derive(Default)]
pub struct UnsentStates {
    /// A watcher with an entry has a task that sends.
    states: RefCell<BTreeMap<WatcherId, BTreeMap<Watched, bool>>>,
    /// The number of the last report or reply.
    number: Cell<u64>,
}

impl UnsentStates {
    /// Returns the number of the next report or reply: of two, the later one has the higher number.
    fn next_number(&self) -> u64 {
        self.number.set(self.number.get() + 1);
        self.number.get()
    }

    /// Takes changes. Returns true if the watcher has no task yet.
    fn add(&self, watcher: WatcherId, table: TableId, changes: Vec<Presence>) -> bool {
        let mut states = self.states.borrow_mut();
        let is_first = !states.contains_key(&watcher);
        let changes = changes.into_iter().map(|p| ((table, p.prefix, p.except), p.is_present));
        states.entry(watcher).or_default().extend(changes);
        is_first
    }

    /// Returns a report of the states of one table; `None` if the watcher was sent all.
    fn report(&self, watcher: WatcherId) -> Option<pb::PresenceChangedRequest> {
        let states = self.states.borrow();
        let states = states.get(&watcher)?;
        let ((table, ..), _) = states.first_key_value()?;
        let of_table = states.iter().filter(|((of, ..), _)| of == table);
        let presences = of_table
            .map(|((_, prefix, except), is_present)| message(*prefix, except.clone(), Some(*is_present)));
        let presences = presences.collect();
        Some(pb::PresenceChangedRequest { table: table.0, presences, number: self.next_number() })
    }

    /// Notes that a watcher knows states, unless they changed meanwhile.
    fn mark_sent(&self, watcher: WatcherId, report: &pb::PresenceChangedRequest) {
        let mut states = self.states.borrow_mut();
        let Some(states) = states.get_mut(&watcher) else { return };
        let table = TableId(report.table);
        for presence in &report.presences {
            let Some(Ok(prefix)) = presence.net.as_ref().map(AnyPrefix::try_from) else { continue };
            let except = (!presence.except_origin.is_empty()).then(|| presence.except_origin.clone());
            let watched = (table, prefix, except);
            if states.get(&watched) == Some(&presence.present) {
                states.remove(&watched);
            }
        }
    }
}

impl RibProcess {
    /// Returns the number of a reply to a watcher that asks about prefixes, which receives no older state of them.
    pub(crate) fn answer_presence(
        &self,
        watcher: WatcherId,
        table: TableId,
        prefixes: &[IpPrefix],
        except: Option<&str>,
    ) -> u64 {
        let unsent = &self.clients.unsent;
        if let Some(states) = unsent.states.borrow_mut().get_mut(&watcher) {
            for prefix in prefixes {
                states.remove(&(table, AnyPrefix::from(*prefix), except.map(String::from)));
            }
        }
        unsent.next_number()
    }

    fn watching(&self, watcher: WatcherId) -> Option<Client> {
        self.clients.known.borrow().values().find(|client| client.watcher == watcher).cloned()
    }

    /// Notifies a client which watched routes came or went, a call at a time, while the client lives.
    pub(crate) fn send_presence(self: &Rc<Self>, watcher: WatcherId, table: TableId, changes: Vec<Presence>) {
        if !self.clients.unsent.add(watcher, table, changes) {
            return;
        }
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let unsent = &me.clients.unsent;
            while let (Some(client), Some(report)) = (me.watching(watcher), unsent.report(watcher)) {
                match client.presence.presence_changed(report.clone()).await {
                    Ok(_) => unsent.mark_sent(watcher, &report),
                    Err(XrlError::DeadlineExceeded | XrlError::Disconnected(_) | XrlError::NoFinder) => {
                        tokio::time::sleep(RESEND).await;
                    }
                    Err(error) => {
                        debug!(%error, "a client did not take which routes are present");
                        break;
                    }
                }
            }
            unsent.states.borrow_mut().remove(&watcher);
        });
    }

    /// Notifies the core when every origin had the time to announce its routes: absences are reported from then on.
    pub(crate) fn await_origins(self: &Rc<Self>) {
        if self.clients.awaits_origins.replace(true) {
            return;
        }
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move {
            loop {
                let wait = me.clients.wake.notified();
                let complete_at = me.fib.complete_at(me.clients.are_all_refreshed());
                if clock::now() >= complete_at {
                    return me.input(Input::OriginsKnown);
                }
                tokio::select! {
                    () = wait => {}
                    () = tokio::time::sleep_until(clock::to_tokio(complete_at)) => {}
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_that_does_not_answer_receives_the_newest_states() {
        let (unsent, watcher) = (UnsentStates::default(), WatcherId(1));
        let net: IpPrefix = "192.0.2.0/24".parse().unwrap();
        let change = |is_present| vec![Presence { prefix: net.into(), except: None, is_present }];
        assert!(unsent.add(watcher, TableId::MAIN, change(true)));
        let first = unsent.report(watcher).unwrap();
        // Many changes meanwhile are one, and are sent by the same task.
        for is_present in [false, true, false] {
            assert!(!unsent.add(watcher, TableId::MAIN, change(is_present)));
        }
        unsent.mark_sent(watcher, &first);
        let second = unsent.report(watcher).unwrap();
        assert!(second.number > first.number && second.presences.len() == 1 && !second.presences[0].present);
        unsent.mark_sent(watcher, &second);
        assert_eq!(unsent.report(watcher), None);
    }
}
