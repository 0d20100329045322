//! Principals of third parties' processes through whole routers: the example package decides, hangs, dies and returns. Routes that no
//! principal takes, as the RIB shows them.

use crate::SLUICE;
use serde_json::Value;
use sluice_router_lab::bird::commit;
use sluice_router_lab::{RouterLab, possible, share};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A name of a service, a domain that both hosts are in, and the domain of the second host.
const NAME: &str = "sid-7777777777777777777777777777777777777777";
const SHARED: &str = "ad-5555555555555555555555555555555555555555";
const SECOND_DOMAIN: &str = "ad-a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2";
const NEAR: &str = "hid-1111111111111111111111111111111111111111";
const NEAR_DOMAIN: &str = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
const MIDDLE: &str = "hid-2222222222222222222222222222222222222222";
const FIRST: &str = "hid-3333333333333333333333333333333333333333";
const SECOND: &str = "hid-4444444444444444444444444444444444444444";

fn config(interfaces: &[&str], own: &[&str], redirects: &[(&str, &str)], more: &str) -> String {
    let interfaces: String = interfaces.iter().map(|name| format!("interface {name}; ")).collect();
    let own: String = own.iter().map(|xid| format!("xid-route {xid} {{ local; }}\n")).collect();
    let redirects = redirects.iter().map(|(xid, to)| format!("xid-route {xid} {{ gateway {to}; }}\n"));
    let redirects: String = redirects.collect();
    format!(
        "xip {{ {interfaces} principal [ ad hid ]; xcmp true; }}\n\
         protocols {{ static {{ {own} {redirects} }} {more} }}\n"
    )
}

/// A sender, the router under test, and two hosts. The name is decided for in the router and in the first host.
fn star() -> String {
    let services = format!("services {{ host {FIRST}; }}");
    let to_near = [(NEAR_DOMAIN, MIDDLE)];
    let node =
        |name: &str, config: String| format!("[nodes.{name}]\ndaemon = 'sluice'\nconfig = '''{config}'''\n");
    node("near", config(&["eth0"], &[NEAR, NEAR_DOMAIN], &[(SECOND_DOMAIN, MIDDLE)], ""))
        + &node(
            "sluice",
            config(
                &["eth0", "eth1", "eth2"],
                &[MIDDLE],
                &[(NEAR_DOMAIN, NEAR), (SECOND_DOMAIN, SECOND)],
                &services,
            )
            .replace("static {", "static { route 203.0.113.0/24 { discard; } "),
        )
        + &node("first", config(&["eth0"], &[FIRST, SHARED], &to_near, &services))
        + &node("second", config(&["eth0"], &[SECOND, SECOND_DOMAIN, SHARED], &to_near, ""))
        + "[[links]]\na = 'near:eth0'\nb = 'sluice:eth0'\n\
           [[links]]\na = 'first:eth0'\nb = 'sluice:eth1'\n\
           [[links]]\na = 'second:eth0'\nb = 'sluice:eth2'\n"
}

/// The shared domain, by the name of the service, or else by the second host's domain.
fn address() -> String {
    format!("{NAME}-2:{SECOND_DOMAIN}-2:{SHARED}-01")
}

/// Pings from the sender, and returns the host that answers; another word without an answer.
fn answers(lab: &RouterLab) -> String {
    ping(lab, &address()).unwrap_or_else(|answer| answer.to_string())
}

/// Returns the host that answers first. A ping without an answer in time, as on a busy machine, is repeated.
fn first_answer(lab: &RouterLab, address: &str) -> String {
    let mut host = String::new();
    lab.until("a ping is answered", |lab| match ping(lab, address) {
        Ok(answering) => {
            host = answering;
            true
        }
        Err(_) => false,
    });
    host
}

/// Pings an address from the sender, and returns the host that answers; an error is the output without an answer.
fn ping(lab: &RouterLab, address: &str) -> Result<String, Value> {
    let run = lab.lab.dir("near").join("run");
    let mut command = lab.lab.command("near", SLUICE).unwrap();
    let words = ["request", "xip", "ping", address, "--json", "--run-dir"];
    let output = command.args(words).arg(run).output().unwrap();
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let from = answer["from"].as_str().unwrap_or_default();
    match [FIRST, SECOND].iter().find(|host| from.contains(**host)) {
        Some(host) if answer["kind"] == "reply" => Ok((*host).into()),
        _ => Err(answer),
    }
}

