//! A scenario: a network, and the steps applied to it. Plain data, so that a scenario can be stored, reduced and
//! repeated.

use crate::fabric::WHOLE_WINDOW;
use crate::host::ProcessId;
use crate::network::Network;
use crate::policy::{Direction, Rule};
use crate::world::SECOND;
use serde::{Deserialize, Serialize};
use sluice_base::ip::V4Addr;
use sluice_base::{IpPrefix, Ipv4Prefix, Prefix};
use std::net::Ipv4Addr;

/// A single change of a network.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Time of the step, in milliseconds of virtual time.
    pub at_ms: u64,
    /// The change.
    #[serde(flatten)]
    pub what: What,
}

/// The kinds of changes.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum What {
    /// A router is switched on.
    Boot {
        /// The router.
        node: u32,
    },
    /// A router's power goes.
    CrashNode {
        /// The router.
        node: u32,
    },
    /// A process dies.
    Kill {
        /// The router.
        node: u32,
        /// Which.
        process: ProcessId,
    },
    /// A process is started.
    Start {
        /// The router.
        node: u32,
        /// Which.
        process: ProcessId,
    },
    /// A link is cut in the middle, where no router notices.
    Cut {
        /// The link.
        link: u32,
    },
    /// The link is repaired.
    Heal {
        /// The link.
        link: u32,
    },
    /// Both ends of a link lose the carrier.
    CarrierDown {
        /// The link.
        link: u32,
    },
    /// Both ends have a carrier again.
    CarrierUp {
        /// The link.
        link: u32,
    },
    /// A link gets worse or better.
    Degrade {
        /// The link.
        link: u32,
        /// Lost, in millionths.
        loss: u32,
        /// Overtaken, in millionths.
        reorder: u32,
        /// The link's new delay, in nanoseconds.
        delay: u64,
    },
    /// A router originates a prefix.
    Announce {
        /// The router.
        node: u32,
        /// The prefix.
        prefix: IpPrefix,
    },
    /// A router no longer originates a prefix.
    Withdraw {
        /// The router.
        node: u32,
        /// The prefix.
        prefix: IpPrefix,
    },
    /// A router originates `count` prefixes of a large table, which is the same for every router, and no further
    /// prefix of it.
    Bulk {
        /// The router.
        node: u32,
        /// Number of prefixes, at most [`MOST_BULK`].
        count: u32,
    },
    /// No router originates anything any more.
    Drain,
    /// A neighbor is removed from the configuration of the router at a side of a link.
    RemoveNeighbor {
        /// The link.
        link: u32,
        /// The side, 0 or 1.
        side: u8,
    },
    /// A neighbor is configured again.
    AddNeighbor {
        /// The link.
        link: u32,
        /// The side, 0 or 1.
        side: u8,
    },
    /// A neighbor is enabled or disabled.
    Enable {
        /// The link.
        link: u32,
        /// The side, 0 or 1.
        side: u8,
        /// True if a session is wanted.
        enabled: bool,
    },
    /// Sets or clears next-hop-self towards a neighbor for external routes.
    NextHopSelf {
        /// The link.
        link: u32,
        /// The side, 0 or 1.
        side: u8,
        /// True to set.
        on: bool,
    },
    /// The import or export policy for a neighbor changes.
    Policy {
        /// The link.
        link: u32,
        /// The side, 0 or 1.
        side: u8,
        /// Import or export.
        direction: Direction,
        /// The new policy; empty for none.
        rules: Vec<Rule>,
    },
    /// The operator has a session closed and opened again.
    Reset {
        /// The link.
        link: u32,
        /// The side, 0 or 1.
        side: u8,
    },
    /// The operator asks a neighbor for a route refresh.
    Refresh {
        /// The link.
        link: u32,
        /// The side, 0 or 1.
        side: u8,
    },
}

