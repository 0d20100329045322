//! Rates of a router of many machines at full table: all routes to a new router, changes under churn from the leader's kernel to the
//! routers' kernels, and the packets that a dead router costs.
//!
//! A long test, part of `make bench-multistage` too; the other tests of the cluster are the short form.

use crate::cluster::network::{INTERVAL, Network, Shape, Traffic, more_of_bird};
use crate::cluster::stream::possible_with_store;
use bench_report::{Bar, add_bars, folder};
use sluice_load::source::{shared_folder, unpacked};
use sluice_router_lab::alone;
use sluice_router_lab::speaker::{Speaker, announcement, base, nlri, usual};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// Routes of the table.
const MANY_ROUTES: u32 = 1_000_000;
/// The control plane's address, and the address and the AS of a neighbor beside BIRD that plays the churn.
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 1);
const PLAYER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);
const PLAYER_AS: u32 = 64503;
/// Changes of half a day at 20 times their speed, and the time for which they are played.
const CHURN: &str = "data/bgp/updates/ris-as3333-20260511-ipv4-churn-part1.txt.zst";
const HALF_A_DAY: Duration = Duration::from_secs(12 * 3600);
const SPEED: u32 = 20;
const PLAYED: Duration = Duration::from_secs(40);
/// The time between two turns of the player. Each turn announces a prefix of its own, by which the time to the routers is measured.
const TURN: Duration = Duration::from_millis(50);

/// The benchmark whose results have the rates.
const REPORT: &str = "multistage";
/// A rate: the name of its bar, the unit, the target.
type Rate = (&'static str, &'static str, f64);
const NEW_ROUTER: Rate = ("multistage.new_router_s", "s", 10.0);
const ROUTE_LAG: Rate = ("multistage.route_lag_ms", "ms", 100.0);
const ROUTER_LOSS: Rate = ("multistage.router_loss_ms", "ms", 50.0);

/// Puts a rate into the results of `make bench-multistage`.
fn record(folder: &Path, (name, unit, target): Rate, value: f64) {
    add_bars(folder, REPORT, &[Bar::lower(name, value, unit, target)]).unwrap();
}

#[test]
fn the_rates_are_in_the_results_of_the_benchmark() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("multistage.json");
    let before = serde_json::json!({
        "name": "multistage",
        "commit": bench_report::commit(Path::new(".")).ok(),
        "rows": [{"what": "one machine"}],
        "bars": [{"name": "multistage.balancer_vs_routing"}],
    });
    std::fs::write(&path, before.to_string()).unwrap();
    for (value, rate) in [(4.3, NEW_ROUTER), (28.0, ROUTE_LAG), (25.0, ROUTER_LOSS), (5.5, NEW_ROUTER)] {
        record(folder.path(), rate, value);
    }
    let report: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(report["rows"][0]["what"], "one machine");
    let bars = report["bars"].as_array().unwrap().iter();
    let bars: Vec<_> = bars.map(|bar| (bar["name"].as_str().unwrap(), bar["value"].as_f64())).collect();
    let expected = [
        ("multistage.balancer_vs_routing", None),
        ("multistage.route_lag_ms", Some(28.0)),
        ("multistage.router_loss_ms", Some(25.0)),
        ("multistage.new_router_s", Some(5.5)),
    ];
    assert_eq!(bars, expected);
}

#[test]
fn a_full_table_reaches_a_new_router_and_follows_the_churn() {
    let program = sluice_testkit::long!("cluster rates");
    let _alone = alone();
    if !possible_with_store() {
        return;
    }
    let shape = Shape { store: 1, more: [0, MANY_ROUTES], ..Shape::of(1, 2) };
    let network = Network::up_with(shape, &program);
    network.until("the leader has all routes", |network| {
        network.stored("sluice", "routes").parse::<u32>().is_ok_and(|routes| routes >= MANY_ROUTES + 4)
            && network.stored("sluice", "waiting") == "0"
    });
    network.until_equal("r1");

    network.commit(&["r2".into()], &["delete cluster store"]);
    network.until("the routes are gone", |network| !network.has_route("r2", &more_of_bird(0)));
    let begun = Instant::now();
    network.commit(&["r2".into()], &["set cluster store endpoint 10.9.0.254"]);
    network.until("the router has read all routes", |network| {
        network.stored("r2", "sections") == network.stored("sluice", "sections")
    });
    println!("{MANY_ROUTES} routes were read in {:.1} s, checksums are equal", begun.elapsed().as_secs_f64());
    network.until_equal("r2");
    network.until("the kernel has the last route", |network| {
        network.has_route("r2", &more_of_bird(MANY_ROUTES - 1)) && network.has_route("r2", &more_of_bird(0))
    });
    record(&folder(), NEW_ROUTER, begun.elapsed().as_secs_f64());

    network.play_churn();

    let traffic = Traffic::start(&network);
    network.lab.lab.exec("r1", "ip", ["link", "set", "dev", "eth0", "down"]).unwrap();
    network.until("the router is lost", |network| network.states("b1").contains(&"silent".to_owned()));
    let outcomes = traffic.stop(&network);
    let lost = outcomes.iter().map(|outcome| outcome.lost).max().unwrap_or_default();
    record(&folder(), ROUTER_LOSS, (INTERVAL * lost).as_secs_f64() * 1000.0);
}

