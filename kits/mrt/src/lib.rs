//! MRT traces (RFC 6396): the BGP messages in them. Reading stops at the first record that is not whole and hands out what came before.
#![no_std]

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A BGP message in a trace.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// When it was seen, in microseconds since 1970.
    pub time: u64,
    /// The peer's AS.
    pub peer_as: u32,
    /// The peer's address.
    pub peer: IpAddr,
    /// Whether AS numbers in it have 4 octets.
    pub four_octet_as: bool,
    /// The whole message, header included.
    pub octets: &'a [u8],
}

/// The BGP messages of a trace (BGP4MP and BGP4MP_ET records), in order; other records are skipped.
pub fn messages(trace: &[u8]) -> impl Iterator<Item = Message<'_>> {
    Records { rest: trace }.filter_map(|(time, kind, subtype, body)| message(time, kind, subtype, body))
}

struct Records<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Records<'a> {
    type Item = (u64, u16, u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (header, rest) = self.rest.split_first_chunk::<12>()?;
        let word =
            |at: usize| u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
        let (body, rest) = rest.split_at_checked(word(8) as usize)?;
        self.rest = rest;
        Some((u64::from(word(0)) * 1_000_000, (word(4) >> 16) as u16, word(4) as u16, body))
    }
}

/// Takes `n` octets off the front.
fn take<'a>(rest: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(n)?;
    *rest = tail;
    Some(head)
}

fn number(octets: &[u8]) -> u32 {
    octets.iter().fold(0, |n, octet| n << 8 | u32::from(*octet))
}

fn message(mut time: u64, kind: u16, subtype: u16, mut body: &[u8]) -> Option<Message<'_>> {
    const BGP4MP: u16 = 16;
    const BGP4MP_ET: u16 = 17;
    match kind {
        BGP4MP => {}
        BGP4MP_ET => time += u64::from(number(take(&mut body, 4)?)),
        _ => return None,
    }
    // MESSAGE, MESSAGE_AS4, and both with "_LOCAL".
    let four_octet_as = match subtype {
        1 | 6 => false,
        4 | 7 => true,
        _ => return None,
    };
    let width = if four_octet_as { 4 } else { 2 };
    let peer_as = number(take(&mut body, width)?);
    take(&mut body, width + 2)?;
    let family = number(take(&mut body, 2)?);
    let peer = match family {
        1 => {
            let peer = <[u8; 4]>::try_from(take(&mut body, 4)?).ok()?;
            take(&mut body, 4)?;
            Ipv4Addr::from(peer).into()
        }
        2 => {
            let peer = <[u8; 16]>::try_from(take(&mut body, 16)?).ok()?;
            take(&mut body, 16)?;
            Ipv6Addr::from(peer).into()
        }
        _ => return None,
    };
    Some(Message { time, peer_as, peer, four_octet_as, octets: body })
}
