//! A router's messages to systemd (sd_notify(3)), over the socket given to services.

use sluice_router_lab::{RouterLab, possible, program_with, runs};
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

/// The components come up, one dies and comes back, and the router ends.
#[test]
fn systemd_hears_how_it_is() {
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let next = || {
        let mut octets = [0; 4096];
        let len = socket.recv(&mut octets).expect("it is notified within a minute");
        String::from_utf8_lossy(&octets[..len]).trim_end().to_string()
    };
    let program = program_with(folder.path(), &format!("NOTIFY_SOCKET={}", path.display()));
    let topology =
        "[nodes.sluice]\ndaemon = 'sluice'\nconfig = 'protocols static route 192.0.2.0/24 discard;'";
    let lab = RouterLab::up(&topology.parse().unwrap(), &program);
    let mut received = vec![next()];
    while received.last().unwrap() != "READY=1" {
        received.push(next());
    }
    assert!(received[0].starts_with("STATUS=not ready: "), "{received:?}");
    assert_eq!(received[received.len() - 2], "STATUS=ready: fea, rib, static", "{received:?}");
    assert!(lab.ready(), "it is ready when it reports that");

    lab.kill(lab.pid("static").unwrap());
    assert_eq!(next(), "STATUS=not ready: static is backing off");
    while next() != "STATUS=ready: fea, rib, static" {}

    let manager = lab.pid("manager").unwrap();
    lab.signal("-TERM", manager);
    while next() != "STOPPING=1" {}
    lab.until("the router has ended", |_| !runs(manager));
}