impl Network {
    /// Plays the churn into the control plane, and measures how much later the routers' kernels change than the control plane's.
    fn play_churn(&self) {
        let Some(changes) = shared_folder().and_then(|folder| unpacked(&folder.join(CHURN)).ok()) else {
            sluice_testkit::skipped("the churn of a day is not here");
            return;
        };
        let changes = String::from_utf8(changes).unwrap();
        let pace = changes.lines().count() as f64 * f64::from(SPEED) / HALF_A_DAY.as_secs_f64();
        let of_turn = (pace * TURN.as_secs_f64()).ceil() as usize;
        let exec = |node: &str, words: &[&str]| self.lab.lab.exec(node, "ip", words).unwrap();
        exec("bird", &["address", "add", &format!("{PLAYER}/24"), "dev", "eth0"]);
        let neighbor = format!("set protocols bgp neighbor {PLAYER} peer-as {PLAYER_AS}");
        self.commit(&["sluice".into()], &[&neighbor]);
        let mut player = Speaker::connect(&self.lab, "bird", PLAYER, ROUTER, &usual(PLAYER_AS));
        let watches = ["sluice", "r1", "r2"].map(|node| KernelWatch::start(self, node));
        let (begun, mut lines, mut turn) = (Instant::now(), changes.lines(), 0_u32);
        while begun.elapsed() < PLAYED {
            for line in lines.by_ref().take(of_turn) {
                let (kind, prefix) = line.split_once(' ').unwrap();
                match kind {
                    "A" => player.update(&announced(turn, prefix)),
                    _ => player.update(&withdrawn(prefix)),
                }
            }
            player.update(&announced(turn, &probe(turn)));
            turn += 1;
            // The pace of the trace is what is measured.
            std::thread::sleep((begun + TURN * turn).saturating_duration_since(Instant::now()));
        }
        let last = probe(turn - 1);
        self.until("the last change arrives", |network| {
            ["sluice", "r1", "r2"].iter().all(|node| network.has_route(node, &last))
        });
        let [leader, routers @ ..] = watches.map(KernelWatch::stop);
        let mut lags = Vec::new();
        for probe in (0..turn).map(probe) {
            let at = |seen: &BTreeMap<String, f64>| seen.get(&probe).copied();
            let of = |router| Some(((at(router)? - at(&leader)?) * 1000.0).max(0.0));
            lags.extend(routers.iter().filter_map(of));
        }
        lags.sort_by(f64::total_cmp);
        let part = |share: f64| lags[((lags.len() - 1) as f64 * share) as usize];
        println!("{} changes a second beside, {} measured", of_turn * 20, lags.len());
        println!("route lag: {:.1} ms at 50 %, {:.1} ms at most", part(0.5), part(1.0));
        record(&folder(), ROUTE_LAG, part(0.99));
        assert!(lags.len() > turn as usize, "changes were seen in both routers");
        for node in ["r1", "r2"] {
            self.until_equal(node);
        }
        let table = |node: &str| self.lab.lab.exec(node, "sh", ["-c", ALL_ROUTES]).unwrap();
        self.until("both kernels have the same routes", |_| table("r1") == table("r2"));
    }
}

/// Prints a checksum of the kernel's routes; the numbers of next hops are each kernel's own.
const ALL_ROUTES: &str = "ip route show | sed 's/nhid [0-9]*//' | grep port | sort | md5sum";

/// Returns the prefix of a turn.
fn probe(turn: u32) -> String {
    format!("{}/32", Ipv4Addr::from_bits(0xc612_0000 + turn))
}

/// Returns the body of an UPDATE that announces a prefix by a path that no turn before had.
fn announced(turn: u32, prefix: &str) -> Vec<u8> {
    announcement(&base(&[PLAYER_AS, 65_600 + turn], PLAYER), &nlri(&[prefix]))
}

/// Returns the body of an UPDATE that withdraws a prefix.
fn withdrawn(prefix: &str) -> Vec<u8> {
    let field = nlri(&[prefix]);
    [&(field.len() as u16).to_be_bytes()[..], &field, &[0, 0]].concat()
}

/// The changes of a node's kernel, with their times.
struct KernelWatch {
    monitor: Child,
    file: std::path::PathBuf,
}

impl KernelWatch {
    fn start(network: &Network, node: &str) -> Self {
        let file = network.lab.lab.dir(node).join("changes");
        let mut monitor = network.lab.lab.command(node, "ip").unwrap();
        monitor.args(["-ts", "-o", "monitor", "route"]).stdout(std::fs::File::create(&file).unwrap());
        KernelWatch { monitor: monitor.stderr(Stdio::null()).spawn().unwrap(), file }
    }

    /// Ends the watch, and returns the time at which each prefix of a turn came, in seconds of the day.
    fn stop(mut self) -> BTreeMap<String, f64> {
        self.monitor.kill().unwrap();
        self.monitor.wait().unwrap();
        let text = std::fs::read_to_string(&self.file).unwrap();
        let change = |line: &str| {
            // `[2026-11-27T05:46:51.123456] 198.18.0.1 via 10.0.2.3 dev port2 ...`
            let (time, route) = line.strip_prefix('[')?.split_once("] ")?;
            let mut clock = time.split_once('T')?.1.split(':');
            let mut next = || clock.next()?.parse::<f64>().ok();
            let time = next()? * 3600.0 + next()? * 60.0 + next()?;
            let host = route.split(' ').next().filter(|host| host.starts_with("198.18."))?;
            Some((format!("{host}/32"), time))
        };
        text.lines().filter_map(change).collect()
    }
}
