//! The Linux kernel as a forwarding engine.
//!
//! Four sockets: a socket that writes routes and next hops, whose own notices are filtered out by the kernel; a
//! socket that configures interfaces, whose notices are wanted; a socket for notices; a socket for dumps.

pub mod leftovers;
pub mod netlink;
mod read;
mod switch;

use crate::linux::netlink::decode::{self, Message};
use crate::linux::netlink::encode::Messages;
use crate::linux::netlink::number::*;
use crate::linux::netlink::socket::{DATAGRAM, Socket};
use crate::linux::switch::Switch;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use sluice_base::Family;
use sluice_fea::engine::{Capability, PREFERENCE, PROTOCOL, RouteReader};
use sluice_fea::{Engine, EngineOp, Notice, Refusal, RefusalKind, Refused};
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use tracing::debug;

/// Messages in a datagram. The gain ends at 16; more messages hold the kernel's lock for longer.
const BATCH: usize = 128;

/// The most datagrams read by a poll.
const POLL: usize = 64;

/// The number of restarts of a dump because of changes of the kernel's tables. The last dump is accepted with such changes, which
/// were reported meanwhile.
const RETRIES: u32 = 3;

/// The kernel's setting by which the next address of a subnet replaces a removed first address.
const PROMOTION: &str = "/proc/sys/net/ipv4/conf/all/promote_secondaries";

/// The dumps of a snapshot, in order: next hops before routes.
const SNAPSHOT: [(u16, Option<Family>); 5] = [
    (RTM_GETLINK, None),
    (RTM_GETADDR, None),
    (RTM_GETNEXTHOP, None),
    (RTM_GETROUTE, Some(Family::Ipv4)),
    (RTM_GETROUTE, Some(Family::Ipv6)),
];

/// A dump under way.
#[derive(Debug)]
struct Dump {
    waiting: VecDeque<(u16, Option<Family>)>,
    sequence: u32,
    retries: u32,
    interrupted: bool,
}

/// The engine.
#[derive(Debug)]
pub struct LinuxEngine {
    writer: Socket,
    configurer: Socket,
    monitor: Socket,
    dumper: Socket,
    /// Readable when the monitor or the dumper is. A replaced dumper is watched too.
    readiness: Epoll,
    dump: Option<Dump>,
    /// The switches for forwarding, by family: opened once, and so tied to the namespace of that time.
    forwarding: [Switch; 2],
    messages: Messages,
    buffer: Vec<u8>,
    sequence: u32,
}

impl LinuxEngine {
    /// The kernel of this network namespace. Prepares it: next-hop objects stand for
    /// themselves (`net.ipv4.nexthop_compat_mode=0`), so a change of an object is no change of the routes, and the removal of an address
    /// removes no further addresses (`net.ipv4.conf.all.promote_secondaries=1`).
    pub fn open() -> io::Result<Self> {
        let (writer, monitor) = (Socket::open()?, Socket::open()?);
        monitor.ignore(writer.port(), PROTOCOL, PREFERENCE)?;
        for group in [
            libc::RTNLGRP_LINK,
            libc::RTNLGRP_IPV4_IFADDR,
            libc::RTNLGRP_IPV6_IFADDR,
            libc::RTNLGRP_IPV4_ROUTE,
            libc::RTNLGRP_IPV6_ROUTE,
            libc::RTNLGRP_NEXTHOP,
            libc::RTNLGRP_IPV4_NETCONF,
            libc::RTNLGRP_IPV6_NETCONF,
        ] {
            monitor.join(group)?;
        }
        let compat_mode = "/proc/sys/net/ipv4/nexthop_compat_mode";
        let refused = |e: io::Error| io::Error::new(e.kind(), format!("{compat_mode} must be 0: {e}"));
        Switch::open(compat_mode)?.set(false).map_err(refused)?;
        // Without it, the kernel removes the other addresses of a subnet with the first one. Where it cannot be set, they are set again.
        if let Err(error) = Switch::open(PROMOTION).and_then(|promotion| promotion.set(true)) {
            debug!(%error, "{PROMOTION} stays as it is");
        }
        let (dumper, readiness) = (Socket::open()?, Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?);
        for socket in [&monitor, &dumper] {
            readiness.add(socket, EpollEvent::new(EpollFlags::EPOLLIN, 0))?;
        }
        Ok(LinuxEngine {
            writer,
            configurer: Socket::open()?,
            monitor,
            dumper,
            readiness,
            dump: None,
            forwarding: [
                Switch::open("/proc/sys/net/ipv4/ip_forward")?,
                Switch::open("/proc/sys/net/ipv6/conf/all/forwarding")?,
            ],
            messages: Messages::default(),
            buffer: vec![0; DATAGRAM],
            sequence: 0,
        })
    }

