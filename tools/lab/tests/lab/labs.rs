//! Labs on this host: side by side, after a crash, with real routers.

use sluice_lab::process::ProcessId;
use sluice_lab::state::State;
use sluice_lab::{Lab, LabCommand, LabOptions, Topology, available, ethtool, run, run_in, until};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const PAIR: &str = "
[nodes.a]
[nodes.b]
loopback = ['192.0.2.1/32', '2001:db8::1/128']
[[links]]
a = 'a:eth0'
b = 'b:eth0'
a_addresses = ['10.0.0.1/24', 'fd00::1/64']
b_addresses = ['10.0.0.2/24', 'fd00::2/64']
";

/// Returns true if labs can be made here, and reports a skip if not.
fn labs() -> bool {
    match available() {
        Ok(()) => true,
        Err(e) => {
            sluice_testkit::skipped(e);
            false
        }
    }
}

/// Returns true if FRR and OpenBGPD can run here: both change their user.
fn root() -> bool {
    let root = std::fs::metadata("/proc/self").is_ok_and(|m| m.uid() == 0);
    if !root {
        sluice_testkit::skipped("not root");
    }
    root
}

/// Asks until it is so.
fn await_level(what: &str, level: impl FnMut() -> bool) {
    assert!(until(Duration::from_secs(60), level), "never: {what}");
}

fn ping(lab: &Lab, node: &str, to: &str) -> bool {
    lab.exec(node, "ping", ["-c1", "-W2", to]).is_ok()
}

#[test]
fn two_labs_side_by_side() {
    if !labs() {
        return;
    }
    let topology: Topology = PAIR.parse().unwrap();
    let one = Lab::up(&topology, LabOptions::unique("side")).unwrap();
    let two = Lab::up(&topology, LabOptions::unique("side")).unwrap();
    for lab in [&one, &two] {
        assert!(ping(lab, "a", "10.0.0.2") && ping(lab, "a", "fd00::2"), "addresses are usable at once");
    }
    let (dir, again) = (one.state().dir(), one.name().to_owned());
    let taken = Lab::up(&topology, LabOptions { name: Some(again.clone()), ..LabOptions::default() });
    assert!(taken.unwrap_err().to_string().contains("up already"));
    drop(one);
    assert!(!dir.exists());
    assert!(!Path::new("/run/netns").join(format!("{again}-a")).exists());
    assert!(ping(&two, "b", "10.0.0.1"), "the other one does not notice");
}

#[test]
fn the_maker_is_killed() {
    if !labs() {
        return;
    }
    // With a guardian, and (as if the guardian had been killed too) by hand.
    for by_hand in [false, true] {
        let mut maker = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "labs::maker", "--nocapture"])
            .env(MAKER, if by_hand { "by-hand" } else { "guarded" })
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(maker.stdout.take().unwrap()).lines().map_while(Result::ok);
        let name = lines.filter_map(|l| l.split_once("lab=").map(|(_, n)| n.to_owned())).next().unwrap();
        let state = State::load(&name).unwrap();
        let sleeper = state.nodes["a"].processes["sleeper"];
        assert!(sleeper.is_running());
        maker.kill().unwrap();
        maker.wait().unwrap();
        if by_hand {
            assert!(state.dir().exists() && sleeper.is_running());
            run(LabCommand::Down { name: Some(name), all: false, orphans: false }).unwrap();
            assert!(!state.dir().exists(), "it is down when the command returns");
        }
        await_level("the lab is gone", || !state.dir().exists() && !sleeper.is_running());
        let file = state.scope.namespace_file(&state.nodes["a"].namespace);
        await_level("its namespace is gone", || !file.exists());
    }
}

/// Makes the test program the process that [`the_maker_is_killed`] kills.
const MAKER: &str = "SLUICE_LAB_MAKER";

/// Runs as the process that [`the_maker_is_killed`] kills, if the environment asks for one; otherwise tests nothing.
#[test]
fn maker() {
    let Ok(how) = std::env::var(MAKER) else { return };
    let stays = how == "by-hand";
    let topology: Topology = PAIR.parse().unwrap();
    let mut lab = Lab::up(&topology, LabOptions { stays, ..LabOptions::unique("crash") }).unwrap();
    let mut sleep = lab.command("a", "sleep").unwrap();
    sleep.arg("1000");
    lab.spawn("a", "sleeper", sleep).unwrap();
    println!("lab={}", lab.name());
    // Until it is killed, or whoever started it is gone.
    let mut line = String::new();
    let _ = std::io::stdin().read_line(&mut line);
}

#[test]
fn a_failure_leaves_nothing() {
    if !labs() {
        return;
    }
    let options = LabOptions::unique("fails");
    let name = options.name.clone().unwrap();
    let topology: Topology = "[nodes.a]\ndaemon='bird'\nconfig='nonsense;'".parse().unwrap();
    let error = Lab::up(&topology, options).unwrap_err().to_string();
    assert!(error.contains("bird on a is not ready") && error.contains("syntax error"), "{error}");
    assert!(State::load(&name).is_err());
    assert!(!Path::new("/run/netns").join(format!("{name}-a")).exists());
}

