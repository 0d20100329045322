//! The interface that XIP serves: the core's views as messages, and pings.

use crate::idl::xip::v1 as pb;
use crate::{Served, XipProcess};
use sluice_base::{Prefix as _, XidPrefix};
use sluice_bpf::layout::xip::REASON_NAMES;
use sluice_xip::answers::action;
use sluice_xip::counters::Reason;
use sluice_xip::forest::CacheEntryId;
use sluice_xip::io::{Input, Ping, Pong, PongKind, RibRoute};
use sluice_xip::outsiders::OutsideReason;
use sluice_xip::wire::{Dag, Marks, PacketHead};
use sluice_xrl::{CallContext, XrlError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::oneshot;

/// Routes of a page, unless the caller wants fewer.
const ROUTES: usize = 1_000;
/// Rows of a page of the cache, unless the caller wants fewer.
const ROWS: usize = 100;
/// The longest wait for an answer to a ping.
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// Pings that wait at once.
const MOST_PINGS: usize = 256;

/// The pings that wait for an answer, by identifier and sequence number.
#[derive(Default)]
pub(crate) struct Pings {
    waiting: RefCell<BTreeMap<(u16, u16), oneshot::Sender<Pong>>>,
    next: Cell<u16>,
}

impl Pings {
    /// Hands an answer to the ping that waits for it.
    pub(crate) fn answered(&self, pong: Pong) {
        let waiting = self.waiting.borrow_mut().remove(&(pong.identifier, pong.sequence));
        if let Some(waiting) = waiting {
            // A caller that went away needs no answer.
            let _ = waiting.send(pong);
        }
    }
}

fn action_name(word: u64) -> &'static str {
    match word as u8 {
        action::DIG => "dig",
        action::FORWARD => "forward",
        action::DROP => "drop",
        action::UNREACHABLE => "unreachable",
        action::UNSUPPORTED => "unsupported",
        action::TUNNEL => "tunnel",
        action::COPY => "copy",
        _ => "up",
    }
}

fn route_of(prefix: XidPrefix, route: &RibRoute, problem: Option<String>) -> pb::Route {
    let (kind, gateway) = match route {
        RibRoute::Local => ("local", String::new()),
        RibRoute::Discard => ("discard", String::new()),
        RibRoute::Gateways(gateways) => {
            let kind = if gateways.iter().any(|g| g.interface.is_some()) { "neighbor" } else { "redirect" };
            let names: Vec<String> = gateways.iter().map(|gateway| gateway.xid.to_string()).collect();
            (kind, names.join(" "))
        }
    };
    pb::Route { prefix: prefix.to_string(), kind: kind.into(), gateway, problem: problem.unwrap_or_default() }
}

fn dag(text: &str) -> Result<Dag, XrlError> {
    let bad = |why: String| XrlError::BadArguments(format!("address: {why}"));
    let dag = Dag::parse(text, Marks::Drop).map_err(|error| bad(error.to_string()))?;
    dag.validate().map_err(|error| bad(error.to_string()))?;
    Ok(dag)
}

impl XipProcess {
    fn cache_view(&self) -> pb::Cache {
        self.driver.read(|xip| {
            let (answers, reached) = (xip.answers(), xip.answers().reached());
            let counts = answers.cache().map(|cache| cache.counts()).unwrap_or_default();
            let size = answers.forest().size();
            pb::Cache {
                rows: answers.cache().map_or(0, |cache| cache.len() as u64),
                slots: answers.cache().map_or(0, |cache| cache.slots() as u64),
                stored: counts.stored,
                evicted: counts.evicted,
                not_admitted: counts.not_admitted,
                overwritten: reached.overwritten,
                taken_out: reached.taken_out,
                checked: reached.checked,
                wrong: reached.wrong,
                rekeyed: reached.rekeyed,
                anchors: size.anchors as u64,
                attachments: size.links as u64,
                memory: size.octets as u64,
            }
        })
    }
}

