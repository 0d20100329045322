//! The verification of a route's AS path by ASPAs (draft-ietf-sidrops-aspa-verification-23), for policies and operators.

use crate::attributes::canonical;
use crate::relationship::Relationship;
use crate::wire::as_path::{AS_SEQUENCE, Segments};
use crate::wire::attribute::code;
use serde::{Deserialize, Serialize};
use sluice_base::{Asn, IpPrefix};
use sluice_validation::{Direction, Path, PathValidity, VrpTable};

/// The procedure of verification for the routes of an external neighbor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AspaProcedure {
    /// The neighbor is no provider: paths climb from customers to providers alone (section 6.2).
    Upstream,
    /// The neighbor is a provider for some routes at least: paths may climb and descend (section 6.3).
    Downstream,
}

impl AspaProcedure {
    /// Returns the procedure for a role (section 7.3).
    pub(crate) const fn for_role(role: Relationship) -> Self {
        match role {
            Relationship::Provider => AspaProcedure::Downstream,
            Relationship::Customer
            | Relationship::Peer
            | Relationship::RouteServer
            | Relationship::RouteServerClient => AspaProcedure::Upstream,
        }
    }
}

/// The check of the paths of an external neighbor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
pub struct PathCheck {
    /// The procedure.
    pub procedure: AspaProcedure,
    /// The AS that must come first; `None` for a route server, which may leave its AS out.
    pub first_as: Option<Asn>,
}

impl PathCheck {
    /// Returns the check of a neighbor's paths. `procedure` is the configured one, in place of the role's; `None` without both: the
    /// neighbor's paths are not verified.
    pub fn new(role: Option<Relationship>, procedure: Option<AspaProcedure>, peer_as: Asn) -> Option<Self> {
        let procedure = procedure.or_else(|| role.map(AspaProcedure::for_role))?;
        let first_as = Some(peer_as).filter(|_| role != Some(Relationship::RouteServer));
        Some(PathCheck { procedure, first_as })
    }
}

/// Returns the verification of the path in canonical attributes. Routes of other families than IPv4 and IPv6 are not verified (section 7.2),
/// nor are routes of neighbors without a check, and without data no route is.
pub(crate) fn path_state(
    table: Option<&VrpTable>,
    prefix: Option<IpPrefix>,
    octets: &[u8],
    check: Option<PathCheck>,
) -> PathValidity {
    let (Some(table), Some(_), Some(check)) = (table, prefix, check) else { return PathValidity::Unknown };
    let direction = match check.procedure {
        AspaProcedure::Upstream => Direction::Upstream,
        AspaProcedure::Downstream => Direction::Downstream,
    };
    let mut path = Path::default();
    for segment in segments(octets) {
        if segment.kind == AS_SEQUENCE {
            segment.asns().for_each(|asn| path.push(asn));
        } else {
            path.push_set();
        }
    }
    path.verify(&table.aspas, direction, check.first_as)
}

/// Iterates over all ASes of the path in canonical attributes.
pub(crate) fn path_asns(octets: &[u8]) -> impl Iterator<Item = Asn> {
    segments(octets).flat_map(|segment| segment.asns())
}

fn segments(octets: &[u8]) -> impl Iterator<Item = crate::wire::as_path::Segment<'_>> {
    Segments::canonical(canonical::find(octets, code::AS_PATH).unwrap_or_default()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::attribute::Flags;
    use alloc::vec::Vec;
    use sluice_validation::{AspaSet, Providers};

    fn octets(path: &[u8]) -> Vec<u8> {
        let (local, _) = canonical::local(Asn(65000));
        let mut octets = Vec::new();
        canonical::put_with(&local, Flags::TRANSITIVE, code::AS_PATH, Some(path), &mut octets);
        octets
    }

    #[test]
    fn the_role_chooses_the_procedure() {
        let new = |role, procedure| PathCheck::new(role, procedure, Asn(1));
        assert_eq!(new(None, None), None);
        for (role, procedure, first_as) in [
            (Relationship::Customer, AspaProcedure::Upstream, Some(Asn(1))),
            (Relationship::Peer, AspaProcedure::Upstream, Some(Asn(1))),
            (Relationship::Provider, AspaProcedure::Downstream, Some(Asn(1))),
            (Relationship::RouteServer, AspaProcedure::Upstream, None),
            (Relationship::RouteServerClient, AspaProcedure::Upstream, Some(Asn(1))),
        ] {
            assert_eq!(new(Some(role), None), Some(PathCheck { procedure, first_as }), "{role:?}");
        }
        // The configured procedure comes before the role's.
        let downstream = Some(AspaProcedure::Downstream);
        let expected = PathCheck { procedure: AspaProcedure::Downstream, first_as: Some(Asn(1)) };
        assert_eq!(new(Some(Relationship::Peer), downstream), Some(expected));
        assert_eq!(new(None, downstream), Some(expected));
    }

    #[test]
    fn paths_of_attributes_are_verified() {
        let providers = Providers::new([Asn(1)].into()).expect("a list");
        let table = VrpTable::default().with_aspas(AspaSet::new([(Asn(2), providers)]));
        let prefix = Some("192.0.2.0/24".parse().expect("a prefix"));
        let upstream = PathCheck::new(Some(Relationship::Customer), None, Asn(1));
        let state = |path: &[u8], check| path_state(Some(&table), prefix, &octets(path), check);
        let good = [2, 2, 0, 0, 0, 1, 0, 0, 0, 2];
        assert_eq!(state(&good, upstream), PathValidity::Valid);
        assert_eq!(state(&[2, 2, 0, 0, 0, 1, 0, 0, 0, 3], upstream), PathValidity::Unknown);
        assert_eq!(state(&[2, 3, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 2], upstream), PathValidity::Invalid);
        let with_set = [&good[..], &[1, 1, 0, 0, 0, 3]].concat();
        assert_eq!(state(&with_set, upstream), PathValidity::Invalid);
        assert_eq!(
            state(&good, PathCheck::new(Some(Relationship::Customer), None, Asn(9))),
            PathValidity::Invalid
        );
        assert_eq!(path_asns(&octets(&with_set)).collect::<Vec<_>>(), [Asn(1), Asn(2), Asn(3)]);
        // Not verified: without a check, of another family, without data.
        assert_eq!(state(&with_set, None), PathValidity::Unknown);
        assert_eq!(path_state(Some(&table), None, &octets(&with_set), upstream), PathValidity::Unknown);
        assert_eq!(path_state(None, prefix, &octets(&with_set), upstream), PathValidity::Unknown);
    }
}
