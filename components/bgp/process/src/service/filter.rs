//! Filters for requests of operators: by AS path and community.

use crate::idl::bgp::v1 as pb;
use crate::values::as_path;
use regex::Regex;
use sluice_bgp::attributes::canonical;
use sluice_bgp::wire::attribute::code;
use sluice_xrl::XrlError;
use thiserror::Error;

/// Communities with a name (IANA, "BGP Well-known Communities").
const NAMED: [(&str, u32); 6] = [
    ("graceful-shutdown", 0xffff_0000),
    ("blackhole", 0xffff_029a),
    ("no-export", 0xffff_ff01),
    ("no-advertise", 0xffff_ff02),
    ("no-export-subconfed", 0xffff_ff03),
    ("no-peer", 0xffff_ff04),
];

/// A community to look for, as encoded in the attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Community {
    code: u8,
    octets: Vec<u8>,
}

impl Community {
    /// Reads `AS:VALUE`, `AS:VALUE:VALUE` (large), a name of [`NAMED`], or 16 hexadecimal digits (extended).
    fn parse(text: &str) -> Option<Self> {
        if let Some((_, number)) = NAMED.iter().find(|(name, _)| *name == text) {
            return Some(Community { code: code::COMMUNITIES, octets: number.to_be_bytes().into() });
        }
        let parts: Vec<&str> = text.split(':').collect();
        let (code, octets) = match parts[..] {
            [high, low] => {
                let halves = [high.parse::<u16>().ok()?, low.parse::<u16>().ok()?];
                (code::COMMUNITIES, halves.iter().flat_map(|half| half.to_be_bytes()).collect())
            }
            [_, _, _] => {
                let words: Option<Vec<u32>> = parts.iter().map(|part| part.parse().ok()).collect();
                (code::LARGE_COMMUNITY, words?.iter().flat_map(|word| word.to_be_bytes()).collect())
            }
            [hex] if hex.len() == 16 && hex.is_ascii() => {
                (code::EXTENDED_COMMUNITIES, u64::from_str_radix(hex, 16).ok()?.to_be_bytes().into())
            }
            _ => return None,
        };
        Some(Community { code, octets })
    }

    fn is_in(&self, attributes: &[u8]) -> bool {
        let all = canonical::find(attributes, self.code).unwrap_or_default();
        all.chunks_exact(self.octets.len()).any(|one| one == self.octets)
    }
}

/// The filter of shown paths.
#[derive(Debug, Default)]
pub(super) struct Filter {
    communities: Vec<Community>,
    as_path: Option<Regex>,
    origin_as: Option<u32>,
}

