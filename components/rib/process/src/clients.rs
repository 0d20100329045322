//! The RIB's clients: origins, watchers, subscribers. Clients are instances; the requests of a client end with its life.

mod presence;
mod subscriptions;

use presence::UnsentStates;
pub use presence::message as presence_message;
use subscriptions::Subscribed;
pub use subscriptions::Wish;

use crate::RibProcess;
use sluice_base::TableId;
use sluice_rib::registrations::{OriginKey, Registrations};
use sluice_rib::rights::{Refusal, RoutePolicy};
use sluice_rib::{Input, SubscriptionId, WatcherId};
use sluice_xrl::idl::rib::v1::{
    InterestHolderClient, OriginOwnerClient, PresenceHolderClient, RouteSubscriberClient,
};
use sluice_xrl::{CallContext, XrlEndpoint, XrlError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::Notify;
use tracing::{debug, warn};

/// Instances of a single principal that are clients.
const MAX_CLIENTS: usize = 64;

/// The clients of the RIB.
pub struct Clients {
    router: XrlEndpoint,
    known: RefCell<BTreeMap<String, Client>>,
    /// The origins; a client is identified by the name of its instance at the Finder.
    registrations: RefCell<Registrations<String>>,
    subscriptions: RefCell<BTreeMap<SubscriptionId, Subscribed>>,
    /// The processes that registered origins, each watched by a task, and the number of the last registration by each.
    programs: RefCell<BTreeMap<(OriginKey, u32), u64>>,
    next_watcher: Cell<u32>,
    unsent: UnsentStates,
    /// True if a task waits until every origin had the time to announce its routes.
    awaits_origins: Cell<bool>,
    wake: Notify,
}

/// An instance, in each role that a client can have.
#[derive(Clone)]
struct Client {
    holder: InterestHolderClient,
    presence: PresenceHolderClient,
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
            unsent: UnsentStates::default(),
            awaits_origins: Cell::new(false),
            wake: Notify::new(),
        }
    }

    /// Wakes subscriptions: changes may wait for them.
    pub fn wake(&self) {
        self.wake.notify_waiters();
    }

    /// Reports that a caller asked for more than it may have.
    pub fn report_excess(&self, ctx: &CallContext, limit: &str) {
        self.router.report_excess(ctx, limit);
    }

    fn by_name(&self, name: &str) -> Option<Client> {
        self.known.borrow().get(name).cloned()
    }

    /// The client behind a watcher's number.
    pub(crate) fn by_watcher(&self, watcher: WatcherId) -> Option<InterestHolderClient> {
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
            presence: PresenceHolderClient::new(router, name),
            subscriber: RouteSubscriberClient::new(router, name),
            owner: OriginOwnerClient::new(router, name),
            watcher,
            principal,
        };
        self.clients.known.borrow_mut().insert(name.to_string(), client);
        let (me, name) = (Rc::clone(self), name.to_string());
        tokio::task::spawn_local(async move {
            me.clients.router.until_death(&name).await;
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
}
