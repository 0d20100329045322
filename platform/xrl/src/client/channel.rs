//! The path from a client to its target: resolution, the choice of a family, and the order of calls.
//!
//! The clients of a target (with the same choice of family) share a channel. Calls that cannot be sent at once,
//! because their method is being resolved or the window is full, wait in the channel's queue; later calls do not
//! overtake them.

use super::call::{Call, Queued, State};
use super::connection::Blocked;
use super::endpoint::XrlEndpoint;
use super::route::{Route, issue_local};
use crate::wire::octets::Octets;
use crate::{Family, XrlError};
use prost::Message;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::task::spawn_local;

/// Queue length from which abandoned entries are swept out.
const SWEEP_FROM: usize = 256;

/// A call in the queue, without its types.
trait Waiting {
    fn is_wanted(&self) -> bool;
    fn issue(self: Box<Self>, route: Result<&Route, XrlError>);
}

struct WaitingCall<Req, Rep> {
    request: Req,
    within: Option<Duration>,
    queued: Rc<RefCell<Queued<Rep>>>,
}

impl<Req, Rep> Waiting for WaitingCall<Req, Rep>
where
    Req: Message + 'static,
    Rep: Message + Default + 'static,
{
    fn is_wanted(&self) -> bool {
        !matches!(*self.queued.borrow(), Queued::Dropped)
    }

    fn issue(self: Box<Self>, route: Result<&Route, XrlError>) {
        if !self.is_wanted() {
            return;
        }
        let state = match route {
            Ok(route) => route.issue(self.request, self.within),
            Err(e) => State::Ready(Err(e)),
        };
        let before = std::mem::replace(&mut *self.queued.borrow_mut(), Queued::Issued(state));
        if let Queued::Waiting(Some(waker)) = before {
            waker.wake();
        }
    }
}

/// The connections to a target.
pub(crate) struct Channel {
    router: XrlEndpoint,
    target: String,
    family: Option<Family>,
    /// Incremented when the resolved methods become void.
    epoch: Cell<u32>,
    routes: RefCell<HashMap<String, Route>>,
    queue: RefCell<VecDeque<(String, Box<dyn Waiting>)>>,
    sweep_at: Cell<usize>,
    /// True while a task empties the queue, or waits for the Finder to do so.
    pumping: Cell<bool>,
    ready: RefCell<Vec<Waker>>,
}

impl Channel {
    pub(crate) fn new(router: XrlEndpoint, target: &str, family: Option<Family>) -> Rc<Self> {
        Rc::new(Channel {
            router,
            target: target.to_owned(),
            family,
            epoch: Cell::new(0),
            routes: RefCell::default(),
            queue: RefCell::default(),
            sweep_at: Cell::new(SWEEP_FROM),
            pumping: Cell::new(false),
            ready: RefCell::default(),
        })
    }

    pub(crate) fn target(&self) -> &str {
        &self.target
    }

    /// Forgets the resolved methods.
    pub(crate) fn invalidate(&self) {
        self.epoch.set(self.epoch.get().wrapping_add(1));
        self.routes.borrow_mut().clear();
    }

    fn route(&self, path: &str) -> Option<Route> {
        let mut routes = self.routes.borrow_mut();
        let route = routes.get(path)?;
        if route.is_valid() {
            return Some(route.clone());
        }
        routes.remove(path);
        None
    }

    /// Puts a call into the queue.
    fn push<Req, Rep>(self: &Rc<Self>, path: &str, request: Req, within: Option<Duration>) -> State<Rep>
    where
        Req: Message + 'static,
        Rep: Message + Default + 'static,
    {
        let queued = Rc::new(RefCell::new(Queued::Waiting(None)));
        let waiting = Box::new(WaitingCall { request, within, queued: Rc::clone(&queued) });
        let mut queue = self.queue.borrow_mut();
        queue.push_back((path.to_owned(), waiting));
        if queue.len() >= self.sweep_at.get() {
            queue.retain(|(_, call)| call.is_wanted());
            self.sweep_at.set(SWEEP_FROM.max(2 * queue.len()));
        }
        drop(queue);
        self.pump();
        State::Queued(queued)
    }

    /// Issues queued calls, as far as possible.
    pub(crate) fn pump(self: &Rc<Self>) {
        if self.pumping.replace(true) {
            return;
        }
        loop {
            let Some(path) = self.queue.borrow().front().map(|(path, _)| path.clone()) else {
                break;
            };
            let Some(route) = self.route(&path) else {
                spawn_local(Rc::clone(self).resolve(path));
                return;
            };
            if !route.has_room() {
                if let Route::Stream { connection, .. } = &route {
                    connection.wait_for_room(Rc::<Self>::clone(self));
                }
                break;
            }
            let front = self.queue.borrow_mut().pop_front();
            if let Some((_, call)) = front {
                call.issue(Ok(&route));
            }
        }
        self.pumping.set(false);
        if self.queue.borrow().is_empty() {
            self.ready.borrow_mut().drain(..).for_each(Waker::wake);
        }
    }

