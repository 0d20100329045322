//! Commits that would cut off the operator who commits.

use crate::manager::{FILE, Router};

/// A neighbor's host in a network namespace of its own, the operator's host; the addresses are assigned by the host
/// itself.
const NETWORK: &str = "ip netns add peer && ip link add eth0 type veth peer name eth0 netns peer && ip addr add 10.0.0.1/24 dev eth0 && \
    ip link set eth0 up && ip -n peer addr add 10.0.0.2/24 dev eth0 && ip -n peer link set eth0 up && ip -n peer link set lo up && \
    ip -n peer addr add 10.9.0.1/32 dev lo && ip route add 10.9.0.0/16 via 10.0.0.2";

/// The status of a refusal to commit without a time to confirm in.
const FAILED: i32 = 1;

impl Router {
    /// Commits statements as an operator connected from `client`. Returns the output and the status.
    fn commit_from(&mut self, client: &str, statements: &str) -> (String, i32) {
        self.shell(&format!(
            "SSH_CONNECTION='{client} 50000 10.0.0.1 22' sluice configure {statements} commit"
        ))
    }

    #[track_caller]
    fn refused(&mut self, client: &str, statements: &str, text: &str) {
        let (said, status) = self.commit_from(client, statements);
        assert!(
            status == FAILED && said.contains(text) && said.contains("confirmed"),
            "{statements}: {status}: {said}"
        );
    }
}

#[test]
fn the_way_to_the_operator_is_the_kernels() {
    let Some(mut router) = Router::up("protocols { static { } }\n") else {
        return;
    };
    router.run(NETWORK);
    router.refused(
        "10.0.0.2",
        "'set interfaces interface eth0 enabled false'",
        "you are connected through eth0",
    );
    router.refused(
        "10.9.0.1",
        "'set interfaces interface eth0 enabled false'",
        "you are connected through eth0",
    );
    router.refused("10.9.0.1", "'set protocols static route 10.9.0.0/24 discard'", "the route 10.9.0.0/16");
    let (said, status) = router.commit_from("10.9.0.1", "'set protocols static route 10.8.0.0/16 discard'");
    assert_eq!(status, 0, "{said}");
    router.run("sluice configure 'set interfaces interface eth0 enabled true' commit");
    assert!(router.run("ip link show eth0").contains("UP"));
}

#[test]
fn a_session_that_brought_the_way_to_the_operator_is_not_cut() {
    let Some(mut router) = Router::up("protocols { static { } }\n") else { return };
    router.run(NETWORK);
    router.run("ip route del 10.9.0.0/16");
    let neighbor = "protocols { bgp { local-as 65002; router-id 10.0.0.2; default-policy accept; network [ 10.9.0.0/16 ]; \
                    neighbor 10.0.0.1 { peer-as 65001; connect-retry-time 1; } } }";
    router.0.write("/etc/sluice/peer.conf", neighbor).unwrap();
    let peer = "exec ip netns exec peer sluice start --config /etc/sluice/peer.conf --run-dir /run/peer --state-dir /var/lib/peer";
    router.0.start(peer).unwrap();
    let own = "protocols { bgp { local-as 65001; router-id 10.0.0.1; default-policy accept; \
               neighbor 10.0.0.2 { peer-as 65002; connect-retry-time 1; } neighbor 10.0.0.3 { peer-as 65003; } } }";
    router.0.write(FILE, own).unwrap();
    let manager = router.pid("manager");
    router.run(&format!("kill -HUP {manager}"));
    assert!(
        router.waits(|router| router.kernel().contains("10.9.0.0/16")),
        "{}",
        router.shell("sluice show bgp summary").0
    );
    for statement in [
        "'delete protocols bgp neighbor 10.0.0.2'",
        "'set protocols bgp neighbor 10.0.0.2 enabled false'",
        "'set protocols bgp router-id 10.0.0.9'",
        "'delete protocols bgp'",
    ] {
        router.refused("10.9.0.1", statement, "of bgp");
    }
    for statement in
        ["'delete protocols bgp neighbor 10.0.0.3'", "'set protocols bgp neighbor 10.0.0.2 description far'"]
    {
        let (said, status) = router.commit_from("10.9.0.1", statement);
        assert_eq!(status, 0, "{said}");
    }
    assert!(router.kernel().contains("10.9.0.0/16"));
}
