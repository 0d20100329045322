//! The reported effects of a commit, and the observed effects.

use serde_json::Value;
use sluice_config::Impact;
use std::collections::{BTreeMap, BTreeSet};

/// The effects reported by `commit check`.
#[derive(PartialEq, Eq, Debug, Default)]
pub struct Reported {
    /// Neighbors whose sessions end, begin, or both.
    pub sessions: BTreeSet<String>,
    /// Neighbors that receive their routes anew.
    pub refiltered: BTreeSet<String>,
    /// Interrupted interfaces.
    pub interfaces: BTreeSet<String>,
    /// Components to be restarted, started or ended.
    pub components: BTreeSet<String>,
}

/// The effects observed on the wire, of processes and in the kernel.
#[derive(Debug, Default)]
pub struct Touched {
    /// Neighbors with a connection or session that began or ended.
    pub sessions: BTreeSet<String>,
    /// Neighbors to which the router sent UPDATEs, with the prefixes in the UPDATEs.
    pub sent: BTreeMap<String, BTreeSet<String>>,
    /// Interfaces that went down or lost an address.
    pub interfaces: BTreeSet<String>,
    /// Components whose process was replaced, ended or started.
    pub processes: BTreeSet<String>,
    /// Prefixes of routes that changed in the kernel.
    pub kernel: BTreeSet<String>,
    /// True after any event: a packet other than a KEEPALIVE, or an event of the kernel.
    pub any: bool,
}

impl Reported {
    /// Reads the effects printed by the command line as JSON.
    pub fn of(effects: &Value) -> Self {
        let mut reported = Reported::default();
        for of_component in effects.as_array().unwrap() {
            let component = of_component["component"].as_str().unwrap();
            for effect in of_component["effects"].as_array().unwrap() {
                let subjects = effect["subjects"].as_array().unwrap().iter();
                let subjects = subjects.map(|s| s.as_str().unwrap().to_string());
                match effect["kind"].as_str().unwrap() {
                    "session-reset" => reported.sessions.extend(subjects),
                    "filtered-again" => reported.refiltered.extend(subjects),
                    "restarted" => reported.components.extend(subjects),
                    "interrupted" => reported.interfaces.extend(subjects),
                    "started" | "stopped" => {
                        let (own, neighbors): (BTreeSet<_>, BTreeSet<_>) =
                            subjects.partition(|s| s == component);
                        reported.components.extend(own);
                        reported.sessions.extend(neighbors);
                    }
                    // A neighbor that is asked for its routes announces what it announced before.
                    "refreshed" => {}
                    // A sentence for people: a preferred source that no interface has.
                    "note" => {}
                    other => panic!("an effect that this test does not know: {other}"),
                }
            }
        }
        reported
    }

    /// Returns true if every reported effect was observed.
    pub fn is_seen_in(&self, touched: &Touched) -> bool {
        self.sessions.is_subset(&touched.sessions)
            && self.refiltered.iter().all(|n| touched.sent.contains_key(n))
            && self.interfaces.is_subset(&touched.interfaces)
            && self.components.is_subset(&touched.processes)
    }
}

impl Touched {
    /// Returns true if any neighbor received an UPDATE for each of the prefixes.
    pub fn has_sent(&self, prefixes: &BTreeSet<String>) -> bool {
        prefixes.iter().all(|prefix| self.sent.values().any(|sent| sent.contains(prefix)))
    }

    /// Returns true if the announced effects of a class have happened.
    pub fn shows(&self, impact: Impact) -> bool {
        match impact {
            Impact::None => !self.any,
            Impact::Soft => true,
            Impact::Refilter => !self.sent.is_empty(),
            Impact::Reset => !self.sessions.is_empty() || !self.interfaces.is_empty(),
            Impact::Restart => !self.processes.is_empty(),
        }
    }
}
