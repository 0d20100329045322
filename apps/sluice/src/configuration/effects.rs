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

/// The subjects of an effect that are named; the rest is counted.
const NAMED: usize = 8;

/// Returns the first subjects, and the number of the others. `--json` has all of them.
fn shortened(subjects: &[String]) -> Vec<String> {
    let (named, others) = subjects.split_at(subjects.len().min(NAMED));
    let others = (!others.is_empty()).then(|| format!("and {} more", others.len()));
    named.iter().cloned().chain(others).collect()
}

/// Returns the effects, a line each.
pub fn effect_lines(all: &[pb::ComponentEffect]) -> Vec<String> {
    let lines = |c: &pb::ComponentEffect| -> Vec<String> {
        let line = |kind: EffectKind, subjects: &str| {
            format!("  {}: {}: {subjects}", c.component, effect_name(kind))
        };
        let of_effect = |e: &sluice_xrl::idl::common::v1::Effect| match e.kind() {
            // A sentence a line.
            EffectKind::Noted => {
                shortened(&e.subjects).iter().map(|said| line(EffectKind::Noted, said)).collect()
            }
            kind => vec![line(kind, &shortened(&e.subjects).join(", "))],
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

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_xrl::idl::common::v1::Effect;

    #[test]
    fn many_subjects_are_counted() {
        let effect = |count: u32| pb::ComponentEffect {
            component: "bgp".into(),
            effects: vec![Effect {
                kind: EffectKind::SessionReset.into(),
                subjects: (0..count).map(|n| format!("10.0.0.{n}")).collect(),
            }],
        };
        let lines = effect_lines(&[effect(200)]);
        assert!(
            lines.len() == 1 && lines[0].len() < 160 && lines[0].ends_with(", and 192 more"),
            "{lines:?}"
        );
        assert_eq!(effect_lines(&[effect(2)]), ["  bgp: session reset: 10.0.0.0, 10.0.0.1"]);
        let json = effects_json(&[effect(200)]);
        assert_eq!(json[0]["effects"][0]["subjects"].as_array().map(Vec::len), Some(200));
    }
}
