//! Answers to "why": the paths of a prefix, and the routes sent to each neighbor.

use super::Answer;
use super::aggregates::covering;
use super::paths::path;
use crate::BgpProcess;
use crate::idl::bgp::v1 as pb;
use crate::values::not_configured;
use sluice_base::{AnyPrefix, IpPrefix};
use sluice_bgp::batch::DropCause;
use sluice_bgp::family::{FamilyVisitor, Sharded};
use sluice_bgp::shard::{ExportVerdict, NotSent, PathView, PeerIndex};
use sluice_bgp::table::Table;
use sluice_validation::AnyVrp;
use sluice_xrl::{XrlError, convert};
use std::net::IpAddr;

/// A path not sent to a neighbor with ADD-PATH: the sender, the received identifier, and the reason.
type PathNotSent = (PeerIndex, Option<u32>, NotSent);

/// Explains a prefix of a family.
pub(crate) struct Explain<'a> {
    pub process: &'a BgpProcess,
    pub request: &'a pb::ExplainRequest,
}

impl<'a> FamilyVisitor for Explain<'a> {
    type Output = Answer<'a, pb::ExplainReply>;

    fn visit<P: Sharded>(self) -> Self::Output {
        Box::pin(self.process.explain::<P>(self.request))
    }
}

impl BgpProcess {
    /// Explains a family's prefix.
    async fn explain<P: Sharded>(&self, request: &pb::ExplainRequest) -> Result<pb::ExplainReply, XrlError> {
        let prefix: P = convert::prefix(request.net.as_ref())?;
        let to: Vec<(IpAddr, PeerIndex)> = match request.to.as_str() {
            "" => self.numbered(self.read(|c| c.neighbors().collect()).ok_or_else(not_configured)?)?,
            text => self.numbered(vec![self.known(text)?])?,
        };
        let from = match request.from.as_str() {
            "" => None,
            text => self.numbered(vec![self.known(text)?])?.pop().map(|(_, index)| index),
        };
        let spread = self.read(|control| control.spread()).ok_or_else(not_configured)?;
        let peers: Vec<PeerIndex> = to.iter().map(|(_, index)| *index).collect();
        let look = move |table: &Table| {
            let verdicts: Vec<(ExportVerdict<P>, Vec<PathNotSent>)> = peers
                .iter()
                .map(|peer| (table.export_verdict(*peer, prefix), table.paths_not_sent(*peer, prefix)))
                .collect();
            let shard = table.shard::<P>();
            (shard.route(prefix), verdicts, shard.dropped(prefix), covering(table, prefix))
        };
        let (route, verdicts, dropped, aggregates) =
            self.ask(spread.table(prefix), look).await?.ok_or_else(not_configured)?;
        let paths = route.map(|route| route.paths).unwrap_or_default();
        let wanted = paths.into_iter().filter(|path| from.is_none_or(|from| path.peer == from));
        let exports = to.iter().zip(verdicts).map(|((neighbor, _), (verdict, not_sent))| {
            let (cause, sent) = match verdict {
                Ok(route) => (String::new(), route.paths),
                Err(cause) => (self.in_words(*neighbor, &cause), Vec::new()),
            };
            let mut paths = sent.into_iter().filter_map(|sent| self.message(sent, true));
            let path = paths.next();
            let not_sent = not_sent.into_iter().map(|(peer, path_id, cause)| pb::PathNotSent {
                neighbor: self
                    .read(|control| control.neighbor_address(peer))
                    .flatten()
                    .map_or_else(String::new, |address| address.to_string()),
                path_id,
                cause: cause.to_string(),
            });
            let not_sent = not_sent.collect();
            pb::Export { neighbor: neighbor.to_string(), cause, path, others: paths.collect(), not_sent }
        });
        let exports = exports.collect();
        let present = self.read(|control| control.present().map(Into::into).collect()).unwrap_or_default();
        let is_wanted = |(peer, _): &(PeerIndex, DropCause)| from.is_none_or(|from| *peer == from);
        let name = |(peer, cause): (PeerIndex, DropCause)| {
            let neighbor = self.read(|control| control.neighbor_address(peer)).flatten()?;
            Some(pb::Dropped { neighbor: neighbor.to_string(), cause: cause.to_string() })
        };
        let dropped = dropped.into_iter().filter(is_wanted).filter_map(name).collect();
        let paths = wanted.filter_map(|path| self.message(path, false)).collect();
        let (validated, payloads) = self.payloads(AnyPrefix::of(prefix).ip());
        let (contributors, contributing) = self.contributors(prefix).await?;
        let reply = pb::ExplainReply { paths, exports, present, dropped, ..pb::ExplainReply::default() };
        Ok(pb::ExplainReply { validated, payloads, aggregates, contributors, contributing, ..reply })
    }

    /// Returns the validated ROA payloads covering a prefix, and true if data are known.
    fn payloads(&self, prefix: Option<IpPrefix>) -> (bool, Vec<pb::Payload>) {
        let Some(table) = self.validation.table() else { return (false, Vec::new()) };
        let payload = |vrp: AnyVrp| pb::Payload {
            net: Some(vrp.prefix().into()),
            max_length: vrp.max_length().into(),
            asn: vrp.asn().0,
        };
        let covering = prefix.map(|prefix| table.covering(prefix)).unwrap_or_default();
        (true, covering.into_iter().map(payload).collect())
    }

    fn numbered(&self, addresses: Vec<IpAddr>) -> Result<Vec<(IpAddr, PeerIndex)>, XrlError> {
        let number = |address: IpAddr| Some((address, self.read(|c| c.neighbor_index(address)).flatten()?));
        Ok(addresses.into_iter().filter_map(number).collect())
    }

    fn message(&self, view: PathView, is_sent: bool) -> Option<pb::Path> {
        let canonical = view.attributes.clone();
        let entered = view.entered.clone().unwrap_or_default();
        let came = view.received.as_ref().map(|came| came.attributes.clone());
        let mut message = self.read(|control| path(view, is_sent, control))?;
        (message.canonical, message.entered) = (canonical, entered);
        if let (Some(received), Some(came)) = (&mut message.received, came) {
            received.canonical = came;
        }
        Some(message)
    }

    /// Describes a cause, with the reason if the session is down.
    fn in_words(&self, neighbor: IpAddr, cause: &NotSent) -> String {
        let reason = match cause {
            NotSent::NoSession => {
                let view = self.read(|c| c.neighbor(neighbor, sluice_bgp::speaker::PrefixCounts::default()));
                view.flatten().map(|view| view.reason()).unwrap_or_default()
            }
            _ => String::new(),
        };
        if reason.is_empty() { cause.to_string() } else { format!("{cause}: {reason}") }
    }
}