    async fn resolve(self: Rc<Self>, path: String) {
        let epoch = self.epoch.get();
        match self.router.resolve(&self.target, &path, self.family).await {
            // An answer from before an invalidation must not outlive it.
            Ok(_) if self.epoch.get() != epoch => {}
            Ok(route) => {
                self.routes.borrow_mut().insert(path, route);
            }
            Err(e) => {
                let calls = std::mem::take(&mut *self.queue.borrow_mut());
                let (failed, kept) = calls.into_iter().partition(|(p, _)| *p == path);
                // What was queued meanwhile by wakers comes after what was there.
                let added = std::mem::replace(&mut *self.queue.borrow_mut(), kept);
                self.queue.borrow_mut().extend(added);
                let failed: VecDeque<(String, Box<dyn Waiting>)> = failed;
                failed.into_iter().for_each(|(_, call)| call.issue(Err(e.clone())));
            }
        }
        self.pumping.set(false);
        self.pump();
    }
}

impl Blocked for Channel {
    fn go_on(self: Rc<Self>) {
        self.pump();
    }
}

impl XrlEndpoint {
    /// Calls a method by its name, with arguments and reply as octets: for callers without the interface at compile
    /// time. `path` is PACKAGE.SERVICE/METHOD.
    pub fn call_octets(
        &self,
        target: &str,
        path: &str,
        family: Option<Family>,
        within: Option<Duration>,
        request: Octets,
    ) -> Call<Octets> {
        Call::new(self.channel(target, family).push(path, request, within), within)
    }
}

/// The base of generated clients: calls the methods of an interface of a target.
#[derive(Clone)]
pub struct Client(Rc<Inner>);

struct Inner {
    channel: Rc<Channel>,
    methods: &'static [&'static str],
    within: Option<Duration>,
    /// For each method the route, and the channel's epoch of the route.
    cache: RefCell<Vec<Option<(u32, Route)>>>,
}

impl Client {
    /// A client of `target` for methods with the paths `PACKAGE.SERVICE/METHOD`.
    pub fn new(router: &XrlEndpoint, target: &str, methods: &'static [&'static str]) -> Self {
        Self::with(router.channel(target, None), methods, None)
    }

    fn with(channel: Rc<Channel>, methods: &'static [&'static str], within: Option<Duration>) -> Self {
        Client(Rc::new(Inner { channel, methods, within, cache: RefCell::new(vec![None; methods.len()]) }))
    }

    /// The same with a deadline for each call.
    #[must_use]
    pub fn with_deadline(&self, deadline: Duration) -> Self {
        Self::with(Rc::clone(&self.0.channel), self.0.methods, Some(deadline))
    }

    /// Returns a client limited to a single family.
    #[must_use]
    pub fn via(&self, family: Family) -> Self {
        let channel = &self.0.channel;
        Self::with(channel.router.channel(&channel.target, Some(family)), self.0.methods, self.0.within)
    }

    /// Calls the method number `index` of the methods given to [`Client::new`].
    pub fn call<Req, Rep>(&self, index: usize, request: Req) -> Call<Rep>
    where
        Req: Message + 'static,
        Rep: Message + Default + 'static,
    {
        let inner = &*self.0;
        if inner.channel.queue.borrow().is_empty() && !inner.channel.pumping.get() {
            let cache = inner.cache.borrow();
            if let Some(Some((epoch, route))) = cache.get(index)
                && *epoch == inner.channel.epoch.get()
                && route.is_valid()
                && route.has_room()
            {
                // A handler of this process may call by this very client.
                if let Route::Local(method) = route {
                    let method = Rc::clone(method);
                    drop(cache);
                    return Call::new(issue_local(&method, request, inner.within), inner.within);
                }
                return Call::new(route.issue(request, inner.within), inner.within);
            }
        }
        self.call_slowly(index, request)
    }

    fn call_slowly<Req, Rep>(&self, index: usize, request: Req) -> Call<Rep>
    where
        Req: Message + 'static,
        Rep: Message + Default + 'static,
    {
        let inner = &*self.0;
        let Some(path) = inner.methods.get(index) else {
            return Call::new(State::Ready(Err(XrlError::UnknownMethod(index.to_string()))), None);
        };
        if let Some(route) = inner.channel.route(path) {
            inner.cache.borrow_mut()[index] = Some((inner.channel.epoch.get(), route));
        }
        Call::new(inner.channel.push(path, request, inner.within), inner.within)
    }

    /// Writes issued calls at once, before further work of the current turn of the loop.
    ///
    /// Without a flush, the calls are written together at the end of the turn: cheaper by a system call for each,
    /// later by the work of the tasks before. Use it for calls with a waiting user.
    pub fn flush(&self) {
        for route in self.0.cache.borrow().iter().flatten() {
            if let (_, Route::Stream { connection, .. }) = route {
                return connection.flush();
            }
        }
    }

    /// Waits until a call would go out at once (or fail at once).
    pub async fn ready(&self) {
        std::future::poll_fn(|cx| self.poll_ready(cx)).await;
    }

    fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        let channel = &self.0.channel;
        let full = channel.routes.borrow().values().find_map(|route| match route {
            Route::Stream { connection, .. } if route.is_valid() && !route.has_room() => {
                Some(Rc::clone(connection))
            }
            _ => None,
        });
        if full.is_none() && channel.queue.borrow().is_empty() {
            return Poll::Ready(());
        }
        channel.ready.borrow_mut().push(cx.waker().clone());
        if let Some(connection) = full {
            connection.wait_for_room(Rc::<Channel>::clone(channel));
        }
        Poll::Pending
    }
}
