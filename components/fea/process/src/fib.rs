//! The interface `Fib`: batches in, refusals out, and the kernel's routes.

use crate::pages;
use crate::{FeaProcess, ResyncWait};
use sluice_base::{Digest, Family, FibBatch, IpKey, IpPrefix, Ipv4Prefix, Ipv6Prefix, TableId};
use sluice_fea::engine::RouteQuery;
use sluice_fea::{Effect, EngineSet, Input, RefusalKind};
use sluice_process::Point;
use sluice_xrl::convert::{self, family};
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::idl::fea::v1 as pb;
use sluice_xrl::routes;
use sluice_xrl::{CallContext, XrlError};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::oneshot;
use tracing::{debug, info, warn};

/// The most foreign routes in a reply.
const MOST_OVERRIDING: usize = 10_000;

/// Returns the family of a request, if limited.
fn optional_family(number: i32) -> Result<Option<Family>, XrlError> {
    if number == 0 { Ok(None) } else { Ok(Some(family(number)?)) }
}

fn table(number: u32) -> TableId {
    if number == 0 { TableId::MAIN } else { TableId(number) }
}

/// Reports to the owner which routes the kernel refused.
pub(crate) fn report_rejected(process: &Rc<FeaProcess>, effects: &[Effect]) {
    let mut rejected: BTreeMap<TableId, Vec<pb::RejectedRoute>> = BTreeMap::new();
    for effect in effects {
        if let Effect::Rejected { table, prefix, provenance, reason } = effect {
            rejected.entry(*table).or_default().push(pb::RejectedRoute {
                net: Some((*prefix).into()),
                provenance: provenance.bits(),
                reason: reason.clone(),
            });
        }
    }
    for (table, routes) in rejected {
        if let Some(route) = routes.first() {
            warn!(event = "fea.route.refused", %table, count = routes.len(), reason = route.reason, "the kernel refuses routes");
        }
        let Some(owner) = process.owner.borrow().clone() else { continue };
        tokio::task::spawn_local(async move {
            let request = pb::RoutesRejectedRequest { table: table.0, routes };
            if let Err(error) = owner.routes_rejected(request).await {
                debug!(%error, "the owner does not take refusals");
            }
        });
    }
}

/// Ends a family's resync; after the last family, the waiting caller is answered.
pub(crate) fn note_resynced(process: &Rc<FeaProcess>, table: TableId, kept: u64, swept: u64) {
    let mut resyncs = process.resyncs.borrow_mut();
    let Some(wait) = resyncs.get_mut(&table) else { return };
    wait.families = wait.families.saturating_sub(1);
    wait.kept += kept;
    wait.swept += swept;
    if wait.families == 0
        && let Some(mut wait) = resyncs.remove(&table)
    {
        info!(%table, kept = wait.kept, swept = wait.swept, "resync over");
        if let Some(reply) = wait.reply.take() {
            // Who asked may be gone.
            let _ = reply.send((wait.kept, wait.swept));
        }
    }
}

/// Returns the numbers of operations that engines beside the authority refused, in the form of messages.
pub(crate) fn refused_beside(engines: &EngineSet) -> Vec<pb::RefusedBeside> {
    let message = |((engine, kind), count): ((&str, RefusalKind), u64)| pb::RefusedBeside {
        engine: engine.into(),
        reason: kind.to_string(),
        refused: count,
    };
    engines.refused_beside().into_iter().map(message).collect()
}

/// The FEA for handlers of this interface.
pub(crate) struct Served(pub(crate) Rc<FeaProcess>);

impl Served {
    fn update<P: IpKey>(
        &self,
        request: &pb::UpdateFibRequest,
        input: impl Fn(TableId, FibBatch<P>) -> Input,
    ) -> Result<(), XrlError> {
        let process = &self.0;
        let batch = routes::fib_of::<P, _>(request)?;
        note(&process.arrives, &batch);
        let kept = process.enters.is_on().then(|| batch.clone());
        process.input(input(table(request.table), batch));
        // The kernel has worked the batch off when this is reached.
        if let Some(batch) = kept {
            note(&process.enters, &batch);
        }
        Ok(())
    }
}

fn note<P: IpKey>(point: &Point, batch: &FibBatch<P>) {
    if point.is_on() {
        for route in &batch.routes {
            point.record(route.prefix, route.group.is_none(), route.provenance);
        }
    }
}

impl pb::Fib for Served {
    async fn begin_resync(
        &self,
        _ctx: &CallContext,
        request: pb::BeginResyncRequest,
    ) -> Result<pb::BeginResyncReply, XrlError> {
        let table = table(request.table);
        match optional_family(request.family)? {
            Some(family) => self.0.input(Input::BeginRefresh(table, family)),
            None => self.0.input(Input::BeginResync(table)),
        }
        Ok(pb::BeginResyncReply {})
    }

    async fn end_resync(
        &self,
        _ctx: &CallContext,
        request: pb::EndResyncRequest,
    ) -> Result<pb::EndResyncReply, XrlError> {
        let table = table(request.table);
        let (reply, over) = oneshot::channel();
        let family = optional_family(request.family)?;
        let families = if family.is_some() { 1 } else { Family::ALL.len() };
        let wait = ResyncWait { families, kept: 0, swept: 0, reply: Some(reply) };
        self.0.resyncs.borrow_mut().insert(table, wait);
        match family {
            Some(family) => self.0.input(Input::EndRefresh(table, family)),
            None => self.0.input(Input::EndResync(table)),
        }
        let (kept, swept) = over.await.map_err(|_| XrlError::Busy("another resync has begun".into()))?;
        Ok(pb::EndResyncReply { kept, swept })
    }

