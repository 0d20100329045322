//! The RIB's clients: origins, watchers, subscribers. Clients are instances; the requests of a client end with its life.

use crate::RibProcess;
use sluice_base::{FamilyId, Instant, Ipv4Prefix, Ipv6Prefix, TableId};
use sluice_process::clock;
use sluice_rib::policy::SubscriberPolicy;
use sluice_rib::registrations::{OriginKey, Registrations};
use sluice_rib::request::{Subscribe, TakeSubscribed};
use sluice_rib::rights::{Refusal, RoutePolicy};
use sluice_rib::subscriber::SubscribedOrigin;
use sluice_rib::{Input, SubscriptionId, TableKey, WatcherId};
use sluice_xrl::idl::rib::v1::{self as pb, InterestHolderClient, OriginOwnerClient, RouteSubscriberClient};
use sluice_xrl::{CallContext, LifeEvent, XrlEndpoint, XrlError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tracing::{debug, warn};

/// Routes for a subscriber in a single call.
const SUBSCRIBED_BATCH: usize = 1024;

/// The time after which routes are sent again to a subscriber that did not answer. The routes may have arrived: to take them twice has no
/// effect.
const RESEND: Duration = Duration::from_secs(1);

/// Instances of a single principal that are clients.
const MAX_CLIENTS: usize = 64;

/// Subscriptions of a single principal. Each can hold a whole table of changes that its subscriber has not taken.
const MAX_SUBSCRIPTIONS: usize = 64;

/// The clients of the RIB.
pub struct Clients {
    router: XrlEndpoint,
    known: RefCell<BTreeMap<String, Client>>,
    /// The origins; a client is identified by the name of its instance at the Finder.
    registrations: RefCell<Registrations<String>>,
    /// The principals of the subscriptions.
    subscriptions: RefCell<BTreeMap<SubscriptionId, Rc<str>>>,
    /// The processes that registered origins, each watched by a task, and the number of the last registration by each.
    programs: RefCell<BTreeMap<(OriginKey, u32), u64>>,
    next_watcher: Cell<u32>,
    wake: Notify,
}

/// An instance, in each role that a client can have.
#[derive(Clone)]
struct Client {
    holder: InterestHolderClient,
    subscriber: RouteSubscriberClient,
    owner: OriginOwnerClient,
    watcher: WatcherId,
    /// The principal that registered the instance at the Finder.
    principal: Rc<str>,
}

/// Starts a call without waiting for its end.
pub fn detach<F>(what: &'static str, call: F)
where
    F: Future<Output: ResultLike> + 'static,
{
    tokio::task::spawn_local(async move {
        if let Some(error) = call.await.error() {
            debug!(%error, "a client did not take: {what}");
        }
    });
}

/// A result whose value does not matter.
pub trait ResultLike {
    /// Returns the error, if any.
    fn error(self) -> Option<XrlError>;
}

impl<T> ResultLike for Result<T, XrlError> {
    fn error(self) -> Option<XrlError> {
        self.err()
    }
}

impl Clients {
    /// Makes an empty table of clients.
    pub fn new(router: &XrlEndpoint) -> Self {
        Clients {
            router: router.clone(),
            known: RefCell::default(),
            registrations: RefCell::default(),
            subscriptions: RefCell::default(),
            programs: RefCell::default(),
            next_watcher: Cell::new(1),
            wake: Notify::new(),
        }
    }

    /// Wakes subscriptions: changes may wait for them.
    pub fn wake(&self) {
        self.wake.notify_waiters();
    }

    fn by_name(&self, name: &str) -> Option<Client> {
        self.known.borrow().get(name).cloned()
    }

    /// The client behind a watcher's number.
    pub fn by_watcher(&self, watcher: WatcherId) -> Option<InterestHolderClient> {
        self.known.borrow().values().find(|c| c.watcher == watcher).map(|c| c.holder.clone())
    }

    /// The owning client of an origin.
    pub fn by_origin(&self, table: TableId, origin: &str) -> Option<OriginOwnerClient> {
        let name = self.registrations.borrow().client(&(table, origin.to_string()))?.clone();
        self.by_name(&name).map(|c| c.owner)
    }

    /// Returns true if at least one origin is registered and every origin has announced its whole table.
    pub fn are_all_refreshed(&self) -> bool {
        self.registrations.borrow().are_all_refreshed()
    }
}

impl RibProcess {
    /// Returns the client of an instance of the caller. Refuses an instance that the caller's principal has not
    /// registered: what belongs to an instance is not for others to ask for.
    pub(crate) async fn client(
        self: &Rc<Self>,
        ctx: &CallContext,
        name: &str,
    ) -> Result<WatcherId, XrlError> {
        if self.clients.by_name(name).is_none() {
            let principal = self.clients.router.registrant(name).await?;
            let of_principal = |c: &&Client| c.principal == principal;
            if self.clients.known.borrow().values().filter(of_principal).count() >= MAX_CLIENTS {
                let limit = format!("more than {MAX_CLIENTS} clients");
                self.clients.router.report_excess(ctx, &limit);
                return Err(XrlError::Busy(limit));
            }
            self.add_client(name, principal);
        }
        match self.clients.by_name(name) {
            Some(client) if client.principal == ctx.principal => Ok(client.watcher),
            _ => Err(XrlError::AccessDenied(format!("{name} is no target of {}", ctx.principal))),
        }
    }

    /// Adds a client, and watches it: when it dies, its origins become stale and its requests are forgotten.
    fn add_client(self: &Rc<Self>, name: &str, principal: Rc<str>) {
        if self.clients.by_name(name).is_some() {
            return;
        }
        let watcher = WatcherId(self.clients.next_watcher.get());
        self.clients.next_watcher.set(watcher.0 + 1);
        let router = &self.clients.router;
        let client = Client {
            holder: InterestHolderClient::new(router, name),
            subscriber: RouteSubscriberClient::new(router, name),
            owner: OriginOwnerClient::new(router, name),
            watcher,
            principal,
        };
        self.clients.known.borrow_mut().insert(name.to_string(), client);
        let (me, name) = (Rc::clone(self), name.to_string());
        tokio::task::spawn_local(async move {
            let Ok(mut lives) = me.clients.router.watch_instance(&name).await else { return };
            while let Some(event) = lives.next().await {
                if matches!(event, LifeEvent::Death(_)) {
                    break;
                }
            }
            me.client_died(&name, watcher);
        });
    }

    /// Returns an error unless the caller may use an origin.
    pub(crate) async fn check_origin(
        &self,
        ctx: &CallContext,
        table: TableId,
        origin: &str,
    ) -> Result<Rc<RoutePolicy>, XrlError> {
        let policy = self.policy().await;
        let key = (table, origin.to_string());
        policy
            .check_origin(&ctx.principal, &key, &self.clients.registrations.borrow())
            .map_err(self.denied(ctx, origin))?;
        Ok(policy)
    }

    /// Returns the error of a refused call about an origin, and has the refusal counted.
    pub(crate) fn denied<'a>(
        &'a self,
        ctx: &'a CallContext,
        origin: &'a str,
    ) -> impl Fn(Refusal) -> XrlError + 'a {
        move |refusal| {
            let why = format!("{}, origin {origin}: {refusal}", ctx.principal);
            debug!(pid = ctx.pid, "denied: {why}");
            self.clients.router.report_refusal(ctx, &format!("origin {origin}: {refusal}"));
            XrlError::AccessDenied(why)
        }
    }

    /// Returns an error unless the caller made a subscription.
    pub(crate) fn check_subscription(&self, ctx: &CallContext, id: SubscriptionId) -> Result<(), XrlError> {
        match self.clients.subscriptions.borrow().get(&id) {
            Some(principal) if *principal == ctx.principal => Ok(()),
            _ => Err(XrlError::AccessDenied(format!("{} has no subscription {}", ctx.principal, id.0))),
        }
    }

    /// Returns an error if the caller's principal has as many subscriptions as it may.
    pub(crate) fn check_subscriptions(&self, ctx: &CallContext) -> Result<(), XrlError> {
        let own = self.clients.subscriptions.borrow().values().filter(|p| **p == ctx.principal).count();
        if own < MAX_SUBSCRIPTIONS {
            return Ok(());
        }
        let limit = format!("more than {MAX_SUBSCRIPTIONS} subscriptions");
        self.clients.router.report_excess(ctx, &limit);
        Err(XrlError::Busy(limit))
    }

    fn client_died(&self, name: &str, watcher: WatcherId) {
        self.clients.known.borrow_mut().remove(name);
        let owned = self.clients.registrations.borrow_mut().client_died(&name.to_string());
        for origin in owned {
            self.origin_died(origin);
        }
        self.input(Input::WatcherDied(watcher));
    }

    fn origin_died(&self, (table, origin): OriginKey) {
        self.input(Input::OriginDied(table, origin));
        // The origins that are left may be complete without it.
        self.fib.wake();
    }

    /// Records that an origin has announced its whole table.
    pub(crate) fn origin_refreshed(&self, table: TableId, origin: &str) {
        self.clients.registrations.borrow_mut().refreshed(&(table, origin.to_string()));
        self.fib.wake();
    }

    /// Records the program of an origin: the caller's principal, the instance `client`, if the program named an
    /// instance, and the caller's process, if the call's family reports it. The routes become stale as soon as either ends.
    pub(crate) fn own_origin(self: &Rc<Self>, ctx: &CallContext, table: TableId, origin: &str, client: &str) {
        let key = (table, origin.to_string());
        let named = (!client.is_empty()).then(|| client.to_string());
        let registration =
            self.clients.registrations.borrow_mut().register(key.clone(), named, &ctx.principal);
        let Some(pid) = ctx.pid else { return };
        let program = (key.clone(), pid);
        // A process that registers again and again is watched once.
        if self.clients.programs.borrow_mut().insert(program.clone(), registration).is_some() {
            return;
        }
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let ended = sluice_process::process_end(pid).await;
            let Some(registration) = me.clients.programs.borrow_mut().remove(&program) else { return };
            if let Err(error) = ended {
                return warn!(%error, pid, origin = key.1, "the end of the process is not watched; its routes stay if it names no target");
            }
            let is_newest = me.clients.registrations.borrow_mut().registration_ended(&key, registration);
            if is_newest {
                me.origin_died(key);
            }
        });
    }

    /// Forgets the owner of an origin that has ended permanently.
    pub(crate) fn disown_origin(&self, table: TableId, origin: &str) {
        self.clients.registrations.borrow_mut().unregister(&(table, origin.to_string()));
        self.fib.wake();
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
        self.clients.subscriptions.borrow_mut().insert(id, principal);
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
                let is_drained = batch.routes.updates.len() < SUBSCRIBED_BATCH;
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
        self.fib.complete_at(registrations.are_refreshed_of(wish.table, &wish.origins))
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
            _ => None,
        }
    }

    fn subscribe_to<P: TableKey>(self: &Rc<Self>, wish: Wish, client: &str) -> SubscriptionId {
        let subscribe = Subscribe::<P>::new(wish.table, wish.origins.clone());
        let id = self.driver.request(match wish.policy.clone() {
            Some(policy) => subscribe.through(policy),
            None => subscribe,
        });
        self.start_subscription::<P>(wish, id, client);
        id
    }
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
}

fn subscribed_origin(origin: SubscribedOrigin) -> pb::SubscribedOrigin {
    pb::SubscribedOrigin { name: origin.name, kinds: origin.kinds, distance: origin.distance.0.into() }
}
