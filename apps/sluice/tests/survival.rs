//! What the router survives, in a lab with real neighbours: every process killed in turn, peers that flap or send garbage, links
//! that go down, and starts that must be refused. Whatever happens, what the kernel forwards by stays or comes back.
#![allow(clippy::unwrap_used)] // a test stops where a value is missing

use serde_json::Value;
use sluice_lab::{Lab, LabOptions, Topology, available};
use sluice_load::RoutingTable;
use sluice_load::bird::Feed;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

const SLUICE: &str = env!("CARGO_BIN_EXE_sluice");
/// Routes of the feed, of each family.
const ROUTES: u32 = 1500;

const TOPOLOGY: &str = "
[nodes.feed]
daemon = 'bird'
[nodes.stranger]
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols {
    bgp {
        local-as 64500;
        router-id 10.0.0.1;
        neighbor 10.1.0.2 { peer-as 64501; ipv6-unicast enabled; connect-retry-time 1; }
        neighbor 10.2.0.2 { peer-as 64502; }
    }
    static { route 192.0.2.0/24 discard; }
}
'''
[[links]]
a = 'sluice:feed'
b = 'feed:sluice'
a_addresses = ['10.1.0.1/24', '2001:db8:1::1/64']
b_addresses = ['10.1.0.2/24', '2001:db8:1::2/64']
[[links]]
a = 'sluice:stranger'
b = 'stranger:sluice'
a_addresses = ['10.2.0.1/24']
b_addresses = ['10.2.0.2/24']
";

/// A lab that is up and has converged.
struct Bench {
    lab: Lab,
}

impl Bench {
    fn new(test: &str) -> Option<Self> {
        if let Err(reason) = available() {
            println!("skipped: {test}: {reason}");
            return None;
        }
        if Command::new("bird").arg("--version").output().is_err() {
            println!("skipped: {test}: BIRD is not installed");
            return None;
        }
        let prefixes = (0..ROUTES).flat_map(|i| {
            let (high, low) = (i / 256, i % 256);
            [format!("20.{high}.{low}.0/24"), format!("2001:db8:{:x}::/48", 0x1000 + i)]
        });
        let table = RoutingTable::with_made_up_paths(prefixes.map(|p| (p.parse().unwrap(), None)));
        let feed = Feed {
            router_id: "10.1.0.2",
            local_as: 64501,
            local: ("10.1.0.2", "2001:db8:1::2"),
            neighbor: ("10.1.0.1", 64500),
            table: &table,
        };
        let mut topology: Topology = TOPOLOGY.parse().unwrap();
        topology.nodes.get_mut("feed").unwrap().config = Some(feed.config());
        let options = LabOptions { sluice: Some(SLUICE.into()), ..LabOptions::unique("survival") };
        let bench = Bench { lab: Lab::up(&topology, options).unwrap() };
        bench.until("the table is in the kernel", |b| b.kernel_complete());
        Some(bench)
    }

    /// Asks until it is so.
    fn until(&self, what: &str, mut so: impl FnMut(&Bench) -> bool) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !so(self) {
            assert!(Instant::now() < deadline, "never: {what}\n{}", self.lab.log("sluice", "sluice"));
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    fn run_dir(&self) -> String {
        self.lab.dir("sluice").join("run").display().to_string()
    }

    fn cli(&self, words: &[&str]) -> Output {
        Command::new(SLUICE).args(words).args(["--json", "--run-dir", &self.run_dir()]).output().unwrap()
    }

    fn ask(&self, words: &[&str]) -> Value {
        serde_json::from_slice(&self.cli(words).stdout).unwrap_or_default()
    }

    fn ready(&self) -> bool {
        self.cli(&["status"]).status.success()
    }

    fn pid(&self, component: &str) -> Option<u64> {
        let all = self.ask(&["show", "processes"]);
        all["processes"].as_array()?.iter().find(|p| p["component"] == component)?["pid"].as_u64()
    }

    fn established(&self) -> bool {
        self.ask(&["show", "bgp", "neighbor", "10.1.0.2"])["neighbors"][0]["state"] == "Established"
    }

    /// Routes of ours in the kernel, by a tool that is not ours.
    fn kernel(&self) -> (usize, usize) {
        let count = |family: &str| {
            let output = self.lab.output("sluice", "ip", [family, "route", "show", "proto", "83"]).unwrap();
            String::from_utf8_lossy(&output.stdout).lines().filter(|l| !l.starts_with([' ', '\t'])).count()
        };
        (count("-4"), count("-6"))
    }

    fn kernel_complete(&self) -> bool {
        self.kernel() == (ROUTES as usize + 1, ROUTES as usize)
    }

    /// Changes the feed.
    fn birdc(&self, words: &str) {
        let socket = self.lab.dir("feed").join("bird.ctl").display().to_string();
        let args = ["-s", &socket].into_iter().chain(words.split(' '));
        self.lab.exec("feed", "birdc", args).unwrap();
    }

    fn kill(&self, pid: u64) {
        assert!(Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap().success());
    }
}

/// Each component in turn: what is forwarded stays all the time, the component comes back, and nothing stale stays.
#[test]
fn any_component_killed() {
    let Some(bench) = Bench::new("any_component_killed") else { return };
    for component in ["bgp", "rib", "fea", "static"] {
        let pid = bench.pid(component).unwrap();
        bench.kill(pid);
        bench.until(&format!("{component} is back"), |b| {
            assert!(b.kernel_complete(), "{component} died and routes went with it");
            b.ready() && b.pid(component).is_some_and(|new| new != pid && new != 0)
        });
        bench.until("the session is up", Bench::established);
        bench.until("the RIB has it all", |b| {
            let summary = b.ask(&["show", "summary"]);
            let selected = |n: usize| summary["tables"][n]["selected"].as_u64().unwrap_or(0);
            selected(0) > u64::from(ROUTES) && selected(1) >= u64::from(ROUTES)
        });
        assert!(bench.kernel_complete(), "after {component}");
    }
    // What the neighbour withdraws is gone from the kernel: nothing is kept from an earlier life.
    bench.birdc("disable feed4");
    bench.until("IPv4 is withdrawn", |b| b.kernel() == (1, ROUTES as usize));
}

/// The manager dies: everything goes on, sessions too; the next manager takes the processes over.
#[test]
fn the_manager_killed() {
    let Some(mut bench) = Bench::new("the_manager_killed") else { return };
    let (manager, bgp) = (bench.pid("manager").unwrap(), bench.pid("bgp").unwrap());
    bench.kill(manager);
    bench.until("the manager is gone", |_| !Path::new(&format!("/proc/{manager}/exe")).exists());
    assert!(bench.kernel_complete());
    bench.lab.stop("sluice", true).unwrap();
    bench.lab.start("sluice").unwrap();
    bench.until("the router answers again", |b| b.ready() && b.established());
    assert_eq!(bench.pid("bgp"), Some(bgp), "the process was taken over, not started anew");
    assert_eq!(bench.ask(&["show", "bgp", "neighbor", "10.1.0.2"])["neighbors"][0]["flaps"], 0);
    assert!(bench.kernel_complete());
}

#[test]
fn a_second_router_in_the_same_folder_is_refused() {
    let Some(bench) = Bench::new("a_second_router_in_the_same_folder_is_refused") else { return };
    let config = bench.lab.dir("sluice").join("config");
    let run_dir = bench.run_dir();
    let second = Command::new(SLUICE)
        .arg("start")
        .arg("--config")
        .arg(config)
        .args(["--run-dir", &run_dir])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("a router runs already in") && said.contains("--run-dir"), "{said}");
    assert!(bench.ready());
}

/// A peer that flaps twenty times, and a stranger on a configured address that sends garbage meanwhile.
#[test]
fn a_peer_flaps_and_another_sends_garbage() {
    let Some(bench) = Bench::new("a_peer_flaps_and_another_sends_garbage") else { return };
    let garbage =
        "for i in $(seq 20); do head -c 2000 /dev/urandom > /dev/tcp/10.2.0.1/179; done 2>/dev/null";
    let mut stranger = bench.lab.command("stranger", "bash").unwrap();
    let mut stranger = stranger.args(["-c", garbage]).spawn().unwrap();
    for _ in 0..20 {
        bench.birdc("disable sluice");
        bench.birdc("enable sluice");
        std::thread::sleep(Duration::from_millis(300)); // the pace of the flapping, not a wait for anything
    }
    stranger.wait().unwrap();
    bench.until("the session is up again", Bench::established);
    bench.until("the table is in the kernel again", Bench::kernel_complete);
    let processes = bench.ask(&["show", "processes"]);
    let restarts: u64 =
        processes["processes"].as_array().unwrap().iter().filter_map(|p| p["restarts"].as_u64()).sum();
    assert_eq!(restarts, 0, "{processes}");
}

#[test]
fn a_link_goes_down_and_comes_back() {
    let Some(bench) = Bench::new("a_link_goes_down_and_comes_back") else { return };
    bench.lab.exec("sluice", "ip", ["link", "set", "feed", "down"]).unwrap();
    bench.until("routes over the link are gone", |b| b.kernel() == (1, 0));
    bench.lab.exec("sluice", "ip", ["link", "set", "feed", "up"]).unwrap();
    // The kernel dropped the interface's IPv6 addresses with the link, as it always does.
    bench
        .lab
        .exec("sluice", "ip", ["-6", "addr", "replace", "2001:db8:1::1/64", "dev", "feed", "nodad"])
        .unwrap();
    bench.until("everything is back", Bench::kernel_complete);
}

/// Starts that cannot succeed say why, and what to do.
#[test]
fn refused_starts_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let start = |config: &Path, run_dir: &Path| {
        let output = Command::new(SLUICE)
            .arg("start")
            .arg("--config")
            .arg(config)
            .arg("--run-dir")
            .arg(run_dir)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let missing = start(&folder.path().join("none.conf"), &folder.path().join("run"));
    assert!(missing.0 == Some(4) && missing.1.contains("name another with --config"), "{missing:?}");
    let config = folder.path().join("bad.conf");
    std::fs::write(&config, "protocols { bgp { local-as 0; } }").unwrap();
    let bad = start(&config, &folder.path().join("run"));
    assert!(bad.0 == Some(4) && bad.1.contains("bad.conf:1:28"), "{bad:?}");
    std::fs::write(&config, "protocols { }").unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let no_folder = start(&config, &file.join("run"));
    assert!(no_folder.0 == Some(1) && no_folder.1.contains("--run-dir"), "{no_folder:?}");
}
