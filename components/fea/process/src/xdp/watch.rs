//! The watch over the host's facts: a thread that reads the kernel's notices and tables, and sends the facts to the
//! process. Reading a table of routes would block the process for too long.

use super::facts::{self, Fact};
use super::settings;
use crate::linux::netlink::decode;
use crate::linux::netlink::encode::Messages;
use crate::linux::netlink::number::RTM_GETROUTE;
use crate::linux::netlink::socket::{DATAGRAM, Socket};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;
use sluice_base::{Family, InterfaceIndex, Mac};
use sluice_fea::engine::PROTOCOL;
use sluice_fea::xdp::ForeignRoute;
use sluice_fea::xdp::obstacles::Obstacles;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// A message of the watch.
#[derive(Debug)]
pub enum Sighting {
    /// The foreign routes, and the neighbors with a link-layer address.
    Everything {
        /// Foreign routes.
        foreign: Vec<ForeignRoute>,
        /// Neighbors.
        neighbors: BTreeMap<(InterfaceIndex, IpAddr), Mac>,
    },
    /// Changes since the last sighting, in order.
    Facts(Vec<Fact>),
    /// The obstacles, if changed since the last message.
    Obstacles(Obstacles),
    /// The watch ended: the kernel does not answer.
    Failed(io::Error),
}

/// The most sightings that wait for the process; the thread waits beyond, and the kernel's buffer holds new notices.
const WAITING: usize = 64;

/// The longest time between two readings of the obstacles. Some change without a notice.
const REREAD: Duration = Duration::from_secs(2);

/// The shortest time between two readings of the routes, in units of the duration of the last reading.
const REST: u32 = 10;

