//! XIP frames as in the evaluation of Linux XIA (ANCS 2015, section 6.3): one destination among autonomous domains that are made of
//! IPv4 prefixes, in five forms of address.

use sluice_base::{Xid, XidType};
use sluice_xip::wire::{Dag, Node, PacketHead};

/// The EtherType of XIP.
const ETHERTYPE: [u8; 2] = [0xc0, 0xde];
/// The hop limit of generated packets.
const HOP_LIMIT: u8 = 255;
const ETHERNET: usize = 14;
/// Octets of the XIP header before the rows.
const HEADER: usize = 8;
/// Octets of an XID's type.
const TYPE: usize = 4;

/// The form of the destination address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, clap::ValueEnum)]
pub enum XipFormat {
    /// The domain alone.
    Fb0,
    /// An unknown domain, then the domain as fallback.
    Fb1,
    /// Two unknown domains, then the domain.
    Fb2,
    /// Three unknown domains, then the domain.
    Fb3,
    /// A domain that is the router's own ([`unknown_domain`] 1), and the domain behind it.
    Via,
}

impl XipFormat {
    /// Returns the form's name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            XipFormat::Fb0 => "fb0",
            XipFormat::Fb1 => "fb1",
            XipFormat::Fb2 => "fb2",
            XipFormat::Fb3 => "fb3",
            XipFormat::Via => "via",
        }
    }

    /// Returns the rows of the address.
    pub const fn rows(self) -> usize {
        match self {
            XipFormat::Fb0 => 1,
            XipFormat::Fb1 | XipFormat::Via => 2,
            XipFormat::Fb2 => 3,
            XipFormat::Fb3 => 4,
        }
    }

    /// Returns the octets of the Ethernet and XIP headers.
    pub const fn header_octets(self) -> usize {
        ETHERNET + HEADER + self.rows() * Node::LEN
    }

    /// Returns the offset in a frame at which the generator writes the 4 octets of a destination: the ID in the last row.
    pub(crate) const fn destination_offset(self) -> usize {
        self.header_octets() - Node::LEN + TYPE
    }

    /// Returns the address for a domain.
    pub fn address(self, domain: Xid) -> Dag {
        let unknown = [unknown_domain(1), unknown_domain(2), unknown_domain(3)];
        let address = match self {
            XipFormat::Fb0 => Some(Dag::direct(domain)),
            XipFormat::Fb1 => Dag::any_of(&[unknown[0], domain]),
            XipFormat::Fb2 => Dag::any_of(&[unknown[0], unknown[1], domain]),
            XipFormat::Fb3 => Dag::any_of(&[unknown[0], unknown[1], unknown[2], domain]),
            XipFormat::Via => Dag::scoped(&unknown[..1], domain),
        };
        // No form has more rows than an address may have.
        address.unwrap_or(Dag::EMPTY)
    }
}

/// Returns the domain of a destination: its 4 octets, then zeros.
pub fn domain(destination: [u8; 4]) -> Xid {
    let mut id = [0; 20];
    let (head, _) = id.split_at_mut(4);
    head.copy_from_slice(&destination);
    Xid { kind: XidType::AD, id }
}

/// Returns the domain with a number that no route leads to. Number 1 is the router's own for [`XipFormat::Via`].
pub fn unknown_domain(number: u8) -> Xid {
    Xid { kind: XidType::AD, id: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0, 0, 0, number] }
}

/// Makes the frame of `size` octets for the destination 0.0.0.0, which must have room for the headers: no source, and a payload of
/// 16-bit counters from 1 on.
pub(crate) fn frame(from: [u8; 6], to: [u8; 6], format: XipFormat, size: usize) -> Vec<u8> {
    let mut frame = [&to[..], &from, &ETHERTYPE].concat();
    let counters = (1..=u16::MAX).flat_map(u16::to_be_bytes);
    let payload: Vec<u8> = counters.take(size.saturating_sub(format.header_octets())).collect();
    let head =
        PacketHead { hop_limit: HOP_LIMIT, ..PacketHead::new(format.address(domain([0; 4])), Dag::EMPTY) };
    // A frame is shorter than the longest payload, and each form has a row.
    let _ = head.put(&payload, &mut frame);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the packet to 10.1.0.0/16 with a payload of 8 octets, in hexadecimal digits, as the program completes the frame.
    fn packet(format: XipFormat) -> String {
        let mut frame = frame([2; 6], [4; 6], format, format.header_octets() + 8);
        assert_eq!(frame[..14], [4, 4, 4, 4, 4, 4, 2, 2, 2, 2, 2, 2, 0xc0, 0xde]);
        frame[format.destination_offset()..][..4].copy_from_slice(&[10, 1, 0x80, 0]);
        frame[14..].iter().map(|octet| format!("{octet:02x}")).collect()
    }

    #[test]
    fn a_frame_through_a_domain_is_vector_6() {
        assert_eq!(
            packet(XipFormat::Via),
            concat!(
                "01000008ff02007e",
                "00000010000102030405060708090a0b0c0d0e0f00000001017f7f7f",
                "000000100a01800000000000000000000000000000000000007f7f7f",
                "0001000200030004"
            )
        );
    }

    #[test]
    fn a_frame_with_three_fallbacks_is_vector_7() {
        assert_eq!(
            packet(XipFormat::Fb3),
            concat!(
                "01000008ff04007e",
                "00000010000102030405060708090a0b0c0d0e0f000000017f7f7f7f",
                "00000010000102030405060708090a0b0c0d0e0f000000027f7f7f7f",
                "00000010000102030405060708090a0b0c0d0e0f000000037f7f7f7f",
                "000000100a0180000000000000000000000000000000000000010203",
                "0001000200030004"
            )
        );
    }

    #[test]
    fn every_form_is_a_valid_address_of_its_rows() {
        for format in [XipFormat::Fb0, XipFormat::Fb1, XipFormat::Fb2, XipFormat::Fb3, XipFormat::Via] {
            let address = format.address(domain([10, 1, 0x80, 0]));
            assert_eq!(address.validate(), Ok(format.rows()), "{}", format.name());
            assert_eq!(address.intent(), Some(domain([10, 1, 0x80, 0])));
        }
    }

    #[test]
    fn a_payload_of_an_odd_length_ends_in_half_a_counter() {
        let frame = frame([2; 6], [4; 6], XipFormat::Fb0, XipFormat::Fb0.header_octets() + 5);
        assert_eq!(frame[XipFormat::Fb0.header_octets()..], [0, 1, 0, 2, 0]);
        assert_eq!(frame[14 + 2..][..2], [0, 5]);
    }
}
