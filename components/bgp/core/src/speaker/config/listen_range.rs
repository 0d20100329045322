//! Listen ranges: prefixes from which routers may connect without a configuration of each router.
//!
//! A range has a group as the template of the neighbors' configuration, the allowed AS numbers, and a bound on the number of
//! neighbors. [`super::dynamic`] has the neighbors.

use super::neighbor::NeighborConfig;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sluice_base::{Asn, IpPrefix};

/// AS numbers from the first to the last one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsSpan {
    /// The lowest number, at least 1.
    pub first: Asn,
    /// The highest number.
    pub last: Asn,
}

/// The text of AS numbers is malformed: expected a number such as 64512, or numbers such as 64512-65534, from 1 to 4294967294.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsSpanError;

impl fmt::Display for AsSpanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected an AS number such as 64512, or a range such as 64512-65534")
    }
}

impl AsSpan {
    /// Returns the numbers from `first` to `last`; `None` if empty, or if a number is no AS.
    pub fn new(first: Asn, last: Asn) -> Option<AsSpan> {
        (first.0 >= 1 && first <= last && last.0 < u32::MAX).then_some(AsSpan { first, last })
    }

    /// Returns true if `asn` is among the numbers.
    pub fn contains(self, asn: Asn) -> bool {
        (self.first..=self.last).contains(&asn)
    }
}

impl FromStr for AsSpan {
    type Err = AsSpanError;

    fn from_str(text: &str) -> Result<AsSpan, AsSpanError> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let number = |text: &str| text.parse().map(Asn).map_err(|_| AsSpanError);
        AsSpan::new(number(first)?, number(last)?).ok_or(AsSpanError)
    }
}

impl fmt::Display for AsSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.first == self.last {
            return self.first.fmt(f);
        }
        write!(f, "{}-{}", self.first, self.last)
    }
}

impl Serialize for AsSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for AsSpan {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AsSpan, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(|error| D::Error::custom(format_args!("`{text}`: {error}")))
    }
}

/// A listen range with the configuration of its neighbors.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ListenRange {
    /// The addresses from which neighbors may connect.
    pub prefix: IpPrefix,
    /// The allowed AS numbers of the neighbors: at least one span. The router's own AS is the only number, or not among the
    /// numbers.
    pub peer_as: Vec<AsSpan>,
    /// The most neighbors, those included whose session is not up.
    pub limit: u16,
    /// The seconds for which a neighbor without a connection stays.
    pub idle_time: u16,
    /// The configuration of the neighbors. Address and AS are those of each neighbor.
    pub template: NeighborConfig,
}

impl ListenRange {
    /// Returns the longest range of an address.
    pub fn longest(ranges: &[ListenRange], address: IpAddr) -> Option<&ListenRange> {
        ranges.iter().filter(|range| range.contains(address)).max_by_key(|range| range.prefix.len())
    }

    /// Returns true if the range has this address.
    pub fn contains(&self, address: IpAddr) -> bool {
        let len = if address.is_ipv4() { 32 } else { 128 };
        IpPrefix::new(address, len).is_some_and(|host| self.prefix.covers(host))
    }

    /// Returns true if neighbors may have this AS.
    pub fn allows(&self, asn: Asn) -> bool {
        self.peer_as.iter().any(|span| span.contains(asn))
    }

    /// Returns the only allowed AS; `None` if several are allowed.
    pub fn only_as(&self) -> Option<Asn> {
        match self.peer_as[..] {
            [AsSpan { first, last }] if first == last => Some(first),
            _ => None,
        }
    }

    /// Returns the configuration of a neighbor of the range. `peer_as` is `None` before the neighbor's OPEN; the AS is
    /// [`NeighborConfig::UNKNOWN_AS`] then, unless the range allows a single AS.
    pub fn neighbor(&self, address: IpAddr, peer_as: Option<Asn>) -> NeighborConfig {
        let peer_as = peer_as.or(self.only_as()).unwrap_or(NeighborConfig::UNKNOWN_AS);
        NeighborConfig { address, peer_as, passive: true, range: Some(self.prefix), ..self.template.clone() }
    }

    /// Returns the configuration under the range for a neighbor with the configuration `before`; `None` if the range does not
    /// admit the neighbor.
    pub(crate) fn adopt(&self, before: &NeighborConfig) -> Option<NeighborConfig> {
        let known = Some(before.peer_as).filter(|asn| *asn != NeighborConfig::UNKNOWN_AS);
        let is_allowed = known.is_none_or(|asn| self.allows(asn));
        (is_allowed && self.template.enabled).then(|| self.neighbor(before.address, known))
    }

