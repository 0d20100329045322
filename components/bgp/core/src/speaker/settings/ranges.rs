//! Listen ranges: the configuration from the statements, and the checks.

use super::error::{Owner, SettingsError};
use super::inheritance::{Neighbor, Statements};
use super::statements::{RangeStatement, Settings};
use crate::speaker::config::{AsSpan, ListenRange};
use alloc::vec::Vec;

impl Settings {
    /// Returns a listen range with the statements of its group; `None` if neither has an AS.
    pub(crate) fn listen_range(&self, range: &RangeStatement) -> Option<ListenRange> {
        let neighbor = |peer_as| Neighbor {
            address: range.prefix.addr(),
            group: Some(range.group.clone()),
            statements: Statements::of_as(peer_as),
        };
        let first = range.peer_as.first().map(|span| span.first);
        let template = self.joined(&neighbor(first))?;
        let own = AsSpan { first: template.peer_as, last: template.peer_as };
        let peer_as = if range.peer_as.is_empty() { [own].into() } else { range.peer_as.clone() };
        let RangeStatement { prefix, limit, idle_time, .. } = *range;
        Some(ListenRange { prefix, peer_as, limit, idle_time, template })
    }

    /// Checks the listen ranges: the values of each range, and of ranges and neighbors with overlapping addresses.
    pub(crate) fn check_ranges(&self) -> Result<(), SettingsError> {
        let mut ranges = Vec::new();
        for statement in &self.listen_range {
            let owner = Owner::Range(statement.prefix);
            self.check_group(owner, Some(&statement.group))?;
            let range = self.listen_range(statement).ok_or(SettingsError::NoAs(owner))?;
            if range.allows(self.local_as) && range.only_as().is_none() {
                return Err(SettingsError::MixedAs(range.prefix, self.local_as));
            }
            self.check_neighbor(owner, &range.template)?;
            let other_as = range.template.local_as.map(|other| other.number);
            if let Some(asn) = other_as.filter(|asn| range.allows(*asn)) {
                return Err(SettingsError::LocalAs(owner, asn));
            }
            ranges.push(range);
        }
        let twice = ranges
            .iter()
            .enumerate()
            .find(|(place, range)| ranges[..*place].iter().any(|before| before.prefix == range.prefix));
        if let Some((_, twice)) = twice {
            return Err(SettingsError::TwoRanges(twice.prefix));
        }
        // The kernel asks for the key of the longest prefix that has one: an owner without a key has that of a range around.
        let keyed = || ranges.iter().filter(|range| range.template.password.is_some());
        let neighbors = self.neighbor.iter().filter_map(|neighbor| self.joined(neighbor));
        for neighbor in neighbors.filter(|neighbor| neighbor.password.is_none()) {
            if let Some(range) = keyed().find(|range| range.contains(neighbor.address)) {
                return Err(SettingsError::NoPassword(Owner::Neighbor(neighbor.address), range.prefix));
            }
        }
        for inner in ranges.iter().filter(|range| range.template.password.is_none()) {
            if let Some(range) = keyed().find(|range| range.prefix.covers(inner.prefix)) {
                return Err(SettingsError::NoPassword(Owner::Range(inner.prefix), range.prefix));
            }
        }
        Ok(())
    }
}
