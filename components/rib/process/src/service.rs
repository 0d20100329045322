//! The interfaces that the RIB serves.

use crate::clients::{Wish, presence_message};
use crate::stages::{no_stages, number_of};
use crate::{RibProcess, convert};
use sluice_base::{
    Address, AnyPrefix, Distance, Duration, FamilyId, InterfaceEvent, IpPrefix, Ipv4Prefix, Ipv6Prefix,
    Provenance, RouteAction, RouteBatch, TableId, XidPrefix,
};
use sluice_rib::origin::MAX_NOTE;
use sluice_rib::request::{RegisterInterest, UpdateRoutes, WatchPresence};
use sluice_rib::rights::RoutePolicy;
use sluice_rib::view::PageQuery;
use sluice_rib::{Input, OriginSettings, Scope, SubscriptionId, TableKey};
use sluice_xrl::convert::family_id;
use sluice_xrl::idl::fea::v1 as fea;
use sluice_xrl::idl::rib::v1 as pb;
use sluice_xrl::routes;
use sluice_xrl::{CallContext, XrlError};
use std::rc::Rc;

sluice_process::served!(RibProcess);

/// The largest page of routes.
const MAX_PAGE: usize = 10_000;

fn table(number: u32) -> TableId {
    if number == 0 { TableId::MAIN } else { TableId(number) }
}

fn wrong(name: &'static str) -> impl Fn(sluice_xrl::convert::ConvertError) -> XrlError {
    move |e| XrlError::BadArguments(format!("{name}: {e}"))
}

fn ip_prefixes(nets: &[sluice_xrl::idl::common::v1::Net]) -> Result<Vec<IpPrefix>, XrlError> {
    nets.iter().map(|net| IpPrefix::try_from(net).map_err(wrong("nets"))).collect()
}

fn no_tables(family: FamilyId) -> XrlError {
    XrlError::BadArguments(format!("family: the RIB has no tables of {family}; expected ipv4, ipv6 or xid"))
}

/// Reads refused routes.
fn rejected(
    routes: impl IntoIterator<Item = pb::RejectedRoute>,
) -> Result<Vec<(AnyPrefix, Provenance, String)>, XrlError> {
    let mut read = Vec::new();
    for route in routes {
        if let Some(prefix) = convert::optional_prefix(route.net.as_ref(), "routes")? {
            read.push((prefix, Provenance::from_bits(route.provenance), route.reason));
        }
    }
    Ok(read)
}

impl RibProcess {
    /// Records the routes of a batch at a profiling point, which knows IP prefixes only.
    fn note_arrival<P: TableKey>(&self, batch: &RouteBatch<P>, point: &sluice_process::Point) {
        if point.is_on() {
            for update in &batch.updates {
                if let Some(prefix) = AnyPrefix::of(update.prefix).ip() {
                    point.record(prefix, update.action == RouteAction::Delete, update.provenance);
                }
            }
        }
    }

    fn update<P: TableKey>(
        &self,
        ctx: &CallContext,
        policy: &RoutePolicy,
        request: pb::UpdateRoutesRequest,
    ) -> Result<(), XrlError> {
        let batch: RouteBatch<P> = match request.packed.is_empty() {
            false => routes::decode_routes(&request.packed)?,
            true => routes::routes_from_messages(&request.sets, &request.routes)?,
        };
        let key = (table(request.table), request.origin);
        self.driver
            .read(|rib| policy.check_batch(&ctx.principal, &key, &batch, rib))
            .map_err(self.denied(ctx, &key.1))?;
        self.note_arrival(&batch, &self.arriving);
        let kept = self.queued.is_on().then(|| batch.clone());
        let (table, origin) = key;
        self.driver.request(UpdateRoutes { table, origin, batch });
        if let Some(batch) = kept {
            self.note_arrival(&batch, &self.queued);
        }
        self.pass_on();
        Ok(())
    }
}