    /// Returns the allowed AS numbers as text, in the order of the configuration.
    pub fn peer_as_text(&self) -> Vec<String> {
        self.peer_as.iter().map(ToString::to_string).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::speaker::Settings;
    use serde_json::{Value, json};

    #[test]
    fn numbers_are_read_and_written() {
        for text in ["1", "64512", "64512-65534", "4294967294"] {
            assert_eq!(text.parse::<AsSpan>().map(|span| span.to_string()), Ok(text.to_string()));
        }
        assert_eq!("7-7".parse::<AsSpan>().map(|span| span.to_string()), Ok("7".to_string()));
        for text in ["", "0", "0-7", "8-7", "4294967295", "1-4294967295", "a", "1-", "-1", "1-2-3", "1 - 2"] {
            assert_eq!(text.parse::<AsSpan>(), Err(AsSpanError), "{text}");
        }
        let span: AsSpan = "10-20".parse().expect("numbers");
        let found = [9, 10, 20, 21].map(|number| span.contains(Asn(number)));
        assert_eq!(found, [false, true, true, false]);
    }

    #[test]
    fn the_longest_range_has_the_address() {
        let range = |text: &str| ListenRange {
            prefix: text.parse().expect("a prefix"),
            peer_as: ["1".parse().expect("a number")].into(),
            limit: 1,
            idle_time: 0,
            template: NeighborConfig::new(IpAddr::from([0, 0, 0, 0]), Asn(1)),
        };
        let ranges = ["10.0.0.0/8", "10.1.0.0/16", "2001:db8::/32"].map(range);
        let find = |address: &str| {
            let address = address.parse().expect("an address");
            ListenRange::longest(&ranges, address).map(|range| range.prefix.to_string())
        };
        assert_eq!(find("10.1.2.3").as_deref(), Some("10.1.0.0/16"));
        assert_eq!(find("10.2.2.3").as_deref(), Some("10.0.0.0/8"));
        assert_eq!(find("2001:db8::7").as_deref(), Some("2001:db8::/32"));
        assert_eq!((find("11.0.0.1"), find("2001:db9::")), (None, None));
    }

    fn settings(ranges: Value, neighbors: Value) -> Settings {
        let groups = json!([
            {"name": "x", "peer-as": 2, "hold-time": 9, "passive": false},
            {"name": "keyed", "password": "p"}, {"name": "side", "relationship": "peer"},
            {"name": "other", "local-as": {"number": 70}}, {"name": "client", "route-reflector-client": true},
        ]);
        let tree = json!({"local-as": 1, "router-id": "10.0.0.1", "group": groups, "listen-range": ranges, "neighbor": neighbors});
        serde_json::from_value(tree).expect("settings")
    }

    #[test]
    fn ranges_have_the_statements_of_their_group() {
        let ranges = json!([
            {"prefix": "10.0.0.7/24", "group": "x"},
            {"prefix": "2001:db8::/32", "group": "x", "peer-as": ["3-9", "20"], "limit": 7, "idle-time": 60},
            {"prefix": "10.1.0.0/16", "group": "client", "peer-as": ["1"]},
        ]);
        let settings = settings(ranges, json!([]));
        assert_eq!(settings.check(), Ok(()));
        let ranges = settings.config().ranges;
        assert_eq!(ranges[0].prefix.to_string(), "10.0.0.0/24");
        assert_eq!(
            (ranges[0].peer_as_text().join(" "), ranges[0].limit, ranges[0].idle_time),
            ("2".into(), 100, 0)
        );
        assert_eq!(
            (ranges[1].peer_as_text().join(" "), ranges[1].limit, ranges[1].idle_time),
            ("3-9 20".into(), 7, 60)
        );
        let neighbor = ranges[0].neighbor(IpAddr::from([10, 0, 0, 9]), None);
        assert_eq!((neighbor.peer_as, neighbor.hold_time, neighbor.passive), (Asn(2), 9, true));
        assert_eq!((neighbor.group.as_deref(), neighbor.range), (Some("x"), Some(ranges[0].prefix)));
        let address = "2001:db8::9".parse().expect("an address");
        assert_eq!(ranges[1].neighbor(address, None).peer_as, NeighborConfig::UNKNOWN_AS);
        assert_eq!(ranges[1].neighbor(address, Some(Asn(5))).peer_as, Asn(5));
        assert!(ranges[2].neighbor(address, None).route_reflector_client);
    }

    #[test]
    fn ranges_that_contradict_something_are_refused() {
        let check = |ranges: Value, neighbors: Value, expected: &str| {
            let error = settings(ranges, neighbors).check().expect_err(expected).to_string();
            assert!(error.contains(expected), "{error}");
        };
        let one = |group: &str, peer_as: Value| json!([{"prefix": "10.0.0.0/24", "group": group, "peer-as": peer_as}]);
        check(one("y", json!([])), json!([]), "listen-range 10.0.0.0/24 group: there is no group `y`");
        check(one("keyed", json!([])), json!([]), "listen-range 10.0.0.0/24: expected `peer-as`");
        check(one("x", json!(["1-9"])), json!([]), "has this router's AS 1 and others");
        check(
            one("side", json!(["1"])),
            json!([]),
            "listen-range 10.0.0.0/24: relationship is for external neighbors",
        );
        check(one("client", json!(["2-9"])), json!([]), "route-reflector-client is for internal neighbors");
        check(
            one("other", json!(["50", "60-80"])),
            json!([]),
            "listen-range 10.0.0.0/24: local-as number 70",
        );
        let twice = json!([{"prefix": "10.0.0.1/24", "group": "x"}, {"prefix": "10.0.0.0/24", "group": "x"}]);
        check(twice, json!([]), "listen-range 10.0.0.0/24: two statements");
        // Keys of prefixes: a neighbor and a range inside need one of their own.
        let inside = json!([{"address": "10.0.0.9", "peer-as": 2}]);
        check(one("keyed", json!(["2"])), inside, "neighbor 10.0.0.9: expected `password`");
        let keyed = json!([{"address": "10.0.0.9", "peer-as": 2, "password": "q"}, {"address": "10.0.1.9", "peer-as": 2}]);
        assert_eq!(settings(one("keyed", json!(["2"])), keyed).check(), Ok(()));
        let nested = json!([
            {"prefix": "10.0.0.0/24", "group": "keyed", "peer-as": ["2"]}, {"prefix": "10.0.0.0/28", "group": "x"},
        ]);
        check(nested, json!([]), "listen-range 10.0.0.0/28: expected `password`");
    }
}
