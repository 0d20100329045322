//! XIP through whole routers: neighbors found, echoes by the program's cache, changed redirects, processes killed, tunnels.

use crate::SLUICE;
use serde_json::Value;
use sluice_router_lab::bird::{commit, kill};
use sluice_router_lab::xip::{at, commit_at, config, counter, link, node, ping, run};
use sluice_router_lab::{RouterLab, possible, share};
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) const NEAR: &str = "hid-1111111111111111111111111111111111111111";
pub(crate) const FAR: &str = "hid-3333333333333333333333333333333333333333";
pub(crate) const NEAR_DOMAIN: &str = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
pub(crate) const FAR_DOMAIN: &str = "ad-a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3";
pub(crate) const MIDDLE: &str = "hid-2222222222222222222222222222222222222222";

/// The HID of the far host's key.
const KEYED_FAR: &str = "hid-b575c45f5ac27700a825c7ad2d748a42f1637049";

/// The statement of a router's own key.
fn key_of(key: &str) -> String {
    format!("host own {{ private-key \"{key}\"; }}")
}

/// Sends echoes to the far host, each of which has to be replied to.
pub(crate) fn replies(lab: &RouterLab, count: usize) {
    for number in 0..count {
        let kind = ping(lab, "near", &far());
        let shown = |of: &str| lab.ask(&["show", "xip", of]);
        assert_eq!(
            kind,
            "reply",
            "echo {number}\n{}\n{}\n{}\n{}",
            shown("neighbors"),
            shown("routes"),
            shown("counters"),
            lab.lab.log("sluice", "sluice")
        );
    }
}

/// The far host within its domain.
pub(crate) fn far() -> String {
    format!("{FAR_DOMAIN}-1:{FAR}-0")
}

/// Three routers in a row: near, sluice, far.
pub(crate) fn row(engine: &str) -> String {
    let near = config("kernel", &["eth0"], &[NEAR, NEAR_DOMAIN], &[(FAR_DOMAIN, MIDDLE)], "");
    let middle_redirects = [(NEAR_DOMAIN, NEAR), (FAR_DOMAIN, FAR)];
    let shadow = "cache { shadow-interval 3; }";
    let middle = config(engine, &["eth0", "eth1"], &[MIDDLE], &middle_redirects, shadow);
    let far = config("kernel", &["eth0"], &[FAR, FAR_DOMAIN], &[(NEAR_DOMAIN, MIDDLE)], "");
    node("near", &near)
        + &node("sluice", &middle)
        + &node("far", &far)
        + "[[links]]\na = 'near:eth0'\nb = 'sluice:eth0'\nxdp = true\n\
           [[links]]\na = 'far:eth0'\nb = 'sluice:eth1'\nxdp = true\n"
}

pub(crate) fn cache(lab: &RouterLab, field: &str) -> u64 {
    let summary = lab.ask(&["show", "xip", "principals"]);
    summary["cache"][field].as_str().and_then(|text| text.parse().ok()).unwrap_or_default()
}