impl pb::Rib for Served {
    async fn register_origin(
        &self,
        ctx: &CallContext,
        request: pb::RegisterOriginRequest,
    ) -> Result<pb::RegisterOriginReply, XrlError> {
        if request.origin.is_empty() {
            return Err(XrlError::BadArguments("origin: expected a name".into()));
        }
        let distance = u8::try_from(request.distance)
            .map_err(|_| XrlError::BadArguments("distance: expected 0 to 255".into()))?;
        let table = table(request.table);
        let settings = OriginSettings {
            name: request.origin.clone(),
            distance: Distance(distance),
            external: request.external,
            grace: Duration::from_secs(request.grace_seconds.into()),
            kinds: request.kinds,
        };
        let policy = self.check_origin(ctx, table, &request.origin).await?;
        policy
            .check_distance(&ctx.principal, settings.distance)
            .map_err(self.denied(ctx, &request.origin))?;
        if !request.target.is_empty() {
            self.client(ctx, &request.target).await?;
        }
        self.own_origin(ctx, table, &request.origin, &request.target);
        self.input(Input::RegisterOrigin(table, settings));
        let kept = self.driver.read(|rib| {
            let table = rib.table(table)?;
            let id = table.origin_id(&request.origin)?;
            let origin = table.shared.origin(id);
            Some((origin.stale, origin.note.clone()))
        });
        let (stale, note) = kept.unwrap_or_default();
        Ok(pb::RegisterOriginReply { stale_routes: u32::try_from(stale).unwrap_or(u32::MAX), note })
    }

    async fn keep_note(
        &self,
        ctx: &CallContext,
        request: pb::KeepNoteRequest,
    ) -> Result<pb::KeepNoteReply, XrlError> {
        let table = table(request.table);
        self.check_origin(ctx, table, &request.origin).await?;
        if request.note.len() > MAX_NOTE {
            return Err(XrlError::BadArguments(format!("note: expected at most {MAX_NOTE} octets")));
        }
        self.input(Input::OriginNote(table, request.origin, request.note));
        Ok(pb::KeepNoteReply {})
    }

    async fn unregister_origin(
        &self,
        ctx: &CallContext,
        request: pb::UnregisterOriginRequest,
    ) -> Result<pb::UnregisterOriginReply, XrlError> {
        let table = table(request.table);
        self.check_origin(ctx, table, &request.origin).await?;
        self.disown_origin(table, &request.origin);
        self.input(Input::UnregisterOrigin(table, request.origin));
        Ok(pb::UnregisterOriginReply {})
    }

    async fn update_routes(
        &self,
        ctx: &CallContext,
        request: pb::UpdateRoutesRequest,
    ) -> Result<pb::UpdateRoutesReply, XrlError> {
        self.rest.over().await;
        let policy = self.check_origin(ctx, table(request.table), &request.origin).await?;
        let family = family_id(request.family.into())?;
        let gather = self.driver.read(|rib| rib.gather_time(table(request.table), family, &request.origin));
        match family {
            FamilyId::IPV4 => self.update::<Ipv4Prefix>(ctx, &policy, request)?,
            FamilyId::IPV6 => self.update::<Ipv6Prefix>(ctx, &policy, request)?,
            FamilyId::XID => self.update::<XidPrefix>(ctx, &policy, request)?,
            _ => return Err(no_tables(family)),
        }
        Ok(pb::UpdateRoutesReply { coalesce_ms: u32::try_from(gather.as_millis()).unwrap_or(u32::MAX) })
    }

    async fn end_of_refresh(
        &self,
        ctx: &CallContext,
        request: pb::EndOfRefreshRequest,
    ) -> Result<pb::EndOfRefreshReply, XrlError> {
        let table = table(request.table);
        self.check_origin(ctx, table, &request.origin).await?;
        if !request.even_all && self.driver.read(|rib| rib.would_sweep_all(table, &request.origin)) {
            let reason = format!(
                "{} has announced no route since it registered, and all of before would be swept; announce them first, or say `even_all`",
                request.origin
            );
            return Err(XrlError::application(5, reason));
        }
        self.input(Input::EndOfRefresh(table, request.origin.clone()));
        self.origin_refreshed(table, &request.origin);
        Ok(pb::EndOfRefreshReply {})
    }

