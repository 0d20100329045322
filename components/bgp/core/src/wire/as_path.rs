//! AS paths: segments of AS numbers in 2 or 4 octets (RFC 4271, section 4.3 b; RFC 6793).
//!
//! Inside Sluice a path is the octets of an AS_PATH attribute with 4-octet numbers. A path is read in place and
//! edited by copying, because a modern route server copies a path far more often than it evaluates the path.

use super::{Expected, WireError};
use alloc::vec::Vec;
use sluice_base::Asn;
use sluice_policy::edit;
use sluice_wire::Cursor;

/// Segment type: an unordered set of ASes, counted as one.
pub const AS_SET: u8 = 1;
/// Segment type: ASes in the order in which the route passed them, last first.
pub const AS_SEQUENCE: u8 = 2;
/// Segment type: the last of a confederation's two (RFC 5065, section 3), which follow [`AS_SEQUENCE`].
const AS_CONFED_SET: u8 = 4;

/// Octets of an AS number in a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    /// The peer does not speak RFC 6793.
    Two,
    /// Both sides have the capability.
    Four,
}

impl Width {
    /// The number of octets.
    pub const fn octets(self) -> usize {
        match self {
            Width::Two => 2,
            Width::Four => 4,
        }
    }
}

/// A segment, in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment<'a> {
    /// [`AS_SET`] or [`AS_SEQUENCE`].
    pub kind: u8,
    /// The octets of the AS numbers.
    pub octets: &'a [u8],
    width: Width,
}

impl<'a> Segment<'a> {
    /// The AS numbers.
    pub fn asns(&self) -> impl Iterator<Item = Asn> + use<'a> {
        let width = self.width;
        self.octets.chunks_exact(width.octets()).map(move |n| match (width, n) {
            (Width::Two, [a, b]) => Asn(u16::from_be_bytes([*a, *b]).into()),
            (_, [a, b, c, d]) => Asn(u32::from_be_bytes([*a, *b, *c, *d])),
            _ => Asn(0),
        })
    }

    /// Returns the segment's part of the path length (RFC 4271, section 9.1.2.2 a).
    pub fn path_length(&self) -> usize {
        if self.kind == AS_SET { 1 } else { self.octets.len() / self.width.octets() }
    }
}

/// The segments of a path; ends at the first malformed segment (RFC 7606, section 7.2).
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    cursor: Cursor<'a>,
    width: Width,
    /// The highest well-formed segment type.
    last_kind: u8,
}

impl<'a> Segments<'a> {
    /// The segments of `path`, which begins at `offset` of the message body.
    pub const fn new(path: &'a [u8], width: Width, offset: usize) -> Self {
        Segments { cursor: Cursor::at(path, offset), width, last_kind: AS_SEQUENCE }
    }

    /// The segments of an AS4_PATH, in which segments of confederations are well-formed but must be left out (RFC 6793, section 6).
    const fn as4(path: &'a [u8], offset: usize) -> Self {
        Segments { cursor: Cursor::at(path, offset), width: Width::Four, last_kind: AS_CONFED_SET }
    }

    /// The segments of a canonical path.
    pub const fn canonical(path: &'a [u8]) -> Self {
        Segments::new(path, Width::Four, 0)
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = Result<Segment<'a>, WireError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.cursor.is_empty() {
            return None;
        }
        let malformed = WireError { offset: self.cursor.offset(), expected: Expected::PathSegment };
        let width = self.width;
        let segment = self.cursor.array().and_then(|[kind, count]| {
            let octets = self.cursor.take(usize::from(count) * width.octets())?;
            Ok(Segment { kind, octets, width })
        });
        match segment {
            Ok(s) if (AS_SET..=self.last_kind).contains(&s.kind) && !s.octets.is_empty() => Some(Ok(s)),
            _ => {
                self.cursor = Cursor::new(&[]);
                Some(Err(malformed))
            }
        }
    }
}

