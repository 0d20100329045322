//! The cluster's frames between elements, and the balancer's decisions on frames of neighbors and elements.

pub mod shared;
pub mod stream;

use sluice_base::{Instant, InterfaceIndex};
use sluice_cluster::announce::Announcement;
use sluice_cluster::balancer::{Balancer, Input};
use sluice_cluster::decision::{Arrival, Decision, Turns, decide};
use sluice_cluster::frame::{InnerMac, Mac};
use sluice_cluster::header::{FrameError, HEADER_LEN, Header, Stamp};
use sluice_cluster::hello::{HELLO_LEN, Hello};
use sluice_cluster::inventory::{Element, ElementId, Inventory, OuterPort, PortNumber, Role};
use sluice_cluster::io;
use sluice_cluster::key::{ClusterKey, KeyRing, TAG_LEN};
use sluice_cluster::machine::Cluster;
use sluice_cluster::neighbors::{NeighborKey, NeighborList, Part, WantedList};
use sluice_cluster::policy::Policy;
use sluice_cluster::resolution;
use sluice_cluster::settings::Settings;
use sluice_cluster::words::Mirror;
use sluice_machine::{Machine, Outbox};
use sluice_wire::Cursor;
use std::sync::LazyLock;

const KEY: ClusterKey = ClusterKey([7; 32]);
/// The indices of the outer and of the inner interface.
const SIDES: [u32; 2] = [1, 2];

/// Reads a frame of the cluster as it is, and with a right tag, and writes it.
pub fn frame(input: &[u8]) {
    let ring = KeyRing::of(KEY);
    if let Ok(hello) = Hello::decode(input, &ring) {
        assert_eq!(hello.encode(&KEY), input[..HELLO_LEN]);
    }
    let Ok(header) = Header::decode(&mut Cursor::new(input)) else { return };
    let end = HEADER_LEN.saturating_add(header.length as usize);
    let Some(signed) = input.get(..end) else { return };
    let mut octets = signed.to_vec();
    octets.extend_from_slice(&KEY.tag(signed));
    assert_eq!(octets.len(), end + TAG_LEN);
    match Announcement::decode(&octets, &ring) {
        Ok(announcement) => assert_eq!(announcement.encode(&KEY).as_ref(), Ok(&octets)),
        Err(error) => assert_ne!(error, FrameError::Tag),
    }
    // A number without a meaning is not written again, and a sender may put more neighbors into a frame than this side does.
    if let Ok(list) = NeighborList::decode(&octets, &ring)
        && let Some(again) = list.encode(&KEY)
    {
        assert_eq!(NeighborList::decode(&again, &ring), Ok(list));
    }
    match WantedList::decode(&octets, &ring) {
        Ok(list) => assert!(list.encode(&KEY).is_none_or(|again| again == octets)),
        Err(error) => assert_ne!(error, FrameError::Tag),
    }
    element(octets);
}

/// Hands a frame to the machine of the control plane.
fn element(octets: Vec<u8>) {
    let mut machine = Cluster::new(1);
    let settings = Settings {
        element: id(9),
        interconnect: vec!["eth0".into()],
        inventory: inventory(),
        drained: [].into(),
        reached: [].into(),
        addresses: [].into(),
        mtus: [].into(),
        more_addresses: [].into(),
        policy: Policy::default(),
        keys: KeyRing::of(KEY),
        store: None,
        shares_configuration: false,
        leader: None,
    };
    let mut out = Outbox::new();
    machine.handle(Instant::ZERO, io::Input::Configure(Box::new(settings)), &mut out);
    machine.handle(Instant::ZERO, io::Input::Frame(octets), &mut out);
}

/// Decides on a frame; the first octet selects the side from which the frame comes.
pub fn decision(input: &[u8]) {
    static BALANCER: LazyLock<Balancer> = LazyLock::new(balancer);
    let Some((side, frame)) = input.split_first() else { return };
    let arrival = Arrival { interface: SIDES[usize::from(side % 2)], frame, now: 1 << 40 };
    let decision = decide(BALANCER.mirror(), &mut Turns::default(), arrival);
    if let Decision::Send { mac, interface, .. } = decision {
        resolution::rewrite(&mut frame.to_vec(), Mac([2, 0x5c, 0, 9, 0, 1]), mac);
        assert!(interface != 0 && !mac.is_group() && sluice_cluster::mac::is_inner(mac) == (side % 2 == 0));
    }
}

