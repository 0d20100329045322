//! Frames between elements: written and read, with each octet changed, under two keys.

use proptest::prelude::*;
use sluice_cluster::announce::{Announcement, MOST_NAME, TooLong};
use sluice_cluster::frame::Mac;
use sluice_cluster::header::{FrameError, Stamp};
use sluice_cluster::hello::{HELLO_LEN, Hello};
use sluice_cluster::inventory::{Element, ElementId, OuterPort, PortNumber, Role, Roles};
use sluice_cluster::key::{ClusterKey, KeyRing};
use std::net::IpAddr;

fn ring() -> KeyRing {
    KeyRing { current: ClusterKey([7; 32]), other: Some(ClusterKey([8; 32])) }
}

fn id() -> impl Strategy<Value = ElementId> {
    (1..=u16::MAX).prop_map(|number| ElementId::new(number).unwrap())
}

fn stamp() -> impl Strategy<Value = Stamp> {
    any::<(u64, u64)>().prop_map(|(epoch, counter)| Stamp { epoch, counter })
}

fn port() -> impl Strategy<Value = OuterPort> {
    (1..u16::MAX, "[a-z0-9]{0,15}", any::<[u8; 6]>()).prop_map(|(number, interface, mac)| OuterPort {
        number: PortNumber::new(number).unwrap(),
        interface,
        mac: Mac(mac),
    })
}

fn announcement() -> impl Strategy<Value = Announcement> {
    let roles = prop::collection::btree_set(prop::sample::select(&Role::ALL[..]), 0..5);
    let ports = prop::collection::vec(port(), 0..20);
    let element = (id(), "[a-zé]{0,20}", roles, any::<u16>(), ports).prop_map(
        |(id, name, roles, weight, ports): (_, _, Roles, _, _)| Element { id, name, roles, weight, ports },
    );
    let addresses = prop::collection::vec(any::<IpAddr>(), 0..6);
    (element, any::<[u8; 6]>(), addresses, stamp()).prop_map(|(element, mac, addresses, stamp)| {
        Announcement { element, mac: Mac(mac), addresses, stamp }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn hello_frames_are_read_as_written(element in id(), stamp in stamp(), padding in 0..30usize) {
        let hello = Hello { element, stamp };
        let ring = ring();
        for key in ring.iter() {
            let mut octets = hello.encode(key).to_vec();
            octets.resize(HELLO_LEN + padding, 0xff);
            prop_assert_eq!(Hello::decode(&octets, &ring), Ok(hello));
        }
        let stranger = hello.encode(&ClusterKey([9; 32]));
        prop_assert_eq!(Hello::decode(&stranger, &ring), Err(FrameError::Tag));
    }

    #[test]
    fn a_changed_hello_frame_is_refused(element in id(), stamp in stamp(), at in 0..HELLO_LEN, by in 1..=255u8) {
        let mut octets = Hello { element, stamp }.encode(&ring().current);
        octets[at] ^= by;
        prop_assert!(Hello::decode(&octets, &ring()).is_err());
        prop_assert!(Hello::decode(&octets[..at], &ring()).is_err());
    }

    #[test]
    fn announcements_are_read_as_written(announcement in announcement(), padding in 0..30usize) {
        let ring = ring();
        for key in ring.iter() {
            let mut octets = announcement.encode(key).unwrap();
            octets.resize(octets.len() + padding, 0);
            let read = Announcement::decode(&octets, &ring);
            prop_assert_eq!(read.as_ref(), Ok(&announcement));
        }
    }

    #[test]
    fn a_changed_announcement_is_refused(
        announcement in announcement(), at: prop::sample::Index, by in 1..=255u8,
    ) {
        let mut octets = announcement.encode(&ring().current).unwrap();
        let at = at.index(octets.len());
        octets[at] ^= by;
        prop_assert!(Announcement::decode(&octets, &ring()).is_err());
        prop_assert!(Announcement::decode(&octets[..at], &ring()).is_err());
    }

    /// Whoever has the key may still be wrong: content behind a right tag is checked too.
    #[test]
    fn any_content_behind_a_right_tag_is_read_or_refused(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let key = ClusterKey([7; 32]);
        let mut octets = vec![1, 2, 0, 9];
        octets.extend_from_slice(&(body.len() as u32).to_be_bytes());
        octets.extend_from_slice(&[0; 16]);
        octets.extend_from_slice(&body);
        let tag = key.tag(&octets);
        octets.extend_from_slice(&tag);
        match Announcement::decode(&octets, &KeyRing::of(key.clone())) {
            Ok(announcement) => prop_assert_eq!(announcement.encode(&key), Ok(octets)),
            Err(error) => prop_assert_ne!(error, FrameError::Tag),
        }
    }

    #[test]
    fn any_octets_are_refused(octets in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(Hello::decode(&octets, &ring()).is_err());
        prop_assert!(Announcement::decode(&octets, &ring()).is_err());
    }
}

#[test]
fn what_fits_no_frame_is_not_sent() {
    let element = Element {
        id: ElementId::new(1).unwrap(),
        name: "n".repeat(MOST_NAME + 1),
        roles: Roles::new(),
        weight: 1,
        ports: vec![],
    };
    let stamp = Stamp { epoch: 1, counter: 1 };
    let named = Announcement { element, mac: Mac([0; 6]), addresses: vec![], stamp };
    let key = ClusterKey([7; 32]);
    assert_eq!(named.encode(&key), Err(TooLong));
    let address: IpAddr = "2001:db8::1".parse().unwrap();
    let element = Element { name: "n".into(), ..named.element };
    let many = Announcement { element, addresses: vec![address; 100], ..named };
    assert_eq!(many.encode(&key), Err(TooLong));
}
