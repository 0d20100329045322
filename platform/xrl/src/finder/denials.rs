//! Refused registrations, resolutions and calls, counted by who and what for the router's operator.

use std::collections::BTreeMap;

/// Different denials that wait to be read; further ones are counted together.
const MAX_KINDS: usize = 256;

/// What was refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Denied {
    /// A secret that the Finder does not know, or does not know from this user.
    Secret,
    /// The registration of a class or an instance.
    Registration,
    /// The resolution of a method.
    Resolution,
    /// A call without a key, or with a key that the Finder did not give to this caller.
    Key,
    /// A socket at which another process answers than the registered one.
    Impostor,
    /// A call that the receiver's own rules do not allow the caller.
    Right,
}

impl Denied {
    /// Returns the denial's number on the wire.
    pub(crate) fn number(self) -> u32 {
        match self {
            Denied::Secret => 1,
            Denied::Registration => 2,
            Denied::Resolution => 3,
            Denied::Key => 4,
            Denied::Impostor => 5,
            Denied::Right => 6,
        }
    }

    /// Returns the denial that another process may report under a number: what only the Finder sees is not among
    /// them.
    pub(crate) fn reported(number: u32) -> Option<Self> {
        [Denied::Key, Denied::Impostor, Denied::Right].into_iter().find(|denied| denied.number() == number)
    }

    /// Returns the denial's name, as in metrics and records.
    pub fn name(self) -> &'static str {
        match self {
            Denied::Secret => "secret",
            Denied::Registration => "registration",
            Denied::Resolution => "resolution",
            Denied::Key => "key",
            Denied::Impostor => "impostor",
            Denied::Right => "right",
        }
    }
}

/// A refusal, with everything that is known of the refused process.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Denial {
    /// What was refused.
    pub denied: Denied,
    /// The principal. Of a wrong key it is the name that the caller gave, for which nobody vouches; empty for an
    /// unknown secret.
    pub principal: String,
    /// The process; 0 if unknown.
    pub pid: u32,
    /// The user; `u32::MAX` if unknown.
    pub uid: u32,
    /// The class, instance, method or address.
    pub subject: String,
    /// The principal of the process that reported the refusal; empty for the Finder's own.
    pub reporter: String,
}

/// Denials since they were last read, with the number of each.
#[derive(Default)]
pub(crate) struct Denials {
    waiting: BTreeMap<Denial, u64>,
    /// Denials of kinds that found no room.
    others: u64,
}

impl Denials {
    pub(crate) fn note(&mut self, denial: Denial, times: u64) {
        if self.waiting.len() >= MAX_KINDS && !self.waiting.contains_key(&denial) {
            self.others = self.others.saturating_add(times);
            return;
        }
        let count = self.waiting.entry(denial).or_default();
        *count = count.saturating_add(times);
    }

    pub(crate) fn others(&mut self, times: u64) {
        self.others = self.others.saturating_add(times);
    }

    /// Takes the denials, and the number of those that were counted together.
    pub(crate) fn take(&mut self) -> (Vec<(Denial, u64)>, u64) {
        (std::mem::take(&mut self.waiting).into_iter().collect(), std::mem::take(&mut self.others))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_counted_in_bounded_memory() {
        let mut denials = Denials::default();
        for n in 0..10_000_u32 {
            let denial = Denial {
                denied: Denied::Resolution,
                principal: "evil".into(),
                pid: 7,
                uid: 1000,
                subject: format!("bgp/bgp.v1.Bgp/Guess{}", n % 1000),
                reporter: String::new(),
            };
            denials.note(denial, 1);
        }
        let (kinds, others) = denials.take();
        assert_eq!(kinds.len(), MAX_KINDS);
        assert_eq!(kinds.iter().map(|(_, count)| count).sum::<u64>() + others, 10_000);
        assert_eq!(denials.take(), (Vec::new(), 0));
    }
}
