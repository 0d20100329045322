//! Figures of all tables, and what they say of the router's health.

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
    /// Routes set again because somebody else had changed them.
    pub repaired: u64,
    /// Routes refused since the start.
    pub refused: u64,
    /// Routes, members and groups of engines beside the authority that differed and were mended.
    pub mended: u64,
    /// How often the owner announced one family again.
    pub refreshed: u64,
    /// True if nothing is left to do in the background.
    pub idle: bool,
}

impl Totals {
    /// Returns a sentence for each table with routes that the kernel refuses.
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
