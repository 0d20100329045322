//! Profiling points (XORP, section 8.2): named places on a route's way. Off, a point costs one look at a flag; on, a
//! point keeps a time-stamped record per route until the records are collected.

use crate::clock;
use sluice_base::{Instant, IpPrefix, Provenance};
use sluice_xrl::idl::common::v1 as pb;
use sluice_xrl::{CallContext, XrlError};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most records kept by a point; older records are lost, and counted.
const LIMIT: usize = 262_144;

struct Record {
    time_ns: u64,
    provenance: Provenance,
    deleted: bool,
    prefix: IpPrefix,
}

struct Inner {
    name: &'static str,
    description: &'static str,
    /// Read by threads that make notes for the profile to record.
    on: Arc<AtomicBool>,
    records: RefCell<VecDeque<Record>>,
    lost: Cell<u64>,
}

/// A place on a route's way.
#[derive(Clone)]
pub struct Point(Rc<Inner>);

impl Point {
    /// Returns true if records are wanted. Check before any work for a record.
    pub fn is_on(&self) -> bool {
        self.0.on.load(Ordering::Relaxed)
    }

    /// Returns the switch for other threads to look at.
    pub fn switch(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.on)
    }

    /// A route passes now.
    pub fn record(&self, prefix: impl Into<IpPrefix>, deleted: bool, provenance: Provenance) {
        self.record_at(clock::now(), prefix, deleted, provenance);
    }

    /// A route passed at `time`.
    pub fn record_at(
        &self,
        time: Instant,
        prefix: impl Into<IpPrefix>,
        deleted: bool,
        provenance: Provenance,
    ) {
        if !self.is_on() {
            return;
        }
        let mut records = self.0.records.borrow_mut();
        if records.len() == LIMIT {
            records.pop_front();
            self.0.lost.set(self.0.lost.get() + 1);
        }
        let time_ns = time.as_nanos();
        records.push_back(Record { time_ns, provenance, deleted, prefix: prefix.into() });
    }
}

/// The points of a process, served to whoever profiles.
#[derive(Clone, Default)]
pub struct Profile(Rc<RefCell<Vec<Point>>>);

impl Profile {
    /// Adds a point behind the points earlier on a route's way; every point starts switched off. The description is a
    /// heading for people.
    pub fn point(&self, name: &'static str, description: &'static str) -> Point {
        let point = Point(Rc::new(Inner {
            name,
            description,
            on: Arc::default(),
            records: RefCell::new(VecDeque::new()),
            lost: Cell::new(0),
        }));
        self.0.borrow_mut().push(point.clone());
        point
    }
}

impl pb::Profile for Profile {
    async fn list_points(
        &self,
        _ctx: &CallContext,
        _request: pb::ListPointsRequest,
    ) -> Result<pb::ListPointsReply, XrlError> {
        let points = self.0.borrow();
        let points = points.iter().map(|p| pb::ProfilePoint {
            name: p.0.name.into(),
            description: p.0.description.into(),
            enabled: p.is_on(),
            records: p.0.records.borrow().len() as u64,
            lost: p.0.lost.get(),
        });
        Ok(pb::ListPointsReply { points: points.collect() })
    }

    async fn set_points(
        &self,
        _ctx: &CallContext,
        request: pb::SetPointsRequest,
    ) -> Result<pb::SetPointsReply, XrlError> {
        let points = self.0.borrow();
        if let Some(unknown) = request.names.iter().find(|n| !points.iter().any(|p| p.0.name == n.as_str())) {
            return Err(XrlError::BadArguments(format!("no profiling point `{unknown}` here")));
        }
        for point in
            points.iter().filter(|p| request.names.is_empty() || request.names.iter().any(|n| n == p.0.name))
        {
            point.0.on.store(request.enabled, Ordering::Relaxed);
            if request.enabled {
                point.0.records.borrow_mut().clear();
                point.0.lost.set(0);
            }
        }
        Ok(pb::SetPointsReply {})
    }

    async fn take_records(
        &self,
        _ctx: &CallContext,
        request: pb::TakeRecordsRequest,
    ) -> Result<pb::TakeRecordsReply, XrlError> {
        let limit = if request.limit == 0 { 10_000 } else { request.limit as usize };
        let mut taken = Vec::new();
        for point in self.0.borrow().iter() {
            let mut records = point.0.records.borrow_mut();
            while taken.len() < limit
                && let Some(r) = records.pop_front()
            {
                taken.push(pb::ProfileRecord {
                    point: point.0.name.into(),
                    time_ns: r.time_ns,
                    provenance: r.provenance.bits(),
                    event: if r.deleted { "delete".into() } else { "add".into() },
                    net: Some(r.prefix.into()),
                });
            }
        }
        Ok(pb::TakeRecordsReply { records: taken })
    }
}
