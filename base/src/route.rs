//! Routes at component boundaries: protocol to RIB, RIB to FEA, RIB to subscribers.
//!
//! Changes travel in batches. Many routes share a next hop, so a batch carries each distinct set once, and routes
//! have the index of a set.

use crate::{Address, AnyPrefix, Distance, Forwarding, Metric, Prefix, Provenance, Tag};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};

/// The number of a kind of routes within an origin, such as `external` or `inter-area`; the origin registers the names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RouteKind(pub u8);

impl RouteKind {
    /// Routes of an origin without kinds.
    pub const NONE: RouteKind = RouteKind(0);

    /// Returns the kind's name: the first name registered by an origin is of kind 1.
    pub fn name(self, names: &[String]) -> Option<&str> {
        names.get(usize::from(self.0).checked_sub(1)?).map(String::as_str)
    }
}

/// The tags of a route: sorted, each once. No tags take no memory beyond the pointer.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize)]
#[serde(from = "Vec<Tag>", into = "Vec<Tag>")]
pub struct Tags(Option<Box<[Tag]>>);

impl Tags {
    /// No tags.
    pub const NONE: Tags = Tags(None);

    /// Returns the tags.
    pub fn as_slice(&self) -> &[Tag] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl FromIterator<Tag> for Tags {
    fn from_iter<I: IntoIterator<Item = Tag>>(tags: I) -> Self {
        let mut tags: Vec<Tag> = tags.into_iter().collect();
        tags.sort_unstable();
        tags.dedup();
        Tags((!tags.is_empty()).then(|| tags.into_boxed_slice()))
    }
}

impl From<Vec<Tag>> for Tags {
    fn from(tags: Vec<Tag>) -> Self {
        tags.into_iter().collect()
    }
}

impl From<Tags> for Vec<Tag> {
    fn from(tags: Tags) -> Self {
        tags.0.map(Vec::from).unwrap_or_default()
    }
}

/// Properties shared by routes of a batch.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct RouteSet {
    /// The treatment of packets.
    pub forwarding: Forwarding<Address>,
    /// The protocol's cost.
    pub metric: Metric,
    /// A distance other than the origin's own, as eBGP and iBGP routes of one process have.
    pub distance: Option<Distance>,
    /// The kind among the origin's routes.
    pub kind: RouteKind,
    /// Marks for policy to match.
    pub tags: Tags,
}

impl RouteSet {
    /// Routes without metric, kind and tags, with the origin's distance.
    pub const fn plain(forwarding: Forwarding<Address>) -> Self {
        RouteSet { forwarding, metric: Metric(0), distance: None, kind: RouteKind::NONE, tags: Tags::NONE }
    }
}

/// A change of a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub enum RouteAction {
    /// The prefix has a new route, which replaces an older route: an index into [`RouteBatch::sets`].
    Set(u32),
    /// The prefix has lost the origin's route.
    Delete,
}

/// A change of a prefix.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RouteUpdate<P> {
    /// The prefix.
    pub prefix: P,
    /// The change.
    pub action: RouteAction,
    /// The event that caused the change.
    pub provenance: Provenance,
}

impl RouteUpdate<AnyPrefix> {
    /// Gives the key its type back; `None` for a key of a different family.
    pub fn to_key<P: Prefix>(self) -> Option<RouteUpdate<P>> {
        Some(RouteUpdate { prefix: self.prefix.to()?, action: self.action, provenance: self.provenance })
    }
}

/// Route changes of an origin, table and family, in order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RouteBatch<P> {
    /// Properties shared by routes; every index in `updates` is below the length.
    pub sets: Vec<RouteSet>,
    /// The changes. A prefix may occur more than once; the last change stands.
    pub updates: Vec<RouteUpdate<P>>,
}

impl<P> Default for RouteBatch<P> {
    fn default() -> Self {
        RouteBatch { sets: Vec::new(), updates: Vec::new() }
    }
}

impl<P> RouteBatch<P> {
    /// Returns true for an empty batch.
    pub fn is_empty(&self) -> bool {
        self.updates.is_empty()
    }
}

/// The RIB's number for a next-hop group, kept as long as a route uses it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct GroupId(pub u32);

/// A route for the forwarding engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FibRoute<P> {
    /// The prefix.
    pub prefix: P,
    /// The group to forward by; `None` deletes the route.
    pub group: Option<GroupId>,
    /// True for a route of an external origin, for example BGP. Deletions ignore the flag.
    pub is_external: bool,
    /// The event that caused the change.
    pub provenance: Provenance,
}

/// Changes of a table and family for the forwarding engine. The three parts are applied in order, so a route
/// never points to an absent group. `G` is the type of gateways: [`Address`] where the RIB makes the batch, IP
/// addresses where an engine reads it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FibBatch<P, G = IpAddr> {
    /// New groups, and known groups with a new forwarding (every route of such a group follows at once).
    pub groups: Vec<(GroupId, Forwarding<G>)>,
    /// Routes.
    pub routes: Vec<FibRoute<P>>,
    /// Groups without routes.
    pub unused: Vec<GroupId>,
}

impl<P, G> Default for FibBatch<P, G> {
    fn default() -> Self {
        FibBatch { groups: Vec::new(), routes: Vec::new(), unused: Vec::new() }
    }
}

impl<P, G: Copy + Ord> FibBatch<P, G> {
    /// Converts the gateways; `None` if `convert` fails for a gateway.
    pub fn convert<H: Copy + Ord>(self, convert: impl Fn(G) -> Option<H>) -> Option<FibBatch<P, H>> {
        let groups = self.groups.iter().map(|(id, forwarding)| Some((*id, forwarding.convert(&convert)?)));
        Some(FibBatch { groups: groups.collect::<Option<_>>()?, routes: self.routes, unused: self.unused })
    }
}

impl<P, G> FibBatch<P, G> {
    /// Returns true if nothing changes.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty() && self.routes.is_empty() && self.unused.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn tags_are_sorted_and_each_once() {
        let tags: Tags = [Tag(7), Tag(3), Tag(7)].into_iter().collect();
        assert_eq!(tags.as_slice(), [Tag(3), Tag(7)]);
        assert_eq!(Tags::from(vec![]), Tags::NONE);
        assert_eq!(size_of::<Tags>(), 16);
    }

    #[test]
    fn kinds_have_the_names_that_the_origin_registered() {
        let names = [String::from("internal"), String::from("external")];
        assert_eq!(RouteKind(2).name(&names), Some("external"));
        assert_eq!((RouteKind::NONE.name(&names), RouteKind(3).name(&names)), (None, None));
    }
}
