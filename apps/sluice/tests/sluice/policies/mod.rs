//! Policies beside FRR's route-maps and BIRD's filters of the same meaning: the same routes go in, and every receiver must
//! get the same routes with the same attributes, prefix by prefix.
//!
//! The folders `frr` and `bird` have a file for each pair: the other daemon's words, then ours. A trace of real UPDATEs and
//! routes that are made for the policies are announced to the other daemon, with a neighbor for each pair, and to Sluice,
//! where a commit for each pair has the routes filtered again. Three kinds of neighbors receive: external, internal, and one
//! with AS numbers of 2 octets. Each pair is tried at import and at export. `docs/policy-proof.md` has the results.

mod daemon;
mod feed;
mod flood;
mod network;
mod pair;
mod peer;
mod proof;
mod refilter;
mod view;

use crate::SLUICE;
use daemon::Daemon;
use feed::Extent;
use sluice_router_lab::table::{internet_table, small_subject};
use std::path::Path;

#[test]
fn route_maps_of_frr() {
    if sluice_router_lab::possible_with_frr() {
        proof::run(Daemon::Frr, Path::new(SLUICE), Extent::Begin);
    }
}

#[test]
fn route_maps_of_frr_for_the_whole_trace() {
    let program = sluice_testkit::long!("policy proof");
    if sluice_router_lab::possible_with_frr() {
        proof::run(Daemon::Frr, &program, Extent::Whole);
    }
}

#[test]
fn filters_of_bird() {
    if sluice_router_lab::possible() {
        proof::run(Daemon::Bird, Path::new(SLUICE), Extent::Begin);
    }
}

#[test]
fn filters_of_bird_for_the_whole_trace() {
    let program = sluice_testkit::long!("policy proof");
    if sluice_router_lab::possible() {
        proof::run(Daemon::Bird, &program, Extent::Whole);
    }
}

#[test]
fn a_flood_of_distinct_attributes_delays_nobody_else() {
    if sluice_router_lab::possible() {
        flood::run();
    }
}

#[test]
fn a_changed_policy_touches_the_routes_whose_outcome_changes() {
    if sluice_router_lab::possible() {
        let (program, table) = small_subject(refilter::SMALL);
        refilter::run(&program, &table);
    }
}

#[test]
fn a_changed_policy_at_the_internets_table() {
    let program = sluice_testkit::long!("refilter");
    if sluice_router_lab::possible()
        && let Some(table) = internet_table()
    {
        refilter::run(&program, &table);
    }
}