    async fn set_gateways_usable(
        &self,
        ctx: &CallContext,
        request: pb::SetGatewaysUsableRequest,
    ) -> Result<pb::SetGatewaysUsableReply, XrlError> {
        self.check_origin(ctx, table(request.table), &request.origin).await?;
        for gateway in &request.gateways {
            let gateway = Address::try_from(gateway).map_err(wrong("gateways"))?;
            let table = table(request.table);
            self.input(Input::GatewayUsable(table, request.origin.clone(), gateway, request.usable));
        }
        Ok(pb::SetGatewaysUsableReply {})
    }

    async fn register_interest(
        &self,
        ctx: &CallContext,
        request: pb::RegisterInterestRequest,
    ) -> Result<pb::RegisterInterestReply, XrlError> {
        self.interfaces.known().await;
        let watcher = self.client(ctx, &request.target).await?;
        let scope = if request.all_origins { Scope::All } else { Scope::NextHop };
        let mut answers = Vec::with_capacity(request.addrs.len());
        for addr in &request.addrs {
            let addr = Address::try_from(addr).map_err(wrong("addrs"))?;
            let answer =
                self.driver.request(RegisterInterest { table: table(request.table), watcher, addr, scope });
            answers.push(convert::interest(answer.ok_or_else(|| no_tables(addr.family()))?));
        }
        Ok(pb::RegisterInterestReply { answers })
    }

    async fn deregister_interest(
        &self,
        ctx: &CallContext,
        request: pb::DeregisterInterestRequest,
    ) -> Result<pb::DeregisterInterestReply, XrlError> {
        let watcher = self.client(ctx, &request.target).await?;
        for net in &request.valid {
            let range = AnyPrefix::try_from(net).map_err(wrong("valid"))?;
            self.driver.input(Input::DeregisterInterest(table(request.table), watcher, range));
        }
        Ok(pb::DeregisterInterestReply {})
    }

    async fn watch_presence(
        &self,
        ctx: &CallContext,
        request: pb::WatchPresenceRequest,
    ) -> Result<pb::WatchPresenceReply, XrlError> {
        let watcher = self.client(ctx, &request.target).await?;
        let prefixes = ip_prefixes(&request.nets)?;
        let except = (!request.except_origin.is_empty()).then_some(request.except_origin);
        let watch = WatchPresence {
            table: table(request.table),
            watcher,
            prefixes: prefixes.clone(),
            except: except.clone(),
        };
        let states = self.driver.request(watch).map_err(|error| {
            self.clients.report_excess(ctx, &error.to_string());
            XrlError::Busy(error.to_string())
        })?;
        self.await_origins();
        let number = self.answer_presence(watcher, table(request.table), &prefixes, except.as_deref());
        let states = prefixes.into_iter().zip(states);
        let presence =
            |(prefix, is_present)| presence_message(AnyPrefix::from(prefix), except.clone(), is_present);
        Ok(pb::WatchPresenceReply { presences: states.map(presence).collect(), number })
    }

    async fn unwatch_presence(
        &self,
        ctx: &CallContext,
        request: pb::UnwatchPresenceRequest,
    ) -> Result<pb::UnwatchPresenceReply, XrlError> {
        let watcher = self.client(ctx, &request.target).await?;
        let except = (!request.except_origin.is_empty()).then_some(request.except_origin);
        let prefixes = ip_prefixes(&request.nets)?;
        self.answer_presence(watcher, table(request.table), &prefixes, except.as_deref());
        for prefix in prefixes {
            let prefix = AnyPrefix::from(prefix);
            self.driver.input(Input::UnwatchPresence(table(request.table), watcher, prefix, except.clone()));
        }
        Ok(pb::UnwatchPresenceReply {})
    }

