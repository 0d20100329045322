//! Origins of routes outside the executable: the fate of their routes, and of the origins after a failure.

use crate::third_party::router::{Router, copy, has, install, python, text};
use std::process::Command;

fn kill(pid: &serde_json::Value) {
    let number = pid.as_u64().unwrap().to_string();
    assert!(Command::new("kill").args(["-9", &number]).status().unwrap().success());
}

#[test]
fn a_component_in_go_from_the_documents_alone() {
    if !has("go", "version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("packages");
    install(&packages, "gopher");
    let built = Command::new("go")
        .args(["build", "-o", "gopher", "main.go"])
        .current_dir(packages.join("gopher"))
        .env("GO111MODULE", "off")
        .env("GOCACHE", folder.path().join("cache"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", text(&built));
    let router = Router::start(folder.path(), "protocols { gopher { prefix 198.51.100.0/24; } }\n");
    router.until("its route is in the kernel", || router.kernel() == ["198.51.100.0/24"]);
    let pid = router.process("gopher", "pid");
    let done = router.configure(&[
        "set protocols gopher prefix 203.0.113.0/24 metric 7",
        "delete protocols gopher prefix 198.51.100.0/24",
        "commit",
    ]);
    assert!(done.status.success(), "{}", text(&done));
    router.until("its routes are others", || router.kernel() == ["203.0.113.0/24"]);
    let refused = router.configure(&["set protocols gopher prefix 10.0.0.0/33", "commit"]);
    assert!(!refused.status.success() && text(&refused).contains("invalid CIDR"), "{}", text(&refused));
    assert_eq!(router.process("gopher", "pid"), pid);
    // A process that dies is started again, and its route stays: it is back within the grace time.
    kill(&pid);
    router.until("it is another process", || {
        router.process("gopher", "pid") != pid && router.process("gopher", "state") == "running"
    });
    router.until("its route is there", || router.kernel() == ["203.0.113.0/24"]);
    let done = router.configure(&["delete protocols gopher", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    router.until("its route goes when the grace time is over", || router.kernel().is_empty());
}

#[test]
fn a_component_whose_work_fails_does_not_look_as_if_it_ran() {
    if !has("python3", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("packages");
    install(&packages, "beacon");
    copy(&python().join("sluice_xrl"), &packages.join("beacon/sluice_xrl"));
    let router = Router::start(folder.path(), "protocols { beacon { prefix 198.51.100.0/24; } }\n");
    router.until("its route is in the kernel", || router.kernel() == ["198.51.100.0/24"]);

    // A RIB that is started anew receives everything.
    kill(&router.process("rib", "pid"));
    router.until("the RIB is back", || router.run(&["status"]).status.success());
    let done = router.configure(&["set protocols beacon prefix 203.0.113.0/24", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    router.until("both are in the kernel", || {
        router.kernel() == ["198.51.100.0/24", "203.0.113.0/24"] && router.run(&["status"]).status.success()
    });

    // An exception in a task ends the process, with its text in the log.
    let pid = router.process("beacon", "pid");
    router.configure(&["set protocols beacon fail true", "commit"]);
    router.until("the process ended", || router.process("beacon", "pid") != pid);
    assert!(router.log().contains("this beacon was told to fail"));
    let done = router.configure(&["set protocols beacon fail false", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    router.until("it runs", || router.process("beacon", "state") == "running");

    // What it cannot do is the router's status.
    let done = router.configure(&[
        "delete protocols beacon prefix 198.51.100.0/24",
        "delete protocols beacon prefix 203.0.113.0/24",
        "commit",
    ]);
    assert!(done.status.success(), "{}", text(&done));
    router.until("the router is degraded", || {
        text(&router.run(&["status"])).contains("blackhole: no prefix is configured")
    });
}

#[test]
fn a_component_without_a_right_ends_and_names_it() {
    if !has("python3", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("packages");
    install(&packages, "beacon");
    copy(&python().join("sluice_xrl"), &packages.join("beacon/sluice_xrl"));
    std::fs::write(packages.join("beacon/rights.toml"), "class = \"beacon\"\nneeds = [\"rib\"]\n").unwrap();
    let router = Router::start(folder.path(), "protocols { static; }\n");
    let done = router.configure(&["set protocols beacon prefix 198.51.100.0/24", "commit"]);
    router.until("the log names the right", || {
        let log = router.log();
        log.contains("AccessDenied") && log.contains("rib.v1.Rib/RegisterOrigin")
    });
    // The component ends during the commit, or soon after.
    if done.status.success() {
        router.until("it counts as one that ends again and again", || {
            router.process("beacon", "restarts").as_u64().is_some_and(|n| n > 1)
        });
    } else {
        assert!(text(&done).contains("beacon failed"), "{}", text(&done));
    }
}

#[test]
fn routes_of_a_program_go_with_its_process() {
    if !has("python3", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let router = Router::start(folder.path(), "protocols { static; }\n");
    let program = folder.path().join("guest.py");
    // It names no target; a target that is registered nowhere is refused.
    std::fs::write(
        &program,
        "
import asyncio, sys
from pathlib import Path
from sluice_xrl import RibOrigin, Route, Router, XrlError

async def main():
    run_dir = Path(sys.argv[1])
    router = await Router.connect(str(run_dir / 'finder.sock'), None, str(run_dir / 'xrl'))
    rib = await router.client('rib', 'rib.v1.Rib')
    try:
        await rib.call('RegisterOrigin', {'origin': 'three', 'target': 'nobody', 'distance': 100})
    except XrlError as error:
        if error.name != 'UnknownTarget':
            raise
    else:
        sys.exit('registered for nobody')
    for name, prefix in [('one', '192.0.2.0/25'), ('two', '192.0.2.128/25')]:
        origin = RibOrigin(router, name, distance=100, grace=1)
        async def announce(origin=origin, prefix=prefix):
            await origin.update([Route(prefix)])
        asyncio.create_task(origin.run(announce))
    await asyncio.Event().wait()

asyncio.run(main())
",
    )
    .unwrap();
    let mut command = router.lab.command("host", "python3").unwrap();
    command.arg(&program).arg(folder.path().join("run")).env("PYTHONPATH", python());
    let mut child = command.spawn().unwrap();
    router.until("its routes are in the kernel", || router.kernel().len() == 2);
    child.kill().unwrap();
    child.wait().unwrap();
    router.until("its routes are gone", || router.kernel().is_empty());
}
