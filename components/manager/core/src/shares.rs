//! The shares of components in a change of configuration: what is to be done with each.

use crate::commit::Plan;
use crate::component::Phase;
use alloc::string::String;
use alloc::vec::Vec;

/// The share of a component that runs after the change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    /// Nothing differs for the component.
    Nothing,
    /// The component is new.
    Start,
    /// The component is stopped: its share is delivered when the component starts.
    Later,
    /// The share holds for the life of a process.
    Restart,
    /// The component applies the share as it runs.
    Apply,
}

impl Share {
    /// Returns the share of a component that runs before the change too. `restarts` is true if the share holds for the life of a process.
    pub fn of_running(differs: impl FnOnce() -> bool, phase: Option<Phase>, restarts: bool) -> Self {
        if !differs() {
            Share::Nothing
        } else if phase != Some(Phase::Ready) {
            Share::Later
        } else if restarts {
            Share::Restart
        } else {
            Share::Apply
        }
    }

    /// Returns true if the component itself is asked to accept its share, or has none. A component that does not run cannot be asked.
    pub fn is_asked(self) -> bool {
        !matches!(self, Share::Start | Share::Later)
    }
}

/// A change of the whole router, and the components with a share in the change.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Shares {
    /// The components that take part in the transaction.
    pub plan: Plan,
    /// Stopped components: the change is delivered when the component starts.
    pub absent: Vec<String>,
    /// Components that end with the commit.
    pub gone: Vec<String>,
}

impl Shares {
    /// Adds the share of a component. Components come in the order of need.
    pub fn add(&mut self, class: String, share: Share) {
        match share {
            Share::Nothing => {}
            Share::Start => self.plan.started.push(class),
            Share::Later => self.absent.push(class),
            Share::Restart => self.plan.restarted.push(class),
            Share::Apply => self.plan.changed.push(class),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stopped_component_is_not_asked_and_a_ready_one_is() {
        let of = |phase, restarts| Share::of_running(|| true, phase, restarts);
        for phase in [None, Some(Phase::Stopped)] {
            assert_eq!([of(phase, false), of(phase, true)], [Share::Later; 2]);
        }
        assert_eq!(of(Some(Phase::Ready), false), Share::Apply);
        assert_eq!(of(Some(Phase::Ready), true), Share::Restart);
        assert_eq!(Share::of_running(|| false, None, true), Share::Nothing);
        assert!(!Share::Start.is_asked() && !Share::Later.is_asked() && Share::Apply.is_asked());
    }
}
