//! Listeners for connecting neighbors: a listener for each family with neighbors. A replacement process gets the listeners with
//! their keys; connections that arrive meanwhile wait in the kernel's queue.

use crate::transport::sockets;
use crate::{BgpProcess, ffi};
use serde::{Deserialize, Serialize};
use sluice_base::IpPrefix;
use sluice_bgp::session::{ConnectionId, Direction};
use sluice_bgp::speaker::control::{Control, Input};
use sluice_process::{HandOverError, Sink, Source};
use sluice_xrl::Life;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::AbortHandle;
use tracing::{debug, info, warn};

/// The wait before the first new attempt to open a listener; doubled after each failure.
const FIRST_RETRY: Duration = Duration::from_secs(1);
/// The longest wait between two attempts.
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// A listener without its socket.
#[derive(Clone, Serialize, Deserialize)]
struct About {
    /// The FEA's number for the listener.
    socket: u64,
    /// Instance and life of the FEA that opened or adopted the listener.
    opened_by: Option<(String, u64)>,
    /// The keys set on the listener.
    passwords: BTreeMap<IpPrefix, String>,
}

struct Listener {
    about: About,
    listener: Rc<TcpListener>,
    /// The task that accepts connections; `None` while no connection may be accepted.
    task: Option<AbortHandle>,
}

impl Listener {
    fn new(about: About, listener: TcpListener) -> Self {
        Listener { about, listener: Rc::new(listener), task: None }
    }

    fn go(&mut self, process: &Rc<BgpProcess>) {
        if self.task.is_none() {
            let task = tokio::task::spawn_local(accept(Rc::clone(process), Rc::clone(&self.listener)));
            self.task = Some(task.abort_handle());
        }
    }

    fn halt(&mut self) {
        if let Some(task) = self.task.take() {
            task.abort();
        }
    }

    async fn close(mut self, process: &BgpProcess) {
        self.halt();
        process.sockets.close(self.about.socket).await;
    }
}

/// The listeners, IPv4 first.
#[derive(Default)]
pub struct Listening {
    listeners: RefCell<[Option<Listener>; 2]>,
    /// The present FEA.
    fea: RefCell<Option<(String, u64)>>,
    /// The reasons why needed listeners are closed, IPv4 first.
    problems: RefCell<[Option<String>; 2]>,
    /// Prefixes whose key could not be set, with the reason. Listen ranges among these prefixes admit no neighbor.
    unkeyed: RefCell<BTreeMap<IpPrefix, String>>,
    /// Failed attempts in a row to open a listener.
    failures: Cell<u32>,
    /// The next attempt.
    retry: Cell<Option<AbortHandle>>,
    /// The lock that serializes changes.
    turn: Mutex<()>,
}

impl Listening {
    /// Notes a new FEA, which adopts the listeners of an earlier FEA at the next [`refresh`].
    pub fn fea_is(&self, life: &Life) {
        self.fea.replace(Some((life.instance.clone(), life.incarnation)));
    }

    /// Returns the reason why no neighbor of a family can connect; `None` if neighbors can connect, or without neighbors.
    pub fn problem(&self, ipv4: bool) -> Option<String> {
        self.problems.borrow()[usize::from(!ipv4)].clone()
    }

    /// Returns the reason why a listen range admits no neighbor despite a listener; `None` without a problem.
    pub fn range_problem(&self, range: IpPrefix) -> Option<String> {
        let unkeyed = self.unkeyed.borrow();
        unkeyed.get(&range).map(|reason| format!("the kernel does not take the password: {reason}"))
    }

    /// Keeps the reason for a closed listener, and reports each change of the reason.
    fn note(&self, ipv4: bool, problem: Option<String>) {
        let family = if ipv4 { "ipv4" } else { "ipv6" };
        let before = self.problems.borrow_mut()[usize::from(!ipv4)].clone();
        match (&before, &problem) {
            (_, Some(reason)) if before != problem => {
                warn!(
                    event = "bgp.listener.failed",
                    family, reason, "no listener: neighbors cannot connect, this router connects to them"
                );
            }
            (Some(_), None) => info!(event = "bgp.listener.open", family, "the listener is open again"),
            _ => {}
        }
        self.problems.borrow_mut()[usize::from(!ipv4)] = problem;
    }

    /// Schedules a further attempt if a listener is not open.
    fn retry_later(&self, process: &Rc<BgpProcess>) {
        let is_complete = self.problems.borrow().iter().all(Option::is_none);
        let next = (!is_complete).then(|| {
            let failures = self.failures.get();
            let wait = FIRST_RETRY * (1 << failures.min(5));
            let process = Rc::clone(process);
            let task = tokio::task::spawn_local(async move {
                tokio::time::sleep(wait.min(LONGEST_RETRY)).await;
                // What follows is a change like any other, and is not to be ended by the next.
                tokio::task::spawn_local(async move { refresh(&process).await });
            });
            self.failures.set(failures.saturating_add(1));
            task.abort_handle()
        });
        if is_complete {
            self.failures.set(0);
        }
        if let Some(before) = self.retry.replace(next) {
            before.abort();
        }
    }

