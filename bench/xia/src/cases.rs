//! The parts of the benchmark, the stacks, and the measurements of each stack.

use crate::rows;
use clap::ValueEnum;
use sluice_pktgen::XipFormat;

/// A part of the benchmark.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, ValueEnum)]
pub enum Part {
    /// Decisions on rows that were never seen.
    SlowPath,
    /// Packets that come up through sockets, by AF_XDP and by the packet socket.
    Sockets,
    /// Useful rows in a flood of unique rows.
    Flood,
    /// Layouts of the cache's slots; only on demand.
    Slots,
    /// Exponents of Zipf's distribution: figure 5, right.
    Zipf,
    /// Forms of address and rates of updates: figure 5, left.
    Updates,
    /// Sizes of frames.
    Sizes,
    /// Ports out of the router.
    Ports,
}

impl Part {
    /// The parts of a benchmark.
    pub const ALL: [Part; 6] =
        [Part::SlowPath, Part::Sockets, Part::Flood, Part::Zipf, Part::Updates, Part::Sizes];
    /// The parts of the figure: both panels, and the parameters that the paper's text names besides.
    pub const FIGURES: [Part; 4] = [Part::Zipf, Part::Updates, Part::Sizes, Part::Ports];
}

/// A router and the packets that it forwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stack {
    /// IPv4 by the kernel.
    Kernel,
    /// IPv4 by Sluice's fast path.
    FastIp,
    /// XIP by Sluice.
    Xip(XipFormat),
}

impl Stack {
    /// All stacks of the benchmark.
    pub const ALL: [Stack; 5] = [
        Stack::Kernel,
        Stack::FastIp,
        Stack::Xip(XipFormat::Fb0),
        Stack::Xip(XipFormat::Fb3),
        Stack::Xip(XipFormat::Via),
    ];

    /// Returns the name for people.
    pub fn name(self) -> String {
        match self {
            Stack::Kernel => "kernel IPv4".into(),
            Stack::FastIp => "Sluice IPv4".into(),
            Stack::Xip(format) => format!("Sluice {}", format.name()),
        }
    }

    /// Returns true for the stacks whose rate is asked for at every exponent and size.
    const fn is_in_sweeps(self) -> bool {
        !matches!(self, Stack::Xip(XipFormat::Fb3 | XipFormat::Via))
    }

    /// Returns the least octets of a frame.
    pub const fn least_octets(self) -> u16 {
        match self {
            Stack::Kernel | Stack::FastIp => 60,
            Stack::Xip(format) => format.header_octets() as u16,
        }
    }
}

/// A measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Case {
    /// The part.
    pub part: Part,
    /// The exponent of Zipf's distribution.
    pub exponent: f64,
    /// Octets of a frame without its check sequence.
    pub size: u16,
    /// Updates of routes a second.
    pub updates: u32,
    /// Ports out of the router.
    pub ports: usize,
}

impl Case {
    /// Returns true if the case is measured for a stack.
    pub fn concerns(&self, stack: Stack) -> bool {
        stack.least_octets() <= self.size && (self.part == Part::Updates || stack.is_in_sweeps())
    }
}

/// The exponents of the paper's claims, and of the whole figure.
const EXPONENTS: [f64; 5] = [0.0, 0.5, 0.8, 1.0, 1.2];
const ALL_EXPONENTS: [f64; 10] = [0.0, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0];
/// The fixed parameters of the figure.
const EXPONENT: f64 = 1.0;
const SIZE: u16 = 256;
/// Ports out: of the paper, and of a run without figures.
const PAPER_PORTS: usize = 4;
const SHORT_PORTS: usize = rows::WAYS;
const PORTS: [usize; 4] = [1, 2, 4, 8];

const UPDATES: [u32; 4] = [0, 1_000, 10_000, MOST_UPDATES];
/// The highest rate of updates.
pub const MOST_UPDATES: u32 = 100_000;
const SIZES: [u16; 5] = [64, 128, 512, 1024, 1500];

/// Returns the measurements of some parts.
pub fn list(parts: &[Part], is_long: bool) -> Vec<Case> {
    let ports = if is_long { PAPER_PORTS } else { SHORT_PORTS };
    let fixed = |part| Case { part, exponent: EXPONENT, size: SIZE, updates: 0, ports };
    let mut cases = Vec::new();
    if parts.contains(&Part::Zipf) {
        let exponents = if is_long { &ALL_EXPONENTS[..] } else { &EXPONENTS };
        cases.extend(exponents.iter().map(|exponent| Case { exponent: *exponent, ..fixed(Part::Zipf) }));
    }
    if parts.contains(&Part::Sizes) {
        cases.extend(SIZES.map(|size| Case { size, ..fixed(Part::Sizes) }));
    }
    if parts.contains(&Part::Ports) {
        cases.extend(PORTS.map(|ports| Case { ports, ..fixed(Part::Ports) }));
    }
    if parts.contains(&Part::Updates) {
        cases.extend(UPDATES.map(|updates| Case { updates, ..fixed(Part::Updates) }));
    }
    cases
}
