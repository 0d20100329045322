//! The validation state of a route (RFC 6811), for policies and operators.

use super::route_type::RouteType;
use crate::attributes::canonical;
use crate::wire::as_path::{AS_SEQUENCE, Segments};
use crate::wire::attribute::code;
use alloc::sync::Arc;
use serde::{Deserialize, Serialize};
use sluice_base::{Asn, IpPrefix};
use sluice_policy::community::{Kind, communities};
use sluice_validation::{ChangedPrefixes, Validity, VrpTable};

/// The extended community of the state (RFC 8097, section 2), but for the state in the last octet.
const STATE_COMMUNITY: u128 = 0x4300 << 48;

/// An epoch of validated ROA payloads, shared by all tables.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OriginData {
    /// The payloads; `None` if there are no data: states are unknown.
    #[serde(with = "shared")]
    pub table: Option<Arc<VrpTable>>,
    /// The prefixes under which states may differ from those of the epoch before.
    pub changed: ChangedPrefixes,
}

/// A shared table as a value.
mod shared {
    use super::{Arc, VrpTable};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<S: Serializer>(table: &Option<Arc<VrpTable>>, to: S) -> Result<S::Ok, S::Error> {
        table.as_deref().serialize(to)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Arc<VrpTable>>, D::Error> {
        Ok(Option::<VrpTable>::deserialize(from)?.map(Arc::new))
    }
}

/// Returns the origin of a path (RFC 6811, section 2): the last AS; this router's own for an empty path, `None` for a path that ends
/// with a set.
fn origin(path: &[u8], local_as: Asn) -> Option<Asn> {
    match Segments::canonical(path).flatten().last() {
        None => Some(local_as),
        Some(last) => last.asns().last().filter(|_| last.kind == AS_SEQUENCE),
    }
}

/// Returns the state that an internal neighbor reports (RFC 8097).
fn reported(octets: &[u8]) -> Option<Validity> {
    let value = canonical::find(octets, code::EXTENDED_COMMUNITIES)?;
    let states =
        communities(Kind::Extended, value).filter_map(|community| match community ^ STATE_COMMUNITY {
            0 => Some(Validity::Valid),
            1 => Some(Validity::NotFound),
            2 => Some(Validity::Invalid),
            _ => None,
        });
    // Of several, the one with the highest number counts (RFC 8097, section 2).
    states.max_by_key(|state| match state {
        Validity::Unknown => 0,
        Validity::Valid => 1,
        Validity::NotFound => 2,
        Validity::Invalid => 3,
    })
}

/// Returns the state of a route with these canonical attributes. Without data, a route of an internal neighbor has the state that the
/// neighbor reports.
pub fn state(
    table: Option<&VrpTable>,
    prefix: Option<IpPrefix>,
    octets: &[u8],
    route_type: RouteType,
    local_as: Asn,
) -> Validity {
    match (table, prefix) {
        (_, None) => Validity::Unknown,
        (Some(table), Some(prefix)) => {
            let path = canonical::find(octets, code::AS_PATH).unwrap_or_default();
            table.validate(prefix, origin(path, local_as))
        }
        (None, Some(_)) if route_type == RouteType::Internal => reported(octets).unwrap_or_default(),
        (None, Some(_)) => Validity::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::attribute::Flags;
    use alloc::vec::Vec;
    use sluice_validation::AnyVrp;

    const LOCAL_AS: Asn = Asn(65000);

    /// Canonical attributes with a path and extended communities.
    fn octets(path: &[u8], communities: &[u64]) -> Vec<u8> {
        let value: Vec<u8> = communities.iter().flat_map(|community| community.to_be_bytes()).collect();
        let (local, _) = canonical::local(LOCAL_AS);
        let (mut with_path, mut all) = (Vec::new(), Vec::new());
        canonical::put_with(&local, Flags::TRANSITIVE, code::AS_PATH, Some(path), &mut with_path);
        let flags = Flags::OPTIONAL | Flags::TRANSITIVE;
        let value = Some(&value[..]).filter(|value| !value.is_empty());
        canonical::put_with(&with_path, flags, code::EXTENDED_COMMUNITIES, value, &mut all);
        all
    }

    fn prefix() -> IpPrefix {
        "192.0.2.0/24".parse().expect("a prefix")
    }

    #[test]
    fn the_origin_is_the_last_as_or_this_router() {
        let table = |asn| {
            let vrp = AnyVrp::new(prefix(), 24, Asn(asn)).expect("a payload");
            VrpTable::new([vrp])
        };
        let check = |path: &[u8], asn, expected| {
            let found =
                state(Some(&table(asn)), Some(prefix()), &octets(path, &[]), RouteType::External, LOCAL_AS);
            assert_eq!(found, expected, "{path:?} {asn}");
        };
        let sequence = [2, 2, 0, 0, 0, 1, 0, 0, 0, 2];
        check(&sequence, 2, Validity::Valid);
        check(&sequence, 1, Validity::Invalid);
        check(&[], 65000, Validity::Valid);
        check(&[], 2, Validity::Invalid);
        // Behind the sequence a set.
        let with_set = [&sequence[..], &[1, 1, 0, 0, 0, 3]].concat();
        check(&with_set, 3, Validity::Invalid);
        check(&with_set, 2, Validity::Invalid);
    }

    #[test]
    fn internal_neighbors_report_states_where_there_are_no_data() {
        let valid = 0x4300_0000_0000_0000;
        let check = |communities: &[u64], kind, expected| {
            let found = state(None, Some(prefix()), &octets(&[], communities), kind, LOCAL_AS);
            assert_eq!(found, expected, "{communities:x?}");
        };
        check(&[], RouteType::Internal, Validity::Unknown);
        check(&[valid], RouteType::Internal, Validity::Valid);
        check(&[valid + 1], RouteType::Internal, Validity::NotFound);
        check(&[7, valid, valid + 2], RouteType::Internal, Validity::Invalid);
        check(&[valid + 3, 0x4301_0000_0000_0000], RouteType::Internal, Validity::Unknown);
        check(&[valid], RouteType::External, Validity::Unknown);
        let table = VrpTable::default();
        let found =
            state(Some(&table), Some(prefix()), &octets(&[], &[valid]), RouteType::Internal, LOCAL_AS);
        assert_eq!(found, Validity::NotFound, "own data come first");
        assert_eq!(
            state(Some(&table), None, &octets(&[], &[]), RouteType::External, LOCAL_AS),
            Validity::Unknown
        );
    }
}
