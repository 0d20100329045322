//! Packets other than BGP's and echo requests: multicast between neighbors and the control plane, packets that are too big for a port, and
//! the order of the packets of many flows.

use crate::cluster::network::{NEAR, Network, Shape};
use sluice_router_lab::{has_all, possible_with_frr, share};
use std::process::Stdio;

/// Receives VRRP advertisements (RFC 9568) on the interface that is named, and prints the senders of those that came in a second and a half.
const RECEIVE: &str = "
import socket, sys, time
group = socket.inet_aton('224.0.0.18')
receiver = socket.socket(socket.AF_INET, socket.SOCK_RAW, 112)
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, sys.argv[1].encode())
receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, group + bytes(4) + socket.if_nametoindex(sys.argv[1]).to_bytes(4, sys.byteorder))
receiver.settimeout(0.1)
print('ready', flush=True)
senders, end = set(), time.monotonic() + 1.5
while time.monotonic() < end:
    try:
        senders.add(receiver.recvfrom(2048)[1][0])
    except TimeoutError:
        pass
print('from', *sorted(senders))
";

/// Sends VRRP advertisements by the interface that is named.
const SEND: &str = "
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_RAW, 112)
index = socket.if_nametoindex(sys.argv[1]).to_bytes(4, sys.byteorder)
sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, bytes(8) + index)
for _ in range(10):
    sender.sendto(bytes([0x31, 1, 100, 0, 0, 100, 0, 0]), ('224.0.0.18', 0))
";

/// Receives the packets of [`FLOWS`] and prints how many came and how many were behind a later one of their flow.
const ORDER: &str = "
import socket, struct, time
receiver = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_UDP)
receiver.setsockopt(socket.SOL_SOCKET, 33, 1 << 27)
receiver.settimeout(0.2)
print('ready', flush=True)
newest, came, late, last = {}, 0, 0, time.monotonic()
begin = last
while time.monotonic() - last < 2 or (not came and time.monotonic() - begin < 20):
    try:
        packet = receiver.recv(2048)
    except TimeoutError:
        continue
    flow, number = struct.unpack_from('!H', packet, 22)[0], struct.unpack_from('!I', packet, 28)[0]
    last = time.monotonic()
    came += 1
    late += number < newest.get(flow, 0)
    newest[flow] = max(number, newest.get(flow, 0))
print('flows', len(newest), 'came', came, 'late', late)
";

/// Sends ten packets of each of 10,000 flows, in turn.
const FLOWS: &str = "
import socket, struct, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.bind((sys.argv[1], 0))
for number in range(10):
    for flow in range(10000):
        sender.sendto(struct.pack('!I', number), (sys.argv[2], 20000 + flow))
";

impl Network {
    /// Runs a script on a node that prints `ready`, then another one elsewhere, and returns the first one's last line.
    fn received(&self, at: (&str, &str, &[&str]), from: (&str, &str, &[&str])) -> String {
        use std::io::{BufRead, BufReader, Read};
        let (node, script, words) = at;
        let mut receiver = self.lab.lab.command(node, "python3").unwrap();
        let mut receiver = receiver.args(["-c", script]).args(words).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(receiver.stdout.take().unwrap());
        let mut ready = String::new();
        lines.read_line(&mut ready).unwrap();
        let (node, script, words) = from;
        self.lab.lab.exec(node, "python3", ["-c", script].iter().chain(words)).unwrap();
        let mut rest = String::new();
        lines.read_to_string(&mut rest).unwrap();
        receiver.wait().unwrap();
        rest.trim().to_owned()
    }
}

#[test]
fn multicast_goes_between_a_port_and_the_control_plane() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let network = Network::up(Shape::of(2, 2));
    let sent = ("frr", SEND, &["eth0"][..]);
    assert_eq!(network.received(("sluice", RECEIVE, &["port1"]), sent), "from 10.0.1.2");
    for (node, port) in [("sluice", "port2"), ("r1", "port1"), ("r2", "port1")] {
        assert_eq!(network.received((node, RECEIVE, &[port]), sent), "from", "{node} {port}");
    }
    // The control plane's own leave by their port alone.
    let sent = ("sluice", SEND, &["port1"][..]);
    assert_eq!(network.received(("frr", RECEIVE, &["eth0"]), sent), "from 10.0.1.1");
    assert_eq!(network.received(("bird", RECEIVE, &["eth0"]), sent), "from");
}

#[test]
fn packets_that_are_too_big_for_a_port_are_answered_or_fragmented() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let shape = Shape::of(1, 1);
    let network = Network::up(shape);
    for (node, interface) in [("b1", "out2"), ("bird", "eth0")] {
        network.lab.lab.exec(node, "ip", ["link", "set", "dev", interface, "mtu", "1400"]).unwrap();
    }
    network.commit(&shape.nodes(), &["set cluster port 2 mtu 1400"]);
    network.until("the router has the port's MTU", |network| {
        network.lab.lab.exec("r1", "ip", ["link", "show", "dev", "port2"]).unwrap().contains("mtu 1400")
    });
    for (from, bigger) in [(NEAR[0], "mtu = 1400"), (NEAR[4], "mtu=1400")] {
        let said = network.ping_with(from, 2, &["-M", "do", "-s", "1420"]).to_lowercase();
        assert!(said.contains(bigger) && said.contains(" 0 received"), "{said}");
        let said = network.ping_with(from, 3, &["-M", "dont", "-s", "1420"]);
        assert!(said.contains(" 3 received"), "{from}: {said}");
    }
    network.commit(&shape.nodes(), &["delete cluster port 2 mtu"]);
    network.until("the router has the interconnect's MTU", |network| {
        network.lab.lab.exec("r1", "ip", ["link", "show", "dev", "port2"]).unwrap().contains("mtu 1500")
    });
}

#[test]
fn packets_of_a_flow_stay_in_order() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let shape = Shape::of(1, 2);
    let network = Network::up(shape);
    let measure = |network: &Network| {
        let counted = network
            .received(("bird", ORDER, &[]), ("frr", FLOWS, &[NEAR[0], "203.0.113.1"]))
            .split_whitespace()
            .filter_map(|word| word.parse::<u64>().ok())
            .collect::<Vec<_>>();
        <[u64; 3]>::try_from(counted).unwrap()
    };
    let before = ["r1", "r2"].map(|node| network.forwarded(node));
    let [flows, came, late] = measure(&network);
    let after = ["r1", "r2"].map(|node| network.forwarded(node));
    println!("by flow: {came} packets of {flows} flows, {late} late");
    assert!(flows == 10_000 && late == 0 && came > 50_000, "{flows} {came} {late}");
    assert!(
        before.iter().zip(&after).all(|(before, after)| after - before > came / 4),
        "both routers forward"
    );

    network.commit(&shape.nodes(), &["set cluster mode round-robin"]);
    network
        .until("packets go in turn", |network| network.elements("b1", "rows").iter().all(|rows| rows == "0"));
    let [flows, came, late] = measure(&network);
    println!("in turn: {came} packets of {flows} flows, {late} late");
    assert!(has_all(&network.ping_with(NEAR[0], 3, &[]), &[" 3 received"]));
}
