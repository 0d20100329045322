//! The parts of a target: interfaces, their methods, and the path of a call to a handler.
//!
//! A handler is an async function. It is polled once at the call's arrival, so that calls start in their order and a
//! handler without waiting costs no task; a waiting handler becomes a task of its own.

use crate::wire::frame::{self, Kind};
use crate::{Family, XrlError};
use prost::Message;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use std::any::Any;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use tokio::time::Instant;

/// The depth of nested calls in a process, each on the stack of its caller; deeper handlers start as a task.
const MAX_INLINE_DEPTH: u32 = 16;

/// Fields of a call's arguments, the entries of a list included.
const MAX_FIELDS: usize = 65_536;

thread_local! {
    static INLINE_DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// The caller from a handler's view.
#[derive(Clone, Debug)]
pub struct CallContext {
    /// The call's connection: unique in the process, 0 for calls from the same process and by UDP.
    pub connection: u64,
    /// The caller's process, if the family reports it.
    pub pid: Option<u32>,
    /// The caller's user, if the family reports it.
    pub uid: Option<u32>,
    /// The name by which the Finder knows the caller, vouched for by the key of the method. `operator` for root and
    /// the operator who read without a key; empty for callers of the Finder itself.
    pub principal: Rc<str>,
    /// The family by which the call arrived.
    pub family: Family,
    /// The time at which the caller gives up and the handler is dropped.
    pub deadline: Option<Instant>,
}

thread_local! {
    static NOBODY: Rc<str> = "".into();
}

/// Returns the principal of a caller that has shown nothing.
pub(crate) fn nobody() -> Rc<str> {
    NOBODY.with(Rc::clone)
}

/// An interface served by a target. Made by generated code.
pub struct Service {
    pub(crate) name: Cow<'static, str>,
    pub(crate) descriptors: Cow<'static, [u8]>,
    pub(crate) methods: Vec<Method>,
}

impl Service {
    /// The interface `name` (package and service), described by an encoded `FileDescriptorSet`.
    pub fn new(name: &'static str, descriptors: &'static [u8], methods: Vec<Method>) -> Self {
        Service { name: name.into(), descriptors: descriptors.into(), methods }
    }

    /// Makes an interface known only at run time.
    pub fn described(name: String, descriptors: Vec<u8>, methods: Vec<Method>) -> Self {
        Service { name: name.into(), descriptors: descriptors.into(), methods }
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Offers `method` by the given families only, if the remaining families are worse for it.
    #[must_use]
    pub fn restrict(mut self, method: &str, families: &[Family]) -> Self {
        for m in self.methods.iter_mut().filter(|m| m.name == method) {
            m.families = families.to_vec();
        }
        self
    }
}

/// A method with its handler. Made by generated code.
pub struct Method {
    pub(crate) name: Cow<'static, str>,
    pub(crate) families: Vec<Family>,
    /// True for a method that only reads.
    pub(crate) reads: bool,
    pub(crate) handler: Rc<dyn Handler>,
    /// An `Rc<dyn TypedHandler<Req, Rep>>`, for callers of the same process.
    pub(crate) typed: Rc<dyn Any>,
}

impl Method {
    /// The method `name`, carried out by `handle`.
    pub fn new<Req, Rep, F, Fut>(name: impl Into<Cow<'static, str>>, handle: F) -> Self
    where
        Req: Message + Default + 'static,
        Rep: Message + Default + 'static,
        F: Fn(CallContext, Req) -> Fut + 'static,
        Fut: Future<Output = Result<Rep, XrlError>> + 'static,
    {
        let method = Rc::new(FnHandler { handle, spare: RefCell::new(None), types: PhantomData });
        let typed: Rc<dyn TypedHandler<Req, Rep>> = method.clone();
        Method {
            name: name.into(),
            families: Vec::new(),
            reads: false,
            handler: method,
            typed: Rc::new(typed),
        }
    }

    /// Marks a method that only reads: every role may call it, and no call of it is recorded as a change.
    #[must_use]
    pub fn reading(mut self) -> Self {
        self.reads = true;
        self
    }
}

/// A started handler: done or running.
pub(crate) enum Started<T> {
    Ready(Result<T, XrlError>),
    Pending(PendingCall<T>),
}

/// A handler from a connection's view: octets in, octets out.
pub(crate) trait Handler {
    /// Starts the handler. If the handler is done at once, `out` receives its reply, or its error, as a whole frame.
    fn start(
        &self,
        ctx: CallContext,
        arguments: &[u8],
        sequence: u32,
        out: &RefCell<Vec<u8>>,
    ) -> Option<PendingReply>;
    /// Starts the handler for a caller with octets.
    fn start_octets(&self, ctx: CallContext, arguments: &[u8]) -> Started<Vec<u8>>;
}

/// A running handler.
pub(crate) type PendingCall<T> = Pin<Box<dyn Future<Output = Result<T, XrlError>>>>;

/// A running handler, which yields its encoded reply.
pub(crate) type PendingReply = PendingCall<Vec<u8>>;

/// A handler from the view of a caller of the same process.
pub(crate) trait TypedHandler<Req, Rep> {
    fn start_typed(&self, ctx: CallContext, request: Req) -> Started<Rep>;
}

struct FnHandler<Req, Rep, F, Fut> {
    handle: F,
    /// The last handler's memory, for the next.
    spare: RefCell<Option<Pin<Box<Option<Fut>>>>>,
    types: PhantomData<fn(Req) -> Rep>,
}

/// A started handler; the `Option` allows reusing its memory.
struct Running<Fut>(Pin<Box<Option<Fut>>>);

impl<T, Fut: Future<Output = Result<T, XrlError>>> Future for Running<Fut> {
    type Output = Result<T, XrlError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match self.0.as_mut().as_pin_mut() {
            Some(future) => future.poll(cx),
            None => Poll::Ready(Err(XrlError::Internal("handler polled after its end".to_owned()))),
        }
    }
}

enum Begun<T, Fut> {
    Ready(Result<T, XrlError>),
    Pending(Running<Fut>),
}

impl<Req, Rep, F, Fut> FnHandler<Req, Rep, F, Fut>
where
    F: Fn(CallContext, Req) -> Fut,
    Fut: Future<Output = Result<Rep, XrlError>>,
{
    fn begin(&self, ctx: CallContext, request: Req) -> Begun<Rep, Fut> {
        let mut slot = self.spare.borrow_mut().take().unwrap_or_else(|| Box::pin(None));
        let depth = INLINE_DEPTH.get();
        if depth >= MAX_INLINE_DEPTH {
            slot.as_mut().set(Some((self.handle)(ctx, request)));
            return Begun::Pending(Running(slot));
        }
        INLINE_DEPTH.set(depth + 1);
        // No panic crosses to the connection or to the caller of the same process.
        let polled = catch_unwind(AssertUnwindSafe(|| {
            slot.as_mut().set(Some((self.handle)(ctx, request)));
            match slot.as_mut().as_pin_mut() {
                Some(future) => future.poll(&mut Context::from_waker(Waker::noop())),
                None => Poll::Pending,
            }
        }));
        INLINE_DEPTH.set(depth);
        match polled {
            Ok(Poll::Ready(result)) => {
                slot.as_mut().set(None);
                *self.spare.borrow_mut() = Some(slot);
                Begun::Ready(result)
            }
            // The task polls it again first of all, so the waker that it saw here is not missed.
            Ok(Poll::Pending) => Begun::Pending(Running(slot)),
            Err(_) => Begun::Ready(Err(XrlError::Internal("the handler panicked".to_owned()))),
        }
    }
}

/// Ends a running handler at the caller's deadline.
async fn within<T>(
    deadline: Option<Instant>,
    handler: impl Future<Output = Result<T, XrlError>>,
) -> Result<T, XrlError> {
    match deadline {
        None => handler.await,
        Some(at) => tokio::time::timeout_at(at, handler).await.unwrap_or(Err(XrlError::DeadlineExceeded)),
    }
}

/// Ends a running handler at the caller's deadline, and encodes the reply.
fn encoded<Rep: Message + 'static>(
    deadline: Option<Instant>,
    handler: impl Future<Output = Result<Rep, XrlError>> + 'static,
) -> PendingReply {
    Box::pin(async move { within(deadline, handler).await.map(|reply| reply.encode_to_vec()) })
}

impl<Req, Rep, F, Fut> Handler for FnHandler<Req, Rep, F, Fut>
where
    Req: Message + Default + 'static,
    Rep: Message + 'static,
    F: Fn(CallContext, Req) -> Fut,
    Fut: Future<Output = Result<Rep, XrlError>> + 'static,
{
    fn start(
        &self,
        ctx: CallContext,
        arguments: &[u8],
        sequence: u32,
        out: &RefCell<Vec<u8>>,
    ) -> Option<PendingReply> {
        let deadline = ctx.deadline;
        let begun = match decode(arguments) {
            Ok(request) => self.begin(ctx, request),
            Err(e) => Begun::Ready(Err(e)),
        };
        match begun {
            Begun::Ready(result) => {
                put_result(&mut out.borrow_mut(), sequence, result.as_ref());
                None
            }
            Begun::Pending(running) => Some(encoded(deadline, running)),
        }
    }

    fn start_octets(&self, ctx: CallContext, arguments: &[u8]) -> Started<Vec<u8>> {
        let request = match decode(arguments) {
            Ok(request) => request,
            Err(e) => return Started::Ready(Err(e)),
        };
        let deadline = ctx.deadline;
        match self.begin(ctx, request) {
            Begun::Ready(result) => Started::Ready(result.map(|r| r.encode_to_vec())),
            Begun::Pending(running) => Started::Pending(encoded(deadline, running)),
        }
    }
}

impl<Req, Rep, F, Fut> TypedHandler<Req, Rep> for FnHandler<Req, Rep, F, Fut>
where
    Rep: 'static,
    F: Fn(CallContext, Req) -> Fut,
    Fut: Future<Output = Result<Rep, XrlError>> + 'static,
{
    fn start_typed(&self, ctx: CallContext, request: Req) -> Started<Rep> {
        let deadline = ctx.deadline;
        match self.begin(ctx, request) {
            Begun::Ready(result) => Started::Ready(result),
            Begun::Pending(running) => Started::Pending(Box::pin(within(deadline, running))),
        }
    }
}

/// Decodes the arguments of a call with at most [`MAX_FIELDS`] fields: an empty message of two octets can take a hundred
/// octets of memory.
fn decode<Req: Message + Default>(arguments: &[u8]) -> Result<Req, XrlError> {
    let wrong = |e: prost::DecodeError| XrlError::BadArguments(e.to_string());
    // A field has two octets at least.
    if arguments.len() > 2 * MAX_FIELDS {
        let (mut rest, mut fields) = (arguments, 0);
        while !rest.is_empty() {
            let (tag, kind) = decode_key(&mut rest).map_err(wrong)?;
            skip_field(kind, tag, &mut rest, DecodeContext::default()).map_err(wrong)?;
            fields += 1;
            if fields > MAX_FIELDS {
                return Err(XrlError::BadArguments(format!("more than {MAX_FIELDS} fields")));
            }
        }
    }
    Req::decode(arguments).map_err(wrong)
}

/// Appends the Reply or Error frame of a call.
pub(crate) fn put_result<M: Message>(out: &mut Vec<u8>, sequence: u32, result: Result<&M, &XrlError>) {
    let size = match result {
        Ok(message) => {
            let start = frame::begin(out, Kind::Reply, sequence, 0);
            message.encode_raw(out);
            frame::end(out, start)
        }
        Err(error) => {
            let start = frame::begin(out, Kind::Error, sequence, 0);
            error.encode(out);
            frame::end(out, start)
        }
    };
    if let Err(size) = size {
        let error = XrlError::TooLarge { size: size as u64, limit: frame::MAX_LENGTH as u64 };
        put_result::<()>(out, sequence, Err(&error));
    }
}

/// Appends the Reply or Error frame of a call whose reply is encoded already.
pub(crate) fn put_octets(out: &mut Vec<u8>, sequence: u32, result: &Result<Vec<u8>, XrlError>) {
    match result {
        Ok(body) => {
            if let Err(size) = frame::put(out, frame::Frame { kind: Kind::Reply, sequence, method: 0, body })
            {
                let error = XrlError::TooLarge { size: size as u64, limit: frame::MAX_LENGTH as u64 };
                put_result::<()>(out, sequence, Err(&error));
            }
        }
        Err(error) => put_result::<()>(out, sequence, Err(error)),
    }
}
