//! Networks of XIP routers under traffic: redirects that change, a principal that replaces another router by router, trees of
//! receivers in one filter.

use crate::SLUICE;
use serde_json::Value;
use sluice_router_lab::xip::{at, commit_at, config, counter, link, mac, node, ping};
use sluice_router_lab::{RouterLab, possible, share};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};

const NEAR: &str = "hid-1111111111111111111111111111111111111111";
const LEFT: &str = "hid-2222222222222222222222222222222222222222";
const UPPER: &str = "hid-3333333333333333333333333333333333333333";
const LOWER: &str = "hid-4444444444444444444444444444444444444444";
const RIGHT: &str = "hid-5555555555555555555555555555555555555555";
const FAR: &str = "hid-6666666666666666666666666666666666666666";
const NEAR_DOMAIN: &str = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";
const FAR_DOMAIN: &str = "ad-a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6";

/// Two hosts and four routers: two ways between the first and the last router.
fn ring() -> String {
    let to = |far: &'static str, near: &'static str| [(FAR_DOMAIN, far), (NEAR_DOMAIN, near)];
    node("near", &config("kernel", &["eth0"], &[NEAR, NEAR_DOMAIN], &[(FAR_DOMAIN, LEFT)], ""))
        + &node("sluice", &config("both", &["eth0", "eth1", "eth2"], &[LEFT], &to(UPPER, NEAR), ""))
        + &node("upper", &config("kernel", &["eth0", "eth1"], &[UPPER], &to(RIGHT, LEFT), ""))
        + &node("lower", &config("kernel", &["eth0", "eth1"], &[LOWER], &to(RIGHT, LEFT), ""))
        + &node("right", &config("kernel", &["eth0", "eth1", "eth2"], &[RIGHT], &to(FAR, UPPER), ""))
        + &node("far", &config("kernel", &["eth0"], &[FAR, FAR_DOMAIN], &[(NEAR_DOMAIN, RIGHT)], ""))
        + &link("near:eth0", "sluice:eth0")
        + &link("sluice:eth1", "upper:eth0")
        + &link("sluice:eth2", "lower:eth0")
        + &link("upper:eth1", "right:eth0")
        + &link("lower:eth1", "right:eth1")
        + &link("right:eth2", "far:eth0")
}

/// Returns the addresses of those on the way from the near host.
fn way(lab: &RouterLab, address: &str) -> Vec<String> {
    let trace = at(lab, "near", &["xip", "traceroute", address, "most", "8"]);
    let hop = |router: &Value| router["from"].as_str().unwrap_or_default().to_owned();
    trace["routers"].as_array().into_iter().flatten().map(hop).collect()
}

fn is_way(way: &[String], over: &[&str]) -> bool {
    way.len() == over.len() && way.iter().zip(over).all(|(hop, xid)| hop.contains(xid))
}

/// The least number of requests, however fast the work is.
const LEAST_REQUESTS: u32 = 6;

/// Sends echo requests all the time while `work` runs, and returns how many had which answer.
fn under_traffic(lab: &RouterLab, address: &str, work: impl FnOnce()) -> BTreeMap<String, u32> {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let requests = scope.spawn(|| {
            let mut answers = BTreeMap::<String, u32>::new();
            while !is_over.load(Ordering::Relaxed) || answers.values().sum::<u32>() < LEAST_REQUESTS {
                let answer = at(lab, "near", &["request", "xip", "ping", address]);
                *answers
                    .entry(answer["kind"].as_str().map_or(answer.to_string(), str::to_owned))
                    .or_default() += 1;
            }
            answers
        });
        let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        is_over.store(true, Ordering::Relaxed);
        if let Err(panic) = worked {
            std::panic::resume_unwind(panic);
        }
        requests.join().unwrap()
    })
}

