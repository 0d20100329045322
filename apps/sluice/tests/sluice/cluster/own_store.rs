//! A store that the elements run themselves, with certificates: servers that die, a network that falls apart, strangers, another generation.

use crate::SLUICE;
use crate::cluster::network::{NEAR, Network, Shape, Traffic, inner, more_of_bird, more_of_frr};
use crate::cluster::stream::possible_with_store;
use serde_json::Value;
use sluice_load::wide;
use sluice_router_lab::xip::{at, run};
use sluice_router_lab::{RouterLab, has_all, possible, runs, share};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The name of the server among the processes of an element.
const SERVER: &str = "cluster.store";

/// Asks a server of the store, and the console, of an element: without TLS, by TLS without a certificate, and with the certificate of
/// another cluster, whose folder is named.
const STRANGER: &str = "
import socket, ssl, sys, urllib.request
address, folder = sys.argv[1:]
def version(scheme, context):
    try:
        return urllib.request.urlopen(f'{scheme}://{address}:2379/version', timeout=5, context=context).read().decode()
    except Exception as error:
        return f'refused: {error}'
def console(context):
    try:
        link = socket.create_connection((address, 2382), timeout=5)
        link = context.wrap_socket(link) if context else link
        link.sendall(bytes(4) + b'\\xff' * 64)
        # The record of an alert, where there is no TLS.
        return 'refused: closed' if link.recv(1) in (b'', b'\\x15') else 'answered'
    except OSError as error:
        return f'refused: {error}'
anonymous, foreign = ssl._create_unverified_context(), ssl._create_unverified_context()
foreign.load_cert_chain(f'{folder}/element.crt', f'{folder}/element.key')
for context in (None, anonymous, foreign):
    print(version('https' if context else 'http', context))
    print(console(context))
";

fn process(lab: &RouterLab, node: &str, component: &str) -> Value {
    let all = at(lab, node, &["show", "processes"]);
    let of = |process: &&Value| process["component"] == component;
    all["processes"].as_array().into_iter().flatten().find(of).cloned().unwrap_or_default()
}

/// Returns the process of a component or helper of a node.
pub fn pid(lab: &RouterLab, node: &str, component: &str) -> Option<u64> {
    wide(&process(lab, node, component)["pid"])
}

