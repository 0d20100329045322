//! Being an origin in the RIB: registering, announcing in order with few batches under way, and announcing everything again to a
//! RIB that was restarted.

use crate::UnderWay;
use crate::call_successor;
use sluice_base::{Distance, Duration, Prefix, RouteBatch, TableId};
use sluice_clients::Origin;
use sluice_xrl::idl::rib::v1 as rib;
use sluice_xrl::{LifeEvent, XrlEndpoint, XrlError};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use tokio::sync::Notify;
use tracing::{info, warn};

/// The registration of an origin.
#[derive(Clone, Debug)]
pub struct RibOriginSettings {
    /// Its name.
    pub name: String,
    /// The table.
    pub table: TableId,
    /// The distance of routes without a distance.
    pub distance: Distance,
    /// True if its routes are learned from other networks, as those of BGP.
    pub external: bool,
    /// The time for which the origin's routes outlive the process.
    pub grace: Duration,
    /// The names of the kinds of its routes: the first name is of kind 1.
    pub kinds: Vec<String>,
}

impl RibOriginSettings {
    /// Returns the registration of an origin of the own network, whose routes are of one kind.
    pub fn new(name: &str, table: TableId, distance: Distance, grace: Duration) -> Self {
        RibOriginSettings { name: name.into(), table, distance, external: false, grace, kinds: Vec::new() }
    }
}

/// A change of the RIB that serves an origin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RibChange {
    /// A RIB registered the origin; the origin has no routes but stale ones.
    Registered,
    /// The RIB died and answers no more calls.
    Died,
}

/// What the RIB has kept of an earlier life of an origin.
#[derive(Clone, Default, Debug)]
pub struct Kept {
    /// The number of routes, which wait to be announced again.
    pub routes: u32,
    /// The note of [`RibOrigin::keep_note`]; empty if there is none.
    pub note: Vec<u8>,
}

/// An origin.
pub struct RibOrigin {
    settings: RibOriginSettings,
    client: rib::RibClient,
    under_way: UnderWay<rib::UpdateRoutesReply>,
    state: RefCell<Origin>,
    refusal: RefCell<Option<String>>,
    /// What the first RIB had of an earlier life; `None` before the first registration.
    kept: RefCell<Option<Kept>>,
    /// The latest note for the next process.
    note: RefCell<Vec<u8>>,
    changed: Notify,
}

impl RibOrigin {
    /// An origin that is not registered yet; run [`RibOrigin::keep_registered`] as a task.
    pub fn new(router: &XrlEndpoint, settings: RibOriginSettings) -> Rc<Self> {
        Rc::new(RibOrigin {
            client: rib::RibClient::new(router, "rib"),
            settings,
            under_way: UnderWay::new(
                Origin::WINDOW as usize,
                "routes did not reach the RIB; it receives everything when it is back",
            ),
            state: RefCell::default(),
            refusal: RefCell::new(None),
            kept: RefCell::new(None),
            note: RefCell::default(),
            changed: Notify::new(),
        })
    }

    /// Returns the origin's name.
    pub fn name(&self) -> &str {
        &self.settings.name
    }

    /// Returns true if the RIB knows the origin: announcements reach it.
    pub fn is_registered(&self) -> bool {
        self.state.borrow().is_registered()
    }

    /// Returns the reason why the RIB takes no routes of the origin, if it refused the registration: for [`crate::Component::degraded`].
    pub fn problem(&self) -> Option<String> {
        let refusal = self.refusal.borrow();
        refusal.as_ref().map(|error| format!("the RIB takes no routes of `{}`: {error}", self.settings.name))
    }

    /// Registers with each RIB that starts, and calls `changed`: on [`RibChange::Registered`] the caller must announce everything.
    /// Never ends.
    pub async fn keep_registered(
        self: Rc<Self>,
        router: XrlEndpoint,
        instance: String,
        changed: impl Fn(RibChange) + 'static,
    ) {
        let Ok(mut lives) = router.watch_class("rib").await else {
            return warn!("the Finder does not report the RIB; nothing is announced");
        };
        while let Some(event) = lives.next().await {
            match event {
                LifeEvent::Death(_) => {
                    self.state.borrow_mut().rib_died();
                    self.refusal.take();
                    self.under_way.clear();
                    changed(RibChange::Died);
                }
                LifeEvent::Birth(_) => match call_successor(async || self.register(&instance).await).await {
                    Ok(kept) => {
                        self.refusal.take();
                        info!(origin = self.settings.name, stale = kept.routes, "registered with the RIB");
                        self.state.borrow_mut().registered();
                        self.kept.borrow_mut().get_or_insert(kept);
                        self.send_note();
                        changed(RibChange::Registered);
                    }
                    // That RIB died, and the next one is sent everything.
                    Err(error @ (XrlError::Disconnected(_) | XrlError::UnknownTarget(_))) => {
                        info!(%error, "no RIB to register with");
                    }
                    Err(error) => {
                        warn!(event = "rib.origin.refused", %error, "the RIB refused the origin");
                        self.refusal.replace(Some(error.to_string()));
                    }
                },
            }
            self.changed.notify_waiters();
        }
    }

    async fn register(&self, instance: &str) -> Result<Kept, XrlError> {
        let s = &self.settings;
        let request = rib::RegisterOriginRequest {
            origin: s.name.clone(),
            target: instance.into(),
            table: s.table.0,
            distance: s.distance.0.into(),
            external: s.external,
            grace_seconds: u32::try_from(s.grace.as_secs()).unwrap_or(u32::MAX),
            kinds: s.kinds.clone(),
        };
        let reply = self.client.register_origin(request).await?;
        Ok(Kept { routes: reply.stale_routes, note: reply.note })
    }