#[test]
fn echoes_cross_a_router_by_its_cache_and_follow_its_redirects() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&row("both").parse().unwrap(), Path::new(SLUICE));
    let ready = Instant::now();
    lab.until("the far host answers", |lab| ping(lab, "near", &far()) == "reply");
    // Neighbors are learned for 60 s, and a router without routes of a process before waits for none of them.
    assert!(ready.elapsed() < Duration::from_secs(50), "{:?}", ready.elapsed());
    lab.until("the program forwards", |lab| lab.ask(&["show", "xip", "principals"])["fast_path"] == true);
    lab.until("rows are cached", |lab| ping(lab, "near", &far()) == "reply" && cache(lab, "rows") >= 2);
    let sent = counter(&lab, "fast", "sent");
    replies(&lab, 20);
    assert!(counter(&lab, "fast", "sent") >= sent + 20, "{}", lab.ask(&["show", "xip", "counters"]));

    // The answer of each cached row rests on something, and the command names it.
    let row = lab.ask(&["show", "xip", "cache"])["rows"][0]["number"].to_string();
    let anchors = lab.ask(&["show", "xip", "anchors", &row])["anchors"].to_string();
    assert!(anchors.contains("neighbor") || anchors.contains("entry"), "{anchors}");
    let trace = at(&lab, "near", &["xip", "traceroute", &far()]);
    let kinds: Vec<&Value> =
        trace["routers"].as_array().unwrap().iter().map(|router| &router["kind"]).collect();
    assert_eq!(kinds, ["time-exceeded", "reply"], "{trace}");
    assert!(trace["routers"][0]["from"].as_str().unwrap().contains(MIDDLE), "{trace}");

    // A hop limit of 0 ends at the first router; the request's address comes back as it arrived there.
    let answer = at(&lab, "near", &["request", "xip", "ping", &far(), "hop_limit", "0"]);
    assert_eq!(answer["kind"], "time-exceeded", "{answer}");
    assert!(answer["from"].as_str().unwrap().contains(MIDDLE), "{answer}");

    // The next packet goes the new way: nowhere, and back.
    commit(&lab, &format!("delete protocols static xid-route {FAR_DOMAIN}"));
    lab.until("the domain is unreachable", |lab| ping(lab, "near", &far()) == "unreachable");
    commit(&lab, &format!("set protocols static xid-route {FAR_DOMAIN} gateway {FAR}"));
    lab.until("the domain is back", |lab| ping(lab, "near", &far()) == "reply");

    // A principal goes and comes: its XIDs lead nowhere meanwhile, not even reports, and its routes are kept.
    commit(&lab, "delete xip principal ad");
    lab.until("domains are unknown", |lab| ping(lab, "near", &far()) == "lost");
    commit(&lab, "set xip principal ad");
    lab.until("domains are known", |lab| ping(lab, "near", &far()) == "reply");

    replies(&lab, 20);
    let (checked, wrong) = (cache(&lab, "checked"), cache(&lab, "wrong"));
    assert!(checked > 0 && wrong == 0, "{wrong} of {checked} checked hits were wrong");
}

#[test]
fn neighbors_prove_their_hids_by_their_keys() {
    let _share = share();
    if !possible() {
        return;
    }
    let near = include_str!("../../../../components/xip/process/tests/keys/near.txt");
    let far = include_str!("../../../../components/xip/process/tests/keys/far.txt");
    let keyed = |key: &str, own: &[&str]| {
        let more = format!("neighbors {{ proof required; }} {}", key_of(key));
        config("kernel", &["eth0"], own, &[], &more)
    };
    let lab = node("sluice", &keyed(near, &[]))
        + &node("far", &keyed(far, &[FAR]))
        + "[[links]]\na = 'sluice:eth0'\nb = 'far:eth0'\n";
    let lab = RouterLab::up(&lab.parse().unwrap(), Path::new(SLUICE));
    let state = |lab: &RouterLab, hid: &str| {
        let neighbors = lab.ask(&["show", "xip", "neighbors"])["neighbors"].clone();
        let all = neighbors.as_array().cloned().unwrap_or_default();
        let found = all.iter().find(|neighbor| neighbor["hid"] == hid).cloned();
        found.map(|neighbor| (neighbor["proof"].clone(), neighbor["usable"].clone()))
    };
    lab.until("the far host has proven its HID", |lab| {
        state(lab, KEYED_FAR) == Some(("proven".into(), true.into()))
    });
    lab.until("the far host answers", |lab| ping(lab, "sluice", &format!("{KEYED_FAR}-0")) == "reply");
    // A HID without a key has no proof, and is no route.
    lab.until("the other HID is known", |lab| state(lab, FAR).is_some());
    let (proof, usable) = state(&lab, FAR).unwrap();
    assert!(proof != "proven" && usable == false, "{proof} {usable}");
    assert!(!lab.ask(&["show", "routes", "--xid"]).to_string().contains(FAR));
    // The key is shown to nobody.
    let shown = lab.ask(&["show", "configuration"]).to_string();
    assert!(!shown.contains(&near[..40]), "{shown}");
    // A proof is asked for at once where it is wanted from now on, and not before.
    commit(&lab, "set xip neighbors proof off");
    lab.until("the other HID is used", |lab| ping(lab, "sluice", &format!("{FAR}-0")) == "reply");
}

