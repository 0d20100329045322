//! Subscribing to routes of other origins at the RIB: again after each start of the RIB and after each change of the origins, and
//! without routes that are left over.

use sluice_base::{
    AnyPrefix, Distance, FamilyId, IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix, RouteAction, RouteSet,
    RouteUpdate, TableId, XidPrefix,
};
use sluice_clients::{SubscribedBatch, Subscription};
use sluice_xrl::convert::family_id;
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::idl::rib::v1 as rib;
use sluice_xrl::routes::decode_routes;
use sluice_xrl::{LifeEvent, XrlEndpoint, XrlError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tracing::{debug, warn};

/// The time after which a refused subscription is requested again.
const RETRY: Duration = Duration::from_secs(5);
/// The same for announced routes, which other routers wait for.
const RETRY_ANNOUNCED: Duration = Duration::from_secs(1);

/// The keys of subscribed routes: of one family, or of several.
pub trait SubscribedKey: Copy + Ord + 'static {
    /// The families, each of which has a subscription of its own.
    const FAMILIES: &'static [FamilyId];

    /// Returns the family of a key; one of [`SubscribedKey::FAMILIES`].
    fn family(self) -> FamilyId;

    /// Reads the changes of a call about routes of `family`.
    ///
    /// # Errors
    /// The call is malformed.
    fn changes(
        family: FamilyId,
        request: &rib::SubscribedRoutesRequest,
    ) -> Result<Vec<SubscribedChange<Self>>, XrlError>;
}

impl SubscribedKey for IpPrefix {
    const FAMILIES: &'static [FamilyId] = &[FamilyId::IPV4, FamilyId::IPV6];

    fn family(self) -> FamilyId {
        match self {
            IpPrefix::V4(_) => FamilyId::IPV4,
            IpPrefix::V6(_) => FamilyId::IPV6,
        }
    }

    fn changes(
        family: FamilyId,
        request: &rib::SubscribedRoutesRequest,
    ) -> Result<Vec<SubscribedChange>, XrlError> {
        match family {
            FamilyId::IPV6 => changes(request, IpPrefix::V6),
            _ => changes(request, IpPrefix::V4),
        }
    }
}

impl SubscribedKey for Ipv4Prefix {
    const FAMILIES: &'static [FamilyId] = &[FamilyId::IPV4];

    fn family(self) -> FamilyId {
        FamilyId::IPV4
    }

    fn changes(
        _: FamilyId,
        request: &rib::SubscribedRoutesRequest,
    ) -> Result<Vec<SubscribedChange<Ipv4Prefix>>, XrlError> {
        changes(request, |prefix: Ipv4Prefix| prefix)
    }
}

impl SubscribedKey for XidPrefix {
    const FAMILIES: &'static [FamilyId] = &[FamilyId::XID];

    fn family(self) -> FamilyId {
        FamilyId::XID
    }

    fn changes(
        _: FamilyId,
        request: &rib::SubscribedRoutesRequest,
    ) -> Result<Vec<SubscribedChange<XidPrefix>>, XrlError> {
        changes(request, |prefix: XidPrefix| prefix)
    }
}

/// Keys of all families that a protocol may redistribute.
impl SubscribedKey for AnyPrefix {
    const FAMILIES: &'static [FamilyId] = &[FamilyId::IPV4, FamilyId::IPV6, FamilyId::XID];

    fn family(self) -> FamilyId {
        AnyPrefix::family(self)
    }

    fn changes(
        family: FamilyId,
        request: &rib::SubscribedRoutesRequest,
    ) -> Result<Vec<SubscribedChange<AnyPrefix>>, XrlError> {
        match family {
            FamilyId::XID => changes(request, AnyPrefix::of::<XidPrefix>),
            FamilyId::IPV6 => changes(request, AnyPrefix::of::<Ipv6Prefix>),
            _ => changes(request, AnyPrefix::of::<Ipv4Prefix>),
        }
    }
}

/// A change of a subscribed route.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscribedChange<K = IpPrefix> {
    /// The prefix.
    pub prefix: K,
    /// The prefix's route now; `None`: no subscribed origin has the selected route.
    pub route: Option<Rc<SubscribedRoute>>,
}

