//! The frame of a protocol's process: origins in the RIB, subscriptions to routes of others, and interfaces.
//!
//! A process with a [`ProtocolFrame`] implements [`Protocol`] and thereby is a [`Component`]: the process is left with sockets,
//! configuration and services. Each part of the frame is optional:
//!
//! * An origin registers at each starting RIB, and the protocol announces every route again. The refresh ends when configuration and
//!   interfaces are known. An origin is unregistered when the router goes on without the component.
//! * A subscription brings routes of other origins, also after a restart of the RIB.
//! * Interfaces and the path of packets follow the running FEA.

use crate::component::{Component, Frame, Prepared};
use crate::handover::{HandOverError, Sink, Source, StatePart};
use crate::interfaces::{InterfaceNames, follow_fea};
use crate::net::PacketPath;
use crate::part::Planned;
use crate::rib::{RibChange, RibOrigin, RibSubscription, SubscribedChange, SubscribedKey};
use crate::tasks::Tasks;
use sluice_base::{FamilyId, InterfaceEvent};
use sluice_xrl::convert::family_id;
use sluice_xrl::idl::fea::v1::{self as fea, interface_observer_service};
use sluice_xrl::idl::rib::v1::{self as rib, origin_owner_service, route_subscriber_service};
use sluice_xrl::{CallContext, Service, XrlEndpoint, XrlError};
use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;
use tokio::task::{JoinHandle, spawn_local};
use tracing::warn;

/// The shared state of a protocol's process.
pub struct ProtocolFrame {
    /// The services of the process's frame.
    pub frame: Frame,
    /// The interfaces, if the protocol follows the FEA.
    pub interfaces: InterfaceNames,
    /// The FEA's path of packets, if the protocol follows the FEA.
    pub path: PacketPath,
    follows_interfaces: bool,
    origins: Vec<Rc<RibOrigin>>,
    subscriptions: Vec<Box<dyn Subscribed>>,
    is_configured: Cell<bool>,
    is_registered: Cell<bool>,
    /// The tasks that run while the process is registered.
    tasks: Tasks,
}

impl ProtocolFrame {
    /// Makes the frame of a protocol without routes and interfaces.
    pub fn new(frame: Frame) -> Self {
        ProtocolFrame {
            frame,
            interfaces: InterfaceNames::default(),
            path: PacketPath::default(),
            follows_interfaces: false,
            origins: Vec::new(),
            subscriptions: Vec::new(),
            is_configured: Cell::new(false),
            is_registered: Cell::new(false),
            tasks: Tasks::default(),
        }
    }

    /// Adds the FEA's interfaces. `rights.toml` needs `fea.v1.Interfaces/Subscribe`.
    #[must_use]
    pub fn with_interfaces(mut self) -> Self {
        self.follows_interfaces = true;
        self
    }

    /// Adds an origin of routes.
    #[must_use]
    pub fn with_origin(mut self, origin: &Rc<RibOrigin>) -> Self {
        self.origins.push(Rc::clone(origin));
        self
    }

    /// Adds a subscription to routes of other origins. `changed` receives the changes.
    #[must_use]
    pub fn with_subscription<K: SubscribedKey>(
        mut self,
        subscription: &Rc<RibSubscription<K>>,
        changed: impl Fn(Vec<SubscribedChange<K>>) + 'static,
    ) -> Self {
        let subscription = Rc::clone(subscription);
        self.subscriptions.push(Box::new(Following { subscription, changed: Rc::new(changed) }));
        self
    }

    /// Returns true once the protocol was configured.
    pub fn is_configured(&self) -> bool {
        self.is_configured.get()
    }

    /// Returns true once the process is registered and the configuration is known, and also the interfaces if the protocol follows
    /// interfaces.
    pub fn is_ready(&self) -> bool {
        let has_interfaces = !self.follows_interfaces || self.interfaces.is_complete();
        self.is_registered.get() && self.is_configured() && has_interfaces
    }
}

