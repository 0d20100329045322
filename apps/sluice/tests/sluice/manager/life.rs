//! The start and the end of a router.

use crate::manager::Router;

const STATIC: &str = "protocols { static { route 10.1.0.0/16 discard; } }\n";

#[test]
fn a_network_namespace_has_one_router() {
    let Some(mut router) = Router::up(STATIC) else { return };
    let manager = router.pid("manager");
    let second = "timeout 20 sluice start --run-dir /run/second --state-dir /var/lib/second";
    let (said, status) = router.shell(second);
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("network namespace") && said.contains(&format!("process {manager}")), "{said}");
    assert!(router.kernel().contains("10.1.0.0/16"));
    // Another namespace is another matter. Without the loopback the kernel refuses the route there.
    let other = "unshare --net sh -c 'ip link set lo up && exec timeout -s INT 20 sluice start \
                 --run-dir /run/other --state-dir /var/lib/other'";
    let log = router.0.start(other).unwrap();
    assert!(
        router.waits(|router| router.shell("sluice status --run-dir /run/other").1 == 0),
        "{}",
        std::fs::read_to_string(log).unwrap_or_default()
    );
    router.run("sluice status");
    // Its own next life is no second router, however the last one ended.
    router.run("sluice restart manager");
    assert!(router.waits(|router| router.status() == 0 && router.pid("manager") == manager));
    router.run(&format!("kill -9 {manager}"));
    router.start("");
    assert!(router.kernel().contains("10.1.0.0/16"));
}

#[test]
fn ctrl_c_is_for_the_manager() {
    let Some(mut router) = Router::up(STATIC) else { return };
    let manager = router.pid("manager");
    for component in ["fea", "rib", "static"] {
        let pid = router.pid(component);
        let group = router.run(&format!("ps -o pgid= -p {pid}"));
        assert_eq!(group.trim(), pid.to_string(), "{component} is in a process group of its own");
    }
    let log = router.0.start(&format!("sluice monitor --run-dir /run/sluice; kill -INT {manager}")).unwrap();
    router.run(&format!("kill -INT {manager}"));
    assert!(router.waits(|router| router.shell(&format!("kill -0 {manager}")).1 != 0));
    drop(log);
}

#[test]
fn descriptors_of_the_parent_reach_nobody() {
    let Some(mut router) = Router::up(STATIC) else { return };
    router.stop();
    router.run("echo secret > /run/parents");
    router.start("9< /run/parents");
    let open = router.run("for p in $(pidof sluice); do ls -l /proc/$p/fd; done");
    assert!(open.contains("socket:") && !open.contains("/run/parents"), "{open}");
}