fn counter(lab: &RouterLab, path: &str, reason: &str) -> u64 {
    let counters = lab.ask(&["show", "xip", "counters"]);
    let all = counters["counters"].as_array().into_iter().flatten();
    let found = all.filter(|counter| counter["path"] == path && counter["reason"] == reason);
    found.filter_map(|counter| counter["count"].as_str()?.parse::<u64>().ok()).sum()
}

/// Configures another host for the name, and waits until the decision for the host before is taken back.
fn move_name(lab: &RouterLab, from: &str, to: &str) {
    let taken_back = counter(lab, "principal sid", "taken-back");
    let (set, delete) =
        (format!("set protocols services host {to}"), format!("delete protocols services host {from}"));
    let done = lab.cli(&["configure", &set, &delete, "commit"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    lab.until("the decision is taken back", |lab| counter(lab, "principal sid", "taken-back") > taken_back);
}

fn principal(lab: &RouterLab, name: &str) -> Value {
    let summary = lab.ask(&["show", "xip", "principals"]);
    let mut all = summary["principals"].as_array().into_iter().flatten();
    all.find(|principal| principal["name"] == name).cloned().unwrap_or_default()
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let copied = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            std::fs::copy(&path, copied).unwrap();
        }
    }
}

/// Installs the example package, and returns its folder and a program that starts a router with it.
fn install(folder: &Path) -> (PathBuf, PathBuf) {
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/python");
    let package = folder.join("packages/services");
    copy(&python.join("examples/services"), &package);
    copy(&python.join("sluice_xrl"), &package.join("sluice_xrl"));
    let program = folder.join("sluice");
    // The lab names each node's folder of packages last: the routers find this one there.
    let packages = folder.join("packages");
    let find = format!("for last; do :; done; [ $1 = start ] && ln -s {} \"$last\"", packages.display());
    std::fs::write(&program, format!("#!/bin/sh\n{find}\nexec {SLUICE} \"$@\"\n")).unwrap();
    std::fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    (package, program)
}

#[test]
fn a_process_of_a_third_party_decides_and_its_packets_take_the_next_edge_without_it() {
    let _share = share();
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (package, program) = install(folder.path());
    let lab = RouterLab::up(&star().parse().unwrap(), &program);
    lab.until("the name leads to the first host", |lab| answers(lab) == FIRST);
    let sid = principal(&lab, "sid");
    assert_eq!((&sid["process"], &sid["absent"]), (&"services".into(), &false.into()), "{sid}");
    let pids = |lab: &RouterLab| ["xip", "rib", "fea", "static"].map(|component| lab.pid(component));
    let (before, kernel) = (pids(&lab), lab.kernel_text("-4"));
    assert!(kernel.contains("203.0.113.0/24"), "{kernel}");

    // Another configuration: the decisions are taken back, and the next packet asks again.
    move_name(&lab, FIRST, SECOND);
    lab.until("the name leads to the second host", |lab| answers(lab) == SECOND);
    move_name(&lab, SECOND, FIRST);
    lab.until("the name leads to the first host again", |lab| answers(lab) == FIRST);

    // A process that hangs: names that it has decided for go on, others wait and take the next edge.
    let pid = lab.pid("services").unwrap();
    lab.signal("-STOP", pid);
    assert_eq!(first_answer(&lab, &address()), FIRST);
    assert_eq!(first_answer(&lab, &address().replace("sid-77", "sid-88")), SECOND);
    lab.until("the question is counted", |lab| counter(lab, "principal sid", "unanswered") > 0);
    lab.signal("-CONT", pid);
    lab.until("the late answer is counted", |lab| counter(lab, "principal sid", "late") > 0);

    // A process that dies, and whose successors fail: the next edge, at once.
    let works = std::fs::read(package.join("services")).unwrap();
    std::fs::write(package.join("services"), "#!/bin/sh\nexit 3\n").unwrap();
    lab.kill(lab.pid("services").unwrap());
    lab.until("the name leads to the second host", |lab| answers(lab) == SECOND);
    assert_eq!(counter(&lab, "principal sid", "died"), 1);
    assert_eq!((principal(&lab, "sid")["absent"].clone(), pids(&lab)), (true.into(), before));
    assert_eq!(lab.kernel_text("-4"), kernel, "IP is untouched");

    // A process that works.
    std::fs::write(package.join("services"), works).unwrap();
    // A process of before may still end during the first restart.
    lab.until("a process that works is started", |lab| lab.cli(&["restart", "services"]).status.success());
    lab.until("the name leads to the first host once more", |lab| answers(lab) == FIRST);
}

