//! The calling side of a connection: calls that wait for their replies, and the task that writes and reads.
//!
//! A call is encoded directly into the buffer that is written once per turn of the loop. Its sequence number is the
//! index of the slot for its reply, so that a call needs no memory of its own.

use crate::XrlError;
use crate::wire::frame::{self, Frame, Kind};
use crate::wire::seal::Credential;
use crate::wire::stream::{Input, Output, Stream, Turn};
use prost::Message;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Octets of calls that may wait to be written; further calls wait in their callers.
const MAX_UNSENT: usize = 4 << 20;
/// The largest memory of a slot that is kept.
const KEEP_REPLY: usize = 16 << 10;

enum SlotState {
    Free,
    Waiting(Option<Waker>),
    Done,
    Failed(XrlError),
    /// The caller has lost interest; the number is free when the reply has come.
    Abandoned,
}

struct Slot {
    state: SlotState,
    reply: Vec<u8>,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    fn take(&mut self) -> u32 {
        if let Some(index) = self.free.pop() {
            self.slots[index as usize].state = SlotState::Waiting(None);
            return index;
        }
        self.slots.push(Slot { state: SlotState::Waiting(None), reply: Vec::new() });
        (self.slots.len() - 1) as u32
    }

    fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.state = SlotState::Free;
        if slot.reply.capacity() > KEEP_REPLY {
            slot.reply = Vec::new();
        }
        self.free.push(index);
    }
}

/// A sender that waits until a connection has room for calls.
pub(crate) trait Blocked {
    /// Sends as much as there is room for.
    fn go_on(self: Rc<Self>);
}

/// The calling side of a connection.
pub(crate) struct Connection {
    stream: Stream,
    out: Output,
    slots: RefCell<Slots>,
    outstanding: Cell<usize>,
    window: usize,
    closed: RefCell<Option<XrlError>>,
    is_closed: Cell<bool>,
    /// Incremented when resolved methods turned out to be stale.
    version: Cell<u32>,
    bound: RefCell<HashMap<String, (Credential, u16)>>,
    next_number: Cell<u16>,
    blocked: RefCell<VecDeque<Rc<dyn Blocked>>>,
}

impl Connection {
    /// Takes a connected socket; a task drives the connection until [`Connection::close`].
    pub(crate) fn start(stream: Stream, window: usize) -> Rc<Self> {
        let connection = Rc::new(Connection {
            stream,
            out: Output::new(),
            slots: RefCell::default(),
            outstanding: Cell::new(0),
            window,
            closed: RefCell::new(None),
            is_closed: Cell::new(false),
            version: Cell::new(0),
            bound: RefCell::default(),
            next_number: Cell::new(0),
            blocked: RefCell::default(),
        });
        frame::put_hello(&mut connection.out.buf.borrow_mut());
        tokio::task::spawn_local(Driver { connection: Rc::clone(&connection), input: Input::new() });
        connection
    }

    pub(crate) fn is_open(&self) -> bool {
        !self.is_closed.get()
    }

    /// Returns the process that answers, and its user, if the family reports them.
    pub(crate) fn peer(&self) -> (Option<u32>, Option<u32>) {
        self.stream.peer()
    }

    pub(crate) fn version(&self) -> u32 {
        self.version.get()
    }

    /// Returns true if a call would be sent at once.
    pub(crate) fn has_room(&self) -> bool {
        self.outstanding.get() < self.window && self.out.len() < MAX_UNSENT
    }

    /// Writes waiting octets without waiting for the task's turn.
    pub(crate) fn flush(&self) {
        // What the socket does not take, and that it is broken, the task finds when it has its turn.
        let _rest = self.out.write(&self.stream);
    }

    /// Has `waiting` go on when there is room.
    pub(crate) fn wait_for_room(&self, waiting: Rc<dyn Blocked>) {
        let mut blocked = self.blocked.borrow_mut();
        if !blocked.iter().any(|known| std::ptr::addr_eq(Rc::as_ptr(known), Rc::as_ptr(&waiting))) {
            blocked.push_back(waiting);
        }
    }

