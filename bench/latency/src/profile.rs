//! Figures 10 to 12: single routes from BGP to the kernel, by the router's own profiling points.

use crate::speaker::{Speaker, probe};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use sluice_load::counts::Cli;
use std::collections::HashMap;
use std::thread::sleep;
use std::time::Duration;

/// From a route's announcement to its withdrawal, and from there to the next route. The paper waited for a second.
const PAUSE: Duration = Duration::from_millis(25);

/// A row of one of the paper's figures 10 to 12, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paper {
    /// The average.
    pub avg: f64,
    /// The standard deviation.
    pub sd: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

/// A profiling point.
pub struct Point {
    /// The class of the process that the point is in.
    class: &'static str,
    /// The point's name.
    pub name: &'static str,
    /// The paper's name for the point.
    pub title: &'static str,
    /// The paper's rows of figures 10, 11 and 12.
    pub paper: [Paper; 3],
}

const fn point(class: &'static str, name: &'static str, title: &'static str, rows: [[f64; 4]; 3]) -> Point {
    let mut paper = [Paper { avg: 0.0, sd: 0.0, min: 0.0, max: 0.0 }; 3];
    let mut figure = 0;
    while figure < 3 {
        let [avg, sd, min, max] = rows[figure];
        paper[figure] = Paper { avg, sd, min, max };
        figure += 1;
    }
    Point { class, name, title, paper }
}

/// The points in the order in which a route meets them.
pub const POINTS: [Point; 8] = [
    point("bgp", "route_enters_bgp", "Entering BGP", [[0.0; 4]; 3]),
    point(
        "bgp",
        "route_queued_rib",
        "Queued for transmission to the RIB",
        [[0.226, 0.026, 0.214, 0.525], [0.289, 0.015, 0.275, 0.447], [0.508, 0.100, 0.483, 2.039]],
    ),
    point(
        "bgp",
        "route_sent_rib",
        "Sent to RIB",
        [[0.280, 0.026, 0.267, 0.582], [0.344, 0.015, 0.329, 0.502], [0.563, 0.101, 0.536, 2.094]],
    ),
    point(
        "rib",
        "route_arrives_rib",
        "Arriving at the RIB",
        [[1.036, 0.132, 0.964, 2.285], [1.112, 0.088, 1.052, 2.331], [1.377, 0.182, 1.306, 2.920]],
    ),
    point(
        "rib",
        "route_queued_fea",
        "Queued for transmission to the FEA",
        [[1.139, 0.132, 1.066, 2.389], [1.247, 0.088, 1.187, 2.465], [1.517, 0.193, 1.438, 3.053]],
    ),
    point(
        "rib",
        "route_sent_fea",
        "Sent to the FEA",
        [[2.234, 1.903, 1.965, 31.663], [2.362, 1.571, 2.108, 25.910], [3.149, 5.943, 2.419, 92.391]],
    ),
    point(
        "fea",
        "route_arrives_fea",
        "Arriving at FEA",
        [[2.876, 1.918, 2.580, 32.443], [3.019, 1.590, 2.734, 26.689], [3.822, 5.964, 3.037, 93.179]],
    ),
    point(
        "fea",
        "route_enters_kernel",
        "Entering kernel",
        [[3.374, 1.980, 3.038, 33.576], [3.632, 3.394, 3.191, 56.422], [4.417, 6.278, 3.494, 93.662]],
    ),
];

/// For each point, the times of the routes from BGP to the point, in milliseconds, sorted.
pub type Times = [Vec<f64>; POINTS.len()];

/// Introduces `routes` routes by `peer`, in sequence, each withdrawn before the next.
pub fn run(cli: &Cli<'_>, peer: &mut Speaker, routes: usize) -> Result<Times> {
    switch(cli, true)?;
    for index in 0..routes {
        let route = probe((index % 255) as u8);
        peer.announce(route)?;
        sleep(PAUSE);
        peer.withdraw(route)?;
        sleep(PAUSE);
    }
    switch(cli, false)?;
    let times = times(cli)?;
    let complete = times[POINTS.len() - 1].len();
    ensure!(complete == routes, "{complete} of {routes} routes were followed to the kernel");
    Ok(times)
}

fn classes() -> [&'static str; 3] {
    ["bgp", "rib", "fea"]
}

fn switch(cli: &Cli<'_>, on: bool) -> Result<()> {
    for class in classes() {
        cli.ask(&["call", &format!("{class}/common.v1.Profile/SetPoints?enabled:bool={on}")])?;
    }
    Ok(())
}

/// Takes the records of all processes and follows each announced route by its provenance and prefix.
fn times(cli: &Cli<'_>) -> Result<Times> {
    let mut journeys: HashMap<(String, String), [Option<u64>; POINTS.len()]> = HashMap::new();
    for class in classes() {
        loop {
            let reply =
                cli.ask(&["call", &format!("{class}/common.v1.Profile/TakeRecords?limit:u32=10000")])?;
            let records = reply["records"].as_array().cloned().unwrap_or_default();
            for record in &records {
                let Some(index) = POINTS.iter().position(|p| record["point"] == p.name && p.class == class)
                else {
                    continue;
                };
                // What BGP sends again when its tables rest (backups) follows from no message and has no provenance.
                if record["event"] == "add" && !record["provenance"].is_null() {
                    let key = (record["provenance"].to_string(), record["net"].to_string());
                    let place = &mut journeys.entry(key).or_default()[index];
                    *place = place.or(integer(&record["timeNs"]));
                }
            }
            if records.len() < 10_000 {
                break;
            }
        }
    }
    let mut times = Times::default();
    for ((provenance, prefix), journey) in &journeys {
        let start = journey[0].with_context(|| {
            format!(
                "{prefix} of provenance {provenance} passed a point without having entered BGP: {journey:?}"
            )
        })?;
        for (time, all) in journey.iter().zip(&mut times) {
            all.extend(time.map(|t| t.saturating_sub(start) as f64 / 1e6));
        }
    }
    times.iter_mut().for_each(|all| all.sort_by(f64::total_cmp));
    Ok(times)
}

/// Long integers are strings in JSON.
fn integer(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}