#[test]
fn redirects_move_traffic_between_two_ways_without_a_loss() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&ring().parse().unwrap(), Path::new(SLUICE));
    let far = format!("{FAR_DOMAIN}-1:{FAR}-0");
    lab.until("the far host answers", |lab| ping(lab, "near", &far) == "reply");
    lab.until("the way is the upper one", |lab| is_way(&way(lab, &far), &[LEFT, UPPER, RIGHT, FAR]));

    // The lower router knows its neighbors before traffic is led there.
    let knows = |lab: &RouterLab, node: &str, hid: &str| {
        at(lab, node, &["show", "xip", "neighbors"]).to_string().contains(hid)
    };
    lab.until("the lower router is known, and knows its neighbors", |lab| {
        [("sluice", LOWER), ("right", LOWER), ("lower", RIGHT), ("lower", LEFT)]
            .iter()
            .all(|(node, hid)| knows(lab, node, hid))
    });
    let redirect = |from: &str, to: &str| {
        let path = format!("protocols static xid-route {FAR_DOMAIN} gateway");
        vec![format!("set {path} {to}"), format!("delete {path} {from}")]
    };
    let answers = under_traffic(&lab, &far, || {
        for (from, to) in [(UPPER, LOWER), (LOWER, UPPER), (UPPER, LOWER)] {
            commit_at(&lab, "sluice", &redirect(from, to));
            lab.until("the other way is taken", |lab| is_way(&way(lab, &far), &[LEFT, to, RIGHT, FAR]));
        }
    });
    assert!(answers.len() == 1 && answers.get("reply") >= Some(&LEAST_REQUESTS), "{answers:?}");

    // A host in the first edge, its domain as the fallback: the last router knows the host as its neighbor.
    let fallback = format!("{FAR_DOMAIN}-1:{FAR}-10");
    assert_eq!(ping(&lab, "near", &fallback), "reply");
    assert!(is_way(&way(&lab, &fallback), &[LEFT, LOWER, RIGHT, FAR]));
    commit_at(&lab, "sluice", &[format!("delete protocols static xid-route {FAR_DOMAIN}")]);
    lab.until("the domain is unreachable", |lab| ping(lab, "near", &far) == "unreachable");
    assert_eq!(ping(&lab, "near", &fallback), "unreachable");
}

/// The second version of a host's ID.
fn second(hid: &str) -> String {
    hid.replace("hid-", "hidv2-")
}

#[test]
fn a_second_version_of_hosts_replaces_the_first_router_by_router() {
    let _share = share();
    if !possible() {
        return;
    }
    let to = |far: &'static str, near: &'static str| [(FAR_DOMAIN, far), (NEAR_DOMAIN, near)];
    let topology =
        node("near", &config("kernel", &["eth0"], &[NEAR, NEAR_DOMAIN], &[(FAR_DOMAIN, LEFT)], ""))
            + &node("sluice", &config("both", &["eth0", "eth1"], &[LEFT], &to(RIGHT, NEAR), ""))
            + &node("right", &config("kernel", &["eth0", "eth1"], &[RIGHT], &to(FAR, LEFT), ""))
            + &node("far", &config("kernel", &["eth0"], &[FAR, FAR_DOMAIN], &[(NEAR_DOMAIN, RIGHT)], ""))
            + &link("near:eth0", "sluice:eth0")
            + &link("sluice:eth1", "right:eth0")
            + &link("right:eth1", "far:eth0");
    let lab = RouterLab::up(&topology.parse().unwrap(), Path::new(SLUICE));
    let far = format!("{FAR_DOMAIN}-1:{FAR}-0");
    lab.until("the far host answers", |lab| ping(lab, "near", &far) == "reply");
    let neighbor = |xid: &str, interface: &str, mac: String| {
        let path = format!("set protocols static xid-route {} ", second(xid));
        [format!("{path} interface {interface}"), format!("{path} link-layer-address {mac}")]
    };
    let redirect = |domain: &str, to: &str| {
        let path = format!("protocols static xid-route {domain} gateway");
        [format!("set {path} {}", second(to)), format!("delete {path} {to}")]
    };
    let routers = [
        ("sluice", (NEAR, "eth0", mac(&lab, "near", "eth0")), (RIGHT, "eth1", mac(&lab, "right", "eth0"))),
        ("right", (LEFT, "eth0", mac(&lab, "sluice", "eth1")), (FAR, "eth1", mac(&lab, "far", "eth0"))),
    ];
    let answers = under_traffic(&lab, &far, || {
        for (name, (before, left, left_mac), (behind, right, right_mac)) in routers {
            let new = [
                &["set xip principal hidv2".to_owned()][..],
                &neighbor(before, left, left_mac),
                &neighbor(behind, right, right_mac),
            ];
            commit_at(&lab, name, &new.concat());
            commit_at(&lab, name, &[redirect(NEAR_DOMAIN, before), redirect(FAR_DOMAIN, behind)].concat());
            commit_at(&lab, name, &["delete xip principal hid".to_owned()]);
        }
    });
    assert!(answers.len() == 1 && answers.get("reply") >= Some(&LEAST_REQUESTS), "{answers:?}");
    for name in ["sluice", "right"] {
        let principals = at(&lab, name, &["show", "xip", "principals"])["principals"].clone();
        let names: Vec<&str> =
            principals.as_array().unwrap().iter().filter_map(|p| p["name"].as_str()).collect();
        assert!(names.contains(&"hidv2") && !names.contains(&"hid"), "{name}: {names:?}");
    }
    assert_eq!(ping(&lab, "near", &far), "reply");
}

/// The link ID that is one bit of a filter.
fn link_id(bit: usize) -> [u8; 20] {
    let mut id = [0; 20];
    id[bit / 8] = 1 << (bit % 8);
    id
}

fn zf(id: [u8; 20]) -> String {
    let hex: String = id.iter().map(|octet| format!("{octet:02x}")).collect();
    format!("zf-{hex}")
}

