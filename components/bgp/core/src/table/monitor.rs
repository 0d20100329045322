//! Monitors of a table: its shards' routes for monitoring stations (BMP, RFC 7854).

use super::{SessionEpoch, Table, TableEvent};
use crate::shard::{MonitorChunk, MonitorId, MonitoredRibs, PeerIndex};
use alloc::collections::BTreeMap;
use serde::Serialize;
use sluice_machine::Outbox;

/// Routes of a table for a station.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TableChunk {
    /// The routes.
    pub chunk: MonitorChunk,
    /// The sessions that the routes of an Adj-RIB-In or Adj-RIB-Out are of.
    pub sessions: BTreeMap<PeerIndex, SessionEpoch>,
}

/// A monitor has missed changes: the station is sent all routes anew.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MonitorVoid;

/// A request of a station to the station's monitor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub enum MonitorRequest {
    /// [`Table::begin_monitor`].
    Begin(MonitorId, MonitoredRibs),
    /// [`Table::end_monitor`].
    End(MonitorId),
    /// [`Table::monitored`].
    Take(MonitorId, usize),
}

impl Table {
    /// Carries out a request. Returns the requested routes.
    ///
    /// # Errors
    /// The monitor is void.
    pub fn monitor(&mut self, request: MonitorRequest) -> Result<Option<TableChunk>, MonitorVoid> {
        match request {
            MonitorRequest::Begin(id, ribs) => self.begin_monitor(id, ribs),
            MonitorRequest::End(id) => self.end_monitor(id),
            MonitorRequest::Take(id, limit) => return self.monitored(id, limit).map(Some),
        }
        Ok(None)
    }

    /// Begins to note changes of `ribs` for the monitor `id`, which replaces an earlier monitor of the same number.
    pub fn begin_monitor(&mut self, id: MonitorId, ribs: MonitoredRibs) {
        self.each(|_, shard| shard.begin_monitor(id, ribs));
    }

    /// Ends a monitor.
    pub fn end_monitor(&mut self, id: MonitorId) {
        self.each(|_, shard| shard.end_monitor(id));
    }

    /// Returns true if a monitor has missed changes, or is unknown.
    pub fn is_monitor_void(&self, id: MonitorId) -> bool {
        self.shards.values().any(|shard| shard.is_void(id))
    }

    /// Returns the next routes for a monitor: up to about `limit` changes of each family, and as many routes from before.
    ///
    /// # Errors
    /// The monitor is void.
    pub fn monitored(&mut self, id: MonitorId, limit: usize) -> Result<TableChunk, MonitorVoid> {
        if self.is_monitor_void(id) {
            return Err(MonitorVoid);
        }
        let Table { shards, peers, .. } = self;
        let mut chunk = MonitorChunk { is_walked: true, ..MonitorChunk::default() };
        let export = |peer: PeerIndex| peers.get(usize::from(peer.0))?.as_ref()?.outlet.as_deref();
        for shard in shards.values_mut() {
            shard.monitored(id, limit, &export, &mut chunk);
        }
        let known = |peer: PeerIndex| Some((peer, peers.get(usize::from(peer.0))?.as_ref()?.life));
        let sessions = chunk.updates.iter().filter_map(|update| known(update.peer)).collect();
        Ok(TableChunk { chunk, sessions })
    }

    /// Reports new changes for monitors, once for each arrival of changes.
    #[inline]
    pub fn report_monitored(&mut self, out: &mut Outbox<TableEvent>) {
        let mut has_news = false;
        self.each(|_, shard| has_news |= shard.take_monitor_news());
        if has_news {
            out.push(TableEvent::Monitored);
        }
    }
}
