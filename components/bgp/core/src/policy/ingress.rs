//! Changes that the rules of BGP make to the routes of external neighbors, before import policies decide. The received route stays beside
//! the result.

use crate::attributes::DEFAULT_LOCAL_PREF;
use crate::attributes::canonical::{self, Added};
use crate::graceful_shutdown;
use crate::relationship::Relationship;
use crate::wire::attribute::code;
use alloc::vec::Vec;
use sluice_base::Asn;

/// The changes to the routes of an external neighbor. Neighbors with equal changes share bound policies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ingress {
    /// LOCAL_PREF by the neighbor's role; `None` for [`DEFAULT_LOCAL_PREF`].
    local_pref: Option<u32>,
    /// The AS of ONLY_TO_CUSTOMER for routes of the neighbor (RFC 9234, section 5, ingress 3).
    mark: Option<Asn>,
    /// The router's AS toward the neighbor, if prepended to AS paths.
    prepended_as: Option<Asn>,
    /// True if routes with GRACEFUL_SHUTDOWN get the LOCAL_PREF 0 (RFC 8326, section 4.1).
    heeds_graceful_shutdown: bool,
}

impl Ingress {
    /// Returns the changes to the routes of a neighbor in the AS `peer_as` with a role. `prepended_as` is prepended to AS paths. A route
    /// server does not process the clients' communities (RFC 7947, section 2.2.4).
    pub fn new(
        peer_as: Asn,
        role: Option<Relationship>,
        prepended_as: Option<Asn>,
        is_of_client: bool,
    ) -> Self {
        Ingress {
            local_pref: role.map(Relationship::local_pref).filter(|of_role| *of_role != DEFAULT_LOCAL_PREF),
            mark: role.filter(|role| role.marks_received()).map(|_| peer_as),
            prepended_as,
            heeds_graceful_shutdown: !is_of_client,
        }
    }
    /// Returns the additions to a route.
    fn added(&self, received: &[u8]) -> Added {
        let has = |code| canonical::find(received, code);
        let is_draining =
            self.heeds_graceful_shutdown && has(code::COMMUNITIES).is_some_and(graceful_shutdown::is_in);
        Added {
            local_pref: if is_draining { Some(graceful_shutdown::LOCAL_PREF) } else { self.local_pref },
            only_to_customer: self.mark.filter(|_| has(code::ONLY_TO_CUSTOMER).is_none()),
            prepended_as: self.prepended_as,
        }
    }

    /// Returns true if the changes leave a route with these attributes unchanged.
    pub(crate) fn leaves_unchanged(&self, received: &[u8]) -> bool {
        self.added(received) == Added::default()
    }

    /// Returns the attributes of a route after the changes; `None` without a change.
    pub fn changed(&self, received: &[u8]) -> Option<Vec<u8>> {
        let added = self.added(received);
        (added != Added::default()).then(|| {
            let mut octets = Vec::with_capacity(received.len() + 18);
            added.put(received, &mut octets);
            octets
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attributes::Reach;
    use crate::wire::attribute::{Flags, put_header};
    use alloc::vec;

    const PEER: Asn = Asn(65002);

    /// Returns the changes to the routes of a neighbor with a role.
    fn by(role: Option<Relationship>) -> Ingress {
        Ingress::new(PEER, role, None, false)
    }

    /// Canonical octets of a route of the neighbor with these attributes behind AS_PATH.
    fn received(extra: &[(u8, &[u8])]) -> Vec<u8> {
        let mut octets = vec![];
        put_header(&mut octets, Flags::TRANSITIVE, code::ORIGIN, 1);
        octets.push(0);
        put_header(&mut octets, Flags::TRANSITIVE, code::AS_PATH, 6);
        octets.extend([2, 1, 0, 0, 0xfd, 0xea]);
        for (code, value) in extra {
            put_header(&mut octets, Flags::OPTIONAL | Flags::TRANSITIVE, *code, value.len());
            octets.extend_from_slice(value);
        }
        octets
    }

    /// Returns LOCAL_PREF, ONLY_TO_CUSTOMER and the reach of a route after the changes.
    fn after(ingress: Ingress, extra: &[(u8, &[u8])]) -> (u32, Option<Vec<u8>>, Reach) {
        let before = received(extra);
        let octets = ingress.changed(&before).unwrap_or(before);
        let codes: Vec<u8> = canonical::attributes(&octets).map(|a| a.code).collect();
        assert!(codes.is_sorted_by(|a, b| a < b), "{codes:?}");
        let view = canonical::view(&octets, Asn(65001));
        let mark = canonical::find(&octets, code::ONLY_TO_CUSTOMER).map(<[u8]>::to_vec);
        (view.local_pref, mark, view.reach)
    }

    #[test]
    fn what_will_go_is_preferred_least() {
        let (plain, provider) = (by(None), by(Some(Relationship::Provider)));
        let local_pref = |ingress, communities| after(ingress, &[(code::COMMUNITIES, communities)]).0;
        assert_eq!(local_pref(plain, &[0, 1, 0, 2, 0xff, 0xff, 0, 0]), 0);
        assert_eq!(local_pref(provider, &[0xff, 0xff, 0, 0]), 0);
        assert_eq!(local_pref(provider, &[0, 1, 0, 2]), 80);
        assert_eq!(local_pref(plain, &[0xff, 0xff, 0, 1]), 100);
        let server = Ingress::new(PEER, None, None, true);
        assert_eq!(server.changed(&received(&[(code::COMMUNITIES, &[0xff, 0xff, 0, 0])])), None);
    }

    #[test]
    fn what_a_relationship_adds() {
        let by = |role| by(Some(role));
        let (peers, anothers) = (vec![0, 0, 0xfd, 0xea], vec![0, 0, 0, 7]);
        let sid = (code::PREFIX_SID, &[1, 0, 1, 0][..]);
        for (relationship, local_pref) in
            [(Relationship::Peer, 90), (Relationship::RouteServer, 90), (Relationship::Provider, 80)]
        {
            let expected = (local_pref, Some(peers.clone()), Reach::Customers);
            assert_eq!(after(by(relationship), &[]), expected);
            assert_eq!(after(by(relationship), &[sid]), expected, "in the order of codes");
            let marked = after(by(relationship), &[(code::ONLY_TO_CUSTOMER, &anothers), sid]);
            assert_eq!(marked, (local_pref, Some(anothers.clone()), Reach::Customers));
        }
        for relationship in [Relationship::Customer, Relationship::RouteServerClient] {
            assert_eq!(by(relationship).changed(&received(&[])), None, "{relationship:?}");
        }
        // A community may bound the reach more; a mark never less.
        let no_export = (code::COMMUNITIES, &[0xff, 0xff, 0xff, 1][..]);
        assert_eq!(after(by(Relationship::Provider), &[no_export]).2, Reach::OwnAs);
    }

    #[test]
    fn another_as_of_the_router_comes_first() {
        let ingress = Ingress::new(PEER, None, Some(Asn(64999)), false);
        let octets = ingress.changed(&received(&[])).expect("it changes");
        let path = canonical::find(&octets, code::AS_PATH);
        assert_eq!(path, Some(&[2, 2, 0, 0, 0xfd, 0xe7, 0, 0, 0xfd, 0xea][..]));
        let view = canonical::view(&octets, Asn(65001));
        assert_eq!((view.neighbor_as, view.path_length), (Asn(64999), 2));
    }
}
