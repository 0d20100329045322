//! Routes of the router as a whole: routes of one element, and where other elements have others.

use crate::components::{at_element, whole};
use crate::output;
use crate::show::routes::{Names, hops, hops_json};
use serde_json::{Value, json};
use sluice_base::AnyPrefix;
use sluice_xrl::XrlEndpoint;
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::idl::rib::v1 as rib;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A route of an element, as it is shown and compared.
#[derive(Clone, PartialEq, Debug)]
struct Row {
    prefix: AnyPrefix,
    route: rib::Route,
    forwarding: String,
    document: Value,
}

impl Row {
    /// Returns a row; `None` for a prefix that is not understood.
    fn new(route: rib::Route, names: &Names) -> Option<Self> {
        let prefix = AnyPrefix::try_from(route.net.as_ref()?).ok()?;
        let forwarding = if route.resolved { route.resolution.as_ref() } else { None };
        Some(Row {
            prefix,
            forwarding: hops(forwarding, names),
            document: hops_json(forwarding, names),
            route,
        })
    }

    fn key(&self) -> (AnyPrefix, String) {
        (self.prefix, self.route.origin.clone())
    }

    fn is_same(&self, other: &Row) -> bool {
        self.forwarding == other.forwarding && self.route.selected == other.route.selected
    }
}

/// The difference of an element from the shown route.
#[derive(Clone, PartialEq, Debug)]
enum Difference {
    /// The element lacks the route.
    Missing,
    /// The element forwards by other next hops, or does not use the route.
    Other(Box<Row>),
    /// The shown route is the element's own.
    Only,
}

/// A route with its differences.
pub struct Shown {
    /// The route.
    pub route: rib::Route,
    /// The element with the route; `None`: the source.
    pub of: Option<u16>,
    differences: Vec<(u16, Difference)>,
}

impl Shown {
    /// Returns a route of the source without differences.
    pub fn of_source(route: rib::Route) -> Self {
        Shown { route, of: None, differences: Vec::new() }
    }

    /// Returns the cell of the column with differences.
    pub fn cell(&self) -> String {
        let text = |(element, difference): &(u16, Difference)| match difference {
            Difference::Missing => format!("missing on {element}"),
            Difference::Other(row) if row.route.selected => format!("on {element} {}", row.forwarding),
            Difference::Other(_) => format!("not used on {element}"),
            Difference::Only => format!("only on {element}"),
        };
        self.differences.iter().map(text).collect::<Vec<_>>().join("; ")
    }

    /// Returns the differences as JSON.
    pub fn json(&self) -> Value {
        let text = |(element, difference): &(u16, Difference)| {
            let (kind, forwarding, selected) = match difference {
                Difference::Missing => ("missing", Value::Null, false),
                Difference::Other(row) => ("other", row.document.clone(), row.route.selected),
                Difference::Only => ("only", Value::Null, self.route.selected),
            };
            json!({ "element": element, "kind": kind, "forwarding": forwarding, "selected": selected })
        };
        self.differences.iter().map(text).collect()
    }
}

/// Compares a page of the source's routes with those of elements in the same range of prefixes. Routes of origins that elements have of their
/// own are not compared.
fn compare(page: Vec<Row>, elements: Vec<(u16, Vec<Row>)>, origins: &[String]) -> Vec<Shown> {
    let is_compared = |row: &Row| origins.contains(&row.route.origin);
    let mut others: Vec<(u16, BTreeMap<_, Row>)> = elements
        .into_iter()
        .map(|(element, rows)| {
            (element, rows.into_iter().filter(is_compared).map(|row| (row.key(), row)).collect())
        })
        .collect();
    let mut all = Vec::new();
    for row in page {
        let mut differences = Vec::new();
        if is_compared(&row) {
            for (element, rows) in &mut others {
                match rows.remove(&row.key()) {
                    None => differences.push((*element, Difference::Missing)),
                    Some(other) if !other.is_same(&row) => {
                        differences.push((*element, Difference::Other(Box::new(other))));
                    }
                    Some(_) => {}
                }
            }
        }
        all.push((row.prefix, Shown { route: row.route, of: None, differences }));
    }
    for (element, rows) in others {
        let only = |row: Row| {
            let differences = vec![(element, Difference::Only)];
            (row.prefix, Shown { route: row.route, of: Some(element), differences })
        };
        all.extend(rows.into_values().map(only));
    }
    // Routes of a prefix stay in their order.
    all.sort_by_key(|(prefix, _)| *prefix);
    all.into_iter().map(|(_, shown)| shown).collect()
}