#[test]
fn the_commands_of_linux_xia_have_equivalents() {
    let _share = share();
    if !possible() {
        return;
    }
    let config = config("kernel", &["eth0"], &[NEAR], &[], "");
    let lab = format!("[nodes.sluice]\ndaemon = 'sluice'\nconfig = '''{config}'''\n[nodes.host]\n")
        + "[[links]]\na = 'sluice:eth0'\nb = 'host:eth0'\n";
    let lab = RouterLab::up(&lab.parse().unwrap(), Path::new(SLUICE));
    lab.until("XIP runs", |lab| lab.ask(&["show", "xip", "interfaces"])["interfaces"].is_array());
    let page = include_str!("../../../../docs/xia/commands.md");
    let cells =
        page.lines().filter_map(|line| line.strip_prefix("| ")?.rsplit_once(" | ")).map(|cell| cell.1);
    let commands: Vec<&str> = cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    // Addresses are completed to known XIDs, node by node, as rows are to their numbers.
    let offered = |line: &str| {
        let dir = lab.run_dir();
        let output = lab
            .lab
            .command("sluice", SLUICE)
            .unwrap()
            .args(["__complete", "fish", line])
            .env("SLUICE_RUN_DIR", dir)
            .output();
        String::from_utf8(output.unwrap().stdout).unwrap()
    };
    let own = format!("{NEAR}-0");
    lab.until("the own HID is a route", |_| offered("sluice xip ping h").contains(&own));
    for command in ["xip ping", "xip traceroute", "request xip ping"] {
        assert!(
            offered(&format!("sluice {command} h")).lines().any(|line| line.trim_end() == own),
            "{command}"
        );
        let scoped = format!("{FAR_DOMAIN}-1:{own}");
        let line = format!("sluice {command} {FAR_DOMAIN}-1:hid");
        assert!(offered(&line).lines().any(|line| line.trim_end() == scoped), "{line}: {}", offered(&line));
        assert!(!offered(&format!("sluice {command} {FAR_DOMAIN}-1:x")).contains("xdp"));
    }
    let is_statement = |words: &&str| words.starts_with("set ") || words.starts_with("delete ");
    let key = include_str!("../../../../components/xip/process/tests/keys/near.txt");
    let statements: Vec<String> =
        commands.iter().filter(|c| is_statement(c)).map(|c| c.replace("KEY", key)).collect();
    let run = |words: &[&str]| {
        let dir = lab.lab.dir("sluice").join("run");
        let output =
            lab.lab.command("sluice", SLUICE).unwrap().args(words).arg("--run-dir").arg(dir).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    // Nothing is committed: each statement stands on those before.
    let statements: Vec<&str> = statements.iter().map(String::as_str).collect();
    run(&[&["configure"], &statements[..]].concat());
    let shown = commands.iter().filter(|c| c.starts_with("show ") || c.starts_with("clear "));
    let shown = shown.map(|command| run(&command.split(' ').collect::<Vec<_>>())).count();
    assert!(statements.len() >= 20 && shown >= 10, "{} statements, {shown} commands", statements.len());
}

#[test]
fn packets_of_cached_rows_flow_while_xip_is_dead() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&row("both").parse().unwrap(), Path::new(SLUICE));
    lab.until("the program forwards", |lab| {
        ping(lab, "near", &far()) == "reply" && counter(lab, "fast", "sent") > 4
    });
    // Checked hits come to the process, which is about to die.
    commit(&lab, "set xip cache shadow-interval 0");
    replies(&lab, 4);
    let before = lab.pid("xip");
    kill(&lab, "xip");
    replies(&lab, 10);
    lab.until("xip is back", |lab| lab.pid("xip").is_some_and(|pid| Some(pid) != before));
    // The next process knows the neighbors of the one before until it has learned its own. Until it has the routes, packets that come up
    // wait.
    lab.until("the program forwards again", |lab| {
        ping(lab, "near", &far()) == "reply" && lab.ask(&["show", "xip", "principals"])["fast_path"] == true
    });
    replies(&lab, 10);
}

/// A process that cannot fetch the routes yet keeps the packets, and sends them once it has the routes.
#[test]
fn packets_wait_until_the_routes_are_known() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&row("kernel").parse().unwrap(), Path::new(SLUICE));
    lab.until("the far host answers", |lab| ping(lab, "near", &far()) == "reply");
    let (rib, before) = (lab.pid("rib").unwrap(), lab.pid("xip").unwrap());
    lab.kill(before);
    lab.signal("-STOP", rib);
    lab.until("the next process keeps packets", |lab| {
        ping(lab, "near", &far());
        counter(lab, "early", "held") > 0
    });
    let held = counter(&lab, "early", "held");
    // The manager replaces a RIB that stands still for long.
    if lab.pid("rib") == Some(rib) {
        lab.signal("-CONT", rib);
    }
    lab.until("the packets are sent", |lab| counter(lab, "slow", "sent") >= held);
    assert_eq!(counter(&lab, "early", "lost"), 0);
    lab.until("the far host answers again", |lab| ping(lab, "near", &far()) == "reply");
}