    /// Returns the number of a method on the connection.
    pub(crate) fn bind(&self, path: &str, credential: &Credential) -> Result<u16, XrlError> {
        let mut bound = self.bound.borrow_mut();
        let number = match bound.get(path) {
            Some((known, number)) if known == credential => return Ok(*number),
            Some((_, number)) => *number,
            None => {
                let number = self.next_number.get();
                if number >= frame::MAX_METHODS {
                    return Err(XrlError::Busy(format!("{number} methods on one connection")));
                }
                self.next_number.set(number + 1);
                number
            }
        };
        let mut out = self.out.buf.borrow_mut();
        let start = frame::begin(&mut out, Kind::Bind, 0, number);
        credential.bind(path).encode(&mut out);
        frame::end(&mut out, start).map_err(|_| XrlError::UnknownMethod(path.chars().take(100).collect()))?;
        drop(out);
        bound.insert(path.to_owned(), (credential.clone(), number));
        self.out.kick();
        Ok(number)
    }

    /// Sends a call. Returns the number of its slot.
    pub(crate) fn send<M: Message>(
        &self,
        method: u16,
        request: &M,
        within: Option<Duration>,
    ) -> Result<u32, XrlError> {
        if self.is_closed.get() {
            return Err(self.why_closed());
        }
        let slot = self.slots.borrow_mut().take();
        let mut out = self.out.buf.borrow_mut();
        let start = match within {
            None => frame::begin(&mut out, Kind::Call, slot, method),
            Some(within) => {
                let start = frame::begin(&mut out, Kind::CallWithin, slot, method);
                let ms = u32::try_from(within.as_millis()).unwrap_or(u32::MAX);
                out.extend_from_slice(&ms.to_be_bytes());
                start
            }
        };
        request.encode_raw(&mut *out);
        if let Err(size) = frame::end(&mut out, start) {
            self.slots.borrow_mut().release(slot);
            return Err(XrlError::TooLarge { size: size as u64, limit: frame::MAX_LENGTH as u64 });
        }
        drop(out);
        self.outstanding.set(self.outstanding.get() + 1);
        self.out.kick();
        Ok(slot)
    }

