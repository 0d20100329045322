//! Validated ASPA payloads: which ASes are providers of which customer AS (draft-ietf-sidrops-aspa-profile).
//!
//! A customer without an ASPA attests nothing. The set holds one ASPA a customer, sorted by customer: a question costs two binary
//! searches.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use serde::{Serialize, Serializer};
use sluice_base::Asn;

/// The most providers of a customer: as many as fit a PDU of 65,536 octets (draft-ietf-sidrops-8210bis, section 5.12).
pub const MOST_PROVIDERS: usize = 16_381;

/// The providers of a customer: at least one AS, sorted, each once. AS 0 stands alone: the customer has no provider.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Providers(Arc<[Asn]>);

impl Serialize for Providers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.asns().serialize(serializer)
    }
}

impl Providers {
    /// Makes the list from sorted AS numbers. Returns `None` for an empty list, for more than [`MOST_PROVIDERS`], for numbers that are
    /// not in increasing order, and for AS 0 beside others (draft-ietf-sidrops-8210bis, section 5.12).
    pub fn new(asns: Vec<Asn>) -> Option<Self> {
        let is_sorted = asns.windows(2).all(|pair| pair[0] < pair[1]);
        let has_zero_beside_others = asns.len() > 1 && asns[0].0 == 0;
        let fits = (1..=MOST_PROVIDERS).contains(&asns.len());
        (fits && is_sorted && !has_zero_beside_others).then(|| Providers(asns.into()))
    }

    /// Returns the AS numbers, sorted.
    pub fn asns(&self) -> &[Asn] {
        &self.0
    }

    /// Returns the providers of both lists (draft-ietf-sidrops-aspa-verification, section 4), without AS 0 beside others. `None` for more
    /// than [`MOST_PROVIDERS`].
    pub fn union(&self, other: &Self) -> Option<Self> {
        let mut all: Vec<Asn> = self.0.iter().chain(&*other.0).copied().collect();
        all.sort_unstable();
        all.dedup();
        if all.len() > 1 && all[0].0 == 0 {
            all.remove(0);
        }
        Providers::new(all)
    }

    /// Returns true if an AS is a provider. AS 0 is none.
    pub fn contains(&self, asn: Asn) -> bool {
        asn.0 != 0 && self.0.binary_search(&asn).is_ok()
    }
}

impl fmt::Display for Providers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(place, asn)| match place {
            0 => write!(f, "{asn}"),
            _ => write!(f, " {asn}"),
        })
    }
}

/// The answer of the provider authorization function (draft-ietf-sidrops-aspa-verification, section 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Authorization {
    /// The customer has no ASPA.
    NoAttestation,
    /// The AS is a provider of the customer.
    Provider,
    /// The customer has an ASPA without the AS.
    NotProvider,
}

/// The difference between two sets: the providers of each changed customer afterward; `None` for a customer without an ASPA.
pub type AspaChanges = BTreeMap<Asn, Option<Providers>>;

/// The ASPAs of an epoch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AspaSet {
    /// Sorted by customer, a customer once.
    aspas: Vec<(Asn, Providers)>,
}

impl AspaSet {
    /// Makes a set. Of several ASPAs of a customer the last counts.
    pub fn new(aspas: impl IntoIterator<Item = (Asn, Providers)>) -> Self {
        let sorted: BTreeMap<Asn, Providers> = aspas.into_iter().collect();
        AspaSet { aspas: sorted.into_iter().collect() }
    }

    /// Returns the number of ASPAs.
    pub fn len(&self) -> usize {
        self.aspas.len()
    }

    /// Returns true without ASPAs.
    pub fn is_empty(&self) -> bool {
        self.aspas.is_empty()
    }

    /// Iterates over the ASPAs by customer.
    pub fn iter(&self) -> impl Iterator<Item = (Asn, &Providers)> {
        self.aspas.iter().map(|(customer, providers)| (*customer, providers))
    }

    /// Returns the providers of a customer; `None` without an ASPA.
    pub fn providers(&self, customer: Asn) -> Option<&Providers> {
        let place = self.aspas.binary_search_by_key(&customer, |(known, _)| *known).ok()?;
        Some(&self.aspas[place].1)
    }

    /// Returns whether `provider` is a provider of `customer`: the provider authorization function (draft-ietf-sidrops-aspa-verification,
    /// section 5).
    pub fn authorized(&self, customer: Asn, provider: Asn) -> Authorization {
        match self.providers(customer) {
            None => Authorization::NoAttestation,
            Some(providers) if providers.contains(provider) => Authorization::Provider,
            Some(_) => Authorization::NotProvider,
        }
    }

    /// Returns the difference from this set to `other`.
    pub fn changes_to(&self, other: &Self) -> AspaChanges {
        let gone = self.iter().filter(|(customer, _)| other.providers(*customer).is_none());
        let new = other.iter().filter(|(customer, providers)| self.providers(*customer) != Some(providers));
        gone.map(|(customer, _)| (customer, None))
            .chain(new.map(|(customer, providers)| (customer, Some(providers.clone()))))
            .collect()
    }

    /// Returns the set after changes.
    pub fn changed(&self, changes: &AspaChanges) -> Self {
        if changes.is_empty() {
            return self.clone();
        }
        let kept = self.iter().filter(|(customer, _)| !changes.contains_key(customer));
        let new = changes.iter().filter_map(|(customer, providers)| Some((*customer, providers.clone()?)));
        AspaSet::new(kept.map(|(customer, providers)| (customer, providers.clone())).chain(new))
    }
}
