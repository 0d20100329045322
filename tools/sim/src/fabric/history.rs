//! The history of a run: a fingerprint of every event and output, and optionally the lines of a log.
//!
//! Two runs with the same seed must have the same fingerprint, on any machine and in any build.

use std::fmt;
use std::io::Write;

/// An odd number with well-mixed bits (the golden ratio).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The destination of the log's lines.
pub type Log = Box<dyn Write + Send>;

/// The history of a world.
pub struct History {
    hash: u64,
    /// Events delivered.
    pub events: u64,
    log: Option<Log>,
}

impl Default for History {
    fn default() -> Self {
        History { hash: MULTIPLIER, events: 0, log: None }
    }
}

impl History {
    /// Writes a line for everything from now on.
    pub fn log_to(&mut self, log: Log) {
        self.log = Some(log);
    }

    /// The fingerprint so far.
    pub const fn hash(&self) -> u64 {
        self.hash
    }

    /// Adds a number.
    #[inline]
    pub const fn mix(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(MULTIPLIER);
        self.hash ^= self.hash >> 29;
    }

    /// Adds octets.
    pub fn octets(&mut self, octets: &[u8]) {
        self.mix(octets.len() as u64);
        let (words, rest) = octets.as_chunks::<8>();
        for word in words {
            self.mix(u64::from_le_bytes(*word));
        }
        self.mix(rest.iter().fold(0, |n, octet| n << 8 | u64::from(*octet)));
    }

    /// Records an event at a router; `what` is the number of the event's kind, `text` describes the event for people.
    pub fn note(&mut self, now: u64, node: u32, what: u8, text: impl FnOnce() -> String) {
        self.mix(now);
        self.mix(u64::from(node) << 8 | u64::from(what));
        if self.log.is_some() {
            self.line(now, format_args!("n{node} {}", text()));
        }
    }

    /// Writes a line of the log only: the line follows from recorded events.
    pub fn line(&mut self, now: u64, text: fmt::Arguments<'_>) {
        let Some(log) = &mut self.log else { return };
        // A log that cannot be written must not change what happens: the run goes on without it.
        if writeln!(log, "{}.{:09} {text}", now / 1_000_000_000, now % 1_000_000_000).is_err() {
            self.log = None;
        }
    }
}