    /// Returns the descriptor that is readable when a poll may find notices or parts of a snapshot.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.readiness.0.as_fd()
    }

    /// Sends the messages gathered so far, for the operations from `first` on, and reads the refusals.
    fn flush(&mut self, ops: &[EngineOp], base: u32, configure: bool, refused: &mut Vec<Refused>) {
        if self.messages.is_empty() {
            return;
        }
        let socket = if configure { &self.configurer } else { &self.writer };
        if let Err(e) = socket.send(self.messages.octets()) {
            // Nothing of the datagram was done.
            let last = self.sequence.wrapping_sub(base) as usize;
            let from = last.saturating_sub(self.messages.len());
            let all = (from..last).map(|index| Refused { index, refusal: refusal(&ops[index], &e, None) });
            refused.extend(all);
        }
        self.messages.clear();
        loop {
            match socket.receive(&mut self.buffer) {
                Ok(None) => return,
                Ok(Some(datagram)) => {
                    for message in decode::messages(datagram).filter(|m| m.kind == NLMSG_ERROR) {
                        let Some((code, words)) = decode::error(&message) else { continue };
                        let index = message.sequence.wrapping_sub(base) as usize;
                        if let (Some(op), true) = (ops.get(index), code != 0) {
                            let error = io::Error::from_raw_os_error(code);
                            refused.push(Refused { index, refusal: refusal(op, &error, words) });
                        }
                    }
                }
                // Only a batch refused as a whole could fill the buffer, and it does not: see `BUFFER`.
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => {}
                Err(_) => return,
            }
        }
    }

    /// Returns the switch for forwarding of a family.
    fn switch(&self, family: Family) -> &Switch {
        let [ipv4, ipv6] = &self.forwarding;
        match family {
            Family::Ipv4 => ipv4,
            Family::Ipv6 => ipv6,
        }
    }

    fn poll_monitor(&mut self, notices: &mut Vec<Notice>) -> bool {
        for _ in 0..POLL {
            match self.monitor.receive(&mut self.buffer) {
                Ok(None) => return false,
                Ok(Some(datagram)) => {
                    let sources = self.messages.sources;
                    notices
                        .extend(decode::messages(datagram).filter_map(|m| decode::notice_with(&m, &sources)));
                }
                Err(e) if e.raw_os_error() == Some(libc::ENOBUFS) => notices.push(Notice::Overrun),
                Err(_) => return false,
            }
        }
        true
    }

    fn poll_dump(&mut self, notices: &mut Vec<Notice>) -> bool {
        for _ in 0..POLL {
            let Some(dump) = &mut self.dump else { return false };
            let sequence = dump.sequence;
            let datagram = match self.dumper.receive(&mut self.buffer) {
                Ok(None) => return false,
                Ok(Some(datagram)) => datagram,
                Err(_) => {
                    dump.interrupted = true;
                    self.next_dump(notices);
                    continue;
                }
            };
            let mut done = false;
            for message in decode::messages(datagram).filter(|m: &Message<'_>| m.sequence == sequence) {
                dump.interrupted |= message.flags & NLM_F_DUMP_INTR != 0;
                done |= matches!(message.kind, NLMSG_DONE | NLMSG_ERROR);
                notices.extend(decode::notice_with(&message, &self.messages.sources));
            }
            if done {
                self.next_dump(notices);
            }
        }
        true
    }

    /// Goes on with the next part of the snapshot, or restarts an interrupted dump.
    fn next_dump(&mut self, notices: &mut Vec<Notice>) {
        let Some(dump) = &mut self.dump else { return };
        if dump.interrupted && dump.retries < RETRIES {
            dump.retries += 1;
        } else {
            dump.waiting.pop_front();
            dump.retries = 0;
        }
        dump.interrupted = false;
        if dump.waiting.is_empty() {
            self.dump = None;
            notices.push(Notice::SnapshotEnd);
        } else {
            self.send_dump();
        }
    }

    fn send_dump(&mut self) {
        let Some(dump) = &mut self.dump else { return };
        let Some((kind, family)) = dump.waiting.front() else { return };
        dump.sequence = dump.sequence.wrapping_add(1);
        let mut request = Messages::default();
        request.push_dump(*kind, *family, dump.sequence);
        if self.dumper.send(request.octets()).is_err() {
            // The socket still carries the last dump; the request goes out when that has ended.
            dump.interrupted = true;
        }
    }
}

