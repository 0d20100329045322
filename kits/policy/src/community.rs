//! Communities: standard (RFC 1997), extended (RFC 4360) and large (RFC 8092), and sets with wildcards.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// The kinds of communities.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Standard: 4 octets (RFC 1997).
    Standard,
    /// Extended: 8 octets (RFC 4360).
    Extended,
    /// Large: 12 octets (RFC 8092).
    Large,
}

impl Kind {
    /// The kinds.
    pub const ALL: [Kind; 3] = [Kind::Standard, Kind::Extended, Kind::Large];

    /// Returns the octets of a community.
    pub const fn octets(self) -> usize {
        match self {
            Kind::Standard => 4,
            Kind::Extended => 8,
            Kind::Large => 12,
        }
    }
}

/// A community as a number: its octets, the first one highest.
pub type Community = u128;

/// Returns the communities in the value of an attribute. Octets of an incomplete community are left out.
pub fn communities(kind: Kind, value: &[u8]) -> impl Iterator<Item = Community> + '_ {
    value
        .chunks_exact(kind.octets())
        .map(|octets| octets.iter().fold(0, |n, octet| n << 8 | Community::from(*octet)))
}

/// Appends the octets of a community.
pub fn put(kind: Kind, community: Community, out: &mut Vec<u8>) {
    out.extend_from_slice(&community.to_be_bytes()[16 - kind.octets()..]);
}

/// Names of well-known standard communities (IANA "BGP Well-known Communities").
const WELL_KNOWN: [(&str, u32); 8] = [
    ("graceful-shutdown", 0xffff_0000),
    ("accept-own", 0xffff_0001),
    ("llgr-stale", 0xffff_0006),
    ("no-llgr", 0xffff_0007),
    ("blackhole", 0xffff_029a),
    ("no-export", 0xffff_ff01),
    ("no-advertise", 0xffff_ff02),
    ("no-export-subconfed", 0xffff_ff03),
];
/// Names of subtypes of transitive extended communities (RFC 4360, sections 4 and 5).
const SUBTYPES: [(&str, u8); 2] = [("rt", 0x02), ("soo", 0x03)];

/// Names of the validation states in extended communities (RFC 8097, section 2).
const STATES: [(&str, u16); 3] = [("origin-valid", 0), ("origin-not-found", 1), ("origin-invalid", 2)];
/// Type and subtype of the communities with validation states: opaque, and not for other ASes.
const STATE_TYPE: (u8, u8) = (0x43, 0x00);

/// A member of a community list: communities of one kind, with a range for each of their fields.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pattern {
    /// The kind.
    pub kind: Kind,
    /// The fields, the highest first: width in bits, lowest and highest value.
    fields: [(u8, u32, u32); 4],
}

/// The word for the neighbor's AS in a field of a [`Member`].
pub const PEER_AS: &str = "peer-as";

/// A member of a configured set.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Member {
    /// A member with the same communities for all neighbors.
    Pattern(Pattern),
    /// A member with the neighbor's AS in a field.
    OfPeer(PeerPattern),
}

impl Member {
    /// Returns true if the member describes one community, without wildcards and ranges.
    pub fn is_exact(&self) -> bool {
        match self {
            Member::Pattern(pattern) => pattern.exact().is_some(),
            Member::OfPeer(pattern) => pattern.is_exact(),
        }
    }
}

impl FromStr for Member {
    type Err = PatternError;

    /// Reads a [`Pattern`], or one with `peer-as` in the place of a field: `65000:peer-as`.
    fn from_str(text: &str) -> Result<Self, PatternError> {
        if !text.split(':').any(|field| field == PEER_AS) {
            return text.parse().map(Member::Pattern);
        }
        let pattern = PeerPattern(text.into());
        pattern.of(SMALLEST_AS).map(|_| Member::OfPeer(pattern)).ok_or_else(|| no_community(text))
    }
}

impl fmt::Display for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Member::Pattern(pattern) => pattern.fmt(f),
            Member::OfPeer(pattern) => pattern.fmt(f),
        }
    }
}

/// The AS that fits every field.
const SMALLEST_AS: u32 = 1;

/// A pattern with the neighbor's AS in a field, as configured.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PeerPattern(String);

