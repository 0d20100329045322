//! Route origin validation with real caches (StayRTR), beside FRR and BIRD fed by the same cache: the same states for real prefixes;
//! payloads that change under traffic; caches that die.
//! ASPAs come from a cache of the test: StayRTR of Debian has an earlier draft of them.

mod aspas;
mod caches;
mod changes;
mod network;
mod payloads;
mod states;
mod tls;
mod version_two;

use sluice_router_lab::possible;
use std::process::Command;

/// Returns true if labs with caches can be made here; records a skip under the test's name if not.
fn possible_with_caches() -> bool {
    if !possible() {
        return false;
    }
    let is_there = Command::new("stayrtr").arg("-version").output().is_ok();
    if !is_there {
        sluice_testkit::skipped("StayRTR is not installed (Debian's package stayrtr)");
    }
    is_there
}

#[test]
fn states_are_those_of_bird_and_frr() {
    if possible_with_caches() {
        states::run();
    }
}

#[test]
fn changed_payloads_change_concerned_routes_alone() {
    if possible_with_caches() {
        changes::run();
    }
}

#[test]
fn a_restart_of_the_component_asks_the_cache_for_changes() {
    if possible_with_caches() {
        changes::run_with_a_restart();
    }
}

#[test]
fn leaked_routes_are_rejected_by_aspas() {
    if possible() {
        aspas::run();
    }
}

#[test]
fn a_cache_with_an_earlier_draft_of_aspas_is_asked_in_version_1() {
    if possible_with_caches() {
        aspas::run_with_an_earlier_draft();
    }
}

#[test]
fn another_cache_takes_over_and_data_expire() {
    if possible_with_caches() {
        caches::run();
    }
}

#[test]
fn a_cache_that_restarts_is_asked_for_all_its_data() {
    if possible_with_caches() {
        caches::run_with_a_restart();
    }
}

#[test]
fn a_cache_behind_tls_is_trusted_by_its_certificate() {
    if possible_with_caches() {
        tls::run();
    }
}

#[test]
fn the_internets_table_under_400_000_payloads() {
    let program = sluice_testkit::long!("rpki table");
    if possible_with_caches() {
        states::run_long(&program);
    }
}
