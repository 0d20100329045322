//! The answer in text, and in JSON.

use crate::explain::{Change, Condition, Explanation, Term};
use crate::trace::{Comparison, Outcome, Tally};
use crate::trial::Question;
use serde_json::{Value, json};
use sluice_bgp::policy::DefaultPolicy;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// The answer about a route.
pub struct RouteReport<'a> {
    /// The question.
    pub question: &'a Question,
    /// The route's prefix.
    pub prefix: String,
    /// The effect of the policy.
    pub policy: Explanation,
    /// The effect of the second policy.
    pub other: Option<Explanation>,
    /// The decision where no policy decides, of the neighbor.
    pub default: Option<DefaultPolicy>,
}

/// The answer about a trace.
pub struct TraceReport<'a> {
    /// The question.
    pub question: &'a Question,
    /// The counts.
    pub comparison: Comparison,
}

fn shown(value: Option<&String>) -> &str {
    value.map(String::as_str).filter(|value| !value.is_empty()).unwrap_or("none")
}

fn listed(properties: &BTreeMap<&'static str, String>) -> String {
    let all: Vec<String> = properties.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if all.is_empty() { "no attributes".into() } else { all.join(", ") }
}

const fn default_name(default: DefaultPolicy) -> &'static str {
    match default {
        DefaultPolicy::Accept => "accept",
        DefaultPolicy::Reject => "reject",
    }
}

fn decision_name(is_accepted: Option<bool>) -> &'static str {
    match is_accepted {
        Some(true) => "accept",
        Some(false) => "reject",
        None => "none",
    }
}

/// Returns the decision in words.
fn decision(explanation: &Explanation, default: Option<DefaultPolicy>) -> String {
    let by = explanation.deciding().map(|term| format!(" by term {} of {}", term.name, term.policy));
    let by = by.unwrap_or_default();
    match (explanation.is_accepted, default) {
        (Some(true), _) => format!("accepted{by}"),
        (Some(false), _) => {
            let reason = explanation.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
            format!("rejected{by}{reason}")
        }
        (None, None) => {
            "no term decides: the next policy of the neighbor does, or the neighbor's default".into()
        }
        (None, Some(default)) => {
            format!("no term decides: the neighbor's default is {}", default_name(default))
        }
    }
}

fn condition(condition: &Condition) -> String {
    let block = if condition.is_exception { "except" } else { "from" };
    format!("{block} {} {}", condition.name, condition.values.join(" "))
}

/// Returns the names of the properties in which the outcomes of two policies differ.
fn differences(policy: &Explanation, other: &Explanation) -> Vec<&'static str> {
    if policy.is_accepted == Some(false) && other.is_accepted == Some(false) {
        return Vec::new();
    }
    let names: BTreeSet<&'static str> = policy.after.keys().chain(other.after.keys()).copied().collect();
    names.into_iter().filter(|name| policy.after.get(name) != other.after.get(name)).collect()
}

impl RouteReport<'_> {
    /// Returns the answer for people.
    pub fn text(&self) -> String {
        let mut out = format!("{}: {}\n", self.prefix, listed(&self.policy.before));
        explain(&self.question.policy, &self.policy, self.default, &mut out);
        let (Some(other), Some(name)) = (&self.other, &self.question.compare) else { return out };
        explain(name, other, self.default, &mut out);
        let mut lines = Vec::new();
        if self.policy.is_accepted != other.is_accepted {
            let names = [&self.policy, other].map(|explanation| decision_name(explanation.is_accepted));
            lines.push(format!("  decision: {} -> {}\n", names[0], names[1]));
        }
        for name in differences(&self.policy, other) {
            let (a, b) = (shown(self.policy.after.get(name)), shown(other.after.get(name)));
            lines.push(format!("  {name}: {a} -> {b}\n"));
        }
        let _infallible = match lines.as_slice() {
            [] => writeln!(out, "{} and {name} do the same", self.question.policy),
            lines => write!(out, "{} and {name} differ:\n{}", self.question.policy, lines.concat()),
        };
        out
    }

    /// Returns the answer for programs.
    pub fn json(&self) -> Value {
        let compare = self.other.as_ref().map(|other| {
            let mut value = explanation_json(self.question.compare.as_deref().unwrap_or_default(), other);
            value["differences"] = json!(differences(&self.policy, other));
            value
        });
        let mut value = explanation_json(&self.question.policy, &self.policy);
        value["kind"] = "route".into();
        value["prefix"] = self.prefix.clone().into();
        value["neighbor"] = json!(self.question.neighbor);
        value["before"] = json!(self.policy.before);
        value["default"] = json!(self.default.map(default_name));
        value["compare"] = json!(compare);
        value
    }
}

/// Writes the terms that a route came to, and the decision.
pub fn explain(name: &str, explanation: &Explanation, default: Option<DefaultPolicy>, out: &mut String) {
    let mut line = |text: String| {
        out.push_str(&text);
        out.push('\n');
    };
    line(format!("policy {name}"));
    for passage in &explanation.passages {
        let term = &explanation.terms[passage.term];
        let of = if term.policy == name { String::new() } else { format!(" of {}", term.policy) };
        line(format!("  term {}{of}{}", term.name, if passage.is_met { "" } else { ": does not apply" }));
        for (answer, value) in &passage.answers {
            let yes = if answer.holds { "yes" } else { "no" };
            let asked = value.as_ref().map(|value| format!(" ({})", shown(Some(value)))).unwrap_or_default();
            line(format!("    {}: {yes}{asked}", condition(&term.conditions[answer.condition])));
        }
        for Change { name, before, after } in &passage.changes {
            line(format!("    {name}: {} -> {}", shown(before.as_ref()), shown(after.as_ref())));
        }
    }
    line(format!("  {}", decision(explanation, default)));
}

