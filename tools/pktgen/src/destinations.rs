//! Destinations: parsed, drawn from prefixes, and laid out in the ring that the generator's program walks through.

use sluice_base::{IpPrefix, Rng};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The most entries of a ring.
pub const MOST: usize = 1 << 20;

/// The least entries of a ring that is drawn from a distribution.
const LEAST_DRAWN: usize = 1 << 16;

/// The entries of a ring for each destination, where the number of destinations is no power of two.
const COPIES: usize = 16;

/// Reads an address or a prefix; host bits of a prefix are ignored.
pub fn parse(text: &str) -> Option<IpPrefix> {
    match text.parse::<IpAddr>() {
        Ok(address) => IpPrefix::new(address, if address.is_ipv4() { 32 } else { 128 }),
        Err(_) => IpPrefix::parse_subnet(text).ok(),
    }
}

/// Returns one address for each prefix: the address itself if the prefix has one, else the one after the first.
pub fn first_hosts(prefixes: &[IpPrefix]) -> Vec<IpAddr> {
    prefixes.iter().map(|prefix| host(*prefix, 1)).collect()
}

/// Returns one IPv4 address for each IPv4 prefix: the first bit after the prefix is set, so that the address is in no longer prefix
/// that continues with zeros. IPv6 prefixes are left out.
pub fn first_bits(prefixes: &[IpPrefix]) -> Vec<IpAddr> {
    let address = |prefix: &IpPrefix| match prefix.addr() {
        IpAddr::V4(_) => Some(host(*prefix, (1_u128 << 31).checked_shr(prefix.len().into()).unwrap_or(0))),
        IpAddr::V6(_) => None,
    };
    prefixes.iter().filter_map(address).collect()
}

/// Draws `count` addresses: each time a prefix, all with the same probability, and in the prefix an address, all with the
/// same probability. Without prefixes there are none.
pub fn random_hosts(prefixes: &[IpPrefix], count: usize, random: &mut Rng) -> Vec<IpAddr> {
    if prefixes.is_empty() {
        return Vec::new();
    }
    let mut draw = || {
        let prefix = prefixes[random.below(prefixes.len() as u64) as usize];
        let bits = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
        host(prefix, bits)
    };
    (0..count).map(|_| draw()).collect()
}

/// Returns the address of a prefix with the host bits `bits`; more significant bits of `bits` are ignored.
fn host(prefix: IpPrefix, bits: u128) -> IpAddr {
    match prefix.addr() {
        IpAddr::V4(first) => {
            let mask = u32::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
            Ipv4Addr::from_bits(first.to_bits() | bits as u32 & mask).into()
        }
        IpAddr::V6(first) => {
            let mask = u128::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
            Ipv6Addr::from_bits(first.to_bits() | bits & mask).into()
        }
    }
}

/// Returns the destinations in turn, repeated to a power of two. If the number of destinations is no power of two, some
/// destinations have one entry more than others; at most [`MOST`] destinations are used.
pub fn in_turn(destinations: &[IpAddr]) -> Vec<IpAddr> {
    let count = destinations.len().min(MOST);
    let entries =
        if count.is_power_of_two() { count } else { (count.next_power_of_two() * COPIES).min(MOST) };
    destinations.iter().take(count).cycle().take(entries).copied().collect()
}

/// Draws a ring from Zipf's distribution over the destinations: the one with the number `n`, from 1, has a probability
/// proportional to `n` to the power of `-exponent`. Exponent 0 is the uniform distribution.
pub fn zipf(destinations: &[IpAddr], exponent: f64, random: &mut Rng) -> Vec<IpAddr> {
    if destinations.is_empty() {
        return Vec::new();
    }
    let mut sum = 0.0;
    let bounds: Vec<f64> = (1..=destinations.len())
        .map(|number| {
            sum += (number as f64).powf(-exponent);
            sum
        })
        .collect();
    let entries = (destinations.len().next_power_of_two() * COPIES).clamp(LEAST_DRAWN, MOST);
    let mut draw = || {
        let at = unit(random) * sum;
        let index = bounds.partition_point(|bound| *bound <= at);
        destinations[index.min(destinations.len() - 1)]
    };
    (0..entries).map(|_| draw()).collect()
}

