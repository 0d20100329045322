//! The lines that a component writes to its standard output and standard error.
//!
//! A component is somebody else's program, or one of the router's own in the hands of an attacker. Its octets are divided into
//! lines of a bounded length, and the lines of a component that writes too much are left out and counted.

use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use sluice_base::{Duration, Instant};

/// The most octets of a line; the rest is left out.
pub const LONGEST: usize = 16 << 10;
/// The last lines that are written all the same when a process has ended: they may say why.
const LAST: usize = 16;
/// The most octets of such a line.
const LONGEST_LAST: usize = 1024;
/// The end of a line whose rest is left out.
const CUT: &str = " [...]";

/// The most octets that a component writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allowance {
    /// At once.
    pub burst: u64,
    /// In a second.
    pub per_second: u64,
}

impl Allowance {
    /// The allowance of the router's own component, also with all its levels of events.
    pub const OWN: Allowance = Allowance { burst: 4 << 20, per_second: 1 << 20 };
    /// The allowance of a package's component and of a helper.
    pub const OTHER: Allowance = Allowance { burst: 1 << 20, per_second: 16 << 10 };
}

/// The lines of a component.
#[derive(Debug)]
pub struct Lines {
    allowance: Allowance,
    /// Octets that may be written.
    left: u64,
    /// The time up to which the octets are counted.
    counted: Option<Instant>,
    /// The beginning of a line that has not ended.
    begun: Vec<u8>,
    /// True if the rest of the line is left out.
    is_cut: bool,
    /// The number of lines left out since the last line.
    left_out: u64,
    /// The newest lines among those.
    newest: VecDeque<String>,
}

impl Lines {
    /// Makes the lines of a component that has written nothing.
    pub fn new(allowance: Allowance) -> Self {
        let left = allowance.burst;
        Lines {
            allowance,
            left,
            counted: None,
            begun: Vec::new(),
            is_cut: false,
            left_out: 0,
            newest: VecDeque::new(),
        }
    }

    /// Takes octets, and returns the lines that end in them.
    pub fn take(&mut self, now: Instant, octets: &[u8]) -> Vec<String> {
        self.refill(now);
        let mut lines = Vec::new();
        for piece in octets.split_inclusive(|octet| *octet == b'\n') {
            match piece.split_last() {
                Some((b'\n', rest)) => {
                    self.extend(rest);
                    self.end_line(&mut lines);
                }
                _ => self.extend(piece),
            }
        }
        lines
    }

    /// Returns the last lines of a process that has ended: also a line without an end, and the newest of the lines that were left out.
    pub fn end(&mut self, now: Instant) -> Vec<String> {
        self.refill(now);
        let mut lines = Vec::new();
        if !self.begun.is_empty() {
            self.end_line(&mut lines);
        }
        let newest = core::mem::take(&mut self.newest);
        self.left_out = self.left_out.saturating_sub(newest.len() as u64);
        self.report_left_out(&mut lines);
        lines.extend(newest);
        lines
    }

    fn refill(&mut self, now: Instant) {
        let since = self.counted.map_or(Duration::ZERO, |before| now.saturating_since(before));
        let millis = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let more = millis.saturating_mul(self.allowance.per_second) / 1000;
        if more > 0 || self.counted.is_none() {
            self.counted = Some(now);
        }
        self.left = self.left.saturating_add(more).min(self.allowance.burst);
    }

    fn extend(&mut self, octets: &[u8]) {
        let room = LONGEST.saturating_sub(self.begun.len());
        self.is_cut |= octets.len() > room;
        self.begun.extend(octets.iter().take(room));
    }

    fn end_line(&mut self, lines: &mut Vec<String>) {
        let octets = core::mem::take(&mut self.begun);
        let is_cut = core::mem::take(&mut self.is_cut);
        // A line costs its end too, so that empty lines are not free.
        let cost = octets.len() as u64 + 1;
        if cost > self.left {
            self.left_out += 1;
            if self.newest.len() == LAST {
                self.newest.pop_front();
            }
            let end = octets.len().min(LONGEST_LAST);
            self.newest.push_back(String::from_utf8_lossy(&octets[..end]).into_owned());
            return;
        }
        self.left -= cost;
        self.report_left_out(lines);
        let mut line = String::from_utf8_lossy(&octets).trim_end_matches('\r').to_string();
        if is_cut {
            line.push_str(CUT);
        }
        lines.push(line);
    }

    fn report_left_out(&mut self, lines: &mut Vec<String>) {
        self.newest.clear();
        match core::mem::take(&mut self.left_out) {
            0 => {}
            1 => lines.push("1 line was left out: the component writes too much".into()),
            n => lines.push(alloc::format!("{n} lines were left out: the component writes too much")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SMALL: Allowance = Allowance { burst: 100, per_second: 10 };

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(ms)
    }

    #[test]
    fn lines_end_where_they_end() {
        let mut lines = Lines::new(Allowance::OTHER);
        assert_eq!(lines.take(at(0), b"one\ntw"), ["one"]);
        assert_eq!(lines.take(at(0), b"o\r\n\n\xff\n"), ["two", "", "\u{fffd}"]);
        assert!(lines.take(at(0), b"last words").is_empty());
        assert_eq!(lines.end(at(0)), ["last words"]);
        assert!(lines.end(at(0)).is_empty());
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let mut lines = Lines::new(Allowance::OWN);
        for _ in 0..100 {
            assert!(lines.take(at(0), &[b'x'; 1000]).is_empty());
        }
        let found = lines.take(at(0), b"\nshort\n");
        assert_eq!((found[0].len(), found[1].as_str()), (LONGEST + CUT.len(), "short"));
    }

    #[test]
    fn too_many_lines_are_left_out_and_counted() {
        let mut lines = Lines::new(SMALL);
        let flood = b"123456789\n".repeat(1000);
        assert_eq!(lines.take(at(0), &flood).len(), 10);
        assert!(lines.take(at(500), &flood).is_empty());
        let mut ended = Lines::new(SMALL);
        ended.take(at(0), &flood);
        assert!(ended.take(at(0), b"last words").is_empty());
        let end = ended.end(at(0));
        assert_eq!(end[0], "975 lines were left out: the component writes too much");
        assert_eq!((end.len(), end[LAST].as_str()), (LAST + 1, "last words"));
        let later = lines.take(at(1000), b"123456789\n");
        assert_eq!(later, ["1990 lines were left out: the component writes too much", "123456789"]);
    }

    proptest! {
        /// Any octets in any pieces: no line has an end within, memory and output have bounds.
        #[test]
        fn any_octets_have_bounds(pieces in prop::collection::vec((0u64..3000, prop::collection::vec(any::<u8>(), 0..400)), 0..60)) {
            let mut lines = Lines::new(SMALL);
            let (mut now, mut written) = (0, 0);
            for (wait, octets) in &pieces {
                now += wait;
                for line in lines.take(at(now), octets) {
                    prop_assert!(!line.contains('\n'));
                    written += usize::from(!line.contains("left out")) * (line.len() / 3 + 1);
                }
                prop_assert!(lines.begun.len() <= LONGEST);
            }
            prop_assert!(written as u64 <= SMALL.burst + now * SMALL.per_second / 1000 + pieces.len() as u64);
        }
    }
}