    async fn update_fib(
        &self,
        _ctx: &CallContext,
        request: pb::UpdateFibRequest,
    ) -> Result<pb::UpdateFibReply, XrlError> {
        match family(request.family)? {
            Family::Ipv4 => self.update::<Ipv4Prefix>(&request, Input::UpdateIpv4)?,
            Family::Ipv6 => self.update::<Ipv6Prefix>(&request, Input::UpdateIpv6)?,
        }
        Ok(pb::UpdateFibReply {})
    }

    async fn compare(
        &self,
        _ctx: &CallContext,
        request: pb::CompareRequest,
    ) -> Result<pb::CompareReply, XrlError> {
        let (table, family) = (table(request.table), family(request.family)?);
        let [routes, groups] = self.0.with_core(|core| core.announced_digests(table, family));
        let digest = |digest: Digest| Some(pb::Digest { sum: digest.sum, entries: digest.entries });
        Ok(pb::CompareReply { routes: digest(routes), groups: digest(groups) })
    }

    async fn set_owner(
        &self,
        _ctx: &CallContext,
        request: pb::SetOwnerRequest,
    ) -> Result<pb::SetOwnerReply, XrlError> {
        let client = pb::FibOwnerClient::new(&self.0.frame.router, &request.target);
        self.0.owner.replace(Some(client));
        let declines_routes = !self.0.installs_routes().await;
        let tables = self.0.with_drive(|drive, _, _| drive.core().tables().map(|table| table.0).collect());
        let digest_key = self.0.with_core(|core| core.digest_key().0);
        Ok(pb::SetOwnerReply { declines_routes, tables, digest_key })
    }

    async fn get_kernel_routes(
        &self,
        ctx: &CallContext,
        request: pb::GetKernelRoutesRequest,
    ) -> Result<pb::GetKernelRoutesReply, XrlError> {
        let exact = request.exact.as_ref().map(IpPrefix::try_from).transpose()?;
        let query = RouteQuery {
            family: match exact {
                Some(prefix) => prefix.family(),
                None => family(request.family)?,
            },
            table: table(request.table),
            ours_only: request.ours_only,
            exact,
        };
        let limit = if request.limit == 0 { pages::PAGE } else { request.limit as usize };
        let after = request.after.as_ref().map(IpPrefix::try_from).transpose()?;
        let (routes, more) =
            self.0.streams.page(ctx.connection, query, after, limit, || self.0.reader()).await?;
        Ok(pb::GetKernelRoutesReply { routes, more })
    }

    async fn lookup_kernel_route(
        &self,
        _ctx: &CallContext,
        request: pb::LookupKernelRouteRequest,
    ) -> Result<pb::LookupKernelRouteReply, XrlError> {
        let addr = convert::addr(request.addr.as_ref())?;
        let route = self.0.reader()?.lookup(addr).map_err(pages::unreadable)?;
        Ok(pb::LookupKernelRouteReply { route: route.map(pages::message) })
    }

    async fn get_overriding(
        &self,
        _ctx: &CallContext,
        request: pb::GetOverridingRequest,
    ) -> Result<pb::GetOverridingReply, XrlError> {
        let most = if request.limit == 0 { MOST_OVERRIDING } else { request.limit as usize };
        let routes = self.0.with_core(|core| core.overriding(most.min(MOST_OVERRIDING)));
        let routes = routes.into_iter().map(|route| pb::OverridingRoute {
            table: route.table.0,
            net: Some(route.prefix.into()),
            protocol: route.protocol.into(),
            metric: route.metric,
        });
        Ok(pb::GetOverridingReply { routes: routes.collect() })
    }

    async fn get_summary(
        &self,
        _ctx: &CallContext,
        _request: pb::GetSummaryRequest,
    ) -> Result<pb::GetSummaryReply, XrlError> {
        let totals = self.0.with_core(|core| core.totals());
        let tables = totals.tables.iter().map(|(table, family, s)| pb::TableSummary {
            table: table.0,
            family: common::Family::from(*family).into(),
            wanted: s.wanted as u64,
            installed: (s.wanted - s.refused.min(s.wanted)) as u64,
            refused: s.refused as u64,
        });
        Ok(pb::GetSummaryReply {
            engine: self.0.engine_name(),
            tables: tables.collect(),
            routes_refused: totals.refused,
            routes_repaired: totals.repaired,
            mended: totals.mended,
            refreshed: totals.refreshed,
            nexthop_objects: totals.nexthop_objects as u64,
            idle: totals.idle,
            refused_beside: self.0.refused_beside(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::Provenance;
    use sluice_fea::engine::{BesideId, EngineOp, ReplayStep, RouteTarget, Scope};
    use sluice_fea::sim::SimEngine;

    #[test]
    fn refusals_of_engines_beside_are_counted_by_engine_and_reason() {
        let prefix: IpPrefix = "192.0.2.0/24".parse().unwrap();
        let mut beside = SimEngine::new();
        beside.refuse.insert(prefix);
        let mut engines = EngineSet::new(Box::new(SimEngine::new()));
        assert_eq!(refused_beside(&engines), []);
        engines.join(Box::new(beside));
        assert_eq!(refused_beside(&engines), []);
        let op = EngineOp::SetRoute {
            table: TableId::MAIN,
            prefix,
            target: RouteTarget::Unreachable,
            replace: true,
            scope: Scope::All,
            provenance: Provenance::NONE,
        };
        engines.replay([(BesideId(0), ReplayStep::Apply(op))]);
        assert_eq!(engines.names(), ["sim", "sim"]);
        let row = pb::RefusedBeside { engine: "sim".into(), reason: "invalid".into(), refused: 1 };
        assert_eq!(refused_beside(&engines), [row]);
    }
}