impl PeerPattern {
    /// Returns the pattern for a neighbor in an AS; `None` if the AS does not fit the field.
    pub fn of(&self, asn: u32) -> Option<Pattern> {
        let asn = format!("{asn}");
        let fields = self.0.split(':').map(|field| if field == PEER_AS { &*asn } else { field });
        fields.collect::<Vec<&str>>().join(":").parse().ok()
    }

    /// Returns true if the pattern describes one community, whose AS is the neighbor's.
    pub fn is_exact(&self) -> bool {
        self.of(SMALLEST_AS).is_some_and(|pattern| pattern.exact().is_some())
    }
}

impl fmt::Display for PeerPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The reason why a text is no [`Pattern`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PatternError(String);

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for PatternError {}

/// An absent field.
const NONE: (u8, u32, u32) = (0, 0, 0);

impl Pattern {
    /// Returns true if a community of the pattern's kind has fields in the ranges.
    pub fn contains(&self, community: Community) -> bool {
        let mut rest = community;
        // From the lowest field on.
        self.fields.iter().rev().all(|(width, first, last)| {
            let mask = (1_u128 << width) - 1;
            let value = rest & mask;
            rest >>= width;
            (u128::from(*first)..=u128::from(*last)).contains(&value)
        })
    }

    /// Returns the only community of a pattern without wildcards and ranges.
    pub fn exact(&self) -> Option<Community> {
        let is_exact = self.fields.iter().all(|(_, first, last)| first == last);
        is_exact
            .then(|| self.fields.iter().fold(0, |n, (width, first, _)| n << width | Community::from(*first)))
    }
}

impl FromStr for Pattern {
    type Err = PatternError;

    /// Reads `65000:100`, `65000:1:2`, `rt:65000:100`, `soo:192.0.2.1:5` or a well-known name. A field is a number, a range
    /// `100-199`, or `*`.
    fn from_str(text: &str) -> Result<Self, PatternError> {
        if let Some((_, number)) = WELL_KNOWN.iter().find(|(name, _)| *name == text) {
            return Ok(Pattern { kind: Kind::Standard, fields: [NONE, NONE, NONE, (32, *number, *number)] });
        }
        if let Some((_, state)) = STATES.iter().find(|(name, _)| *name == text) {
            let octet = |value: u8| (8, value.into(), value.into());
            let state = (16, u32::from(*state), u32::from(*state));
            let fields = [octet(STATE_TYPE.0), octet(STATE_TYPE.1), (32, 0, 0), state];
            return Ok(Pattern { kind: Kind::Extended, fields });
        }
        let wrong = || no_community(text);
        let parts: Vec<&str> = text.split(':').collect();
        let field = |text: &str, width: u8| field(text, width).ok_or_else(wrong);
        match parts[..] {
            [a, b] => {
                Ok(Pattern { kind: Kind::Standard, fields: [NONE, NONE, field(a, 16)?, field(b, 16)?] })
            }
            [name, global, local] if SUBTYPES.iter().any(|(known, _)| *known == name) => {
                let subtype = SUBTYPES.iter().find(|(known, _)| *known == name).map_or(0, |(_, code)| *code);
                extended(subtype, global, local).ok_or_else(wrong)
            }
            [a, b, c] => {
                Ok(Pattern { kind: Kind::Large, fields: [NONE, field(a, 32)?, field(b, 32)?, field(c, 32)?] })
            }
            _ => Err(wrong()),
        }
    }
}

fn no_community(text: &str) -> PatternError {
    PatternError(format!(
        "`{text}` is no community: write 65000:100, 65000:1:2, rt:65000:100 or a well-known name such as no-export; \
         a field may be `*` or a range, and in policies `peer-as`"
    ))
}

/// Makes the pattern of a transitive extended community: of an AS of 2 octets, of an address, or of an AS of 4 octets
/// (RFC 4360, sections 3.1 and 3.2; RFC 5668).
fn extended(subtype: u8, global: &str, local: &str) -> Option<Pattern> {
    let octet = |value: u8| (8, u32::from(value), u32::from(value));
    let (code, global, local) = if let Ok(address) = global.parse::<core::net::Ipv4Addr>() {
        (0x01, (32, address.to_bits(), address.to_bits()), field(local, 16)?)
    } else if let Some(global) = field(global, 16) {
        (0x00, global, field(local, 32)?)
    } else {
        (0x02, field(global, 32)?, field(local, 16)?)
    };
    Some(Pattern { kind: Kind::Extended, fields: [octet(code), octet(subtype), global, local] })
}

/// Reads a number of at most `width` bits, a range of such numbers, or `*`.
fn field(text: &str, width: u8) -> Option<(u8, u32, u32)> {
    let most = u32::MAX >> (32 - width);
    if text == "*" {
        return Some((width, 0, most));
    }
    let number = |text: &str| {
        let is_plain = !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        text.parse::<u32>().ok().filter(|number| is_plain && *number <= most)
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (number(first)?, number(last)?);
    (first <= last).then_some((width, first, last))
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Kind::Standard, Some(number)) = (self.kind, self.exact())
            && let Some((name, _)) = WELL_KNOWN.iter().find(|(_, known)| Community::from(*known) == number)
        {
            return f.write_str(name);
        }
        if let (Kind::Extended, Some(community)) = (self.kind, self.exact())
            && let Some(name) = state_name(community)
        {
            return f.write_str(name);
        }
        let mut fields = &self.fields[..];
        if self.kind == Kind::Extended {
            let code = self.fields[1].1;
            let name = SUBTYPES.iter().find(|(_, known)| u32::from(*known) == code);
            write!(f, "{}:", name.map_or("", |(name, _)| name))?;
            fields = &self.fields[2..];
        }
        let is_address = self.kind == Kind::Extended && self.fields[0].1 == 0x01;
        for (index, (width, first, last)) in fields.iter().filter(|field| field.0 > 0).enumerate() {
            if index > 0 {
                f.write_str(":")?;
            }
            match (first, last) {
                (first, _) if is_address && index == 0 => core::net::Ipv4Addr::from_bits(*first).fmt(f)?,
                (first, last) if first == last => first.fmt(f)?,
                (0, last) if *last == u32::MAX >> (32 - width) => f.write_str("*")?,
                (first, last) => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

/// Returns the name of a community with a validation state.
fn state_name(community: Community) -> Option<&'static str> {
    let (kind, subtype) = STATE_TYPE;
    let first = Community::from(kind) << 56 | Community::from(subtype) << 48;
    let named = STATES.iter().find(|(_, state)| first | Community::from(*state) == community);
    named.map(|(name, _)| *name)
}

/// Returns the text of a community: the text of its [`Pattern`], or hexadecimal digits for an extended community of another type.
pub fn text_of(kind: Kind, community: Community) -> String {
    let part = |width: u8, shift: u8| {
        let value = (community >> shift) as u32 & (u32::MAX >> (32 - width));
        (width, value, value)
    };
    let (code, subtype) = (part(8, 56), part(8, 48));
    if let (Kind::Extended, Some(name)) = (kind, state_name(community)) {
        return name.into();
    }
    let fields = match kind {
        Kind::Standard => [NONE, NONE, part(16, 16), part(16, 0)],
        Kind::Large => [NONE, part(32, 64), part(32, 32), part(32, 0)],
        Kind::Extended if !SUBTYPES.iter().any(|(_, known)| u32::from(*known) == subtype.1) || code.1 > 2 => {
            return format!("0x{community:016x}");
        }
        Kind::Extended if code.1 == 0 => [code, subtype, part(16, 32), part(32, 0)],
        Kind::Extended => [code, subtype, part(32, 16), part(16, 0)],
    };
    format!("{}", Pattern { kind, fields })
}

/// A set of communities of one kind.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CommunitySet {
    /// Communities without wildcards, in order.
    exact: Vec<Community>,
    /// Members with wildcards or ranges.
    patterns: Vec<Pattern>,
}

impl CommunitySet {
    /// Makes a set of members of one kind.
    pub fn new<'p>(members: impl IntoIterator<Item = &'p Pattern>) -> Self {
        let mut set = CommunitySet::default();
        set.extend(members);
        set
    }

    /// Adds members of the set's kind.
    pub fn extend<'p>(&mut self, members: impl IntoIterator<Item = &'p Pattern>) {
        for member in members {
            match member.exact() {
                Some(community) => self.exact.push(community),
                None => self.patterns.push(member.clone()),
            }
        }
        self.exact.sort_unstable();
        self.exact.dedup();
    }

    /// Returns true for the set without members.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.patterns.is_empty()
    }

    /// Returns true if the set has a community.
    #[inline]
    pub fn contains(&self, community: Community) -> bool {
        self.exact.binary_search(&community).is_ok() || self.patterns.iter().any(|p| p.contains(community))
    }

    /// Returns the members without wildcards.
    pub fn exact(&self) -> &[Community] {
        &self.exact
    }

    /// Returns true if all members are without wildcards and ranges.
    pub fn is_exact(&self) -> bool {
        self.patterns.is_empty()
    }

    /// Returns true if each member of the set describes some of the communities.
    pub(crate) fn is_covered_by(&self, communities: impl Iterator<Item = Community> + Clone) -> bool {
        let has = |member: &Community| communities.clone().any(|community| community == *member);
        let fits = |member: &Pattern| communities.clone().any(|community| member.contains(community));
        self.exact.iter().all(has) && self.patterns.iter().all(fits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    fn number(octets: &[u8]) -> Community {
        octets.iter().fold(0, |n, octet| n << 8 | Community::from(*octet))
    }

    #[test]
    fn members_are_read_and_written() {
        for same in [
            "65000:100",
            "65000:*",
            "*:100-199",
            "no-export",
            "blackhole",
            "65000:1:2",
            "4200000000:*:7-9",
            "rt:65000:4000000000",
            "rt:192.0.2.1:5",
            "soo:4200000000:5",
            "rt:65000:*",
        ] {
            assert_eq!(same.parse::<Pattern>().map(|pattern| pattern.to_string()).as_deref(), Ok(same));
        }
        for wrong in [
            "",
            "65000",
            "65536:1",
            "1:65536",
            "1:",
            ":",
            "1:+2",
            "a:b",
            "1:2:3:4",
            "5-4:1",
            "rt:1",
            "rt:*",
            "rt:4200000000:65536",
            "x:1:2",
            "no-such",
        ] {
            let error = wrong.parse::<Pattern>().expect_err(wrong).to_string();
            assert!(error.contains("65000:100"), "{error}");
        }
    }

    #[test]
    fn numbers_are_the_octets() {
        let check = |text: &str, octets: &[u8]| {
            let pattern: Pattern = text.parse().expect(text);
            assert_eq!(pattern.exact(), Some(number(octets)), "{text}");
            assert!(pattern.contains(number(octets)));
            let mut out = Vec::new();
            put(pattern.kind, number(octets), &mut out);
            assert_eq!(out, octets);
            assert_eq!(communities(pattern.kind, &out).collect::<Vec<_>>(), [number(octets)]);
            let again: Pattern = text_of(pattern.kind, number(octets)).parse().expect("its text");
            assert_eq!((again.kind, again.exact()), (pattern.kind, pattern.exact()));
        };
        check("1:2", &[0, 1, 0, 2]);
        check("no-export", &[0xff, 0xff, 0xff, 1]);
        check("65535:65281", &[0xff, 0xff, 0xff, 1]);
        check("1:2:3", &[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]);
        check("rt:1:2", &[0, 2, 0, 1, 0, 0, 0, 2]);
        check("soo:192.0.2.1:2", &[1, 3, 192, 0, 2, 1, 0, 2]);
        check("rt:65536:2", &[2, 2, 0, 1, 0, 0, 0, 2]);
        check("origin-invalid", &[0x43, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(text_of(Kind::Extended, 0x0306_0000_0000_0001), "0x0306000000000001");
    }

    #[test]
    fn wildcards_and_ranges() {
        let pattern: Pattern = "65000:100-199".parse().expect("valid");
        let of = |a: u32, b: u32| Community::from(a << 16 | b);
        assert!(pattern.contains(of(65000, 100)) && pattern.contains(of(65000, 199)));
        assert!(!pattern.contains(of(65000, 99)) && !pattern.contains(of(65001, 150)));
        assert_eq!(pattern.exact(), None);
        let members: Vec<Pattern> = ["1:2", "1:2", "3:*"].iter().map(|m| m.parse().expect("valid")).collect();
        let set = CommunitySet::new(&members);
        assert_eq!(set.exact(), [of(1, 2)]);
        assert!(set.contains(of(1, 2)) && set.contains(of(3, 9)) && !set.contains(of(1, 3)));
        assert!(set.is_covered_by([of(3, 3), of(1, 2), of(9, 9)].into_iter()));
        assert!(!set.is_covered_by([of(3, 3)].into_iter()) && !set.is_covered_by([of(1, 2)].into_iter()));
    }
}
