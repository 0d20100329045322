//! Two layouts of the cache of answers, probed as the program probes: slots of two words (a tag, an answer), four a line, and slots of
//! one word (a tag of 42 bits, an answer of 21 bits, the mark of a hit), eight a line. On one core, without a network and without the
//! hashing of rows, which is the same for both: the time of a look-up alone. Lines are those that hold the rows at most half full.

use crate::slow_path::cpu;
use anyhow::{Result, ensure};
use bench_report::{Report, median, table};
use serde_json::json;
use sluice_base::Rng;
use sluice_pktgen::destinations::zipf;
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicU64, Ordering};

/// Rows: the domains of the paper, and the prefixes of the Internet.
const ROWS: [u32; 2] = [462_150, 1_042_325];
/// Exponents of Zipf's distribution.
const EXPONENTS: [f64; 5] = [0.0, 0.5, 1.0, 1.5, 2.0];
/// Words of a line: one line of the processor's cache.
const LINE: usize = 8;
/// The lowest bit of a tag, which marks a hit.
const USED: u64 = 1;
/// Bits of an answer in a slot of one word: the action, the edge, and an index of 16 bits.
const ANSWER_BITS: u32 = 21;

/// A layout of slots in a line.
trait Layout {
    /// Slots of a line.
    const SLOTS: usize;
    /// Returns the answer of a row by the row's tag.
    fn find(line: &[AtomicU64; LINE], tag: u64) -> Option<u64>;
    /// Stores a row. Returns false if the line is full.
    fn put(line: &[AtomicU64; LINE], tag: u64, answer: u64) -> bool;
}

/// A tag and an answer, a word each: today's layout.
struct TwoWords;
/// A tag and an answer in one word.
struct OneWord;

impl Layout for TwoWords {
    const SLOTS: usize = LINE / 2;

    #[inline(always)]
    fn find(line: &[AtomicU64; LINE], tag: u64) -> Option<u64> {
        let wanted = tag & !USED;
        for slot in line.as_chunks::<2>().0 {
            let found = slot[0].load(Ordering::Relaxed);
            if found & !USED != wanted {
                continue;
            }
            let answer = slot[1].load(Ordering::Relaxed);
            // The process clears the tag before it stores another row's answer.
            if slot[0].load(Ordering::Relaxed) & !USED != wanted {
                return None;
            }
            if found & USED == 0 {
                slot[0].fetch_or(USED, Ordering::Relaxed);
            }
            return Some(answer);
        }
        None
    }

    fn put(line: &[AtomicU64; LINE], tag: u64, answer: u64) -> bool {
        let free = line.as_chunks::<2>().0.iter().find(|slot| slot[0].load(Ordering::Relaxed) == 0);
        let Some(slot) = free else { return false };
        slot[1].store(answer, Ordering::Relaxed);
        slot[0].store(tag & !USED, Ordering::Relaxed);
        true
    }
}

impl OneWord {
    /// Returns the tag in its place. Bits of a sum of products alone would collide more often than its length suggests: a multiplication by
    /// an odd random number spreads the sum first, of which the high bits are taken.
    #[inline(always)]
    fn place(tag: u64) -> u64 {
        tag.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (ANSWER_BITS + 1) << (ANSWER_BITS + 1)
    }
}

impl Layout for OneWord {
    const SLOTS: usize = LINE;

    #[inline(always)]
    fn find(line: &[AtomicU64; LINE], tag: u64) -> Option<u64> {
        let wanted = OneWord::place(tag);
        for slot in line {
            let found = slot.load(Ordering::Relaxed);
            if (found ^ wanted) >> (ANSWER_BITS + 1) != 0 {
                continue;
            }
            if found & USED == 0 {
                slot.fetch_or(USED, Ordering::Relaxed);
            }
            return Some(found >> 1 & ((1 << ANSWER_BITS) - 1));
        }
        None
    }

    fn put(line: &[AtomicU64; LINE], tag: u64, answer: u64) -> bool {
        let Some(slot) = line.iter().find(|slot| slot.load(Ordering::Relaxed) == 0) else { return false };
        slot.store(OneWord::place(tag) | answer << 1, Ordering::Relaxed);
        true
    }
}

/// A line begins where the processor's line begins.
#[repr(align(64))]
struct Line([AtomicU64; LINE]);

