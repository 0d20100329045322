//! Useful rows in a flood of unique rows, without a network: the hits of the useful rows, with and without admission by frequency.
//! The flood comes from one sender: with a budget, the program hands only so many of its packets up, and drops the others.

use crate::domains::Domains;
use crate::rows;
use crate::xia::MOST_LINKS;
use anyhow::Result;
use bench_report::{Bar, Report, table};
use serde_json::json;
use sluice_base::{Instant, Rng};
use sluice_pktgen::XipFormat;
use sluice_pktgen::destinations::zipf;
use sluice_xip::answers::Answers;
use sluice_xip::cache::{Cache, HashKey, Lines, SLOTS_PER_LINE, TAG_USED};
use std::cell::Cell;
use std::net::IpAddr;
use std::rc::Rc;

/// Lines of the cache as a power of two: the default of the configuration.
const LINE_BITS: u32 = 16;
/// Words of a slot.
const SLOT_WORDS: usize = 2;
/// The most domains of the useful packets; the cache has twice as many slots and more.
const MOST_USEFUL: usize = 100_000;
/// Useful packets a second of the modeled time; the flood has ten times as many.
const USEFUL_PER_SECOND: usize = 100_000;
const FLOOD_FACTOR: usize = 10;
/// Packets a second that one sender may have decided on: the default of the configuration.
const BUDGET: usize = 50_000;
/// The modeled time before hits count, and in which they count, in tenths of a second: the cache is swept ten times a second.
const BEFORE: usize = 50;
const COUNTED: usize = 50;
/// Slots that the machine sweeps at once.
const SWEPT: usize = 1 << 13;

/// The memory of the cache, in which the model marks hits as the program does.
#[derive(Clone)]
struct SharedLines(Rc<[Cell<u64>]>);

impl Lines for SharedLines {
    fn load(&self, word: usize) -> u64 {
        self.0.get(word).map_or(0, Cell::get)
    }

    fn store(&mut self, word: usize, value: u64) {
        if let Some(place) = self.0.get(word) {
            place.set(value);
        }
    }

    fn lines(&self) -> usize {
        self.0.len() / SLOTS_PER_LINE / SLOT_WORDS
    }
}

/// Measures, prints and reports.
pub fn run(domains: &Domains, report: &mut Report) -> Result<()> {
    let useful: Vec<IpAddr> = domains.destinations.iter().take(MOST_USEFUL).copied().collect();
    let ring = zipf(&useful, 1.0, &mut Rng::from_seed(45));
    let flood = USEFUL_PER_SECOND * FLOOD_FACTOR;
    let quiet = hit_rate(&useful, &ring, 0, true)?;
    let without = hit_rate(&useful, &ring, flood, false)?;
    let admission = hit_rate(&useful, &ring, flood, true)?;
    let budget = hit_rate(&useful, &ring, flood.min(BUDGET), false)?;
    let both = hit_rate(&useful, &ring, flood.min(BUDGET), true)?;
    let line = |what: &str, rate: f64| {
        vec![what.to_owned(), format!("{:.1} %", 100.0 * rate), format!("{:.2}", rate / quiet)]
    };
    let lines = [
        line("no flood", quiet),
        line("flood, neither admission nor budget", without),
        line("flood, admission by frequency", admission),
        line("flood, a budget for the sender", budget),
        line("flood, both", both),
    ];
    println!(
        "{}",
        table(
            &["flood of unique rows, ten times the useful rate", "hits of useful rows", "to no flood"],
            &lines
        )
    );
    report.row(json!({
        "what": "flood", "useful_rows": useful.len(), "slots": SLOTS_PER_LINE << LINE_BITS,
        "hit_rate": both, "hit_rate_without_flood": quiet, "hit_rate_with_neither": without,
        "hit_rate_with_admission": admission, "hit_rate_with_budget": budget,
    }));
    report.bar(Bar::higher("xia.flood_hit_rate", both / quiet, "", 0.90));
    Ok(())
}

/// Returns the share of the useful packets that find their row in the cache, while `flood` packets a second with rows of their own come
/// between.
fn hit_rate(useful: &[IpAddr], ring: &[IpAddr], flood: usize, has_admission: bool) -> Result<f64> {
    let octets = |address: &IpAddr| match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(_) => [0; 4],
    };
    let mut router = rows::router(XipFormat::Fb0)?;
    for (number, address) in useful.iter().enumerate() {
        rows::redirect(&mut router, octets(address), number % rows::WAYS)?;
    }
    let mut random = Rng::from_seed(46);
    let memory = SharedLines((0..(SLOT_WORDS * SLOTS_PER_LINE) << LINE_BITS).map(|_| Cell::new(0)).collect());
    let mut cache = Cache::new(memory.clone(), LINE_BITS, HashKey::draw(|| random.next_u64()));
    cache.set_admission(has_admission);
    let mut answers = Answers::new(router, MOST_LINKS, rows::SEED);
    answers.set_cache(Some(cache));
    let mut packets = ring.iter().cycle();
    let (mut hits, mut counted, mut due) = (0_u64, 0_u64, 0);
    for tenth in 0..BEFORE + COUNTED {
        for address in packets.by_ref().take(USEFUL_PER_SECOND / 10) {
            let row = rows::row(XipFormat::Fb0, octets(address));
            let found = answers.cache().and_then(|cache| cache.find(&row));
            if let Some(id) = found {
                let place = memory.0.get(id.0 as usize * SLOT_WORDS);
                place.inspect(|place| place.set(place.get() | TAG_USED));
            } else {
                answers.answer(Instant::ZERO, &row);
            }
            if tenth >= BEFORE {
                counted += 1;
                hits += u64::from(found.is_some());
            }
            due += flood;
            while due >= USEFUL_PER_SECOND {
                due -= USEFUL_PER_SECOND;
                let mut row = rows::row(XipFormat::Fb0, [0; 4]);
                if let Some(edge) = row.edges.first_mut() {
                    // A chosen ID: no other packet has it.
                    edge.xid.id[4..12].copy_from_slice(&random.next_u64().to_be_bytes());
                }
                answers.answer(Instant::ZERO, &row);
            }
        }
        answers.sweep(SWEPT);
    }
    Ok(hits as f64 / counted as f64)
}
