//! `sluice profile`: the paper's table (XORP, figures 10 to 12), live.

use crate::Where;
use crate::connection::connect::{DEADLINE, with_router};
use crate::output::{self, Failure, Table, counted, print_json};
use clap::Args;
use serde_json::{Value, json};
use sluice_xrl::XrlEndpoint;
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
    /// The component whose routes are followed, where several have profiling points.
    #[arg(long, value_name = "NAME")]
    origin: Option<String>,
    /// Print the table anew every second.
    #[arg(long)]
    live: bool,
}

/// The components passed by every route after its origin, in order.
const AFTER_THE_ORIGIN: [&str; 2] = ["rib", "fea"];
/// The interface of components with points.
const INTERFACE: &str = "common.v1.Profile";

/// A point on the way of routes.
struct Point {
    component: String,
    name: String,
    /// The paper's words.
    heading: String,
}

/// The time when each route met each point.
struct Journeys {
    /// The points in the order of a route's path.
    points: Vec<Point>,
    /// By provenance and prefix.
    seen: HashMap<(u64, String), Vec<Option<u64>>>,
}

/// Statistics of the time from the first point to a later point, in nanoseconds.
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
        let Some(index) = self.points.iter().position(|point| point.name == record.point) else { return };
        let key = (record.provenance, format!("{} {}", record.event, output::net(record.net.as_ref())));
        let times = self.seen.entry(key).or_insert_with(|| vec![None; self.points.len()]);
        times[index] = times[index].or(Some(record.time_ns));
    }

    fn complete(&self) -> usize {
        let is_complete = |times: &&Vec<Option<u64>>| {
            times.first().is_some_and(Option::is_some) && times.last().is_some_and(Option::is_some)
        };
        self.seen.values().filter(is_complete).count()
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
        for (index, point) in self.points.iter().enumerate() {
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
            table.row([vec![point.heading.clone()], cells].concat());
        }
        table.print();
        let first = self.points.first().map_or_else(String::new, |point| point.heading.to_lowercase());
        sluice_print::outln!(
            "{}, milliseconds since {first}",
            counted(self.complete() as u64, "route", "routes")
        );
    }

    fn json(&self) -> Value {
        let json = |(index, Point { component, name, heading }): (usize, &Point)| match self.statistics(index)
        {
            Some(s) => json!({
                "component": component, "point": name, "name": heading, "count": s.count,
                "avg_ms": s.mean / 1e6, "sd_ms": s.sd / 1e6, "min_ms": s.min as f64 / 1e6,
                "max_ms": s.max as f64 / 1e6, "p50_ms": s.p50 as f64 / 1e6, "p99_ms": s.p99 as f64 / 1e6,
            }),
            None => json!({ "component": component, "point": name, "name": heading, "count": 0 }),
        };
        let points: Vec<Value> = self.points.iter().enumerate().map(json).collect();
        json!({ "routes": self.complete(), "points": points })
    }
}

/// Follows routes and prints the table.
pub fn run(args: ProfileArgs, place: &Where) -> Result<(), Failure> {
    let as_json = place.json;
    with_router(place, move |router| async move {
        let origin = origin(&router, args.origin.as_deref()).await?;
        let classes = [origin.as_str()].into_iter().chain(AFTER_THE_ORIGIN);
        let clients: BTreeMap<&str, common::ProfileClient> = classes
            .clone()
            .map(|class| (class, common::ProfileClient::new(&router, class).with_deadline(DEADLINE)))
            .collect();
        let mut points = Vec::new();
        for class in classes {
            let listed = clients[class].list_points(common::ListPointsRequest {}).await?.points;
            points.extend(listed.into_iter().map(|point| Point {
                component: class.into(),
                name: point.name,
                heading: point.description,
            }));
        }
        switch(&clients, true).await?;
        let followed = follow(&clients, &args, as_json, Journeys { points, seen: HashMap::new() }).await;
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

/// Returns the component from which routes are followed: the named component, or the only component with points of its
/// own.
async fn origin(router: &XrlEndpoint, named: Option<&str>) -> Result<String, Failure> {
    let mut origins = Vec::new();
    for target in router.targets().await? {
        let has_points = target.interfaces.iter().any(|interface| interface.name == INTERFACE);
        if !has_points || AFTER_THE_ORIGIN.contains(&target.class.as_str()) {
            continue;
        }
        let client = common::ProfileClient::new(router, &target.class).with_deadline(DEADLINE);
        if !client.list_points(common::ListPointsRequest {}).await?.points.is_empty() {
            origins.push(target.class);
        }
    }
    origins.sort();
    origins.dedup();
    let names = origins.join(", ");
    match (named, origins.as_slice()) {
        (Some(named), origins) if origins.iter().any(|origin| origin == named) => Ok(named.into()),
        (None, [only]) => Ok(only.clone()),
        (_, []) => Err(Failure::failed("no component with profiling points announces routes here")),
        _ => Err(Failure::usage(format!("whose routes: `--origin NAME`, one of {names}"))),
    }
}

async fn switch(clients: &BTreeMap<&str, common::ProfileClient>, enabled: bool) -> Result<(), Failure> {
    for client in clients.values() {
        client.set_points(common::SetPointsRequest { names: Vec::new(), enabled }).await?;
    }
    Ok(())
}

async fn follow(
    clients: &BTreeMap<&str, common::ProfileClient>,
    args: &ProfileArgs,
    as_json: bool,
    mut journeys: Journeys,
) -> Result<Journeys, Failure> {
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
            sluice_print::out!("\x1b[H\x1b[2J");
            journeys.print();
        }
    }
    Ok(journeys)
}
