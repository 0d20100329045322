//! Captures (pcap and pcapng): the frames with their times.

use crate::PktgenError;
use std::path::Path;
use std::time::Duration;
use thiserror::Error;

/// The link type of Ethernet (LINKTYPE_ETHERNET).
const ETHERNET: u32 = 1;

/// A frame of a capture.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The time since the capture's first frame; zero for frames with an earlier time.
    pub time: Duration,
    /// The octets from the Ethernet header on, as far as they were captured.
    pub octets: Vec<u8>,
    /// True if the frame on the wire was longer.
    pub is_cut: bool,
}

/// The reason for which a file cannot be replayed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum CaptureError {
    /// The file has neither format.
    #[error("this is no pcap and no pcapng file; decompress it if it is compressed")]
    Format,
    /// A frame has no Ethernet header.
    #[error("it has frames of link type {0}; only Ethernet (1) can be sent")]
    Link(u32),
}

/// Reads the frames of an Ethernet capture from a file.
///
/// # Errors
///
/// If the file cannot be read, or as for [`parse`].
pub fn read(path: &Path) -> Result<Vec<Frame>, PktgenError> {
    let octets = std::fs::read(path).map_err(|source| PktgenError::File { path: path.into(), source })?;
    parse(&octets).map_err(|source| PktgenError::Capture { path: path.into(), source })
}

/// Reads the frames of an Ethernet capture. A capture that ends within a frame has the frames before.
///
/// # Errors
///
/// If the octets are no capture, or a frame has another link type than Ethernet.
pub fn parse(octets: &[u8]) -> Result<Vec<Frame>, CaptureError> {
    let found = match octets.first_chunk() {
        Some(&[0x0a, 0x0d, 0x0d, 0x0a]) => pcapng(octets),
        Some(magic) => pcap(octets, *magic),
        None => None,
    };
    let found = found.ok_or(CaptureError::Format)?;
    if let Some(other) = found.iter().find(|record| record.link != ETHERNET) {
        return Err(CaptureError::Link(other.link));
    }
    let first = found.first().map_or(0, |record| record.nanoseconds);
    let time = |record: &Record<'_>| record.nanoseconds.saturating_sub(first);
    let frame = |record: Record<'_>| Frame {
        time: Duration::from_nanos(u64::try_from(time(&record)).unwrap_or(u64::MAX)),
        octets: record.octets.to_vec(),
        is_cut: record.is_cut,
    };
    Ok(found.into_iter().map(frame).collect())
}

/// A frame as it is in the file.
struct Record<'f> {
    link: u32,
    /// Nanoseconds since 1970.
    nanoseconds: u128,
    octets: &'f [u8],
    is_cut: bool,
}

type Order = fn([u8; 4]) -> u32;

fn word(octets: &[u8], at: usize, order: Order) -> Option<u32> {
    Some(order(*octets.get(at..)?.first_chunk()?))
}

/// Reads the classic format: a header of 24 octets, then records with headers of 16 octets.
fn pcap(file: &[u8], magic: [u8; 4]) -> Option<Vec<Record<'_>>> {
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
    while let (Some(seconds), Some(fraction), Some(length), Some(original)) =
        (word(rest, 0, order), word(rest, 4, order), word(rest, 8, order), word(rest, 12, order))
        && let Some((octets, behind)) = rest.get(16..).and_then(|body| body.split_at_checked(length as usize))
    {
        let nanoseconds = u128::from(seconds) * 1_000_000_000 + u128::from(fraction) * unit;
        records.push(Record { link, nanoseconds, octets, is_cut: original > length });
        rest = behind;
    }
    Some(records)
}

/// An interface of a pcapng section.
struct Source {
    link: u32,
    /// Units of time in a second.
    units: u128,
}

