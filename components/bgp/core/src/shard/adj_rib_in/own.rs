//! Routes of the router's own: networks, aggregates, and redistributed routes.

use crate::aggregate::AggregateAttributes;
use crate::attributes::private::Private;
use crate::attributes::{Origin, canonical};
use crate::shard::entry::{PathNumber, PathSet, PeerIndex};
use crate::shard::resolver::Interest;
use crate::shard::{Core, Shard};
use crate::wire::FamilyKey;
use crate::wire::attribute::{Flags, code};
use crate::wire::multiprotocol::NextHop;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sluice_base::{Asn, Prefix, Provenance, RouterId};
use sluice_machine::Outbox;

/// A route that the router originates.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OwnRoute {
    /// ORIGIN: IGP for networks, INCOMPLETE for redistributed routes (RFC 4271, section 5.1.1), that of the contributors for aggregates.
    pub origin: Origin,
    /// The metric in the other protocol; a metric above 0 is announced as MULTI_EXIT_DISC.
    pub metric: Option<u32>,
    /// The tags in the other protocol.
    pub tags: Vec<u32>,
    /// The attributes of an aggregate; `None` for other routes.
    pub aggregate: Option<AggregateAttributes>,
}

impl OwnRoute {
    /// A network of the configuration.
    pub const NETWORK: OwnRoute =
        OwnRoute { origin: Origin::Igp, metric: None, tags: Vec::new(), aggregate: None };

    /// Returns an aggregate.
    pub fn aggregate(attributes: AggregateAttributes) -> Self {
        OwnRoute { origin: attributes.origin, aggregate: Some(attributes), ..OwnRoute::NETWORK }
    }

    /// Returns the canonical octets in a router of `local_as`.
    fn octets(&self, local_as: Asn, router_id: RouterId) -> Vec<u8> {
        let private = Private {
            tags: self.tags.iter().copied().collect(),
            metric: self.metric,
            is_blackhole: self.aggregate.is_some(),
            ..Private::default()
        };
        let (local, _) = canonical::local(local_as);
        let mut octets = Vec::new();
        canonical::put_with_private(&local, &private, &mut octets);
        let origin = self.origin as u8;
        if origin != 0 {
            octets = replaced(&octets, Flags::TRANSITIVE, code::ORIGIN, &[origin]);
        }
        if let Some(med) = self.metric.filter(|metric| *metric > 0) {
            octets = replaced(&octets, Flags::OPTIONAL, code::MULTI_EXIT_DISC, &med.to_be_bytes());
        }
        if let Some(aggregate) = &self.aggregate {
            octets = replaced(&octets, Flags::TRANSITIVE, code::AS_PATH, &aggregate.path);
            if aggregate.is_atomic {
                octets = replaced(&octets, Flags::TRANSITIVE, code::ATOMIC_AGGREGATE, &[]);
            }
            // RFC 4271, section 5.1.7.
            let aggregator = [local_as.0.to_be_bytes(), router_id.0.to_be_bytes()].concat();
            octets = replaced(&octets, Flags::OPTIONAL | Flags::TRANSITIVE, code::AGGREGATOR, &aggregator);
        }
        octets
    }
}

fn replaced(canonical: &[u8], flags: u8, code: u8, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(canonical.len() + value.len() + 3);
    canonical::put_with(canonical, flags, code, Some(value), &mut out);
    out
}

/// Queues the entry of the default route for some peers: the decision, which leaves that route out, does not.
fn queue_own_default<P: FamilyKey>(core: &mut Core<P>, source: PeerIndex, prefix: P, provenance: Provenance) {
    let Core { adj_rib_in, loc_rib, .. } = core;
    if source == PeerIndex::DEFAULT
        && let Some(id) = adj_rib_in.find(prefix)
    {
        loc_rib.queue.push(&mut adj_rib_in.entries, id, provenance);
    }
}

impl<P: FamilyKey> Shard<P> {
    /// Names a source of the router's own, for policies.
    pub fn set_source(&mut self, source: PeerIndex, name: Arc<str>) {
        self.core.context.set_source(source, name);
    }

    /// Originates a route of `source`, or ends the origination.
    pub fn originate(
        &mut self,
        source: PeerIndex,
        prefix: P,
        route: Option<&OwnRoute>,
        provenance: Provenance,
        out: &mut Outbox<Interest<P::Hop>>,
    ) {
        let core = &mut self.core;
        let Some(route) = route else {
            queue_own_default(core, source, prefix, provenance);
            core.withdraw(source, None, prefix, provenance, out);
            return self.pass_on_paths();
        };
        let router_id = core.adj_rib_in.peers[usize::from(source.0)].info.router_id;
        let octets = route.octets(core.context.local_as, router_id);
        let next_hop = NextHop::at(P::Hop::default_route().addr().into());
        let hash = core.adj_rib_in.seed.attributes(&octets, &next_hop);
        // The next hop is this router and nobody is asked about it: its set is found, or made with a hop that is let go.
        let resolver = &core.resolver;
        let found = core.adj_rib_in.sets.find(hash, &octets, |hop| resolver.next_hop(hop) == Some(&next_hop));
        let set = found.unwrap_or_else(|| {
            let hop = core.resolver.acquire_own(next_hop);
            let view = canonical::view(&octets, core.context.local_as);
            core.adj_rib_in.sets.insert(hash, &octets, hop, view)
        });
        let attributes = match core.adj_rib_in.peers[usize::from(source.0)].import.clone() {
            None => PathSet::as_received(set),
            Some(policy) => core.import_parts().import(&policy, source, prefix, set, &mut self.imports, out),
        };
        core.announce(PathNumber::first_of(source), prefix, attributes, provenance, out);
        queue_own_default(core, source, prefix, provenance);
        self.imports.clear(&mut core.adj_rib_in, &mut core.resolver, out);
        core.adj_rib_in.release(&mut core.resolver, set, out);
        self.pass_on_paths();
    }
}
