//! The services that every component has: status, configuration in two steps, the end, and the steps of a hand-over.

mod succession;

use crate::component::{Component, Frame, Prepared};
use crate::part::{Change, Part, Planned};
use crate::profile::Profile;
use crate::{clock, socket_folder};
use sluice_base::Instant;
use sluice_xrl::idl::common::v1 as pb;
use sluice_xrl::{CallContext, Service, Target, TargetHandle, XrlEndpoint, XrlError};
use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use succession::Succession;
pub use succession::{PREDECESSOR, successor_class};
use tokio::sync::Notify;
use tracing::{error, info};

/// The most reasons of a degraded component in a reply.
const DEGRADED: usize = 16;

/// The services that every component has.
pub(crate) struct Life<C: Component> {
    me: Weak<Life<C>>,
    pub(crate) component: Rc<C>,
    /// The component's name.
    name: String,
    profile: Rc<Profile>,
    router: XrlEndpoint,
    /// The folder of the component's sockets.
    sockets: PathBuf,
    started: Instant,
    readiness: Cell<pb::Readiness>,
    reason: RefCell<String>,
    pub(crate) end: Notify,
    pub(crate) for_good: Cell<bool>,
    part: RefCell<Part>,
    /// The last prepared change, and its transaction.
    prepared: RefCell<Option<(u64, Change, C::Settings)>>,
    /// The pieces received so far of a change.
    pieces: RefCell<Option<(u64, Change)>>,
    /// The registration with the Finder, if there is one.
    pub(crate) registered: Cell<Option<TargetHandle>>,
    succession: Succession,
}

impl<C: Component> Life<C> {
    pub(crate) fn new(component: Rc<C>, frame: Frame) -> Rc<Self> {
        Rc::new_cyclic(|me| Life {
            me: me.clone(),
            component,
            sockets: socket_folder(&frame.run_dir, &frame.name),
            name: frame.name,
            profile: Rc::new(frame.profile),
            router: frame.router,
            started: clock::now(),
            readiness: Cell::new(pb::Readiness::Starting),
            reason: RefCell::new(String::new()),
            end: Notify::new(),
            for_good: Cell::new(false),
            part: RefCell::default(),
            prepared: RefCell::new(None),
            pieces: RefCell::new(None),
            registered: Cell::default(),
            succession: Succession::default(),
        })
    }

    /// Registers under the component's class. Returns the instance's name.
    async fn register(self: &Rc<Self>) -> Result<String, XrlError> {
        let mut services = self.component.services();
        services.extend(self.common_services());
        let target = Target::new(C::CLASS, services).named(&self.name).singleton();
        let handle = self.router.register(target).await?;
        let instance = handle.instance().to_string();
        self.registered.set(Some(handle));
        info!(event = "process.registered", name = self.name, "registered");
        Ok(instance)
    }

    /// Returns the services that every component has.
    fn common_services(self: &Rc<Self>) -> [Service; 3] {
        [
            pb::component_service(Rc::clone(self)),
            pb::profile_service(Rc::clone(&self.profile)),
            crate::events::service(),
        ]
    }

    pub(crate) async fn begin(self: &Rc<Self>) -> Result<(), XrlError> {
        let instance = self.register().await?;
        Rc::clone(&self.component).registered(instance).await;
        Ok(())
    }
}

