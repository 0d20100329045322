//! The interface `Interfaces`: a subscriber is sent every interface, then every change.

use crate::FeaProcess;
use crate::feed::{self, Feed, Wake};
use sluice_base::{InterfaceEvent, InterfaceIndex};
use sluice_xrl::idl::fea::v1 as pb;
use sluice_xrl::{CallContext, XrlError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};
use tracing::info;

/// The subscribers to interfaces.
#[derive(Default)]
pub(crate) struct Subscribers {
    all: RefCell<BTreeMap<String, Rc<Subscriber>>>,
    links: Links,
    /// True if the path of packets takes programs; `None` before the decision.
    takes_programs: Cell<Option<bool>>,
}

/// The reported links: names, and true for running links.
#[derive(Default)]
struct Links(RefCell<BTreeMap<InterfaceIndex, (String, bool)>>);

impl Links {
    /// Reports a change of a link. Links present at the start are not reported.
    fn report(&self, event: &InterfaceEvent) {
        match event {
            InterfaceEvent::Changed(now) => {
                let before = self.0.borrow_mut().insert(now.index, (now.name.clone(), now.running));
                let (name, mtu) = (&now.name, now.mtu);
                match (before.map(|(_, running)| running), now.running) {
                    (Some(false), true) => {
                        info!(event = "fea.link.up", interface = name, mtu, "{name} is up")
                    }
                    (Some(true), false) => {
                        let reason = if now.admin_up { "no carrier" } else { "switched off" };
                        info!(event = "fea.link.down", interface = name, reason, "{name} is down: {reason}");
                    }
                    _ => {}
                }
            }
            InterfaceEvent::Removed(index) => {
                if let Some((name, _)) = self.0.borrow_mut().remove(index) {
                    info!(event = "fea.link.removed", interface = name, "{name} is gone");
                }
            }
            InterfaceEvent::SnapshotBegin | InterfaceEvent::SnapshotEnd => {}
        }
    }
}

/// A subscriber with its pending changes: the latest state of each interface.
struct Subscriber {
    process: Weak<FeaProcess>,
    waiting: RefCell<BTreeMap<InterfaceIndex, InterfaceEvent>>,
    /// True if the snapshot waits to be sent, before later changes.
    snapshot: Cell<bool>,
    /// True if the state of the path of packets waits to be sent.
    takes_programs: Cell<Option<bool>>,
    wake: Wake,
}

impl Subscriber {
    fn queue(&self, event: InterfaceEvent) {
        let index = match &event {
            InterfaceEvent::Changed(interface) => interface.index,
            InterfaceEvent::Removed(index) => *index,
            InterfaceEvent::SnapshotBegin | InterfaceEvent::SnapshotEnd => return,
        };
        self.waiting.borrow_mut().insert(index, event);
        self.wake.wake();
    }

    fn queue_takes_programs(&self, takes_programs: Option<bool>) {
        self.takes_programs.set(takes_programs);
        self.wake.wake();
    }
}

impl Feed for Subscriber {
    type Request = pb::InterfaceChangedRequest;

    fn take(&self) -> Option<pb::InterfaceChangedRequest> {
        let waiting = self.waiting.take();
        let (snapshot, takes_programs) = (self.snapshot.take(), self.takes_programs.take());
        let begin = snapshot.then_some(InterfaceEvent::SnapshotBegin);
        let end = snapshot.then_some(InterfaceEvent::SnapshotEnd);
        let events: Vec<_> =
            begin.iter().chain(waiting.values()).chain(&end).map(pb::InterfaceEvent::from).collect();
        let is_empty = events.is_empty() && takes_programs.is_none();
        (!is_empty).then_some(pb::InterfaceChangedRequest { events, takes_programs })
    }

    fn begin(&self) {
        let Some(process) = self.process.upgrade() else { return };
        for interface in process.with_core(|core| core.interfaces()).unwrap_or_default() {
            self.queue(InterfaceEvent::Changed(interface));
        }
        self.snapshot.set(true);
        self.queue_takes_programs(process.subscribers.takes_programs.get());
    }
}

