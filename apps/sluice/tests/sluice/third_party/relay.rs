//! Packets relayed by the FEA in calls: a component without descriptors receives and sends packets.

use crate::third_party::router::{Router, copy, has, install, python};
use std::path::Path;

/// Sends a datagram with a TTL of 77 to the component at an address, and prints the datagram that comes back.
const ASK: &str = "
import socket, sys
address = sys.argv[1]
six = ':' in address
s = socket.socket(socket.AF_INET6 if six else socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(2)
s.setsockopt(*((socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS) if six else (socket.IPPROTO_IP, socket.IP_TTL)), 77)
s.connect((address, 4789))
s.send(b'x' * 1200)
print(s.recv(2000).decode())
";

#[test]
fn packets_are_relayed_by_calls() {
    if !has("python3", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("packages");
    install(&packages, "echo");
    copy(&python().join("sluice_xrl"), &packages.join("echo/sluice_xrl"));
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../idl"), &packages.join("echo"));
    let router = Router::start(folder.path(), "protocols { echo; }\n");
    for address in ["127.0.0.1", "::1"] {
        let mut answer = String::new();
        router.until(&format!("the packet to {address} is sent back"), || {
            let output = router.lab.output("host", "python3", ["-c", ASK, address]).unwrap();
            answer = String::from_utf8_lossy(&output.stdout).into_owned();
            output.status.success()
        });
        // The loopback interface is a network's first.
        assert_eq!(answer.trim_end(), format!("{address} 1 77 {}", "x".repeat(1200)));
    }
    assert_eq!(router.process("echo", "restarts"), 0, "{}", router.log());
}
