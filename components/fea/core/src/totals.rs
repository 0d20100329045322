//! Figures of the tables, and remarks on the router's health.

use crate::fib::Summary;
use alloc::string::String;
use alloc::vec::Vec;
use sluice_base::{Family, TableId};

/// Figures of all tables.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// By table and family.
    pub tables: Vec<(TableId, Family, Summary)>,
    /// Members and groups.
    pub nexthop_objects: usize,
    /// Routes set again after foreign changes.
    pub repaired: u64,
    /// Routes refused since the start.
    pub refused: u64,
    /// Routes, members and groups of engines beside the authority mended after a difference.
    pub mended: u64,
    /// The number of resyncs of a family.
    pub refreshed: u64,
    /// True without background work.
    pub idle: bool,
}

impl Totals {
    /// Returns a sentence for each table with refused routes.
    pub fn degraded(&self) -> Vec<String> {
        let refused = self.tables.iter().filter(|(.., summary)| summary.refused > 0);
        let routes = refused.map(|(table, family, summary)| {
            let family = if *family == Family::Ipv6 { "IPv6" } else { "IPv4" };
            let (refused, wanted, table) = (summary.refused, summary.wanted, table.0);
            alloc::format!(
                "the kernel refuses {refused} of {wanted} {family} routes of table {table}; `sluice show routes` and the event \
                 fea.route.refused have the reasons"
            )
        });
        routes.collect()
    }
}
