//! Local exceptions: VRPs added by the operator, and VRPs of caches rejected by the operator (SLURM, RFC 8416).

use alloc::vec::Vec;
use sluice_base::{Asn, IpPrefix};
use sluice_validation::{AnyVrp, VrpTable};

/// A filter of VRPs (RFC 8416, section 3.3.1). Both conditions must hold; a filter without conditions rejects no VRP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
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
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Exceptions {
    /// VRPs of the operator, exempt from filters.
    pub assertions: Vec<AnyVrp>,
    /// Filters of the caches' VRPs.
    pub filters: Vec<Filter>,
}

impl Exceptions {
    /// Returns true without assertions and filters.
    pub fn is_empty(&self) -> bool {
        self.assertions.is_empty() && self.filters.is_empty()
    }

    /// Returns a cache's table with the exceptions, which concern VRPs alone.
    pub fn applied(&self, table: &VrpTable) -> VrpTable {
        let kept = table.iter().filter(|vrp| !self.filters.iter().any(|filter| filter.rejects(vrp)));
        VrpTable::new(kept.chain(self.assertions.iter().copied())).with_aspas(table.aspas.clone())
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
            let exceptions =
                Exceptions { assertions: [vrp("192.0.2.0/26", 2)].into(), filters: filters.to_vec() };
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
}
