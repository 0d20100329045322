//! Comparisons of an engine beside the authority with the core, and the means to mend the engine.

use super::{Member, Members, NextHopId, RouteTarget};
use alloc::collections::BTreeSet;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use serde::{Deserialize, Serialize};
use sluice_base::{AnyPrefix, Digest, DigestKey, Family, IpPrefix, TableId};

/// The digests of what an engine holds.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct EngineDigests {
    /// The digest of members and groups.
    pub objects: Digest,
    /// The digests of the routes of the tables and families that the engine forwards by.
    pub routes: Vec<(TableId, Family, Digest)>,
}

/// All routes that an engine is to have in a range of prefixes of a table and family, in order.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RoutePart {
    /// The table.
    pub table: TableId,
    /// The family.
    pub family: Family,
    /// The range begins after this prefix; `None`: with the first prefix.
    pub after: Option<IpPrefix>,
    /// The range ends with this prefix; `None`: with the last one.
    pub until: Option<IpPrefix>,
    /// The routes.
    pub routes: Vec<(IpPrefix, RouteTarget)>,
}

/// The differences that an engine has mended.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Mended {
    /// Routes that were missing, surplus, or of another target.
    pub routes: u64,
    /// Members and groups that were missing, surplus, or of other contents.
    pub objects: u64,
    /// The first difference, for people.
    pub first: Option<String>,
}

impl Mended {
    /// Returns true if nothing differed.
    pub fn is_empty(&self) -> bool {
        self.routes == 0 && self.objects == 0
    }

    /// Adds what another step mended.
    pub fn add(&mut self, other: Mended) {
        self.routes += other.routes;
        self.objects += other.objects;
        self.first = self.first.take().or(other.first);
    }

    /// Counts a route that differed: the engine had the group `found`, and has `wanted` from now on. Group 0: the kernel's; `None`: no
    /// route.
    pub fn route(&mut self, prefix: IpPrefix, found: Option<NextHopId>, wanted: Option<NextHopId>) {
        self.routes += 1;
        self.first.get_or_insert_with(|| match (found, wanted) {
            (None, _) => format!("{prefix} was missing"),
            (_, None) => format!("{prefix} was surplus"),
            (Some(found), Some(wanted)) => format!("{prefix} led to group {found} instead of {wanted}"),
        });
    }

    /// Counts a member or group that differed.
    pub fn object(&mut self, id: NextHopId) {
        self.objects += 1;
        self.first.get_or_insert_with(|| format!("next-hop object {id} differed"));
    }
}

/// The objects that an engine is to have. Others are surplus.
pub type Objects = BTreeSet<NextHopId>;

/// Returns the hash of a route; `None` for a target that is never requested.
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