#[test]
fn a_switch_joins_three() {
    if !labs() {
        return;
    }
    let mut text = String::from("[nodes.s]\ndaemon = 'switch'\n");
    for n in 1..=3 {
        text +=
            &format!("[nodes.h{n}]\n[[links]]\na='h{n}:eth0'\nb='s:p{n}'\na_addresses=['10.0.0.{n}/24']\n");
    }
    let topology: Topology = text.parse().unwrap();
    let lab = Lab::up(&topology, LabOptions::unique("switch")).unwrap();
    assert!(ping(&lab, "h1", "10.0.0.3") && ping(&lab, "h2", "10.0.0.3"));
}

const BGP: &str = r#"
[nodes.r1]
daemon = "bird"
config = """
router id 10.0.0.1;
protocol device { }
protocol kernel { ipv4 { export all; }; }
protocol static { ipv4; route 198.51.100.0/24 blackhole; }
protocol bgp peer {
    local as 65001; neighbor 10.0.0.2 as 65002;
    connect delay time 1; connect retry time 1;
    ipv4 { import all; export all; };
}
"""
[nodes.r2]
daemon = "frr"
config = """
router bgp 65002
 bgp router-id 10.0.0.2
 no bgp ebgp-requires-policy
 neighbor 10.0.0.1 remote-as 65001
 neighbor 10.0.0.1 timers connect 1
 address-family ipv4 unicast
  network 203.0.113.0/24
 exit-address-family
ip route 203.0.113.0/24 blackhole
"""
[[links]]
a = "r1:eth0"
b = "r2:eth0"
a_addresses = ["10.0.0.1/24"]
b_addresses = ["10.0.0.2/24"]
"#;

#[test]
fn bird_speaks_bgp_with_frr() {
    if !root() {
        return;
    }
    let topology: Topology = BGP.parse().unwrap();
    let mut lab = Lab::up(&topology, LabOptions::unique("bgp")).unwrap();
    await_level("r2's kernel has r1's route", || {
        lab.exec("r2", "ip", ["route", "show", "198.51.100.0/24"]).unwrap().contains("via 10.0.0.1")
    });
    await_level("r1's kernel has r2's route", || {
        lab.exec("r1", "ip", ["route", "show", "203.0.113.0/24"]).unwrap().contains("via 10.0.0.2")
    });
    assert!(lab.control("r1", "show protocols peer").unwrap().contains("Established"));
    assert!(lab.control("r2", "show bgp summary").unwrap().contains("10.0.0.1"));
    lab.stop("r1", true).unwrap();
    await_level("r2 notices", || {
        lab.exec("r2", "ip", ["route", "show", "198.51.100.0/24"]).unwrap().is_empty()
    });
    lab.start("r1").unwrap();
    await_level("r1 is back", || {
        lab.exec("r2", "ip", ["route", "show", "198.51.100.0/24"]).unwrap().contains("via 10.0.0.1")
    });
}

#[test]
fn rootless() {
    if !labs() {
        return;
    }
    let topology: Topology = PAIR.parse().unwrap();
    let options = LabOptions { rootless: true, ..LabOptions::unique("rootless") };
    let lab = match Lab::up(&topology, options) {
        Ok(lab) => lab,
        Err(e) => return sluice_testkit::skipped(e),
    };
    assert!(ping(&lab, "a", "10.0.0.2"));
    let mut inside = lab.command("a", "sleep").unwrap().arg("1000").spawn().unwrap();
    let id = ProcessId::of(inside.id()).unwrap();
    let dir = lab.state().dir();
    drop(lab);
    inside.wait().unwrap();
    assert!(!dir.exists() && !id.is_running(), "what ran inside ends with the lab");
}

#[test]
fn rootless_bird_and_what_needs_root() {
    if !labs() {
        return;
    }
    let up = |daemon: &str, config: &str| {
        let text = format!("[nodes.r]\ndaemon = '{daemon}'\nconfig = '''{config}'''");
        let options = LabOptions { rootless: true, ..LabOptions::unique("rootless") };
        Lab::up(&text.parse().unwrap(), options)
    };
    let refused = up("frr", "").unwrap_err().to_string();
    if !refused.contains("changes its user") {
        return sluice_testkit::skipped(refused);
    }
    let bird = "router id 10.0.0.1; protocol device { } protocol kernel { ipv4 { export all; }; }
        protocol static { ipv4; route 198.51.100.0/24 blackhole; }";
    let lab = up("bird", bird).unwrap();
    await_level("the route is in the kernel", || {
        lab.exec("r", "ip", ["route", "show", "198.51.100.0/24"]).unwrap().contains("blackhole")
    });
    assert!(lab.control("r", "show status").unwrap().contains("up and running"));
}

