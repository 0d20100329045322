//! The maps of a loaded program as the process fills them.

use sluice_base::Instant;
use sluice_bpf::layout::balance;
use sluice_bpf::{Embedded, Loader};
use sluice_cluster::balancer::{Balancer, Input, Output};
use sluice_cluster::frame::Mac;
use sluice_cluster::inventory::{ElementId, PortNumber};
use sluice_cluster::policy::Policy;
use sluice_cluster::reason::Reason;
use sluice_cluster::words::{Map, Place, Store, Words};
use sluice_cluster_process::maps::{NAMES, ProgramMaps};
use sluice_machine::{Machine, Outbox};

fn inputs() -> Vec<Input> {
    let port = PortNumber::new(7).unwrap();
    vec![Input::Policy(Policy::default()), Input::Neighbor(Mac([2, 0, 0, 0, 9, 1]), [port].into())]
}

#[test]
fn a_new_process_finds_the_words_of_the_one_before_and_stores_differences() {
    if !nix::unistd::geteuid().is_root() {
        sluice_testkit::skipped("not root");
        return;
    }
    let program = Loader::new(Embedded::Balance).load().unwrap();
    let maps = ProgramMaps::new(|name| program.map(name)).unwrap();
    assert!(NAMES.iter().all(|name| program.map(name).is_ok()));
    let element = ElementId::new(1).unwrap();
    let mut stores = vec![];
    for stale in [false, true] {
        if stale {
            assert!(maps.store(Store { place: Place::new(Map::Ports, 99, 1), value: 5 }));
        }
        let mut balancer = Balancer::new(element, 3, maps.found());
        let mut out = Outbox::new();
        for input in inputs().into_iter().chain([Input::Complete]) {
            balancer.handle(Instant::ZERO, input, &mut out);
        }
        stores.push(out.len());
        for output in out.drain() {
            let Output::Store(store) = output else { panic!("{output:?}") };
            assert!(maps.store(store));
        }
        for store in balancer.mirror().iter() {
            assert_eq!(maps.load(store.place), store.value);
        }
    }
    // The second process cleared one word, and changed none.
    assert!(stores[0] > 3 && stores[1] == 1, "{stores:?}");
    assert_eq!(maps.load(Place::new(Map::Ports, 99, 1)), 0);
    assert!(!maps.store(Store { place: Place::new(Map::Settings, 1, 0), value: 5 }));
    assert_eq!((maps.last_hello(element), maps.count(Reason::Balanced)), (None, 0));
    assert_eq!(maps.led(7), balance::Led::default());
}

#[test]
fn reasons_have_the_numbers_of_the_program() {
    let numbers: Vec<u32> = Reason::ALL.iter().map(|reason| *reason as u32).collect();
    let known: Vec<u32> = balance::REASON_NAMES.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, known);
}
