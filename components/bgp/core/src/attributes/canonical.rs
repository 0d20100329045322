//! The canonical octets of a set, and their decoding.

use super::private::{self, Private};
use super::scan::{ReceiveRules, Scan};
use super::{DEFAULT_LOCAL_PREF, Origin, Reach, View};
use crate::wire::as_path::{self, Width};
use crate::wire::attribute::{Attributes, Flags, RawAttribute, code, put_header};
use alloc::vec::Vec;
use core::num::NonZeroU32;
use sluice_base::Asn;
use smallvec::SmallVec;

/// The attributes of a canonical set, by code, without private properties ([`private::Private`]).
pub fn attributes(canonical: &[u8]) -> impl Iterator<Item = RawAttribute<'_>> {
    Attributes::new(private::split(canonical).1, 0).flatten()
}

/// The value of one attribute of a canonical set.
pub fn find(canonical: &[u8], code: u8) -> Option<&[u8]> {
    attributes(canonical).find(|a| a.code == code).map(|a| a.value)
}

/// Appends the canonical octets of an accepted scan and returns the decision's view. `scratch` is working space.
pub fn put(scan: &Scan<'_>, rules: &ReceiveRules, scratch: &mut Vec<u8>, out: &mut Vec<u8>) -> View {
    let mut view = View {
        local_pref: DEFAULT_LOCAL_PREF,
        med: None,
        neighbor_as: scan.path.neighbor.unwrap_or(rules.local_as),
        path_length: u16::try_from(scan.path.length).unwrap_or(u16::MAX),
        origin: Origin::Incomplete,
        reach: Reach::Everybody,
        originator_id: None,
        cluster_list_length: 0,
        weight: 0,
    };
    for attribute in &scan.stored {
        match (attribute.code, attribute.value) {
            (code::AS_PATH, path) if !rules.four_octet_as => {
                scratch.clear();
                match scan.as4_path {
                    Some(as4) => as_path::put_merged(path, as4, scratch),
                    None => as_path::put_widened(path, Width::Two, scratch),
                }
                // Of a merged path the first AS may be one that AS_PATH hid as AS_TRANS.
                if let Ok(path) = as_path::Summary::of(scratch, Width::Four, 0, rules.local_as) {
                    view.neighbor_as = path.neighbor.unwrap_or(rules.local_as);
                }
                put_header(out, Flags::TRANSITIVE, code::AS_PATH, scratch.len());
                out.extend_from_slice(scratch);
                continue;
            }
            (code::LARGE_COMMUNITY, communities) => {
                put_large_communities(attribute.flags, communities, out);
                continue;
            }
            (code::AGGREGATOR, &[a, b, ref address @ ..]) if !rules.four_octet_as => {
                put_header(out, attribute.flags.0, code::AGGREGATOR, 8);
                match scan.as4_aggregator {
                    Some(as4) => out.extend_from_slice(as4),
                    None => {
                        out.extend_from_slice(&Asn(u16::from_be_bytes([a, b]).into()).0.to_be_bytes());
                        out.extend_from_slice(address);
                    }
                }
                continue;
            }
            (code, value) => note(&mut view, code, value),
        }
        attribute.put(out);
    }
    view
}

/// Records the decision's value of an attribute, except the AS path.
#[inline(always)]
fn note(view: &mut View, code: u8, value: &[u8]) {
    match (code, value) {
        (code::ORIGIN, &[origin]) => view.origin = Origin::from_code(origin).unwrap_or(view.origin),
        (code::MULTI_EXIT_DISC, &[a, b, c, d]) => view.med = Some(u32::from_be_bytes([a, b, c, d])),
        (code::LOCAL_PREF, &[a, b, c, d]) => view.local_pref = u32::from_be_bytes([a, b, c, d]),
        (code::COMMUNITIES, communities) => view.reach = view.reach.min(Reach::of(communities)),
        (code::ORIGINATOR_ID, &[a, b, c, d]) => {
            view.originator_id = NonZeroU32::new(u32::from_be_bytes([a, b, c, d]));
        }
        // An attribute has less than 2^16 octets.
        (code::CLUSTER_LIST, list) => view.cluster_list_length = (list.len() / 4) as u16,
        (code::ONLY_TO_CUSTOMER, _) => view.reach = view.reach.min(Reach::Customers),
        _ => {}
    }
}

/// Returns the decision's view of a canonical set, in a router of `local_as`.
pub fn view(canonical: &[u8], local_as: Asn) -> View {
    let (_, mut view) = local(local_as);
    view.origin = Origin::Incomplete;
    view.weight = Private::of(canonical).weight;
    for attribute in attributes(canonical) {
        match (attribute.code, attribute.value) {
            (code::AS_PATH, path) => {
                let path = as_path::Summary::of(path, Width::Four, 0, local_as).unwrap_or_default();
                view.neighbor_as = path.neighbor.unwrap_or(local_as);
                view.path_length = u16::try_from(path.length).unwrap_or(u16::MAX);
            }
            (code, value) => note(&mut view, code, value),
        }
    }
    view
}

