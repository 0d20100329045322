//! Subscribers: components with validated routes, notified of each epoch.

use crate::idl::rpki::v1 as pb;
use crate::{RpkiProcess, Served};
use sluice_xrl::{CallContext, XrlError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::task::AbortHandle;
use tracing::debug;

/// The most subscribers.
const MOST: usize = 64;

/// The longest wait for subscribers at the end of the process.
const NOTIFIED_WITHIN: Duration = Duration::from_secs(2);

/// A validating component.
struct Subscriber {
    client: pb::VrpSubscriberClient,
    watch: AbortHandle,
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// The subscribers by target.
#[derive(Default)]
pub struct Subscribers(RefCell<BTreeMap<String, Subscriber>>);

impl Subscribers {
    /// Returns the number of subscribers.
    pub fn len(&self) -> usize {
        self.0.borrow().len()
    }

    /// Notifies subscribers of a new epoch. A subscriber out of reach asks after a while.
    pub fn notify(&self) {
        for subscriber in self.0.borrow().values() {
            let call = subscriber.client.epoch_changed(pb::EpochChangedRequest::default());
            tokio::task::spawn_local(async move {
                if let Err(error) = call.await {
                    debug!(%error, "a subscriber was not notified of an epoch");
                }
            });
        }
    }

    /// Notifies subscribers of the end of the data, and waits for the replies.
    pub async fn notified(&self) {
        let calls: Vec<_> = {
            let subscribers = self.0.borrow();
            let notify = |s: &Subscriber| s.client.epoch_changed(pb::EpochChangedRequest::default());
            subscribers.values().map(notify).collect()
        };
        let all = async {
            for call in calls {
                let _ = call.await;
            }
        };
        let _ = tokio::time::timeout(NOTIFIED_WITHIN, all).await;
    }
}

/// Waits for the end of a subscriber, and removes the subscriber.
async fn watch(process: Weak<RpkiProcess>, target: String) {
    let Some(router) = process.upgrade().map(|process| process.frame.router.clone()) else { return };
    router.until_death(&target).await;
    if let Some(process) = process.upgrade() {
        // The drop ends this task where it waits next: here.
        process.subscribers.0.borrow_mut().remove(&target);
    }
}

impl Served {
    /// Adds or replaces a subscriber.
    pub(crate) async fn add_subscriber(&self, ctx: &CallContext, target: String) -> Result<(), XrlError> {
        if self.frame.router.registrant(&target).await? != ctx.principal {
            let why = format!("{target} is no target of {}", ctx.principal);
            self.frame.router.report_refusal(ctx, &why);
            return Err(XrlError::AccessDenied(why));
        }
        let mut all = self.subscribers.0.borrow_mut();
        if all.len() >= MOST && !all.contains_key(&target) {
            return Err(XrlError::Busy(format!("there are {MOST} subscribers already")));
        }
        let watch = tokio::task::spawn_local(watch(Rc::downgrade(&self.0), target.clone())).abort_handle();
        let client = pb::VrpSubscriberClient::new(&self.frame.router, &target);
        all.insert(target, Subscriber { client, watch });
        Ok(())
    }
}