#[test]
fn elements_run_their_store_and_trust_each_other_by_certificates() {
    let _share = share();
    if !possible_with_store() {
        return;
    }
    let shape = Shape { own_store: true, second: true, more: [100; 2], ..Shape::of(1, 1) };
    let network = Network::up(shape);
    let lab = &network.lab;
    let routes = [more_of_frr(0), more_of_bird(99)];
    let has_routes = |network: &Network| routes.iter().all(|net| network.has_route("r1", net));
    network.until("the kernel has the routes", has_routes);
    // The server of each member is a process with a user of its own, confined as planned.
    for node in ["sluice", "c2", "r1"] {
        let (server, component) = (process(lab, node, SERVER), process(lab, node, "cluster"));
        assert!(server["uid"].as_u64() > Some(0) && server["uid"] != component["uid"], "{server}");
        let security = at(lab, node, &["show", "security"]);
        let confined = security["processes"].as_array().unwrap().iter().find(|p| p["component"] == SERVER);
        let confined = confined.unwrap();
        assert!(confined["confined"] == true && confined["calls"] == "server", "{confined}");
    }
    assert_eq!(pid(lab, "b1", SERVER), None);
    let other = lab.lab.dir("b1").join("other").display().to_string();
    let made = run(lab, "b1", &["cluster", "init", "21", "--address", &inner(21), "--state-dir", &other]);
    assert!(made.status.success());
    let credentials = format!("{other}/credentials/cluster");
    let answers = lab.lab.exec("b1", "python3", ["-c", STRANGER, &inner(11), &credentials]).unwrap();
    assert_eq!(answers.matches("refused: ").count(), 6, "{answers}");

    // One element answers for the others: with the same document as the element itself.
    let processes = |words: &[&str]| at(lab, "b1", words)["processes"].as_array().map(Vec::len);
    network.until("the balancer reads from a candidate", |_| {
        let words = ["show", "bgp", "neighbor", "element", "21"];
        at(lab, "b1", &words)["neighbors"].as_array().is_some_and(|neighbors| neighbors.len() == 4)
    });
    let own = at(lab, "r1", &["show", "processes"])["processes"].as_array().map(Vec::len);
    assert_eq!(processes(&["show", "processes", "--element", "11"]), own);
    assert_ne!(processes(&["show", "processes"]), own);
    let events = run(lab, "b1", &["show", "events", "last", "3", "element", "22"]);
    assert!(events.status.success(), "{}", String::from_utf8_lossy(&events.stdout));
    let refused = |words: &[&str]| String::from_utf8_lossy(&run(lab, "b1", words).stdout).into_owned();
    let said = refused(&["drain", "--element", "21"]);
    assert!(said.contains("do this on that element"), "{said}");
    let said = refused(&["show", "processes", "--element", "99"]);
    assert!(said.contains("there is no element 99"), "{said}");

    commands_change_another_element(&network);

    // A server is killed: routes stay, the others serve, and the server comes back.
    let traffic = Traffic::start(&network);
    let killed = pid(lab, "r1", SERVER).unwrap();
    lab.signal("-KILL", killed);
    network.frr("no ip route 20.0.0.8/29 blackhole");
    network.until("a change arrives", |network| !network.has_route("r1", &more_of_frr(1)));
    network.until("the server runs again", |network| {
        pid(&network.lab, "r1", SERVER).is_some_and(|pid| pid != killed)
    });
    let outcomes = traffic.stop(&network);
    assert!(outcomes.iter().all(|outcome| outcome.sent > 100 && outcome.lost == 0), "{outcomes:?}");

    // The leader is cut off with its server: the other members go on, the other candidate leads.
    let (node, other) = network.leading();
    lab.lab.exec(node, "ip", ["link", "set", "dev", "eth0", "down"]).unwrap();
    network.until("the other element leads", |network| network.stored(other, "state") == "leads");
    assert!(has_routes(&network), "the routes of the leader before stay");
    network.until("neighbors announce their routes to the new leader", |network| network.has_sessions(other));
    network.until_equal_to("r1", other);
    lab.lab.exec(node, "ip", ["link", "set", "dev", "eth0", "up"]).unwrap();
    network.until("the former leader watches", |network| network.stored(node, "state") == "watches");
    // Until the former leader knows, it answers packets of connections that are the new leader's: a session may have been lost.
    network
        .until("neighbors have their sessions", |network| network.has_sessions(other) && has_routes(network));
    network.until_equal_to("r1", other);

    // Another generation is a store that begins empty: the leader writes all routes anew, and routers keep theirs meanwhile.
    let before = pid(lab, "r1", SERVER);
    let keeps_routes = |network: &Network| {
        let log = |node: &str| network.lab.lab.log(node, "sluice");
        let logs = || ["r1", "sluice", "c2"].map(|node| format!("{node}:\n{}", log(node))).concat();
        assert!(has_routes(network), "{}", logs());
    };
    network.commit(&shape.nodes(), &["set cluster store generation 2"]);
    network.until("the server is another one", |network| {
        let now = pid(&network.lab, "r1", SERVER);
        keeps_routes(network);
        now.is_some() && now != before
    });
    network.until("a candidate leads in the new store", |network| {
        keeps_routes(network);
        ["sluice", "c2"].iter().any(|node| network.stored(node, "state") == "leads")
    });
    let (leader, _) = network.leading();
    network.until_equal_to("r1", leader);
    network.frr("ip route 100.64.0.0/29 blackhole");
    network.until("changes arrive", |network| network.has_route("r1", "100.64.0.0/29"));
    assert!(has_routes(&network));

    // An element that leaves the cluster ends its server.
    let last = pid(lab, "r1", SERVER).unwrap();
    network.commit(&["r1".into()], &["delete cluster"]);
    network.until("the server has ended", |_| !runs(last));
}

/// A user that every Debian has, with an operator's role on the balancer alone at first.
const OPERATOR: &str = "games";

/// A person works on another element: by the role on both machines, and both record it.
fn commands_change_another_element(network: &Network) {
    let lab = &network.lab;
    let (node, _) = network.leading();
    let element = if node == "sluice" { "21" } else { "22" };
    let clear = ["clear", "bgp", "neighbor", "10.0.1.2", "element", element];
    let flaps = |network: &Network| {
        let shown = at(&network.lab, node, &["show", "bgp", "neighbor", "10.0.1.2"]);
        wide(&shown["neighbors"][0]["flaps"])
    };
    let clears = || {
        let mut command = lab.lab.command("b1", "setpriv").unwrap();
        command.args(["--reuid", OPERATOR, "--regid", "65534", "--clear-groups", SLUICE]);
        let output =
            command.args(clear).arg("--run-dir").arg(lab.lab.dir("b1").join("run")).output().unwrap();
        (
            output.status.success(),
            String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
        )
    };
    let (done, said) = clears();
    assert!(!done, "a stranger: {said}");
    network.commit(&["b1".into()], &[&format!("set system user {OPERATOR} role operator")]);
    let (done, said) = clears();
    assert!(!done && said.contains("ResetNeighbor"), "an operator of the balancer alone: {said}");
    let before = flaps(network);
    network.commit(&[node.into()], &[&format!("set system user {OPERATOR} role operator")]);
    let (done, said) = clears();
    assert!(done, "an operator of both: {said}");
    network.until("the session was closed", |network| flaps(network) > before);
    let audit = |node: &str| at(lab, node, &["show", "audit"]).to_string();
    let of_element = audit(node);
    for part in [&format!("{OPERATOR} at element 1"), "\"allowed\"", "\"denied\""] {
        assert!(of_element.contains(part), "{part}: {of_element}");
    }
    assert!(audit("b1").contains(&format!("for element {element}")), "{}", audit("b1"));
    // A session that is not up yet is closed without a flap.
    network.until("the sessions are up", |network| network.has_sessions(node));
    assert!(run(lab, "b1", &clear).status.success());
    network.until("the session was closed again", |network| flaps(network) > before.map(|before| before + 1));
    network.until("the sessions are up", |network| network.has_sessions(node));
    network.until("hosts reach each other", |network| {
        NEAR.iter().all(|from| network.ping(from, 1, "64").contains(" 1 received"))
    });
}