/// Appends a canonical set with an attribute replaced, added or, without a value, removed. A present attribute keeps its
/// flags, a new attribute has `flags`.
pub fn put_with(canonical: &[u8], flags: u8, code: u8, value: Option<&[u8]>, out: &mut Vec<u8>) {
    let (_, public) = private::split(canonical);
    out.extend_from_slice(&canonical[..canonical.len() - public.len()]);
    let mut missing = value;
    for attribute in attributes(canonical) {
        if attribute.code >= code
            && let Some(value) = missing.take()
        {
            let flags = if attribute.code == code { attribute.flags.0 } else { flags };
            put_header(out, flags, code, value.len());
            out.extend_from_slice(value);
        }
        if attribute.code != code {
            attribute.put(out);
        }
    }
    if let Some(value) = missing {
        put_header(out, flags, code, value.len());
        out.extend_from_slice(value);
    }
}

/// Appends a canonical set with new private properties.
pub fn put_with_private(canonical: &[u8], private: &Private, out: &mut Vec<u8>) {
    private.put(out);
    out.extend_from_slice(private::split(canonical).1);
}

/// Appends LARGE_COMMUNITY with each community once, in the received order (RFC 8092, section 3).
fn put_large_communities(flags: Flags, communities: &[u8], out: &mut Vec<u8>) {
    let mut sorted: SmallVec<[&[u8; 12]; 16]> = SmallVec::new();
    let mut kept: SmallVec<[&[u8; 12]; 16]> = SmallVec::new();
    for community in communities.as_chunks::<12>().0 {
        if let Err(place) = sorted.binary_search(&community) {
            sorted.insert(place, community);
            kept.push(community);
        }
    }
    put_header(out, flags.0, code::LARGE_COMMUNITY, kept.len() * 12);
    kept.iter().for_each(|community| out.extend_from_slice(*community));
}

/// Attributes added to a set, or replaced in a set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Added {
    /// LOCAL_PREF.
    pub local_pref: Option<u32>,
    /// ONLY_TO_CUSTOMER, unless present.
    pub only_to_customer: Option<Asn>,
    /// The AS to prepend to AS_PATH.
    pub prepended_as: Option<Asn>,
}

impl Added {
    /// Appends a canonical set with these attributes.
    pub fn put(mut self, canonical: &[u8], out: &mut Vec<u8>) {
        let (_, public) = private::split(canonical);
        out.extend_from_slice(&canonical[..canonical.len() - public.len()]);
        for attribute in attributes(canonical) {
            let is_replaced = attribute.code == code::LOCAL_PREF && self.local_pref.is_some();
            self.put_before(attribute.code, out);
            match self.prepended_as.filter(|_| attribute.code == code::AS_PATH) {
                Some(asn) => {
                    let path = attribute.value;
                    let len = path.len() + as_path::prepended_growth(path);
                    put_header(out, Flags::TRANSITIVE, code::AS_PATH, len);
                    as_path::put_prepended(path, asn, out);
                }
                None if is_replaced => {}
                None => attribute.put(out),
            }
        }
        self.put_before(u8::MAX, out);
    }

    /// Appends the attributes before `code`.
    fn put_before(&mut self, code: u8, out: &mut Vec<u8>) {
        if code > code::LOCAL_PREF
            && let Some(local_pref) = self.local_pref.take()
        {
            put_header(out, Flags::TRANSITIVE, code::LOCAL_PREF, 4);
            out.extend_from_slice(&local_pref.to_be_bytes());
        }
        if code >= code::ONLY_TO_CUSTOMER
            && let Some(asn) = self.only_to_customer.take()
            && code != code::ONLY_TO_CUSTOMER
        {
            put_only_to_customer(asn, out);
        }
    }
}

/// Appends the mark of `asn` (RFC 9234, section 5).
pub fn put_only_to_customer(asn: Asn, out: &mut Vec<u8>) {
    put_header(out, Flags::OPTIONAL | Flags::TRANSITIVE, code::ONLY_TO_CUSTOMER, 4);
    out.extend_from_slice(&asn.0.to_be_bytes());
}

/// The set of a route originated by the router: ORIGIN IGP and an empty AS_PATH (RFC 4271, section 5.1).
pub fn local(local_as: Asn) -> (Vec<u8>, View) {
    let octets = Vec::from([Flags::TRANSITIVE, code::ORIGIN, 1, 0, Flags::TRANSITIVE, code::AS_PATH, 0]);
    let view = View {
        local_pref: DEFAULT_LOCAL_PREF,
        med: None,
        neighbor_as: local_as,
        path_length: 0,
        origin: Origin::Igp,
        reach: Reach::Everybody,
        originator_id: None,
        cluster_list_length: 0,
        weight: 0,
    };
    (octets, view)
}
