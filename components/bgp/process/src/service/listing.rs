//! Routes for operators: filtered, in the order of prefixes, in pages.
//!
//! A table is a hash table and has no order. So the first page of a listing goes through the wanted prefixes, in slices short
//! enough for the table, and keeps a page of the lowest prefixes. The second page collects every later prefix, and sorts the
//! prefixes on a thread for blocking work. Later pages look up the next prefixes of the listing; a prefix without routes by then
//! is left out. A few listings are kept, with a few octets for each prefix.

use super::Answer;
use super::filter::Filter;
use super::paths::path;
use crate::BgpProcess;
use crate::idl::bgp::v1 as pb;
use crate::values::not_configured;
use sluice_bgp::family::{FamilyVisitor, Sharded};
use sluice_bgp::shard::{Elimination, PeerIndex, RouteView};
use sluice_bgp::speaker::control::Control;
use sluice_bgp::table::Table;
use sluice_xrl::{XrlError, convert};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// The largest page of routes.
const MAX_PAGE: usize = 10_000;

/// Places of a table in a slice, after which other work has its turn.
const SLICE: u32 = 16_384;

/// The most listings kept for clients; a new listing replaces the oldest.
const LISTINGS: usize = 8;

/// The selection of routes by a request.
#[derive(Clone)]
struct Wanted {
    received_from: Option<PeerIndex>,
    advertised_to: Option<PeerIndex>,
    verdict: pb::Verdict,
    /// True if paths are shown as received, before import policy.
    as_received: bool,
    filter: Arc<Filter>,
}

impl Wanted {
    /// Returns the wanted part of a table's route: as sent, if the request selects routes sent to a neighbor.
    fn route<P: Sharded>(&self, table: &Table, route: RouteView<P>) -> Option<RouteView<P>> {
        let mut route = match self.advertised_to {
            Some(peer) => table.advertised_route(peer, route.prefix)?,
            None => route,
        };
        if let Some(peer) = self.received_from {
            route.paths.retain(|p| p.peer == peer);
        }
        match self.verdict {
            pb::Verdict::Any => {}
            pb::Verdict::Accepted => route.paths.retain(|p| p.lost != Some(Elimination::Rejected)),
            pb::Verdict::Rejected => route.paths.retain(|p| p.lost == Some(Elimination::Rejected)),
        }
        if self.as_received {
            for path in &mut route.paths {
                if let Some(came) = path.received.take() {
                    (path.next_hop, path.view, path.attributes) = (came.next_hop, came.view, came.attributes);
                }
            }
        }
        if !self.filter.is_empty() {
            route.paths.retain(|p| self.filter.accepts(&p.attributes));
        }
        (!route.paths.is_empty()).then_some(route)
    }

    /// Adds possibly wanted prefixes of a slice of a table to `found`. Returns the place of the next slice.
    fn list<P: Sharded>(&self, table: &Table, range: Range<P>, from: u32, found: &mut Vec<P>) -> Option<u32> {
        let shard = table.shard::<P>();
        let mut known: HashMap<u32, bool> = HashMap::new();
        let wanted = |prefix: P, mut paths: &mut dyn Iterator<Item = (PeerIndex, u32, &[u8])>| {
            if !range.has(prefix) {
                return false;
            }
            // What a neighbor is sent has other attributes than the path that it is made of: the page looks at those.
            if let Some(peer) = self.advertised_to {
                return shard.is_advertised(peer, prefix);
            }
            Iterator::any(&mut paths, |(peer, set, attributes)| {
                self.received_from.is_none_or(|wanted| wanted == peer)
                    && (self.filter.is_empty()
                        || self.as_received
                        || *known.entry(set).or_insert_with(|| self.filter.accepts(attributes)))
            })
        };
        shard.list(from, SLICE, wanted, found)
    }
}

/// The range of a listing's prefixes.
#[derive(Clone, Copy)]
struct Range<P> {
    inside: P,
    /// Only prefixes behind `after`.
    after: Option<P>,
    /// Only prefixes before `before`.
    before: Option<P>,
}

impl<P: Sharded> Range<P> {
    fn has(&self, prefix: P) -> bool {
        self.before.is_none_or(|before| prefix < before)
            && self.after.is_none_or(|after| prefix > after)
            && self.inside.covers(prefix)
    }
}

