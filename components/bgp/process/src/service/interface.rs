//! BGP's interface: the core's views as messages.

use super::explain::Explain;
use super::hits::PolicyUses;
use super::listing::GetRoutes;
use super::neighbor::neighbor;
use super::plumbing::Plumbing;
use crate::idl::bgp::v1 as pb;
use crate::tables::table::TableMessage;
use crate::values::{address, family_number, known_family, not_configured, unknown};
use crate::{BgpProcess, Served, bmp};
use sluice_base::AnyPrefix;
use sluice_bgp::family::{ByFamily, Families, FamilyIndex};
use sluice_bgp::shard::PeerIndex;
use sluice_bgp::speaker::PrefixCounts;
use sluice_bgp::speaker::control::{Control, Input};
use sluice_bgp::table::{Order, Table};
use sluice_process::clock;
use sluice_xrl::{CallContext, XrlError, convert};
use std::net::IpAddr;

impl BgpProcess {
    /// Asks every table.
    pub(crate) async fn ask_all<R: Send + 'static>(
        &self,
        look: impl Fn(&Table) -> R + Clone + Send + 'static,
    ) -> Result<Vec<R>, XrlError> {
        let core = self.core().ok_or_else(not_configured)?;
        let mut answers = Vec::new();
        for address in &core.post.tables {
            answers.extend(address.ask(look.clone()).await);
        }
        Ok(answers)
    }

    /// Asks the table of a number; `None` without the table.
    pub(crate) async fn ask<R: Send + 'static>(
        &self,
        number: usize,
        look: impl FnOnce(&Table) -> R + Send + 'static,
    ) -> Result<Option<R>, XrlError> {
        let core = self.core().ok_or_else(not_configured)?;
        match core.post.tables.get(number) {
            Some(address) => Ok(address.ask(look).await),
            None => Ok(None),
        }
    }
}

impl BgpProcess {
    /// Returns the families shown to operators: IP's, and every neighbor's.
    fn shown_families(&self) -> Families {
        let configured = |control: &Control| {
            let families = |address| control.neighbor_config(address).map(|config| config.families());
            let all: Vec<Families> = control.neighbors().filter_map(families).collect();
            Families::of(|family| all.iter().any(|families| families.has(family)))
        };
        let configured = self.read(configured).unwrap_or_default();
        Families::of(|family| family.row().id.ip().is_some() || configured.has(family))
    }

    /// Reads the address of a neighbor.
    pub(crate) fn known(&self, text: &str) -> Result<IpAddr, XrlError> {
        let address = address(text)?;
        let known = self.read(|c| c.neighbor_config(address).is_some()).ok_or_else(not_configured)?;
        if known { Ok(address) } else { Err(unknown(address)) }
    }
}

impl pb::Bgp for Served {
    async fn get_summary(
        &self,
        _ctx: &CallContext,
        _request: pb::GetSummaryRequest,
    ) -> Result<pb::GetSummaryReply, XrlError> {
        let views = self.ask_all(|table| ByFamily::from_fn(|family| table.view(family))).await?;
        let views = ByFamily::from_fn(|family| views.iter().map(|table| table[family]).sum());
        let summary = self.read(|control| control.summary(views)).ok_or_else(not_configured)?;
        let table = |family: FamilyIndex| {
            let view = summary.tables[family];
            pb::Table {
                family: family_number(family),
                prefixes: view.prefixes as u64,
                attribute_sets: view.attribute_sets as u64,
                in_rib: view.in_rib.into(),
                multipath: view.multipath as u64,
                stale: view.stale,
                queued: view.queued as u64,
            }
        };
        let shown = self.shown_families();
        Ok(pb::GetSummaryReply {
            local_as: summary.local_as.0,
            router_id: summary.router_id.to_string(),
            neighbors: u32::try_from(summary.neighbors).unwrap_or(u32::MAX),
            established: u32::try_from(summary.established).unwrap_or(u32::MAX),
            tables: FamilyIndex::all().filter(|family| shown.has(*family)).map(table).collect(),
            graceful_shutdown: summary.graceful_shutdown,
        })
    }

