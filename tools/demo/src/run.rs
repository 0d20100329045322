//! The demo from beginning to end.

use crate::network::{self, PROBES};
use crate::report::Report;
use anyhow::{Context, Result};
use serde_json::{Value, json};
use sluice_base::{IpPrefix, Rng};
use sluice_lab::{Lab, LabOptions};
use sluice_load::counts::{self, Cli, Count, sluice_program};
use sluice_load::wide;
use sluice_load::{RoutingTable, source};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The route protocol number that the forwarding engine writes with.
const PROTOCOL: u8 = 83;
/// Packets that are sent through the router, to as many prefixes.
const PACKETS: usize = 20_000;

/// Runs everything. `Ok(true)` if every number agreed.
pub fn demo(args: &crate::Args) -> Result<bool> {
    let sluice = sluice_program(args.sluice.as_deref())?;
    sluice_lab::available().context("labs cannot be made here")?;
    let mut report = Report::new();
    let (table, origin) = source::find(args.table.as_deref())?;
    let table = table.thinned(args.max_ipv4, args.max_ipv6);
    report.step(&format!("table: {origin}: {} IPv4 and {} IPv6 prefixes", table.v4.len(), table.v6.len()));
    report.note("table", origin.to_string());
    report.note("table_ipv4", table.v4.len());
    report.note("table_ipv6", table.v6.len());
    let second = table.with_other_paths(7);
    let topology = network::topology(&table, &second)?;
    report.step("bringing up: two BIRD feeds, Sluice, FRR, ExaBGP, two hosts");
    let options = LabOptions { sluice: Some(sluice.clone()), stays: args.keep, ..LabOptions::unique("demo") };
    let begin = Instant::now();
    let mut lab = Lab::up(&topology, options)?;
    report.note("lab_up_s", begin.elapsed().as_secs_f64());
    // The router is the last node that is started: its time runs from here.
    let outcome = act(&mut lab, &sluice, &table, &mut report, Instant::now());
    if let Err(error) = &outcome {
        report.check(&format!("the demo ran to its end ({error:#})"), false);
        sluice_print::errln!("{}", lab.log("sluice", "sluice"));
    }
    if args.keep {
        keep(&lab, &sluice);
    }
    report.finish(&args.summary)
}

fn act(
    lab: &mut Lab,
    sluice: &Path,
    table: &RoutingTable,
    report: &mut Report,
    begin: Instant,
) -> Result<()> {
    converge(lab, sluice, table, report, begin)?;
    memory(lab, sluice, report)?;
    latency(lab, sluice, report)?;
    forwarding(lab, table, report)?;
    failover(lab, sluice, table, report)
}

/// The whole table is learned, installed and re-advertised; every counter agrees.
fn converge(
    lab: &Lab,
    sluice: &Path,
    table: &RoutingTable,
    report: &mut Report,
    begin: Instant,
) -> Result<()> {
    let cli = Cli { lab, sluice };
    let all = Count::of(table);
    // The customer announces one prefix of each family, the probe one of IPv4.
    let with_customer = Count { v4: all.v4 + 2, v6: all.v6 + 1 };
    let for_customer = Count { v4: all.v4 + 1, v6: all.v6 };
    let patience = Duration::from_secs(300);
    let in_rib = report.wait_for(patience, || {
        let (rib, engine, _) = cli.rib()?;
        Ok((rib == with_customer, format!("RIB {rib}, engine {engine} of {with_customer}")))
    })?;
    report.step(&format!("RIB complete: {}", seconds(in_rib)));
    let in_kernel = report.wait_for(patience, || {
        let (_, engine, idle) = cli.rib()?;
        let done = engine.v4 > with_customer.v4 && engine.v6 >= with_customer.v6 && idle;
        Ok((done, format!("engine {engine} of {with_customer}")))
    })?;
    let installed = begin.elapsed();
    report.step(&format!("forwarding engine complete: {}", seconds(in_kernel)));
    let at_frr = report.wait_for(patience, || {
        let received = counts::frr_received(lab, "10.3.0.1")?;
        Ok((received == for_customer, format!("FRR {received} of {for_customer}")))
    })?;
    report.step(&format!("FRR has it all: {}", seconds(at_frr)));
    report.note("installed_s", installed.as_secs_f64());
    report.note("convergence_s", begin.elapsed().as_secs_f64());
    report.note("routes_per_s", (all.v4 + all.v6) as f64 / installed.as_secs_f64());
    compare_counters(&cli, with_customer, report)
}

