//! The campaigns: data. A long test names its campaign with `sluice_testkit::long!`.

use std::time::Duration;

/// A campaign: long tests, or a command, in steps with a record each.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The name, as `long!` and `--only` have it.
    pub name: &'static str,
    /// The checked property.
    pub description: &'static str,
    /// The kind of steps.
    pub kind: Kind,
    /// The longest time of a step, without builds.
    pub bound: Duration,
}

/// The kind of a campaign's steps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Long tests that run the release executable; each test is a step.
    Routers,
    /// Long tests that compute by themselves, built with optimization; each test is a step.
    Optimized,
    /// Simulated networks with random faults: `seeds` networks, `step` of them in a step.
    Simulator {
        /// The number of networks.
        seeds: u64,
        /// The networks of a step.
        step: u64,
    },
    /// Every fuzz target, each a step of so many seconds.
    Fuzz {
        /// The seconds of a target.
        seconds: u64,
    },
    /// All lists of seeded bugs, in steps of so many bugs.
    Mutate {
        /// The bugs of a step.
        step: usize,
    },
}

impl Kind {
    /// Returns true if the steps are long tests.
    pub const fn has_tests(self) -> bool {
        matches!(self, Kind::Routers | Kind::Optimized)
    }
}

const fn minutes(minutes: u64) -> Duration {
    Duration::from_secs(60 * minutes)
}

const fn campaign(
    name: &'static str,
    kind: Kind,
    minutes_of_a_step: u64,
    description: &'static str,
) -> Campaign {
    Campaign { name, description, kind, bound: minutes(minutes_of_a_step) }
}

/// All campaigns. Those that have never run begin in this order.
pub const CAMPAIGNS: &[Campaign] = &[
    campaign(
        "kills at full table",
        Kind::Routers,
        30,
        "no packet is lost while each process is killed and replaced under the Internet's table",
    ),
    campaign(
        "cluster kills",
        Kind::Routers,
        30,
        "no packet is lost while each process of each role is killed",
    ),
    campaign("cluster losses", Kind::Routers, 30, "lost machines and links cost other neighbors no session"),
    campaign(
        "cluster leave",
        Kind::Routers,
        30,
        "elements of each role leave and join without a lost packet",
    ),
    campaign(
        "cluster commit steps",
        Kind::Routers,
        60,
        "a commit for all elements survives kills at each step",
    ),
    campaign("cluster rates", Kind::Routers, 30, "rates of a router of many machines at full table"),
    campaign("same octets", Kind::Routers, 30, "whole traces: neighbors receive from Sluice what BIRD sends"),
    campaign(
        "rpki table",
        Kind::Routers,
        30,
        "the Internet's table under 400,000 payloads, beside BIRD and FRR",
    ),
    campaign(
        "many readers",
        Kind::Routers,
        30,
        "51 neighbors of the Internet's table, silent and flapping ones",
    ),
    campaign("mutated updates", Kind::Routers, 60, "100,000 mutated UPDATEs harm no other neighbor"),
    campaign("exchange lan", Kind::Routers, 20, "a route server with 30 members"),
    campaign("listen ranges", Kind::Routers, 20, "a thousand neighbors of a range"),
    campaign(
        "redistribution",
        Kind::Routers,
        40,
        "150 random changes, kills and restarts of redistributing components",
    ),
    campaign(
        "restart time",
        Kind::Routers,
        20,
        "routes of a neighbor that stays away go after its restart time",
    ),
    campaign("policy proof", Kind::Routers, 60, "whole traces under the policies of FRR and BIRD"),
    campaign("refilter", Kind::Routers, 20, "a changed policy at the Internet's table"),
    campaign("forwarding", Kind::Routers, 30, "XDP at full rate while processes die and hosts are silent"),
    campaign(
        "lookups",
        Kind::Optimized,
        60,
        "10,000,000 lookups beside the kernel's, with the Internet's tables",
    ),
    campaign("many elements", Kind::Optimized, 20, "clusters of 64 balancers and 64 routers in virtual time"),
    campaign("flapping routes", Kind::Optimized, 20, "damping with a million histories"),
    campaign(
        "simulated networks",
        Kind::Simulator { seeds: 2000, step: 250 },
        15,
        "2,000 small networks with random faults",
    ),
    campaign("fuzz", Kind::Fuzz { seconds: 600 }, 15, "each decoder under mutation for 10 minutes"),
    campaign("seeded bugs", Kind::Mutate { step: 50 }, 90, "tests find the bugs of all lists"),
];

/// Returns the campaign with a name.
pub fn named(name: &str) -> Option<&'static Campaign> {
    CAMPAIGNS.iter().find(|campaign| campaign.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_distinct() {
        let names: std::collections::BTreeSet<_> = CAMPAIGNS.iter().map(|campaign| campaign.name).collect();
        assert_eq!(names.len(), CAMPAIGNS.len());
        assert!(named("fuzz").is_some() && named("none").is_none());
    }
}
