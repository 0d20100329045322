//! The receiving side of a connection: binds methods, checks their keys, starts handlers in order, sends replies.
//!
//! A single task reads and writes. The task never waits for a handler: an unfinished handler continues as a task of
//! its own. When a connection has [`MAX_RUNNING`] such handlers, or when its caller does not read its replies, the
//! task stops reading, and the socket makes the caller stop.

use super::accounts::{MAX_CONNECTIONS, MAX_REPLIES, MAX_RUNNING, Membership, Owner};
use super::guests::{self, Guests, Place};
use super::registry::{Bound, Registry};
use super::service::{CallContext, PendingReply, nobody, put_octets, put_result};
use crate::wire::denied::Denied;
use crate::wire::frame::{self, Bind, Frame, Kind};
use crate::wire::stream::{Input, Output, Stream, Turn};
use crate::{Family, XrlError};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::{AbortHandle, JoinHandle, spawn_local};
use tokio::time::Instant;

struct Shared {
    out: Output,
    running: RefCell<HashMap<u32, AbortHandle>>,
    /// The caller has disconnected, seen while the connection was not read.
    hung_up: Cell<bool>,
}

/// A caller without a secret or a key so far.
struct Guest {
    _place: Place,
    /// The end of the guest's time.
    until: Pin<Box<tokio::time::Sleep>>,
}

pub(crate) struct ServerConnection {
    stream: Rc<Stream>,
    registry: Rc<Registry>,
    shared: Rc<Shared>,
    input: Input,
    /// The caller of calls on this connection, without the principal, which each bound method has.
    context: CallContext,
    /// The place among the guests, until the caller has shown a secret or a key.
    guest: Option<Guest>,
    /// The place in the account of the caller's principal, or of its user's guests; `None` for root and the operator.
    membership: Option<Membership>,
    greeted: bool,
    closing: bool,
    hangup_watch: Option<AbortHandle>,
    bound: Vec<Option<Result<Bound, XrlError>>>,
}

impl ServerConnection {
    pub(crate) fn new(stream: Stream, registry: Rc<Registry>, connection: u64, guests: &Rc<Guests>) -> Self {
        let (pid, uid) = stream.peer();
        let place = guests.place(uid, connection);
        let family = match stream {
            Stream::Unix(_) => Family::Unix,
            Stream::Tcp(_) => Family::Tcp,
        };
        let membership = match registry.is_trusted(uid) {
            true => None,
            false => registry.accounts.join(Owner::Guests(uid), connection),
        };
        ServerConnection {
            stream: Rc::new(stream),
            registry,
            shared: Rc::new(Shared {
                out: Output::new(),
                running: RefCell::default(),
                hung_up: Cell::new(false),
            }),
            input: Input::small(guests::MAX_OCTETS),
            context: CallContext { connection, pid, uid, principal: nobody(), family, deadline: None },
            guest: Some(Guest { _place: place, until: Box::pin(tokio::time::sleep(guests::PATIENCE)) }),
            membership,
            greeted: false,
            closing: false,
            hangup_watch: None,
            bound: Vec::new(),
        }
    }

    fn full(&self) -> bool {
        let (running, replies) = match (&self.guest, &self.membership) {
            (Some(_), _) => (MAX_RUNNING, guests::MAX_OCTETS),
            (None, Some(membership)) => (membership.max_running(), membership.max_replies()),
            (None, None) => (MAX_RUNNING, MAX_REPLIES),
        };
        self.shared.running.borrow().len() >= running || self.shared.out.len() >= replies
    }

    /// Ends the guest status of a caller with a secret or a key; returns true for a remaining guest. Closes the connection
    /// if the caller's principal has too many.
    fn is_guest(&mut self) -> bool {
        if self.guest.is_none() {
            return false;
        }
        let by_key = || {
            let mut bound = self.bound.iter().flatten().flatten();
            bound.next().map(|bound| Rc::clone(&bound.grant.principal))
        };
        let Some(principal) = self.registry.principal_of(self.context.connection, by_key) else {
            return true;
        };
        self.guest = None;
        self.input.widen();
        if !self.registry.is_trusted(self.context.uid) {
            let owner = Owner::Principal(Rc::clone(&principal));
            self.membership = self.registry.accounts.join(owner, self.context.connection);
            if self.membership.is_none() {
                let limit = format!("more than {MAX_CONNECTIONS} connections");
                self.refuse(Denied::Limit, &principal, &limit);
                self.close(&XrlError::Busy(limit));
            }
        }
        false
    }