/// Reads pcapng (draft-ietf-opsawg-pcapng): blocks of a type, a length, a body and the length again.
fn pcapng(file: &[u8]) -> Option<Vec<Record<'_>>> {
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
    Some(records)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u32], order: fn(u32) -> [u8; 4]) -> Vec<u8> {
        words.iter().flat_map(|word| order(*word)).collect()
    }

    /// A capture in the classic format: three frames of 1, 2 and 3 octets, the last one cut, the second before the first.
    fn classic(magic: u32, order: fn(u32) -> [u8; 4]) -> Vec<u8> {
        let mut file = words(&[magic, 0, 0, 0, 0xffff, 1], order);
        for (seconds, fraction, length, original) in [(10, 5, 1, 1), (9, 0, 2, 2), (11, 7, 3, 99)] {
            file.extend(words(&[seconds, fraction, length, original], order));
            file.extend(vec![length as u8; length as usize]);
        }
        file
    }

    fn expected(unit: u64) -> Vec<Frame> {
        let frame = |nanoseconds, length: u8, is_cut| Frame {
            time: Duration::from_nanos(nanoseconds),
            octets: vec![length; length.into()],
            is_cut,
        };
        vec![frame(0, 1, false), frame(0, 2, false), frame(1_000_000_000 + 2 * unit, 3, true)]
    }

    #[test]
    fn the_classic_format_is_read_in_both_orders_and_units() {
        for (magic, unit) in [(0xa1b2_c3d4, 1000), (0xa1b2_3c4d, 1)] {
            assert_eq!(parse(&classic(magic, u32::to_le_bytes)).unwrap(), expected(unit));
            assert_eq!(parse(&classic(magic, u32::to_be_bytes)).unwrap(), expected(unit));
        }
    }

    #[test]
    fn a_file_that_ends_within_a_frame_has_the_frames_before() {
        let mut file = classic(0xa1b2_c3d4, u32::to_le_bytes);
        file.pop();
        assert_eq!(parse(&file).unwrap(), expected(1000)[..2]);
        file.truncate(24);
        assert_eq!(parse(&file).unwrap(), []);
    }

    fn block(kind: u32, body: &[u8], order: fn(u32) -> [u8; 4]) -> Vec<u8> {
        let padded = body.len().next_multiple_of(4);
        let length = order(padded as u32 + 12);
        let mut block = [&order(kind)[..], &length, body].concat();
        block.resize(8 + padded, 0);
        [&block[..], &length].concat()
    }

    fn next_generation(order: fn(u32) -> [u8; 4], half: fn(u16) -> [u8; 2]) -> Vec<u8> {
        let mut file = block(SECTION, &words(&[0x1a2b_3c4d, 0, u32::MAX, u32::MAX], order), order);
        // Ethernet, with times in nanoseconds.
        let head = [half(1), half(0), [0, 0], [0, 0], half(9), half(1), [9, 0], [0, 0], [0, 0], [0, 0]];
        file.extend(block(INTERFACE, &head.concat(), order));
        for (time, length, original) in [(5_000_000_000_u64, 1_u8, 1), (4, 2, 2), (6_000_002_000, 3, 99)] {
            let fields = [0, (time >> 32) as u32, time as u32, length.into(), original];
            let body = [words(&fields, order), vec![length; length.into()]].concat();
            file.extend(block(ENHANCED, &body, order));
        }
        file
    }

    #[test]
    fn pcapng_is_read_in_both_orders() {
        let little = next_generation(u32::to_le_bytes, u16::to_le_bytes);
        let big = next_generation(u32::to_be_bytes, u16::to_be_bytes);
        assert_eq!(parse(&little).unwrap(), expected(1000));
        assert_eq!(parse(&big).unwrap(), expected(1000));
        // A second section has interfaces and an order of its own.
        let both = parse(&[little, big].concat()).unwrap();
        assert_eq!((both.len(), &both[3].octets), (6, &vec![1]));
    }

    #[test]
    fn other_files_and_links_are_refused() {
        for wrong in [&b""[..], b"abc", b"neither of both"] {
            assert_eq!(parse(wrong), Err(CaptureError::Format));
        }
        let mut raw = classic(0xa1b2_c3d4, u32::to_le_bytes);
        raw[20] = 101;
        assert_eq!(parse(&raw), Err(CaptureError::Link(101)));
    }

    proptest::proptest! {
        #[test]
        fn damaged_files_are_no_reason_to_panic(at in 0_usize..200, octet: u8, cut in 0_usize..200) {
            let mut file = next_generation(u32::to_le_bytes, u16::to_le_bytes);
            let (at, cut) = (at % file.len(), cut % file.len());
            file[at] = octet;
            let _ = parse(&file[..cut]);
            let mut file = classic(0xa1b2_c3d4, u32::to_le_bytes);
            let (at, cut) = (at % file.len(), cut % file.len());
            file[at] = octet;
            let _ = parse(&file[..cut]);
        }
    }
}