/// A running watch. Dropping it ends the thread.
#[derive(Debug)]
pub struct Watch {
    stop: Arc<EventFd>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts a watch over this thread's network namespace.
    ///
    /// # Errors
    ///
    /// If the kernel gives no sockets.
    pub fn start() -> io::Result<(Self, mpsc::Receiver<Sighting>)> {
        let (sender, receiver) = mpsc::channel(WAITING);
        let stop = Arc::new(EventFd::new()?);
        let watcher = Watcher::new(Arc::clone(&stop), sender)?;
        let thread = std::thread::Builder::new().name("forwarding".into()).spawn(move || watcher.run())?;
        Ok((Watch { stop, thread: Some(thread) }, receiver))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // The receiver is dropped before or with the watch, so that the thread does not wait for the process.
        if self.stop.write(1).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

struct Watcher {
    stop: Arc<EventFd>,
    routes: Socket,
    filter: Option<Socket>,
    sender: mpsc::Sender<Sighting>,
    buffer: Vec<u8>,
    obstacles: Option<Obstacles>,
    /// The earliest moment of the next reading of the routes, if wanted.
    reread_everything: Option<Instant>,
    not_before: Instant,
}

/// The end of the watch.
enum End {
    Asked,
    Failed(io::Error),
}

impl From<io::Error> for End {
    fn from(error: io::Error) -> Self {
        End::Failed(error)
    }
}

impl Watcher {
    fn new(stop: Arc<EventFd>, sender: mpsc::Sender<Sighting>) -> io::Result<Self> {
        let routes = Socket::open()?;
        routes.ignore_routes_of(PROTOCOL)?;
        for group in [
            libc::RTNLGRP_LINK,
            libc::RTNLGRP_NEIGH,
            libc::RTNLGRP_TC,
            libc::RTNLGRP_IPV4_ROUTE,
            libc::RTNLGRP_IPV6_ROUTE,
            libc::RTNLGRP_IPV4_RULE,
            libc::RTNLGRP_IPV6_RULE,
            libc::RTNLGRP_IPV4_NETCONF,
            libc::RTNLGRP_IPV6_NETCONF,
        ] {
            routes.join(group)?;
        }
        // A kernel without the packet filter has no such socket.
        let filter = Socket::open_to_filter().ok().filter(|socket| socket.join(NFNLGRP_NFTABLES).is_ok());
        let now = Instant::now();
        Ok(Watcher {
            stop,
            routes,
            filter,
            sender,
            buffer: vec![0; DATAGRAM],
            obstacles: None,
            reread_everything: Some(now),
            not_before: now,
        })
    }

    fn run(mut self) {
        if let Err(End::Failed(error)) = self.watch() {
            let _ = self.sender.blocking_send(Sighting::Failed(error));
        }
    }

    fn watch(&mut self) -> Result<(), End> {
        self.read_obstacles()?;
        let mut obstacles_read = Instant::now();
        loop {
            if self.reread_everything.is_some_and(|from| from <= Instant::now()) {
                self.read_everything()?;
            }
            let due =
                self.reread_everything.map_or(REREAD, |from| from.saturating_duration_since(Instant::now()));
            let has_notices = self.wait(due.min(REREAD))?;
            let mut is_obstacle = self.drain_filter();
            if has_notices {
                is_obstacle |= self.read_notices()?;
            }
            if is_obstacle || obstacles_read.elapsed() >= REREAD {
                self.read_obstacles()?;
                obstacles_read = Instant::now();
            }
        }
    }

    /// Waits for notices. Returns true if there may be some about links, neighbors and routes.
    fn wait(&self, longest: Duration) -> Result<bool, End> {
        let fd = |fd| PollFd::new(fd, PollFlags::POLLIN);
        let mut fds = vec![fd(self.stop.as_fd()), fd(self.routes.as_fd())];
        fds.extend(self.filter.as_ref().map(|socket| fd(socket.as_fd())));
        // Rounded up, so that the loop does not spin in the last millisecond.
        let timeout = PollTimeout::try_from(longest + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut fds, timeout) {
            Ok(_) | Err(nix::Error::EINTR) => {}
            Err(error) => return Err(End::Failed(error.into())),
        }
        let is_ready = |n: usize| fds.get(n).and_then(PollFd::any).unwrap_or(false);
        if is_ready(0) { Err(End::Asked) } else { Ok(is_ready(1)) }
    }

    /// Drops the notices of the packet filter. Returns true if there were some.
    fn drain_filter(&mut self) -> bool {
        let Some(filter) = &self.filter else { return false };
        let mut had_some = false;
        loop {
            match filter.receive(&mut self.buffer) {
                Ok(Some(_)) => had_some = true,
                // Notices were lost: there were some.
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => had_some = true,
                Ok(None) | Err(_) => return had_some,
            }
        }
    }

    /// Reads notices, and sends the facts. Returns true if an obstacle may have changed.
    fn read_notices(&mut self) -> Result<bool, End> {
        let (mut facts, mut is_obstacle) = (Vec::new(), false);
        // Bounded, so that the process gets the first facts before the last notice of a storm.
        for _ in 0..1024 {
            let datagram = match self.routes.receive(&mut self.buffer) {
                Ok(None) => break,
                Ok(Some(datagram)) => datagram,
                Err(error) if error.raw_os_error() == Some(libc::ENOBUFS) => {
                    is_obstacle = true;
                    self.reread_everything = Some(self.not_before);
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            for fact in decode::messages(datagram).filter_map(|message| facts::fact(&message)) {
                match fact {
                    Fact::Obstacle => is_obstacle = true,
                    // Several IPv6 routes may have one key: the prefix may still have one.
                    Fact::ForeignGone(route) if route.prefix.family() == Family::Ipv6 => {
                        self.reread_everything = Some(self.not_before);
                    }
                    fact => facts.push(fact),
                }
            }
        }
        if !facts.is_empty() {
            self.send(Sighting::Facts(facts))?;
        }
        // A link that goes down takes IPv4 routes along without a notice of each.
        if is_obstacle {
            self.reread_everything.get_or_insert(self.not_before);
        }
        Ok(is_obstacle)
    }

    fn read_everything(&mut self) -> Result<(), End> {
        let start = Instant::now();
        self.reread_everything = None;
        let socket = Socket::open()?;
        let (mut foreign, mut neighbors) = (Vec::new(), BTreeMap::new());
        for family in Family::ALL {
            let mut routes = Messages::default();
            routes.push_dump(RTM_GETROUTE, Some(family), 1);
            let mut of_family = Messages::default();
            facts::push_neighbors(&mut of_family, family);
            for request in [&routes, &of_family] {
                socket.request(request, |message| {
                    match facts::fact(message) {
                        Some(Fact::Foreign(route)) => foreign.push(route),
                        Some(Fact::Neighbor(interface, address, Some(mac))) => {
                            neighbors.insert((interface, address), mac);
                        }
                        _ => {}
                    }
                    ControlFlow::Continue(())
                })?;
            }
        }
        self.not_before = Instant::now() + start.elapsed() * REST;
        self.send(Sighting::Everything { foreign, neighbors })
    }

    fn read_obstacles(&mut self) -> Result<(), End> {
        let obstacles = settings::read()?;
        if self.obstacles.as_ref() != Some(&obstacles) {
            self.obstacles = Some(obstacles.clone());
            self.send(Sighting::Obstacles(obstacles))?;
        }
        Ok(())
    }

    /// Sends a sighting; a closed receiver ends the watch.
    fn send(&self, sighting: Sighting) -> Result<(), End> {
        self.sender.blocking_send(sighting).map_err(|_| End::Asked)
    }
}

/// `NFNLGRP_NFTABLES` (linux/netfilter/nfnetlink.h).
const NFNLGRP_NFTABLES: u32 = 7;