struct Cache {
    lines: Vec<Line>,
    /// 64 less the bits of a line's number.
    shift: u32,
    /// Rows that found a free slot.
    kept: u32,
}

/// Returns the two hashes of a row: uniform, as those of the program are.
#[inline(always)]
fn hashes(row: u32) -> (u64, u64) {
    let mix = |value: u64| {
        let value = (value ^ value >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (value ^ value >> 29).wrapping_mul(0x94d0_49bb_1331_11eb)
    };
    let value = (u64::from(row) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mix(value), mix(!value) | 2)
}

fn fill<L: Layout>(rows: u32) -> Cache {
    let lines = (2 * rows as usize / L::SLOTS).next_power_of_two();
    let empty = || Line([const { AtomicU64::new(0) }; LINE]);
    let mut cache =
        Cache { lines: (0..lines).map(|_| empty()).collect(), shift: 64 - lines.ilog2(), kept: 0 };
    for row in 0..rows {
        let (line, tag) = hashes(row);
        let line = &cache.lines[(line >> cache.shift) as usize];
        cache.kept += u32::from(L::put(&line.0, tag, u64::from(row & 0xffff) << 5 | 2));
    }
    cache
}

/// Returns nanoseconds a look-up. With `waits`, each look-up begins when the one before has its answer: a program that has nothing else to do
/// meanwhile. Without, the processor overlaps look-ups as far as it can: a program with short work between.
fn probe<L: Layout>(cache: &Cache, ring: &[u32], waits: bool) -> Result<f64> {
    let (mut sum, mut last) = (0_u64, 0_u64);
    let begin = cpu()?;
    for row in ring {
        // No answer has the highest bit, which the compiler must not know.
        let row = if waits { row ^ (black_box(last) >> 63) as u32 } else { *row };
        let (line, tag) = hashes(row);
        last = L::find(&cache.lines[(line >> cache.shift) as usize].0, tag).unwrap_or_default();
        sum = sum.wrapping_add(last);
    }
    let spent = cpu()? - begin;
    ensure!(black_box(sum) > 0, "no row was found");
    Ok(spent.as_secs_f64() * 1e9 / ring.len() as f64)
}

/// Measures, prints and reports.
pub fn run(rounds: usize, report: &mut Report) -> Result<()> {
    for rows in ROWS {
        let (two, one) = (fill::<TwoWords>(rows), fill::<OneWord>(rows));
        let megabytes = |cache: &Cache| (cache.lines.len() * size_of::<Line>()) >> 20;
        let share = |cache: &Cache| 100.0 * f64::from(cache.kept) / f64::from(rows);
        println!(
            "{rows} rows: two words {} MiB, {:.2} % of the rows kept; one word {} MiB, {:.2} %",
            megabytes(&two),
            share(&two),
            megabytes(&one),
            share(&one)
        );
        let all: Vec<IpAddr> = (0..rows).map(|row| Ipv4Addr::from_bits(row).into()).collect();
        let mut lines = Vec::new();
        for exponent in EXPONENTS {
            let draws = zipf(&all, exponent, &mut Rng::from_seed(7));
            let number = |address: &IpAddr| match address {
                IpAddr::V4(address) => address.to_bits(),
                IpAddr::V6(_) => 0,
            };
            let ring: Vec<u32> = draws.iter().map(number).collect();
            let mut line = vec![exponent.to_string()];
            for waits in [true, false] {
                let (mut old, mut new) = (Vec::new(), Vec::new());
                // The first round warms up.
                for round in 0..=rounds {
                    let pair =
                        [probe::<TwoWords>(&two, &ring, waits)?, probe::<OneWord>(&one, &ring, waits)?];
                    if round > 0 {
                        old.push(pair[0]);
                        new.push(pair[1]);
                    }
                }
                let (old, new) = (median(&old), median(&new));
                line.extend([format!("{old:.1}"), format!("{new:.1}"), format!("{:.2}", new / old)]);
                report.row(json!({
                    "what": "slots", "rows": rows, "exponent": exponent, "waits": waits, "two_words_ns": old,
                    "one_word_ns": new, "runs": rounds,
                }));
            }
            lines.push(line);
        }
        let head = [
            "Zipf exponent",
            "two words, ns in turn",
            "one word",
            "ratio",
            "two words, ns overlapped",
            "one word",
            "ratio",
        ];
        println!("{}", table(&head, &lines));
    }
    Ok(())
}
