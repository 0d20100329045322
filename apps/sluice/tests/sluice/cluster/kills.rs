//! Processes of each role are killed under traffic, each of them once, and no packet is lost.

use crate::cluster::network::{Network, Shape, Traffic};
use crate::cluster::own_store::pid;
use crate::cluster::stream::possible_with_store;
use sluice_router_lab::{alone, xip::at};

/// The balancer, a router and the control plane.
const ROLES: [&str; 3] = ["b1", "r1", "sluice"];
/// The manager is the last one: the next manager takes the others over.
const PROCESSES: [&str; 4] = ["cluster", "fea", "rib", "manager"];

impl Network {
    /// Kills a process of a node, starts the next manager if it was the manager, and waits until all runs again.
    fn replace_killed(&mut self, node: &str, component: &str) {
        let before = pid(&self.lab, node, component).unwrap();
        self.lab.kill(before);
        if component == "manager" {
            self.lab.lab.stop(node, true).unwrap();
            self.lab.lab.start(node).unwrap();
        }
        self.until("another process runs", |network| {
            pid(&network.lab, node, component).is_some_and(|new| new != 0 && new != before)
                && ["cluster", "fea", "rib"].iter().all(|other| pid(&network.lab, node, other) > Some(0))
        });
        self.until("all elements are present", |network| {
            network.shape.nodes().iter().all(|node| {
                let states = network.states(node);
                states.iter().all(|state| state == "up" || state == "own")
            })
        });
        if node == "b1" {
            self.until("the balancer has its program", |network| {
                at(&network.lab, node, &["show", "cluster"])["balances"] == true
            });
        }
    }
}

#[test]
fn no_packet_is_lost_while_any_process_of_any_role_is_killed() {
    let program = sluice_testkit::long!("cluster kills");
    let _alone = alone();
    if !possible_with_store() {
        return;
    }
    let mut network = Network::up_with(Shape { store: 1, ..Shape::of(1, 2) }, &program);
    ["r1", "r2"].iter().for_each(|node| network.until_equal(node));
    for node in ROLES {
        for component in PROCESSES {
            let traffic = Traffic::start(&network);
            network.replace_killed(node, component);
            network.without_loss(traffic, &format!("{component} of {node} was killed"));
        }
    }
}
