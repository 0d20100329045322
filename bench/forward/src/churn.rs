//! The rate while routes change: the same router, with 100,000 changes a second and without.

use crate::Prefixes;
use anyhow::Result;
use bench_forward::router::{Engines, Router};
use bench_forward::traffic::{Spread, measure, on_field};
use bench_report::{Bar, Report, median, number};
use serde_json::json;
use std::path::Path;
use std::time::Instant;

/// Changes a second.
const CHANGES: f64 = 100_000.0;

/// Measures, prints and reports.
pub fn run(prefixes: &Prefixes, rounds: usize, seconds: f64, pins: &Path, report: &mut Report) -> Result<()> {
    let prefixes = &prefixes.ipv4[..];
    let destinations = Spread::Uniform.draw(prefixes);
    let (mut ratios, mut rates) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let [still, changing, changes] = on_field(Engines::Xdp, prefixes, pins, |field| {
            // As with `engine xdp`: the cost of a change in the kernel is not the fast path's.
            field.router.leave_kernel();
            let still = measure(field, destinations.clone(), seconds, |_| Ok(()))?;
            let mut churn = Churn { prefixes, next: 0, changes: 0, begin: Instant::now() };
            let changing = measure(field, destinations.clone(), seconds, |router| churn.catch_up(router))?;
            let rate = churn.changes as f64 / churn.begin.elapsed().as_secs_f64();
            Ok([still.per_cpu_second, changing.per_cpu_second, rate])
        })?;
        println!(
            "churn round {}: {} packets/CPU s without changes, {} with {} changes/s",
            round + 1,
            number(still),
            number(changing),
            number(changes)
        );
        ratios.push(changing / still);
        rates.push(changes);
    }
    report.row(
        json!({ "what": "churn", "changes_per_s": median(&rates), "ratio": median(&ratios), "runs": rounds }),
    );
    report.bar(Bar::higher("forward.under_churn", median(&ratios), "x", 0.95));
    Ok(())
}

/// Withdraws and announces prefixes in turn, at a fixed rate.
struct Churn<'a> {
    prefixes: &'a [sluice_base::IpPrefix],
    next: usize,
    changes: usize,
    begin: Instant,
}

impl Churn<'_> {
    fn catch_up(&mut self, router: &mut Router) -> Result<()> {
        let due = (self.begin.elapsed().as_secs_f64() * CHANGES) as usize;
        while self.changes < due {
            let end = (self.next + 256).min(self.prefixes.len());
            let some = &self.prefixes[self.next..end];
            router.change(some, false);
            router.change(some, true);
            self.changes += 2 * some.len();
            self.next = end % self.prefixes.len();
        }
        Ok(())
    }
}