fn term_json(term: &Term) -> Value {
    json!({ "policy": term.policy, "term": term.name })
}

/// Returns the terms that a route came to, and the decision, in JSON.
pub fn explanation_json(name: &str, explanation: &Explanation) -> Value {
    let terms = explanation.passages.iter().map(|passage| {
        let term = &explanation.terms[passage.term];
        let conditions = passage.answers.iter().map(|(answer, value)| {
            let condition = &term.conditions[answer.condition];
            json!({
                "block": if condition.is_exception { "except" } else { "from" },
                "name": condition.name,
                "values": condition.values,
                "route": value,
                "holds": answer.holds,
            })
        });
        let changes = passage.changes.iter();
        let changes = changes.map(|c| json!({ "name": c.name, "before": c.before, "after": c.after }));
        json!({
            "policy": term.policy,
            "term": term.name,
            "applies": passage.is_met,
            "conditions": conditions.collect::<Vec<_>>(),
            "changes": changes.collect::<Vec<_>>(),
        })
    });
    json!({
        "policy": name,
        "terms": terms.collect::<Vec<_>>(),
        "decision": decision_name(explanation.is_accepted),
        "by": explanation.deciding().map(term_json),
        "reason": explanation.reason,
        "after": explanation.after,
    })
}

impl TraceReport<'_> {
    /// Returns the answer for people.
    pub fn text(&self) -> String {
        let all = &self.comparison;
        let mut out = format!("{} routes, {} malformed\n", all.routes, all.malformed);
        tally(&self.question.policy, &all.policy, &mut out);
        let (Some(other), Some(name)) = (&all.other, &self.question.compare) else { return out };
        tally(name, other, &mut out);
        let _infallible = writeln!(
            out,
            "{} of {} routes differ between {} and {name}",
            all.differ, all.routes, self.question.policy
        );
        for example in &all.examples {
            let (a, b) = (outcome(&all.policy, &example.policy), outcome(other, &example.other));
            let _infallible = writeln!(out, "  {}: {a} -> {b}", example.prefix);
        }
        if all.differ > all.examples.len() as u64 {
            out.push_str("  ...\n");
        }
        out
    }

    /// Returns the answer for programs.
    pub fn json(&self) -> Value {
        let all = &self.comparison;
        let compare = all.other.as_ref().map(|other| {
            let mut value = tally_json(self.question.compare.as_deref().unwrap_or_default(), other);
            value["differ"] = all.differ.into();
            let examples = all.examples.iter().map(|example| {
                json!({
                    "prefix": example.prefix.to_string(),
                    "policy": decision_name(example.policy.is_accepted),
                    "other": decision_name(example.other.is_accepted),
                })
            });
            value["examples"] = examples.collect();
            value
        });
        let mut value = tally_json(&self.question.policy, &all.policy);
        value["kind"] = "trace".into();
        value["neighbor"] = json!(self.question.neighbor);
        value["routes"] = all.routes.into();
        value["malformed"] = all.malformed.into();
        value["compare"] = json!(compare);
        value
    }
}

/// Returns the outcome for a route in words: with the properties that were changed for accepted routes.
fn outcome(tally: &Tally, outcome: &Outcome) -> String {
    let by = outcome.by.and_then(|term| tally.terms.get(term)).map(|term| format!(" by {}", term.name));
    let mut text = format!("{}{}", decision_name(outcome.is_accepted), by.unwrap_or_default());
    for (name, value) in outcome.properties.iter().filter(|(name, _)| !["as-path", "next-hop"].contains(name))
    {
        let _infallible = write!(text, ", {name} {value}");
    }
    text
}

fn tally(name: &str, tally: &Tally, out: &mut String) {
    let Tally { accepted, rejected, undecided, .. } = tally;
    let _infallible = writeln!(
        out,
        "policy {name}: {accepted} accepted, {rejected} rejected, {undecided} on which no term decides"
    );
    let names: Vec<String> = tally
        .terms
        .iter()
        .map(|term| match term.policy == name {
            true => term.name.clone(),
            false => format!("{} of {}", term.name, term.policy),
        })
        .collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    for (name, (met, decided)) in names.iter().zip(&tally.hits) {
        let _infallible = writeln!(out, "  term {name:width$}  {met:>9} met  {decided:>9} decided");
    }
}

fn tally_json(name: &str, tally: &Tally) -> Value {
    let terms = tally.terms.iter().zip(&tally.hits).map(|(term, (met, decided))| {
        json!({ "policy": term.policy, "term": term.name, "met": met, "decided": decided })
    });
    json!({
        "policy": name,
        "accepted": tally.accepted,
        "rejected": tally.rejected,
        "undecided": tally.undecided,
        "terms": terms.collect::<Vec<_>>(),
    })
}