/// Compares the counters of the neighbors, the RIB and the kernel.
fn compare_counters(cli: &Cli<'_>, with_customer: Count, report: &mut Report) -> Result<()> {
    let lab = cli.lab;
    report.step("who counted what");
    let mut sessions = 0;
    let mut neighbors = serde_json::Map::new();
    for (node, address) in
        [("feed1", "10.1.0.2"), ("feed2", "10.2.0.2"), ("frr", "10.3.0.2"), ("probe", "10.4.0.2")]
    {
        let (up, received, sent) = cli.neighbor(address)?;
        sessions += u32::from(up);
        neighbors.insert(
            node.into(),
            json!({ "address": address, "established": up,
                    "received_ipv4": received.v4, "received_ipv6": received.v6,
                    "sent_ipv4": sent.v4, "sent_ipv6": sent.v6 }),
        );
        if node.starts_with("feed") {
            report.agree(
                &format!("{node} exported = Sluice received"),
                counts::bird_exported(lab, node)?,
                received,
            );
        }
        if node == "frr" {
            report.agree("Sluice sent to FRR = FRR received", sent, counts::frr_received(lab, "10.3.0.1")?);
        }
    }
    report.check(&format!("{sessions} of 4 sessions are established"), sessions == 4);
    report.note("sessions", sessions);
    report.note("neighbors", Value::Object(neighbors));
    let (rib, _, _) = cli.rib()?;
    report.agree("prefixes of feeds, customer and probe = RIB", with_customer, rib);
    let kernel = counts::kernel(lab, "sluice", PROTOCOL)?;
    report.agree("RIB and the static route = kernel", Count { v4: rib.v4 + 1, v6: rib.v6 }, kernel);
    report.note("rib_routes_ipv4", rib.v4);
    report.note("rib_routes_ipv6", rib.v6);
    report.note("kernel_routes_ipv4", kernel.v4);
    report.note("kernel_routes_ipv6", kernel.v6);
    Ok(())
}

fn seconds(took: Option<Duration>) -> String {
    took.map_or_else(|| "not in time".into(), |t| format!("{:.1} s more", t.as_secs_f64()))
}

fn memory(lab: &Lab, sluice: &Path, report: &mut Report) -> Result<()> {
    let processes = Cli { lab, sluice }.ask(&["show", "processes"])?["processes"].clone();
    for p in processes.as_array().into_iter().flatten() {
        let mb = |name: &str| wide(&p[name]).unwrap_or(0) / 1_000_000;
        report.step(&format!(
            "  {:<8} {:>5} MB now, {:>5} MB at most, {} ms of CPU",
            p["component"].as_str().unwrap_or("?"),
            mb("memory_bytes"),
            mb("peak_memory_bytes"),
            wide(&p["cpu_ms"]).unwrap_or(0)
        ));
    }
    report.note("processes", processes);
    Ok(())
}

/// Single routes at full table: the paper's figures 10 to 12.
fn latency(lab: &Lab, sluice: &Path, report: &mut Report) -> Result<()> {
    report.step(&format!("{PROBES} single routes at full table, from the wire to the kernel"));
    let cli = Cli { lab, sluice };
    let profile = cli
        .command(&["profile", "--json", "--seconds", "60", "--routes", &PROBES.to_string()])
        .stdout(Stdio::piped())
        .spawn()?;
    report.wait_for(Duration::from_secs(10), || {
        let points = cli.ask(&["call", "fea/common.v1.Profile/ListPoints"])?;
        Ok((points.to_string().contains("\"enabled\":true"), "switching profiling points on".into()))
    })?;
    std::fs::write(lab.dir("probe").join("go"), "")?;
    let output = profile.wait_with_output()?;
    let table: Value = serde_json::from_slice(&output.stdout).context("the profile is not JSON")?;
    sluice_print::outln!(
        "           {:<38} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "Profile Point (ms)",
        "Avg",
        "SD",
        "Min",
        "Max",
        "p99"
    );
    for point in table["points"].as_array().into_iter().flatten() {
        let ms = |name: &str| point[name].as_f64().map_or("-".into(), |n| format!("{n:.3}"));
        sluice_print::outln!(
            "           {:<38} {:>8} {:>8} {:>8} {:>8} {:>8}",
            point["name"].as_str().unwrap_or("?"),
            ms("avg_ms"),
            ms("sd_ms"),
            ms("min_ms"),
            ms("max_ms"),
            ms("p99_ms")
        );
    }
    let routes = wide(&table["routes"]).unwrap_or(0);
    report.note("profile", table);
    report
        .check(&format!("{routes} of {PROBES} routes were followed to the kernel"), routes == PROBES as u64);
    std::fs::write(lab.dir("probe").join("stop"), "")?;
    Ok(())
}

/// An address inside a prefix that is no router's own.
fn address_in(prefix: IpPrefix, rng: &mut Rng) -> IpAddr {
    match prefix.addr() {
        IpAddr::V4(a) => {
            let host = u32::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
            Ipv4Addr::from_bits(a.to_bits() | (rng.next_u64() as u32 & host)).into()
        }
        IpAddr::V6(a) => {
            let host = u128::MAX.checked_shr(prefix.len().into()).unwrap_or(0);
            Ipv6Addr::from_bits(a.to_bits() | (u128::from(rng.next_u64()) & host)).into()
        }
    }
}

/// Returns addresses all over the table, one a line: a fifth are IPv6 if the table has both families.
fn targets(table: &RoutingTable, seed: u64) -> String {
    let mut rng = Rng::from_seed(seed);
    let mut targets = String::new();
    for index in 0..PACKETS {
        let is_v6 = table.v4.is_empty() || (index % 5 == 4 && !table.v6.is_empty());
        let (all, step) = if is_v6 { (&table.v6, 5) } else { (&table.v4, 1) };
        if let Some(a) = all.get((index / step * 7919) % all.len().max(1)) {
            targets.push_str(&format!("{}\n", address_in(a.prefix, &mut rng)));
        }
    }
    targets
}

