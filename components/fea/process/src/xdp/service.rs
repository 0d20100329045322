//! The interface `Forwarding`: the state of the fast path and its counters.

use super::fast_path::{FastPath, PortReport};
use crate::FeaProcess;
use sluice_base::Family;
use sluice_bpf::counters::Counts;
use sluice_bpf::layout::{Outcome, Reason};
use sluice_fea::xdp::Use;
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::idl::fea::v1 as pb;
use sluice_xrl::{CallContext, XrlError};

sluice_process::served!(FeaProcess);

impl pb::Forwarding for Served {
    async fn get_forwarding(
        &self,
        _ctx: &CallContext,
        _request: pb::GetForwardingRequest,
    ) -> Result<pb::GetForwardingReply, XrlError> {
        let reply = self.0.fast_path.with(reply).transpose()?.unwrap_or_default();
        let configured = self.0.fast_path.configured().name().into();
        Ok(pb::GetForwardingReply {
            configured,
            unavailable: self.0.fast_path.unavailable().unwrap_or_default(),
            programs: self.0.programs.report(),
            ..reply
        })
    }
}

fn reply(path: &FastPath) -> Result<pb::GetForwardingReply, XrlError> {
    let counts = path.chain().counters().read().map_err(|error| XrlError::Internal(error.to_string()))?;
    let forwarder = path.forwarder().borrow();
    let (held, usage) = (forwarder.counts(), forwarder.tables().usage());
    let waiting = usage.ipv4_waiting + usage.ipv6_waiting + usage.groups_waiting;
    let uses = [
        ("ipv4 nodes", usage.ipv4_nodes),
        ("ipv6 nodes", usage.ipv6_nodes),
        ("groups", usage.groups),
        ("bucket blocks", usage.blocks),
        ("members", usage.members),
    ];
    Ok(pb::GetForwardingReply {
        live: path.is_live(),
        obstacles: obstacles(path),
        ports: path.ports().into_iter().map(|report| port(report, &counts)).collect(),
        uses: uses.map(|(name, used)| object_use(name, used)).into(),
        routes: held.routes as u64,
        foreign: held.foreign as u64,
        unresolved: held.unresolved as u64,
        no_room: waiting as u64,
        audits: path.audit().tables.cycles(),
        mended: path.audit().mended().map(|(area, words)| pb::ForwardingMended { area, words }).collect(),
        ..Default::default()
    })
}

fn obstacles(path: &FastPath) -> Vec<pb::ForwardingObstacle> {
    let of_family = |family: Family| {
        let reasons = path.obstacles().into_iter().flat_map(move |obstacles| obstacles.of_family(family));
        reasons.map(move |reason| pb::ForwardingObstacle {
            family: common::Family::from(family).into(),
            reason: reason.into(),
        })
    };
    Family::ALL.into_iter().flat_map(of_family).collect()
}

fn object_use(name: &str, used: Use) -> pb::ForwardingUse {
    let (retired, limit) = (used.retired.into(), used.limit.into());
    pb::ForwardingUse { name: name.into(), used: used.used.into(), retired, limit }
}

fn port(report: PortReport, counts: &Counts) -> pb::ForwardingPort {
    let mut received = report.received;
    pb::ForwardingPort {
        counts: report.number.map(|number| port_counts(number, counts)).unwrap_or_default(),
        name: report.name,
        index: report.index.number(),
        refusal: report.refusal.unwrap_or_default(),
        received_ipv4: received.remove(&Family::Ipv4).unwrap_or_default(),
        received_ipv6: received.remove(&Family::Ipv6).unwrap_or_default(),
        sent: report.sent,
    }
}

/// Returns the counts of a port that are not 0.
fn port_counts(number: u16, counts: &Counts) -> Vec<pb::ForwardingCount> {
    let of_reason = |reason: Reason| {
        let per_cpu = counts.per_cpu(number, reason).iter().enumerate();
        per_cpu.filter(|(_, count)| count.packets > 0).map(move |(cpu, count)| pb::ForwardingCount {
            outcome: outcome(reason.outcome()).into(),
            reason: reason.name().into(),
            cpu: cpu as u32,
            packets: count.packets,
            octets: count.octets,
        })
    };
    Reason::ALL.into_iter().flat_map(of_reason).collect()
}

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Forwarded => "forwarded",
        Outcome::Dropped => "dropped",
        Outcome::Passed => "passed",
    }
}
