//! Protection against frames that were sent before.

use crate::frames::header::Stamp;
use crate::inventory::ElementId;
use alloc::collections::BTreeMap;

/// The last stamp of each element, for one kind of frames.
#[derive(Clone, Default, Debug)]
pub struct Replay(BTreeMap<ElementId, Stamp>);

impl Replay {
    /// Returns true, and notes the stamp, if an authentic frame is later than all before from its sender.
    pub fn admit(&mut self, element: ElementId, stamp: Stamp) -> bool {
        let last = self.0.entry(element).or_default();
        let is_later = stamp > *last;
        if is_later {
            *last = stamp;
        }
        is_later
    }

    /// Forgets an element that left the inventory.
    pub fn forget(&mut self, element: ElementId) {
        self.0.remove(&element);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_later_frames_are_admitted() {
        let mut replay = Replay::default();
        let (one, two) = (ElementId::new(1).unwrap(), ElementId::new(2).unwrap());
        let stamp = |epoch, counter| Stamp { epoch, counter };
        assert!(!replay.admit(one, stamp(0, 0)));
        assert!(replay.admit(one, stamp(3, 7)) && !replay.admit(one, stamp(3, 7)));
        assert!(replay.admit(one, stamp(3, 9)) && !replay.admit(one, stamp(3, 8)));
        // A new start counts from 1 again; an earlier start's frames are old.
        assert!(replay.admit(one, stamp(4, 1)) && !replay.admit(one, stamp(3, 10)));
        assert!(replay.admit(two, stamp(1, 1)));
        replay.forget(one);
        assert!(replay.admit(one, stamp(3, 10)));
    }
}
