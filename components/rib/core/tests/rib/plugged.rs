//! Stages that a call plugs into a running table.

use crate::bench::Bench;
use sluice_base::{Instant, Ipv4Prefix, TableId};
use sluice_machine::{Outbox, Request};
use sluice_rib::event::Event;
use sluice_rib::plugged::{MOST_PREFIXES, MOST_STAGES, PluggedStage, PlumbError};
use sluice_rib::request::PlugStage;
use sluice_rib::{Output, StageId};

const HELD: &str = "192.0.2.0/25";
const OTHER: &str = "198.51.100.0/24";

fn bench() -> Bench {
    let mut b = Bench::new();
    b.origin("static", 1, false);
    b.set("static", HELD, "10.0.0.2");
    b.set("static", OTHER, "10.0.0.2");
    b
}

fn plug(b: &mut Bench, stage: PluggedStage<Ipv4Prefix>) -> Result<StageId, PlumbError> {
    let mut out = Outbox::new();
    let stage = PlugStage { table: TableId::MAIN, stage }.make(&mut b.rib, Instant::ZERO, &mut out);
    b.outputs.extend(out.drain());
    b.idle();
    stage
}

fn stages(b: &Bench) -> Vec<(StageId, &'static str)> {
    let all = b.rib.plugged_stages::<Ipv4Prefix>(TableId::MAIN);
    all.into_iter().map(|stage| (stage.id, stage.name)).collect()
}

#[test]
fn routes_are_held_back_while_the_stage_is_there() {
    let mut b = bench();
    let before = b.engine(HELD);
    let stage = plug(&mut b, PluggedStage::HoldBack(vec!["192.0.2.0/24".parse().unwrap()])).unwrap();
    assert_eq!(stages(&b), [(stage, "hold-back")]);
    assert_ne!(b.engine(HELD), before);
    assert_eq!(b.engine(OTHER), before);
    // Changes while the stage is there are held back too.
    b.set("static", "192.0.2.128/25", "10.0.0.2");
    assert_ne!(b.engine("192.0.2.128/25"), before);
    b.unplumb::<Ipv4Prefix>(stage);
    assert_eq!((b.engine(HELD), b.engine("192.0.2.128/25")), (before.clone(), before));
    assert_eq!(stages(&b), []);
}

#[test]
fn a_stage_that_breaks_a_rule_is_removed_and_the_routes_stay_right() {
    let mut b = bench();
    let before = b.engine_table::<Ipv4Prefix>();
    plug(&mut b, PluggedStage::Drill).unwrap();
    let isolated = b.outputs.iter().filter(
        |output| matches!(output, Output::Event(Event::StageIsolated { stage, .. }) if stage == "drill"),
    );
    assert_eq!(isolated.count(), 1);
    assert_eq!(b.engine_table::<Ipv4Prefix>(), before);
    assert_eq!(stages(&b), []);
    b.set("static", "203.0.113.0/24", "10.0.0.2");
    assert_eq!(b.engine("203.0.113.0/24"), b.engine(OTHER));
}

#[test]
fn stages_are_bounded() {
    let mut b = bench();
    let hold = |count: usize| PluggedStage::HoldBack(vec!["192.0.2.0/24".parse().unwrap(); count]);
    assert_eq!(plug(&mut b, hold(MOST_PREFIXES + 1)), Err(PlumbError::TooManyPrefixes));
    for _ in 0..MOST_STAGES {
        plug(&mut b, hold(1)).unwrap();
    }
    assert_eq!(plug(&mut b, hold(1)), Err(PlumbError::TooManyStages));
    let elsewhere = PlugStage { table: TableId(7), stage: hold(1) };
    assert_eq!(elsewhere.make(&mut b.rib, Instant::ZERO, &mut Outbox::new()), Err(PlumbError::NoTable));
}