#[test]
fn one_filter_reaches_a_tree_of_receivers_and_nobody_else() {
    const RECEIVERS: usize = 16;
    let _share = share();
    if !possible() {
        return;
    }
    let interfaces: Vec<String> = (0..=RECEIVERS).map(|n| format!("eth{n}")).collect();
    let interfaces: Vec<&str> = interfaces.iter().map(String::as_str).collect();
    let mut topology = node("near", &config("kernel", &["eth0"], &[NEAR], &[], ""))
        + &node("sluice", &config("both", &interfaces, &[LEFT], &[], ""))
        + &link("near:eth0", "sluice:eth0");
    for n in 1..=RECEIVERS {
        topology += &format!("[nodes.r{n}]\n{}", link(&format!("sluice:eth{n}"), &format!("r{n}:eth0")));
    }
    let lab = RouterLab::up(&topology.parse().unwrap(), Path::new(SLUICE));
    // A link ID leads to a host, and the host's route to its address on a link.
    let route = |bit: usize, interface: &str, mac: String| {
        let host = format!("hid-{:040x}", 0xf00 + bit);
        [
            format!("set protocols static xid-route {} gateway {host}", zf(link_id(bit))),
            format!("set protocols static xid-route {host} interface {interface}"),
            format!("set protocols static xid-route {host} link-layer-address {mac}"),
        ]
    };
    commit_at(&lab, "near", &route(0, "eth0", mac(&lab, "sluice", "eth0")));
    let links =
        (1..=RECEIVERS).flat_map(|n| route(n, &format!("eth{n}"), mac(&lab, &format!("r{n}"), "eth0")));
    commit_at(&lab, "sluice", &links.collect::<Vec<_>>());
    let mut listeners: Vec<_> = (1..=RECEIVERS).map(|n| capture(&lab, &format!("r{n}"), "eth0")).collect();
    lab.until("the program forwards", |lab| lab.ask(&["show", "xip", "principals"])["fast_path"] == true);
    let filter = |receivers: usize| {
        let ids = (0..=receivers).map(link_id);
        zf(ids.fold([0; 20], |sum, id| std::array::from_fn(|at| sum[at] | id[at])))
    };
    for receivers in [2, 4, 8, RECEIVERS] {
        for _ in 0..3 {
            let answer = at(&lab, "near", &["request", "xip", "ping", &format!("{}-0", filter(receivers))]);
            assert_eq!(
                answer["kind"],
                "lost",
                "{answer}\n{}",
                at(&lab, "sluice", &["show", "xip", "routes"])
            );
        }
    }
    // The process has decided on each filter's first packet and sent the copies; the program has sent those of the other two.
    let counts = ["to-user", "replicated", "copied"].map(|reason| counter(&lab, "fast", reason));
    assert_eq!(
        counts,
        [4, 8, 2 * (2 + 4 + 8 + RECEIVERS as u64)],
        "{}",
        lab.ask(&["show", "xip", "counters"])
    );
    for (number, (listener, file)) in (1..).zip(&mut listeners) {
        let sets = [2, 4, 8, RECEIVERS].iter().filter(|receivers| number <= **receivers).count();
        lab.until("the copies are in the file", |_| frames_in(file) >= 3 * sets);
        listener.kill().unwrap();
        listener.wait().unwrap();
        assert_eq!(frames_in(file), 3 * sets, "r{number}");
    }
}

/// V4 of the specification: the entry prefers the content to the domain, the domain prefers the content to the host.
const REFINED: &str = "ad-a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6-21:hid-6666666666666666666666666666666666666666-2:\
                       CONTENT-c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1-20";
/// V4 as it leaves its sender, with these XIDs: the header, the AD, the HID, the content.
const V4: &str = "010000008003007e00000010a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a602017f7f\
                  000000116666666666666666666666666666666666666666027f7f7f\
                  00000012c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c102007f7f";

/// Returns V4 after some routers: the hop limit, the last node, the edges of the entry.
fn refined(hop_limit: &str, last_node: &str, entry: &str) -> String {
    format!("01000000{hop_limit}0300{last_node}{}{entry}", V4[16..].strip_suffix("02007f7f").unwrap())
}

/// Writes the XIP packets of an interface to a file.
fn capture(lab: &RouterLab, node: &str, interface: &str) -> (std::process::Child, std::path::PathBuf) {
    let file = lab.lab.dir(node).join(format!("{interface}.pcap"));
    let mut command = lab.lab.command(node, "tcpdump").unwrap();
    command.args(["-U", "-Z", "root", "-i", interface, "-w"]).arg(&file).args(["ether", "proto", "0xc0de"]);
    let listener = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    // The file has a header once the socket is open.
    lab.until("the capture runs", |_| std::fs::metadata(&file).is_ok_and(|found| found.len() >= 24));
    (listener, file)
}

