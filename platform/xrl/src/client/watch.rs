//! Births and deaths, from a component's view.

use super::endpoint::{Inner, XrlEndpoint};
use super::link::{self, ask};
use super::lives::WatchState;
use crate::finder::life::LifeEvent;
use crate::finder::records::Subject;
use crate::idl::finder::v1 as wire;
use crate::wire::error::XrlError;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tracing::debug;

/// The time between two requests to watch an instance.
const AGAIN: Duration = Duration::from_secs(1);

/// Reports the births and deaths of a class or an instance, beginning with the births of the live instances.
pub struct LifeWatch {
    pub(crate) state: Rc<WatchState>,
    pub(crate) endpoint: Weak<Inner>,
}

impl LifeWatch {
    /// Waits for the next event. `None` when the endpoint is gone.
    pub async fn next(&mut self) -> Option<LifeEvent> {
        loop {
            if let Some(event) = self.state.queue.borrow_mut().pop() {
                return Some(event);
            }
            if self.state.ended.get() {
                return None;
            }
            self.state.notify.notified().await;
        }
    }
}

impl Drop for LifeWatch {
    /// Ends the watch at the Finder, which bounds the watches of a process.
    fn drop(&mut self) {
        if let Some(endpoint) = self.endpoint.upgrade() {
            endpoint.unwatch(&self.state);
        }
    }
}

impl XrlEndpoint {
    /// Watches the instances of a class.
    pub async fn watch_class(&self, class: &str) -> Result<LifeWatch, XrlError> {
        self.watch(Subject::Class(class.to_owned())).await
    }

    /// Watches a single instance.
    pub async fn watch_instance(&self, instance: &str) -> Result<LifeWatch, XrlError> {
        self.watch(Subject::Instance(instance.to_owned())).await
    }

    /// Waits for the death of an instance, or of this endpoint. A Finder that does not answer is asked again: its silence is no death.
    pub async fn until_death(&self, instance: &str) {
        loop {
            match self.watch_instance(instance).await {
                Ok(mut lives) => {
                    while let Some(event) = lives.next().await {
                        if matches!(event, LifeEvent::Death(_)) {
                            return;
                        }
                    }
                    return;
                }
                Err(error) => debug!(%error, instance, "the end of an instance is not watched yet"),
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    async fn watch(&self, subject: Subject) -> Result<LifeWatch, XrlError> {
        let connection = self.0.link().await?;
        let state = WatchState::new(subject);
        {
            let mut watches = self.0.watches.borrow_mut();
            watches.retain(|w| w.strong_count() > 0);
            watches.push(Rc::downgrade(&state));
        }
        let _watching: wire::WatchReply = ask(&connection, "Watch", &state.request()).await?;
        Ok(LifeWatch { state, endpoint: Rc::downgrade(&self.0) })
    }
}

impl Inner {
    /// Ends a watch at the Finder, unless another one of this process has the same subject. Nobody waits for the answer.
    pub(crate) fn unwatch(&self, state: &Rc<WatchState>) {
        let mut watches = self.watches.borrow_mut();
        watches.retain(|w| w.upgrade().is_some_and(|w| !Rc::ptr_eq(&w, state)));
        let is_shared = watches.iter().filter_map(Weak::upgrade).any(|w| w.subject == state.subject);
        if let (false, Ok(connection)) = (is_shared, self.current_link()) {
            link::send_only(&connection, "Unwatch", &state.request());
        }
    }
}
