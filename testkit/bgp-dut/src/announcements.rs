//! What scripted peers announce and withdraw.

use super::route::{Route, path_announcement, withdrawal};
use super::{Dut, Net, prefixes_of_a_message};
use std::collections::BTreeMap;

impl<P: Net> Dut<P> {
    /// Has a peer announce prefixes.
    pub fn announce(&mut self, peer: usize, prefixes: &[P], route: &Route) {
        self.announce_path(peer, false, prefixes, route);
    }

    /// A peer announces its first or second path of prefixes.
    pub fn announce_path(&mut self, peer: usize, is_further: bool, prefixes: &[P], route: &Route) {
        let path_id = self.peers[peer].path_id(is_further);
        for prefix in prefixes {
            self.paths_of(peer, is_further).insert(*prefix, route.clone());
        }
        for chunk in prefixes.chunks(prefixes_of_a_message(prefixes)) {
            self.say(peer, &path_announcement(chunk, path_id, route));
        }
    }

    /// Has a peer withdraw prefixes.
    pub fn withdraw(&mut self, peer: usize, prefixes: &[P]) {
        self.withdraw_path(peer, false, prefixes);
    }

    /// A peer withdraws its first or second path of prefixes.
    pub fn withdraw_path(&mut self, peer: usize, is_further: bool, prefixes: &[P]) {
        let path_id = self.peers[peer].path_id(is_further);
        for prefix in prefixes {
            self.paths_of(peer, is_further).remove(prefix);
        }
        for chunk in prefixes.chunks(prefixes_of_a_message(prefixes)) {
            self.say(peer, &withdrawal(chunk, path_id));
        }
    }

    fn paths_of(&mut self, peer: usize, is_further: bool) -> &mut BTreeMap<P, Route> {
        let peer = &mut self.peers[peer];
        if is_further && peer.several { &mut peer.further } else { &mut peer.announced }
    }

    /// A peer answers the router's requests for all routes (RFC 2918); `false` if there are none.
    pub fn answer_refresh(&mut self, peer: usize) -> bool {
        if std::mem::take(&mut self.peers[peer].asked) == 0 {
            return false;
        }
        for is_further in [false, true] {
            let paths = if is_further { &self.peers[peer].further } else { &self.peers[peer].announced };
            for (prefix, route) in paths.clone() {
                let path_id = self.peers[peer].path_id(is_further);
                self.say(peer, &path_announcement(&[prefix], path_id, &route));
            }
        }
        true
    }
}
