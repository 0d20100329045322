//! AS paths (RFC 4271, section 4.3 b; RFC 6793).

use super::Malformed;
use sluice_base::Asn;

/// The type of a segment without order, counted as one AS.
pub const AS_SET: u8 = 1;
/// The type of a segment in the order of the route, last first.
pub const AS_SEQUENCE: u8 = 2;
/// ASes of a segment at most.
const MOST: usize = 255;

/// Octets of an AS number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// A session without the capability of RFC 6793.
    Two,
    /// A session with the capability.
    Four,
}

/// A segment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    /// The segment's type.
    pub kind: u8,
    /// The ASes.
    pub asns: Vec<Asn>,
}

impl Segment {
    /// Returns the segment's part of the length of a path (RFC 4271, section 9.1.2.2 a).
    pub fn length(&self) -> usize {
        if self.kind == AS_SET { 1 } else { self.asns.len() }
    }
}

/// Reads the segments of a path.
///
/// # Errors
/// For a cut or empty segment, and for a type other than [`AS_SET`] and [`AS_SEQUENCE`].
pub fn segments(mut path: &[u8], width: Width) -> Result<Vec<Segment>, Malformed> {
    let mut all = Vec::new();
    while let [kind, count, rest @ ..] = path {
        let octets = if width == Width::Two { 2 } else { 4 };
        let split = rest.split_at_checked(usize::from(*count) * octets);
        let (numbers, rest) = split.ok_or(Malformed("AS_PATH"))?;
        if !(AS_SET..=AS_SEQUENCE).contains(kind) || numbers.is_empty() {
            return Err(Malformed("AS_PATH"));
        }
        let number = |octets: &[u8]| Asn(octets.iter().fold(0, |sum, octet| sum << 8 | u32::from(*octet)));
        all.push(Segment { kind: *kind, asns: numbers.chunks_exact(octets).map(number).collect() });
        path = rest;
    }
    if path.is_empty() { Ok(all) } else { Err(Malformed("AS_PATH")) }
}

/// Returns the length of a path.
pub fn length(path: &[Segment]) -> usize {
    path.iter().map(Segment::length).sum()
}

/// Appends a path in four octets.
pub fn put(path: &[Segment], out: &mut Vec<u8>) {
    for segment in path {
        out.extend_from_slice(&[segment.kind, segment.asns.len() as u8]);
        out.extend(segment.asns.iter().flat_map(|asn| asn.0.to_be_bytes()));
    }
}

/// Appends a path in four octets with an AS before it.
pub fn put_prepended(path: &[u8], asn: Asn, out: &mut Vec<u8>) {
    let (count, rest) = match path {
        [AS_SEQUENCE, count, rest @ ..] if usize::from(*count) < MOST => (count + 1, rest),
        _ => (1, path),
    };
    out.extend_from_slice(&[AS_SEQUENCE, count]);
    out.extend_from_slice(&asn.0.to_be_bytes());
    out.extend_from_slice(rest);
}

/// Returns the path that an AS_PATH in two octets and an AS4_PATH give together (RFC 6793, section 4.2.3): the AS4_PATH behind as much of
/// the other path as the AS4_PATH lacks in length. An AS4_PATH that is longer is ignored.
pub fn merged(path: Vec<Segment>, as4_path: Vec<Segment>) -> Vec<Segment> {
    let Some(mut lacking) = length(&path).checked_sub(length(&as4_path)) else { return path };
    let mut whole = Vec::new();
    for mut segment in path {
        if lacking == 0 {
            break;
        }
        if segment.kind == AS_SEQUENCE {
            segment.asns.truncate(lacking);
        }
        lacking -= segment.length();
        whole.push(segment);
    }
    whole.extend(as4_path);
    whole
}

#[test]
fn paths() {
    let sequence =
        |asns: &[u32]| Segment { kind: AS_SEQUENCE, asns: asns.iter().copied().map(Asn).collect() };
    let set = |asns: &[u32]| Segment { kind: AS_SET, ..sequence(asns) };
    let path = vec![sequence(&[70_000, 2]), set(&[3, 4])];
    let mut octets = Vec::new();
    put(&path, &mut octets);
    assert_eq!((segments(&octets, Width::Four), length(&path)), (Ok(path), 3));
    assert_eq!(segments(&[2, 2, 0, 1, 0, 2], Width::Two), Ok(vec![sequence(&[1, 2])]));
    for wrong in [&[2][..], &[2, 0], &[2, 2, 0, 0, 0, 1], &[3, 1, 0, 0, 0, 1]] {
        assert!(segments(wrong, Width::Four).is_err(), "{wrong:?}");
    }
    let mut prepended = Vec::new();
    put_prepended(&octets, Asn(9), &mut prepended);
    assert_eq!(segments(&prepended, Width::Four), Ok(vec![sequence(&[9, 70_000, 2]), set(&[3, 4])]));
    let (two, four) = (vec![set(&[5, 6]), sequence(&[10, 23456, 12])], vec![sequence(&[70_000, 12])]);
    assert_eq!(merged(two.clone(), four.clone()), [set(&[5, 6]), sequence(&[10]), sequence(&[70_000, 12])]);
    assert_eq!(merged(four.clone(), two), four);
}
