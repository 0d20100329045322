//! A router that does not run its configuration file.

use crate::manager::{FILE, Router};
use crate::own_host::{Host, possible};

const GOOD: &str = "protocols { static { route 10.1.0.0/16 discard; } }\n";

#[test]
fn a_file_that_was_not_taken_is_said() {
    let Some(mut router) = Router::up(GOOD) else { return };
    let runs_well = router.waits(|router| (router.status(), router.degraded().as_str()) == (0, "[]"));
    assert!(runs_well, "{}", router.degraded());
    let manager = router.pid("manager");
    // Written and not read.
    router.0.write(FILE, "protocols { frob; }\n").unwrap();
    assert_eq!(router.status(), 8);
    assert!(router.degraded().contains("was changed and not read since"), "{}", router.degraded());
    // Read and refused.
    router.run(&format!("kill -HUP {manager}"));
    assert!(
        router.waits(|router| router.degraded().contains("unknown statement `frob`")),
        "{}",
        router.degraded()
    );
    assert_eq!(router.status(), 8);
    let metrics = router.run("sluice show metrics manager");
    assert!(metrics.contains("sluice_manager_process_degraded{component=\"manager\"} 1"), "{metrics}");
    let doctor = router.shell("sluice doctor").0;
    assert!(doctor.contains("runs degraded: manager: the configuration file was not taken"), "{doctor}");
    // Mended.
    router.0.write(FILE, "protocols { static { route 10.2.0.0/16 discard; } }\n").unwrap();
    router.run(&format!("kill -HUP {manager}"));
    assert!(router.waits(|router| router.status() == 0), "{}", router.degraded());
    assert!(router.waits(|router| router.kernel().contains("10.2.0.0/16")));
    // A commit over a file that somebody changed.
    router.0.write(FILE, GOOD).unwrap();
    router.run("sluice configure 'set protocols static route 10.3.0.0/16 discard' commit");
    assert!(router.waits(|router| router.status() == 8));
    router.run(&format!("rm {FILE}"));
    assert!(router.waits(|router| router.degraded().contains("cannot be read")), "{}", router.degraded());
    router.run("sluice configure 'set protocols static route 10.4.0.0/16 discard' commit");
    assert!(router.waits(|router| router.status() == 0), "{}", router.degraded());
}

#[test]
fn a_file_that_a_component_refuses_is_a_broken_file() {
    let Some(mut router) = Router::up(GOOD) else {
        return;
    };
    router.stop();
    let refused = "protocols { static { route 10.9.0.0/16 discard; } \
                   bgp { local-as 65000; router-id 0.0.0.0; } }\n";
    router.0.write(FILE, refused).unwrap();
    router.0.start("exec sluice start").unwrap();
    assert!(router.waits(|router| router.status() == 8), "{}", router.degraded());
    assert!(
        router.degraded().contains("is not valid")
            && router.degraded().contains("0.0.0.0 identifies no router"),
        "{}",
        router.degraded()
    );
    assert!(router.waits(|router| {
        let kernel = router.kernel();
        kernel.contains("10.1.0.0/16") && !kernel.contains("10.9.0.0/16")
    }));
    assert_eq!(router.pid("bgp"), 0);
    assert_eq!(router.run(&format!("cat {FILE}")), refused, "the file stays as somebody wrote it");
    // The next start reports the same again, and a commit is not written over the file.
    router.stop();
    router.0.start("exec sluice start").unwrap();
    assert!(
        router.waits(|router| router.status() == 8 && router.degraded().contains("identifies no router"))
    );
    router.run("sluice configure 'set protocols static route 10.3.0.0/16 discard' commit");
    assert!(router.waits(|router| router.kernel().contains("10.3.0.0/16")));
    assert_eq!(router.run(&format!("cat {FILE}")), refused);
}

/// Watches so seldom that no report comes from there within a test.
const SELDOM: &str = "SLUICE_WATCHDOG=3600000,3600000,3600000";

#[test]
fn a_port_that_is_taken_is_said_to_the_first_who_asks() {
    if let Err(reason) = possible(&["ip", "setpriv", "python3"]) {
        return sluice_testkit::skipped(reason);
    }
    let mut router = Router(Host::new());
    let taken = "import socket, time; s = socket.create_server((\"\", 179)); time.sleep(3600)";
    router.0.start(&format!("exec python3 -c '{taken}'")).unwrap();
    assert!(router.waits(|router| router.shell("ss -Hltn sport = 179").0.contains("179")));
    let bgp =
        "protocols { bgp { local-as 65000; router-id 10.0.0.1; neighbor 10.0.0.2 { peer-as 65001; } } }\n";
    router.0.write(FILE, bgp).unwrap();
    router.0.start(&format!("exec env {SELDOM} sluice start")).unwrap();
    let mut said = String::new();
    let runs = router.waits(|router| {
        said = router.shell("sluice status").0;
        said.contains("running for")
    });
    assert!(runs, "{said}");
    let expected = "bgp: neighbors cannot connect over IPv4: ";
    assert!(said.contains("degraded") && said.contains(expected), "{said}");
}
