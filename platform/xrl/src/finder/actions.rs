//! Connections of people, and the methods that people received the right to call, apart from methods that only read. The
//! Finder gives a person's process one key for each method, so that an action of a command is one entry.

use super::acl::Peer;
use std::collections::BTreeMap;

/// The most entries between two reads; further actions are counted.
const MOST: usize = 1024;

/// A method that a person's process may call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Action {
    /// The person's name as a principal.
    pub principal: String,
    /// The process, as the kernel reports it.
    pub pid: u32,
    /// The user.
    pub uid: u32,
    /// The method: `TARGET/INTERFACE/METHOD`.
    pub method: String,
}

/// The actions of people since they were last read.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PeoplesActions {
    /// The people who connected, with the last process of each.
    pub connected: BTreeMap<String, Peer>,
    /// The methods that their processes may call.
    pub actions: Vec<Action>,
    /// The number of further methods.
    pub others: u64,
}

impl PeoplesActions {
    /// Notes a connection.
    pub(super) fn connected(&mut self, principal: &str, peer: Peer) {
        if self.connected.len() < MOST || self.connected.contains_key(principal) {
            self.connected.insert(principal.to_owned(), peer);
        }
    }

    /// Notes a key for a method that does more than read.
    pub(super) fn note(&mut self, principal: &str, peer: Peer, method: String) {
        if self.actions.len() >= MOST {
            self.others = self.others.saturating_add(1);
            return;
        }
        let Peer { pid, uid } = peer;
        self.actions.push(Action { principal: principal.to_owned(), pid, uid, method });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_noted_and_bounded() {
        let mut noted = PeoplesActions::default();
        let peer = Peer { pid: 7, uid: 1000 };
        for _ in 0..MOST + 2 {
            noted.note("user:ann", peer, "bgp/bgp.v1.Bgp/ResetNeighbor".into());
            noted.connected("user:ann", peer);
        }
        assert_eq!((noted.actions.len(), noted.others, noted.connected.len()), (MOST, 2, 1));
        let method = "bgp/bgp.v1.Bgp/ResetNeighbor".to_owned();
        assert_eq!(noted.actions[0], Action { principal: "user:ann".into(), pid: 7, uid: 1000, method });
    }
}
