//! Packet captures (pcap and pcapng) as programs such as tcpdump write them, read without trust in their lengths.
#![no_std]

extern crate alloc;

use alloc::vec::Vec;

/// A frame as it is in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'f> {
    /// The link type (LINKTYPE_...; 1 is Ethernet).
    pub link: u32,
    /// Nanoseconds since 1970.
    pub nanoseconds: u128,
    /// The octets, as far as they were captured.
    pub octets: &'f [u8],
    /// True if the frame on the wire was longer.
    pub is_cut: bool,
}

/// The frames of a file, in the file's order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Capture<'f> {
    /// The frames that are whole in the file.
    pub records: Vec<Record<'f>>,
    /// The beginning of a last frame within which the file ends (pcap only).
    pub torn: Option<Record<'f>>,
}

/// Reads a file; `None` if it has neither format. A damaged file ends early.
pub fn parse(file: &[u8]) -> Option<Capture<'_>> {
    match file.first_chunk()? {
        [0x0a, 0x0d, 0x0d, 0x0a] => pcapng(file),
        magic => pcap(file, *magic),
    }
}

type Order = fn([u8; 4]) -> u32;

fn word(octets: &[u8], at: usize, order: Order) -> Option<u32> {
    Some(order(*octets.get(at..)?.first_chunk()?))
}

/// Reads the classic format: a header of 24 octets, then records with headers of 16 octets.
fn pcap(file: &[u8], magic: [u8; 4]) -> Option<Capture<'_>> {
    let (order, unit): (Order, u128) = match magic {
        [0xd4, 0xc3, 0xb2, 0xa1] => (u32::from_le_bytes, 1000),
        [0xa1, 0xb2, 0xc3, 0xd4] => (u32::from_be_bytes, 1000),
        [0x4d, 0x3c, 0xb2, 0xa1] => (u32::from_le_bytes, 1),
        [0xa1, 0xb2, 0x3c, 0x4d] => (u32::from_be_bytes, 1),
        _ => return None,
    };
    let link = word(file, 20, order)? & 0xffff;
    let mut records = Vec::new();
    let mut rest = file.get(24..)?;
    while let (Some(seconds), Some(fraction), Some(length), Some(original), Some(body)) = (
        word(rest, 0, order),
        word(rest, 4, order),
        word(rest, 8, order),
        word(rest, 12, order),
        rest.get(16..),
    ) {
        let nanoseconds = u128::from(seconds) * 1_000_000_000 + u128::from(fraction) * unit;
        let Some((octets, behind)) = body.split_at_checked(length as usize) else {
            return Some(Capture {
                records,
                torn: Some(Record { link, nanoseconds, octets: body, is_cut: true }),
            });
        };
        records.push(Record { link, nanoseconds, octets, is_cut: original > length });
        rest = behind;
    }
    Some(Capture { records, torn: None })
}

/// An interface of a pcapng section.
struct Source {
    link: u32,
    /// Units of time in a second.
    units: u128,
}

/// Reads pcapng (draft-ietf-opsawg-pcapng): blocks of a type, a length, a body and the length again.
fn pcapng(file: &[u8]) -> Option<Capture<'_>> {
    let mut order: Order = u32::from_le_bytes;
    let (mut records, mut sources): (Vec<Record<'_>>, Vec<Source>) = Default::default();
    let mut rest = file;
    while let Some(kind) = word(rest, 0, order) {
        if kind == SECTION {
            order = match word(rest, 8, u32::from_le_bytes) {
                Some(0x1a2b_3c4d) => u32::from_le_bytes,
                Some(0x4d3c_2b1a) => u32::from_be_bytes,
                _ => return None,
            };
            sources.clear();
        }
        let Some(length) = word(rest, 4, order).filter(|length| *length >= 12) else { break };
        let Some((block, behind)) = rest.split_at_checked(length as usize) else { break };
        let body = &block[8..block.len() - 4];
        let latest = records.last().map_or(0, |record| record.nanoseconds);
        match kind {
            INTERFACE => sources.extend(source(body, order)),
            ENHANCED => records.extend(enhanced(body, order, &sources)),
            SIMPLE => records.extend(simple(body, order, &sources, latest)),
            _ => {}
        }
        rest = behind;
    }
    Some(Capture { records, torn: None })
}

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;

/// The option of an interface with the resolution of its times.
const RESOLUTION: u32 = 9;

fn source(body: &[u8], order: Order) -> Option<Source> {
    let (link, _reserved) = halves(word(body, 0, order)?, order);
    let mut units = 1_000_000;
    let mut options = body.get(8..)?;
    while let Some((code, length)) = word(options, 0, order).map(|word| halves(word, order)) {
        if code == RESOLUTION
            && let Some(value) = options.get(4)
        {
            let power = u32::from(value & 0x7f);
            let base: u128 = if value & 0x80 == 0 { 10 } else { 2 };
            units = base.checked_pow(power).unwrap_or(u128::MAX);
        }
        let padded = 4 + (length as usize).next_multiple_of(4);
        match options.get(padded..) {
            Some(behind) if code != 0 => options = behind,
            _ => break,
        }
    }
    Some(Source { link, units })
}

/// Returns the two 16-bit numbers of a word, in the file's order.
fn halves(word: u32, order: Order) -> (u32, u32) {
    let is_little = order([1, 0, 0, 0]) == 1;
    if is_little { (word & 0xffff, word >> 16) } else { (word >> 16, word & 0xffff) }
}

fn enhanced<'f>(body: &'f [u8], order: Order, sources: &[Source]) -> Option<Record<'f>> {
    let source = sources.get(word(body, 0, order)? as usize)?;
    let time = u128::from(word(body, 4, order)?) << 32 | u128::from(word(body, 8, order)?);
    let (length, original) = (word(body, 12, order)?, word(body, 16, order)?);
    let octets = body.get(20..)?.get(..length as usize)?;
    let nanoseconds = time * 1_000_000_000 / source.units;
    Some(Record { link: source.link, nanoseconds, octets, is_cut: original > length })
}

/// A block without a time: the frame has that of the frame before.
fn simple<'f>(body: &'f [u8], order: Order, sources: &[Source], latest: u128) -> Option<Record<'f>> {
    let source = sources.first()?;
    let (original, octets) = (word(body, 0, order)? as usize, body.get(4..)?);
    let captured = octets.get(..original).unwrap_or(octets);
    Some(Record {
        link: source.link,
        nanoseconds: latest,
        octets: captured,
        is_cut: captured.len() < original,
    })
}