/// Prefixes in order.
struct Listed<P> {
    prefixes: Vec<P>,
    /// More prefixes follow behind these.
    has_more: bool,
}

/// A [`Listed`] of either family, for the pages of one reader.
type Listing = Arc<dyn Any + Send + Sync>;

/// The listings read by clients at present.
#[derive(Default)]
pub(crate) struct Listings {
    all: RefCell<BTreeMap<u32, Listing>>,
    next: Cell<u32>,
}

impl Listings {
    fn keep(&self, listing: Listing) -> u32 {
        let number = self.next.get().wrapping_add(1).max(1);
        self.next.set(number);
        let mut all = self.all.borrow_mut();
        if all.len() >= LISTINGS {
            all.pop_first();
        }
        all.insert(number, listing);
        number
    }
}

/// Answers a request for routes of a family.
pub(crate) struct GetRoutes<'a> {
    pub process: &'a BgpProcess,
    pub request: &'a pb::GetRoutesRequest,
}

impl<'a> FamilyVisitor for GetRoutes<'a> {
    type Output = Answer<'a, pb::GetRoutesReply>;

    fn visit<P: Sharded>(self) -> Self::Output {
        Box::pin(self.process.routes::<P>(self.request))
    }
}

impl BgpProcess {
    fn route<P: Sharded>(&self, route: RouteView<P>, wanted: &Wanted) -> pb::Route {
        let is_sent = wanted.advertised_to.is_some();
        let paths = |control: &Control| route.paths.into_iter().map(|p| path(p, is_sent, control)).collect();
        pb::Route { net: Some(convert::net(route.prefix)), paths: self.read(paths).unwrap_or_default() }
    }

    /// Answers a request for a family's routes.
    async fn routes<P: Sharded>(
        &self,
        request: &pb::GetRoutesRequest,
    ) -> Result<pb::GetRoutesReply, XrlError> {
        let index = |text: &str| match text {
            "" => Ok(None),
            text => self.known(text).map(|a| self.read(|c| c.neighbor_index(a)).flatten()),
        };
        let wanted = Wanted {
            received_from: index(&request.received_from)?,
            advertised_to: index(&request.advertised_to)?,
            verdict: request.verdict(),
            as_received: request.as_received,
            filter: Arc::new(Filter::read(request)?),
        };
        let net: Option<P> = request.net.as_ref().map(|net| convert::prefix(Some(net))).transpose()?;
        let one = match (net, request.r#match()) {
            (Some(prefix), pb::Match::Exact) => self.look_up(&[prefix], &wanted).await?.pop(),
            (Some(prefix), pb::Match::Longest) => self.longest_match(prefix, &wanted).await?,
            (net, _) => {
                let inside = net.unwrap_or(P::default_route());
                return self.page(request, inside, &wanted).await;
            }
        };
        let routes = one.map(|route| self.route(route, &wanted)).into_iter().collect();
        Ok(pb::GetRoutesReply { routes, next_page: 0 })
    }

    /// Returns the route of the longest prefix that covers `prefix`.
    async fn longest_match<P: Sharded>(
        &self,
        prefix: P,
        wanted: &Wanted,
    ) -> Result<Option<RouteView<P>>, XrlError> {
        // A hash table has no order: the covering prefixes are tried, longest first.
        let asked = wanted.clone();
        let longest = move |table: &Table| {
            let route = |len| table.shard::<P>().route(prefix.truncate(len));
            let found = (0..=prefix.len()).rev().find_map(route)?;
            Some((found.prefix.len(), asked.route(table, found)))
        };
        let found = self.ask_all(longest).await?.into_iter().flatten().max_by_key(|(len, _)| *len);
        Ok(found.and_then(|(_, route)| route))
    }