fn id(number: u16) -> ElementId {
    ElementId::new(number).expect("not 0")
}

fn port() -> OuterPort {
    let number = PortNumber::new(1).expect("not 0");
    OuterPort { number, interface: "eth0".into(), mac: Mac([2, 0, 0, 0, 1, 1]) }
}

fn member(number: u16, role: Role, ports: Vec<OuterPort>) -> Element {
    Element { id: id(number), name: format!("e{number}"), roles: [role].into(), weight: 1, ports }
}

fn inventory() -> Inventory {
    let mut inventory = Inventory::default();
    for element in [
        member(1, Role::Balancer, vec![port()]),
        member(2, Role::Router, vec![]),
        member(9, Role::Control, vec![]),
    ] {
        inventory.put(element).expect("numbers are unique");
    }
    inventory
}

fn balancer() -> Balancer {
    let mut balancer = Balancer::new(id(1), 7, Mirror::default());
    let index = |number| InterfaceIndex::new(number).expect("not 0");
    let inputs = [
        Input::Policy(Policy::default()),
        Input::Keys(KeyRing::of(KEY)),
        Input::Inventory(inventory()),
        Input::InService([1, 2, 9].map(id).into()),
        Input::Control(Some(id(9))),
        Input::Outer(port().number, Some(index(SIDES[0]))),
        Input::Inner(vec![index(SIDES[1])]),
        Input::Neighbor(Mac([2, 0, 0, 0, 9, 1]), [port().number].into()),
    ];
    let mut out = Outbox::new();
    inputs.into_iter().for_each(|input| balancer.handle(Instant::ZERO, input, &mut out));
    balancer
}

/// A hello frame, announcements without and with ports and addresses, neighbors known and wanted.
pub fn frames() -> Vec<Vec<u8>> {
    let stamp = Stamp { epoch: 3, counter: 4 };
    let announcement = |element, addresses: &[&str]| {
        let addresses = addresses.iter().map(|address| address.parse().expect("an address")).collect();
        let announcement = Announcement { element, mac: Mac([2, 0, 0, 0, 0, 1]), addresses, stamp };
        announcement.encode(&KEY).expect("a short announcement")
    };
    let keys = ["10.0.1.2", "fd01::2"]
        .map(|address| NeighborKey { port: port().number, address: address.parse().expect("an address") });
    vec![
        Hello { element: id(2), stamp }.encode(&KEY).to_vec(),
        announcement(member(2, Role::Router, vec![]), &[]),
        announcement(member(1, Role::Balancer, vec![port()]), &["192.0.2.1", "2001:db8::1"]),
        NeighborList {
            element: id(9),
            stamp,
            part: Part::Round { number: 1, is_last: true },
            entries: keys.map(|key| (key, Some(Mac([2, 0, 0, 0, 9, 1])))).to_vec(),
        }
        .encode(&KEY)
        .expect("two neighbors"),
        WantedList { element: id(2), stamp, entries: keys.to_vec() }.encode(&KEY).expect("two neighbors"),
    ]
}

/// Frames from both sides: packets, with a tag, ARP, a hello frame.
pub fn arrivals() -> Vec<Vec<u8>> {
    let neighbor = [2, 0, 0, 0, 9, 1];
    let router = InnerMac { element: id(2), port: 1 }.mac().0;
    let four =
        [&[8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 198, 51, 100, 1][..], &[0; 8]]
            .concat();
    let six = [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64][..], &[0x20; 32], &[0; 8]].concat();
    let tagged = [&[0x81, 0, 0, 5][..], &four].concat();
    let arp = [&[8, 6][..], &[0; 28]].concat();
    let hello = [&[0x88, 0xb5][..], &frames()[0]].concat();
    let mut arrivals = Vec::new();
    for packet in [four, six, tagged, arp, hello] {
        arrivals.push([&[0][..], &port().mac.0, &neighbor, &packet].concat());
        arrivals.push([&[1][..], &neighbor, &router, &packet].concat());
    }
    arrivals
}