/// A protocol as its frame runs it.
#[allow(async_fn_in_trait)] // everything here is one thread
pub trait Protocol: Sized + 'static {
    /// [`Component::CLASS`].
    const CLASS: &'static str;

    /// [`Component::PARTS`].
    const PARTS: &'static [StatePart] = &[];

    /// [`Component::STATE`].
    const STATE: u32 = 1;

    /// [`Component::Settings`].
    type Settings: 'static;

    /// [`Component::Error`].
    type Error: std::error::Error + 'static;

    /// Returns the frame.
    fn protocol(&self) -> &ProtocolFrame;

    /// Returns the protocol's services beside the frame's.
    fn services(self: &Rc<Self>) -> Vec<Service> {
        Vec::new()
    }

    /// Starts the protocol's tasks for a registration as `instance`. The next registration aborts the tasks.
    fn tasks(self: &Rc<Self>, _instance: &str) -> Vec<JoinHandle<()>> {
        Vec::new()
    }

    /// [`Component::prepare`].
    ///
    /// # Errors
    /// The fault of the change.
    fn prepare(self: &Rc<Self>, planned: &Planned<'_>) -> Result<Prepared<Self::Settings>, Self::Error>;

    /// [`Component::apply`].
    async fn configure(self: &Rc<Self>, settings: Self::Settings) -> Result<(), Self::Error>;

    /// Called when the FEA announces interfaces or changes of interfaces.
    fn interfaces_changed(self: &Rc<Self>, _events: Vec<InterfaceEvent>) {}

    /// Called when the FEA's path of packets began or ended, without the programs of components.
    fn path_changed(self: &Rc<Self>) {}

    /// Called when an FEA has started and the process has subscribed to interfaces.
    fn fea_started(self: &Rc<Self>) {}

    /// Called when a RIB without routes of the origin has registered the origin.
    fn announce_all(self: &Rc<Self>, _origin: &RibOrigin) {}

    /// Called while configuration and interfaces are known, after each change of configuration, interfaces or RIB: opens and closes sockets.
    fn ready(self: &Rc<Self>) {}

    /// Ends the refresh of an origin. Called after [`Protocol::ready`] as long as the refresh may be due.
    fn end_refresh(self: &Rc<Self>, origin: &Rc<RibOrigin>) {
        origin.end_refresh();
    }

    /// Called after each call with routes of a subscription. The RIB sends more routes after the return. `is_complete` marks the last
    /// call with present routes; further calls carry changes.
    async fn routes_received(self: &Rc<Self>, _family: FamilyId, _is_complete: bool) {}

    /// Reports routes that the RIB or the forwarding engine refused.
    fn routes_rejected(self: &Rc<Self>, request: rib::RoutesRejectedRequest) {
        for route in request.routes {
            warn!(origin = request.origin, reason = route.reason, "the forwarding engine refused the route");
        }
    }

    /// Returns the protocol's own reasons for [`Component::degraded`].
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    /// [`Component::shutdown`], before the origins are unregistered.
    async fn end(self: &Rc<Self>, _for_good: bool) {}

    /// [`Component::hand_over`].
    ///
    /// # Errors
    /// The hand-over fails.
    async fn hand_over(self: &Rc<Self>, _to: &mut Sink) -> Result<(), HandOverError> {
        Ok(())
    }

    /// Takes the predecessor's state, before the configuration is applied.
    ///
    /// # Errors
    /// The predecessor's state is not as expected.
    async fn take_over(self: &Rc<Self>, _from: &mut Source) -> Result<(), HandOverError> {
        Ok(())
    }
}

/// Notes a change of the configuration, the interfaces or the RIB.
fn settle<P: Protocol>(protocol: &Rc<P>, ends_refresh: bool) {
    let frame = protocol.protocol();
    if frame.is_ready() {
        protocol.ready();
        frame.origins.iter().filter(|_| ends_refresh).for_each(|origin| protocol.end_refresh(origin));
    }
}

impl<P: Protocol> Component for P {
    const CLASS: &'static str = P::CLASS;

    const PARTS: &'static [StatePart] = P::PARTS;

    const STATE: u32 = P::STATE;

    type Settings = P::Settings;

    type Error = P::Error;

    fn services(self: &Rc<Self>) -> Vec<Service> {
        let frame = self.protocol();
        let served = || Rc::new(Served(Rc::clone(self)));
        let mut services = Protocol::services(self);
        services.extend(frame.follows_interfaces.then(|| interface_observer_service(served())));
        services.extend((!frame.origins.is_empty()).then(|| origin_owner_service(served())));
        services.extend((!frame.subscriptions.is_empty()).then(|| route_subscriber_service(served())));
        services
    }

    async fn registered(self: Rc<Self>, instance: String) {
        let frame = self.protocol();
        let router = &frame.frame.router;
        let mut tasks = Vec::new();
        for origin in &frame.origins {
            let (me, registered) = (Rc::clone(&self), Rc::clone(origin));
            let changed = move |change| {
                if change == RibChange::Registered {
                    me.announce_all(&registered);
                    settle(&me, true);
                }
            };
            let kept = Rc::clone(origin).keep_registered(router.clone(), instance.clone(), changed);
            tasks.push(spawn_local(kept));
        }
        tasks.extend(frame.subscriptions.iter().map(|following| following.keep(router.clone(), &instance)));
        if frame.follows_interfaces {
            let me = Rc::clone(&self);
            tasks.push(spawn_local(follow_fea(router.clone(), instance.clone(), async move |_| {
                me.fea_started();
            })));
        }
        tasks.extend(self.tasks(&instance));
        frame.tasks.replace(tasks);
        frame.is_registered.set(true);
        // After a hand-over the configuration is known already.
        settle(&self, true);
    }