impl pb::Xip for Served {
    async fn get_summary(
        &self,
        _ctx: &CallContext,
        _: pb::GetSummaryRequest,
    ) -> Result<pb::GetSummaryReply, XrlError> {
        let cache = self.cache_view();
        Ok(self.driver.read(|xip| {
            let router = xip.answers().router();
            let decisions: BTreeMap<_, _> = router.counters().by_principal().collect();
            let principals = router.registry().iter().map(|principal| pb::PrincipalSummary {
                process: self.principals.target(principal.kind()),
                absent: xip.outsiders().get(principal.kind()).is_some_and(|process| !process.is_present()),
                name: principal.kind().to_string(),
                r#type: format!("0x{:x}", principal.kind().0),
                entries: principal.entry_count() as u64,
                decisions: decisions.get(&principal.kind()).copied().unwrap_or_default(),
            });
            let neighbors = &xip.settings().interfaces;
            let interfaces = xip.links().iter().map(|interface| {
                let (by_ring, reason) = self.rings.state(interface.index);
                pb::Interface {
                    name: interface.name.clone(),
                    running: interface.running,
                    neighbors: neighbors.get(&interface.name).copied().unwrap_or_default(),
                    punt_path: if by_ring { "af-xdp" } else { "packet-socket" }.into(),
                    punt_reason: reason.unwrap_or_default(),
                }
            });
            pb::GetSummaryReply {
                address: xip.own_address().to_string(),
                principals: principals.collect(),
                interfaces: interfaces.collect(),
                fast_path: self.maps.borrow().is_some(),
                fast_path_reason: self.without_program.borrow().clone().unwrap_or_default(),
                routes: xip.routes().count() as u64,
                refused: xip.routes().filter(|(_, _, problem)| problem.is_some()).count() as u64,
                cache: Some(cache),
                ip_routes_left_out: self.ip_routes.left_out() as u64,
            }
        }))
    }

    async fn get_routes(
        &self,
        _ctx: &CallContext,
        request: pb::GetRoutesRequest,
    ) -> Result<pb::GetRoutesReply, XrlError> {
        let after: Option<XidPrefix> = match request.after.as_str() {
            "" => None,
            text => Some(text.parse().map_err(|e| XrlError::BadArguments(format!("after: {e}")))?),
        };
        let most = if request.most == 0 { ROUTES } else { (request.most as usize).min(ROUTES) };
        let is_wanted = |prefix: &XidPrefix| {
            let name = prefix.kind().map(|kind| kind.to_string());
            request.principal.is_empty() || name.as_deref() == Some(request.principal.as_str())
        };
        let mut routes: Vec<pb::Route> = self.driver.read(|xip| {
            let routes = xip.routes_after(after).filter(|(prefix, _, _)| is_wanted(prefix));
            let routes = routes.take(most + 1);
            routes.map(|(p, route, problem)| route_of(p, route, problem.map(|e| e.to_string()))).collect()
        });
        let has_more = routes.len() > most;
        routes.truncate(most);
        let next = routes.last().filter(|_| has_more).map(|route| route.prefix.clone());
        Ok(pb::GetRoutesReply { routes, next: next.unwrap_or_default() })
    }

    async fn get_addresses(
        &self,
        _ctx: &CallContext,
        _: pb::GetAddressesRequest,
    ) -> Result<pb::GetAddressesReply, XrlError> {
        let addresses = self.driver.read(|xip| {
            let xids = xip
                .routes()
                .filter(|(prefix, _, problem)| prefix.len() == XidPrefix::WIDTH && problem.is_none());
            let addresses = xids.map(|(prefix, _, _)| Dag::direct(prefix.addr()).to_string());
            addresses.take(ROUTES).collect()
        });
        Ok(pb::GetAddressesReply { addresses })
    }

    async fn get_neighbors(
        &self,
        _ctx: &CallContext,
        _: pb::GetNeighborsRequest,
    ) -> Result<pb::GetNeighborsReply, XrlError> {
        Ok(pb::GetNeighborsReply { neighbors: self.driver.read(crate::view::neighbors) })
    }

    async fn get_cache(
        &self,
        _ctx: &CallContext,
        request: pb::GetCacheRequest,
    ) -> Result<pb::GetCacheReply, XrlError> {
        let most = if request.most == 0 { ROWS } else { (request.most as usize).min(ROWS) };
        Ok(self.driver.read(|xip| {
            let Some(cache) = xip.answers().cache() else { return pb::GetCacheReply::default() };
            let mut ids = cache.ids_from(request.from);
            let view = |id: CacheEntryId| {
                let (row, answer) = (cache.row(id)?, cache.answer(id)?);
                Some(pb::CachedRow {
                    number: id.0,
                    xids: row.edges.iter().map(|edge| edge.xid.to_string()).collect(),
                    action: action_name(answer.0).into(),
                    edge: (answer.0 >> 8) as u8 as u32,
                    used: cache.was_used(id, 0),
                })
            };
            let rows = ids.by_ref().take(most).filter_map(view).collect();
            pb::GetCacheReply { rows, next: ids.next().map_or(0, |id| id.0) }
        }))
    }