/// Returns the number of frames of a capture.
fn frames_in(file: &Path) -> usize {
    let octets = std::fs::read(file).unwrap();
    sluice_capture::parse(&octets).map_or(0, |capture| capture.records.len())
}

/// Returns the packets of a capture without source rows in hexadecimal digits, without the padding of frames.
fn captured(file: &Path) -> Vec<String> {
    let octets = std::fs::read(file).unwrap();
    let frames = sluice_capture::parse(&octets).map(|capture| capture.records).unwrap_or_default();
    let packets = frames.iter().filter_map(|frame| frame.octets.get(14..14 + V4.len() / 2));
    let packets = packets.filter(|packet| packet[6] == 0);
    packets.map(|packet| packet.iter().map(|octet| format!("{octet:02x}")).collect()).collect()
}

#[test]
fn each_router_refines_the_way_and_marks_its_choice() {
    let _share = share();
    if !possible() {
        return;
    }
    let content = "xdp-c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1";
    let topology = "[nodes.host]\n".to_owned()
        + &node(
            "near",
            &config("kernel", &["eth0", "eth1"], &[NEAR, NEAR_DOMAIN], &[(FAR_DOMAIN, LEFT)], ""),
        )
        + &node(
            "sluice",
            &config("both", &["eth0", "eth1"], &[LEFT, FAR_DOMAIN], &[(NEAR_DOMAIN, NEAR)], ""),
        )
        + &node("far", &config("kernel", &["eth0"], &[FAR, content], &[(NEAR_DOMAIN, LEFT)], ""))
        + &link("host:eth0", "near:eth0")
        + &link("near:eth1", "sluice:eth0")
        + &link("sluice:eth1", "far:eth0");
    let lab = RouterLab::up(&topology.parse().unwrap(), Path::new(SLUICE));
    let address = |kind: &str| REFINED.replace("CONTENT", kind);
    lab.until("the content answers", |lab| ping(lab, "near", &address("xdp")) == "reply");
    lab.until("the program forwards", |lab| lab.ask(&["show", "xip", "principals"])["fast_path"] == true);

    // No router knows contents. The packet of the specification leaves the first router as it came, since that router has no way but
    // to the domain; the router of the domain marks the domain's edge, and goes on from the domain's row to the host.
    let listeners = [("near", "eth1"), ("far", "eth0")].map(|(node, name)| capture(&lab, node, name));
    let send = "import socket, sys\n\
                s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)\n\
                to = ('eth0', 0xc0de, 0, 0, bytes.fromhex(sys.argv[1].replace(':', '')))\n\
                s.sendto(bytes.fromhex(sys.argv[2]), to)";
    let to = mac(&lab, "near", "eth0");
    let dug = counter(&lab, "fast", "dug");
    for _ in 0..3 {
        lab.lab.exec("host", "python3", ["-c", send, &to, V4]).unwrap();
    }
    let expected = [refined("7f", "7e", "02007f7f"), refined("7e", "00", "02807f7f")];
    for ((mut listener, file), expected) in listeners.into_iter().zip(expected) {
        lab.until("all packets were captured", |_| captured(&file).len() >= 3);
        listener.kill().unwrap();
        listener.wait().unwrap();
        // The process has decided on the first one, the program on the others.
        assert_eq!(captured(&file), vec![expected; 3]);
    }
    assert!(counter(&lab, "fast", "dug") >= dug + 2, "{}", lab.ask(&["show", "xip", "counters"]));

    // The host has no such content either. The address as it arrived there shows each choice.
    let ask = |kind: &str| at(&lab, "near", &["request", "xip", "ping", &address(kind)]);
    let lost = ask("cid");
    let marked = "!ad-a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6a6-2>1**:hid-6666666666666666666666666666666666666666-2***:\
                  cid-c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1-2>0**";
    assert_eq!((&lost["kind"], lost["arrived"].as_str()), (&"unreachable".into(), Some(marked)), "{lost}");
    assert!(lost["from"].as_str().unwrap().contains(FAR), "{lost}");

    // A router on the way that knows the content leads there at once: from the entry, and past the domain.
    let from = |answer: &Value| answer["from"].as_str().unwrap_or_default().to_owned();
    assert!(from(&ask("xdp")).contains(FAR));
    commit_at(&lab, "sluice", &[format!("set protocols static xid-route {content} local")]);
    lab.until("the router has the content", |_| {
        let answer = ask("xdp");
        answer["kind"] == "reply" && from(&answer).contains(LEFT)
    });
    commit_at(&lab, "sluice", &[format!("delete protocols static xid-route {content}")]);
    lab.until("the host has the content", |_| {
        let answer = ask("xdp");
        answer["kind"] == "reply" && from(&answer).contains(FAR)
    });
}
