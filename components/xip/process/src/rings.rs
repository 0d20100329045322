//! Packets that come up by AF_XDP sockets, one for each receive queue of an interface with the program. A queue without a socket leaves
//! packets to the packet socket.

use crate::XipProcess;
use crate::config::PuntPath;
use crate::fast_path::PROGRAM;
use sluice_base::InterfaceIndex;
use sluice_bpf::receiver::Receiver;
use sluice_process::{descriptor, watch};
use sluice_xip::early::EarlyPacket;
use sluice_xip::links::Station;
use sluice_xip::wire::{LinkDestination, Mac};
use sluice_xrl::XrlError;
use sluice_xrl::idl::fea::v1 as fea;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::io::unix::AsyncFd;
use tokio::task::AbortHandle;
use tokio::time::Instant;
use tracing::info;

/// Frames in a socket's memory at most: 1 MiB a socket, so that the sockets of eight queues fit the usual bound of locked memory.
const FRAMES: u32 = 512;
/// Frames read before other tasks run.
const BATCH: u32 = 64;
/// Octets of the header of Ethernet: destination, source, EtherType.
const ETHERNET: usize = 14;
/// The FEA's number for an occupied queue: another socket has the queue, or had the queue a moment ago.
const OCCUPIED: u32 = 3;
/// The pause before an occupied queue is tried again, and the longest time for such tries: the kernel needs milliseconds.
const AGAIN: Duration = Duration::from_millis(20);
const OCCUPIED_FOR: Duration = Duration::from_secs(2);
/// The pause after a refusal.
const RETRY: Duration = Duration::from_secs(30);

