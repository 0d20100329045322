//! Table 2.1 of the multicore BGP thesis: eight scenarios of two senders and a receiver, in prefixes a second, with every daemon of this
//! machine beside the paper's routers. No daemon puts routes into the kernel.

use crate::cell::{Stage, line};
use crate::contender::Contender;
use crate::scenario::Play;
use anyhow::Result;
use bench_report::{Report, median, number, table};
use serde_json::json;

/// Routers of the paper's table.
const PAPER: [&str; 4] = ["Pentium III", "Xeon", "IXP2400", "Cisco"];
/// The paper's transactions a second: scenarios 1 to 8, each with the routers of [`PAPER`].
const PAPER_RATES: [[f64; 4]; 8] = [
    [185.2, 2105.3, 24.1, 10.7],
    [312.5, 2247.2, 36.4, 2492.9],
    [204.1, 2898.6, 26.7, 10.4],
    [344.8, 1941.7, 43.5, 2927.5],
    [1111.1, 3389.8, 85.7, 10.9],
    [3636.4, 10_000.0, 230.8, 3332.3],
    [116.6, 784.3, 11.6, 10.7],
    [118.7, 673.4, 14.9, 2445.2],
];
/// Routes of a scenario.
const ROUTES: f64 = 100_000.0;

/// The table, ready to be measured.
pub struct Transactions<'a> {
    /// The setting in which cells run.
    pub stage: &'a Stage<'a>,
    /// Daemons that take part.
    pub contenders: &'a [Contender],
    /// Runs of each, of which the median is reported.
    pub runs: usize,
    /// The share of routes.
    pub scale: f64,
}

impl Transactions<'_> {
    /// Measures every scenario; cells that a daemon does not finish in time stay empty.
    pub fn draw(&self) -> Result<()> {
        let mut report = Report::begin("transactions");
        let routes = ((ROUTES * self.scale) as usize).max(1000);
        let mut lines = Vec::new();
        for (number_of, paper) in (1..).zip(PAPER_RATES) {
            println!("scenario {number_of}: {} routes", number(routes as f64));
            let play = Play::numbered(number_of, routes)?;
            let mut cells = vec![number_of.to_string()];
            for contender in self.contenders {
                let rate = self.rate(*contender, &play, routes);
                report.row(json!({
                    "what": "table 2.1", "scenario": number_of, "router": contender.name(), "routes": routes,
                    "transactions_per_s": rate,
                }));
                cells.push(rate.map_or("not done".into(), number));
            }
            for (router, rate) in PAPER.iter().zip(paper) {
                report.row(json!({
                    "what": "table 2.1", "scenario": number_of, "router": format!("paper: {router}"),
                    "transactions_per_s": rate,
                }));
                cells.push(format!("{rate:.1}"));
            }
            lines.push(cells);
            bench_lab::reap_orphans();
        }
        let names =
            self.contenders.iter().map(|c| c.name()).chain(PAPER.iter().map(|p| format!("paper: {p}")));
        let names: Vec<String> = std::iter::once("table 2.1, prefixes/s".to_owned()).chain(names).collect();
        println!("{}", table(&names.iter().map(String::as_str).collect::<Vec<_>>(), &lines));
        report.finish(&[])?;
        Ok(())
    }

    /// Returns the median of prefixes a second; `None` if a run fails.
    fn rate(&self, contender: Contender, play: &Play, routes: usize) -> Option<f64> {
        let mut rates = Vec::new();
        for _ in 0..self.runs {
            let sample = self.stage.perform(contender, play);
            println!("  {:<12} {}", contender.name(), line(&sample));
            rates.push(routes as f64 / sample.seconds?);
        }
        Some(median(&rates))
    }
}