impl Filter {
    pub(super) fn read(request: &pb::GetRoutesRequest) -> Result<Self, XrlError> {
        let wrong = |text: String| XrlError::BadArguments(text);
        let community = |text: &String| {
            Community::parse(text).ok_or_else(|| {
                wrong(format!(
                    "community `{text}`: expected AS:VALUE, AS:VALUE:VALUE, 16 hexadecimal digits, or one of {}",
                    NAMED.map(|(name, _)| name).join(", ")
                ))
            })
        };
        let as_path = match request.as_path.as_str() {
            "" => None,
            text => Some(path_expression(text).map_err(|e| wrong(format!("as-path `{text}`: {e}")))?),
        };
        Ok(Filter {
            communities: request.communities.iter().map(community).collect::<Result<_, _>>()?,
            as_path,
            origin_as: request.origin_as,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.communities.is_empty() && self.as_path.is_none() && self.origin_as.is_none()
    }

    /// Returns true if a path with these canonical attributes is wanted.
    pub(super) fn accepts(&self, attributes: &[u8]) -> bool {
        if !self.communities.iter().all(|community| community.is_in(attributes)) {
            return false;
        }
        if self.as_path.is_none() && self.origin_as.is_none() {
            return true;
        }
        let text = as_path(canonical::find(attributes, code::AS_PATH).unwrap_or_default());
        let is_origin = |asn: u32| {
            let last = text.rsplit(' ').next().unwrap_or_default().trim_matches(['{', '}']);
            last.split(',').any(|number| number.parse() == Ok(asn))
        };
        self.as_path.as_ref().is_none_or(|expression| expression.is_match(&text))
            && self.origin_as.is_none_or(is_origin)
    }
}

/// The reason why an expression about AS paths is refused.
#[derive(Debug, Error)]
enum PathExpressionError {
    /// AS paths do not have such a character.
    #[error(
        "no AS path has `{}`; expected AS numbers, `_` for the border of a number, `^` and `$` for the ends, and . * + ? | ( ) [ ]",
        .0.escape_default()
    )]
    Character(char),
    /// A number is too large.
    #[error("`{0}` is no AS number")]
    Number(String),
    /// The text is no regular expression.
    #[error(transparent)]
    Regex(#[from] regex::Error),
}

/// Reads an expression over the text of an AS path. `_` stands for any border of a number, as in widespread routers' expressions.
fn path_expression(text: &str) -> Result<Regex, PathExpressionError> {
    let mut before = ' ';
    for character in text.chars() {
        let is_of_paths = character.is_ascii_digit() || "_^$.*+?|()[]{},- \\".contains(character);
        let is_class = before == '\\' && "dDsSbB".contains(character);
        if !is_of_paths && !is_class {
            return Err(PathExpressionError::Character(character));
        }
        before = character;
    }
    let mut numbers =
        text.split(|character: char| !character.is_ascii_digit()).filter(|part| !part.is_empty());
    match numbers.find(|number| number.parse::<u32>().is_err()) {
        Some(number) => Err(PathExpressionError::Number(number.into())),
        None => Ok(Regex::new(&text.replace('_', "(?:^|$|[ ,{}])"))?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn communities_as_people_write_them() {
        let parsed = |text| Community::parse(text).map(|c| (c.code, c.octets));
        assert_eq!(parsed("65000:7"), Some((8, vec![0xfd, 0xe8, 0, 7])));
        assert_eq!(parsed("no-export"), Some((8, vec![0xff, 0xff, 0xff, 1])));
        assert_eq!(parsed("1:2:3"), Some((32, vec![0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3])));
        assert_eq!(parsed("0002fde800000001"), Some((16, vec![0, 2, 0xfd, 0xe8, 0, 0, 0, 1])));
        for wrong in ["", "65536:1", "1:2:3:4", "x", "1:", "00000000000000zz"] {
            assert_eq!(parsed(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn expressions_that_no_path_can_match_are_refused() {
        for right in ["_65000_", "^$", "65000 .*", "[1-9]{2,5}", r"\b65000\b", "(1|2)+", r"\{1,2\}"] {
            assert!(path_expression(right).is_ok(), "{right}");
        }
        for (wrong, said) in [
            ("65000x", "no AS path has `x`; expected AS numbers"),
            ("customer", "no AS path has `c`"),
            ("65000:1", "no AS path has `:`"),
            ("99999999999", "is no AS number"),
            ("(65000", "unclosed group"),
        ] {
            let error = path_expression(wrong).expect_err(wrong).to_string();
            assert!(error.contains(said), "{wrong}: {error}");
        }
    }

    #[test]
    fn paths_that_a_filter_accepts() {
        let mut attributes = Vec::new();
        let mut put = |flags: u8, code: u8, value: &[u8]| {
            sluice_bgp::wire::attribute::put_header(&mut attributes, flags, code, value.len());
            attributes.extend_from_slice(value);
        };
        put(0x40, code::AS_PATH, &[2, 2, 0, 0, 0xfd, 0xe9, 0, 0, 0xfd, 0xea, 1, 1, 0, 0, 0, 5]);
        put(0xc0, code::COMMUNITIES, &[0xfd, 0xe8, 0, 7]);
        let accepts = |communities: &[&str], as_path: &str, origin_as| {
            let request = pb::GetRoutesRequest {
                communities: communities.iter().map(|c| (*c).into()).collect(),
                as_path: as_path.into(),
                origin_as,
                ..Default::default()
            };
            Filter::read(&request).unwrap().accepts(&attributes)
        };
        assert!(accepts(&["65000:7"], "_65002_", Some(5)));
        assert!(accepts(&[], "^65001 65002", None));
        assert!(!accepts(&["65000:7", "65000:8"], "", None));
        assert!(!accepts(&[], "_6500_", None));
        assert!(!accepts(&[], "", Some(65002)));
        let wrong = pb::GetRoutesRequest { as_path: "(".into(), ..Default::default() };
        assert!(Filter::read(&wrong).is_err());
    }
}