impl<C: Component> pb::Component for Life<C> {
    async fn get_status(
        &self,
        _ctx: &CallContext,
        _request: pb::GetStatusRequest,
    ) -> Result<pb::GetStatusReply, XrlError> {
        let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF).ok();
        let cpu_ms = usage.map_or(0, |u| {
            let ms = |t: nix::sys::time::TimeVal| t.tv_sec() * 1000 + t.tv_usec() / 1000;
            u64::try_from(ms(u.user_time()) + ms(u.system_time())).unwrap_or(0)
        });
        Ok(pb::GetStatusReply {
            class: C::CLASS.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            readiness: self.readiness.get().into(),
            reason: self.reason.borrow().clone(),
            uptime_ms: u64::try_from(clock::now().saturating_since(self.started).as_millis()).unwrap_or(0),
            memory_bytes: resident_bytes(),
            cpu_ms,
            degraded: self.component.degraded().into_iter().take(DEGRADED).collect(),
        })
    }

    async fn prepare(
        &self,
        _ctx: &CallContext,
        request: pb::PrepareRequest,
    ) -> Result<pb::PrepareReply, XrlError> {
        if self.succession.is_under_way() {
            return Err(XrlError::Busy("it is handed over to another process; try again".into()));
        }
        let change: Change = serde_json::from_str(&request.change)
            .map_err(|e| XrlError::BadArguments(format!("change: {e}")))?;
        let change = {
            let mut pieces = self.pieces.borrow_mut();
            let begun = pieces.take().filter(|(number, _)| *number == request.transaction);
            let whole = match begun {
                Some((_, begun)) => begun.followed_by(change),
                None => change,
            };
            if request.more {
                *pieces = Some((request.transaction, whole));
                return Ok(pb::PrepareReply::default());
            }
            whole
        };
        Rc::clone(&self.component).survey().await;
        let outcome = self.component.prepare(&Planned { part: &self.part.borrow(), change: &change });
        match outcome {
            Ok(Prepared { settings, effects }) => {
                self.prepared.replace(Some((request.transaction, change, settings)));
                Ok(pb::PrepareReply { effects })
            }
            Err(error) => {
                self.prepared.take();
                let reason = error.to_string();
                error!(event = "config.part-refused", reason, "configuration refused");
                Err(XrlError::application(1, reason))
            }
        }
    }

    async fn apply(&self, _ctx: &CallContext, request: pb::ApplyRequest) -> Result<pb::ApplyReply, XrlError> {
        let prepared = self.prepared.take();
        let Some((_, change, settings)) = prepared.filter(|(number, ..)| *number == request.transaction)
        else {
            return Err(XrlError::application(1, "this change was not prepared; prepare it first"));
        };
        Rc::clone(&self.component).apply(settings).await.map_err(|error| {
            let reason = error.to_string();
            error!(event = "config.part-not-applied", reason, "configuration could not be applied");
            XrlError::application(1, reason)
        })?;
        self.part.borrow_mut().apply(change);
        self.readiness.set(pb::Readiness::Ready);
        self.reason.borrow_mut().clear();
        Ok(pb::ApplyReply {})
    }

    async fn abandon(
        &self,
        _ctx: &CallContext,
        request: pb::AbandonRequest,
    ) -> Result<pb::AbandonReply, XrlError> {
        let mut prepared = self.prepared.borrow_mut();
        if prepared.as_ref().is_some_and(|(number, ..)| *number == request.transaction) {
            *prepared = None;
        }
        Ok(pb::AbandonReply {})
    }

    async fn shutdown(
        &self,
        _ctx: &CallContext,
        request: pb::ShutdownRequest,
    ) -> Result<pb::ShutdownReply, XrlError> {
        self.for_good.set(request.for_good);
        self.readiness.set(pb::Readiness::Draining);
        self.end.notify_one();
        Ok(pb::ShutdownReply {})
    }

    async fn hand_over(
        &self,
        _ctx: &CallContext,
        request: pb::HandOverRequest,
    ) -> Result<pb::HandOverReply, XrlError> {
        self.hand_over_to(request.successor, request.no_loss).await
    }

    async fn release(
        &self,
        _ctx: &CallContext,
        _request: pb::ReleaseRequest,
    ) -> Result<pb::ReleaseReply, XrlError> {
        self.give_name_up()?;
        Ok(pb::ReleaseReply {})
    }

    async fn take_over(
        &self,
        _ctx: &CallContext,
        _request: pb::TakeOverRequest,
    ) -> Result<pb::TakeOverReply, XrlError> {
        self.take_over_now().await?;
        Ok(pb::TakeOverReply { version: env!("CARGO_PKG_VERSION").into() })
    }
}

/// The process's resident set.
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0) * 4096
}