/// The properties of a path for the decision and the filters.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// The length (RFC 4271, section 9.1.2.2 a).
    pub length: usize,
    /// The AS from which the path was learned; `None` for an empty path or an initial set (section 9.1.2.2 c).
    pub neighbor: Option<Asn>,
    /// The number of occurrences of the requested AS.
    pub loops: usize,
    /// True if the path contains AS 0 (RFC 7607).
    pub has_zero: bool,
    /// An AS4_PATH has segments of confederations, which take no part in anything.
    pub has_confederation: bool,
}

impl Summary {
    /// Reads `path`, looking for `local`.
    pub fn of(path: &[u8], width: Width, offset: usize, local: Asn) -> Result<Self, WireError> {
        Summary::of_segments(Segments::new(path, width, offset), local)
    }

    /// Reads an AS4_PATH, looking for `local`, without segments of confederations.
    pub(crate) fn of_as4(path: &[u8], offset: usize, local: Asn) -> Result<Self, WireError> {
        let is_kept = |s: &Result<Segment<'_>, _>| s.as_ref().map_or(true, |s| s.kind <= AS_SEQUENCE);
        let summary = Summary::of_segments(Segments::as4(path, offset).filter(is_kept), local)?;
        let has_confederation = Segments::as4(path, offset).any(|segment| !is_kept(&segment));
        Ok(Summary { has_confederation, ..summary })
    }

    #[inline(always)]
    fn of_segments<'a>(
        segments: impl Iterator<Item = Result<Segment<'a>, WireError>>,
        local: Asn,
    ) -> Result<Self, WireError> {
        let mut summary = Summary::default();
        for (index, segment) in segments.enumerate() {
            let segment = segment?;
            summary.length += segment.path_length();
            for (position, asn) in segment.asns().enumerate() {
                if index == 0 && position == 0 && segment.kind == AS_SEQUENCE {
                    summary.neighbor = Some(asn);
                }
                summary.loops += usize::from(asn == local);
                summary.has_zero |= asn.0 == 0;
            }
        }
        Ok(summary)
    }
}

/// Appends `path` with 4-octet numbers. The path must be well-formed; malformed segments are left out.
pub(crate) fn put_widened(path: &[u8], width: Width, out: &mut Vec<u8>) {
    match width {
        Width::Four => out.extend_from_slice(path),
        Width::Two => {
            for segment in Segments::new(path, width, 0).flatten() {
                out.extend_from_slice(&[segment.kind, (segment.octets.len() / 2) as u8]);
                for asn in segment.asns() {
                    out.extend_from_slice(&asn.0.to_be_bytes());
                }
            }
        }
    }
}

/// Appends a canonical path with 2-octet numbers and AS_TRANS for larger numbers; returns true if a number was too large
/// (RFC 6793, section 4.2.2).
pub(crate) fn put_narrowed(path: &[u8], out: &mut Vec<u8>) -> bool {
    let mut lost = false;
    for segment in Segments::canonical(path).flatten() {
        out.extend_from_slice(&[segment.kind, (segment.octets.len() / 4) as u8]);
        for asn in segment.asns() {
            lost |= asn.0 > u16::MAX.into();
            out.extend_from_slice(&asn.to_u16().to_be_bytes());
        }
    }
    lost
}

/// Appends a canonical path with `asn` prepended (RFC 4271, section 5.1.2 b).
pub fn put_prepended(path: &[u8], asn: Asn, out: &mut Vec<u8>) {
    match path {
        [AS_SEQUENCE, count, rest @ ..] if *count < u8::MAX => {
            out.extend_from_slice(&[AS_SEQUENCE, count + 1]);
            out.extend_from_slice(&asn.0.to_be_bytes());
            out.extend_from_slice(rest);
        }
        _ => {
            out.extend_from_slice(&[AS_SEQUENCE, 1]);
            out.extend_from_slice(&asn.0.to_be_bytes());
            out.extend_from_slice(path);
        }
    }
}

