//! `sluice stop`, `sluice reload` and `sluice flush`.

use crate::manager::{FILE, Router};
use sluice_load::wide;

const STATIC: &str = "interfaces { interface lo { address 192.0.2.1/32; } }
protocols { static { route 10.1.0.0/16 discard; } }\n";

#[test]
fn a_router_is_stopped_reloaded_and_flushed() {
    let Some(mut router) = Router::up(STATIC) else { return };
    assert!(router.waits(|router| router.kernel().contains("10.1.0.0/16")));

    // A file with an error is refused with its place, and changes nothing.
    router.0.write(FILE, "protocols { static { route 10.2.0.0/16 frob; } }\n").unwrap();
    let (said, status) = router.shell("sluice reload");
    assert_eq!(status, 4, "{said}");
    assert!(said.contains(&format!("{FILE}:1:")), "{said}");
    assert!(router.kernel().contains("10.1.0.0/16"));
    router.0.write(FILE, &STATIC.replace("10.1.", "10.3.")).unwrap();
    let said = router.run("sluice reload");
    assert!(said.contains("committed as revision 2"), "{said}");
    assert!(router.waits(|router| router.kernel().contains("10.3.0.0/16")));
    let again = router.json("sluice reload");
    assert_eq!(again["changes"], "0", "{again}");

    let (said, status) = router.shell("sluice flush");
    assert_eq!(status, 1, "{said}");
    assert!(said.contains("`sluice stop` first"), "{said}");
    let (said, status) = router.shell("setpriv --reuid 12345 --clear-groups sluice stop");
    assert_eq!(status, 7, "{said}");

    let stopped = router.json("sluice stop");
    assert_eq!(stopped["stopped"], true, "{stopped}");
    assert!(stopped["components"].as_array().is_some_and(|all| all.contains(&"rib".into())), "{stopped}");
    assert_ne!(router.shell("pidof sluice").1, 0);
    let (said, status) = router.shell("sluice stop");
    assert!(status == 3 && said.contains("no router runs in /run/sluice"), "{said}");

    // What a router wrote, and what others did.
    router.run("ip route replace blackhole 10.4.0.0/16 proto 83");
    router.run(
        "ip route replace blackhole 10.5.0.0/16 proto 83 table 7; ip route replace blackhole 10.6.0.0/16",
    );
    router.run("ip nexthop replace id 99 blackhole proto 83; ip address replace 192.0.2.9/32 dev lo");
    let flushed = router.json("sluice flush");
    assert!(wide(&flushed["routes"]) >= Some(2) && wide(&flushed["next_hops"]) >= Some(1), "{flushed}");
    let left = router.run("ip route show table all proto 83; ip nexthop show proto 83; ip address");
    assert!(!left.contains("10.") && !left.contains("id 99") && !left.contains("192.0.2.1/"), "{left}");
    assert!(router.run("ip route; ip address").contains("10.6.0.0/16"));
    assert!(router.run("ip address").contains("192.0.2.9/32"));
}