    /// Checks the frame that begins at the start of the input and is not complete yet.
    fn check_unfinished(&mut self) {
        let announced = frame::announced_size(self.input.data());
        if announced > guests::MAX_OCTETS && self.is_guest() {
            let why = format!("a frame of {announced} octets before a secret or a key");
            return self.violation(&XrlError::Protocol(why));
        }
        let longest = self.registry.max_frame.get();
        let Some(membership) = &mut self.membership else { return };
        let error = if announced > longest {
            XrlError::TooLarge { size: announced as u64, limit: longest as u64 }
        } else if !membership.hold(self.input.excess(), longest) {
            XrlError::Busy("too many octets of unfinished frames".to_owned())
        } else {
            return;
        };
        let principal = membership.principal();
        self.refuse(Denied::Limit, &principal, &error.to_string());
        self.close(&error);
    }

    /// Counts a refusal for the operator.
    fn refuse(&self, denied: Denied, principal: &str, subject: &str) {
        let from = (self.context.pid, self.context.uid);
        self.registry.refusals.note(denied, principal, subject, from);
    }

    /// Counts a violation of the protocol, and ends the connection.
    fn violation(&mut self, why: &XrlError) {
        let principal = self.membership.as_ref().map(Membership::principal);
        self.refuse(Denied::Frame, principal.as_deref().unwrap_or_default(), &why.to_string());
        self.close(why);
    }

    /// Handles the available frames, until a limit is reached; returns true if the turn is over with frames left.
    fn process(&mut self, turn: &mut Turn) -> bool {
        while !self.closing && !self.full() {
            let (frame, size) = match frame::decode(self.input.data()) {
                Ok(Some(found)) => found,
                Ok(None) => {
                    self.check_unfinished();
                    return false;
                }
                Err(e) => {
                    self.violation(&XrlError::Protocol(e.to_string()));
                    return false;
                }
            };
            let result = if self.greeted {
                let methods = if self.guest.is_some() { guests::MAX_METHODS } else { frame::MAX_METHODS };
                dispatch(frame, methods, &mut self.bound, &self.registry, &self.shared, &self.context)
            } else {
                self.greeted = true;
                greeting(frame)
            };
            self.input.consume(size);
            self.is_guest();
            match result {
                Err(_) if self.closing => {}
                Err(e) => self.violation(&e),
                Ok(()) if turn.has_time_after(size) => {}
                Ok(()) => return true,
            }
        }
        false
    }

    /// Ends the connection with a Close frame. The reason is no warning in the log, which callers could fill with it.
    fn close(&mut self, why: &XrlError) {
        let (connection, pid) = (self.context.connection, self.context.pid);
        tracing::debug!(connection, pid, %why, "XRL connection refused");
        let mut out = self.shared.out.buf.borrow_mut();
        let start = frame::begin(&mut out, Kind::Close, 0, 0);
        why.encode(&mut out);
        let _short = frame::end(&mut out, start);
        drop(out);
        self.closing = true;
    }

    /// Starts a task that waits for the peer to hang up. Without reading, the end of a connection is not seen, and
    /// handlers would run forever.
    fn watch_for_hangup(&mut self) {
        if self.hangup_watch.is_none() {
            let stream = Rc::clone(&self.stream);
            let shared = Rc::clone(&self.shared);
            let watch = spawn_local(async move {
                stream.hung_up().await;
                shared.hung_up.set(true);
                shared.out.kick();
            });
            self.hangup_watch = Some(watch.abort_handle());
        }
    }

    /// Does a turn's work, if it is this connection's turn.
    fn take_turn(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        if self.membership.as_ref().is_some_and(|membership| !membership.begin_turn(cx)) {
            return Ok(Poll::Pending);
        }
        let worked = self.turn(cx);
        if let Some(membership) = &self.membership {
            membership.end_turn();
        }
        worked
    }

    fn turn(&mut self, cx: &mut Context<'_>) -> io::Result<Poll<()>> {
        self.shared.out.task_runs(cx);
        if let Some(guest) = &mut self.guest
            && guest.until.as_mut().poll(cx).is_ready()
            && self.is_guest()
        {
            return Ok(Poll::Ready(()));
        }
        let mut turn = Turn::begin();
        while turn.goes_on() {
            let is_over = self.process(&mut turn);
            let flushed = self.shared.out.flush(&self.stream, cx)?;
            if self.closing {
                return Ok(if flushed { Poll::Ready(()) } else { Poll::Pending });
            }
            if self.full() {
                // Woken by the socket that takes replies again, by a handler that ends, or by the caller's end.
                self.watch_for_hangup();
                return Ok(if self.shared.hung_up.get() { Poll::Ready(()) } else { Poll::Pending });
            }
            if is_over {
                break;
            }
            match self.input.fill(&self.stream, cx)? {
                None => return Ok(Poll::Pending),
                Some(0) => return Ok(Poll::Ready(())),
                Some(_) => {}
            }
        }
        turn.end(cx);
        Ok(Poll::Pending)
    }
}