#[test]
fn other_daemons_start() {
    if !root() {
        return;
    }
    let topology: Topology = r#"
[nodes.g]
daemon = "gobgp"
config = """
[global.config]
as = 65003
router-id = "10.0.0.3"
"""
[nodes.o]
daemon = "openbgpd"
config = """
AS 65004
router-id 10.0.0.4
"""
[nodes.e]
daemon = "exabgp"
config = """
neighbor 10.0.0.4 { router-id 10.0.0.5; local-address 10.0.0.5; local-as 65005; peer-as 65004; }
"""
"#
    .parse()
    .unwrap();
    let lab = Lab::up(&topology, LabOptions::unique("others")).unwrap();
    assert!(lab.control("g", "global").unwrap().contains("65003"));
    lab.control("o", "show").unwrap();
    assert!(lab.state().nodes["e"].processes["exabgp"].is_running(), "{}", lab.log("e", "exabgp"));
}

#[test]
fn without_a_name_only_the_lab_of_this_folder_goes_down() {
    if !labs() {
        return;
    }
    let base = std::env::temp_dir().join(LabOptions::unique("folders").name.unwrap());
    let down =
        |folder: &Path| run_in(folder, LabCommand::Down { name: None, all: false, orphans: false }).map(drop);
    let mut folders = Vec::new();
    for part in ["here", "there", "empty"] {
        let folder = base.join(part);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("pair.toml"), PAIR).unwrap();
        folders.push(folder);
    }
    let up = |folder: &Path| {
        let name = LabOptions::unique("folder").name.unwrap();
        let topology = folder.join("pair.toml");
        run(LabCommand::Up { topology, name: Some(name.clone()), sluice: None, rootless: false }).unwrap();
        name
    };
    let (here, there) = (up(&folders[0]), up(&folders[1]));
    let error = down(&folders[2]).unwrap_err().to_string();
    assert!(error.contains("no lab of a topology in this folder is up") && error.contains(&here), "{error}");
    down(&folders[0]).unwrap();
    assert!(Lab::attach(&here).is_err() && Lab::attach(&there).is_ok());
    let also_there = up(&folders[1]);
    let error = down(&folders[1]).unwrap_err().to_string();
    assert!(error.contains("say which") && error.contains(&also_there), "{error}");
    for name in [there, also_there] {
        run(LabCommand::Down { name: Some(name), all: false, orphans: false }).unwrap();
    }
    std::fs::remove_dir_all(&base).unwrap();
}

#[test]
fn the_command_line() {
    if !labs() {
        return;
    }
    let name = LabOptions::unique("cli").name.unwrap();
    let dir = std::env::temp_dir().join(&name);
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("pair.toml");
    std::fs::write(&file, PAIR).unwrap();
    let up = LabCommand::Up { topology: file, name: Some(name.clone()), sluice: None, rootless: false };
    run(up).unwrap();
    let lab = Lab::attach(&name).unwrap();
    assert!(ping(&lab, "a", "10.0.0.2"));
    drop(lab);
    run(LabCommand::Status { name: Some(name.clone()), json: true }).unwrap();
    run(LabCommand::Down { name: Some(name.clone()), all: false, orphans: false }).unwrap();
    assert!(Lab::attach(&name).is_err());
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn links_for_xdp_have_napi_and_finish_checksums() {
    if !labs() || !root() {
        return;
    }
    let topology = "
        [nodes.a]
        [nodes.b]
        [[links]]
        a = 'a:eth0'
        b = 'b:eth0'
        a_addresses = ['10.0.0.1/24']
        b_addresses = ['10.0.0.2/24']
        xdp = true
        [[links]]
        a = 'a:eth1'
        b = 'b:eth1'
    ";
    let topology: Topology = topology.parse().unwrap();
    let lab = Lab::up(&topology, LabOptions::unique("xdp")).unwrap();
    for node in ["a", "b"] {
        let settings = |interface: &str| {
            lab.inside(node, || {
                let (gro, checksum) = (ethtool::gro(interface), ethtool::transmit_checksum(interface));
                (gro.unwrap(), checksum.unwrap())
            })
        };
        assert_eq!(settings("eth0").unwrap(), (true, false));
        assert_eq!(settings("eth1").unwrap(), (false, true));
        assert_eq!(lab.inside(node, || ethtool::driver("eth0")).unwrap().unwrap(), "veth");
    }
    assert!(ping(&lab, "a", "10.0.0.2"));
    // A connection carries data over the link as over any other.
    let listener = lab.inside("b", || std::net::TcpListener::bind("10.0.0.2:7")).unwrap().unwrap();
    let mut sender = lab.inside("a", || std::net::TcpStream::connect("10.0.0.2:7")).unwrap().unwrap();
    let mut receiver = listener.accept().unwrap().0;
    let data: Vec<u8> = (0..1 << 20).map(|n: u32| n as u8).collect();
    let (mut received, expected) = (Vec::new(), data.clone());
    std::thread::scope(|threads| {
        threads.spawn(move || sender.write_all(&data).unwrap());
        receiver.read_to_end(&mut received).unwrap();
    });
    assert!(received == expected);
    // Other interfaces are refused by name.
    assert!(lab.inside("a", || ethtool::gro("nothing0")).unwrap().is_err());
    assert!(lab.inside("a", || ethtool::set_gro("a-name-too-long-for-linux", true)).unwrap().is_err());
}
