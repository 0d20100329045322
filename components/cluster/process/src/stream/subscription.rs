//! The leader's subscription to the routes of its RIB, before the decision.

use crate::{ClusterProcess, Served};
use sluice_base::{Distance, Duration, Family, FamilyId, Ipv4Prefix, Ipv6Prefix, TableId};
use sluice_cluster::stream::section::{Section, StreamOrigin};
use sluice_cluster::stream::wire::Routes;
use sluice_process::clock;
use sluice_xrl::convert::family_id;
use sluice_xrl::idl::rib::v1 as rib;
use sluice_xrl::routes::decode_routes;
use sluice_xrl::{CallContext, LifeEvent, XrlError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use tokio::sync::Notify;
use tracing::{debug, warn};

/// The time after which a refused subscription is requested again.
const RETRY: Duration = Duration::from_secs(1);

/// The state of the subscription to routes of a family.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    None,
    /// The RIB was asked; its first call may arrive before the answer.
    Requested,
    Active(u64),
}

/// The subscriptions, one for each family.
#[derive(Default)]
pub(super) struct Subscription {
    states: [Cell<State>; 2],
    is_wanted: Cell<bool>,
    changed: Notify,
    answered: Notify,
    refusal: RefCell<Option<String>>,
}

fn place(family: Family) -> usize {
    usize::from(family == Family::Ipv6)
}

impl Subscription {
    /// Has the RIB's routes sent, from the beginning.
    pub(super) fn start(&self) {
        self.is_wanted.set(true);
        self.changed.notify_one();
    }

    /// Ends the subscriptions.
    pub(super) fn stop(&self) {
        self.is_wanted.set(false);
        self.changed.notify_one();
    }

    /// Returns the reason why the RIB sends no routes.
    pub(super) fn problem(&self) -> Option<String> {
        let refusal = self.refusal.borrow();
        refusal.as_ref().map(|error| format!("the RIB does not send its routes: {error}"))
    }
}

/// Keeps the subscriptions, for ever.
pub(crate) async fn keep(process: Rc<ClusterProcess>) {
    let own = &process.stream.subscription;
    let client = rib::RibClient::new(&process.frame.router, "rib");
    let Ok(mut lives) = process.frame.router.watch_class("rib").await else {
        return warn!("the Finder does not announce the RIB; no routes are distributed");
    };
    let mut lives_now = false;
    loop {
        let is_refused = own.refusal.borrow().is_some();
        tokio::select! {
            event = lives.next() => {
                let Some(event) = event else { return };
                lives_now = matches!(event, LifeEvent::Birth(_));
                own.states.iter().for_each(|state| state.set(State::None));
            }
            () = own.changed.notified() => {}
            () = tokio::time::sleep(RETRY), if is_refused => {}
        }
        own.refusal.take();
        for family in Family::ALL {
            end(&client, own.states[place(family)].replace(State::None)).await;
            if own.is_wanted.get() && lives_now {
                begin(&process, &client, family).await;
            }
            own.answered.notify_waiters();
        }
    }
}

async fn end(client: &rib::RibClient, state: State) {
    let State::Active(subscription) = state else { return };
    if let Err(error) = client.unsubscribe(rib::UnsubscribeRequest { subscription }).await {
        debug!(%error, "a subscription ends with the RIB");
    }
}

async fn begin(process: &ClusterProcess, client: &rib::RibClient, family: Family) {
    let stream = &process.stream;
    let origins = process.settings.borrow().as_ref().and_then(|settings| settings.store.clone());
    let Some(origins) = origins.map(|store| store.origins) else { return };
    match &mut *stream.term.borrow_mut() {
        Some(term) => term.leader.begin_refresh(family),
        None => return,
    }
    let own = &stream.subscription;
    own.states[place(family)].set(State::Requested);
    let request = rib::SubscribeRequest {
        target: stream.instance.borrow().clone(),
        table: TableId::MAIN.0,
        family: (if family == Family::Ipv4 { FamilyId::IPV4 } else { FamilyId::IPV6 }).0.into(),
        origins: origins.into_iter().collect(),
        has_routes: true,
        announced: true,
        ..Default::default()
    };
    match client.subscribe(request).await {
        Ok(reply) => own.states[place(family)].set(State::Active(reply.subscription)),
        Err(error) => {
            own.states[place(family)].set(State::None);
            warn!(event = "rib.subscription.refused", %error, "the RIB does not send its routes; asked again soon");
            own.refusal.replace(Some(error.to_string()));
        }
    }
}

impl rib::RouteSubscriber for Served {
    async fn subscribed_routes(
        &self,
        _ctx: &CallContext,
        request: rib::SubscribedRoutesRequest,
    ) -> Result<rib::SubscribedRoutesReply, XrlError> {
        let family = match family_id(request.family.into())? {
            FamilyId::IPV4 => Family::Ipv4,
            FamilyId::IPV6 => Family::Ipv6,
            other => return Err(XrlError::BadArguments(format!("family: {other} is not subscribed to"))),
        };
        let stream = &self.stream;
        let own = &stream.subscription;
        let state = &own.states[place(family)];
        // Until the RIB has answered, it is not known which subscription the routes belong to.
        while state.get() == State::Requested {
            own.answered.notified().await;
        }
        if state.get() != State::Active(request.subscription) {
            return Err(XrlError::BadArguments("subscription: it is over".into()));
        }
        let routes = match family {
            Family::Ipv4 => Routes::V4(decode_routes::<Ipv4Prefix>(&request.packed)?),
            Family::Ipv6 => Routes::V6(decode_routes::<Ipv6Prefix>(&request.packed)?),
        };
        if let Some(term) = &mut *stream.term.borrow_mut() {
            if let Some(origin) = request.origins.first() {
                let section = Section { table: TableId::MAIN, family, origin: origin.name.clone() };
                let registration = StreamOrigin {
                    distance: Distance(u8::try_from(origin.distance).unwrap_or(u8::MAX)),
                    external: origin.external,
                    grace: Duration::from_secs(origin.grace_seconds.into()),
                    kinds: origin.kinds.clone(),
                };
                if !term.leader.announce(clock::now(), &section, &registration, &routes) {
                    return Err(XrlError::Busy("the stream has no room for another origin".into()));
                }
            }
            if request.dump_done {
                term.leader.end_refresh(clock::now(), family);
            }
        }
        stream.due.notify_one();
        // The reply is the RIB's permission to go on.
        while stream.term.borrow().as_ref().is_some_and(|term| !term.leader.has_room()) {
            let room = stream.room.notified();
            if stream.term.borrow().as_ref().is_some_and(|term| !term.leader.has_room()) {
                room.await;
            }
        }
        Ok(rib::SubscribedRoutesReply {})
    }
}