impl Future for ServerConnection {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.take_turn(cx).unwrap_or(Poll::Ready(()))
    }
}

impl Drop for ServerConnection {
    fn drop(&mut self) {
        if let Some(watch) = &self.hangup_watch {
            watch.abort();
        }
        for (_, handler) in self.shared.running.borrow_mut().drain() {
            handler.abort();
        }
        self.registry.connection_closed(self.context.connection);
    }
}

fn greeting(frame: Frame<'_>) -> Result<(), XrlError> {
    if frame.kind != Kind::Hello || frame.body != frame::MAGIC {
        return Err(XrlError::Protocol("expected Hello first".to_owned()));
    }
    frame::check_version(frame.method)
}

/// Handles a single frame; an error ends the connection.
fn dispatch(
    frame: Frame<'_>,
    methods: u16,
    bound: &mut Vec<Option<Result<Bound, XrlError>>>,
    registry: &Registry,
    shared: &Rc<Shared>,
    context: &CallContext,
) -> Result<(), XrlError> {
    let mut deadline = None;
    let arguments = match frame.kind {
        Kind::Call => frame.body,
        Kind::CallWithin => {
            let (ms, arguments) = frame
                .body
                .split_first_chunk::<4>()
                .ok_or_else(|| XrlError::Protocol("a call without its time".to_owned()))?;
            deadline = Some(Instant::now() + Duration::from_millis(u32::from_be_bytes(*ms).into()));
            arguments
        }
        Kind::Bind => {
            if frame.method >= methods {
                return Err(XrlError::Protocol(format!("method number {}; below {methods}", frame.method)));
            }
            let bind = Bind::decode(frame.body).map_err(|e| XrlError::Protocol(e.to_string()))?;
            let index = usize::from(frame.method);
            if bound.len() <= index {
                bound.resize_with(index + 1, || None);
            }
            // A refusal is sent to every call that uses the number: the caller need not wait for an answer.
            bound[index] = Some(registry.find(&bind, context.family, context.pid, context.uid));
            return Ok(());
        }
        Kind::Cancel => {
            let running = shared.running.borrow_mut().remove(&frame.sequence);
            if let Some(handler) = running {
                handler.abort();
                put_result::<()>(&mut shared.out.buf.borrow_mut(), frame.sequence, Err(&XrlError::Cancelled));
            }
            return Ok(());
        }
        other => return Err(XrlError::Protocol(format!("unexpected {other:?} frame"))),
    };
    let refuse = |refusal: &XrlError| {
        put_result::<()>(&mut shared.out.buf.borrow_mut(), frame.sequence, Err(refusal));
    };
    let Bound { entry, grant } = match bound.get(usize::from(frame.method)) {
        Some(Some(Ok(bound))) => bound,
        Some(Some(Err(refusal))) => {
            refuse(refusal);
            return Ok(());
        }
        _ => return Err(XrlError::Protocol(format!("method number {} is not bound", frame.method))),
    };
    if !entry.is_live() {
        refuse(&XrlError::UnknownTarget(entry.instance.clone()));
        return Ok(());
    }
    if !grant.is_live() {
        refuse(&XrlError::AccessDenied(format!("the rights of {} were taken away", grant.principal)));
        return Ok(());
    }
    let context = CallContext { principal: Rc::clone(&grant.principal), deadline, ..context.clone() };
    if let Some(pending) = entry.handler.start(context, arguments, frame.sequence, &shared.out.buf) {
        go_on(shared, frame.sequence, pending)?;
    }
    Ok(())
}

fn go_on(shared: &Rc<Shared>, sequence: u32, pending: PendingReply) -> Result<(), XrlError> {
    let task_shared = Rc::clone(shared);
    // A panic inside is caught by the outer task, so that the call still gets its one reply.
    let handler: JoinHandle<Result<Vec<u8>, XrlError>> = spawn_local(pending);
    let abort = handler.abort_handle();
    if shared.running.borrow_mut().insert(sequence, abort).is_some() {
        return Err(XrlError::Protocol(format!("sequence {sequence} is in use")));
    }
    spawn_local(async move {
        let result = match handler.await {
            Ok(result) => result,
            // Whoever cancelled it has answered, or the connection is gone.
            Err(e) if e.is_cancelled() => return,
            Err(_) => Err(XrlError::Internal("the handler panicked".to_owned())),
        };
        if task_shared.running.borrow_mut().remove(&sequence).is_some() {
            put_octets(&mut task_shared.out.buf.borrow_mut(), sequence, &result);
            task_shared.out.kick();
        }
    });
    Ok(())
}