    /// Returns a page of the routes inside a prefix.
    async fn page<P: Sharded>(
        &self,
        request: &pb::GetRoutesRequest,
        inside: P,
        wanted: &Wanted,
    ) -> Result<pb::GetRoutesReply, XrlError> {
        let limit = if request.limit == 0 { 1000 } else { (request.limit as usize).min(MAX_PAGE) };
        // A page is of a listing: its number is in the upper half, the place in it in the lower.
        let (mut number, mut place) = ((request.page >> 32) as u32, request.page as u32 as usize);
        let mut listing = match number {
            0 => {
                let first: Listing = Arc::new(
                    self.prefixes(Range { inside, after: None, before: None }, wanted, Some(limit)).await?,
                );
                number = self.listings.keep(Arc::clone(&first));
                first
            }
            _ => self.listings.all.borrow().get(&number).cloned().ok_or_else(|| {
                XrlError::application(4, "too many listings are being read; begin this one again")
            })?,
        };
        let mut routes: Vec<RouteView<P>> = Vec::new();
        let is_end = loop {
            let Listed { prefixes, has_more } = listing
                .downcast_ref::<Listed<P>>()
                .ok_or_else(|| XrlError::BadArguments("page: it is of the other family".into()))?;
            while routes.len() < limit && place < prefixes.len() {
                let end = prefixes.len().min(place + limit - routes.len());
                routes.extend(self.look_up(&prefixes[place..end], wanted).await?);
                place = end;
            }
            if routes.len() == limit || !has_more {
                break place == prefixes.len() && !has_more;
            }
            let rest = self
                .prefixes(Range { inside, after: prefixes.last().copied(), before: None }, wanted, None)
                .await?;
            self.listings.all.borrow_mut().remove(&number);
            listing = Arc::new(rest);
            number = self.listings.keep(Arc::clone(&listing));
            place = 0;
        };
        if is_end {
            self.listings.all.borrow_mut().remove(&number);
        }
        Ok(pb::GetRoutesReply {
            routes: routes.into_iter().map(|r| self.route(r, wanted)).collect(),
            next_page: if is_end { 0 } else { u64::from(number) << 32 | place as u64 },
        })
    }

    /// Returns possibly wanted prefixes of a range, in order. With `most`, returns only the lowest.
    async fn prefixes<P: Sharded>(
        &self,
        mut range: Range<P>,
        wanted: &Wanted,
        most: Option<usize>,
    ) -> Result<Listed<P>, XrlError> {
        let tables = self.core().map_or(0, |core| core.post.tables.len());
        let (mut prefixes, mut has_more) = (Vec::new(), false);
        for number in 0..tables {
            let mut from = Some(0);
            while let Some(place) = from {
                let (wanted, mut found) = (wanted.clone(), std::mem::take(&mut prefixes));
                let slice = move |table: &Table| {
                    let next = wanted.list(table, range, place, &mut found);
                    (found, next)
                };
                let Some((found, next)) = self.ask(number, slice).await? else { break };
                (prefixes, from) = (found, next);
                if let Some(most) = most.filter(|most| prefixes.len() > *most) {
                    // What is behind all of these is not looked at any more.
                    range.before = Some(*prefixes.select_nth_unstable(most).1);
                    prefixes.truncate(most);
                    has_more = true;
                }
            }
        }
        let sorted = tokio::task::spawn_blocking(move || {
            prefixes.sort_unstable();
            prefixes
        });
        let sorted =
            sorted.await.map_err(|e| XrlError::Internal(format!("the routes cannot be sorted: {e}")));
        Ok(Listed { prefixes: sorted?, has_more })
    }

    /// Returns the wanted routes of `prefixes`, in the same order.
    async fn look_up<P: Sharded>(
        &self,
        prefixes: &[P],
        wanted: &Wanted,
    ) -> Result<Vec<RouteView<P>>, XrlError> {
        let spread = self.read(|control| control.spread()).ok_or_else(not_configured)?;
        let tables = self.core().map_or(0, |core| core.post.tables.len());
        let mut of_table: Vec<Vec<(usize, P)>> = vec![Vec::new(); tables];
        for (place, prefix) in prefixes.iter().enumerate() {
            if let Some(list) = of_table.get_mut(spread.table(*prefix)) {
                list.push((place, *prefix));
            }
        }
        let mut found: Vec<(usize, RouteView<P>)> = Vec::with_capacity(prefixes.len());
        for (number, list) in of_table.into_iter().enumerate().filter(|(_, list)| !list.is_empty()) {
            let wanted = wanted.clone();
            let look = move |table: &Table| -> Vec<(usize, RouteView<P>)> {
                let route = |prefix| table.shard::<P>().route(prefix).and_then(|r| wanted.route(table, r));
                list.into_iter().filter_map(|(place, prefix)| Some((place, route(prefix)?))).collect()
            };
            found.extend(self.ask(number, look).await?.unwrap_or_default());
        }
        found.sort_by_key(|(place, _)| *place);
        Ok(found.into_iter().map(|(_, route)| route).collect())
    }
}