    /// Returns the reply of the call in `slot` after its arrival; the slot is free then.
    pub(crate) fn poll_reply<M: Message + Default>(
        &self,
        slot: u32,
        cx: &mut Context<'_>,
    ) -> Poll<Result<M, XrlError>> {
        let mut slots = self.slots.borrow_mut();
        let entry = &mut slots.slots[slot as usize];
        let result = match &mut entry.state {
            SlotState::Waiting(waker) => {
                if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
                    *waker = Some(cx.waker().clone());
                }
                return Poll::Pending;
            }
            SlotState::Done => M::decode(&entry.reply[..]).map_err(|e| XrlError::Protocol(e.to_string())),
            SlotState::Failed(error) => Err(error.clone()),
            SlotState::Free | SlotState::Abandoned => Err(XrlError::Internal("reply taken twice".to_owned())),
        };
        slots.release(slot);
        Poll::Ready(result)
    }

    /// The caller of `slot` does not want the reply.
    pub(crate) fn abandon(&self, slot: u32) {
        let mut slots = self.slots.borrow_mut();
        match slots.slots[slot as usize].state {
            SlotState::Waiting(_) => {
                slots.slots[slot as usize].state = SlotState::Abandoned;
                let mut out = self.out.buf.borrow_mut();
                let start = frame::begin(&mut out, Kind::Cancel, slot, 0);
                let _short = frame::end(&mut out, start);
                drop(out);
                self.out.kick();
            }
            SlotState::Done | SlotState::Failed(_) => slots.release(slot),
            SlotState::Free | SlotState::Abandoned => {}
        }
    }

    /// Ends the connection; every waiting call fails with `why`.
    pub(crate) fn close(&self, why: XrlError) {
        if self.is_closed.replace(true) {
            return;
        }
        let mut slots = self.slots.borrow_mut();
        let mut wakers = Vec::new();
        for index in 0..slots.slots.len() {
            let slot = &mut slots.slots[index];
            match &mut slot.state {
                SlotState::Waiting(waker) => {
                    wakers.extend(waker.take());
                    slot.state = SlotState::Failed(why.clone());
                }
                SlotState::Abandoned => slots.release(index as u32),
                SlotState::Free | SlotState::Done | SlotState::Failed(_) => {}
            }
        }
        drop(slots);
        *self.closed.borrow_mut() = Some(why);
        self.out.kick();
        wakers.into_iter().for_each(Waker::wake);
        let blocked = std::mem::take(&mut *self.blocked.borrow_mut());
        blocked.into_iter().for_each(Blocked::go_on);
    }

    pub(crate) fn why_closed(&self) -> XrlError {
        self.closed.borrow().clone().unwrap_or_else(|| XrlError::Disconnected("closed".to_owned()))
    }

    /// Stores a frame's reply, and wakes the caller.
    fn receive(&self, frame: Frame<'_>) -> Result<(), XrlError> {
        let mut slots = self.slots.borrow_mut();
        let error = match frame.kind {
            Kind::Reply => None,
            Kind::Error => Some(XrlError::decode(frame.body)),
            Kind::Close => return Err(XrlError::decode(frame.body)),
            other => return Err(XrlError::Protocol(format!("unexpected {other:?} frame"))),
        };
        if matches!(error, Some(XrlError::BadKey | XrlError::UnknownTarget(_))) {
            self.version.set(self.version.get().wrapping_add(1));
        }
        let slot = slots
            .slots
            .get_mut(frame.sequence as usize)
            .ok_or_else(|| XrlError::Protocol("reply to no call".to_owned()))?;
        let waker = match &mut slot.state {
            SlotState::Waiting(waker) => {
                let waker = waker.take();
                match error {
                    None => {
                        slot.reply.clear();
                        slot.reply.extend_from_slice(frame.body);
                        slot.state = SlotState::Done;
                    }
                    Some(error) => slot.state = SlotState::Failed(error),
                }
                waker
            }
            SlotState::Abandoned => {
                slots.release(frame.sequence);
                None
            }
            _ => return Err(XrlError::Protocol("reply to no call".to_owned())),
        };
        drop(slots);
        self.outstanding.set(self.outstanding.get() - 1);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }

    /// Has those go on that waited for room.
    fn unblock(&self) {
        while self.has_room() {
            let Some(waiting) = self.blocked.borrow_mut().pop_front() else {
                return;
            };
            waiting.go_on();
        }
    }
}

struct Driver {
    connection: Rc<Connection>,
    input: Input,
}

impl Driver {
    fn receive_all(&mut self) -> Result<(), XrlError> {
        loop {
            let data = self.input.data();
            match frame::decode(data).map_err(|e| XrlError::Protocol(e.to_string()))? {
                None => return Ok(()),
                Some((frame, size)) => {
                    self.connection.receive(frame)?;
                    self.input.consume(size);
                }
            }
        }
    }

    /// Reads first, so that a woken caller can still add its next call to the task's next write.
    fn turn(&mut self, cx: &mut Context<'_>) -> Result<(), XrlError> {
        let broken = |e: io::Error| XrlError::Disconnected(e.to_string());
        let connection = Rc::clone(&self.connection);
        let Connection { out, stream, .. } = &*connection;
        out.task_runs(cx);
        let mut turn = Turn::begin();
        while turn.goes_on() {
            out.flush(stream, cx).map_err(broken)?;
            match self.input.fill(stream, cx).map_err(broken)? {
                None => {
                    self.connection.unblock();
                    return out.flush(stream, cx).map_err(broken).map(|_| ());
                }
                Some(0) => return Err(XrlError::Disconnected("closed by the other side".to_owned())),
                Some(_) => {
                    self.receive_all()?;
                    self.connection.unblock();
                }
            }
        }
        turn.end(cx);
        Ok(())
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if let Err(error) = self.turn(cx) {
            self.connection.close(error);
        }
        if self.connection.is_open() { Poll::Pending } else { Poll::Ready(()) }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.connection.close(XrlError::Disconnected("the event loop ended".to_owned()));
    }
}
