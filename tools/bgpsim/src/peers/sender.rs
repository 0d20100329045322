//! The sending side: sends the plan's messages in their order and at their speed.

use crate::order::{Schedule, Turn};
use crate::peers::session::Session;
use crate::stream::Stream;
use anyhow::{Result, anyhow};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Octets to write at a time, if the order allows.
const PIECE: usize = 1 << 18;
/// The longest time until a waiting sender notices the end of the run.
const GLANCE: Duration = Duration::from_millis(50);

/// The speed at which a trace is sent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Speed {
    /// As fast as the target reads.
    Full,
    /// With the trace's own pauses, divided by the factor.
    Original(f64),
}

/// A text names no speed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("expected full, original, or how many times as fast: 10x")]
pub struct SpeedError;

impl FromStr for Speed {
    type Err = SpeedError;

    fn from_str(s: &str) -> Result<Self, SpeedError> {
        match s {
            "full" => Ok(Speed::Full),
            "original" => Ok(Speed::Original(1.0)),
            _ => match s.strip_suffix('x').map(str::parse) {
                Some(Ok(factor)) if factor > 0.0 && f64::is_finite(factor) => Ok(Speed::Original(factor)),
                _ => Err(SpeedError),
            },
        }
    }
}

impl std::fmt::Display for Speed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Speed::Full => f.write_str("full"),
            Speed::Original(1.0) => f.write_str("original"),
            Speed::Original(factor) => write!(f, "{factor}x"),
        }
    }
}

/// The senders of a phase.
pub struct Senders<'a> {
    /// The senders' sessions.
    pub sessions: &'a [Arc<Session>],
    /// The senders' messages.
    pub streams: &'a [Stream],
    /// The speed.
    pub speed: Speed,
    /// The time when the phase began.
    pub begin: Instant,
    /// Set when the senders should give up.
    pub over: &'a AtomicBool,
}

impl Senders<'_> {
    /// Sends everything; returns when the last octet has been taken by the system.
    pub fn run(&self, schedule: &Schedule) -> Result<()> {
        match schedule {
            Schedule::Turns(turns) => self.turns(turns),
            Schedule::Threads(groups) => groups.iter().try_for_each(|group| self.beside_each_other(group)),
        }
    }

    fn turns(&self, turns: &[Turn]) -> Result<()> {
        let mut next = vec![0; self.streams.len()];
        for Turn { peer, messages } in turns {
            let from = next[*peer];
            next[*peer] += messages;
            self.some(*peer, from, next[*peer])?;
        }
        Ok(())
    }

    fn beside_each_other(&self, group: &[usize]) -> Result<()> {
        std::thread::scope(|threads| {
            let each =
                group.iter().map(|peer| threads.spawn(|| self.some(*peer, 0, self.streams[*peer].len())));
            let all: Vec<_> = each.collect();
            all.into_iter().try_for_each(|t| t.join().map_err(|_| anyhow!("a sender panicked"))?)
        })
    }

    /// Sends some messages of a peer.
    fn some(&self, peer: usize, mut from: usize, to: usize) -> Result<()> {
        let (stream, session) = (&self.streams[peer], &self.sessions[peer]);
        while from < to && !self.over.load(Ordering::Relaxed) {
            let until = match self.speed {
                Speed::Full => stream.piece(from, to, PIECE),
                Speed::Original(factor) => {
                    let due = self.begin + due(stream, from, factor);
                    if let wait @ 1.. = due.saturating_duration_since(Instant::now()).as_nanos() {
                        let wait = Duration::from_nanos(u64::try_from(wait).unwrap_or(u64::MAX));
                        std::thread::sleep(wait.min(GLANCE));
                        continue;
                    }
                    from + 1
                }
            };
            session.send(stream.octets(from..until), stream.prefixes(from..until))?;
            from = until;
        }
        Ok(())
    }
}

/// Returns the time when a message is due. Messages without a stamp follow the stamped messages.
fn due(stream: &Stream, message: usize, factor: f64) -> Duration {
    let time = stream.seen(message).map_or(0, |stamp| stamp.time);
    Duration::from_secs_f64(time as f64 / 1e6 / factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds() {
        for (text, expected) in
            [("full", Speed::Full), ("original", Speed::Original(1.0)), ("2.5x", Speed::Original(2.5))]
        {
            assert_eq!(text.parse::<Speed>(), Ok(expected));
            assert_eq!(expected.to_string(), text);
        }
        for text in ["", "fast", "0x", "-1x", "infx", "x", "NaNx"] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
    }
}
