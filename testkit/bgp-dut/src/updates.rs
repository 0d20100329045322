//! UPDATEs that a peer receives, in octets, and the routes that they announce and withdraw.

use super::{Net, Route, ScriptedPeer};
use sluice_base::Xid;
use sluice_bgp::wire::as_path::{Segments, Width};
use sluice_bgp::wire::attribute::{Attributes, code};
use sluice_bgp::wire::multiprotocol::{MpReach, MpUnreach};
use sluice_bgp::wire::{AFI_IPV6, Nlri, Update};
use std::net::{IpAddr, Ipv6Addr};

/// Notes the routes of an UPDATE. Panics if the router withdraws a route that the peer has not received.
pub(super) fn read_update<P: Net>(peer: &mut ScriptedPeer<P>, body: &[u8]) {
    peer.updates += 1;
    let update = Update::decode(body).unwrap();
    let mut route = Route { origin: 255, ..Route::new(vec![], IpAddr::from([0; 4])) };
    let mut announced: Vec<(P, u32)> = vec![];
    let mut withdrawn: Vec<(P, u32)> = vec![];
    let several = peer.several;
    // In a session without path identifiers all are 0.
    let nlri = |field, out: &mut Vec<(P, u32)>| {
        let nlri = Nlri::<P>::new(field, 0);
        if several {
            out.extend(nlri.with_path_ids().map(|path| path.expect("a good path")).map(|(id, p)| (p, id)));
        } else {
            out.extend(nlri.map(|prefix| (prefix.expect("a good prefix"), 0)));
        }
    };
    nlri(update.withdrawn, &mut withdrawn);
    nlri(update.nlri, &mut announced);
    let mut last = 0;
    let mut is_marker = update.is_empty();
    peer.ended[0] |= is_marker;
    for (position, attribute) in Attributes::new(update.attributes, 0).enumerate() {
        let attribute = attribute.expect("good attributes");
        let number = |v: &[u8]| v.iter().fold(0, |n, octet| n << 8 | u32::from(*octet));
        let width = if peer.four_octet_as { Width::Four } else { Width::Two };
        match attribute.code {
            code::ORIGIN => route.origin = attribute.value[0],
            code::AS_PATH => {
                let segments = Segments::new(attribute.value, width, 0).map(|segment| segment.unwrap());
                route.path = segments.flat_map(|segment| segment.asns()).map(|asn| asn.0).collect();
            }
            code::NEXT_HOP => route.next_hop = <[u8; 4]>::try_from(attribute.value).unwrap().into(),
            code::MULTI_EXIT_DISC => route.med = Some(number(attribute.value)),
            code::LOCAL_PREF => route.local_pref = Some(number(attribute.value)),
            code::COMMUNITIES if attribute.value == [0xff, 0xff, 0xff, 1] => route.no_export = true,
            code::ONLY_TO_CUSTOMER => route.only_to_customer = Some(number(attribute.value)),
            code::ORIGINATOR_ID => route.reflected = Some((number(attribute.value), vec![])),
            code::CLUSTER_LIST => {
                let (_, clusters) =
                    route.reflected.as_mut().expect("the originator stands before the clusters");
                clusters.extend(attribute.value.chunks(4).map(number));
            }
            code::MP_REACH_NLRI => {
                assert_eq!(position, 0, "RFC 7606, section 5.1");
                let reach = MpReach::decode(attribute.value, 0).unwrap();
                read_next_hop::<P>(&mut route, reach.next_hop);
                nlri(reach.nlri, &mut announced);
                continue;
            }
            code::MP_UNREACH_NLRI => {
                assert_eq!(position, 0, "RFC 7606, section 5.1");
                let unreach = MpUnreach::decode(attribute.value, 0).unwrap();
                is_marker = unreach.withdrawn.is_empty();
                peer.ended[1] |= is_marker && unreach.afi == AFI_IPV6;
                nlri(unreach.withdrawn, &mut withdrawn);
                continue;
            }
            code => route.others.push((attribute.flags.0, code, attribute.value.to_vec())),
        }
        // Those that a neighbor does not read come behind all others.
        if !matches!(attribute.code, code::AS4_PATH | code::AS4_AGGREGATOR) {
            assert!(attribute.code > last, "attributes in order");
            last = attribute.code;
        }
    }
    peer.end_of_rib |= is_marker;
    store(peer, &route, announced, withdrawn);
}

/// Reads the next hop of MP_REACH_NLRI: IPv4, a XID, or IPv6 with or without a link-local address.
fn read_next_hop<P: Net>(route: &mut Route, octets: &[u8]) {
    match octets.len() {
        4 => route.next_hop = <[u8; 4]>::try_from(octets).unwrap().into(),
        24 => route.next_hop = P::host_of(Xid::from_octets(octets.try_into().unwrap()).into()),
        _ => {
            let (global, local) = octets.split_first_chunk::<16>().unwrap();
            route.next_hop = IpAddr::from(*global);
            route.link_local = local.first_chunk::<16>().map(|a| Ipv6Addr::from(*a));
        }
    }
}

/// Stores the announced routes and removes the withdrawn ones, each with its path identifier.
fn store<P: Net>(
    peer: &mut ScriptedPeer<P>,
    route: &Route,
    announced: Vec<(P, u32)>,
    withdrawn: Vec<(P, u32)>,
) {
    let several = peer.several;
    for (prefix, id) in withdrawn {
        let known =
            if several { peer.received_paths.remove(&(prefix, id)) } else { peer.received.remove(&prefix) };
        assert!(
            known.is_some() || peer.is_next_hop,
            "{} received a withdrawal of unknown {prefix} {id}",
            peer.address
        );
    }
    for (prefix, id) in announced {
        if several {
            peer.received_paths.insert((prefix, id), route.clone());
        } else {
            peer.received.insert(prefix, route.clone());
        }
    }
}
