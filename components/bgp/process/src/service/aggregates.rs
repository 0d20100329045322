//! Aggregates, for operators.

use crate::BgpProcess;
use crate::idl::bgp::v1 as pb;
use crate::values::{as_path, not_configured};
use sluice_base::AnyPrefix;
use sluice_bgp::speaker::AggregateView;
use sluice_bgp::table::{Sharded, Table};
use sluice_xrl::XrlError;

/// The most contributors named in an explanation.
const NAMED: usize = 8;

impl BgpProcess {
    /// Returns the aggregates.
    pub(crate) fn aggregates(&self) -> Result<Vec<pb::Aggregate>, XrlError> {
        let all = self.read(|control| control.aggregates()).ok_or_else(not_configured)?;
        Ok(all.into_iter().map(message).collect())
    }

    /// Returns the number of contributors to the aggregate of a prefix, and the first contributors.
    pub(crate) async fn contributors<P: Sharded>(&self, prefix: P) -> Result<(u32, Vec<String>), XrlError> {
        let is_aggregate =
            |view: &AggregateView| AnyPrefix::from(view.config.prefix) == AnyPrefix::of(prefix);
        let is_known = self.read(|control| control.aggregates().iter().any(is_aggregate));
        if is_known != Some(true) {
            return Ok((0, Vec::new()));
        }
        let look = move |table: &Table| table.shard::<P>().contributors(prefix, NAMED);
        let (mut number, mut first) = (0, Vec::new());
        for (count, some) in self.ask_all(look).await? {
            number += count;
            first.extend(some);
        }
        first.sort_unstable();
        first.truncate(NAMED);
        Ok((u32::try_from(number).unwrap_or(u32::MAX), first.iter().map(ToString::to_string).collect()))
    }
}

/// Returns the aggregates that cover a prefix.
pub(crate) fn covering<P: Sharded>(table: &Table, prefix: P) -> Vec<pb::Covering> {
    let all = table.shard::<P>().aggregates_over(prefix).into_iter();
    all.map(|(aggregate, contributes)| pb::Covering {
        prefix: aggregate.prefix.to_string(),
        summary_only: aggregate.summary_only,
        contributes,
    })
    .collect()
}

fn message(view: AggregateView) -> pb::Aggregate {
    let AggregateView { config, contributors, originated, changes } = view;
    pb::Aggregate {
        prefix: config.prefix.to_string(),
        summary_only: config.summary_only,
        as_set: config.as_set,
        contributors,
        originated: originated.is_some(),
        origin: originated.as_ref().map(|attributes| attributes.origin.to_string()).unwrap_or_default(),
        atomic: originated.as_ref().is_some_and(|attributes| attributes.is_atomic),
        as_path: originated.map(|attributes| as_path(&attributes.path)).unwrap_or_default(),
        changes,
    }
}
