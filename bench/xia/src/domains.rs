//! The autonomous domains: one for each IPv4 prefix, in the order of their popularity.

use anyhow::{Result, ensure};
use bench_forward::is_forwarded;
use sluice_base::{IpPrefix, Rng};
use sluice_load::source;
use sluice_pktgen::destinations::{first_bits, zipf};
use std::collections::HashSet;
use std::net::IpAddr;

/// The seeds of the order and of the draws; both stacks get the same packets.
const ORDER: u64 = 41;
const DRAWS: u64 = 42;

/// Prefixes with the address that stands for each of them; the place in the lists is the domain's number.
pub struct Domains {
    /// The routes of IPv4.
    pub prefixes: Vec<IpPrefix>,
    /// The destinations, whose octets are the domains' IDs too.
    pub destinations: Vec<IpAddr>,
}

impl Domains {
    /// Reads up to `most` prefixes of the full table, drawn at random. Prefixes with the address of another prefix are left out.
    pub fn read(most: usize) -> Result<Self> {
        let (table, source) = source::find(None)?;
        let mut prefixes: Vec<IpPrefix> = table.v4.iter().map(|route| route.prefix).collect();
        prefixes.retain(is_forwarded);
        shuffle(&mut prefixes, &mut Rng::from_seed(ORDER));
        let mut seen = HashSet::new();
        prefixes.retain(|prefix| seen.insert(first_bits(&[*prefix])));
        prefixes.truncate(most);
        ensure!(!prefixes.is_empty(), "{source} has no IPv4 prefixes");
        println!("domains of {source}: {}", prefixes.len());
        let destinations = first_bits(&prefixes);
        Ok(Domains { prefixes, destinations })
    }

    /// Draws the destinations of packets from Zipf's distribution.
    pub fn draw(&self, exponent: f64) -> Vec<IpAddr> {
        zipf(&self.destinations, exponent, &mut Rng::from_seed(DRAWS))
    }

    /// Returns the 4 octets of each domain.
    pub fn octets(&self) -> impl Iterator<Item = [u8; 4]> + '_ {
        self.destinations.iter().filter_map(|address| match address {
            IpAddr::V4(address) => Some(address.octets()),
            IpAddr::V6(_) => None,
        })
    }
}

fn shuffle<T>(list: &mut [T], random: &mut Rng) {
    for last in (1..list.len()).rev() {
        list.swap(last, random.below(last as u64 + 1) as usize);
    }
}
