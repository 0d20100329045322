//! A running router whose configuration file changes: the impact of a change, and the complete removal of deleted
//! parts.

use crate::SLUICE;
use sluice_router_lab::{Count, RouterLab, possible, share};
use std::path::Path;

/// Two Sluice routers: routes originated by the first are learned by the second.
const TOPOLOGY: &str = "
[nodes.far]
daemon = 'sluice'
config = '''
protocols {
    bgp {
        local-as 64501;
        router-id 10.0.0.2;
        default-policy accept;
        network 198.51.100.0/24;
        network 2001:db8:77::/48;
        neighbor 10.1.0.1 { peer-as 64500; ipv6-unicast enabled; connect-retry-time 1; }
    }
    static { route 198.51.100.0/24 discard; route 2001:db8:77::/48 discard; }
}
'''
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols { }
'''
[[links]]
a = 'sluice:far'
b = 'far:sluice'
a_addresses = ['10.1.0.1/24', '2001:db8:1::1/64']
b_addresses = ['10.1.0.2/24', '2001:db8:1::2/64']
";

fn bgp(router_id: &str, hold_time: u32) -> String {
    format!(
        "bgp {{ local-as 64500; router-id {router_id}; default-policy accept;
             neighbor 10.1.0.2 {{ peer-as 64501; ipv6-unicast enabled; connect-retry-time 1; hold-time {hold_time}; }} }}"
    )
}

/// Writes the configuration and has it read.
fn change(lab: &RouterLab, file: &Path, protocols: &str) {
    // Whole or not at all: an earlier change may be being read.
    let new = file.with_extension("new");
    std::fs::write(&new, format!("protocols {{ {protocols} }}\n")).unwrap();
    std::fs::rename(&new, file).unwrap();
    lab.signal("-HUP", lab.pid("manager").unwrap());
}

#[test]
fn a_change_costs_what_its_leaves_say_and_who_is_removed_leaves_nothing() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    lab.until("the router is ready", RouterLab::ready);
    let file = lab.lab.dir("sluice").join("config");
    assert!(file.exists(), "the lab keeps the configuration elsewhere");

    let discard = "static { route 203.0.113.0/24 discard; }";
    change(&lab, &file, &format!("{discard} {}", bgp("10.0.0.1", 90)));
    let learned = |lab: &RouterLab| lab.kernel() == Count { v4: 2, v6: 1 };
    lab.until("the far router's networks and the static route are in the kernel", learned);
    let first = lab.pid("bgp").unwrap();

    // The same again, and what concerns a session only, leave the process alone.
    change(&lab, &file, &format!("{discard} {}", bgp("10.0.0.1", 90)));
    change(&lab, &file, &format!("{discard} {}", bgp("10.0.0.1", 30)));
    lab.until("the session has the new hold time", |l| l.neighbor("10.1.0.2")["hold_time"] == 30);
    assert_eq!(lab.pid("bgp"), Some(first));

    // What holds for the life of a process starts it anew, without a death being counted.
    change(&lab, &file, &format!("{discard} {}", bgp("10.0.0.9", 30)));
    lab.until("BGP is a new process", |l| l.pid("bgp").is_some_and(|pid| pid != first && pid != 0));
    lab.until("the session is back", |l| l.established("10.1.0.2"));
    lab.until("its routes are there", learned);
    assert_eq!(lab.restarts(), 0);
    assert_eq!(lab.ask(&["show", "bgp", "summary"])["router_id"], "10.0.0.9");

    // A file that is wrong changes nothing.
    std::fs::write(&file, "protocols { bgp { local-as none; } }").unwrap();
    lab.signal("-HUP", lab.pid("manager").unwrap());
    lab.until("the log names what is wrong", |l| l.lab.log("sluice", "sluice").contains("stays as it is"));
    assert!(learned(&lab) && lab.established("10.1.0.2"));

    // Who is removed takes its routes along, long before the grace time of a restart is over.
    change(&lab, &file, discard);
    lab.until("BGP's routes are gone", |l| l.kernel() == Count { v4: 1, v6: 0 });
    std::fs::write(&file, "").unwrap();
    assert!(lab.cli(&["reload", "allow-empty"]).status.success());
    lab.until("the static route is gone", |l| l.kernel() == Count::default());
    assert_eq!(lab.restarts(), 0);
}

/// Configures whether routes go into the kernel, and has it read.
fn install(lab: &RouterLab, file: &Path, installs: bool) {
    let forwarding = format!("interfaces {{ forwarding {{ install-routes {installs}; }} }}");
    std::fs::write(file, format!("{forwarding}\nprotocols {{ {} }}\n", bgp("10.0.0.1", 90))).unwrap();
    lab.signal("-HUP", lab.pid("manager").unwrap());
}

#[test]
fn a_route_reflector_keeps_its_routes_out_of_the_kernel() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    lab.until("the router is ready", RouterLab::ready);
    let file = lab.lab.dir("sluice").join("config");
    let both = Count { v4: 1, v6: 1 };
    let in_rib = |lab: &RouterLab| lab.rib("bgp").0 == both;

    install(&lab, &file, false);
    lab.until("the far router's networks are in the RIB", in_rib);
    lab.until("the log reports that none are wanted", |l| l.whole_log().contains("wants no routes"));
    assert_eq!(lab.kernel(), Count::default());
    let processes = || ["bgp", "rib", "fea"].map(|name| lab.pid(name));
    let before = processes();

    install(&lab, &file, true);
    lab.until("they are in the kernel", |l| l.kernel() == both);

    // What is there is taken out; sessions and processes do not notice.
    install(&lab, &file, false);
    lab.until("they are gone from the kernel", |l| l.kernel() == Count::default());
    assert!(in_rib(&lab) && lab.established("10.1.0.2"));
    assert_eq!((processes(), lab.restarts()), (before, 0));
}