    /// Stops accepting connections.
    pub fn halt(&self) {
        self.listeners.borrow_mut().iter_mut().flatten().for_each(Listener::halt);
    }

    /// Accepts connections, waiting connections first.
    pub fn go(&self, process: &Rc<BgpProcess>) {
        self.listeners.borrow_mut().iter_mut().flatten().for_each(|listener| listener.go(process));
    }
}

impl BgpProcess {
    /// Follows the FEA: the interfaces, from which sessions' next hops are made, and the opened listeners. Never ends.
    pub(crate) async fn follow_fea(self: Rc<Self>, instance: String) {
        let started = async |life| {
            self.listening.fea_is(&life);
            refresh(&self).await;
        };
        sluice_process::follow_fea(self.frame.router.clone(), instance, started).await;
    }
}

/// Opens, closes and keys listeners for the configured neighbors; a new FEA adopts open listeners. Does nothing during a live upgrade: the
/// work is done when the process resumes, or by the replacement.
pub async fn refresh(process: &Rc<BgpProcess>) {
    let _turn = process.listening.turn.lock().await;
    if process.handover.is_asleep() {
        return;
    }
    let wanted: BTreeMap<IpPrefix, Option<String>> = process.read(wanted_passwords).unwrap_or_default();
    for (place, ipv4) in [true, false].into_iter().enumerate() {
        let mut passwords: BTreeMap<IpPrefix, String> = BTreeMap::new();
        let mut any = false;
        for (prefix, password) in wanted.iter().filter(|(p, _)| p.addr().is_ipv4() == ipv4) {
            any = true;
            passwords.extend(password.clone().map(|p| (*prefix, p)));
        }
        if any {
            adopt(process, place).await;
        }
        let old = process.listening.listeners.borrow_mut()[place].take();
        let kept = match old {
            Some(old) if any && old.about.opened_by == *process.listening.fea.borrow() => Some(old),
            Some(old) => {
                old.close(process).await;
                None
            }
            None => None,
        };
        let listener = match kept {
            Some(listener) => Ok(Some(listener)),
            None if any => open(process, ipv4).await.map(Some),
            None => Ok(None),
        };
        let listener = listener.map_err(|error| process.listening.note(ipv4, Some(error.to_string())));
        let Ok(listener) = listener else { continue };
        process.listening.note(ipv4, None);
        if let Some(mut listener) = listener {
            set_passwords(process, &mut listener.about, passwords).await;
            let least = process.read(|control| least_ttl(control, ipv4)).flatten();
            if let Err(error) = protect(&listener.listener, ipv4, least) {
                warn!(%error, "the listener takes packets from far away");
            }
            listener.go(process);
            process.listening.listeners.borrow_mut()[place] = Some(listener);
        }
    }
    process.listening.retry_later(process);
}

/// Returns the prefixes from which neighbors may connect, with keys.
fn wanted_passwords(control: &Control) -> BTreeMap<IpPrefix, Option<String>> {
    let mut wanted = BTreeMap::new();
    let ranges = control.listen_ranges().filter(|range| range.template.enabled);
    wanted.extend(ranges.map(|range| (range.prefix, range.template.password.clone())));
    for address in control.neighbors() {
        // Dynamic neighbors have the key of their range.
        let config = control.neighbor_config(address).filter(|config| config.range.is_none());
        let host = IpPrefix::new(address, if address.is_ipv4() { 32 } else { 128 });
        wanted.extend(host.zip(config).map(|(host, config)| (host, config.password.clone())));
    }
    wanted
}

/// Returns the lowest `min_ttl` of a family's neighbors and listen ranges; `None` if a neighbor has no bound.
fn least_ttl(control: &Control, ipv4: bool) -> Option<u8> {
    let ranges = control.listen_ranges().filter(|range| range.template.enabled);
    let ranges =
        ranges.filter(|range| range.prefix.addr().is_ipv4() == ipv4).map(|range| range.template.min_ttl());
    let neighbors = control.neighbors().filter(|address| address.is_ipv4() == ipv4);
    let neighbors =
        neighbors.filter_map(|address| control.neighbor_config(address)).map(|config| config.min_ttl());
    let all: Option<Vec<u8>> = ranges.chain(neighbors).collect();
    all?.into_iter().min()
}

/// Has the kernel drop packets to a listener with a lower TTL, before connections are accepted, and keep the first packet of each
/// accepted connection (RFC 5082, section 3).
fn protect(listener: &TcpListener, ipv4: bool, least: Option<u8>) -> io::Result<()> {
    ffi::set_min_ttl(listener, ipv4, least.unwrap_or(0))?;
    ffi::save_syn(listener)
}