/// Appends a canonical path with `new` in the place of each `old`.
pub(crate) fn put_replaced(path: &[u8], old: Asn, new: Asn, out: &mut Vec<u8>) {
    out.extend(edit::mapped(path, |asn| Some(if asn == old.0 { new.0 } else { asn })));
}

/// Octets by which [`put_prepended`] makes `path` longer.
pub(crate) fn prepended_growth(path: &[u8]) -> usize {
    if matches!(path, [AS_SEQUENCE, count, ..] if *count < u8::MAX) { 4 } else { 6 }
}

/// Appends the combination of an AS_PATH with 2-octet numbers and an AS4_PATH (RFC 6793, section 4.2.3): as much
/// of the front of the first as makes the second as long as the first. Both must be well-formed. Segments of confederations in the
/// AS4_PATH are left out.
pub(crate) fn put_merged(path: &[u8], as4_path: &[u8], out: &mut Vec<u8>) {
    let as4 = || Segments::as4(as4_path, 0).flatten().filter(|s| s.kind <= AS_SEQUENCE);
    let long: usize = Segments::new(path, Width::Two, 0).flatten().map(|s| s.path_length()).sum();
    let short: usize = as4().map(|s| s.path_length()).sum();
    let Some(mut missing) = long.checked_sub(short) else {
        put_widened(path, Width::Two, out);
        return;
    };
    for segment in Segments::new(path, Width::Two, 0).flatten() {
        if missing == 0 {
            break;
        }
        // A set counts as one AS, so that it is taken whole or not at all.
        let taken = if segment.kind == AS_SET {
            segment.octets.len() / 2
        } else {
            segment.path_length().min(missing)
        };
        missing -= if segment.kind == AS_SET { 1 } else { taken };
        out.extend_from_slice(&[segment.kind, taken as u8]);
        for asn in segment.asns().take(taken) {
            out.extend_from_slice(&asn.0.to_be_bytes());
        }
    }
    for segment in as4() {
        out.extend_from_slice(&[segment.kind, (segment.octets.len() / 4) as u8]);
        out.extend_from_slice(segment.octets);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn path(width: Width, segments: &[(u8, &[u32])]) -> Vec<u8> {
        let mut out = vec![];
        for (kind, asns) in segments {
            out.extend_from_slice(&[*kind, asns.len() as u8]);
            for n in *asns {
                match width {
                    Width::Two => out.extend_from_slice(&(*n as u16).to_be_bytes()),
                    Width::Four => out.extend_from_slice(&n.to_be_bytes()),
                }
            }
        }
        out
    }

    #[test]
    fn summaries() {
        let of = |segments: &[(u8, &[u32])]| {
            Summary::of(&path(Width::Four, segments), Width::Four, 0, Asn(7)).unwrap()
        };
        assert_eq!(of(&[]), Summary::default());
        let plain = of(&[(AS_SEQUENCE, &[1, 2, 3]), (AS_SET, &[4, 5])]);
        assert_eq!((plain.length, plain.neighbor, plain.loops, plain.has_zero), (4, Some(Asn(1)), 0, false));
        let odd = of(&[(AS_SET, &[7, 0])]);
        assert_eq!((odd.length, odd.neighbor, odd.loops, odd.has_zero), (1, None, 1, true));
    }

    #[test]
    fn an_as4_path_is_read_without_its_confederations() {
        let of = |segments: &[(u8, &[u32])]| Summary::of_as4(&path(Width::Four, segments), 0, Asn(7));
        let read = of(&[(3, &[7, 0]), (AS_SEQUENCE, &[1, 2]), (4, &[7])]).unwrap();
        assert_eq!((read.length, read.neighbor, read.loops, read.has_zero), (2, Some(Asn(1)), 0, false));
        assert!(read.has_confederation && !of(&[(AS_SEQUENCE, &[1])]).unwrap().has_confederation);
        assert!(of(&[(AS_SEQUENCE, &[1]), (4, &[])]).is_err() && of(&[(5, &[1])]).is_err());
    }

    #[test]
    fn malformed_paths() {
        for bad in [&[2][..], &[2, 0], &[2, 2, 0, 0, 0, 1], &[3, 1, 0, 0, 0, 1], &[5, 1, 0, 0, 0, 1]] {
            let expected = WireError { offset: 9, expected: Expected::PathSegment };
            assert_eq!(Summary::of(bad, Width::Four, 9, Asn(1)), Err(expected), "{bad:?}");
        }
    }

    #[test]
    fn prepending() {
        let check = |from: &[(u8, &[u32])], to: &[(u8, &[u32])]| {
            let (from, to) = (path(Width::Four, from), path(Width::Four, to));
            let mut out = vec![];
            put_prepended(&from, Asn(9), &mut out);
            assert_eq!(out, to);
            assert_eq!(out.len() - from.len(), prepended_growth(&from));
        };
        check(&[], &[(AS_SEQUENCE, &[9])]);
        check(&[(AS_SEQUENCE, &[1])], &[(AS_SEQUENCE, &[9, 1])]);
        check(&[(AS_SET, &[1])], &[(AS_SEQUENCE, &[9]), (AS_SET, &[1])]);
        let full = [1; 255];
        check(&[(AS_SEQUENCE, &full)], &[(AS_SEQUENCE, &[9]), (AS_SEQUENCE, &full)]);
    }

    #[test]
    fn two_octet_neighbors() {
        let four = path(Width::Four, &[(AS_SEQUENCE, &[70_000, 2]), (AS_SET, &[3])]);
        let mut two = vec![];
        assert!(put_narrowed(&four, &mut two));
        assert_eq!(two, path(Width::Two, &[(AS_SEQUENCE, &[23456, 2]), (AS_SET, &[3])]));
        let mut back = vec![];
        put_widened(&two, Width::Two, &mut back);
        assert_eq!(back, path(Width::Four, &[(AS_SEQUENCE, &[23456, 2]), (AS_SET, &[3])]));
    }

    #[test]
    fn merging() {
        let check = |two: &[(u8, &[u32])], four: &[(u8, &[u32])], to: &[(u8, &[u32])]| {
            let mut out = vec![];
            put_merged(&path(Width::Two, two), &path(Width::Four, four), &mut out);
            assert_eq!(out, path(Width::Four, to));
        };
        // Two old speakers prepended themselves since the last new one.
        check(
            &[(AS_SEQUENCE, &[10, 11, 23456, 12])],
            &[(AS_SEQUENCE, &[70_000, 12])],
            &[(AS_SEQUENCE, &[10, 11]), (AS_SEQUENCE, &[70_000, 12])],
        );
        check(&[(AS_SEQUENCE, &[23456])], &[(AS_SEQUENCE, &[70_000])], &[(AS_SEQUENCE, &[70_000])]);
        // Segments of confederations do not count (RFC 6793, section 6).
        check(
            &[(AS_SEQUENCE, &[10, 23456])],
            &[(3, &[64_512, 64_513]), (AS_SEQUENCE, &[70_000]), (4, &[64_514])],
            &[(AS_SEQUENCE, &[10]), (AS_SEQUENCE, &[70_000])],
        );
        check(&[(AS_SEQUENCE, &[10, 11])], &[(3, &[64_512])], &[(AS_SEQUENCE, &[10, 11])]);
        // More numbers in AS4_PATH than in AS_PATH: the former is ignored.
        check(&[(AS_SEQUENCE, &[10])], &[(AS_SEQUENCE, &[70_000, 12])], &[(AS_SEQUENCE, &[10])]);
        check(
            &[(AS_SET, &[5, 6]), (AS_SEQUENCE, &[23456])],
            &[(AS_SEQUENCE, &[70_000])],
            &[(AS_SET, &[5, 6]), (AS_SEQUENCE, &[70_000])],
        );
    }
}
