//! The cluster's frames on the interconnect, and the values in its store: a balancer, two routers and a control plane.

use crate::write;
use serde_json::Value;
use sluice_router_lab::xip::{at, commit_at, run};
use sluice_router_lab::{RouterLab, executable};
use std::path::Path;
use std::process::{Child, Stdio};

/// The key of the lab's cluster, which is no secret of anybody.
const KEY: u8 = 0x5a;
/// The routes that BIRD announces.
const ROUTES: usize = 100;
/// The elements: node, number, interface on the interconnect.
const ELEMENTS: [(&str, u16, &str); 4] =
    [("b1", 1, "in0"), ("r1", 11, "eth0"), ("r2", 12, "eth0"), ("sluice", 21, "eth0")];
/// The names of the frames by their kinds, which count from 1.
const FRAMES: [&str; 4] = ["hello", "announcement", "neighbors", "wanted"];
/// The element with the store, on the node `sluice`.
const STORE: u16 = 21;

/// Records frames and values in a folder.
pub fn record(folder: &Path) {
    let lab = RouterLab::up(&topology().parse().unwrap(), executable());
    hand_out_certificates(&lab);
    let captures = ["r1", "sluice"].map(|node| (capture(&lab, node), lab.lab.dir(node).join("frames.pcap")));
    let share = ["set cluster shared-configuration true".to_owned()];
    for (node, ..) in ELEMENTS {
        let stores = |lab: &RouterLab| at(lab, node, &["show", "cluster", "store"])["state"].is_string();
        lab.until("the elements see the store", stores);
    }
    lab.until("the control plane has the routes", |lab| lab.rib("bgp").0.v4 == ROUTES);
    lab.until("the router has the routes", |lab| kernel(lab, "r1") == ROUTES);
    // The element that has it first decides on it; the others take it.
    for node in ["sluice", "r1", "r2", "b1"] {
        commit_at(&lab, node, &share);
    }
    commit_at(&lab, "sluice", &["set system host-name golden".to_owned()]);
    let drained = run(&lab, "sluice", &["cluster", "drain", "11"]);
    let drained = String::from_utf8_lossy(&drained.stdout).into_owned();
    let change_all = || {
        for (word, routes) in [("disable", 0), ("enable", ROUTES)] {
            lab.birdc("bird", &format!("{word} world"));
            lab.until("the routes change", |lab| lab.rib("bgp").0.v4 == routes);
        }
    };
    // When the log has too many entries, chunks get the routes, and the log begins anew.
    let has_chunk = |(key, value): &(String, Vec<u8>)| key.contains("/chunk/") && value.len() > ROUTES;
    while !stored(&lab).iter().any(has_chunk) {
        change_all();
    }
    change_all();
    let names = ["/head", "/log/", "/chunk/", "/configuration", "/taken/", "/roster", "/leader"];
    let mut values = Vec::new();
    lab.until(&format!("the store has all kinds of values; {drained}"), |lab| {
        values = stored(lab);
        names.iter().all(|name| values.iter().any(|(key, _)| key.contains(name)))
    });
    for name in names {
        // The first of the kind is enough, and of the log the longest.
        let of_kind = values.iter().filter(|(key, _)| key.contains(name));
        let (key, value) = of_kind.max_by_key(|(_, value)| value.len()).unwrap();
        write(&folder.join("store").join(key.trim_start_matches('/')), value);
    }
    lab.until("there is a frame of each kind", |lab| {
        // Of a neighbor that nobody knows.
        let _answer = lab.lab.output("r2", "ping", ["-c", "1", "-W", "1", "10.0.1.77"]);
        let files = captures.iter().map(|(_, file)| std::fs::read(file).unwrap_or_default());
        let frames: Vec<Vec<u8>> = files.flat_map(|file| payloads(&file)).collect();
        let largest = |kind: usize| {
            let of_kind = frames.iter().filter(|frame| usize::from(frame[1]) == kind + 1);
            of_kind.max_by_key(|frame| frame.len())
        };
        let found: Vec<_> =
            (0..FRAMES.len()).filter_map(|kind| Some((FRAMES[kind], largest(kind)?))).collect();
        for (name, frame) in &found {
            write(&folder.join(format!("frames/{name}.bin")), frame);
        }
        found.len() == FRAMES.len()
    });
    write(&folder.join("key.txt"), format!("{}\n", format!("{KEY:02x}").repeat(32)).as_bytes());
}

/// Makes the authority on the node `sluice`, and invites the other elements.
fn hand_out_certificates(lab: &RouterLab) {
    let done = |node: &str, words: &[&str]| {
        let output = run(lab, node, &[&["cluster"], words].concat());
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stdout));
    };
    done("sluice", &["init", &STORE.to_string(), "--address", &inner(STORE)]);
    for (node, number, _) in ELEMENTS.iter().filter(|(_, number, _)| *number != STORE) {
        let file = lab.lab.dir(node).join("invitation").display().to_string();
        done("sluice", &["invite", &number.to_string(), "--address", &inner(*number), "--into", &file]);
        done(node, &["join", &file]);
    }
}

