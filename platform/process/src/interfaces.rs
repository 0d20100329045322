//! Following the FEA: each starting FEA is asked to announce its interfaces, and its events are read.

use crate::call_successor;
use sluice_base::{InterfaceEvent, InterfaceIndex};
use sluice_clients::InterfaceTable;
use sluice_xrl::idl::fea::v1 as fea;
use sluice_xrl::{Life, LifeEvent, XrlEndpoint, XrlError};
use std::cell::{Cell, Ref, RefCell};
use std::collections::BTreeMap;
use tracing::warn;

/// Reads the events of a call of `fea.v1.InterfaceObserver`.
///
/// # Errors
/// An event is malformed; none of the call's events may be applied then.
pub fn interface_events(request: &fea::InterfaceChangedRequest) -> Result<Vec<InterfaceEvent>, XrlError> {
    let events = request.events.iter().map(InterfaceEvent::try_from);
    events.collect::<Result<_, _>>().map_err(|error| XrlError::BadArguments(format!("events: {error}")))
}

/// Subscribes `instance` to the interfaces of each FEA that starts, and then calls `started`. The instance must serve
/// `fea.v1.InterfaceObserver`. Never ends.
pub async fn follow_fea(router: XrlEndpoint, instance: String, started: impl AsyncFn(Life)) {
    let client = fea::InterfacesClient::new(&router, "fea");
    let Ok(mut lives) = router.watch_class("fea").await else {
        return warn!("the Finder does not announce the FEA; interfaces stay unknown");
    };
    while let Some(event) = lives.next().await {
        let LifeEvent::Birth(life) = event else { continue };
        let subscribe = async || client.subscribe(fea::SubscribeRequest { target: instance.clone() }).await;
        if let Err(error) = call_successor(subscribe).await {
            warn!(%error, "the FEA does not announce its interfaces");
        }
        started(life).await;
    }
}

/// The FEA's interfaces for a component that opens sockets on some of them.
#[derive(Default)]
pub struct InterfaceNames {
    table: RefCell<InterfaceTable>,
    is_complete: Cell<bool>,
}

impl InterfaceNames {
    /// Reads the events of a call, and returns them for the component's core. Interfaces that disappeared while no FEA ran are removed
    /// by events of their own, before the end of the FEA's snapshot.
    ///
    /// # Errors
    /// [`interface_events`].
    pub fn read(&self, request: &fea::InterfaceChangedRequest) -> Result<Vec<InterfaceEvent>, XrlError> {
        let mut events = Vec::new();
        for event in interface_events(request)? {
            if event == InterfaceEvent::SnapshotEnd {
                self.is_complete.set(true);
                events.extend(self.table.borrow().unconfirmed().map(InterfaceEvent::Removed));
            }
            self.table.borrow_mut().apply(event.clone());
            events.push(event);
        }
        Ok(events)
    }

    /// Returns true once the FEA has announced all interfaces.
    pub fn is_complete(&self) -> bool {
        self.is_complete.get()
    }

    /// Returns the interfaces.
    pub fn table(&self) -> Ref<'_, InterfaceTable> {
        self.table.borrow()
    }

    /// Returns the names of all interfaces.
    pub fn all(&self) -> BTreeMap<InterfaceIndex, String> {
        let table = self.table.borrow();
        table.iter().map(|interface| (interface.index, interface.name.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(names: &InterfaceNames, events: &[InterfaceEvent]) -> Vec<InterfaceEvent> {
        let events = events.iter().map(Into::into).collect();
        names.read(&fea::InterfaceChangedRequest { events, takes_programs: None }).expect("good events")
    }

    #[test]
    fn what_disappeared_while_no_fea_ran_is_removed_by_an_event() {
        let index = |number| InterfaceIndex::new(number).expect("a number above 0");
        let interface = |number, name: &str| {
            InterfaceEvent::Changed(sluice_base::Interface {
                index: index(number),
                name: name.into(),
                admin_up: true,
                running: true,
                loopback: false,
                point_to_point: false,
                multicast: true,
                mtu: 1500,
                mac: Vec::new(),
                addresses: Vec::new(),
            })
        };
        use InterfaceEvent::{Removed, SnapshotBegin, SnapshotEnd};
        let names = InterfaceNames::default();
        let first = [SnapshotBegin, interface(1, "eth0"), interface(2, "eth1"), SnapshotEnd];
        assert!(!names.is_complete());
        assert_eq!(read(&names, &first), first);
        assert!(names.is_complete());
        let events = read(&names, &[SnapshotBegin, interface(2, "eth1"), SnapshotEnd]);
        assert_eq!(events, [SnapshotBegin, interface(2, "eth1"), Removed(index(1)), SnapshotEnd]);
        assert_eq!(names.all(), BTreeMap::from([(index(2), "eth1".to_owned())]));
    }
}
