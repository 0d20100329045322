//! AF_XDP sockets to which programs of other components hand frames ([`sluice_bpf::receiver`]).
//!
//! A component with a program in the chain asks for a socket, fetches the descriptor, makes the socket's rings in its own memory and asks
//! for the start. Then the FEA binds the socket and puts it into the program's map. The FEA keeps no descriptor after the start:
//! when the component's process ends, the kernel takes the socket out of the map.

use super::programs::{NOT_AVAILABLE, row};
use crate::FeaProcess;
use sluice_bpf::receiver::{self, Receivers};
use sluice_bpf::{BpfError, Loaded};
use sluice_fea::xdp::programs::ProgramRow;
use sluice_xrl::idl::fea::v1 as pb;
use sluice_xrl::{CallContext, XrlError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

/// The number of the refusal of a queue to which another socket is bound, or was a moment ago.
const OCCUPIED: u32 = 3;

/// Sockets of one process that wait for their start.
const MOST_WAITING: usize = 64;

/// A socket that waits for its start.
#[derive(Debug)]
struct Waiting {
    pid: u32,
    row: &'static ProgramRow,
    interface: String,
    queue: u32,
    socket: Rc<OwnedFd>,
}

/// The sockets, and the maps of programs.
#[derive(Default)]
pub(super) struct FrameSockets {
    /// The maps of sockets, by the program's name.
    maps: RefCell<BTreeMap<&'static str, Receivers>>,
    waiting: RefCell<BTreeMap<u64, Waiting>>,
    last: std::cell::Cell<u64>,
}

impl FrameSockets {
    /// Takes the map of a loaded program in the place of that of the program before: no socket is in it yet.
    pub(super) fn loaded(&self, row: &ProgramRow, loaded: &Loaded) -> Result<(), BpfError> {
        if let Some(name) = row.receivers {
            self.maps.borrow_mut().insert(row.name, Receivers::new(loaded, name)?);
        }
        Ok(())
    }

    /// Forgets the map of a program.
    pub(super) fn unloaded(&self, row: &ProgramRow) {
        self.maps.borrow_mut().remove(row.name);
    }

    /// Forgets all maps.
    pub(super) fn clear(&self) {
        self.maps.take();
    }

    /// Drops the sockets of a process that has ended.
    pub(super) fn ended(&self, pid: u32) {
        self.waiting.borrow_mut().retain(|_, waiting| waiting.pid != pid);
    }
}

/// Makes a socket for frames of an interface that the caller's program sees.
pub(super) async fn open(
    process: &FeaProcess,
    ctx: &CallContext,
    request: pb::OpenReceiverRequest,
) -> Result<pb::OpenReceiverReply, XrlError> {
    let row = row(&request.program)?;
    let (pid, components) = process.sockets.components_of_caller(ctx).await?;
    process.programs.permitted(&components, row.name)?;
    if row.receivers.is_none() || !process.programs.sees(row, &request.interface) {
        let text = format!("the program `{}` hands no frames of {} to sockets", row.name, request.interface);
        return Err(XrlError::BadArguments(text));
    }
    let is_port = process.fast_path.with(|path| {
        let index = path.indices().find(|(name, _)| *name == request.interface).map(|(_, index)| index);
        index.is_some_and(|index| path.chain().number(index).is_some())
    });
    if is_port != Some(true) {
        let text =
            format!("XDP does not run on {}: `sluice show forwarding` has the reason", request.interface);
        return Err(XrlError::application(NOT_AVAILABLE, text));
    }
    let sockets = &process.programs.sockets;
    let queues = receiver::queues(&request.interface).min(receiver::QUEUES);
    if request.queue >= queues {
        return Err(XrlError::BadArguments(format!("{} has {queues} queues", request.interface)));
    }
    let is_same = |waiting: &Waiting| {
        (waiting.pid, waiting.row, waiting.queue) == (pid, row, request.queue)
            && waiting.interface == request.interface
    };
    sockets.waiting.borrow_mut().retain(|_, waiting| !is_same(waiting));
    if sockets.waiting.borrow().values().filter(|waiting| waiting.pid == pid).count() >= MOST_WAITING {
        return Err(XrlError::Busy(format!("{MOST_WAITING} sockets wait for their start")));
    }
    let refused = |error: io::Error| {
        XrlError::application(NOT_AVAILABLE, format!("no AF_XDP socket for {}: {error}", request.interface))
    };
    let socket = Rc::new(receiver::socket(&request.interface).map_err(refused)?);
    let token = process.sockets.offer(pid, Rc::clone(&socket))?;
    let number = sockets.last.get() + 1;
    sockets.last.set(number);
    let waiting = Waiting { pid, row, interface: request.interface, queue: request.queue, socket };
    sockets.waiting.borrow_mut().insert(number, waiting);
    Ok(pb::OpenReceiverReply { socket: number, token, queues })
}

/// Binds a socket and puts it into the program's map. A socket that waits for a queue to become free stays for another try.
pub(super) async fn start(
    process: &FeaProcess,
    ctx: &CallContext,
    request: pb::StartReceiverRequest,
) -> Result<pb::StartReceiverReply, XrlError> {
    let (pid, _) = process.sockets.components_of_caller(ctx).await?;
    let sockets = &process.programs.sockets;
    let waiting = match sockets.waiting.borrow_mut().entry(request.socket) {
        std::collections::btree_map::Entry::Occupied(entry) if entry.get().pid == pid => entry.remove(),
        _ => return Err(XrlError::BadArguments(format!("no socket {} waits for its start", request.socket))),
    };
    let Waiting { interface, queue, row, socket, .. } = &waiting;
    let refused = |error: String| {
        XrlError::application(
            NOT_AVAILABLE,
            format!("no frames of queue {queue} of {interface} by AF_XDP: {error}"),
        )
    };
    let index =
        process.fast_path.with(|path| path.indices().find(|(name, _)| name == interface).map(|(_, i)| i));
    let index = index.flatten().ok_or_else(|| refused("there is no such interface".into()))?.number();
    match receiver::bind(socket.as_fd(), index, *queue) {
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            let text = format!("another socket is bound to queue {queue} of {interface}");
            sockets.waiting.borrow_mut().insert(request.socket, waiting);
            return Err(XrlError::application(OCCUPIED, text));
        }
        bound => bound.map_err(|error| refused(error.to_string()))?,
    }
    let maps = sockets.maps.borrow();
    let map = maps.get(row.name).ok_or_else(|| refused("the program does not run".into()))?;
    map.put(index, *queue, socket.as_fd()).map_err(|error| refused(error.to_string()))?;
    Ok(pb::StartReceiverReply {})
}