/// A network and its steps.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Scenario {
    /// The seed of every random choice during the run.
    pub seed: u64,
    /// IPv6 beside IPv4.
    #[serde(default)]
    pub ipv6: bool,
    /// Tables that BGP spreads its prefixes over.
    pub tables: u16,
    /// Background work in a turn.
    pub slice: u32,
    /// The reaction time of a router, in nanoseconds.
    pub reaction: u64,
    /// Octets that BGP writes at a time.
    pub fill: usize,
    /// Proposed hold time in seconds.
    pub hold_time: u16,
    /// Octets in flight that a connection holds.
    #[serde(default = "whole_window", skip_serializing_if = "is_whole_window")]
    pub window: usize,
    /// The network.
    pub network: Network,
    /// The phases of steps. After each phase, the network converges and is checked.
    pub phases: Vec<Vec<Step>>,
}

const fn whole_window() -> usize {
    WHOLE_WINDOW
}

const fn is_whole_window(window: &usize) -> bool {
    *window == WHOLE_WINDOW
}

/// Prefixes of the large table: /24s in 100.64.0.0/10.
pub const MOST_BULK: u32 = 1 << 14;
/// The first prefix of the large table.
const BULK: u32 = 0x6440_0000;

/// A prefix of the large table.
pub fn bulk(number: u32) -> IpPrefix {
    Ipv4Prefix::host(V4Addr(Ipv4Addr::from(BULK + (number << 8)))).truncate(24).into()
}

pub(crate) fn is_bulk(prefix: IpPrefix) -> bool {
    matches!(prefix, IpPrefix::V4(p) if u32::from(p.addr().0) >> 22 == BULK >> 22)
}

/// Phases that a scenario may have.
const MOST_PHASES: usize = 1000;
/// The time when the last step of a phase may be, in milliseconds: after a day.
const MOST_MS: u64 = 86_400_000;
/// Delay of a link, in nanoseconds: a minute.
const MOST_DELAY: u64 = 60 * SECOND;
/// Tables of a router.
const MOST_TABLES: u16 = 1024;

impl Scenario {
    /// Parses the text of a scenario's file.
    pub fn parse(text: &str) -> Result<Self, ScenarioError> {
        let scenario: Scenario = serde_json::from_str(text)?;
        scenario.fault().map_or(Ok(scenario), |fault| Err(ScenarioError::Fault(fault)))
    }

    /// Returns why the scenario cannot run; `None` if it can.
    pub fn fault(&self) -> Option<String> {
        let delays = self.network.links.iter().map(|l| l.delay);
        let steps = || self.phases.iter().flatten();
        let degraded = steps().filter_map(|s| match s.what {
            What::Degrade { delay, .. } => Some(delay),
            _ => None,
        });
        let is_too_large = |s: &Step| matches!(s.what, What::Bulk { count, .. } if count > MOST_BULK);
        let rules = [
            ((1..=MOST_TABLES).contains(&self.tables), format!("tables: from 1 to {MOST_TABLES}")),
            (self.slice > 0, "slice: at least 1".into()),
            (self.fill > 0, "fill: at least 1".into()),
            (self.window > 0, "window: at least 1".into()),
            (self.reaction <= SECOND, format!("reaction: at most {SECOND}")),
            (self.phases.len() <= MOST_PHASES, format!("phases: at most {MOST_PHASES}")),
            (steps().all(|s| s.at_ms <= MOST_MS), format!("at_ms: at most {MOST_MS}")),
            (!steps().any(is_too_large), format!("count: at most {MOST_BULK}")),
            (delays.chain(degraded).all(|d| d <= MOST_DELAY), format!("delay: at most {MOST_DELAY}")),
        ];
        let broken = rules.into_iter().find(|(holds, _)| !holds).map(|(_, rule)| rule);
        self.network.fault().or(broken)
    }
}

/// The reason why a text is no scenario.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The text does not have the form of a scenario.
    #[error("{0}")]
    Form(#[from] serde_json::Error),
    /// The scenario breaks a limit.
    #[error("{0}")]
    Fault(String),
}