/// A subscribed route without its prefix.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SubscribedRoute {
    /// The name of the route's origin.
    pub origin: String,
    /// The name of the route's kind within its origin.
    pub kind: Option<String>,
    /// The route's distance: its own, or its origin's.
    pub distance: Distance,
    /// The route as its origin announced it.
    pub set: RouteSet,
}

/// A subscription to routes of all families of `K`. The process serves `rib.v1.RouteSubscriber` and gives each call to
/// [`RibSubscription::receive`].
pub struct RibSubscription<K = IpPrefix> {
    client: rib::RibClient,
    table: TableId,
    /// True for the routes as the origins announce them, before the RIB's decision.
    is_announced: bool,
    origins: RefCell<Vec<String>>,
    /// In the order of the families.
    subscriptions: RefCell<Vec<Subscription<K>>>,
    /// True while a RIB lives.
    has_rib: Cell<bool>,
    refusal: RefCell<Option<String>>,
    origins_changed: Notify,
    answered: Notify,
}

impl<K: SubscribedKey> RibSubscription<K> {
    /// A subscription to no origin; run [`RibSubscription::keep`] as a task.
    pub fn new(router: &XrlEndpoint, table: TableId) -> Rc<Self> {
        Self::make(router, table, false)
    }

    /// A subscription to the routes of the main table as origins announce them, before the RIB's decision: a prefix has a route for
    /// each origin. Run [`RibSubscription::keep_announced`] as a task; calls are for [`RibSubscription::admit`].
    pub fn announced(router: &XrlEndpoint) -> Rc<Self> {
        Self::make(router, TableId::MAIN, true)
    }

    fn make(router: &XrlEndpoint, table: TableId, is_announced: bool) -> Rc<Self> {
        Rc::new(RibSubscription {
            client: rib::RibClient::new(router, "rib"),
            table,
            is_announced,
            origins: RefCell::default(),
            subscriptions: RefCell::new(K::FAMILIES.iter().map(|_| Subscription::default()).collect()),
            has_rib: Cell::new(false),
            refusal: RefCell::new(None),
            origins_changed: Notify::new(),
            answered: Notify::new(),
        })
    }

    /// Sets the names of the subscribed origins; none: no routes are wanted.
    pub fn set_origins(&self, mut origins: Vec<String>) {
        origins.sort_unstable();
        origins.dedup();
        if self.origins.replace(origins.clone()) != origins {
            self.origins_changed.notify_one();
        }
    }

    /// Notes the routes that an earlier process had. They are gone unless the RIB sends them again.
    pub fn resume(&self, prefixes: impl IntoIterator<Item = K>) {
        let mut subscriptions = self.subscriptions.borrow_mut();
        for prefix in prefixes {
            let place = K::FAMILIES.iter().position(|family| *family == prefix.family());
            if let Some(subscription) = place.and_then(|place| subscriptions.get_mut(place)) {
                subscription.resume([prefix]);
            }
        }
    }

    /// Returns the reason why the RIB sends no routes, if it refused the subscription: for [`crate::Component::degraded`].
    pub fn problem(&self) -> Option<String> {
        let refusal = self.refusal.borrow();
        let origins = self.origins.borrow().join(", ");
        refusal.as_ref().map(|error| format!("the RIB does not send the routes of {origins}: {error}"))
    }

    /// Subscribes `instance` at each RIB that starts and after each change of the origins. Calls `removed` with the routes that are gone
    /// because no origin is subscribed to any more. Never ends.
    pub async fn keep(
        self: Rc<Self>,
        router: XrlEndpoint,
        instance: String,
        removed: impl Fn(Vec<SubscribedChange<K>>),
    ) {
        self.keep_subscribed(router, instance, |_| {}, removed).await;
    }

    /// Subscribes as [`RibSubscription::keep`]. Calls `begins` with each family before the RIB is asked to send its routes from the
    /// beginning. Never ends.
    pub async fn keep_announced(
        self: Rc<Self>,
        router: XrlEndpoint,
        instance: String,
        begins: impl Fn(FamilyId),
    ) {
        self.keep_subscribed(router, instance, begins, drop).await;
    }

