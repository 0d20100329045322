//! The effects of a commit, in words and as JSON.

use crate::output::counted;
use serde_json::{Value, json};
use sluice_xrl::idl::common::v1::EffectKind;
use sluice_xrl::idl::manager::v1 as pb;

/// Returns the name of a kind of effect.
fn effect_name(kind: EffectKind) -> &'static str {
    match kind {
        EffectKind::EffectUnspecified => "touched",
        EffectKind::SessionReset => "session reset",
        EffectKind::Refiltered => "filtered again",
        EffectKind::ProcessRestart => "restarted",
        EffectKind::Started => "started",
        EffectKind::Stopped => "stopped",
        EffectKind::Interrupted => "interrupted",
        EffectKind::Refreshed => "asked for their routes",
        EffectKind::NotRefreshed => "cannot be asked for their routes, reset needed",
        EffectKind::Noted => "note",
    }
}

/// Returns the name of a kind in JSON.
fn effect_id(kind: EffectKind) -> String {
    match kind {
        EffectKind::Refreshed => "refreshed".into(),
        EffectKind::NotRefreshed => "not-refreshed".into(),
        kind => effect_name(kind).replace(' ', "-"),
    }
}

/// Returns the counts of affected things as a line.
pub fn counts(all: &[pb::ComponentEffect]) -> String {
    let (mut sessions, mut neighbors, mut interfaces, mut processes) = (0_u64, 0_u64, 0_u64, 0_u64);
    let mut refreshed = 0;
    for of_component in all {
        for effect in &of_component.effects {
            let subjects = effect.subjects.len() as u64;
            match effect.kind() {
                EffectKind::SessionReset => sessions += subjects,
                EffectKind::Refiltered => neighbors += subjects,
                EffectKind::Interrupted => interfaces += subjects,
                EffectKind::ProcessRestart => processes += subjects,
                EffectKind::Started | EffectKind::Stopped => {
                    let own = effect.subjects.iter().filter(|s| **s == of_component.component).count() as u64;
                    (processes, sessions) = (processes + own, sessions + subjects - own);
                }
                EffectKind::Refreshed => refreshed += subjects,
                EffectKind::NotRefreshed | EffectKind::Noted | EffectKind::EffectUnspecified => {}
            }
        }
    }
    let mut all = vec![
        counted(sessions, "session", "sessions"),
        counted(neighbors, "neighbor filtered again", "neighbors filtered again"),
        counted(interfaces, "interface", "interfaces"),
        counted(processes, "process", "processes"),
    ];
    // Rare: most neighbors' rejected routes are stored.
    if refreshed > 0 {
        all.insert(
            2,
            counted(refreshed, "neighbor asked for its routes", "neighbors asked for their routes"),
        );
    }
    all.join(", ")
}

/// Returns the effects, a line each.
pub fn effect_lines(all: &[pb::ComponentEffect]) -> Vec<String> {
    let lines = |c: &pb::ComponentEffect| -> Vec<String> {
        let line = |kind: EffectKind, subjects: &str| {
            format!("  {}: {}: {subjects}", c.component, effect_name(kind))
        };
        let of_effect = |e: &sluice_xrl::idl::common::v1::Effect| match e.kind() {
            // A sentence a line.
            EffectKind::Noted => e.subjects.iter().map(|subject| line(EffectKind::Noted, subject)).collect(),
            kind => vec![line(kind, &e.subjects.join(", "))],
        };
        c.effects.iter().flat_map(of_effect).collect()
    };
    all.iter().flat_map(lines).collect()
}

/// Returns the effects on other elements, a line each.
pub fn element_lines(all: &[pb::ElementEffects]) -> Vec<String> {
    let lines = |of: &pb::ElementEffects| -> Vec<String> {
        let element = of.element;
        effect_lines(&of.effects)
            .iter()
            .map(|line| format!("  element {element}: {}", line.trim_start()))
            .collect()
    };
    all.iter().flat_map(lines).collect()
}

/// Returns the effects on other elements as JSON.
pub fn elements_json(all: &[pb::ElementEffects]) -> Value {
    all.iter().map(|of| json!({ "element": of.element, "effects": effects_json(&of.effects) })).collect()
}

/// Returns the effects as JSON.
pub fn effects_json(all: &[pb::ComponentEffect]) -> Value {
    let one = |c: &pb::ComponentEffect| {
        let effects: Vec<Value> = c
            .effects
            .iter()
            .map(|e| json!({ "kind": effect_id(e.kind()), "subjects": e.subjects }))
            .collect();
        json!({ "component": c.component, "effects": effects })
    };
    all.iter().map(one).collect()
}
