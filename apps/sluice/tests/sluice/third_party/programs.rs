//! A component outside the FEA has a program in the path of packets and fills its map without a privilege.

use crate::third_party::router::{Router, copy, has, install, python, text};
use std::path::Path;

/// The router between two hosts; only the first host's link is prepared.
const NETWORK: &str = "
[nodes.a]
routes = ['default via 10.1.0.1']
[[links]]
a = 'a:eth0'
b = 'host:eth0'
a_addresses = ['10.1.0.2/24']
b_addresses = ['10.1.0.1/24']
xdp = true
";

fn answers(router: &Router) -> bool {
    let output = router.lab.output("a", "ping", ["-c", "1", "-W", "1", "10.1.0.1"]).unwrap();
    output.status.success()
}

fn degraded(router: &Router) -> String {
    router.process("meter", "degraded").as_str().unwrap_or_default().to_owned()
}

fn programs(router: &Router) -> Vec<String> {
    let shown = router.ask(&["show", "forwarding"]);
    let programs = shown["programs"].as_array().cloned().unwrap_or_default();
    programs.iter().map(|program| format!("{} {}", program["slot"], program["component"])).collect()
}

#[test]
fn a_component_has_a_program_in_the_path_of_packets() {
    if !has("python3", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("packages");
    install(&packages, "meter");
    copy(&python().join("sluice_xrl"), &packages.join("meter/sluice_xrl"));
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../idl"), &packages.join("meter"));
    let configuration = "interfaces { forwarding { engine both; } }\nprotocols { meter; }\n";
    let router = Router::start_among(folder.path(), NETWORK, configuration, &[]);
    router.until("the fast path runs", || router.ask(&["show", "forwarding"])["live"] == true);
    let configure = |statement: &str| {
        let done = router.configure(&[statement, "commit"]);
        assert!(done.status.success(), "{}", text(&done));
    };
    configure("set protocols meter interface eth0");
    router.until("the program is in its slot", || programs(&router) == ["\"police\" \"meter\""]);
    router.until("an echo is answered", || answers(&router));
    configure("set protocols meter drop 1");
    router.until("ICMP is dropped", || !answers(&router));
    // The component reads the counters when it is configured.
    configure("set protocols meter drop 253");
    router.until("packets were counted", || {
        let reported = degraded(&router);
        reported.contains("ICMP ") && !reported.contains("ICMP 0")
    });
    // On another interface only: the program does not see eth0.
    configure("set protocols meter interface eth9");
    configure("delete protocols meter interface eth0");
    router.until("an echo is answered", || answers(&router));
    configure("set protocols meter interface eth0");
    router.until("ICMP is dropped", || !answers(&router));
    // A new FEA leaves the program where it is, and the component's next process gets the same map.
    let done = router.run(&["restart", "fea"]);
    assert!(done.status.success(), "{}", text(&done));
    assert!(!answers(&router));
    // The path of packets ends with its programs, and the component puts its program into the next one.
    configure("set interfaces forwarding engine kernel");
    router.until("an echo is answered", || answers(&router));
    router.until("the component misses its program", || degraded(&router).contains("XDP does not run here"));
    configure("set interfaces forwarding engine both");
    router.until("ICMP is dropped", || !answers(&router));
    configure("delete protocols meter drop 1");
    router.until("an echo is answered", || answers(&router));

    configure("set protocols meter program ip");
    router.until("the refusal is reported", || degraded(&router).contains("there is no program `ip`"));
    // The component goes, and its program after the grace time.
    configure("delete protocols meter");
    router.until("the slot is empty", || programs(&router).is_empty());
}