/// Draws a number from 0 up to but not including 1.
fn unit(random: &mut Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{prop_assert, prop_assert_eq, proptest};
    use std::collections::BTreeMap;

    fn list(count: u32) -> Vec<IpAddr> {
        (0..count).map(|n| Ipv4Addr::from_bits(0x0a00_0000 + n).into()).collect()
    }

    fn counts(ring: &[IpAddr]) -> BTreeMap<IpAddr, usize> {
        let mut counts = BTreeMap::new();
        ring.iter().for_each(|address| *counts.entry(*address).or_default() += 1);
        counts
    }

    #[test]
    fn addresses_and_prefixes_are_read() {
        assert_eq!(parse("10.0.0.1").unwrap().to_string(), "10.0.0.1/32");
        assert_eq!(parse("10.0.0.1/8").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(parse("2001:db8::1").unwrap().to_string(), "2001:db8::1/128");
        for wrong in ["", "10.0.0", "10.0.0.0/33", "fd00::/129", "ten"] {
            assert_eq!(parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_prefix_stands_for_its_first_host() {
        let prefixes: Vec<IpPrefix> =
            ["10.1.0.0/16", "10.0.0.7", "fd00::/64", "0.0.0.0/0"].iter().filter_map(|p| parse(p)).collect();
        let hosts: Vec<String> = first_hosts(&prefixes).iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["10.1.0.1", "10.0.0.7", "fd00::1", "0.0.0.1"]);
    }

    #[test]
    fn the_first_bit_after_an_ipv4_prefix_is_set() {
        let prefixes: Vec<IpPrefix> = [
            "10.1.0.0/16",
            "10.0.0.0/8",
            "192.0.2.4/30",
            "192.0.2.4/31",
            "10.0.0.7",
            "0.0.0.0/0",
            "fd00::/64",
        ]
        .iter()
        .filter_map(|p| parse(p))
        .collect();
        let addresses: Vec<String> = first_bits(&prefixes).iter().map(ToString::to_string).collect();
        assert_eq!(
            addresses,
            ["10.1.128.0", "10.128.0.0", "192.0.2.6", "192.0.2.5", "10.0.0.7", "128.0.0.0"]
        );
    }

    #[test]
    fn a_power_of_two_of_destinations_is_a_ring_as_it_is() {
        assert_eq!(in_turn(&list(4)), list(4));
        assert_eq!(in_turn(&list(1)), list(1));
        assert!(in_turn(&[]).is_empty());
    }

    #[test]
    fn other_numbers_of_destinations_are_repeated() {
        let ring = in_turn(&list(3));
        assert_eq!(ring.len(), 64);
        assert_eq!(ring[..6], [list(3), list(3)].concat());
        let counts = counts(&ring);
        assert!(counts.len() == 3 && counts.values().all(|count| [21, 22].contains(count)), "{counts:?}");
        assert_eq!(in_turn(&list(MOST as u32 + 5)).len(), MOST);
    }

    #[test]
    fn zipf_follows_the_distribution() {
        let ring = zipf(&list(1000), 1.0, &mut Rng::from_seed(1));
        assert_eq!(ring.len(), LEAST_DRAWN);
        let counts = counts(&ring);
        // The harmonic number of 1000 is 7.4855.
        let expected = |number: f64| LEAST_DRAWN as f64 / 7.4855 / number;
        for number in [1, 2, 3, 10] {
            let expected = expected(f64::from(number));
            let found = counts[&list(1000)[number as usize - 1]] as f64;
            // Five standard deviations.
            assert!((found - expected).abs() < 5.0 * expected.sqrt(), "{number}: {found}, not {expected}");
        }
        let head: usize = list(1000)[..100].iter().filter_map(|a| counts.get(a)).sum();
        assert!((0.67..0.72).contains(&(head as f64 / LEAST_DRAWN as f64)), "{head}");
    }

    #[test]
    fn exponent_zero_is_uniform() {
        let counts = counts(&zipf(&list(16), 0.0, &mut Rng::from_seed(1)));
        let mean = LEAST_DRAWN as f64 / 16.0;
        assert!(counts.values().all(|count| (*count as f64 - mean).abs() < 5.0 * mean.sqrt()), "{counts:?}");
    }

    #[test]
    fn the_same_seed_draws_the_same() {
        let draw = |seed| zipf(&list(100), 1.2, &mut Rng::from_seed(seed));
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }

    proptest! {
        #[test]
        fn random_hosts_lie_in_their_prefixes(seed: u64, length in 0_u8..=32, count in 0_usize..50) {
            let prefixes: Vec<IpPrefix> =
                [format!("198.51.100.0/{length}"), "203.0.113.0/24".into()].iter().filter_map(|p| parse(p)).collect();
            let hosts = random_hosts(&prefixes, count, &mut Rng::from_seed(seed));
            prop_assert_eq!(hosts.len(), count);
            for host in hosts {
                let host = IpPrefix::new(host, 32).unwrap();
                prop_assert!(prefixes.iter().any(|prefix| prefix.covers(host)), "{}", host);
            }
        }

        #[test]
        fn a_ring_has_a_power_of_two_of_entries(count in 1_u32..3000) {
            let ring = in_turn(&list(count));
            prop_assert!(ring.len().is_power_of_two() && ring.len() <= MOST);
            prop_assert_eq!(counts(&ring).len(), count as usize);
        }
    }

    #[test]
    fn random_hosts_are_spread_over_prefixes_and_addresses() {
        let prefixes: Vec<IpPrefix> =
            ["10.0.0.0/8", "192.0.2.0/24"].iter().filter_map(|p| parse(p)).collect();
        let hosts = random_hosts(&prefixes, 10_000, &mut Rng::from_seed(3));
        let in_small = hosts.iter().filter(|h| h.to_string().starts_with("192.0.2.")).count();
        assert!((4700..5300).contains(&in_small), "{in_small}");
        let second: std::collections::BTreeSet<u8> = hosts
            .iter()
            .filter_map(|h| match h {
                IpAddr::V4(v4) if v4.octets()[0] == 10 => Some(v4.octets()[1]),
                _ => None,
            })
            .collect();
        assert_eq!(second.len(), 256);
        assert!(random_hosts(&[], 5, &mut Rng::from_seed(1)).is_empty());
    }
}
