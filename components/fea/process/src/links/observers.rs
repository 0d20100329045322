//! Observers of neighbors: a socket with the kernel's notices, and the waiting changes of each observer.

use super::kernel::{self, KernelNeighbor, KernelState};
use crate::FeaProcess;
use crate::feed::{self, Feed, Wake};
use crate::linux::netlink::decode;
use crate::linux::netlink::socket::{DATAGRAM, Socket};
use sluice_base::{InterfaceIndex, Mac};
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::idl::fea::v1::{self as pb, neighbor_event::Event};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::rc::{Rc, Weak};
use tracing::warn;

/// The limit of waiting changes for an observer. Beyond, every neighbor is sent again.
const MOST_WAITING: usize = 16_384;
/// Changes of a call.
const MOST_EVENTS: usize = 1024;

/// The links with owners and names.
type Indices = BTreeMap<InterfaceIndex, (String, String)>;

/// The observers, by target.
#[derive(Default)]
pub(super) struct Observers {
    all: RefCell<BTreeMap<String, Rc<Observer>>>,
    reads: Cell<bool>,
}

struct Observer {
    process: Weak<FeaProcess>,
    component: String,
    /// The latest state of each changed neighbor.
    waiting: RefCell<BTreeMap<(String, IpAddr), KernelState>>,
    /// True if every neighbor is to be sent first.
    snapshot: Cell<bool>,
    wake: Wake,
}

impl Observer {
    fn begin_with(&self, indices: &Indices) {
        match kernel::neighbors() {
            Ok(all) => {
                self.waiting.borrow_mut().clear();
                self.snapshot.set(true);
                all.iter().for_each(|neighbor| self.note(indices, neighbor));
                self.wake.wake();
            }
            Err(error) => {
                warn!(event = "fea.neighbor.unread", %error, "the kernel's neighbors cannot be read: {error}");
            }
        }
    }

    fn note(&self, indices: &Indices, neighbor: &KernelNeighbor) {
        let own = indices.get(&neighbor.link).filter(|(owner, _)| *owner == self.component);
        let Some((_, link)) = own else { return };
        let mut waiting = self.waiting.borrow_mut();
        if waiting.len() < MOST_WAITING || matches!(neighbor.state, KernelState::Known(_)) {
            waiting.insert((link.clone(), neighbor.address), neighbor.state);
        }
        self.wake.wake();
    }
}

impl Feed for Observer {
    type Request = pb::NeighborsChangedRequest;

    fn begin(&self) {
        if let Some(process) = self.process.upgrade() {
            self.begin_with(&process.links.indices.borrow());
        }
    }

    fn take(&self) -> Option<pb::NeighborsChangedRequest> {
        let is_whole = self.snapshot.take();
        let mut waiting = self.waiting.borrow_mut();
        let count = if is_whole { waiting.len() } else { MOST_EVENTS };
        let mut events: Vec<Event> = Vec::new();
        if is_whole {
            events.push(Event::SnapshotBegin(true));
        }
        for _ in 0..count {
            let Some(((link, address), state)) = waiting.pop_first() else { break };
            let of = |mac: Option<Mac>| pb::LinkNeighbor {
                link,
                address: Some(address.into()),
                mac: mac.map(|mac| common::Mac { octets: mac.0.into() }),
            };
            events.push(match state {
                KernelState::Known(mac) => Event::Known(of(Some(mac))),
                KernelState::Gone => Event::Gone(of(None)),
                KernelState::Wanted => Event::Wanted(of(None)),
            });
        }
        if is_whole {
            events.push(Event::SnapshotEnd(true));
        }
        if !waiting.is_empty() {
            self.wake.wake();
        }
        let events: Vec<_> =
            events.into_iter().map(|event| pb::NeighborEvent { event: Some(event) }).collect();
        (!events.is_empty()).then_some(pb::NeighborsChangedRequest { events })
    }
}

impl Observers {
    /// Sends every neighbor to every observer.
    pub(super) fn begin_all(&self, indices: &Indices) {
        self.all.borrow().values().for_each(|observer| observer.begin_with(indices));
    }
}

/// Adds an observer of the neighbors on a component's links.
pub(super) fn add(process: &Rc<FeaProcess>, component: String, target: &str) -> io::Result<()> {
    let observers = &process.links.observers;
    if !observers.reads.get() {
        let socket = Socket::open()?;
        socket.join(libc::RTNLGRP_NEIGH)?;
        let watched = crate::ffi::watch(socket.as_fd().try_clone_to_owned()?)?;
        let me = Rc::clone(process);
        tokio::task::spawn_local(async move {
            let mut buffer = vec![0; DATAGRAM];
            while let Ok(mut ready) = watched.readable().await {
                ready.clear_ready();
                drain(&me, &socket, &mut buffer);
                tokio::task::yield_now().await;
            }
        });
        observers.reads.set(true);
    }
    let observer = Rc::new(Observer {
        process: Rc::downgrade(process),
        component,
        waiting: RefCell::default(),
        snapshot: Cell::default(),
        wake: Wake::default(),
    });
    observer.begin();
    if let Some(earlier) = observers.all.borrow_mut().insert(target.into(), Rc::clone(&observer)) {
        earlier.wake.replace();
    }
    let (process, target) = (Rc::clone(process), target.to_owned());
    tokio::task::spawn_local(async move {
        let client = pb::NeighborObserverClient::new(&process.frame.router, &target);
        let call = async |request| client.neighbors_changed(request).await.map(drop);
        feed::run(&process.frame.router, &target, &observer.wake, &*observer, call).await;
        let all = &mut *process.links.observers.all.borrow_mut();
        if all.get(&target).is_some_and(|now| Rc::ptr_eq(now, &observer)) {
            all.remove(&target);
        }
    });
    Ok(())
}

/// Reads the kernel's waiting notices.
fn drain(process: &FeaProcess, socket: &Socket, buffer: &mut [u8]) {
    let links = &process.links;
    loop {
        match socket.receive(buffer) {
            Ok(Some(datagram)) => {
                let indices = links.indices.borrow();
                for neighbor in decode::messages(datagram).filter_map(|message| kernel::neighbor(&message)) {
                    links.observers.all.borrow().values().for_each(|of| of.note(&indices, &neighbor));
                }
            }
            // Notices were lost.
            Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                links.observers.begin_all(&links.indices.borrow());
            }
            Ok(None) | Err(_) => return,
        }
    }
}
