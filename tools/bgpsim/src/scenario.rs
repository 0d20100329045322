//! The eight scenarios of the thesis's table 2.1 (Wu, Liao, Wolf, Gao: Benchmarking BGP Routers, IISWC 2007), and more.

use std::str::FromStr;
use thiserror::Error;

/// The measured scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scenario {
    /// Routes are announced, in messages as full as possible.
    Announce,
    /// A numbered scenario: odd numbers have a prefix in each message, even numbers have up to 500.
    Numbered(u8),
    /// Routes are announced, then every sender disconnects; the disconnection is measured.
    Lost,
    /// Every sender announces every route, the first sender with the shortest paths; then the first sender
    /// disconnects, which is measured.
    LostBest,
    /// As `LostBest`, but the first sender restarts gracefully (RFC 4724): it comes back and announces the same routes again.
    Restart,
    /// Routes are announced; then single routes, in sequence, each followed to the receiver.
    Latency,
    /// Routes are announced; then a further receiver connects and receives the whole table.
    Late,
}

/// The senders' action in a phase of a scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Act {
    /// Announce routes.
    Announce,
    /// Announce them with paths longer by two.
    AnnounceLonger,
    /// Withdraw them.
    Withdraw,
    /// A second sender announces the same routes, with longer paths: no best path changes.
    AnotherLonger,
    /// A second sender announces the same routes, with shorter paths: every best path changes.
    AnotherShorter,
    /// Be gone.
    Close,
    /// The first sender announces all routes.
    AnnounceByFirst,
    /// The remaining senders announce the routes with longer paths: no best path changes.
    LongerByOthers,
    /// The first sender is gone: every best path changes.
    CloseFirst,
    /// The first sender's connection is lost; the sender connects again, announces all routes and ends with End-of-RIB markers: no best
    /// path changes.
    RestartFirst,
    /// The last sender announces single routes, one after the other.
    Probe,
    /// A further receiver connects.
    Join,
}

/// Prefixes in a large message.
const LARGE: usize = 500;

impl Scenario {
    /// The acts in their order; the last act is measured.
    pub fn acts(self) -> &'static [Act] {
        match self {
            Scenario::Announce | Scenario::Numbered(..=2) => &[Act::Announce],
            Scenario::Numbered(3 | 4) => &[Act::Announce, Act::Withdraw],
            Scenario::Numbered(5 | 6) => &[Act::Announce, Act::AnotherLonger],
            Scenario::Numbered(_) => &[Act::AnnounceLonger, Act::AnotherShorter],
            Scenario::Lost => &[Act::Announce, Act::Close],
            Scenario::Latency => &[Act::Announce, Act::Probe],
            Scenario::Late => &[Act::Announce, Act::Join],
            Scenario::LostBest => &[Act::AnnounceByFirst, Act::LongerByOthers, Act::CloseFirst],
            Scenario::Restart => &[Act::AnnounceByFirst, Act::LongerByOthers, Act::RestartFirst],
        }
    }

    /// Most prefixes in a message of the measured act, if the scenario has a limit.
    pub const fn per_message(self) -> Option<usize> {
        match self {
            Scenario::Numbered(n) => Some(if n % 2 == 1 { 1 } else { LARGE }),
            _ => None,
        }
    }

    /// Prefixes that have to share their attributes for messages of the intended size.
    pub const fn sharing(self) -> Option<usize> {
        match self {
            Scenario::Numbered(n) if n % 2 == 0 => Some(LARGE),
            _ => None,
        }
    }

    /// Returns true if a sender restarts gracefully.
    pub fn restarts(self) -> bool {
        self.acts().contains(&Act::RestartFirst)
    }

    /// Returns true if a sender announces routes of a different sender.
    pub fn needs_two(self) -> bool {
        self.acts().iter().any(|a| a.by_another() || matches!(a, Act::LongerByOthers))
    }
}

impl Act {
    /// For people.
    pub const fn name(self) -> &'static str {
        match self {
            Act::Announce | Act::AnnounceLonger | Act::AnnounceByFirst => "announce",
            Act::Withdraw => "withdraw",
            Act::AnotherLonger | Act::LongerByOthers => "longer path",
            Act::AnotherShorter => "shorter path",
            Act::Close => "lost",
            Act::CloseFirst => "best lost",
            Act::RestartFirst => "best restarts",
            Act::Probe => "single routes",
            Act::Join => "late receiver",
        }
    }

    /// Returns true if receivers get the routes.
    pub const fn is_news(self) -> bool {
        !matches!(self, Act::AnotherLonger | Act::LongerByOthers | Act::RestartFirst | Act::Probe | Act::Join)
    }

    /// Returns true if the sender is not the owner of the route.
    pub const fn by_another(self) -> bool {
        matches!(self, Act::AnotherLonger | Act::AnotherShorter)
    }

    /// Returns true if paths are made longer.
    pub const fn is_longer(self) -> bool {
        matches!(self, Act::AnnounceLonger | Act::AnotherLonger | Act::LongerByOthers)
    }

    /// Returns true if connections are closed.
    pub const fn is_loss(self) -> bool {
        matches!(self, Act::Close | Act::CloseFirst)
    }

    /// Returns true if a sender speaks of a group of routes that belongs to `owner` if each has a part of the table.
    pub const fn concerns(self, sender: usize, owner: usize, is_split: bool) -> bool {
        match self {
            Act::AnnounceByFirst | Act::RestartFirst => sender == 0,
            Act::LongerByOthers => sender != 0,
            _ => !is_split || sender == owner,
        }
    }
}

/// A text names no scenario.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("expected announce, lost, lost-best, restart, latency, late, or one of the eight scenarios: 1 to 8")]
pub struct ScenarioError;

impl FromStr for Scenario {
    type Err = ScenarioError;

    fn from_str(s: &str) -> Result<Self, ScenarioError> {
        match (s, s.parse()) {
            ("announce", _) => Ok(Scenario::Announce),
            ("lost", _) => Ok(Scenario::Lost),
            ("lost-best", _) => Ok(Scenario::LostBest),
            ("restart", _) => Ok(Scenario::Restart),
            ("latency", _) => Ok(Scenario::Latency),
            ("late", _) => Ok(Scenario::Late),
            (_, Ok(n @ 1..=8)) => Ok(Scenario::Numbered(n)),
            _ => Err(ScenarioError),
        }
    }
}

impl std::fmt::Display for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scenario::Announce => f.write_str("announce"),
            Scenario::Numbered(n) => write!(f, "{n}"),
            Scenario::Lost => f.write_str("lost"),
            Scenario::LostBest => f.write_str("lost-best"),
            Scenario::Restart => f.write_str("restart"),
            Scenario::Latency => f.write_str("latency"),
            Scenario::Late => f.write_str("late"),
        }
    }
}
