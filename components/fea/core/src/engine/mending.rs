//! Comparisons of an engine beside the authority with the core, and the means to mend the engine.

use super::{Member, Members, NextHopId, RouteTarget};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{AnyPrefix, Digest, DigestKey, Family, IpPrefix, TableId};

/// The digests of an engine's objects.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct EngineDigests {
    /// The digest of members and groups.
    pub objects: Digest,
    /// The digests of the routes, by the engine's tables and families.
    pub routes: Vec<(TableId, Family, Digest)>,
}

/// The wanted routes in a range of prefixes of a table and family, in order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RoutePart {
    /// The table.
    pub table: TableId,
    /// The family.
    pub family: Family,
    /// The range begins after this prefix; `None`: with the first prefix.
    pub after: Option<IpPrefix>,
    /// The range ends with this prefix; `None`: with the last prefix.
    pub until: Option<IpPrefix>,
    /// The routes.
    pub routes: Vec<(IpPrefix, RouteTarget)>,
}

/// The differences mended by an engine.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Mended {
    /// Routes that were missing, surplus, or of a wrong target.
    pub routes: u64,
    /// Members and groups that were missing, surplus, or of wrong contents.
    pub objects: u64,
    /// The first difference, for people.
    pub first: Option<String>,
}

impl Mended {
    /// Returns true without a difference.
    pub fn is_empty(&self) -> bool {
        self.routes == 0 && self.objects == 0
    }

    /// Adds the differences of a further step.
    pub fn add(&mut self, other: Mended) {
        self.routes += other.routes;
        self.objects += other.objects;
        self.first = self.first.take().or(other.first);
    }

    /// Counts a mended route: the engine had the group `found`, and now has `wanted`. Group 0: the kernel's; `None`: no
    /// route.
    pub fn route(&mut self, prefix: IpPrefix, found: Option<NextHopId>, wanted: Option<NextHopId>) {
        self.routes += 1;
        self.first.get_or_insert_with(|| match (found, wanted) {
            (None, _) => format!("{prefix} was missing"),
            (_, None) => format!("{prefix} was surplus"),
            (Some(found), Some(wanted)) => format!("{prefix} led to group {found} instead of {wanted}"),
        });
    }

    /// Counts a mended member or group.
    pub fn object(&mut self, id: NextHopId) {
        self.objects += 1;
        self.first.get_or_insert_with(|| format!("next-hop object {id} differed"));
    }
}

/// The wanted objects of an engine; further objects are surplus.
pub type Objects = BTreeSet<NextHopId>;

/// Returns the hash of a route; `None` for a target that is found only.
pub(crate) fn of_route(key: DigestKey, prefix: AnyPrefix, target: RouteTarget) -> Option<u64> {
    match target {
        RouteTarget::Group(id) => Some(key.of_prefix(prefix, u64::from(id.0))),
        RouteTarget::Unreachable => Some(key.of_prefix(prefix, 0)),
        RouteTarget::Other => None,
    }
}

/// Returns the hash of a member.
pub(crate) fn of_member(key: DigestKey, id: NextHopId, member: Member) -> u64 {
    let hash = key.begin().word(u64::from(id.0));
    let hash = match member {
        Member::Via { gateway, interface } => {
            hash.word(1 << 32 | u64::from(interface.0.get())).address(gateway.into())
        }
        Member::Direct { family, interface } => {
            hash.word(2 << 32 | u64::from(interface.0.get())).word(family as u64)
        }
        Member::Blackhole { family } => hash.word(3 << 32).word(family as u64),
    };
    hash.end()
}

/// Returns the hash of a group.
pub(crate) fn of_group(key: DigestKey, id: NextHopId, members: &Members) -> u64 {
    let hash = key.begin().word(4 << 32 | u64::from(id.0));
    members.iter().fold(hash, |hash, (id, weight)| hash.word(u64::from(id.0) << 8 | u64::from(*weight))).end()
}
