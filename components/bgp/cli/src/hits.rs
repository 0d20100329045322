//! Hits of a policy: the number of present routes that meet a term, by use. `show policy NAME` prints hits below the definition.

use crate::families::family;
use crate::idl::bgp::v1 as pb;
use serde_json::{Value, json};
use sluice_console::{Call, counted};
use std::time::Duration;

/// The least time for an answer: BGP evaluates the policy on every route, between other work.
const DEADLINE: Duration = Duration::from_secs(120);

/// Neighbors printed by address. More are counted: an update group may have thousands.
const NAMED: usize = 4;

/// Returns the hits of a policy with terms `terms`, by use; null if BGP does not answer.
pub(crate) async fn count(call: Call<'_>, policy: &str, terms: &[String]) -> Value {
    let client = pb::BgpClient::new(&call.router, &call.target).with_deadline(call.timeout.max(DEADLINE));
    let request = pb::GetPolicyHitsRequest { policy: policy.into() };
    match client.get_policy_hits(request).await {
        Ok(reply) => reply.uses.iter().map(|place| document(place, terms)).collect(),
        Err(_) => Value::Null,
    }
}

/// Returns a use as a document, with the terms in order.
fn document(place: &pb::PolicyUse, terms: &[String]) -> Value {
    let routes = |term: &String| {
        let found = place.terms.iter().find(|hits| hits.term == *term);
        json!({ "term": term, "routes": found.map_or(0, |hits| hits.routes) })
    };
    json!({
        "direction": place.direction, "family": family(place.family), "neighbors": place.neighbors,
        "group": place.group, "origin": place.origin, "routes": place.routes,
        "terms": terms.iter().map(routes).collect::<Vec<_>>(),
    })
}

/// Returns the lines about a use for people.
pub(crate) fn lines(place: &Value) -> Vec<String> {
    let text = |name: &str| place[name].as_str().unwrap_or_default();
    let (direction, family) = (text("direction"), text("family"));
    let subject = match (direction, text("origin")) {
        ("import", "") => format!("from {}", neighbors(place)),
        ("import", origin) => format!("from {origin}"),
        ("add-path", _) => format!("for {}", neighbors(place)),
        _ => format!("to {}", neighbors(place)),
    };
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let routes = counted(number(&place["routes"]), "route", "routes");
    let terms: Vec<&Value> = place["terms"].as_array().into_iter().flatten().collect();
    let name = |term: &&Value| term["term"].as_str().unwrap_or_default().to_owned();
    let width = terms.iter().map(|term| name(term).chars().count()).max().unwrap_or(0);
    let line = |term: &&Value| format!("  term {:width$}  {}", name(term), number(&term["routes"]));
    let first = format!("{direction} {subject}, {family}: {routes}");
    std::iter::once(first).chain(terms.iter().map(line)).collect()
}

/// Names the neighbors of a use, and the common group.
fn neighbors(place: &Value) -> String {
    let all: Vec<&str> =
        place["neighbors"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let more = match all.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let group = match (all.len(), place["group"].as_str()) {
        (2.., Some(group)) if !group.is_empty() => format!(" (group {group})"),
        _ => String::new(),
    };
    format!("{}{more}{group}", all[..all.len().min(NAMED)].join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_xrl::idl::common::v1::Family;

    fn lines(place: pb::PolicyUse) -> String {
        let terms = ["low".to_owned(), "rest".to_owned()];
        let place = pb::PolicyUse { family: Family::Ipv4.into(), ..place };
        super::lines(&document(&place, &terms)).join("\n")
    }

    #[test]
    fn each_use_has_a_line_and_each_term_one_below() {
        let low = vec![pb::TermHits { term: "low".into(), routes: 3 }];
        let import = pb::PolicyUse {
            direction: "import".into(),
            neighbors: vec!["10.0.0.2".into()],
            group: "customers".into(),
            routes: 3,
            terms: low,
            ..pb::PolicyUse::default()
        };
        assert_eq!(lines(import), "import from 10.0.0.2, ipv4: 3 routes\n  term low   3\n  term rest  0");
        let own = pb::PolicyUse {
            direction: "import".into(),
            origin: "static".into(),
            routes: 1,
            ..pb::PolicyUse::default()
        };
        assert!(lines(own).starts_with("import from static, ipv4: 1 route\n"));
        let export = pb::PolicyUse {
            direction: "export".into(),
            neighbors: (2..8).map(|n| format!("10.0.0.{n}")).collect(),
            group: "customers".into(),
            routes: 9,
            ..pb::PolicyUse::default()
        };
        let expected =
            "export to 10.0.0.2, 10.0.0.3, 10.0.0.4, 10.0.0.5 and 2 more (group customers), ipv4: 9 routes";
        assert_eq!(lines(export).lines().next(), Some(expected));
        let choice = pb::PolicyUse {
            direction: "add-path".into(),
            neighbors: vec!["10.0.0.2".into()],
            routes: 2,
            ..pb::PolicyUse::default()
        };
        assert_eq!(lines(choice).lines().next(), Some("add-path for 10.0.0.2, ipv4: 2 routes"));
    }
}
