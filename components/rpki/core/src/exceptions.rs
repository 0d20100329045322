//! Local exceptions: VRPs and ASPAs added by the operator, and those of caches rejected by the operator (SLURM, RFC 8416 for VRPs,
//! draft-ietf-sidrops-aspa-slurm-04 for ASPAs).

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use serde::Serialize;
use sluice_base::{Asn, IpPrefix};
use sluice_validation::{AnyVrp, AspaSet, Providers, VrpTable};

/// A filter of VRPs (RFC 8416, section 3.3.1). Both conditions must hold; a filter without conditions rejects no VRP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Filter {
    /// VRPs whose prefix lies inside the prefix.
    pub prefix: Option<IpPrefix>,
    /// VRPs of the AS.
    pub asn: Option<Asn>,
}

impl Filter {
    /// Returns true if the filter rejects a VRP.
    pub fn rejects(&self, vrp: &AnyVrp) -> bool {
        (self.prefix.is_some() || self.asn.is_some())
            && self.prefix.is_none_or(|prefix| prefix.covers(vrp.prefix()))
            && self.asn.is_none_or(|asn| asn == vrp.asn())
    }
}

/// The operator's exceptions.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Exceptions {
    /// VRPs of the operator, exempt from filters.
    pub assertions: Vec<AnyVrp>,
    /// Filters of the caches' VRPs.
    pub filters: Vec<Filter>,
    /// ASPAs of the operator, exempt from filters: customers and further providers of theirs.
    pub aspa_assertions: Vec<(Asn, Providers)>,
    /// Customers whose ASPAs of caches are rejected.
    pub aspa_filters: Vec<Asn>,
}

impl Exceptions {
    /// Returns true without assertions and filters.
    pub fn is_empty(&self) -> bool {
        self.filters.is_empty() && self.aspa_filters.is_empty() && !self.asserts()
    }

    /// Returns true if the operator adds VRPs or ASPAs.
    pub(crate) fn asserts(&self) -> bool {
        !self.assertions.is_empty() || !self.aspa_assertions.is_empty()
    }

    /// Returns a cache's table with the exceptions.
    pub fn applied(&self, table: &VrpTable) -> VrpTable {
        let kept = table.iter().filter(|vrp| !self.filters.iter().any(|filter| filter.rejects(vrp)));
        VrpTable::new(kept.chain(self.assertions.iter().copied()))
            .with_aspas(self.applied_to_aspas(&table.aspas))
    }

    /// Returns a cache's ASPAs with the exceptions. The providers of a customer are those of the cache and of the operator; where these are
    /// too many, those of the operator alone.
    fn applied_to_aspas(&self, aspas: &AspaSet) -> AspaSet {
        if self.aspa_filters.is_empty() && self.aspa_assertions.is_empty() {
            return aspas.clone();
        }
        let mut all: BTreeMap<Asn, Providers> = aspas
            .iter()
            .filter(|(customer, _)| !self.aspa_filters.contains(customer))
            .map(|(customer, providers)| (customer, providers.clone()))
            .collect();
        for (customer, own) in &self.aspa_assertions {
            let both = all.get(customer).and_then(|known| known.union(own));
            all.insert(*customer, both.unwrap_or_else(|| own.clone()));
        }
        AspaSet::new(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vrp(prefix: &str, asn: u32) -> AnyVrp {
        let prefix: IpPrefix = prefix.parse().expect("a prefix");
        AnyVrp::new(prefix, prefix.len(), Asn(asn)).expect("a VRP")
    }

    #[test]
    fn filters_reject_and_assertions_stay() {
        let prefix = |text: &str| Some(text.parse().expect("a prefix"));
        let table = VrpTable::new([
            vrp("192.0.2.0/24", 1),
            vrp("192.0.2.0/25", 2),
            vrp("198.51.100.0/24", 2),
            vrp("2001:db8::/32", 3),
        ]);
        let check = |filters: &[Filter], expected: &[AnyVrp]| {
            let assertions = [vrp("192.0.2.0/26", 2)].into();
            let exceptions = Exceptions { assertions, filters: filters.to_vec(), ..Exceptions::default() };
            let all = expected.iter().copied().chain([vrp("192.0.2.0/26", 2)]);
            assert_eq!(exceptions.applied(&table), VrpTable::new(all), "{filters:?}");
        };
        let all: Vec<AnyVrp> = table.iter().collect();
        check(&[], &all);
        check(&[Filter::default()], &all);
        check(&[Filter { prefix: prefix("192.0.2.0/24"), asn: None }], &all[2..]);
        check(&[Filter { prefix: None, asn: Some(Asn(2)) }], &[all[0], all[3]]);
        check(&[Filter { prefix: prefix("192.0.0.0/16"), asn: Some(Asn(2)) }], &[all[0], all[2], all[3]]);
        check(&[Filter { prefix: prefix("::/0"), asn: None }], &all[..3]);
    }

    fn providers(asns: &[u32]) -> Providers {
        Providers::new(asns.iter().copied().map(Asn).collect()).expect("providers")
    }

    #[test]
    fn filters_reject_aspas_and_assertions_add_providers() {
        let set = |aspas: &[(u32, &[u32])]| {
            AspaSet::new(aspas.iter().map(|(customer, asns)| (Asn(*customer), providers(asns))))
        };
        let table = VrpTable::new([vrp("192.0.2.0/24", 1)]).with_aspas(set(&[(10, &[1, 5]), (20, &[0])]));
        let check = |filters: &[u32], assertions: &[(u32, &[u32])], expected: &[(u32, &[u32])]| {
            let exceptions = Exceptions {
                aspa_filters: filters.iter().copied().map(Asn).collect(),
                aspa_assertions: assertions.iter().map(|(c, asns)| (Asn(*c), providers(asns))).collect(),
                ..Exceptions::default()
            };
            let applied = exceptions.applied(&table);
            assert_eq!(applied.aspas, set(expected), "{filters:?} {assertions:?}");
            assert_eq!(applied.iter().count(), 1, "VRPs stay");
            assert_eq!(exceptions.is_empty(), filters.is_empty() && assertions.is_empty());
        };
        check(&[], &[], &[(10, &[1, 5]), (20, &[0])]);
        check(&[20, 99], &[], &[(10, &[1, 5])]);
        // The providers of both; AS 0 has no effect beside others.
        check(&[], &[(10, &[3, 5]), (20, &[7]), (30, &[0])], &[(10, &[1, 3, 5]), (20, &[7]), (30, &[0])]);
        check(&[], &[(10, &[0])], &[(10, &[1, 5]), (20, &[0])]);
        // A filter takes the ASPA of the cache, and no assertion.
        check(&[10, 20], &[(10, &[3])], &[(10, &[3])]);
    }

    #[test]
    fn of_too_many_providers_those_of_the_operator_count() {
        let many: Vec<u32> = (1..=sluice_validation::MOST_PROVIDERS as u32).collect();
        let table = VrpTable::default().with_aspas(AspaSet::new([(Asn(10), providers(&many))]));
        let of = |own: &[u32]| {
            let aspa_assertions = [(Asn(10), providers(own))].into();
            let applied = Exceptions { aspa_assertions, ..Exceptions::default() }.applied(&table);
            applied.aspas.providers(Asn(10)).cloned()
        };
        assert_eq!(of(&[7]), Some(providers(&many)));
        assert_eq!(of(&[7, 70_000]), Some(providers(&[7, 70_000])));
    }
}
