//! Answers to operators about damped routes.

use super::Answer;
use crate::BgpProcess;
use crate::idl::bgp::v1 as pb;
use crate::values::family_number;
use sluice_base::{AnyPrefix, Duration};
use sluice_bgp::family::{FamilyIndex, FamilyVisitor, Sharded};
use sluice_bgp::shard::{DampedView, DampingCounts};
use sluice_bgp::table::Table;
use sluice_process::clock;
use sluice_xrl::XrlError;

/// The default number of routes of a family and a table in a reply.
const DEFAULT_LIMIT: usize = 1000;

/// Marks a path as suppressed by flap damping.
pub(crate) fn suppressed(left: Duration) -> String {
    let seconds = left.as_nanos().div_ceil(1_000_000_000);
    format!("flap damping (RFC 2439): suppressed for {} min {} s more", seconds / 60, seconds % 60)
}

/// Adds a family's damped routes to a reply.
struct AddDamped<'a> {
    process: &'a BgpProcess,
    request: &'a pb::GetDampedRequest,
    reply: &'a mut pb::GetDampedReply,
}

impl<'a> FamilyVisitor for AddDamped<'a> {
    type Output = Answer<'a, ()>;

    fn visit<P: Sharded>(self) -> Self::Output {
        Box::pin(self.process.add_damped::<P>(self.request, self.reply))
    }
}

impl BgpProcess {
    /// Returns damped routes and their counts.
    pub(crate) async fn damped(
        &self,
        request: &pb::GetDampedRequest,
    ) -> Result<pb::GetDampedReply, XrlError> {
        let mut reply = pb::GetDampedReply::default();
        for family in FamilyIndex::all() {
            family.visit(AddDamped { process: self, request, reply: &mut reply }).await?;
        }
        Ok(reply)
    }

    async fn add_damped<P: Sharded>(
        &self,
        request: &pb::GetDampedRequest,
        reply: &mut pb::GetDampedReply,
    ) -> Result<(), XrlError> {
        let limit = if request.limit == 0 { DEFAULT_LIMIT } else { request.limit as usize };
        let (suppressed_only, now) = (request.suppressed_only, clock::now());
        let look = move |table: &Table| {
            let (routes, _) = table.shard::<P>().damped(now, 0, limit, suppressed_only);
            (routes, table.damping_counts(P::INDEX))
        };
        let (mut all, mut counts) = (Vec::new(), Vec::new());
        for (routes, of_table) in self.ask_all(look).await? {
            all.extend(routes);
            counts.push(of_table);
        }
        all.sort_by_key(|view: &DampedView<P>| (view.prefix, view.peer));
        reply.routes.extend(all.into_iter().map(|view| self.damped_route(&view)));
        let DampingCounts { histories, suppressed, untracked } = counts.into_iter().sum();
        // A family that only some routers have is shown where it has something.
        if histories + untracked > 0 || P::INDEX != FamilyIndex::XID {
            let family = family_number(P::INDEX);
            reply.counts.push(pb::DampingCounts { family, histories, suppressed, untracked });
        }
        Ok(())
    }

    fn damped_route<P: Sharded>(&self, view: &DampedView<P>) -> pb::DampedRoute {
        let neighbor = self.read(|control| control.neighbor_address(view.peer)).flatten();
        let left = view.suppressed_for.map_or(0, |left| left.as_millis());
        pb::DampedRoute {
            prefix: AnyPrefix::of(view.prefix).to_string(),
            neighbor: neighbor.map_or_else(String::new, |address| address.to_string()),
            penalty: view.penalty,
            flaps: view.flaps.into(),
            suppressed: view.suppressed_for.is_some(),
            suppressed_ms: u64::try_from(left).unwrap_or(u64::MAX),
            damping: view.damping.clone().unwrap_or_default(),
        }
    }
}