    async fn subscribe(
        &self,
        ctx: &CallContext,
        request: pb::SubscribeRequest,
    ) -> Result<pb::SubscribeReply, XrlError> {
        self.client(ctx, &request.target).await?;
        self.check_subscriptions(ctx)?;
        let family = family_id(request.family.into())?;
        if request.announced && !request.policy.is_empty() {
            let reason =
                "policy: routes before the decision pass no policy; leave it out, or leave out `announced`";
            return Err(XrlError::BadArguments(reason.into()));
        }
        let policy = match request.policy.is_empty() {
            true => None,
            false => Some(self.subscriber_policy(&request.policy).await?),
        };
        let wish = Wish {
            table: table(request.table),
            origins: request.origins,
            policy,
            has_routes: request.has_routes,
            is_announced: request.announced,
        };
        let id = self.subscribe_family(family, wish, &request.target);
        let id = id.ok_or_else(|| no_tables(family))?;
        Ok(pb::SubscribeReply { subscription: id.0 })
    }

    async fn unsubscribe(
        &self,
        ctx: &CallContext,
        request: pb::UnsubscribeRequest,
    ) -> Result<pb::UnsubscribeReply, XrlError> {
        let id = SubscriptionId(request.subscription);
        self.check_subscription(ctx, id)?;
        self.driver.input(Input::Unsubscribe(id));
        self.clients.wake();
        Ok(pb::UnsubscribeReply {})
    }

    async fn reject_routes(
        &self,
        ctx: &CallContext,
        request: pb::RejectRoutesRequest,
    ) -> Result<pb::RejectRoutesReply, XrlError> {
        let id = SubscriptionId(request.subscription);
        let (table, family) = self.forwarded_by(ctx, id)?;
        let routes = rejected(request.routes)?;
        if let Some((prefix, ..)) = routes.iter().find(|(prefix, ..)| prefix.family() != family) {
            return Err(XrlError::BadArguments(format!("routes: {prefix} is not of {family}")));
        }
        let accepted = request.accepted.iter().map(AnyPrefix::try_from);
        let accepted = accepted.collect::<Result<Vec<_>, _>>().map_err(wrong("accepted"))?;
        if let Some(prefix) = accepted.iter().find(|prefix| prefix.family() != family) {
            return Err(XrlError::BadArguments(format!("accepted: {prefix} is not of {family}")));
        }
        self.input(Input::FibRejected(table, routes));
        self.input(Input::FibAccepted(table, accepted));
        Ok(pb::RejectRoutesReply {})
    }

    async fn lookup_route(
        &self,
        _ctx: &CallContext,
        request: pb::LookupRouteRequest,
    ) -> Result<pb::LookupRouteReply, XrlError> {
        let addr = request.addr.as_ref().ok_or_else(|| XrlError::BadArguments("addr: missing".into()))?;
        let addr = Address::try_from(addr).map_err(wrong("addr"))?;
        let route = self.driver.read(|rib| rib.lookup(table(request.table), addr));
        Ok(pb::LookupRouteReply { route: route.map(convert::route) })
    }

    async fn get_routes(
        &self,
        _ctx: &CallContext,
        request: pb::GetRoutesRequest,
    ) -> Result<pb::GetRoutesReply, XrlError> {
        let exact = convert::optional_prefix(request.exact.as_ref(), "exact")?;
        let within = convert::optional_prefix(request.within.as_ref(), "within")?;
        let family = match exact.or(within).map(AnyPrefix::family) {
            Some(family) => family,
            None => family_id(request.family.into())?,
        };
        let query = PageQuery {
            within,
            exact,
            origin: (!request.origin.is_empty()).then_some(request.origin),
            after: convert::optional_prefix(request.after.as_ref(), "after")?,
            limit: if request.limit == 0 { 1000 } else { (request.limit as usize).min(MAX_PAGE) },
        };
        let (routes, more) = self.driver.read(|rib| rib.routes(table(request.table), family, &query));
        Ok(pb::GetRoutesReply { routes: routes.into_iter().map(convert::route).collect(), more })
    }

