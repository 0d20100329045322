//! The router as a whole: counters of its elements, added up, and the elements whose routes differ. A frame that a balancer leads to a router
//! is counted by both, each in rows of its own.

use crate::inventory::{Element, ElementId, PortNumber};
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;

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

/// The routes of an element: the number and the checksum by origin, family and table.
pub type Checksums = BTreeMap<(String, String, u32), (u64, String)>;

/// A comparison of the elements' routes with those of the control plane.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Comparison {
    own: ElementId,
    control: Option<ElementId>,
    elements: BTreeMap<ElementId, Checksums>,
}

/// The end of a comparison.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compared {
    /// The element whose routes the others were compared with.
    pub source: ElementId,
    /// The elements with the same routes.
    pub equal: Vec<ElementId>,
    /// The elements with other routes.
    pub differing: Vec<ElementId>,
}

impl Comparison {
    /// Begins at an element, with the number of the control plane.
    pub fn new(own: ElementId, control: Option<ElementId>) -> Self {
        Comparison { own, control, elements: BTreeMap::new() }
    }

    /// Adds the routes of an element. Origins without routes do not count.
    pub fn add(&mut self, element: ElementId, mut checksums: Checksums) {
        checksums.retain(|_, (routes, _)| *routes > 0);
        self.elements.insert(element, checksums);
    }

    /// Compares all elements with the control plane, or with this element if the control plane did not answer, or with the first one.
    /// `None` without any element.
    pub fn outcome(&self) -> Option<Compared> {
        let has_answered = |element: &ElementId| self.elements.contains_key(element);
        let preferred = self.control.filter(has_answered).or(Some(self.own).filter(has_answered));
        let source = preferred.or_else(|| self.elements.keys().next().copied())?;
        let wanted = self.elements.get(&source)?;
        let others = self.elements.iter().filter(|(element, _)| **element != source);
        let (equal, differing): (Vec<_>, Vec<_>) = others.partition(|(_, checksums)| *checksums == wanted);
        let numbers =
            |of: Vec<(&ElementId, &Checksums)>| of.into_iter().map(|(element, _)| *element).collect();
        Some(Compared { source, equal: numbers(equal), differing: numbers(differing) })
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
    fn elements_are_compared_with_the_control_plane_or_with_another_one_that_answers() {
        let id = |number| ElementId::new(number).expect("an element");
        let of = |routes: u64, sum: &str| -> Checksums {
            let key = |origin: &str| (origin.to_string(), "ipv4".to_string(), 254);
            [(key("bgp"), (routes, sum.to_string())), (key("static"), (0, "0".to_string()))].into()
        };
        let outcome = |elements: &[(u16, Checksums)]| {
            let mut comparison = Comparison::new(id(12), Some(id(21)));
            elements.iter().for_each(|(number, sums)| comparison.add(id(*number), sums.clone()));
            comparison.outcome()
        };
        let compared = |source, equal: &[u16], differing: &[u16]| {
            let ids = |all: &[u16]| all.iter().map(|number| id(*number)).collect::<Vec<_>>();
            Some(Compared { source: id(source), equal: ids(equal), differing: ids(differing) })
        };
        assert_eq!(outcome(&[]), None);
        let without_routes: Checksums = [].into();
        let all = [(11, of(3, "aa")), (12, of(3, "ab")), (13, without_routes), (21, of(3, "aa"))];
        assert_eq!(outcome(&all), compared(21, &[11], &[12, 13]));
        assert_eq!(outcome(&all[..3]), compared(12, &[], &[11, 13]));
        assert_eq!(outcome(&all[..1]), compared(11, &[], &[]));
        // An origin without routes is as good as none.
        assert_eq!(outcome(&[(11, of(0, "aa")), (21, [].into())]), compared(21, &[11], &[]));
    }

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