#[test]
fn the_rib_shows_routes_that_no_principal_takes() {
    let _share = share();
    if !possible() {
        return;
    }
    let topology = format!(
        "[nodes.sluice]\ndaemon = 'sluice'\nconfig = '''{}'''\n[nodes.peer]\n\
         [[links]]\na = 'peer:eth0'\nb = 'sluice:eth0'\n",
        config(&["eth0"], &[MIDDLE], &[(NEAR_DOMAIN, MIDDLE)], "")
    );
    let lab = RouterLab::up(&topology.parse().unwrap(), Path::new(SLUICE));
    let rejected = |lab: &RouterLab| {
        let routes = lab.ask(&["show", "routes", "--xid"]).to_string();
        routes.contains("no principal is registered under the type")
    };
    lab.until("the route is there", |lab| {
        lab.ask(&["show", "xip", "routes"]).to_string().contains(NEAR_DOMAIN)
    });
    assert!(!rejected(&lab));
    commit(&lab, "delete xip principal ad");
    lab.until("the RIB knows the refusal", rejected);
    commit(&lab, "set xip principal ad");
    lab.until("the RIB knows that the route is taken", |lab| !rejected(lab));
}

/// The beginning of the ID that 10.9.0.0/16 is as an LPM prefix.
const LPM: &str = "lpm-0a09000000000000000000000000000000000000";

#[test]
fn ip_routes_are_routes_of_lpm_prefixes() {
    let _share = share();
    if !possible() {
        return;
    }
    let with_lpm =
        |config: String, more: &str| config.replace("[ ad hid ];", &format!("[ ad hid lpm ]; {more}"));
    let near = config(&["eth0"], &[NEAR, NEAR_DOMAIN], &[(&LPM.replace("0a09", "0000"), MIDDLE)], "");
    let near = with_lpm(
        near.replace(&LPM.replace("0a09", "0000"), &format!("{}/0", LPM.replace("0a09", "0000"))),
        "",
    );
    let neighbor =
        format!("lpm {{ from-ip-routes {{ origin [ static ]; neighbor 10.1.2.2 {{ hid {FIRST}; }} }} }}");
    let middle = with_lpm(config(&["eth0", "eth1"], &[MIDDLE], &[(NEAR_DOMAIN, NEAR)], ""), &neighbor)
        .replace(
            "static {",
            "static { route 10.9.0.0/16 { next-hop 10.1.2.2; } route 10.8.0.0/16 { next-hop 10.1.2.9; } ",
        );
    let first = config(&["eth0"], &[FIRST, SHARED, &format!("{LPM}/16")], &[(NEAR_DOMAIN, MIDDLE)], "");
    let first = with_lpm(first, "");
    let node =
        |name: &str, config: &str| format!("[nodes.{name}]\ndaemon = 'sluice'\nconfig = '''{config}'''\n");
    let topology = node("near", &near)
        + &node("sluice", &middle)
        + &node("first", &first)
        + "[[links]]\na = 'near:eth0'\nb = 'sluice:eth0'\n\
           [[links]]\na = 'first:eth0'\nb = 'sluice:eth1'\na_addresses = ['10.1.2.2/24']\nb_addresses = ['10.1.2.1/24']\n";
    let lab = RouterLab::up(&topology.parse().unwrap(), Path::new(SLUICE));
    let address = format!("{}-1:{SHARED}-0", LPM.replace("0000000000", "0707070707"));
    let kind = |lab: &RouterLab| {
        let run = lab.lab.dir("near").join("run");
        let mut command = lab.lab.command("near", SLUICE).unwrap();
        let words = ["request", "xip", "ping", &address, "--json", "--run-dir"];
        let output = command.args(words).arg(run).output().unwrap();
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        answer["kind"].as_str().unwrap_or_default().to_owned()
    };
    lab.until("an ID within the prefix is reached", |lab| kind(lab) == "reply");
    let summary = lab.ask(&["show", "xip", "principals"]);
    assert_eq!(summary["ip_routes_left_out"], "1", "10.1.2.9 has no HID: {summary}");
    // The IPv4 route goes, and the prefix with it.
    commit(&lab, "delete protocols static route 10.9.0.0/16");
    lab.until("the ID is not reached", |lab| kind(lab) == "unreachable");
    // Another route has a tunnel as its next hop, once tunnels are allowed.
    commit(&lab, "set xip lpm from-ip-routes u4id true");
    lab.until("the next hop is a tunnel", |lab| {
        lab.ask(&["show", "xip", "routes"]).to_string().contains("u4id-0a010209")
    });
    commit(&lab, "delete xip lpm");
    lab.until("no LPM prefixes are left", |lab| {
        !lab.ask(&["show", "routes", "--xid"]).to_string().contains("lpm-")
    });
}
