//! Decisions on rows that were never seen, on one core and without a network: three unknown domains, then a domain that is redirected
//! to a host.

use crate::domains::Domains;
use crate::rows;
use crate::xia::MOST_LINKS;
use anyhow::{Context, Result, ensure};
use bench_report::{Bar, Report, median, number, table};
use nix::time::{ClockId, clock_gettime};
use serde_json::json;
use sluice_base::{Instant, Rng};
use sluice_pktgen::XipFormat;
use sluice_xip::Row;
use sluice_xip::anchor::Deps;
use sluice_xip::answers::Answers;
use sluice_xip::cache::{Cache, HashKey, SLOTS_PER_LINE};
use sluice_xip::router::Outcome;
use std::time::Duration;

/// Lines of the cache as a power of two.
const LINE_BITS: u32 = 19;
/// Words of a slot.
pub const SLOT_WORDS: usize = 2;

/// Measures, prints and reports.
pub fn run(domains: &Domains, rounds: usize, report: &mut Report) -> Result<()> {
    let rows: Vec<Row> = domains.octets().map(|octets| rows::row(XipFormat::Fb3, octets)).collect();
    let (mut decisions, mut kept) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut router = rows::router(XipFormat::Fb3)?;
        for (n, octets) in domains.octets().enumerate() {
            rows::redirect(&mut router, octets, n % rows::WAYS)?;
        }
        let mut deps = Deps::default();
        let begin = cpu()?;
        for row in &rows {
            let outcome = router.decide(Instant::ZERO, row, &mut deps);
            ensure!(matches!(outcome, Outcome::Decided { error: None, .. }), "{outcome:?}");
        }
        decisions.push(rows.len() as f64 / (cpu()? - begin).as_secs_f64());

        let mut random = Rng::from_seed(rows::SEED);
        let lines = vec![0_u64; (SLOT_WORDS * SLOTS_PER_LINE) << LINE_BITS];
        let cache = Cache::new(lines, LINE_BITS, HashKey::draw(|| random.next_u64()));
        let mut answers = Answers::new(router, MOST_LINKS, rows::SEED);
        answers.set_cache(Some(cache));
        let begin = cpu()?;
        for row in &rows {
            answers.answer(Instant::ZERO, row).context("a row cannot be decided")?;
        }
        kept.push(rows.len() as f64 / (cpu()? - begin).as_secs_f64());
    }
    let (decisions, kept) = (median(&decisions), median(&kept));
    let lines = [
        vec!["decided".to_owned(), number(decisions)],
        vec!["decided and cached, with its dependencies".to_owned(), number(kept)],
    ];
    println!("{}", table(&["a row of fb3, never seen before", "rows/CPU s"], &lines));
    report.row(json!({
        "what": "slow path", "format": "fb3", "rows": rows.len(), "decided_per_s": decisions,
        "cached_per_s": kept, "runs": rounds,
    }));
    report.bar(Bar::higher("xia.slow_path_per_s", kept, "rows/s", 500_000.0));
    Ok(())
}

/// Returns the processor time of this thread: other work on the machine is left out.
pub fn cpu() -> Result<Duration> {
    Ok(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?.into())
}
