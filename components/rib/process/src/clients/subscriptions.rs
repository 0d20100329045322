//! Subscriptions: routes of origins on their way to clients, a call at a time.

use super::Client;
use crate::RibProcess;
use sluice_base::{FamilyId, Instant, Ipv4Prefix, Ipv6Prefix, TableId, XidPrefix};
use sluice_process::clock;
use sluice_rib::policy::SubscriberPolicy;
use sluice_rib::request::{Subscribe, SubscribeAnnounced, TakeSubscribed};
use sluice_rib::subscriber::SubscribedOrigin;
use sluice_rib::{Input, SubscriptionId, TableKey};
use sluice_xrl::idl::rib::v1::{self as pb, RouteSubscriberClient};
use sluice_xrl::{CallContext, XrlError};
use std::rc::Rc;
use std::time::Duration;
use tracing::debug;

/// Routes for a subscriber in a single call.
const SUBSCRIBED_BATCH: usize = 1024;

/// The time after which routes are sent again to a subscriber that did not answer. The routes may have arrived: to take them twice has no
/// effect.
pub(super) const RESEND: Duration = Duration::from_secs(1);

/// Subscriptions of a single principal. Each can hold a whole table of changes that its subscriber has not taken.
const MAX_SUBSCRIPTIONS: usize = 64;

/// A subscription of a client.
pub(super) struct Subscribed {
    principal: Rc<str>,
    table: TableId,
    family: FamilyId,
}

/// The routes that a subscriber wants.
pub struct Wish {
    /// The table.
    pub table: TableId,
    /// The names of the origins; none: all.
    pub origins: Vec<String>,
    /// The policy that the routes pass.
    pub policy: Option<SubscriberPolicy>,
    /// True if the subscriber has routes of an earlier subscription.
    pub has_routes: bool,
    /// True if the routes are wanted before the decision.
    pub is_announced: bool,
}

impl RibProcess {
    /// Returns an error unless the caller made a subscription.
    pub(crate) fn check_subscription(&self, ctx: &CallContext, id: SubscriptionId) -> Result<(), XrlError> {
        self.subscribed(ctx, id).map(|_| ())
    }

    /// Returns the table and family that a subscription of the caller is to.
    fn subscribed(&self, ctx: &CallContext, id: SubscriptionId) -> Result<(TableId, FamilyId), XrlError> {
        match self.clients.subscriptions.borrow().get(&id) {
            Some(known) if known.principal == ctx.principal => Ok((known.table, known.family)),
            _ => Err(XrlError::AccessDenied(format!("{} has no subscription {}", ctx.principal, id.0))),
        }
    }

    /// Returns the table and family of a subscription by which the caller forwards; an error for a family that the FEA forwards, which refuses
    /// routes itself.
    pub(crate) fn forwarded_by(
        &self,
        ctx: &CallContext,
        id: SubscriptionId,
    ) -> Result<(TableId, FamilyId), XrlError> {
        let (table, family) = self.subscribed(ctx, id)?;
        if family.ip().is_some() {
            return Err(XrlError::BadArguments(format!("subscription: the FEA forwards routes of {family}")));
        }
        Ok((table, family))
    }

    /// Returns an error if the caller's principal has as many subscriptions as it may.
    pub(crate) fn check_subscriptions(&self, ctx: &CallContext) -> Result<(), XrlError> {
        let subscriptions = self.clients.subscriptions.borrow();
        let own = subscriptions.values().filter(|known| known.principal == ctx.principal).count();
        if own < MAX_SUBSCRIPTIONS {
            return Ok(());
        }
        let limit = format!("more than {MAX_SUBSCRIPTIONS} subscriptions");
        self.clients.router.report_excess(ctx, &limit);
        Err(XrlError::Busy(limit))
    }

