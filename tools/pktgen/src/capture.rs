//! Captures (pcap and pcapng): the frames with their times.

use crate::PktgenError;
use sluice_capture::Record;
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
    let found = sluice_capture::parse(octets).ok_or(CaptureError::Format)?.records;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of pcapng.
    const SECTION: u32 = 0x0a0d_0d0a;
    const INTERFACE: u32 = 1;
    const ENHANCED: u32 = 6;

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