    async fn get_summary(
        &self,
        _ctx: &CallContext,
        _request: pb::GetSummaryRequest,
    ) -> Result<pb::GetSummaryReply, XrlError> {
        let tables = self.driver.read(|rib| rib.summary());
        Ok(pb::GetSummaryReply { tables: tables.into_iter().map(convert::summary).collect() })
    }

    async fn plumb_stage(
        &self,
        _ctx: &CallContext,
        request: pb::PlumbStageRequest,
    ) -> Result<pb::PlumbStageReply, XrlError> {
        let (table, nets) = (table(request.table), ip_prefixes(&request.nets)?);
        let stage = match family_id(request.family.into())? {
            FamilyId::IPV4 => self.plumb::<Ipv4Prefix>(table, request.kind(), nets)?,
            FamilyId::IPV6 => self.plumb::<Ipv6Prefix>(table, request.kind(), nets)?,
            family => return Err(no_stages(family)),
        };
        Ok(pb::PlumbStageReply { stage: number_of(stage) })
    }

    async fn unplumb_stage(
        &self,
        _ctx: &CallContext,
        request: pb::UnplumbStageRequest,
    ) -> Result<pb::UnplumbStageReply, XrlError> {
        let (table, stage) = (table(request.table), request.stage);
        match family_id(request.family.into())? {
            FamilyId::IPV4 => self.unplumb::<Ipv4Prefix>(table, stage)?,
            FamilyId::IPV6 => self.unplumb::<Ipv6Prefix>(table, stage)?,
            family => return Err(no_stages(family)),
        }
        Ok(pb::UnplumbStageReply {})
    }

    async fn get_stages(
        &self,
        _ctx: &CallContext,
        request: pb::GetStagesRequest,
    ) -> Result<pb::GetStagesReply, XrlError> {
        let table = table(request.table);
        let stages = match family_id(request.family.into())? {
            FamilyId::IPV4 => self.stages::<Ipv4Prefix>(table),
            FamilyId::IPV6 => self.stages::<Ipv6Prefix>(table),
            family => return Err(no_stages(family)),
        };
        Ok(pb::GetStagesReply { stages })
    }
}

impl fea::InterfaceObserver for Served {
    async fn interface_changed(
        &self,
        _ctx: &CallContext,
        request: fea::InterfaceChangedRequest,
    ) -> Result<fea::InterfaceChangedReply, XrlError> {
        for event in sluice_process::interface_events(&request)? {
            let is_end = event == InterfaceEvent::SnapshotEnd;
            self.input(Input::Interface(event));
            if is_end {
                self.interfaces.arrived();
            }
        }
        Ok(fea::InterfaceChangedReply {})
    }
}

impl fea::FibOwner for Served {
    async fn routes_rejected(
        &self,
        _ctx: &CallContext,
        request: fea::RoutesRejectedRequest,
    ) -> Result<fea::RoutesRejectedReply, XrlError> {
        let routes = request.routes.into_iter().map(|route| pb::RejectedRoute {
            net: route.net,
            provenance: route.provenance,
            reason: route.reason,
        });
        self.input(Input::FibRejected(table(request.table), rejected(routes)?));
        Ok(fea::RoutesRejectedReply {})
    }

    async fn engine_changed(
        &self,
        _ctx: &CallContext,
        _request: fea::EngineChangedRequest,
    ) -> Result<fea::EngineChangedReply, XrlError> {
        tokio::task::spawn_local(crate::fib::begin_anew(Rc::clone(&self.0)));
        Ok(fea::EngineChangedReply {})
    }
}