impl Engine for LinuxEngine {
    fn name(&self) -> &str {
        "linux"
    }

    fn capabilities(&self) -> &[Capability] {
        &[Capability::Unicast, Capability::Host]
    }

    fn apply(&mut self, ops: &[EngineOp], refused: &mut Vec<Refused>) {
        let base = self.sequence;
        let mut configuring = false;
        for (index, op) in ops.iter().enumerate() {
            // Notices of what is done to the host are wanted; those of routes are not.
            let configure = op.capability() == Capability::Host;
            if configure != configuring || self.messages.len() == BATCH {
                self.flush(ops, base, configuring, refused);
                configuring = configure;
            }
            if let EngineOp::SetForwarding { family, enabled } = op {
                self.sequence = self.sequence.wrapping_add(1);
                if let Err(e) = self.switch(*family).set(*enabled) {
                    refused.push(Refused { index, refusal: refusal(op, &e, None) });
                }
                continue;
            }
            if let EngineOp::SetSource { family, source } = op {
                self.sequence = self.sequence.wrapping_add(1);
                self.messages.sources.set(*family, *source);
                continue;
            }
            if !self.messages.push(op, self.sequence) {
                let e = io::Error::from(io::ErrorKind::Unsupported);
                refused.push(Refused { index, refusal: refusal(op, &e, None) });
            }
            self.sequence = self.sequence.wrapping_add(1);
        }
        self.flush(ops, base, configuring, refused);
    }

    fn poll(&mut self, notices: &mut Vec<Notice>) -> bool {
        let fresh = self.dump.as_ref().is_some_and(|d| d.sequence == 0);
        if fresh {
            notices.push(Notice::SnapshotBegin);
            let forwards = |family| Some(Notice::ForwardingIs(family, self.switch(family).is_on().ok()?));
            notices.extend(Family::ALL.into_iter().filter_map(forwards));
            self.send_dump();
        }
        let more = self.poll_monitor(notices);
        self.poll_dump(notices) || more
    }

    fn request_snapshot(&mut self) {
        // A new socket: what the old one still carries is of no interest any more.
        if self.dump.is_some()
            && let Ok(socket) = Socket::open()
            && self.readiness.add(&socket, EpollEvent::new(EpollFlags::EPOLLIN, 0)).is_ok()
        {
            // Closing the old socket ends the watch over it.
            self.dumper = socket;
        }
        let waiting = SNAPSHOT.into_iter().collect();
        self.dump = Some(Dump { waiting, sequence: 0, retries: 0, interrupted: false });
    }

    fn reader(&self) -> Option<Box<dyn RouteReader>> {
        Some(Box::new(read::KernelReader))
    }
}

/// Returns the refusal of an operation from an error number and the kernel's message, if any.
fn refusal(op: &EngineOp, error: &io::Error, words: Option<String>) -> Refusal {
    let kind = match error.raw_os_error() {
        Some(libc::EEXIST) => RefusalKind::Exists,
        Some(libc::ESRCH | libc::ENOENT | libc::ENODEV | libc::EADDRNOTAVAIL) => RefusalKind::NotFound,
        Some(libc::ENOBUFS | libc::ENOMEM | libc::EBUSY | libc::EAGAIN) => RefusalKind::Resources,
        _ => RefusalKind::Invalid,
    };
    let foreign = matches!(op, EngineOp::SetRoute { .. }) && kind == RefusalKind::Exists;
    let words = if foreign { Some("another program's route stands there".to_owned()) } else { words };
    let reason = match words {
        Some(words) => format!("{words} ({error})"),
        None => error.to_string(),
    };
    Refusal { kind, reason }
}