    fn prepare(self: &Rc<Self>, planned: &Planned<'_>) -> Result<Prepared<P::Settings>, P::Error> {
        Protocol::prepare(self, planned)
    }

    async fn apply(self: Rc<Self>, settings: P::Settings) -> Result<(), P::Error> {
        self.configure(settings).await?;
        self.protocol().is_configured.set(true);
        settle(&self, true);
        Ok(())
    }

    fn degraded(&self) -> Vec<String> {
        let frame = self.protocol();
        let subscriptions = frame.subscriptions.iter().filter_map(|following| following.problem());
        let origins = frame.origins.iter().filter_map(|origin| origin.problem());
        self.problems().into_iter().chain(subscriptions).chain(origins).collect()
    }

    async fn shutdown(self: Rc<Self>, for_good: bool) {
        self.end(for_good).await;
        for origin in self.protocol().origins.iter().filter(|_| for_good) {
            origin.unregister().await;
        }
    }

    async fn hand_over(self: Rc<Self>, to: &mut Sink) -> Result<(), HandOverError> {
        Protocol::hand_over(&self, to).await
    }

    async fn take_over(
        self: Rc<Self>,
        settings: P::Settings,
        from: &mut Source,
    ) -> Result<(), HandOverError> {
        Protocol::take_over(&self, from).await?;
        Component::apply(self, settings).await.map_err(HandOverError::component)
    }
}

/// A protocol for handlers of the frame's interfaces.
struct Served<P>(Rc<P>);

impl<P: Protocol> fea::InterfaceObserver for Served<P> {
    async fn interface_changed(
        &self,
        _ctx: &CallContext,
        request: fea::InterfaceChangedRequest,
    ) -> Result<fea::InterfaceChangedReply, XrlError> {
        let frame = self.0.protocol();
        let events = frame.interfaces.read(&request)?;
        let is_snapshot = events.contains(&InterfaceEvent::SnapshotEnd);
        self.0.interfaces_changed(events);
        if frame.path.read(&request) {
            self.0.path_changed();
        }
        settle(&self.0, is_snapshot);
        Ok(fea::InterfaceChangedReply {})
    }
}

impl<P: Protocol> rib::OriginOwner for Served<P> {
    async fn routes_rejected(
        &self,
        _ctx: &CallContext,
        request: rib::RoutesRejectedRequest,
    ) -> Result<rib::RoutesRejectedReply, XrlError> {
        self.0.routes_rejected(request);
        Ok(rib::RoutesRejectedReply {})
    }
}

impl<P: Protocol> rib::RouteSubscriber for Served<P> {
    async fn subscribed_routes(
        &self,
        _ctx: &CallContext,
        request: rib::SubscribedRoutesRequest,
    ) -> Result<rib::SubscribedRoutesReply, XrlError> {
        let family = family_id(request.family.into())?;
        let subscriptions = &self.0.protocol().subscriptions;
        let of_family = subscriptions.iter().find(|following| following.families().contains(&family));
        // A subscription refuses other families with the expected ones.
        if let Some(following) = of_family.or(subscriptions.first()) {
            let is_complete = following.receive(&request).await?;
            self.0.routes_received(family, is_complete).await;
        }
        Ok(rib::SubscribedRoutesReply {})
    }
}

/// A subscription of the frame, with keys of any type.
trait Subscribed {
    fn families(&self) -> &'static [FamilyId];

    fn problem(&self) -> Option<String>;

    fn keep(&self, router: XrlEndpoint, instance: &str) -> JoinHandle<()>;

    /// Handles a call. Returns true for the last present routes.
    fn receive<'a>(&'a self, request: &'a rib::SubscribedRoutesRequest) -> Receiving<'a>;
}

type Receiving<'a> = Pin<Box<dyn Future<Output = Result<bool, XrlError>> + 'a>>;

/// A subscription with the receiver of its changes.
struct Following<K, F> {
    subscription: Rc<RibSubscription<K>>,
    changed: Rc<F>,
}

impl<K: SubscribedKey, F: Fn(Vec<SubscribedChange<K>>) + 'static> Subscribed for Following<K, F> {
    fn families(&self) -> &'static [FamilyId] {
        K::FAMILIES
    }

    fn problem(&self) -> Option<String> {
        self.subscription.problem()
    }

    fn keep(&self, router: XrlEndpoint, instance: &str) -> JoinHandle<()> {
        let changed = Rc::clone(&self.changed);
        let kept = Rc::clone(&self.subscription).keep(router, instance.into(), move |gone| changed(gone));
        spawn_local(kept)
    }

    fn receive<'a>(&'a self, request: &'a rib::SubscribedRoutesRequest) -> Receiving<'a> {
        Box::pin(async move {
            (self.changed)(self.subscription.receive(request).await?);
            Ok(request.dump_done && self.subscription.is_complete())
        })
    }
}