    async fn keep_subscribed(
        &self,
        router: XrlEndpoint,
        instance: String,
        begins: impl Fn(FamilyId),
        removed: impl Fn(Vec<SubscribedChange<K>>),
    ) {
        let retry = if self.is_announced { RETRY_ANNOUNCED } else { RETRY };
        let Ok(mut lives) = router.watch_class("rib").await else {
            return warn!("the Finder does not announce the RIB; no routes of other origins arrive");
        };
        loop {
            let is_refused = self.refusal.borrow().is_some();
            tokio::select! {
                // The origins come first: those set before a RIB lives have one subscription, not two in a row.
                biased;
                () = self.origins_changed.notified() => {}
                event = lives.next() => {
                    let Some(event) = event else { return };
                    self.rib_changed(matches!(event, LifeEvent::Birth(_)));
                }
                () = tokio::time::sleep(retry), if is_refused => {}
            }
            let origins = self.origins.borrow().clone();
            if origins.is_empty() {
                removed(self.stop().await);
            } else if self.has_rib.get() {
                self.subscribe(&instance, &origins, &begins).await;
            }
        }
    }

    fn rib_changed(&self, lives: bool) {
        self.has_rib.set(lives);
        self.refusal.take();
        self.subscriptions.borrow_mut().iter_mut().for_each(Subscription::rib_died);
        self.answered.notify_waiters();
    }

    /// Subscribes to the routes of each family, in place of the present subscriptions.
    async fn subscribe(&self, instance: &str, origins: &[String], begins: &impl Fn(FamilyId)) {
        self.refusal.take();
        for (place, family) in K::FAMILIES.iter().enumerate() {
            let ended = self.subscriptions.borrow_mut()[place].renew();
            self.unsubscribe(ended).await;
            begins(*family);
            let request = rib::SubscribeRequest {
                target: instance.into(),
                table: self.table.0,
                family: family.0.into(),
                origins: origins.to_vec(),
                has_routes: true,
                announced: self.is_announced,
                ..Default::default()
            };
            let answer = self.client.subscribe(request).await;
            let subscription = &mut self.subscriptions.borrow_mut()[place];
            match answer {
                Ok(reply) => subscription.accepted(reply.subscription),
                Err(error) => {
                    subscription.rib_died();
                    warn!(event = "rib.subscription.refused", %error, "the RIB does not send routes of other origins; asked again soon");
                    self.refusal.replace(Some(error.to_string()));
                }
            }
            self.answered.notify_waiters();
        }
    }

    /// Ends the subscriptions. Returns the routes, which are gone.
    async fn stop(&self) -> Vec<SubscribedChange<K>> {
        self.refusal.take();
        let mut gone = Vec::new();
        for place in 0..K::FAMILIES.len() {
            let (ended, prefixes) = self.subscriptions.borrow_mut()[place].stop();
            gone.extend(prefixes.into_iter().map(removal));
            self.unsubscribe(ended).await;
        }
        self.answered.notify_waiters();
        gone
    }

    async fn unsubscribe(&self, subscription: Option<u64>) {
        let Some(subscription) = subscription else { return };
        if let Err(error) = self.client.unsubscribe(rib::UnsubscribeRequest { subscription }).await {
            debug!(%error, "a subscription ends with the RIB");
        }
    }

    /// Reports routes of a family that the subscriber forwards itself: those that it does not take, and those that it takes after all.
    /// Without a subscription nothing is reported: the next one sends all routes again.
    ///
    /// # Errors
    /// The RIB refuses the report, or ends.
    pub async fn reject(
        &self,
        family: FamilyId,
        routes: Vec<rib::RejectedRoute>,
        accepted: Vec<common::Net>,
    ) -> Result<(), XrlError> {
        let place = K::FAMILIES.iter().position(|known| *known == family);
        let number = place.and_then(|place| self.subscriptions.borrow()[place].number());
        let Some(subscription) = number else { return Ok(()) };
        let request = rib::RejectRoutesRequest { subscription, routes, accepted };
        self.client.reject_routes(request).await.map(|_| ())
    }

    /// Returns true if the subscriber has the routes of all families that the RIB had at the subscription.
    pub fn is_complete(&self) -> bool {
        self.subscriptions.borrow().iter().all(Subscription::is_complete)
    }