    /// Sends a subscriber the existing routes and then the changes, a call at a time, until the subscriber dies or
    /// unsubscribes. For a subscriber with earlier routes, the existing routes are complete when the subscribed origins had the time to
    /// announce their routes to a RIB that has just started: the subscriber takes what is missing for gone.
    pub(crate) fn start_subscription<P: TableKey>(
        self: &Rc<Self>,
        wish: Wish,
        id: SubscriptionId,
        client: &str,
    ) {
        let Some(Client { subscriber, principal, .. }) = self.clients.by_name(client) else { return };
        let client = client.to_string();
        let known = Subscribed { principal, table: wish.table, family: P::ID };
        self.clients.subscriptions.borrow_mut().insert(id, known);
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move {
            // True while the subscriber has still to learn that it has all existing routes.
            let mut is_end_due = false;
            while me.driver.read(|rib| rib.has_subscription(id)) {
                let wait = me.clients.wake.notified();
                let complete_at = me.complete_at(&wish);
                let is_complete = !wish.has_routes || clock::now() >= complete_at;
                let is_ready =
                    me.driver.read(|rib| rib.ready_subscriptions::<P>().contains(&(wish.table, id)));
                let has_news = is_ready || (is_end_due && is_complete);
                if !has_news {
                    tokio::select! {
                        () = wait => {}
                        () = tokio::time::sleep_until(clock::to_tokio(complete_at)), if is_end_due => {}
                    }
                    continue;
                }
                let taken = me.driver.request(TakeSubscribed::<P>::new(wish.table, id, SUBSCRIBED_BATCH));
                let Some((batch, is_end)) = taken else { break };
                is_end_due |= is_end;
                // The batches of a subscription before the decision are of one origin each, and may be small before the last.
                let is_drained = if wish.is_announced {
                    me.driver.read(|rib| !rib.ready_subscriptions::<P>().contains(&(wish.table, id)))
                } else {
                    batch.routes.updates.len() < SUBSCRIBED_BATCH
                };
                let dump_done = is_end_due && is_complete && is_drained;
                is_end_due &= !dump_done;
                let request = pb::SubscribedRoutesRequest {
                    subscription: id.0,
                    family: P::ID.0.into(),
                    packed: sluice_xrl::routes::encode_routes(&batch.routes),
                    dump_done,
                    origins: batch.origins.into_iter().map(subscribed_origin).collect(),
                    set_origins: batch.set_origins,
                };
                if !me.send_subscribed(&client, id, &subscriber, request).await {
                    me.driver.input(Input::Unsubscribe(id));
                    break;
                }
            }
            me.clients.subscriptions.borrow_mut().remove(&id);
        });
        self.clients.wake();
    }

    /// Returns the time from which the RIB has the routes of subscribed origins.
    fn complete_at(&self, wish: &Wish) -> Instant {
        let registrations = self.clients.registrations.borrow();
        self.fib.complete_at(registrations.are_known_of(wish.table, &wish.origins))
    }

    /// Sends routes, again and again while the subscriber lives and does not answer. Returns false if the subscription is over.
    async fn send_subscribed(
        &self,
        client: &str,
        id: SubscriptionId,
        subscriber: &RouteSubscriberClient,
        request: pb::SubscribedRoutesRequest,
    ) -> bool {
        loop {
            match subscriber.subscribed_routes(request.clone()).await {
                Ok(_) => return true,
                Err(XrlError::DeadlineExceeded | XrlError::Disconnected(_) | XrlError::NoFinder) => {
                    tokio::time::sleep(RESEND).await;
                    let is_wanted = self.driver.read(|rib| rib.has_subscription(id));
                    if !is_wanted || self.clients.by_name(client).is_none() {
                        return false;
                    }
                }
                Err(error) => {
                    debug!(%error, client, "a subscriber did not take routes; its subscription ends");
                    return false;
                }
            }
        }
    }

    /// Returns the policy of a name for a subscription, as soon as there is a configuration.
    pub(crate) async fn subscriber_policy(&self, name: &str) -> Result<SubscriberPolicy, XrlError> {
        self.policy().await;
        let policy = self.driver.read(|rib| rib.policies().for_subscriber(name));
        policy.map_err(|error| XrlError::BadArguments(format!("policy: {error}")))
    }

    /// Subscribes to routes of a family; `None` if the process has no tables of the family.
    pub(crate) fn subscribe_family(
        self: &Rc<Self>,
        family: FamilyId,
        wish: Wish,
        client: &str,
    ) -> Option<SubscriptionId> {
        match family {
            FamilyId::IPV4 => Some(self.subscribe_to::<Ipv4Prefix>(wish, client)),
            FamilyId::IPV6 => Some(self.subscribe_to::<Ipv6Prefix>(wish, client)),
            FamilyId::XID => Some(self.subscribe_to::<XidPrefix>(wish, client)),
            _ => None,
        }
    }

    fn subscribe_to<P: TableKey>(self: &Rc<Self>, wish: Wish, client: &str) -> SubscriptionId {
        let origins = wish.origins.clone();
        let subscribe = Subscribe::<P>::new(wish.table, origins.clone());
        let id = match wish.policy.clone() {
            _ if wish.is_announced => self.driver.request(SubscribeAnnounced::<P>::new(wish.table, origins)),
            Some(policy) => self.driver.request(subscribe.through(policy)),
            None => self.driver.request(subscribe),
        };
        self.start_subscription::<P>(wish, id, client);
        id
    }
}

fn subscribed_origin(origin: SubscribedOrigin) -> pb::SubscribedOrigin {
    pb::SubscribedOrigin {
        name: origin.name,
        kinds: origin.kinds,
        distance: origin.distance.0.into(),
        external: origin.external,
        grace_seconds: u32::try_from(origin.grace.as_secs()).unwrap_or(u32::MAX),
    }
}