/// The routes of an element with differences, read page by page beside those of the source.
struct Element {
    number: u16,
    client: rib::RibClient,
    names: Names,
    rows: VecDeque<Row>,
    after: Option<common::Net>,
    is_read: bool,
}

impl Element {
    /// Returns the rows up to a prefix, or a page of those that are left.
    async fn up_to(
        &mut self,
        last: Option<AnyPrefix>,
        request: &rib::GetRoutesRequest,
    ) -> Result<Vec<Row>, sluice_xrl::XrlError> {
        let is_enough =
            |rows: &VecDeque<Row>| rows.back().is_some_and(|row| last.is_none_or(|last| row.prefix > last));
        while !self.is_read && !is_enough(&self.rows) {
            let request = rib::GetRoutesRequest { after: self.after.clone(), ..request.clone() };
            let reply = self.client.get_routes(request).await?;
            self.after = reply.routes.last().and_then(|route| route.net.clone());
            self.is_read = !reply.more || self.after.is_none();
            self.rows.extend(reply.routes.into_iter().filter_map(|route| Row::new(route, &self.names)));
        }
        let count = self.rows.partition_point(|row| last.is_none_or(|last| row.prefix <= last));
        Ok(self.rows.drain(..count).collect())
    }

    fn has_more(&self) -> bool {
        !self.is_read || !self.rows.is_empty()
    }

    fn restart(&mut self) {
        self.rows.clear();
        (self.after, self.is_read) = (None, false);
    }
}

/// The elements beside the source whose routes differ.
pub struct Differences {
    comparison: whole::Comparison,
    elements: Vec<Element>,
    /// The reasons why elements were not compared to the end.
    failures: Vec<String>,
}

impl Differences {
    /// Begins, with the ways to the elements.
    pub async fn new(router: &XrlEndpoint, comparison: whole::Comparison, timeout: Duration) -> Self {
        let mut elements = Vec::new();
        for number in &comparison.differing {
            let endpoint = at_element(router, *number, timeout);
            elements.push(Element {
                number: *number,
                client: rib::RibClient::new(&endpoint, "rib").with_deadline(timeout),
                names: Names::ask_within(&endpoint, timeout).await,
                rows: VecDeque::new(),
                after: None,
                is_read: false,
            });
        }
        Differences { comparison, elements, failures: Vec::new() }
    }

    /// Begins with another family.
    pub fn restart(&mut self) {
        self.elements.iter_mut().for_each(Element::restart);
    }

    /// Returns the names of the interfaces of a route's element.
    pub fn names<'a>(&'a self, shown: &Shown, source: &'a Names) -> &'a Names {
        let of = self.elements.iter().find(|element| Some(element.number) == shown.of);
        of.map_or(source, |element| &element.names)
    }

    async fn rows(
        &mut self,
        last: Option<AnyPrefix>,
        request: &rib::GetRoutesRequest,
    ) -> Vec<(u16, Vec<Row>)> {
        let mut all = Vec::new();
        let mut kept = Vec::new();
        for mut element in self.elements.drain(..) {
            match element.up_to(last, request).await {
                Ok(rows) => {
                    all.push((element.number, rows));
                    kept.push(element);
                }
                Err(error) => {
                    self.failures.push(format!("element {} was not compared: {error}", element.number));
                }
            }
        }
        self.elements = kept;
        all
    }

    /// Compares a page of the source's routes, which answers `request`. After the last page come the routes that only others have.
    pub async fn page(
        &mut self,
        routes: Vec<rib::Route>,
        names: &Names,
        request: &rib::GetRoutesRequest,
    ) -> Vec<Shown> {
        if self.elements.is_empty() {
            return routes.into_iter().map(Shown::of_source).collect();
        }
        let page: Vec<Row> = routes.into_iter().filter_map(|route| Row::new(route, names)).collect();
        let Some(last) = page.last().map(|row| row.prefix) else { return Vec::new() };
        let others = self.rows(Some(last), request).await;
        compare(page, others, &self.comparison.origins)
    }

    /// Returns routes behind the source's last one that only other elements have; `None` if there are no more.
    pub async fn rest(&mut self, request: &rib::GetRoutesRequest) -> Option<Vec<Shown>> {
        if !self.elements.iter().any(Element::has_more) {
            return None;
        }
        let others = self.rows(None, request).await;
        Some(compare(Vec::new(), others, &self.comparison.origins))
    }

