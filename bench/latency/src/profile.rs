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

/// The points in the order in which a route meets them: whose it is, its name, the paper's words, and the paper's averages of
/// figures 10, 11 and 12, in milliseconds.
pub const POINTS: [(&str, &str, &str, [f64; 3]); 8] = [
    ("bgp", "route_enters_bgp", "Entering BGP", [0.0, 0.0, 0.0]),
    ("bgp", "route_queued_rib", "Queued for transmission to the RIB", [0.226, 0.289, 0.508]),
    ("bgp", "route_sent_rib", "Sent to RIB", [0.280, 0.344, 0.563]),
    ("rib", "route_arrives_rib", "Arriving at the RIB", [1.036, 1.112, 1.377]),
    ("rib", "route_queued_fea", "Queued for transmission to the FEA", [1.139, 1.247, 1.517]),
    ("rib", "route_sent_fea", "Sent to the FEA", [2.234, 2.362, 3.149]),
    ("fea", "route_arrives_fea", "Arriving at FEA", [2.876, 3.019, 3.822]),
    ("fea", "route_enters_kernel", "Entering kernel", [3.374, 3.632, 4.417]),
];

/// For each point how long each route took to it since it entered BGP, in milliseconds, sorted.
pub type Times = [Vec<f64>; POINTS.len()];

/// Introduces `routes` routes by `peer`, one after the other, each withdrawn before the next.
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
                let Some(index) = POINTS.iter().position(|(_, name, ..)| record["point"] == *name) else {
                    continue;
                };
                if record["event"] == "add" {
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
    for journey in journeys.values() {
        let start = journey[0].context("a route passed a point without having entered BGP")?;
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
