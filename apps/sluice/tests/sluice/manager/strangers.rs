//! Users of the host without a relation to the router.

use crate::manager::Router;

/// A program for a user without rights.
const STRANGER: &str = "setpriv --reuid 12345 --regid 12345 --clear-groups";

/// A program that every user can run.
const PYTHON: &str = "/usr/bin/python3";

/// Connects so often to a socket, announces a long frame on each connection, and waits.
const HOLDS: &str = r"
import resource, signal, socket
resource.setrlimit(resource.RLIMIT_NOFILE, (6000, 6000))
kept = []
for i in range(5000):
    s = socket.socket(socket.AF_UNIX)
    try:
        s.connect('/run/sluice/finder.sock')
        s.send(b'\x01\x00\x00\x00\x03')
    except OSError:
        pass
    kept.append(s)
print('held', flush=True)
# Until it is ended with the host, or the test forgot it.
signal.alarm(300)
signal.pause()
";

#[test]
fn idle_strangers_are_in_nobodys_way() {
    let Some(mut router) = Router::up("protocols { static { route 10.1.0.0/16 discard; } }\n") else {
        return;
    };
    if router.shell(&format!("{STRANGER} {PYTHON} --version")).1 != 0 {
        return sluice_testkit::skipped("no Python that all can run");
    }
    router.0.write("holds.py", HOLDS).unwrap();
    router.run("chmod 755 . holds.py");
    let said = router.0.start(&format!("prlimit --nofile=6000:6000 {STRANGER} {PYTHON} holds.py")).unwrap();
    assert!(router.waits(|_| std::fs::read_to_string(&said).is_ok_and(|said| said.contains("held"))));
    assert!(matches!(router.status(), 0));
    let pid = router.pid("static");
    router.run(&format!("kill -9 {pid}"));
    assert!(router.waits(|router| ![0, pid].contains(&router.pid("static")) && router.status() == 0));
    let all = router.json("sluice show processes");
    let memory = sluice_load::wide(&all["processes"][0]["memory_bytes"]).unwrap();
    assert!(memory < 256 << 20, "{memory} octets");
}

#[test]
fn the_folder_of_sockets_is_the_components() {
    let Some(mut router) = Router::up("protocols { static { } }\n") else {
        return;
    };
    let (said, status) = router.shell(&format!("{STRANGER} touch /run/sluice/xrl/1-handover"));
    assert_ne!(status, 0, "{said}");
    for folder in ["xrl", "operators", "output"] {
        let (said, status) = router.shell(&format!("{STRANGER} ls /run/sluice/{folder}"));
        assert_ne!(status, 0, "{said}");
        assert!(router.shell(&format!("ls /run/sluice/{folder}")).1 == 0, "{folder}");
    }
    router.run("sluice restart static && sluice restart fea && sluice restart rib && sluice restart manager");
    assert!(router.waits(|router| router.status() == 0));
}