/// Returns the address of an element on the interconnect.
fn inner(element: u16) -> String {
    format!("10.9.0.{element}")
}

/// A program beside the lab, ended with the value.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn topology() -> String {
    let key = format!("{KEY:02x}").repeat(32);
    let mut text = "[nodes.s]\ndaemon = 'switch'\n".to_owned();
    let member = |(_, number, _): &(&str, u16, &str), role: &str| {
        format!("member {number} {{ role {role}; address {}; }} ", inner(*number))
    };
    let roles = ["balancer", "router", "router", "control"];
    let members: String = ELEMENTS.iter().zip(roles).map(|(element, role)| member(element, role)).collect();
    for (node, number, interconnect) in ELEMENTS {
        let own = match node {
            "b1" => "interfaces { forwarding { engine both; } }",
            "sluice" => {
                "protocols { bgp { local-as 64500; router-id 10.0.0.1; default-policy accept;\n\
                 neighbor 10.0.1.2 { peer-as 64501; connect-retry-time 1; } } }"
            }
            _ => "",
        };
        text += &format!(
            "[nodes.{node}]\ndaemon = 'sluice'\nconfig = '''
cluster {{ element {number}; interconnect {interconnect}; key {key};
{members}
port 1 {{ balancer 1; interface out1; mac 02:00:00:00:01:01; address 10.0.1.1/24; }}
store {{ member [ {STORE} ]; }} }}
{own}
'''
[[links]]
a = '{node}:{interconnect}'
b = 's:{node}'
xdp = true
a_addresses = ['{}/24']
",
            inner(number)
        );
    }
    text + &crate::bird(ROUTES)
        + "[[links]]
a = 'bird:eth0'
b = 'b1:out1'
xdp = true
a_addresses = ['10.0.1.2/24']
"
}

/// Returns the number of the router's IPv4 routes in the kernel of a node.
fn kernel(lab: &RouterLab, node: &str) -> usize {
    let output = lab.lab.output(node, "ip", ["-4", "route", "show", "proto", "83"]).unwrap();
    sluice_router_lab::routes(&String::from_utf8_lossy(&output.stdout)).count()
}

/// Starts to capture the cluster's frames on the interconnect of a node.
fn capture(lab: &RouterLab, node: &str) -> Started {
    let mut command = lab.lab.command(node, "tcpdump").unwrap();
    command.args(["-i", "eth0", "-U", "-s", "0", "-w"]).arg(lab.lab.dir(node).join("frames.pcap"));
    command.args(["-Z", "root", "ether", "proto", "0x88b5"]);
    Started(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
}

/// Returns the payloads of the Ethernet frames of a capture (pcap, little-endian).
fn payloads(capture: &[u8]) -> Vec<Vec<u8>> {
    let mut payloads = Vec::new();
    let mut rest = capture.get(24..).unwrap_or_default();
    while let Some((header, behind)) = rest.split_at_checked(16) {
        let length = u32::from_le_bytes(header[8..12].try_into().unwrap()) as usize;
        let Some((frame, behind)) = behind.split_at_checked(length) else { break };
        payloads.push(frame[14..].to_vec());
        rest = behind;
    }
    payloads
}

/// Returns all keys and values of the store, by the JSON gateway of etcd.
fn stored(lab: &RouterLab) -> Vec<(String, Vec<u8>)> {
    let url = format!("https://{}:2379/v3/kv/range", inner(STORE));
    let credentials = lab.run_dir().join("state/credentials/cluster");
    let file = |name: &str| credentials.join(name).display().to_string();
    let [authorities, certificate, key] = ["ca.crt", "element.crt", "element.key"].map(file);
    // From the key of one octet 0 to the end.
    let all = r#"{"key":"AA==","range_end":"AA=="}"#;
    let tls = ["--cacert", &authorities, "--cert", &certificate, "--key", &key];
    let words = [&["-s"], &tls[..], &["-d", all, &url]].concat();
    let Ok(output) = lab.lab.output("sluice", "curl", words) else { return Vec::new() };
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let values = reply["kvs"].as_array().cloned().unwrap_or_default();
    let decoded = |value: &Value| from_base64(value.as_str().unwrap_or_default());
    let pair = |value: &Value| (String::from_utf8(decoded(&value["key"])).unwrap(), decoded(&value["value"]));
    values.iter().map(pair).collect()
}

/// Decodes base64 (RFC 4648).
fn from_base64(text: &str) -> Vec<u8> {
    const DIGITS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let (mut octets, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes().filter_map(|digit| DIGITS.iter().position(|known| *known == digit)) {
        bits = bits << 6 | digit as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            octets.push((bits >> count) as u8);
        }
    }
    octets
}