    /// Waits for the first registration, and returns what the RIB has kept of an earlier life.
    pub async fn kept(&self) -> Kept {
        loop {
            let changed = self.changed.notified();
            if let Some(kept) = self.kept.borrow().clone() {
                return kept;
            }
            changed.await;
        }
    }

    /// Returns what the RIB has kept of an earlier life; `None` before the first registration.
    pub fn kept_so_far(&self) -> Option<Kept> {
        self.kept.borrow().clone()
    }

    /// Leaves a note for the origin's next process, in place of the note before. The RIB keeps at most 65,536 octets.
    pub fn keep_note(&self, note: Vec<u8>) {
        self.note.replace(note);
        self.send_note();
    }

    fn send_note(&self) {
        let note = self.note.borrow().clone();
        if note.is_empty() || !self.is_registered() {
            return; // a RIB that registers the origin is sent the note
        }
        let (origin, table) = (self.settings.name.clone(), self.settings.table.0);
        let call = self.client.keep_note(rib::KeepNoteRequest { origin, table, note });
        self.client.flush();
        tokio::task::spawn_local(async move {
            if let Err(error) = call.await {
                warn!(%error, "the next process will know less of this one");
            }
        });
    }

    /// Returns true if a batch would go out at once.
    pub fn has_room(&self) -> bool {
        self.is_registered() && self.under_way.has_room()
    }

    /// Returns the delay before the next batch is collected, after a full or partial batch; see
    /// [`Origin::next_batch_delay`].
    pub fn next_batch_delay(&self, was_full: bool) -> Duration {
        self.read_replies();
        self.state.borrow().next_batch_delay(was_full)
    }

    /// Returns true if the RIB allows changes to be coalesced: nothing depends on the origin's routes there.
    pub fn may_coalesce(&self) -> bool {
        self.read_replies();
        !self.state.borrow().coalesce().is_zero()
    }

    fn read_replies(&self) {
        if let Some(reply) = self.under_way.newest_reply() {
            self.state.borrow_mut().answered(Duration::from_millis(reply.coalesce_ms.into()));
        }
    }

    /// Sends a batch; batches arrive in the order of the calls. Call [`RibOrigin::room`] before, or memory grows.
    pub fn send<P: Prefix>(&self, batch: &RouteBatch<P>) {
        if !self.is_registered() || batch.is_empty() {
            return; // a RIB that comes to life receives everything
        }
        let request = rib::UpdateRoutesRequest {
            origin: self.settings.name.clone(),
            table: self.settings.table.0,
            family: P::ID.0.into(),
            packed: sluice_xrl::routes::encode_routes(batch),
            sets: Vec::new(),
            routes: Vec::new(),
        };
        self.under_way.push(self.client.update_routes(request));
    }

    /// Reports to the RIB whether packets can be sent through gateways of the origin's routes. Goes out at once, after the batches that were sent
    /// before.
    pub fn set_usable(&self, gateways: &[IpAddr], usable: bool) {
        if !self.is_registered() {
            return; // the next life of the origin begins with all of them usable
        }
        let request = rib::SetGatewaysUsableRequest {
            origin: self.settings.name.clone(),
            table: self.settings.table.0,
            gateways: gateways.iter().copied().map(Into::into).collect(),
            usable,
        };
        let call = self.client.set_gateways_usable(request);
        self.client.flush();
        tokio::task::spawn_local(async move {
            if let Err(error) = call.await {
                warn!(%error, "the RIB does not know which gateways are lost; routes change one by one");
            }
        });
    }

    /// Waits until a batch would go out at once.
    pub async fn room(&self) {
        while !self.is_registered() {
            self.changed.notified().await;
        }
        self.under_way.room().await;
    }

    /// Ends the origin for good: the RIB drops its routes at once, not after their grace time.
    pub async fn unregister(&self) {
        self.under_way.drain().await;
        let request =
            rib::UnregisterOriginRequest { origin: self.settings.name.clone(), table: self.settings.table.0 };
        if let Err(error) = self.client.unregister_origin(request).await {
            warn!(%error, "the RIB keeps the routes until their grace time is over");
        }
    }

    /// Returns true if the RIB waits for the end of the refresh, once for each registration.
    pub fn is_refresh_due(&self) -> bool {
        self.state.borrow().refresh_due().is_some()
    }

    /// Notifies the RIB, if the RIB waits for the end of the refresh, that every route has been announced, and that the
    /// RIB may sweep the routes of an earlier life not announced again. Waits for calls under way.
    ///
    /// # Errors
    ///
    /// If the RIB cannot be reached; or if no route was announced since the registration, because then every route of
    /// the earlier life would be swept, unless `even_all` states that the origin has no routes.
    pub async fn end_of_refresh(&self, even_all: bool) -> Result<(), XrlError> {
        let due = self.state.borrow().refresh_due();
        self.under_way.drain().await;
        // A RIB that registered the origin meanwhile has not been announced everything.
        if due.is_none() || self.state.borrow().refresh_due() != due {
            return Ok(());
        }
        let request = rib::EndOfRefreshRequest {
            origin: self.settings.name.clone(),
            table: self.settings.table.0,
            even_all,
        };
        self.client.end_of_refresh(request).await?;
        self.state.borrow_mut().end_refresh(true);
        Ok(())
    }

    /// Ends the refresh in the background, for an origin that knows all its routes and may have none. Does nothing without
    /// a registration: call it again after the next registration.
    pub fn end_refresh(self: &Rc<Self>) {
        if !self.is_registered() {
            return;
        }
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move {
            if let Err(error) = me.end_of_refresh(true).await {
                warn!(origin = me.settings.name, %error, "the RIB keeps stale routes until their grace time is over");
            }
        });
    }
}
