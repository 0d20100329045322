//! `show bgp diff`: the routes of two neighbors compared prefix by prefix.
//!
//! Both listings are read page by page in the order of prefixes, and merged: the command holds one page of each.

use crate::idl::bgp::v1 as pb;
use crate::pages::Pages;
use crate::routes::{Part, RoutesArgs};
use serde_json::{Value, json};
use sluice_base::AnyPrefix;
use sluice_cli::Values;
use sluice_console::{Failure, Output};
use sluice_xrl::idl::common::v1 as common;
use std::cmp::Ordering;
use std::collections::VecDeque;

/// Prefixes after which the output may show the first differences.
const ROWS: u32 = 1000;

/// An attribute by name, with its value in both routes; `None` where a route has none.
type Difference = (&'static str, Option<String>, Option<String>);

/// A listing, of which the next route can be looked at.
struct Listing<'a> {
    pages: Pages<'a>,
    routes: VecDeque<pb::Route>,
}

impl Listing<'_> {
    /// Returns the prefix of the next route; `None` at the end.
    async fn peek(&mut self) -> Result<Option<AnyPrefix>, Failure> {
        while self.routes.is_empty() {
            let Some(page) = self.pages.next(u64::MAX).await? else { return Ok(None) };
            self.routes = page.into();
        }
        let net = self.routes.front().and_then(|route| route.net.as_ref()).map(AnyPrefix::try_from);
        net.and_then(Result::ok)
            .map(Some)
            .ok_or_else(|| Failure::failed("BGP names a route without a prefix"))
    }

    /// Takes the next route.
    fn take(&mut self) -> Option<pb::Path> {
        self.routes.pop_front().and_then(|route| route.paths.into_iter().next())
    }
}

/// Compares the routes of two neighbors.
///
/// # Errors
///
/// An argument is wrong, or BGP does not answer.
pub async fn diff(client: &pb::BgpClient, values: &Values, out: &mut Output) -> Result<(), Failure> {
    let neighbors = ["one", "other"].map(|name| values.text(name).unwrap_or_default().to_string());
    if neighbors[0] == neighbors[1] {
        return Err(Failure::usage("the two neighbors are the same: name two different ones"));
    }
    let part = if values.has("received") { Part::Received } else { Part::Advertised };
    let asked = neighbors.each_ref().map(|neighbor| RoutesArgs::of_neighbor(values, neighbor, part));
    let named = asked.iter().map(RoutesArgs::family).find(|family| *family != common::Family::Ipv4);
    let family = named.unwrap_or(common::Family::Ipv4);
    let [mut one, mut other] = asked.map(|args| Listing {
        pages: Pages::new(client, args.into_request(family)),
        routes: VecDeque::new(),
    });
    let with_next_hop = values.has("next-hop");
    // Both listings begin before the output does, so that an error is the whole output.
    one.peek().await?;
    other.peek().await?;
    let heading =
        format!("<: only {}, >: only {}, !: both, with other attributes\n", neighbors[0], neighbors[1]);
    out.begin_list("differences", &heading);
    let mut count = 0_u32;
    loop {
        let (left, right) = (one.peek().await?, other.peek().await?);
        let (prefix, order) = match (left, right) {
            (None, None) => break,
            (Some(prefix), None) => (prefix, Ordering::Less),
            (None, Some(prefix)) => (prefix, Ordering::Greater),
            (Some(a), Some(b)) => (a.min(b), a.cmp(&b)),
        };
        let path_of_one = if order.is_le() { one.take() } else { None };
        let path_of_other = if order.is_ge() { other.take() } else { None };
        let found = match (&path_of_one, &path_of_other) {
            (Some(a), Some(b)) => differences(a, b, with_next_hop),
            _ => Vec::new(),
        };
        if order.is_ne() || !found.is_empty() {
            out.element(|| text(prefix, order, &found), || value(prefix, order, &found));
        }
        count += 1;
        if count.is_multiple_of(ROWS) && !out.page_done() {
            break;
        }
    }
    out.end_list("no differences");
    Ok(())
}

/// Returns the attributes in which two paths differ.
fn differences(one: &pb::Path, other: &pb::Path, with_next_hop: bool) -> Vec<Difference> {
    let (one, other) = (attributes(one), attributes(other));
    let pairs = one.into_iter().zip(other).filter(|((name, _), _)| with_next_hop || *name != "next-hop");
    pairs.filter(|((_, a), (_, b))| a != b).map(|((name, a), (_, b))| (name, a, b)).collect()
}

/// Returns the attributes of a path as texts, always the same names in the same order.
fn attributes(path: &pb::Path) -> [(&'static str, Option<String>); 11] {
    let text = |text: &str| Some(text.to_string()).filter(|text| !text.is_empty());
    let number = |number: Option<u32>| number.map(|number| number.to_string());
    let others = path.others.iter().map(|other| {
        let octets: String = other.value.iter().map(|octet| format!("{octet:02x}")).collect();
        format!("{}:{octets}", other.code)
    });
    [
        ("next-hop", text(&path.next_hop)),
        ("as-path", text(&path.as_path)),
        ("origin", text(&path.origin)),
        ("med", number(path.med)),
        ("local-preference", number(path.local_pref)),
        ("communities", text(&path.communities.join(" "))),
        ("large-communities", text(&path.large_communities.join(" "))),
        ("extended-communities", text(&path.extended_communities.join(" "))),
        ("atomic-aggregate", path.atomic_aggregate.then(|| "true".to_string())),
        ("aggregator", text(&path.aggregator)),
        ("other-attributes", text(&others.collect::<Vec<_>>().join(" "))),
    ]
}

fn text(prefix: AnyPrefix, order: Ordering, found: &[Difference]) -> String {
    let mark = match order {
        Ordering::Less => '<',
        Ordering::Greater => '>',
        Ordering::Equal => '!',
    };
    let mut text = format!("{mark} {prefix}");
    for (name, one, other) in found {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "none".into());
        text.push_str(&format!("\n    {name}: {} / {}", value(one), value(other)));
    }
    text
}

fn value(prefix: AnyPrefix, order: Ordering, found: &[Difference]) -> Value {
    let at = match order {
        Ordering::Less => "one",
        Ordering::Greater => "other",
        Ordering::Equal => "both",
    };
    let attributes =
        found.iter().map(|(name, one, other)| json!({ "name": name, "one": one, "other": other }));
    json!({ "prefix": prefix.to_string(), "at": at, "attributes": attributes.collect::<Vec<_>>() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_that_differ_are_named_with_both_values() {
        let one = pb::Path { next_hop: "10.0.0.1".into(), med: Some(5), ..Default::default() };
        let communities = vec!["65000:1".to_string(), "no-export".into()];
        let other = pb::Path { next_hop: "10.0.1.1".into(), communities, ..Default::default() };
        let found = differences(&one, &other, false);
        let expected: [Difference; 2] =
            [("med", Some("5".into()), None), ("communities", None, Some("65000:1 no-export".into()))];
        assert_eq!(found, expected);
        assert_eq!(differences(&one, &other, true).len(), 3);
        assert_eq!(differences(&one, &one, true), []);
        let prefix = "192.0.2.0/24".parse::<AnyPrefix>().expect("a prefix");
        assert_eq!(
            text(prefix, Ordering::Equal, &found),
            "! 192.0.2.0/24\n    med: 5 / none\n    communities: none / 65000:1 no-export"
        );
        assert_eq!(text(prefix, Ordering::Less, &[]), "< 192.0.2.0/24");
    }
}