    async fn get_stations(
        &self,
        _ctx: &CallContext,
        _request: pb::GetStationsRequest,
    ) -> Result<pb::GetStationsReply, XrlError> {
        let stations = self.bmp.stations();
        Ok(pb::GetStationsReply { stations: stations.into_iter().map(bmp::view::station).collect() })
    }

    async fn get_traces(
        &self,
        _ctx: &CallContext,
        _request: pb::GetTracesRequest,
    ) -> Result<pb::GetTracesReply, XrlError> {
        Ok(pb::GetTracesReply {
            traces: self.mrt.traces().into_iter().map(crate::mrt::view::trace).collect(),
        })
    }

    async fn get_injections(
        &self,
        _ctx: &CallContext,
        _request: pb::GetInjectionsRequest,
    ) -> Result<pb::GetInjectionsReply, XrlError> {
        Ok(pb::GetInjectionsReply { injections: self.injections().await? })
    }

    async fn begin_injection(
        &self,
        _ctx: &CallContext,
        request: pb::BeginInjectionRequest,
    ) -> Result<pb::BeginInjectionReply, XrlError> {
        BgpProcess::begin_injection(self, request).map(|()| pb::BeginInjectionReply {})
    }

    async fn inject_records(
        &self,
        _ctx: &CallContext,
        request: pb::InjectRecordsRequest,
    ) -> Result<pb::InjectRecordsReply, XrlError> {
        let source = address(&request.source)?;
        self.inject(source, request.records).await.map(|()| pb::InjectRecordsReply {})
    }

    async fn finish_injection(
        &self,
        _ctx: &CallContext,
        request: pb::FinishInjectionRequest,
    ) -> Result<pb::FinishInjectionReply, XrlError> {
        let injection = BgpProcess::finish_injection(self, address(&request.source)?)?;
        Ok(pb::FinishInjectionReply { injection: Some(injection) })
    }

    async fn end_injection(
        &self,
        _ctx: &CallContext,
        request: pb::EndInjectionRequest,
    ) -> Result<pb::EndInjectionReply, XrlError> {
        self.stop_injections(&request.source).map(|ended| pb::EndInjectionReply { ended })
    }

    async fn get_neighbors(
        &self,
        _ctx: &CallContext,
        request: pb::GetNeighborsRequest,
    ) -> Result<pb::GetNeighborsReply, XrlError> {
        let addresses: Vec<IpAddr> = match request.address.as_str() {
            "" => self.read(|c| c.neighbors().collect()).ok_or_else(not_configured)?,
            text => vec![self.known(text)?],
        };
        let indices: Vec<PeerIndex> = self
            .read(|c| addresses.iter().filter_map(|a| c.neighbor_index(*a)).collect())
            .ok_or_else(not_configured)?;
        let look = move |table: &Table| indices.iter().map(|i| table.counts(*i)).collect::<Vec<_>>();
        let counts = self.ask_all(look).await?;
        self.collect_all();
        let now = clock::now();
        let codes = self.identity.borrow().as_ref().map(|identity| identity.codes).unwrap_or_default();
        let neighbors = addresses.iter().enumerate().filter_map(|(place, address)| {
            let prefixes: PrefixCounts = counts.iter().filter_map(|table| table.get(place).copied()).sum();
            let view = self.read(|c| c.neighbor(*address, prefixes)).flatten()?;
            Some(neighbor(view, &codes, self.listening.problem(address.is_ipv4()), now))
        });
        Ok(pb::GetNeighborsReply { neighbors: neighbors.collect() })
    }

    async fn get_routes(
        &self,
        _ctx: &CallContext,
        request: pb::GetRoutesRequest,
    ) -> Result<pb::GetRoutesReply, XrlError> {
        let family = match &request.net {
            Some(net) => AnyPrefix::try_from(net)?.family(),
            None => convert::family_id(request.family.into())?,
        };
        known_family(family)?.visit(GetRoutes { process: self, request: &request }).await
    }