#[test]
fn without_xdp_all_packets_come_to_the_process() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&row("kernel").parse().unwrap(), Path::new(SLUICE));
    lab.until("the far host answers", |lab| ping(lab, "near", &far()) == "reply");
    // The process asks for the program once it knows the routes.
    lab.until("the reason is known", |lab| {
        let summary = lab.ask(&["show", "xip", "principals"]);
        assert_eq!(summary["fast_path"], false);
        summary["fast_path_reason"].as_str().is_some_and(|reason| reason.contains("engine"))
    });
    assert!(counter(&lab, "slow", "sent") >= 2);
}

/// Other EtherTypes than the usual ones, those for experiments on a link (IEEE 802).
#[test]
fn the_ethertypes_are_the_operators_choice() {
    let _share = share();
    if !possible() {
        return;
    }
    let types = "ethertype { packets 34997; neighbors 34998; }";
    let near = config("kernel", &["eth0"], &[NEAR, NEAR_DOMAIN], &[(FAR_DOMAIN, MIDDLE)], types);
    let redirects = [(NEAR_DOMAIN, NEAR), (FAR_DOMAIN, FAR)];
    let middle = config("both", &["eth0", "eth1"], &[MIDDLE], &redirects, types);
    let far = config("kernel", &["eth0"], &[FAR, FAR_DOMAIN], &[(NEAR_DOMAIN, MIDDLE)], types);
    let topology = node("near", &near)
        + &node("sluice", &middle)
        + &node("far", &far)
        + &link("near:eth0", "sluice:eth0")
        + &link("far:eth0", "sluice:eth1");
    let lab = RouterLab::up(&topology.parse().unwrap(), Path::new(SLUICE));
    let is_fast = |lab: &RouterLab| {
        let sent = counter(lab, "fast", "sent");
        ping(lab, "near", &self::far()) == "reply" && counter(lab, "fast", "sent") >= sent + 2
    };
    lab.until("the program forwards packets of the other EtherType", is_fast);

    // A router that speaks the usual ones is none of theirs, until the others do too.
    let usual = ["delete xip ethertype".to_owned()];
    commit_at(&lab, "near", &usual);
    lab.until("the near host is alone", |lab| ping(lab, "near", &self::far()) != "reply");
    commit_at(&lab, "sluice", &usual);
    commit_at(&lab, "far", &usual);
    lab.until("the program forwards packets of the usual EtherType", is_fast);

    // A protocol that cannot be distinguished from another one is refused, with a way out.
    let refused = |statement: &str| {
        let output = run(&lab, "sluice", &["configure", statement, "commit"]);
        assert!(!output.status.success(), "{statement}");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    let text = refused("set xip ethertype packets 2048");
    assert!(text.contains("0x0800 is the EtherType of IPv4"), "{text}");
    let text = refused("set xip ethertype packets 49375");
    assert!(text.contains("set xip ethertype neighbors 49374"), "{text}");
    assert!(is_fast(&lab));
}

/// Two islands of XIP with an IP router between them.
#[test]
fn islands_reach_each_other_through_tunnels() {
    let _share = share();
    if !possible() {
        return;
    }
    let tunnel = |local: &str| format!("tunnel {{ local {local}; }}");
    let near = config("kernel", &["eth0"], &[NEAR, NEAR_DOMAIN], &[], &tunnel("10.1.0.2"));
    let far = config("kernel", &["eth0"], &[FAR, FAR_DOMAIN], &[], &tunnel("10.2.0.2"));
    let topology = format!(
        "[nodes.near]\ndaemon = 'sluice'\nroutes = ['default via 10.1.0.1']\nconfig = '''{near}'''\n\
         [nodes.sluice]\ndaemon = 'sluice'\nconfig = '''interfaces {{ forwarding {{ ipv4 true; }} }}'''\n\
         [nodes.far]\ndaemon = 'sluice'\nroutes = ['default via 10.2.0.1']\nconfig = '''{far}'''\n\
         [[links]]\na = 'near:eth0'\nb = 'sluice:eth0'\na_addresses = ['10.1.0.2/24']\nb_addresses = ['10.1.0.1/24']\n\
         [[links]]\na = 'far:eth0'\nb = 'sluice:eth1'\na_addresses = ['10.2.0.2/24']\nb_addresses = ['10.2.0.1/24']\n"
    );
    let lab = RouterLab::up(&topology.parse().unwrap(), Path::new(SLUICE));
    // The entry prefers the host; the tunnel to 10.2.0.2, port 13781, is the fallback.
    let address = format!("u4id-0a02000235d50000000000000000000000000000-1:{FAR}-10");
    lab.until("the other island answers", |lab| ping(lab, "near", &address) == "reply");
    assert_eq!(ping(&lab, "near", &far_only()), "unreachable");
}

/// A host, a router with a tunnel, an IP router, a router with a tunnel that is the far host.
#[test]
fn packets_of_warm_rows_go_through_tunnels_without_the_process() {
    let _share = share();
    if !possible() {
        return;
    }
    let end_of = |address: &str| format!("u4id-{address}35d50000000000000000000000000000");
    let (middle_end, far_end) = (end_of("0a010002"), end_of("0a020002"));
    let near = config("kernel", &["eth0"], &[NEAR, NEAR_DOMAIN], &[(FAR_DOMAIN, MIDDLE)], "");
    let redirects = [(NEAR_DOMAIN, NEAR), (FAR_DOMAIN, far_end.as_str())];
    let more = "interface eth1 { neighbors false; } tunnel { local 10.1.0.2; }";
    let middle = config("both; ipv4 true", &["eth0"], &[MIDDLE], &redirects, more);
    let back = [(NEAR_DOMAIN, middle_end.as_str())];
    let far = config("kernel", &[], &[FAR, FAR_DOMAIN], &back, "tunnel { local 10.2.0.2; }");
    let topology = node("near", &near)
        + &format!("[nodes.sluice]\ndaemon = 'sluice'\nconfig = '''{middle}'''\n")
        + "[nodes.ip]\nforwarding = true\n"
        + &format!(
            "[nodes.far]\ndaemon = 'sluice'\nroutes = ['default via 10.2.0.1']\nconfig = '''{far}'''\n"
        )
        + &link("near:eth0", "sluice:eth0")
        + "[[links]]\na = 'sluice:eth1'\nb = 'ip:eth0'\nxdp = true\n\
           a_addresses = ['10.1.0.2/24']\nb_addresses = ['10.1.0.1/24']\n\
           [[links]]\na = 'ip:eth1'\nb = 'far:eth0'\nxdp = true\n\
           a_addresses = ['10.2.0.1/24']\nb_addresses = ['10.2.0.2/24']\n";
    let lab = RouterLab::up(&topology.parse().unwrap(), Path::new(SLUICE));
    // The RIB takes routes whose gateway is a tunnel's far end while it has a route there.
    for (name, gateway) in [("sluice", "10.1.0.1"), ("far", "10.2.0.1")] {
        commit_at(&lab, name, &[format!("set protocols static route 0.0.0.0/0 next-hop {gateway}")]);
    }
    lab.until("the other island answers by the program's tunnel", |lab| {
        ping(lab, "near", &self::far()) == "reply"
            && counter(lab, "fast", "tunneled") > 0
            && counter(lab, "fast", "from-tunnel") > 0
    });
    let counts = |lab: &RouterLab| {
        let fast =
            ["tunneled", "from-tunnel", "to-user", "no-way"].map(|reason| counter(lab, "fast", reason));
        (fast, counter(lab, "slow", "tunneled"))
    };
    let ([tunneled, arrived, up, no_way], slow) = counts(&lab);
    replies(&lab, 20);
    assert_eq!(counts(&lab), ([tunneled + 20, arrived + 20, up, no_way], slow));
    let cache = lab.ask(&["show", "xip", "cache"]).to_string();
    assert!(cache.contains("\"tunnel\""), "{cache}");

    // Without the tunnel the row has another answer, and datagrams for the former end go to nobody.
    commit(&lab, "delete xip tunnel");
    lab.until("the tunnel is gone", |lab| ping(lab, "near", &self::far()) != "reply");
    commit(&lab, "set xip tunnel local 10.1.0.2");
    lab.until("the tunnel is back", |lab| ping(lab, "near", &self::far()) == "reply");
}

/// The far host without a way to it.
fn far_only() -> String {
    format!("{FAR}-0")
}
