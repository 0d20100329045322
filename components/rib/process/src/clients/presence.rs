//! Presence: which watched prefixes have routes, on its way to clients.

use super::Client;
use super::subscriptions::RESEND;
use crate::RibProcess;
use sluice_base::{AnyPrefix, TableId};
use sluice_process::clock;
use sluice_rib::{Input, Presence, WatcherId};
use sluice_xrl::XrlError;
use sluice_xrl::idl::rib::v1 as pb;
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

impl RibProcess {
    /// Returns the number of the last report of presence: later reports have higher ones.
    pub(crate) fn presence_number(&self) -> u64 {
        self.clients.presence_number.get()
    }

    fn watching(&self, watcher: WatcherId) -> Option<Client> {
        self.clients.known.borrow().values().find(|client| client.watcher == watcher).cloned()
    }

    /// Tells a client which watched routes came or went, again and again while the client lives and does not answer.
    pub(crate) fn tell_presence(self: &Rc<Self>, watcher: WatcherId, table: TableId, changes: Vec<Presence>) {
        let number = self.presence_number() + 1;
        self.clients.presence_number.set(number);
        let change = |p: Presence| message(p.prefix, p.except, Some(p.is_present));
        let presences = changes.into_iter().map(change).collect();
        let request = pb::PresenceChangedRequest { table: table.0, presences, number };
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move {
            while let Some(client) = me.watching(watcher) {
                match client.presence.presence_changed(request.clone()).await {
                    Ok(_) => return,
                    Err(XrlError::DeadlineExceeded | XrlError::Disconnected(_) | XrlError::NoFinder) => {
                        tokio::time::sleep(RESEND).await;
                    }
                    Err(error) => return debug!(%error, "a client did not take which routes are present"),
                }
            }
        });
    }

    /// Tells the core when every origin had the time to announce its routes: absences are told from then on.
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
