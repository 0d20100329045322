//! tshark, which shares no code with the router, reads the packets and frames that the encoders write.

use crate::wire_vectors::{PACKETS, octets};
use sluice_testkit::tshark::{self, Packet as Decoded};
use sluice_xip::wire::nwp::{Announcement, Listed, ListedAddress, Message};
use sluice_xip::wire::{Dag, ETHERTYPE_NWP, ETHERTYPE_XIP, Hid, Mac, Packet, PacketHead};

/// Decodes payloads of Ethernet frames of a type. `None` if there is no tshark.
fn decode(ethertype: u16, filter: &str, payloads: &[Vec<u8>]) -> Option<Vec<Decoded>> {
    let mut capture = vec![];
    for word in [0xa1b2_c3d4_u32, 2 << 16 | 4, 0, 0, 0xffff, 1] {
        capture.extend(word.to_be_bytes());
    }
    for payload in payloads {
        let frame = [&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1][..], &ethertype.to_be_bytes(), payload].concat();
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            capture.extend(word.to_be_bytes());
        }
        capture.extend(frame);
    }
    let file = std::env::temp_dir().join(format!("sluice-xip-{filter}-{}.pcap", std::process::id()));
    std::fs::write(&file, capture).expect("the capture is written");
    let packets = tshark::decode(&file, filter, &[]);
    std::fs::remove_file(&file).expect("the capture is removed");
    packets
}

#[test]
fn tshark_reads_the_packets_that_are_written() {
    let vectors: Vec<Vec<u8>> = PACKETS.iter().map(|(_, _, digits)| octets(digits)).collect();
    let written: Vec<Vec<u8>> = vectors
        .iter()
        .map(|vector| {
            let packet = Packet::parse(vector).unwrap();
            let mut written = vec![];
            PacketHead {
                hop_limit: packet.hop_limit(),
                ..PacketHead::new(packet.destination(), packet.source())
            }
            .put(packet.payload(), &mut written)
            .unwrap();
            written
        })
        .collect();
    let Some(decoded) = decode(ETHERTYPE_XIP, "xip", &written) else { return };
    assert_eq!(decoded.len(), PACKETS.len());
    for (decoded, wire) in decoded.iter().zip(&written) {
        let packet = Packet::parse(wire).unwrap();
        let number = |field: &str| decoded.shown(field)[0].parse::<usize>().unwrap();
        assert_eq!(number("xip.version"), 1);
        assert_eq!(number("xip.payload_len"), packet.payload().len());
        assert_eq!(number("xip.hop_limit"), usize::from(packet.hop_limit()));
        assert_eq!(number("xip.num_dst"), packet.num_dst());
        assert_eq!(number("xip.num_src"), packet.num_src());
        assert_eq!(number("xip.last_node"), 0x7e);
        assert_eq!(texts(decoded, "xip.dst_dag_entry"), text(packet.destination()));
        assert_eq!(texts(decoded, "xip.src_dag_entry"), text(packet.source()));
    }
}

/// The text that tshark shows for an address, without the dash that tshark writes behind the ID of a node without edges; none
/// for the address without nodes.
fn texts(decoded: &Decoded, field: &str) -> Vec<String> {
    decoded.shown(field).into_iter().map(|text| text.replace("&gt;", ">").replace("-:", ":")).collect()
}

/// The text of an address, none for the address without nodes.
fn text(dag: Dag) -> Vec<String> {
    if dag.is_empty() { vec![] } else { vec![format!("{dag:#}")] }
}

#[test]
fn tshark_reads_announcements_and_lists() {
    let (one, two) = (Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]));
    let hids = vec![Hid([0x11; 20]), Hid([0x22; 20])];
    let addresses = [one, two].map(|mac| ListedAddress { mac, status: None }).to_vec();
    let messages = [
        Message::Announcement(Announcement { clock: None, sender: one, hids }),
        Message::List(vec![Listed { hid: Hid([0x22; 20]), addresses }]),
    ];
    let payloads: Vec<Vec<u8>> = messages
        .iter()
        .map(|message| {
            let mut payload = vec![];
            message.put(&mut payload);
            payload
        })
        .collect();
    let Some(decoded) = decode(ETHERTYPE_NWP, "nwp", &payloads) else { return };
    let [announcement, list] = &decoded[..] else { panic!("{decoded:?}") };
    let holds = |shown: Vec<&str>, octet: &str| shown.len() == 1 && shown[0].contains(&octet.repeat(20));
    assert_eq!(announcement.shown("nwp.type"), ["0x01"]);
    assert_eq!(announcement.shown("nwp.hid_count"), ["2"]);
    assert_eq!(announcement.shown("nwp.ann_haddr"), ["02:00:00:00:00:01"]);
    assert!(announcement.shown("nwp.ann_hid")[1].contains(&"22".repeat(20)));
    assert_eq!(list.shown("nwp.type"), ["0x02"]);
    assert!(holds(list.shown("nwp.neigh_hid"), "22"));
    assert_eq!(list.shown("nwp.neigh_num"), ["2"]);
    assert_eq!(list.shown("nwp.neigh_haddr"), ["02:00:00:00:00:01", "02:00:00:00:00:02"]);
    assert!(announcement.complaints().is_empty() && list.complaints().is_empty());
}
