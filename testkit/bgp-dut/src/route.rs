//! Routes as peers say them, and the UPDATEs that carry them.

use super::Net;
use sluice_base::Address;
use sluice_bgp::wire::attribute::{code, put_header};
use sluice_bgp::wire::{MessageType, header};
use std::net::{IpAddr, Ipv6Addr};

/// A route as a test writes it, or as a peer received it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Route {
    /// AS_PATH, one AS_SEQUENCE.
    pub path: Vec<u32>,
    /// ORIGIN (RFC 4271, section 5.1.1).
    pub origin: u8,
    /// MULTI_EXIT_DISC.
    pub med: Option<u32>,
    /// LOCAL_PREF.
    pub local_pref: Option<u32>,
    /// The next hop, as NEXT_HOP or in MP_REACH_NLRI.
    pub next_hop: IpAddr,
    /// The link-local address that comes with the next hop of an IPv6 route.
    pub link_local: Option<Ipv6Addr>,
    /// True if the community NO_EXPORT (RFC 1997) is attached.
    pub no_export: bool,
    /// ONLY_TO_CUSTOMER (RFC 9234).
    pub only_to_customer: Option<u32>,
    /// ORIGINATOR_ID and CLUSTER_LIST of a route that was reflected.
    pub reflected: Option<(u32, Vec<u32>)>,
    /// Attributes that have no field here: flags, code and value.
    pub others: Vec<(u8, u8, Vec<u8>)>,
}

impl Route {
    /// A route of origin IGP without optional attributes.
    pub fn new(path: Vec<u32>, next_hop: IpAddr) -> Self {
        Route {
            path,
            origin: 0,
            med: None,
            local_pref: None,
            next_hop,
            link_local: None,
            no_export: false,
            only_to_customer: None,
            reflected: None,
            others: vec![],
        }
    }

    /// The attributes, with the next hop among them if the family has no MP_REACH_NLRI.
    fn attributes(&self, has_own_fields: bool) -> Vec<u8> {
        let mut out = vec![];
        let mut put = |flags, code, value: &[u8]| {
            put_header(&mut out, flags, code, value.len());
            out.extend_from_slice(value);
        };
        put(0x40, code::ORIGIN, &[self.origin]);
        let mut path = vec![];
        if !self.path.is_empty() {
            path = vec![2, self.path.len() as u8];
            path.extend(self.path.iter().flat_map(|n| n.to_be_bytes()));
        }
        put(0x40, code::AS_PATH, &path);
        if let (IpAddr::V4(hop), true) = (self.next_hop, has_own_fields) {
            put(0x40, code::NEXT_HOP, &hop.octets());
        }
        if let Some(med) = self.med {
            put(0x80, code::MULTI_EXIT_DISC, &med.to_be_bytes());
        }
        if let Some(pref) = self.local_pref {
            put(0x40, code::LOCAL_PREF, &pref.to_be_bytes());
        }
        if self.no_export {
            put(0xc0, code::COMMUNITIES, &[0xff, 0xff, 0xff, 0x01]);
        }
        if let Some((originator, clusters)) = &self.reflected {
            put(0x80, code::ORIGINATOR_ID, &originator.to_be_bytes());
            let list: Vec<u8> = clusters.iter().flat_map(|id| id.to_be_bytes()).collect();
            put(0x80, code::CLUSTER_LIST, &list);
        }
        if let Some(asn) = self.only_to_customer {
            put(0xc0, code::ONLY_TO_CUSTOMER, &asn.to_be_bytes());
        }
        for (flags, code, value) in &self.others {
            put(*flags, *code, value);
        }
        out
    }
}

/// A whole UPDATE.
pub fn update(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![];
    let at = header::start(&mut out, MessageType::Update);
    write(&mut out);
    header::finish(&mut out, at);
    out
}

/// Prefixes, each behind a path identifier if there is one.
fn put_nlri<P: Net>(prefixes: &[P], path_id: Option<u32>) -> Vec<u8> {
    let mut nlri = vec![];
    for prefix in prefixes {
        nlri.extend(path_id.iter().flat_map(|id| id.to_be_bytes()));
        prefix.put(&mut nlri);
    }
    nlri
}

/// Returns an UPDATE that announces prefixes.
pub fn announcement<P: Net>(prefixes: &[P], route: &Route) -> Vec<u8> {
    path_announcement(prefixes, None, route)
}

/// Returns an UPDATE that announces prefixes, with a path identifier if one is given (RFC 7911).
pub fn path_announcement<P: Net>(prefixes: &[P], path_id: Option<u32>, route: &Route) -> Vec<u8> {
    update(|out| {
        let mut nlri = put_nlri(prefixes, path_id);
        let mut attributes = vec![];
        if !P::HAS_OWN_FIELDS {
            let hop: Address = P::hop_addr(route.next_hop).into();
            let mut hop = hop.with_octets(<[u8]>::to_vec);
            hop.extend(route.link_local.iter().flat_map(Ipv6Addr::octets));
            put_header(&mut attributes, 0x80, code::MP_REACH_NLRI, 5 + hop.len() + nlri.len());
            attributes.extend_from_slice(&P::AFI.to_be_bytes());
            attributes.extend_from_slice(&[P::SAFI, hop.len() as u8]);
            attributes.extend(hop);
            attributes.push(0);
            attributes.append(&mut nlri);
        }
        attributes.extend(route.attributes(P::HAS_OWN_FIELDS));
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&(attributes.len() as u16).to_be_bytes());
        out.extend(attributes);
        out.extend(nlri);
    })
}

/// Returns an UPDATE that withdraws prefixes, with a path identifier if one is given.
pub fn withdrawal<P: Net>(prefixes: &[P], path_id: Option<u32>) -> Vec<u8> {
    update(|out| {
        let nlri = put_nlri(prefixes, path_id);
        if !P::HAS_OWN_FIELDS {
            let mut attributes = vec![];
            put_header(&mut attributes, 0x80, code::MP_UNREACH_NLRI, 3 + nlri.len());
            attributes.extend_from_slice(&P::AFI.to_be_bytes());
            attributes.push(P::SAFI);
            attributes.extend(nlri);
            out.extend_from_slice(&[0, 0]);
            out.extend_from_slice(&(attributes.len() as u16).to_be_bytes());
            out.extend(attributes);
        } else {
            out.extend_from_slice(&(nlri.len() as u16).to_be_bytes());
            out.extend(nlri);
            out.extend_from_slice(&[0, 0]);
        }
    })
}
