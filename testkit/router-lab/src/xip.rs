//! Routers of XIP in labs: their configuration, and questions to each.

use crate::{RouterLab, executable};
use serde_json::Value;
use std::process::Output;

/// A router's configuration: its interfaces, its own XIDs, and redirects.
pub fn config(
    engine: &str,
    interfaces: &[&str],
    own: &[&str],
    redirects: &[(&str, &str)],
    more: &str,
) -> String {
    let interfaces: String = interfaces.iter().map(|name| format!("interface {name}; ")).collect();
    let own: String = own.iter().map(|xid| format!("xid-route {xid} {{ local; }}\n")).collect();
    let redirects = redirects.iter().map(|(xid, to)| format!("xid-route {xid} {{ gateway {to}; }}\n"));
    let redirects: String = redirects.collect();
    format!(
        "interfaces {{ forwarding {{ engine {engine}; }} }}\n\
         xip {{ {interfaces} principal [ ad hid lpm xdp u4id uni4id zf ]; xcmp true; {more} }}\n\
         protocols {{ static {{ {own} {redirects} }} }}\n"
    )
}

/// A node of a topology that runs a router.
pub fn node(name: &str, config: &str) -> String {
    format!("[nodes.{name}]\ndaemon = 'sluice'\nconfig = '''{config}'''\n")
}

/// A link of a topology.
pub fn link(a: &str, b: &str) -> String {
    format!("[[links]]\na = '{a}'\nb = '{b}'\nxdp = true\n")
}

/// Runs a command of the router of a node.
pub fn run(lab: &RouterLab, node: &str, words: &[&str]) -> Output {
    let run = lab.lab.dir(node).join("run");
    let mut command = lab.lab.command(node, executable()).unwrap();
    command.args(words).arg("--json").arg("--run-dir").arg(run).output().unwrap()
}

/// Asks the router of a node; null if there is no answer.
pub fn at(lab: &RouterLab, node: &str, words: &[&str]) -> Value {
    serde_json::from_slice(&run(lab, node, words).stdout).unwrap_or_default()
}

/// Carries out statements on the router of a node, in one commit.
pub fn commit_at(lab: &RouterLab, node: &str, statements: &[String]) {
    let words: Vec<&str> = statements.iter().map(String::as_str).collect();
    let output = run(lab, node, &[&["configure"], &words[..], &["commit"]].concat());
    assert!(output.status.success(), "{node} {statements:?}: {}", String::from_utf8_lossy(&output.stdout));
}

/// Sends an echo request from a node and returns the kind of the answer.
pub fn ping(lab: &RouterLab, node: &str, address: &str) -> String {
    let answer = at(lab, node, &["request", "xip", "ping", address]);
    answer["kind"].as_str().unwrap_or_default().to_owned()
}

/// Returns the link-layer address of a node's interface.
pub fn mac(lab: &RouterLab, node: &str, interface: &str) -> String {
    let shown = lab.lab.output(node, "ip", ["-j", "link", "show", interface]).unwrap().stdout;
    let shown: Value = serde_json::from_slice(&shown).unwrap();
    shown[0]["address"].as_str().unwrap().to_owned()
}

/// Returns a count of packets or decisions of the router `sluice`.
pub fn counter(lab: &RouterLab, path: &str, reason: &str) -> u64 {
    let counters = lab.ask(&["show", "xip", "counters"]);
    let all = counters["counters"].as_array().into_iter().flatten();
    let found = all.filter(|counter| counter["path"] == path && counter["reason"] == reason);
    found.filter_map(|counter| counter["count"].as_str()?.parse::<u64>().ok()).sum()
}
