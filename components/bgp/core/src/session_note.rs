//! The note for BGP's next process, which the RIB keeps: the neighbors with a session.

use alloc::collections::BTreeSet;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr};

/// The form of the note.
const FORM: u8 = 1;

/// Writes the note: the form, then 16 octets for each neighbor, IPv4 addresses mapped into IPv6.
pub fn write(neighbors: &BTreeSet<IpAddr>) -> Vec<u8> {
    let mut note = vec![FORM];
    for neighbor in neighbors {
        let mapped = match neighbor {
            IpAddr::V4(address) => address.to_ipv6_mapped(),
            IpAddr::V6(address) => *address,
        };
        note.extend_from_slice(&mapped.octets());
    }
    note
}

/// Reads a note; `None` if there is none, or if it has another form.
pub fn read(note: &[u8]) -> Option<BTreeSet<IpAddr>> {
    let (form, rest) = note.split_first()?;
    let (neighbors, left) = rest.as_chunks::<16>();
    let is_known = *form == FORM && left.is_empty();
    is_known.then(|| neighbors.iter().map(|octets| Ipv6Addr::from(*octets).to_canonical()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_written() {
        let all = |texts: &[&str]| texts.iter().map(|text| text.parse().expect("an address")).collect();
        for neighbors in [all(&[]), all(&["10.0.0.1", "2001:db8::1", "fe80::2"])] {
            assert_eq!(read(&write(&neighbors)), Some(neighbors));
        }
        assert!([&[][..], &[2], &[1, 0, 0], &[2; 17]].iter().all(|note| read(note).is_none()));
    }
}