/// Gives the replacement the listeners. The old process keeps copies, for an abandoned upgrade.
pub async fn hand_over(process: &BgpProcess, to: &mut Sink) -> Result<(), HandOverError> {
    let _turn = process.listening.turn.lock().await;
    for place in [0, 1] {
        let held = process.listening.listeners.borrow()[place]
            .as_ref()
            .map(|listener| (listener.about.clone(), Rc::clone(&listener.listener)));
        let Some((about, listener)) = held else {
            to.put(&None::<About>).await?;
            continue;
        };
        let shared = process.sockets.share(about.socket, to.successor()).await;
        shared.map_err(|error| HandOverError::component(format!("the listener is not shared: {error}")))?;
        to.put(&Some(about)).await?;
        to.put_descriptor(listener.as_fd()).await?;
    }
    Ok(())
}

/// The counterpart of [`hand_over`]: no connection is accepted before [`Listening::go`].
pub async fn take_over(process: &BgpProcess, from: &mut Source) -> Result<(), HandOverError> {
    for place in [0, 1] {
        let Some(about) = from.take::<Option<About>>().await? else { continue };
        let listener = std::net::TcpListener::from(from.take_descriptor().await?);
        let listener = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener))?;
        process.listening.fea.replace(about.opened_by.clone());
        process.listening.listeners.borrow_mut()[place] = Some(Listener::new(about, listener));
    }
    Ok(())
}

async fn open(process: &Rc<BgpProcess>, ipv4: bool) -> io::Result<Listener> {
    let opened_by = process.listening.fea.borrow().clone();
    let (socket, listener) = process.sockets.listen(ipv4).await?;
    Ok(Listener::new(About { socket, opened_by, passwords: BTreeMap::new() }, listener))
}

/// Has a new FEA adopt a listener, which goes on accepting meanwhile. After a refusal the listener is opened anew.
async fn adopt(process: &BgpProcess, place: usize) {
    let fea = process.listening.fea.borrow().clone();
    let orphan = process.listening.listeners.borrow()[place]
        .as_ref()
        .filter(|held| held.about.opened_by != fea)
        .map(|held| Rc::clone(&held.listener));
    let Some(listener) = orphan else { return };
    match process.sockets.adopt(&listener).await {
        Ok(socket) => {
            if let Some(held) = process.listening.listeners.borrow_mut()[place].as_mut() {
                (held.about.socket, held.about.opened_by) = (socket, fea);
            }
        }
        Err(error) => warn!(%error, "the FEA does not adopt a listener: it is opened anew"),
    }
}

async fn set_passwords(process: &BgpProcess, listener: &mut About, wanted: BTreeMap<IpPrefix, String>) {
    let all: BTreeSet<IpPrefix> = listener.passwords.keys().chain(wanted.keys()).copied().collect();
    for prefix in all {
        let (old, new) = (listener.passwords.get(&prefix), wanted.get(&prefix));
        if old == new {
            continue;
        }
        let new = new.map(String::as_str);
        let set = process.sockets.set_password(listener.socket, prefix, new).await;
        let mut unkeyed = process.listening.unkeyed.borrow_mut();
        unkeyed.remove(&prefix);
        if let Err(error) = set {
            warn!(%prefix, %error, "the password is not set: neighbors of the prefix cannot connect");
            unkeyed.insert(prefix, error.to_string());
        }
    }
    listener.passwords = wanted;
}

async fn accept(process: Rc<BgpProcess>, listener: Rc<TcpListener>) {
    process.snapshot.known().await;
    loop {
        match listener.accept().await {
            Ok((stream, remote)) => take(&process, stream, remote.ip().to_canonical()),
            Err(error) => {
                // Out of descriptors, most likely: others may close some meanwhile.
                warn!(%error, "a connection could not be accepted");
                tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            }
        }
    }
}

fn take(process: &Rc<BgpProcess>, stream: TcpStream, remote: IpAddr) {
    // An address that is refused costs no more than this: nothing is allocated for it.
    process.input(Input::Offered(remote));
    let Some((config, internal)) = process.neighbor(remote) else {
        return debug!(%remote, "a stranger connected");
    };
    let number = process.accepted.get();
    process.accepted.set(number.wrapping_add(1));
    let id = ConnectionId { direction: Direction::Incoming, number };
    if config.range.is_some_and(|range| process.listening.unkeyed.borrow().contains_key(&range)) {
        debug!(%remote, "the password of the listen range is not set");
        return process.lost(remote, id);
    }
    if let Err(error) = sockets::adopt(&stream, &config, internal) {
        debug!(%remote, %error, "a connection broke at once");
        return process.lost(remote, id);
    }
    process.new_connection((remote, id));
    process.opened(remote, id, stream);
}