/// An element alone with its store.
const ALONE: &str = "
[nodes.sluice]
daemon = 'sluice'
config = '''
cluster {
    element 21; interconnect eth0; key 5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a;
    member 21 { role control; address 10.9.0.21; }
    store { member 21; }
}
'''
[nodes.other]
[[links]]
a = 'sluice:eth0'
b = 'other:eth0'
a_addresses = ['10.9.0.21/24']
";

#[test]
fn an_element_without_a_certificate_reports_what_to_do_and_its_server_outlives_the_manager() {
    let _share = share();
    if !possible() || !possible_with_store() {
        return;
    }
    let mut lab = RouterLab::up(&ALONE.parse().unwrap(), Path::new(SLUICE));
    let reports = |lab: &RouterLab, parts: &[&str]| has_all(&lab.ask(&["status"]).to_string(), parts);
    lab.until("the element reports what is missing", |lab| {
        reports(lab, &["no certificate", "sluice cluster init", "cluster.store: ", "ca.crt"])
    });
    let credentials = lab.run_dir().join("state/credentials/cluster");
    let cluster = |words: &[&str]| {
        let output = run(&lab, "sluice", &[&["cluster"], words].concat());
        (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    // Without an authority nobody is invited; an invitation of another element is taken, and said to be wrong.
    let (done, said) = cluster(&["invite", "22", "--address", "10.9.0.22"]);
    assert!(!done && said.contains("sluice cluster init"), "{said}");
    assert!(cluster(&["init", "21", "--address", "10.9.0.21"]).0);
    let (done, said) = cluster(&["init", "21", "--address", "10.9.0.21"]);
    assert!(!done && said.contains("already"), "{said}");
    let invitation = lab.lab.dir("sluice").join("invitation").display().to_string();
    assert!(cluster(&["invite", "22", "--address", "10.9.0.22", "--into", &invitation]).0);
    for (file, mode) in [
        (credentials.join("element.key"), 0o600),
        (invitation.clone().into(), 0o600),
        (credentials.clone(), 0o700),
    ] {
        assert_eq!(
            std::fs::metadata(&file).unwrap().permissions().mode() & 0o777,
            mode,
            "{}",
            file.display()
        );
    }
    lab.until("the element leads", |lab| {
        at(lab, "sluice", &["show", "cluster", "store"])["state"] == "leads"
    });
    lab.until("nothing is missing", |lab| lab.cli(&["status"]).status.success());

    // The manager is killed: the server goes on, and the next manager adopts it and ends it in order.
    let server = pid(&lab, "sluice", SERVER).unwrap();
    lab.kill(lab.pid("manager").unwrap());
    assert!(runs(server));
    lab.lab.start("sluice").unwrap();
    lab.until("the next manager has the server", |lab| pid(lab, "sluice", SERVER) == Some(server));
    lab.kill(server);
    lab.until("the server runs again", |lab| pid(lab, "sluice", SERVER).is_some_and(|pid| pid != server));
    lab.until("the element leads again", |lab| {
        at(lab, "sluice", &["show", "cluster", "store"])["state"] == "leads"
    });

    // The certificate of another element is of no use, and the element reports that.
    assert!(run(&lab, "sluice", &["cluster", "join", &invitation]).status.success());
    let store = pid(&lab, "sluice", SERVER).unwrap();
    lab.kill(store);
    lab.until("the element reports whose certificate it has", |lab| {
        reports(lab, &["certificate is of element 22"])
    });
    let server = pid(&lab, "sluice", SERVER);
    assert!(lab.cli(&["stop"]).status.success());
    lab.until("the server has ended", |_| server.is_none_or(|server| !runs(server)));
}
