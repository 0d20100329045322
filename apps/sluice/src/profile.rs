//! `sluice profile`: the paper's table (XORP, figures 10 to 12), live.

use crate::Where;
use crate::connect::{DEADLINE, with_router};
use crate::output::{self, Failure, Table, counted, print_json};
use clap::Args;
use serde_json::{Value, json};
use sluice_xrl::Router;
use sluice_xrl::idl::common::v1 as common;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

#[derive(Args)]
pub struct ProfileArgs {
    /// For how many seconds routes are followed.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Stop as soon as this many routes have reached the kernel.
    #[arg(long)]
    routes: Option<usize>,
    /// Print the table anew every second.
    #[arg(long)]
    live: bool,
}

/// The points in the order in which a route meets them: who has the point, its name, and the paper's words.
const POINTS: [(&str, &str, &str); 8] = [
    ("bgp", "route_enters_bgp", "Entering BGP"),
    ("bgp", "route_queued_rib", "Queued for transmission to the RIB"),
    ("bgp", "route_sent_rib", "Sent to RIB"),
    ("rib", "route_arrives_rib", "Arriving at the RIB"),
    ("rib", "route_queued_fea", "Queued for transmission to the FEA"),
    ("rib", "route_sent_fea", "Sent to the FEA"),
    ("fea", "route_arrives_fea", "Arriving at FEA"),
    ("fea", "route_enters_kernel", "Entering kernel"),
];

/// The time when each route met each point.
#[derive(Default)]
struct Journeys {
    /// By provenance and prefix.
    seen: HashMap<(u64, String), [Option<u64>; POINTS.len()]>,
}

/// Statistics of the time from the first point to another, in nanoseconds.
struct Statistics {
    count: usize,
    mean: f64,
    sd: f64,
    min: u64,
    max: u64,
    p50: u64,
    p99: u64,
}

impl Journeys {
    fn add(&mut self, record: &common::ProfileRecord) {
        let Some(index) = POINTS.iter().position(|(_, name, _)| *name == record.point) else { return };
        let key = (record.provenance, format!("{} {}", record.event, output::net(record.net.as_ref())));
        let times = self.seen.entry(key).or_default();
        times[index] = times[index].or(Some(record.time_ns));
    }

    fn complete(&self) -> usize {
        self.seen.values().filter(|t| t[0].is_some() && t[POINTS.len() - 1].is_some()).count()
    }

    fn statistics(&self, index: usize) -> Option<Statistics> {
        let mut all: Vec<u64> =
            self.seen.values().filter_map(|t| Some(t[index]?.saturating_sub(t[0]?))).collect();
        all.sort_unstable();
        let count = all.len();
        let (min, max) = (*all.first()?, *all.last()?);
        let mean = all.iter().map(|n| *n as f64).sum::<f64>() / count as f64;
        let variance = all.iter().map(|n| (*n as f64 - mean).powi(2)).sum::<f64>() / count as f64;
        let rank = |q: f64| all[((count - 1) as f64 * q).round() as usize];
        Some(Statistics { count, mean, sd: variance.sqrt(), min, max, p50: rank(0.5), p99: rank(0.99) })
    }

    fn print(&self) {
        let ms = |n: f64| format!("{:.3}", n / 1e6);
        let mut table = Table::new(&["Profile Point", "Avg", "SD", "Min", "Max", "p50", "p99"]);
        for (index, (_, _, words)) in POINTS.iter().enumerate() {
            let cells = match self.statistics(index) {
                Some(s) if index > 0 => vec![
                    ms(s.mean),
                    ms(s.sd),
                    ms(s.min as f64),
                    ms(s.max as f64),
                    ms(s.p50 as f64),
                    ms(s.p99 as f64),
                ],
                _ => vec!["-".to_string(); 6],
            };
            table.row([vec![(*words).to_string()], cells].concat());
        }
        table.print();
        println!("{}, milliseconds since entering BGP", counted(self.complete() as u64, "route", "routes"));
    }

    fn json(&self) -> Value {
        let points: Vec<Value> = POINTS
            .iter()
            .enumerate()
            .map(|(index, (component, name, words))| match self.statistics(index) {
                Some(s) => json!({
                    "component": component, "point": name, "name": words, "count": s.count,
                    "avg_ms": s.mean / 1e6, "sd_ms": s.sd / 1e6, "min_ms": s.min as f64 / 1e6,
                    "max_ms": s.max as f64 / 1e6, "p50_ms": s.p50 as f64 / 1e6, "p99_ms": s.p99 as f64 / 1e6,
                }),
                None => json!({ "component": component, "point": name, "name": words, "count": 0 }),
            })
            .collect();
        json!({ "routes": self.complete(), "points": points })
    }
}

/// Follows routes and prints the table.
pub fn run(args: ProfileArgs, place: &Where) -> Result<(), Failure> {
    let as_json = place.json;
    with_router(place, move |router| async move {
        let clients: BTreeMap<&str, common::ProfileClient> = POINTS
            .iter()
            .map(|(class, _, _)| (*class, common::ProfileClient::new(&router, class).with_deadline(DEADLINE)))
            .collect();
        switch(&clients, true).await?;
        let followed = follow(&router, &clients, &args, as_json).await;
        // The points are switched off again whatever happened.
        let off = switch(&clients, false).await;
        let journeys = followed?;
        off?;
        match as_json {
            true => print_json("profile", &journeys.json()),
            false => journeys.print(),
        }
        Ok(())
    })
}

async fn switch(clients: &BTreeMap<&str, common::ProfileClient>, enabled: bool) -> Result<(), Failure> {
    for client in clients.values() {
        client.set_points(common::SetPointsRequest { names: Vec::new(), enabled }).await?;
    }
    Ok(())
}

async fn follow(
    _router: &Router,
    clients: &BTreeMap<&str, common::ProfileClient>,
    args: &ProfileArgs,
    as_json: bool,
) -> Result<Journeys, Failure> {
    let mut journeys = Journeys::default();
    let end = Instant::now() + Duration::from_secs(args.seconds);
    let mut printed = Instant::now();
    while Instant::now() < end && args.routes.is_none_or(|n| journeys.complete() < n) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        for client in clients.values() {
            loop {
                let taken = client.take_records(common::TakeRecordsRequest { limit: 10_000 }).await?.records;
                taken.iter().for_each(|r| journeys.add(r));
                if taken.len() < 10_000 {
                    break;
                }
            }
        }
        if args.live && !as_json && printed.elapsed() >= Duration::from_secs(1) {
            printed = Instant::now();
            print!("\x1b[H\x1b[2J");
            journeys.print();
        }
    }
    Ok(journeys)
}
