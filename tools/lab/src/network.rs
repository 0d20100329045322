//! Namespaces, links, addresses and kernel settings, by way of iproute2.

use crate::scope::Scope;
use crate::state::State;
use crate::topology::{Daemon, End, NodeSpec, Topology};
use crate::{LabError, ethtool};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Sets kernel settings from lines of `path value` on its input; only the namespace's own process can.
const SYSCTL: &str =
    r#"while read -r path value; do printf '%s\n' "$value" > "/proc/sys/$path" || exit 1; done"#;

/// Makes everything below the daemons.
pub(crate) fn build(state: &State, topology: &Topology) -> Result<(), LabError> {
    for node in state.nodes.values() {
        let mut ip = state.scope.command("ip")?;
        ip.args(["netns", "add", &node.namespace]);
        run(ip, "")?;
    }
    for (name, spec) in &topology.nodes {
        let mut sh = state.scope.command_in(&state.node(name)?.namespace, "sh")?;
        sh.args(["-c", SYSCTL]);
        run(sh, &sysctls(spec))?;
    }
    let mut ip = state.scope.command("ip")?;
    ip.args(["-batch", "-"]);
    run(ip, &links(state, topology)?)?;
    for (name, spec) in &topology.nodes {
        let mut ip = state.scope.command("ip")?;
        ip.args(["-n", &state.node(name)?.namespace, "-batch", "-"]);
        run(ip, &interfaces(name, spec, topology))?;
    }
    for link in topology.links.iter().filter(|link| link.xdp) {
        prepare_for_xdp(state, &link.a)?;
        prepare_for_xdp(state, &link.b)?;
    }
    for (name, _) in topology.nodes.iter().filter(|(_, spec)| spec.daemon == Daemon::Switch) {
        await_ports(state, name)?;
    }
    Ok(())
}

/// Lets an end of a link receive frames that an XDP program sends to it, which a veth without NAPI drops, and finish the
/// checksums of the packets that it sends: no device does so behind an XDP redirect.
fn prepare_for_xdp(state: &State, end: &End) -> Result<(), LabError> {
    let set = || {
        ethtool::set_gro(&end.interface, true)?;
        ethtool::set_transmit_checksum(&end.interface, false)
    };
    let done = state.scope.inside(&state.node(&end.node)?.namespace, set)?;
    done.map_err(|source| LabError::XdpLink { end: end.clone(), source })
}

/// Waits until the ports of a switch forward: the kernel notifies a bridge of a port's carrier up to a second later.
fn await_ports(state: &State, name: &str) -> Result<(), LabError> {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let mut bridge = state.scope.command_in(&state.node(name)?.namespace, "bridge")?;
        let output = bridge
            .arg("link")
            .output()
            .map_err(|source| LabError::Start { program: "bridge".into(), source })?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        if text.lines().all(|port| port.contains("state forwarding")) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(LabError::NotReady { node: name.into(), daemon: "bridge".into(), message: text });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Removes the namespace's name; the kernel removes the empty namespace.
pub(crate) fn delete_namespace(scope: &Scope, namespace: &str) -> Result<(), LabError> {
    let mut ip = scope.command("ip")?;
    ip.args(["netns", "del", namespace]);
    run(ip, "")
}

/// Addresses are usable at once: no duplicate address detection, nothing learned from routers.
fn sysctls(spec: &NodeSpec) -> String {
    let forward = u8::from(spec.forwarding.unwrap_or(spec.daemon.forwards()));
    let mut text = format!(
        "net/ipv4/ip_forward {forward}\nnet/ipv6/conf/all/forwarding {forward}\n\
         net/ipv6/conf/all/accept_dad 0\nnet/ipv6/conf/default/accept_dad 0\n\
         net/ipv6/conf/default/accept_ra 0\nnet/ipv4/conf/all/rp_filter 0\nnet/ipv4/conf/default/rp_filter 0\n"
    );
    for (key, value) in &spec.sysctls {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{} {value}", key.replace('.', "/"));
    }
    text
}

fn links(state: &State, topology: &Topology) -> Result<String, LabError> {
    let mut text = String::new();
    for link in &topology.links {
        let (a, b) = (state.node(&link.a.node)?, state.node(&link.b.node)?);
        let mtu = link.mtu.map(|m| format!(" mtu {m}")).unwrap_or_default();
        let _ = writeln!(
            text,
            "link add {} netns {}{mtu} type veth peer name {} netns {}{mtu}",
            link.a.interface, a.namespace, link.b.interface, b.namespace
        );
    }
    Ok(text)
}

fn interfaces(name: &str, spec: &NodeSpec, topology: &Topology) -> String {
    let mut text = String::from("link set lo up\n");
    let mut address = |address: &str, interface: &str| {
        let nodad = if address.contains(':') { " nodad" } else { "" };
        let _ = writeln!(text, "address add {address} dev {interface}{nodad}");
    };
    for a in &spec.loopback {
        address(a, "lo");
    }
    let mine: Vec<_> = topology
        .links
        .iter()
        .flat_map(|l| [(&l.a, &l.a_addresses), (&l.b, &l.b_addresses)])
        .filter(|(end, _)| end.node == name)
        .collect();
    for (end, addresses) in &mine {
        for a in *addresses {
            address(a, &end.interface);
        }
    }
    if spec.daemon == Daemon::Switch {
        text.push_str("link add bridge0 type bridge\nlink set bridge0 up\n");
        for (end, _) in &mine {
            let _ = writeln!(text, "link set {} master bridge0", end.interface);
        }
    }
    for (end, _) in &mine {
        let _ = writeln!(text, "link set {} up", end.interface);
    }
    for route in &spec.routes {
        let _ = writeln!(text, "route add {route}");
    }
    text
}

/// Runs a program on `input`; the output becomes the reason of a failure.
fn run(mut command: Command, input: &str) -> Result<(), LabError> {
    let program = format!("{command:?}").replace('"', "");
    let start = |source| LabError::Start { program: program.clone(), source };
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().map_err(start)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that stopped reading has failed; its status has the reason.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(start)?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(LabError::Failed { program, message })
}