/// Packets from the host behind FRR to addresses all over the table; how many arrive at the far end.
fn send_packets(lab: &Lab, table: &RoutingTable, seed: u64) -> Result<(u64, u64)> {
    let targets = targets(table, seed);
    let folder = lab.dir("host");
    let (file, ready) = (folder.join("targets"), folder.join("ready"));
    std::fs::write(&file, &targets)?;
    let _ = std::fs::remove_file(&ready);
    let program = std::env::current_exe()?;
    let sink = lab.command("internet", &program)?.arg("sink").arg(&ready).stdout(Stdio::piped()).spawn()?;
    let begin = Instant::now();
    while !ready.exists() && begin.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let source = lab.command("host", &program)?.arg("source").arg(&file).output()?;
    let number = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().parse::<u64>().unwrap_or(0);
    if !source.status.success() {
        sluice_print::errln!("demo: {}", String::from_utf8_lossy(&source.stderr).trim());
    }
    Ok((number(&source.stdout), number(&sink.wait_with_output()?.stdout)))
}

fn forwarding(lab: &Lab, table: &RoutingTable, report: &mut Report) -> Result<()> {
    // The first packets resolve neighbors' link addresses; a handful is sent before to do that.
    let warm = table.thinned(10, 10);
    send_packets(lab, &warm, 1)?;
    let (sent, received) = send_packets(lab, table, 2)?;
    report.check(
        &format!("{received} of {sent} packets forwarded end to end, each to an address of its own"),
        sent == PACKETS as u64 && sent == received,
    );
    report.note("packets_sent", sent);
    report.note("packets_received", received);
    Ok(())
}

/// The first feed dies; the second one's paths take over.
fn failover(lab: &mut Lab, sluice: &Path, table: &RoutingTable, report: &mut Report) -> Result<()> {
    report.step("feed 1 is killed");
    let begin = Instant::now();
    lab.stop("feed1", true)?;
    let cli = Cli { lab, sluice };
    let took = report.wait_for(Duration::from_secs(120), || {
        let dead = dead_next_hops(lab)?;
        let (_, _, idle) = cli.rib()?;
        Ok((dead == 0 && idle, format!("{dead} next hops of the kernel still point to the dead feed")))
    })?;
    let failover = begin.elapsed();
    report.check("the other feed's paths took over", took.is_some());
    report.step(&format!("took over in {:.2} s", failover.as_secs_f64()));
    report.note("failover_s", failover.as_secs_f64());
    let kernel = counts::kernel(lab, "sluice", PROTOCOL)?;
    let all = Count::of(table);
    report.agree("all prefixes are still in the kernel", Count { v4: all.v4 + 3, v6: all.v6 + 1 }, kernel);
    let (sent, received) = send_packets(lab, table, 3)?;
    report.check(
        &format!("{received} of {sent} packets forwarded by the other feed"),
        sent == received && sent > 0,
    );
    Ok(())
}

/// Returns the number of next-hop objects in the kernel for the first feed: zero once every route has a new path.
fn dead_next_hops(lab: &Lab) -> Result<usize> {
    let objects = lab.command("sluice", "ip")?.args(["nexthop", "show"]).output()?;
    let objects = String::from_utf8_lossy(&objects.stdout).into_owned();
    Ok(objects.lines().filter(|l| l.contains("via 10.1.0.2 ") || l.contains("via 2001:db8:1::2 ")).count())
}

fn keep(lab: &Lab, sluice: &Path) {
    let name = lab.name();
    sluice_print::outln!("\nThe lab `{name}` stays up. Look around:");
    sluice_print::outln!("  {}", Cli { lab, sluice }.command_line());
    sluice_print::outln!("  {} lab status {name}", sluice.display());
    sluice_print::outln!(
        "  {} lab exec --lab {name} frr vtysh --vty_socket {} -c 'show bgp summary'",
        sluice.display(),
        lab.dir("frr").display()
    );
    sluice_print::outln!("  ip netns exec {name}-host ping 192.0.2.1");
    sluice_print::outln!("Take it down with: {} lab down {name}", sluice.display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_go_to_whatever_the_table_has() {
        let table = |prefixes: &[&str]| {
            RoutingTable::with_made_up_paths(prefixes.iter().filter_map(|p| Some((p.parse().ok()?, None))))
        };
        let (v4, v6) = (["20.0.0.0/8", "21.0.0.0/24"], ["2a00:1::/32"]);
        for (prefixes, expected_v6) in
            [(&v4[..], 0), (&v6[..], PACKETS), (&[v4[0], v4[1], v6[0]][..], PACKETS / 5)]
        {
            let targets = targets(&table(prefixes), 1);
            assert_eq!(targets.lines().count(), PACKETS);
            assert_eq!(targets.lines().filter(|t| t.contains(':')).count(), expected_v6);
        }
        assert!(targets(&RoutingTable::default(), 1).is_empty());
    }
}
