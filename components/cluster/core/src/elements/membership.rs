//! The elements as their announcements describe them: present or silent, since which start, and at odds with the configuration or not.

use crate::frames::announce::Announcement;
use crate::frames::header::{Kind, Stamp};
use crate::frames::replay::Replay;
use crate::inventory::{Element, ElementId};
use crate::mac::Mac;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;
use sluice_base::Instant;

/// The time between two announcements.
pub(crate) const ANNOUNCE_TIME: Duration = Duration::from_secs(1);
/// The time without an announcement after which an element has no share any more.
pub(crate) const LOST_TIME: Duration = Duration::from_millis(3500);

/// An element that has announced itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// The time of the last announcement.
    pub announced_at: Instant,
    /// The number of the element's start.
    pub epoch: u64,
    /// The MAC address on the interconnect.
    pub mac: Mac,
    /// The addresses on the interconnect.
    pub addresses: Vec<IpAddr>,
    /// True if roles or ports are others than those configured here.
    pub differs: bool,
    /// True if announcements have not come for [`LOST_TIME`].
    pub is_lost: bool,
}

/// The effect of an announcement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// The element is present as before.
    Again,
    /// The element is present for the first time, again, or after a start.
    Up {
        /// True if the element was started since the announcement before.
        is_started: bool,
    },
}

/// The elements that have announced themselves.
#[derive(Clone, Default, Debug)]
pub struct Membership {
    members: BTreeMap<ElementId, Member>,
    replays: [Replay; 3],
}

impl Membership {
    /// Returns true, and notes the stamp, if an authentic frame is later than those of its kind and sender before.
    pub fn admit(&mut self, kind: Kind, element: ElementId, stamp: Stamp) -> bool {
        let place = match kind {
            // Hello frames are the program's.
            Kind::Hello => return false,
            Kind::Announcement => 0,
            Kind::Neighbors => 1,
            Kind::Wanted => 2,
        };
        self.replays[place].admit(element, stamp)
    }

    /// Takes in an announcement; `configured` is the element as it is configured here.
    pub fn announced(&mut self, now: Instant, announcement: Announcement, configured: &Element) -> Arrival {
        let Announcement { element, mac, addresses, stamp } = announcement;
        let differs = element.roles != configured.roles || element.ports != configured.ports;
        let before = self.members.get(&element.id);
        let is_started = before.is_none_or(|before| before.epoch != stamp.epoch);
        let is_news = is_started || before.is_some_and(|before| before.is_lost);
        let member =
            Member { announced_at: now, epoch: stamp.epoch, mac, addresses, differs, is_lost: false };
        self.members.insert(element.id, member);
        if is_news { Arrival::Up { is_started } } else { Arrival::Again }
    }

    /// Notes the elements whose announcements do not come any more, and returns those that are lost since the last call.
    pub fn expire(&mut self, now: Instant) -> Vec<ElementId> {
        let silent = self.members.iter_mut().filter(|(_, member)| !member.is_lost);
        let lost = silent.filter(|(_, member)| now >= member.announced_at + LOST_TIME);
        let mark = |(id, member): (&ElementId, &mut Member)| {
            member.is_lost = true;
            *id
        };
        lost.map(mark).collect()
    }

    /// Forgets the elements for which `is_known` is false.
    pub fn retain(&mut self, is_known: impl Fn(ElementId) -> bool) {
        self.members.retain(|id, _| is_known(*id));
    }

    /// Returns an element.
    pub fn get(&self, element: ElementId) -> Option<&Member> {
        self.members.get(&element)
    }
}
