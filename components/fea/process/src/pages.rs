//! The engine's own routes, in pages: read from the engine on request, for `show routes --kernel`.
//!
//! A dump of a full table cannot be entered in the middle. A thread reads the dump and stops when a few pages wait, so a slow reader
//! costs no memory and the event loop no time.

use sluice_base::IpPrefix;
use sluice_fea::engine::{EngineRoute, ReadError, RouteQuery, RouteReader};
use sluice_xrl::XrlError;
use sluice_xrl::idl::fea::v1 as pb;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use tokio::sync::mpsc;

/// Routes in a page.
pub const PAGE: usize = 2000;
/// The most pages that wait for a reader.
const PAGES: usize = 4;
/// Readers whose dumps are kept open.
const STREAMS: usize = 8;

/// The running dumps, by connection.
#[derive(Default)]
pub struct Streams(RefCell<BTreeMap<u64, Stream>>);

type Page = Result<Vec<pb::KernelRoute>, ReadError>;

struct Stream {
    query: RouteQuery,
    last: Option<IpPrefix>,
    left: Vec<pb::KernelRoute>,
    pages: mpsc::Receiver<Page>,
}

impl Streams {
    /// Returns the page after `after` (the first for `None`), and whether more follow. A first page begins a dump by `reader`.
    pub async fn page(
        &self,
        connection: u64,
        query: RouteQuery,
        after: Option<IpPrefix>,
        limit: usize,
        reader: impl FnOnce() -> Result<Box<dyn RouteReader>, XrlError>,
    ) -> Result<(Vec<pb::KernelRoute>, bool), XrlError> {
        let known = self.0.borrow_mut().remove(&connection);
        let mut stream = match known {
            Some(s) if after.is_some() && s.query == query && s.last == after => s,
            _ if after.is_some() => {
                return Err(XrlError::BadArguments("after: not what the last page ended with".into()));
            }
            _ => Stream { query, last: None, left: Vec::new(), pages: start(reader()?, query) },
        };
        let mut routes = std::mem::take(&mut stream.left);
        let mut ended = false;
        while routes.len() < limit.max(1) && !ended {
            match stream.pages.recv().await {
                Some(page) => routes.extend(page.map_err(unreadable)?),
                None => ended = true,
            }
        }
        if routes.len() > limit {
            stream.left = routes.split_off(limit);
        }
        let more = !ended || !stream.left.is_empty();
        if more {
            stream.last = routes.last().and_then(|r| r.net.as_ref()).and_then(|n| IpPrefix::try_from(n).ok());
            let mut all = self.0.borrow_mut();
            if all.len() >= STREAMS {
                all.pop_first();
            }
            all.insert(connection, stream);
        }
        Ok((routes, more))
    }
}

/// Starts a thread that reads a dump.
fn start(mut reader: Box<dyn RouteReader>, query: RouteQuery) -> mpsc::Receiver<Page> {
    let (pages, receiver) = mpsc::channel(PAGES);
    std::thread::spawn(move || {
        let mut page = Vec::new();
        let outcome = reader.dump(&query, &mut |route| {
            page.push(message(route));
            // The receiver closes when the caller asks for no more pages.
            let is_closed = page.len() >= PAGE && pages.blocking_send(Ok(std::mem::take(&mut page))).is_err();
            if is_closed { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        let _ = pages.blocking_send(outcome.map(|()| page));
    });
    receiver
}

/// Returns a route of the engine in the form of messages.
pub fn message(route: EngineRoute) -> pb::KernelRoute {
    pb::KernelRoute {
        net: Some(route.prefix.into()),
        protocol: route.protocol.into(),
        ours: route.is_ours(),
        metric: route.metric,
        forwarding: Some((&route.forwarding).into()),
        table: route.table.0,
        source: route.source.map(Into::into),
    }
}

/// Returns the error of a call whose routes could not be read.
pub fn unreadable(error: ReadError) -> XrlError {
    XrlError::Internal(format!("the engine's routes: {error}"))
}
