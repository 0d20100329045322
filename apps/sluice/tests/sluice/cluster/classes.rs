//! Packets by their DSCP: to a filter with rules of its own machine, while all others go to a router.

use crate::cluster::network::{NEAR, Network, Shape};
use sluice_load::wide;
use sluice_router_lab::xip::{at, run};
use sluice_router_lab::{possible_with_frr, share};

/// Expedited forwarding (RFC 3246) in the octet of the IP header.
const EXPEDITED: &str = "0xb8";

#[test]
fn packets_of_a_class_go_to_a_filter() {
    let _share = share();
    if !possible_with_frr() {
        return;
    }
    let shape = Shape::of(1, 2);
    let network = Network::up(shape);
    network.commit(
        &shape.nodes(),
        &[
            "set cluster member 12 role filter",
            "delete cluster member 12 role router",
            "set cluster class 1 dscp 46",
            "set cluster class 1 role filter",
        ],
    );
    let classes =
        |network: &Network| at(&network.lab, "b1", &["show", "cluster", "classes"])["classes"].clone();
    network.until("the filter is in service", |network| {
        let shown = classes(network);
        shown[0]["elements"] == "11" && shown[1]["elements"] == "12" && shown[1]["packets"] == "46"
    });

    // Each class has an element of its own, in both families.
    for (dscp, serves, rests) in [(EXPEDITED, "r2", "r1"), ("0", "r1", "r2")] {
        for from in [NEAR[0], NEAR[4]] {
            network.until("the neighbors are known", |network| {
                network.ping_with(from, 1, &["-Q", dscp]).contains(" 1 received")
            });
            let before = [serves, rests].map(|node| network.forwarded(node));
            let class = usize::from(dscp == EXPEDITED);
            let led = |network: &Network| {
                let of = &classes(network)[class];
                ["frames", "octets"].map(|field| wide(&of[field]).unwrap())
            };
            let led_before = led(&network);
            let said = network.ping_with(from, 10, &["-Q", dscp]);
            assert!(said.contains(" 10 received"), "{said}");
            let after = [serves, rests].map(|node| network.forwarded(node));
            // The answers have the same DSCP.
            assert_eq!((after[0] - before[0], after[1] - before[1]), (20, 0), "{from} {dscp}");
            let [frames, octets] = led(&network);
            let (frames, octets) = (frames - led_before[0], octets - led_before[1]);
            assert!(frames >= 20 && octets >= 98 * 20, "{from} {dscp}: {frames} frames, {octets} octets");
            assert!(class == 0 || frames == 20, "{frames} frames");
        }
    }

    // The filter's own rules concern its packets alone.
    network.lab.lab.exec("r2", "nft", [RULES]).unwrap();
    assert!(network.ping_with(NEAR[0], 3, &["-Q", EXPEDITED]).contains(" 0 received"));
    assert!(network.ping_with(NEAR[0], 3, &["-Q", "0"]).contains(" 3 received"));
    network.lab.lab.exec("r2", "nft", ["delete", "table", "ip", "own"]).unwrap();

    // Without its filter, a class's packets are dropped, and never led past the filter.
    network.commit(&shape.nodes(), &["set cluster member 12 drained true"]);
    network.until("no filter is in service", |network| classes(network)[1]["elements"] == "");
    assert!(network.ping_with(NEAR[0], 3, &["-Q", EXPEDITED]).contains(" 0 received"));
    assert!(network.counted("b1", "program", "no-router") >= 3);
    assert!(network.ping_with(NEAR[0], 3, &["-Q", "0"]).contains(" 3 received"));

    // A class of filters without a member of that role is refused.
    let output = run(
        &network.lab,
        "b1",
        &["configure", "delete cluster member 12 role filter", "set cluster member 12 role router", "commit"],
    );
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success() && said.contains("no member has the role filter"), "{said}");
}

/// Rules that drop echo requests on their way.
const RULES: &str =
    "table ip own { chain passing { type filter hook forward priority 0; icmp type echo-request drop; }; }";