    async fn get_anchors(
        &self,
        _ctx: &CallContext,
        request: pb::GetAnchorsRequest,
    ) -> Result<pb::GetAnchorsReply, XrlError> {
        let anchors = self.driver.read(|xip| crate::view::anchors(xip, CacheEntryId(request.number)));
        Ok(pb::GetAnchorsReply { anchors })
    }

    async fn get_counters(
        &self,
        _ctx: &CallContext,
        _: pb::GetCountersRequest,
    ) -> Result<pb::GetCountersReply, XrlError> {
        let counter = |path: &str, reason: &str, count: u64| pb::Counter {
            path: path.into(),
            reason: reason.into(),
            count,
        };
        let mut counters = Vec::new();
        if let Some(maps) = &*self.maps.borrow() {
            let counts = maps.counts();
            let fast = REASON_NAMES.iter().map(|(number, name)| {
                counter("fast", name, counts.get(*number as usize).copied().unwrap_or_default())
            });
            counters.extend(fast);
        }
        counters.extend([
            counter("punt", "af-xdp", self.rings.by_ring.get()),
            counter("punt", "packet-socket", self.rings.by_packet_socket.get()),
            counter("punt", "lost", self.rings.lost()),
        ]);
        {
            let early = self.early.borrow();
            counters.extend([counter("early", "held", early.held()), counter("early", "lost", early.lost())]);
        }
        self.driver.read(|xip| {
            let slow = xip.forwarding().counts().iter();
            counters.extend(slow.map(|(name, count)| counter("slow", name, count)));
            let dropped = xip.neighbors().drops().iter().filter(|(_, count)| *count > 0);
            counters.extend(dropped.map(|(name, count)| counter("nwp", name, count)));
            let decisions = xip.answers().router().counters();
            let reasons = Reason::ALL
                .iter()
                .map(|reason| counter("decision", reason.name(), decisions.by_reason(*reason)));
            counters.extend(reasons.filter(|counter| counter.count > 0));
            for (kind, outsider) in xip.outsiders().iter() {
                let path = format!("principal {kind}");
                let said = OutsideReason::ALL.iter().map(|r| counter(&path, r.name(), outsider.of(*r)));
                counters.extend(said.filter(|counter| counter.count > 0));
            }
        });
        Ok(pb::GetCountersReply { counters })
    }

    async fn clear_cache(
        &self,
        _ctx: &CallContext,
        _: pb::ClearCacheRequest,
    ) -> Result<pb::ClearCacheReply, XrlError> {
        self.input(Input::ClearCache);
        Ok(pb::ClearCacheReply {})
    }

    async fn ping(&self, _ctx: &CallContext, request: pb::PingRequest) -> Result<pb::PingReply, XrlError> {
        let narrow = |name: &str, value: u32| {
            u16::try_from(value).map_err(|_| XrlError::BadArguments(format!("{name}: at most 65,535")))
        };
        let destination = dag(&request.address)?;
        let hop_limit = u8::try_from(request.hop_limit.unwrap_or(PacketHead::HOP_LIMIT.into()))
            .map_err(|_| XrlError::BadArguments("hop_limit: at most 255".into()))?;
        let (sequence, octets) = (narrow("sequence", request.sequence)?, narrow("octets", request.octets)?);
        if self.pings.waiting.borrow().len() >= MOST_PINGS {
            return Err(XrlError::application(1, "too many pings wait for answers"));
        }
        let identifier = self.pings.next.get();
        self.pings.next.set(identifier.wrapping_add(1));
        let (answer, waiting) = oneshot::channel();
        self.pings.waiting.borrow_mut().insert((identifier, sequence), answer);
        let begin = std::time::Instant::now();
        self.input(Input::Ping(Ping { destination, hop_limit, identifier, sequence, octets }));
        let wait = match request.timeout_ms {
            0 => Duration::from_secs(1),
            ms => Duration::from_millis(ms.into()).min(LONGEST_WAIT),
        };
        let answered = tokio::time::timeout(wait, waiting).await;
        self.pings.waiting.borrow_mut().remove(&(identifier, sequence));
        let Ok(Ok(pong)) = answered else {
            return Ok(pb::PingReply { kind: "lost".into(), ..Default::default() });
        };
        let kind = match pong.kind {
            PongKind::Reply => "reply",
            PongKind::Unreachable => "unreachable",
            PongKind::TimeExceeded => "time-exceeded",
        };
        Ok(pb::PingReply {
            kind: kind.into(),
            from: pong.from.to_string(),
            arrived: pong.arrived.to_string(),
            microseconds: begin.elapsed().as_micros().try_into().unwrap_or(u64::MAX),
        })
    }
}