    /// Waits until it is known to which subscription a call of `rib.v1.RouteSubscriber` belongs. Returns the family of its routes; `None`
    /// for a call of an earlier subscription.
    ///
    /// # Errors
    /// The family is not subscribed to.
    pub async fn admit(&self, request: &rib::SubscribedRoutesRequest) -> Result<Option<FamilyId>, XrlError> {
        let family = family_id(request.family.into())?;
        let place = K::FAMILIES.iter().position(|known| *known == family);
        let place = place.ok_or_else(|| {
            let expected: Vec<String> = K::FAMILIES.iter().map(FamilyId::to_string).collect();
            let expected = expected.join(" or ");
            XrlError::BadArguments(format!("family: {family} is not subscribed to; expected {expected}"))
        })?;
        // Until the RIB has answered, it is not known which subscription the routes belong to.
        while self.subscriptions.borrow()[place].is_requested() {
            self.answered.notified().await;
        }
        let kind = self.subscriptions.borrow_mut()[place].batch(request.subscription);
        Ok((kind != SubscribedBatch::Stale).then_some(family))
    }

    /// Notes the routes of an admitted call. Returns the routes that are gone because the RIB has not sent them again.
    pub fn note(
        &self,
        request: &rib::SubscribedRoutesRequest,
        changes: &[SubscribedChange<K>],
    ) -> Vec<SubscribedChange<K>> {
        let mut subscriptions = self.subscriptions.borrow_mut();
        let number = Some(request.subscription);
        let mut of_families = K::FAMILIES.iter().zip(subscriptions.iter_mut());
        let of_call =
            of_families.find(|(f, known)| i32::from(f.0) == request.family && known.number() == number);
        let Some((_, subscription)) = of_call else { return Vec::new() };
        for change in changes {
            match change.route {
                Some(_) => subscription.set(change.prefix),
                None => subscription.delete(change.prefix),
            }
        }
        if !request.dump_done {
            return Vec::new();
        }
        subscription.end_of_initial(request.subscription).into_iter().map(removal).collect()
    }

    /// Handles a call of `rib.v1.RouteSubscriber`: returns the changes in it, in order. A call of an earlier subscription has none,
    /// and its end of the present routes has no meaning for this one: ask [`RibSubscription::is_complete`].
    ///
    /// # Errors
    /// The call is malformed.
    pub async fn receive(
        &self,
        request: &rib::SubscribedRoutesRequest,
    ) -> Result<Vec<SubscribedChange<K>>, XrlError> {
        let Some(family) = self.admit(request).await? else { return Ok(Vec::new()) };
        let mut changes = K::changes(family, request)?;
        let gone = self.note(request, &changes);
        changes.extend(gone);
        Ok(changes)
    }
}

const fn removal<K>(prefix: K) -> SubscribedChange<K> {
    SubscribedChange { prefix, route: None }
}

/// Returns the changes of a call.
fn changes<P: Prefix, K>(
    request: &rib::SubscribedRoutesRequest,
    key: impl Fn(P) -> K,
) -> Result<Vec<SubscribedChange<K>>, XrlError> {
    let batch = decode_routes::<P>(&request.packed)?;
    let routes = batch.sets.into_iter().enumerate().map(|(index, set)| {
        let origin = request.set_origins.get(index).and_then(|place| request.origins.get(*place as usize));
        let origin =
            origin.ok_or_else(|| XrlError::BadArguments(format!("set_origins: none for set {index}")))?;
        Ok(Rc::new(SubscribedRoute {
            kind: set.kind.name(&origin.kinds).map(String::from),
            distance: set.distance.unwrap_or(Distance(u8::try_from(origin.distance).unwrap_or(u8::MAX))),
            origin: origin.name.clone(),
            set,
        }))
    });
    let routes: Vec<Rc<SubscribedRoute>> = routes.collect::<Result<_, XrlError>>()?;
    let change = |update: RouteUpdate<P>| {
        let route = match update.action {
            RouteAction::Delete => None,
            RouteAction::Set(index) => routes.get(index as usize).cloned(),
        };
        SubscribedChange { prefix: key(update.prefix), route }
    };
    Ok(batch.updates.into_iter().map(change).collect())
}