/// The reason for a queue without an AF_XDP socket.
#[derive(Debug, thiserror::Error)]
enum RingError {
    /// The FEA refuses, or cannot be reached.
    #[error("{0}")]
    Refused(#[from] XrlError),
    /// The descriptor cannot be fetched, or the kernel refuses memory or rings.
    #[error("no memory or no rings for an AF_XDP socket: {0}")]
    Kernel(#[from] io::Error),
}

/// A socket with its reading task.
struct RingSocket {
    receiver: Rc<RefCell<Receiver>>,
    reader: AbortHandle,
}

/// The sockets of an interface.
#[derive(Default)]
struct InterfaceRings {
    sockets: RefCell<Vec<RingSocket>>,
    /// The number of queues with a place for a socket, once known from the FEA.
    queues: Cell<Option<u32>>,
    /// The reason for a queue without a socket.
    reason: RefCell<Option<String>>,
}

/// The sockets, with the tasks for opening sockets.
#[derive(Default)]
pub(crate) struct Rings {
    interfaces: RefCell<BTreeMap<InterfaceIndex, (Rc<InterfaceRings>, AbortHandle)>>,
    /// Packets by AF_XDP sockets, and by packet sockets.
    pub(crate) by_ring: Cell<u64>,
    pub(crate) by_packet_socket: Cell<u64>,
    /// Packets lost by closed sockets.
    lost_before: Cell<u64>,
}

impl Rings {
    /// Returns true if all queues of an interface have a socket, and otherwise the reason for the first queue without one.
    pub(crate) fn state(&self, index: InterfaceIndex) -> (bool, Option<String>) {
        let interfaces = self.interfaces.borrow();
        let Some((rings, _)) = interfaces.get(&index) else { return (false, None) };
        let open = rings.sockets.borrow().len();
        let is_whole = rings.queues.get().is_some_and(|queues| open == queues as usize);
        (is_whole, rings.reason.borrow().clone())
    }

    /// Returns the number of packets lost because of full memory of a socket.
    pub(crate) fn lost(&self) -> u64 {
        let interfaces = self.interfaces.borrow();
        let now = interfaces.values().map(|(rings, _)| rings.lost()).sum::<u64>();
        self.lost_before.get().saturating_add(now)
    }

    fn close(&self, rings: &InterfaceRings) {
        self.lost_before.set(self.lost_before.get().saturating_add(rings.lost()));
        for socket in rings.sockets.take() {
            socket.reader.abort();
        }
    }
}

impl InterfaceRings {
    fn lost(&self) -> u64 {
        let sockets = self.sockets.borrow();
        // A socket of a vanished interface has nothing more to say.
        let lost = sockets.iter().filter_map(|socket| socket.receiver.borrow().lost().ok());
        lost.map(|lost| lost.full).sum()
    }
}

impl XipProcess {
    /// Closes all AF_XDP sockets, after their last packets: the program hands packets to the packet sockets.
    pub(crate) fn close_rings(&self) {
        let all = std::mem::take(&mut *self.rings.interfaces.borrow_mut());
        for (index, (rings, opening)) in all {
            opening.abort();
            for socket in &*rings.sockets.borrow() {
                while self.read_ring(index, &mut socket.receiver.borrow_mut()) > 0 {}
            }
            self.rings.close(&rings);
        }
        self.flush();
    }

    /// Opens AF_XDP sockets on the wanted interfaces, and closes the sockets of other interfaces.
    pub(crate) fn follow_rings(&self, path: PuntPath, wanted: &BTreeMap<InterfaceIndex, String>) {
        if path == PuntPath::PacketSocket || self.maps.borrow().is_none() {
            self.close_rings();
            return;
        }
        let mut interfaces = self.rings.interfaces.borrow_mut();
        interfaces.retain(|index, (rings, opening)| {
            let stays = wanted.contains_key(index);
            if !stays {
                opening.abort();
                self.rings.close(rings);
            }
            stays
        });
        for (index, name) in wanted {
            interfaces.entry(*index).or_insert_with(|| {
                let rings = Rc::new(InterfaceRings::default());
                let opening = open_all(self.me.clone(), *index, name.clone(), Rc::clone(&rings));
                (rings, tokio::task::spawn_local(opening).abort_handle())
            });
        }
    }

    /// Decides on up to [`BATCH`] packets of a socket, and returns their number.
    fn read_ring(&self, index: InterfaceIndex, receiver: &mut Receiver) -> u32 {
        let count = receiver.receive(BATCH, |frame| {
            let Some((header, octets)) = frame.split_at_checked(ETHERNET) else { return };
            let Some(mac) = header.get(6..12).and_then(|mac| mac.try_into().ok()) else { return };
            let from = Station { interface: index, mac: Mac(mac) };
            // The program leaves frames for other stations and groups to the packet socket.
            self.packet(EarlyPacket::Link { from, link: LinkDestination::ThisHost, octets: octets.to_vec() });
        });
        self.rings.by_ring.set(self.rings.by_ring.get() + u64::from(count));
        count
    }

    /// Opens the socket of a queue. Returns the socket, and the number of queues with a place for a socket.
    async fn open_ring(&self, name: &str, queue: u32) -> Result<(Receiver, u32), RingError> {
        let client = fea::ProgramsClient::new(&self.protocol.frame.router, "fea");
        let request = fea::OpenReceiverRequest { program: PROGRAM.into(), interface: name.into(), queue };
        let opened = client.open_receiver(request).await?;
        let socket = descriptor::fetch(&self.protocol.frame.run_dir, &opened.token).await?;
        let receiver = Receiver::new(socket, FRAMES)?;
        let until = Instant::now() + OCCUPIED_FOR;
        loop {
            match client.start_receiver(fea::StartReceiverRequest { socket: opened.socket }).await {
                Err(XrlError::Application { code: OCCUPIED, .. }) if Instant::now() < until => {
                    tokio::time::sleep(AGAIN).await;
                }
                started => {
                    started?;
                    return Ok((receiver, opened.queues));
                }
            }
        }
    }
}

/// Opens the sockets of all queues of an interface, and tries again after refusals.
async fn open_all(me: Weak<XipProcess>, index: InterfaceIndex, name: String, rings: Rc<InterfaceRings>) {
    loop {
        let queue = rings.sockets.borrow().len() as u32;
        if rings.queues.get().is_some_and(|queues| queue >= queues) {
            return;
        }
        let Some(process) = me.upgrade() else { return };
        let opened = match process.open_ring(&name, queue).await {
            Ok((receiver, queues)) => {
                rings.queues.set(Some(queues));
                reader(&me, index, receiver)
            }
            Err(error) => Err(error),
        };
        match opened {
            Ok(socket) => {
                rings.sockets.borrow_mut().push(socket);
                rings.reason.take();
            }
            Err(error) => {
                let text = error.to_string();
                if rings.reason.replace(Some(text.clone())).as_ref() != Some(&text) {
                    info!(event = "xip.punt.packet-socket", interface = name, %error, "packets of {name} come up by the packet socket: {error}");
                }
                drop(process);
                tokio::time::sleep(RETRY).await;
            }
        }
    }
}

/// Starts to read a socket.
fn reader(me: &Weak<XipProcess>, index: InterfaceIndex, receiver: Receiver) -> Result<RingSocket, RingError> {
    let watched = watch(receiver.socket().try_clone_to_owned()?)?;
    let receiver = Rc::new(RefCell::new(receiver));
    let reading = read(me.clone(), index, Rc::clone(&receiver), watched);
    Ok(RingSocket { receiver, reader: tokio::task::spawn_local(reading).abort_handle() })
}

async fn read(
    me: Weak<XipProcess>,
    index: InterfaceIndex,
    receiver: Rc<RefCell<Receiver>>,
    watched: AsyncFd<OwnedFd>,
) {
    loop {
        let Ok(mut ready) = watched.readable().await else { return };
        let Some(process) = me.upgrade() else { return };
        let count = process.read_ring(index, &mut receiver.borrow_mut());
        if count == 0 {
            ready.clear_ready();
            continue;
        }
        process.flush();
        drop(process);
        // A task that always has packets lets others run.
        tokio::task::yield_now().await;
    }
}