impl Subscribers {
    /// Notifies every subscriber.
    pub(crate) fn notify(&self, _shell: &Rc<FeaProcess>, event: InterfaceEvent) {
        self.links.report(&event);
        for subscriber in self.all.borrow().values() {
            subscriber.queue(event.clone());
        }
    }

    /// Notifies every subscriber that the path of packets begins or ends: programs put there before must be put again.
    pub(crate) fn set_takes_programs(&self, takes_programs: bool) {
        self.takes_programs.set(Some(takes_programs));
        for subscriber in self.all.borrow().values() {
            subscriber.queue_takes_programs(Some(takes_programs));
        }
    }

    fn add(&self, process: &Rc<FeaProcess>, target: &str) {
        let subscriber = Rc::new(Subscriber {
            process: Rc::downgrade(process),
            waiting: RefCell::default(),
            snapshot: Cell::default(),
            takes_programs: Cell::default(),
            wake: Wake::default(),
        });
        subscriber.begin();
        // A target that subscribes again starts afresh, and its earlier feed ends.
        if let Some(earlier) = self.all.borrow_mut().insert(target.into(), Rc::clone(&subscriber)) {
            earlier.wake.replace();
        }
        let (process, target) = (Rc::clone(process), target.to_string());
        tokio::task::spawn_local(async move {
            let client = pb::InterfaceObserverClient::new(&process.frame.router, &target);
            let call = async |request| client.interface_changed(request).await.map(drop);
            feed::run(&process.frame.router, &target, &subscriber.wake, &*subscriber, call).await;
            let list = &mut *process.subscribers.all.borrow_mut();
            if list.get(&target).is_some_and(|s| Rc::ptr_eq(s, &subscriber)) {
                list.remove(&target);
            }
        });
    }
}

/// The FEA for handlers of this interface.
pub(crate) struct Served(pub(crate) Rc<FeaProcess>);

impl pb::Interfaces for Served {
    async fn get_interfaces(
        &self,
        _ctx: &CallContext,
        _request: pb::GetInterfacesRequest,
    ) -> Result<pb::GetInterfacesReply, XrlError> {
        let all = self.0.with_core(|core| core.interfaces()).unwrap_or_default();
        // Of this process's network namespace, whatever is mounted at /sys.
        let counters = std::fs::read_to_string("/proc/self/net/dev").unwrap_or_default();
        let interfaces = all.iter().map(|i| {
            let mut message: pb::Interface = i.into();
            let line = counters.lines().find_map(|l| l.trim().strip_prefix(&i.name)?.strip_prefix(':'));
            let numbers: Vec<u64> =
                line.unwrap_or_default().split_whitespace().map(|n| n.parse().unwrap_or(0)).collect();
            let number = |column: usize| numbers.get(column).copied().unwrap_or(0);
            (message.rx_bytes, message.rx_packets, message.rx_errors) = (number(0), number(1), number(2));
            (message.tx_bytes, message.tx_packets, message.tx_errors) = (number(8), number(9), number(10));
            message
        });
        Ok(pb::GetInterfacesReply { interfaces: interfaces.collect() })
    }

    async fn subscribe(
        &self,
        ctx: &CallContext,
        request: pb::SubscribeRequest,
    ) -> Result<pb::SubscribeReply, XrlError> {
        // Events go to targets of the caller only: nobody can have others flooded.
        let router = &self.0.frame.router;
        if router.registrant(&request.target).await? != ctx.principal {
            let subject = format!("interfaces for {}: it is no target of {}", request.target, ctx.principal);
            router.report_refusal(ctx, &subject);
            return Err(XrlError::AccessDenied(subject));
        }
        self.0.subscribers.add(&self.0, &request.target);
        Ok(pb::SubscribeReply {})
    }
}
