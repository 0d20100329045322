//! The preferred source address of the router's routes in the kernel, in both families: while an interface has the address, and without it.

use crate::SLUICE;
use sluice_router_lab::bird::commit;
use sluice_router_lab::{RouterLab, possible, share};
use std::path::Path;

const SOURCES: [&str; 2] = ["10.9.9.9", "2001:db8:9::9"];

fn topology() -> String {
    "[nodes.peer]\n[nodes.sluice]\ndaemon = 'sluice'\nconfig = '''\n\
     protocols { static { route 192.0.2.0/24 { next-hop 10.1.0.2; } route 2001:db8:1::/48 { next-hop fd00:1::2; } } }\n'''\n\
     [[links]]\na = 'sluice:peer'\nb = 'peer:sluice'\na_addresses = ['10.1.0.1/24', 'fd00:1::1/64']\n\
     b_addresses = ['10.1.0.2/24', 'fd00:1::2/64']\n"
        .into()
}

/// Returns true if the route of each family is in the kernel, with the source address or without.
fn kernel_has(lab: &RouterLab, with_source: [bool; 2]) -> bool {
    ["-4", "-6"].iter().zip(SOURCES).zip(with_source).all(|((family, source), with_source)| {
        let text = lab.kernel_text(family);
        !text.is_empty() && text.contains(&format!("src {source}")) == with_source
    })
}

#[test]
fn routes_have_the_source_address_while_the_router_has_it() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&topology().parse().unwrap(), Path::new(SLUICE));
    lab.until("the routes are in the kernel", |lab| kernel_has(lab, [false, false]));
    for source in SOURCES {
        commit(&lab, &format!("set interfaces forwarding preferred-source {source}"));
    }
    lab.until("the missing addresses are reported", |lab| {
        let status = String::from_utf8(lab.cli(&["status"]).stdout).unwrap();
        SOURCES.iter().all(|source| status.contains(&format!("preferred source {source}")))
    });
    assert!(kernel_has(&lab, [false, false]));
    let address = |verb: &str, address: &str| {
        lab.lab.exec("sluice", "ip", ["address", verb, address, "dev", "lo"]).unwrap();
    };
    address("add", "10.9.9.9/32");
    address("add", "2001:db8:9::9/128");
    lab.until("the routes have the source addresses", |lab| kernel_has(lab, [true, true]));
    let shown = String::from_utf8(lab.cli(&["show", "routes", "kernel", "192.0.2.0/24"]).stdout).unwrap();
    assert!(shown.contains(r#""source":"10.9.9.9""#), "{shown}");
    // Somebody takes the address off a route.
    let route = lab.kernel_text("-4");
    let mut words = route.split_whitespace().skip_while(|word| *word != "nhid");
    let object = words.nth(1).unwrap();
    let replace = ["route", "replace", "192.0.2.0/24", "nhid", object, "metric", "20", "proto", "83"];
    lab.lab.exec("sluice", "ip", replace).unwrap();
    lab.until("the route is repaired", |lab| kernel_has(lab, [true, true]));
    // The kernel removes the IPv4 route with the address.
    address("del", "10.9.9.9/32");
    lab.until("the route is there without it", |lab| kernel_has(lab, [false, true]));
    commit(&lab, "delete interfaces forwarding preferred-source");
    lab.until("no route has a source address", |lab| kernel_has(lab, [false, false]));
    lab.lab.down().unwrap();
}