    async fn get_table_dump(
        &self,
        _ctx: &CallContext,
        request: pb::GetTableDumpRequest,
    ) -> Result<pb::GetTableDumpReply, XrlError> {
        self.table_dump(&request).await
    }

    async fn explain(
        &self,
        _ctx: &CallContext,
        request: pb::ExplainRequest,
    ) -> Result<pb::ExplainReply, XrlError> {
        let net = request.net.as_ref().ok_or_else(|| XrlError::BadArguments("a prefix is missing".into()))?;
        let family = known_family(AnyPrefix::try_from(net)?.family())?;
        family.visit(Explain { process: self, request: &request }).await
    }

    async fn get_aggregates(
        &self,
        _ctx: &CallContext,
        _request: pb::GetAggregatesRequest,
    ) -> Result<pb::GetAggregatesReply, XrlError> {
        Ok(pb::GetAggregatesReply { aggregates: self.aggregates()? })
    }

    async fn get_damped(
        &self,
        _ctx: &CallContext,
        request: pb::GetDampedRequest,
    ) -> Result<pb::GetDampedReply, XrlError> {
        self.damped(&request).await
    }

    async fn clear_damping(
        &self,
        _ctx: &CallContext,
        request: pb::ClearDampingRequest,
    ) -> Result<pb::ClearDampingReply, XrlError> {
        let prefix = request.net.as_ref().map(AnyPrefix::try_from).transpose()?;
        self.input(Input::ClearDamping(prefix));
        Ok(pb::ClearDampingReply {})
    }

    async fn get_ranges(
        &self,
        _ctx: &CallContext,
        _request: pb::GetRangesRequest,
    ) -> Result<pb::GetRangesReply, XrlError> {
        Ok(pb::GetRangesReply { ranges: self.ranges()? })
    }

    async fn get_policy_hits(
        &self,
        _ctx: &CallContext,
        request: pb::GetPolicyHitsRequest,
    ) -> Result<pb::GetPolicyHitsReply, XrlError> {
        let mut uses = Vec::new();
        for family in FamilyIndex::all() {
            uses.extend(family.visit(PolicyUses { process: self, policy: &request.policy }).await?);
        }
        Ok(pb::GetPolicyHitsReply { uses })
    }

    async fn get_plumbing(
        &self,
        _ctx: &CallContext,
        _request: pb::GetPlumbingRequest,
    ) -> Result<pb::GetPlumbingReply, XrlError> {
        let mut tables = Vec::new();
        for family in self.shown_families().iter() {
            tables.push(family.visit(Plumbing(self)).await?);
        }
        Ok(pb::GetPlumbingReply { tables })
    }

    async fn reset_neighbor(
        &self,
        _ctx: &CallContext,
        request: pb::ResetNeighborRequest,
    ) -> Result<pb::ResetNeighborReply, XrlError> {
        let address = self.known(&request.address)?;
        self.collect_all();
        self.input(Input::Reset(address, request.message));
        Ok(pb::ResetNeighborReply {})
    }

    async fn refresh_neighbor(
        &self,
        _ctx: &CallContext,
        request: pb::RefreshNeighborRequest,
    ) -> Result<pb::RefreshNeighborReply, XrlError> {
        let address = self.known(&request.address)?;
        if let Some(refusal) = self.read(|control| control.refresh_refusal(address)).flatten() {
            return Err(XrlError::application(4, format!("neighbor {address} cannot be asked: {refusal}")));
        }
        self.input(Input::Refresh(address));
        Ok(pb::RefreshNeighborReply {})
    }

    async fn set_check(
        &self,
        _ctx: &CallContext,
        request: pb::SetCheckRequest,
    ) -> Result<pb::SetCheckReply, XrlError> {
        let core = self.core().ok_or_else(not_configured)?;
        let peer = match request.neighbor.as_str() {
            "" => None,
            neighbor => {
                let address = self.known(neighbor)?;
                self.read(|control| control.neighbor_index(address)).flatten()
            }
        };
        let order = || TableMessage::Order(Order::Check(peer, request.on));
        core.post.tables.iter().for_each(|table| table.write(order()));
        Ok(pb::SetCheckReply {})
    }
}