    /// Compares the route of an address.
    pub async fn address(
        &mut self,
        route: Option<rib::Route>,
        names: &Names,
        request: &rib::LookupRouteRequest,
    ) -> Vec<Shown> {
        let page: Vec<Row> = route.into_iter().filter_map(|route| Row::new(route, names)).collect();
        let mut others = Vec::new();
        for element in &self.elements {
            match element.client.lookup_route(request.clone()).await {
                Ok(reply) => {
                    let row = reply.route.and_then(|route| Row::new(route, &element.names));
                    others.push((element.number, row.into_iter().collect()));
                }
                Err(error) => {
                    self.failures.push(format!("element {} was not compared: {error}", element.number));
                }
            }
        }
        compare(page, others, &self.comparison.origins)
    }

    /// Returns the members of the JSON document beside the routes.
    pub fn document(&self) -> [(&'static str, Value); 2] {
        [("source", json!(self.comparison.source)), ("missing", self.comparison.missing.clone())]
    }

    /// Returns the lines below the routes.
    pub fn lines(&self) -> Vec<String> {
        let differing: Vec<String> = self.comparison.differing.iter().map(ToString::to_string).collect();
        let noun = if differing.len() == 1 { "element" } else { "elements" };
        let source = self.comparison.source;
        let first = match self.comparison.differing.is_empty() {
            true => format!("routes of element {source}; all elements that answered have the same"),
            false => format!("routes of element {source}; other checksums: {noun} {}", differing.join(", ")),
        };
        let missing = self.comparison.missing_lines.iter().chain(&self.failures).cloned();
        [first].into_iter().chain(missing).collect()
    }
}

/// Returns the comparison of the elements' routes, and the way to the source, on an element of a cluster with a store.
pub async fn begin(
    router: &XrlEndpoint,
    timeout: Duration,
    out: &mut output::Output,
) -> Option<(XrlEndpoint, Differences)> {
    let comparison = whole::comparison(router, timeout, out).await?;
    let source = match comparison.is_own {
        true => router.clone(),
        false => at_element(router, comparison.source, timeout),
    };
    Some((source, Differences::new(router, comparison, timeout).await))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(prefix: &str, origin: &str, forwarding: &str) -> Row {
        let prefix = AnyPrefix::from(prefix.parse::<sluice_base::IpPrefix>().unwrap());
        let route = rib::Route {
            net: Some(prefix.into()),
            origin: origin.into(),
            selected: forwarding != "unused",
            ..Default::default()
        };
        Row { prefix, route, forwarding: forwarding.into(), document: json!(forwarding) }
    }

    #[test]
    fn differences_are_at_their_routes_and_routes_of_others_are_at_their_place() {
        let page = vec![
            row("10.0.0.0/8", "bgp", "a"),
            row("10.1.0.0/16", "bgp", "a"),
            row("10.1.0.0/16", "connected", "a"),
            row("10.3.0.0/16", "bgp", "a"),
        ];
        let first = vec![
            row("10.0.0.0/8", "bgp", "a"),
            row("10.1.0.0/16", "bgp", "b"),
            row("10.2.0.0/16", "bgp", "b"),
            row("10.2.0.0/16", "connected", "b"),
            row("10.3.0.0/16", "bgp", "unused"),
        ];
        let second = vec![row("10.0.0.0/8", "bgp", "a"), row("10.1.0.0/16", "bgp", "a")];
        let shown = compare(page, vec![(11, first), (12, second)], &["bgp".to_owned()]);
        let cells: Vec<_> = shown
            .iter()
            .map(|shown| (output::net(shown.route.net.as_ref()), shown.of, shown.cell()))
            .collect();
        let expected = [
            ("10.0.0.0/8", None, ""),
            ("10.1.0.0/16", None, "on 11 b"),
            ("10.1.0.0/16", None, ""),
            ("10.2.0.0/16", Some(11), "only on 11"),
            ("10.3.0.0/16", None, "not used on 11; missing on 12"),
        ];
        let expected = expected.map(|(net, of, cell)| (net.to_owned(), of, cell.to_owned()));
        assert_eq!(cells, expected);
        assert_eq!(
            shown[3].json(),
            json!([{ "element": 11, "kind": "only", "forwarding": null, "selected": true }])
        );
        assert_eq!(shown[4].json()[1]["kind"], "missing");
    }
}
