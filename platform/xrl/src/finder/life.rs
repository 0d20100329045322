//! Births and deaths, gathered for a single reader with bounded memory.

use crate::idl::finder::v1::Life as WireLife;
use std::collections::VecDeque;

/// A life of an instance, in an event of birth or death.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Life {
    /// The target's class.
    pub class: String,
    /// The target's name.
    pub instance: String,
    /// Distinguishes a new life of the same name from the old life.
    pub incarnation: u64,
}

impl From<Life> for WireLife {
    fn from(life: Life) -> Self {
        WireLife { class: life.class, instance: life.instance, incarnation: life.incarnation }
    }
}

impl From<WireLife> for Life {
    fn from(life: WireLife) -> Self {
        Life { class: life.class, instance: life.instance, incarnation: life.incarnation }
    }
}

/// A target's birth or death.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LifeEvent {
    /// The target can be called from now on.
    Birth(Life),
    /// The target is gone.
    Death(Life),
}

impl LifeEvent {
    /// Returns the event's life.
    pub fn life(&self) -> &Life {
        match self {
            LifeEvent::Birth(life) | LifeEvent::Death(life) => life,
        }
    }
}

/// Events that wait for their reader: for each instance at most a death and a following birth. A life whose birth was
/// not read yet leaves without a trace.
#[derive(Default, Debug)]
pub(crate) struct LifeQueue(VecDeque<LifeEvent>);

impl LifeQueue {
    pub(crate) fn push(&mut self, event: LifeEvent) {
        let last = self.0.iter().rposition(|e| e.life().instance == event.life().instance);
        match (last.and_then(|i| self.0.get(i).map(|e| (i, e))), &event) {
            (Some((i, LifeEvent::Birth(unread))), LifeEvent::Death(dead))
                if unread.incarnation == dead.incarnation =>
            {
                self.0.remove(i);
            }
            (Some((_, same)), _) if *same == event => {}
            _ => self.0.push_back(event),
        }
    }

    pub(crate) fn pop(&mut self) -> Option<LifeEvent> {
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_sleeps_holds_nobody_up() {
        let life = |incarnation| Life { class: "a".into(), instance: "a-1".into(), incarnation };
        let mut queue = LifeQueue::default();
        queue.push(LifeEvent::Death(life(0)));
        for n in 1..1000 {
            queue.push(LifeEvent::Birth(life(n)));
            queue.push(LifeEvent::Death(life(n)));
        }
        queue.push(LifeEvent::Birth(life(1000)));
        let read: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(read, [LifeEvent::Death(life(0)), LifeEvent::Birth(life(1000))]);
    }
}
