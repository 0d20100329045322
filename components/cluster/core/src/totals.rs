//! Counters of the router as a whole: those of its elements, added up. A frame that a balancer leads to a router is counted by both, each in
//! rows of its own.

use crate::inventory::{Element, PortNumber};
use alloc::collections::BTreeMap;
use alloc::string::String;

/// Frames by reason, as an element counts them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Reason {
    /// The counting party: the balancer's program, or an element's process.
    pub by: String,
    /// The reason.
    pub reason: String,
}

/// Frames that XDP programs received, by place and fate.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Fate {
    /// The outer port; `None` for all interfaces inside of the router.
    pub port: Option<PortNumber>,
    /// Forwarded, dropped or passed to the kernel.
    pub outcome: String,
    /// The reason.
    pub reason: String,
}

/// A count of frames.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Count {
    /// The frames.
    pub packets: u64,
    /// Their octets.
    pub octets: u64,
}

/// The sums.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Totals {
    frames: BTreeMap<Reason, u64>,
    fates: BTreeMap<Fate, Count>,
}

impl Totals {
    /// Adds frames of an element.
    pub fn add_frames(&mut self, reason: Reason, frames: u64) {
        let sum = self.frames.entry(reason).or_default();
        *sum = sum.saturating_add(frames);
    }

    /// Adds frames that an interface of an element received.
    pub fn add_received(
        &mut self,
        element: &Element,
        interface: &str,
        (outcome, reason): (String, String),
        count: Count,
    ) {
        let port = element.ports.iter().find(|port| port.interface == interface).map(|port| port.number);
        let sum = self.fates.entry(Fate { port, outcome, reason }).or_default();
        sum.packets = sum.packets.saturating_add(count.packets);
        sum.octets = sum.octets.saturating_add(count.octets);
    }

    /// Iterates over frames by reason.
    pub fn frames(&self) -> impl Iterator<Item = (&Reason, u64)> {
        self.frames.iter().map(|(reason, frames)| (reason, *frames))
    }

    /// Iterates over received frames by place and fate: inside first, then by port.
    pub fn fates(&self) -> impl Iterator<Item = (&Fate, Count)> {
        self.fates.iter().map(|(fate, count)| (fate, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::{ElementId, OuterPort, Role};
    use crate::mac::Mac;
    use alloc::string::ToString;
    use std::vec::Vec;

    #[test]
    fn elements_are_added_up_by_reason_and_by_outer_port() {
        let port = |number| PortNumber::new(number).expect("a port");
        let element = |number: u16, ports: &[u16]| Element {
            id: ElementId::new(number).expect("an element"),
            name: number.to_string(),
            roles: [Role::Balancer].into(),
            weight: 1,
            ports: ports
                .iter()
                .map(|number| OuterPort { number: port(*number), interface: "out".into(), mac: Mac([2; 6]) })
                .collect(),
        };
        let mut totals = Totals::default();
        let reason = |reason: &str| Reason { by: "program".into(), reason: reason.into() };
        for frames in [2, 3, u64::MAX] {
            totals.add_frames(reason("balanced"), frames);
        }
        totals.add_frames(reason("forged"), 0);
        let frames: Vec<_> =
            totals.frames().map(|(reason, frames)| (reason.reason.as_str(), frames)).collect();
        assert_eq!(frames, [("balanced", u64::MAX), ("forged", 0)]);

        let count = Count { packets: 2, octets: 128 };
        let fate = || ("dropped".to_string(), "no-route".to_string());
        // The interface of a name is another port at another element.
        for (element, interface) in [
            (element(1, &[7]), "out"),
            (element(2, &[8]), "out"),
            (element(2, &[8]), "in"),
            (element(3, &[]), "out"),
        ] {
            totals.add_received(&element, interface, fate(), count);
        }
        let fates: Vec<_> =
            totals.fates().map(|(fate, count)| (fate.port, count.packets, count.octets)).collect();
        assert_eq!(fates, [(None, 4, 256), (Some(port(7)), 2, 128), (Some(port(8)), 2, 128)]);
    }
}
