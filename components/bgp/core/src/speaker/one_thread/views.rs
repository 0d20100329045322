//! Views of a router's BGP on one thread, for operators and stations.

use super::machine::Speaker;
use crate::bmp::{Instance, MonitoredRouter, Now, Station};
use crate::family::ByFamily;
use crate::shard::{MonitorId, MonitoredRibs};
use crate::speaker::config::Config;
use crate::speaker::control::overruns::Overrun;
use crate::speaker::control::view::{NeighborView, Summary};
use crate::speaker::peers::RangeView;
use crate::speaker::sources::AggregateView;
use crate::table::MonitorVoid;
use alloc::vec::Vec;
use core::net::IpAddr;

impl Speaker {
    /// Returns the view of the router.
    pub fn summary(&self) -> Summary {
        self.control.summary(ByFamily::from_fn(|family| self.tables().view(family)))
    }

    /// Returns the listen ranges, in the order of their prefixes.
    pub fn ranges(&self) -> Vec<RangeView> {
        self.control.ranges()
    }

    /// Returns the aggregates, in the order of the configuration.
    pub fn aggregates(&self) -> Vec<AggregateView> {
        self.control.aggregates()
    }

    /// Returns the addresses of the configured neighbors, in order.
    pub fn neighbors(&self) -> impl Iterator<Item = IpAddr> {
        self.control.neighbors()
    }

    /// Returns the view of a neighbor; `None` for an unknown neighbor.
    pub fn neighbor(&self, address: IpAddr) -> Option<NeighborView> {
        let index = self.control.neighbor_index(address)?;
        self.control.neighbor(address, self.tables.iter().map(|t| t.counts(index)).sum())
    }
}

impl Speaker {
    /// Begins a monitor of every table, which replaces an earlier monitor of the same number.
    pub fn begin_monitor(&mut self, id: MonitorId, ribs: MonitoredRibs) {
        self.tables.iter_mut().for_each(|table| table.begin_monitor(id, ribs));
    }

    /// Ends a monitor.
    pub fn end_monitor(&mut self, id: MonitorId) {
        self.tables.iter_mut().for_each(|table| table.end_monitor(id));
    }

    /// Returns true if a monitor has missed changes, or is unknown.
    pub fn is_monitor_void(&self, id: MonitorId) -> bool {
        self.tables.iter().any(|table| table.is_monitor_void(id))
    }

    /// Returns the router as stations see it, in a routing instance.
    pub fn monitored_router(&self, instance: Instance) -> MonitoredRouter {
        self.control.monitored_router(instance)
    }

    /// Adds the next messages to a station whose monitor has this number: changes of peers, and of each table about `limit` changes. Returns
    /// true if there are more.
    ///
    /// # Errors
    /// The monitor is void.
    pub fn serve_station(
        &mut self,
        id: MonitorId,
        limit: usize,
        station: &mut Station,
        now: Now,
    ) -> Result<bool, MonitorVoid> {
        station.change_peers(self.control.changed_peers(station), now);
        let (mut has_more, mut is_walked) = (false, true);
        for table in &mut self.tables {
            let chunk = table.monitored(id, limit)?;
            station.take_routes(&chunk, now);
            has_more |= chunk.chunk.has_more;
            is_walked &= chunk.chunk.is_walked;
        }
        if !has_more {
            station.passed(is_walked, now);
        }
        Ok(has_more)
    }
}

impl Speaker {
    /// Returns the bounds that a change to `new` sets below the prefixes of neighbors whose sessions are up.
    pub fn overruns(&self, new: &Config) -> Vec<Overrun> {
        self.control.overruns(new, |index| self.tables.iter().map(|table| table.counts(index)).sum())
    }
}
