//! Policies of the tests: as configured, and as a model in a few words each.

use super::{Net, Route};
use serde_json::{Value, json};
use sluice_base::{Ipv4Prefix, Prefix};
use sluice_bgp::policy::Policies;

/// A policy of a peer and a direction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum TestPolicy {
    /// Accepts every route.
    #[default]
    AcceptAll,
    /// Rejects the low prefixes.
    RejectLow,
    /// Prefers routes whose path has AS 64600.
    PreferPath,
    /// Prepends an AS to low prefixes, and sets their MULTI_EXIT_DISC.
    PrependLow,
    /// Sets the next hop.
    NextHop,
    /// Adds NO_EXPORT.
    NoExport,
    /// Removes communities; then sets the ORIGIN of routes that have none any more.
    Strip,
    /// Accepts nothing.
    Nothing,
}

impl TestPolicy {
    /// All policies.
    pub const ALL: [TestPolicy; 8] = [
        TestPolicy::AcceptAll,
        TestPolicy::RejectLow,
        TestPolicy::PreferPath,
        TestPolicy::PrependLow,
        TestPolicy::NextHop,
        TestPolicy::NoExport,
        TestPolicy::Strip,
        TestPolicy::Nothing,
    ];

    /// Returns the names of the configured policies.
    pub fn names(self) -> Vec<String> {
        match self {
            TestPolicy::AcceptAll => vec![],
            policy => vec![format!("{policy:?}")],
        }
    }

    /// Decides on a route as the configured policy does: returns true if the route is accepted.
    pub fn apply<P: Net>(self, parameter: u32, prefix: P, route: &mut Route) -> bool {
        let is_low = prefix.as_ip().is_some() && (0..low(parameter)).any(|n| P::nth(n) == prefix);
        match self {
            TestPolicy::AcceptAll => {}
            TestPolicy::RejectLow => return !is_low,
            TestPolicy::PreferPath if route.path.contains(&64600) => {
                route.local_pref = Some(150 + parameter);
            }
            TestPolicy::PreferPath => {}
            TestPolicy::PrependLow if is_low => {
                route.path.splice(0..0, [64999, 64998]);
                route.med = Some(7 + parameter);
            }
            TestPolicy::PrependLow => {}
            TestPolicy::NextHop if P::has_ip_hops() => route.next_hop = P::host_addr(22),
            // An IP address is no next hop of XIDs.
            TestPolicy::NextHop => {}
            TestPolicy::NoExport => route.no_export = true,
            TestPolicy::Strip => {
                route.no_export = false;
                route.origin = 2;
            }
            TestPolicy::Nothing => return false,
        }
        true
    }
}

/// The number of low prefixes.
fn low(parameter: u32) -> u32 {
    8 + parameter
}

/// The configured policies, which differ by `parameter`.
pub fn policies<P: Net>(parameter: u32) -> Policies {
    // Keys that are no prefixes are in no list.
    let prefix =
        |n| P::nth(n).as_ip().unwrap_or(Ipv4Prefix::from_parts(n << 8, 32).unwrap().into()).to_string();
    let prefixes: Vec<String> = (0..low(parameter)).map(prefix).collect();
    let policy = |name: TestPolicy, terms: Value| json!({"name": format!("{name:?}"), "term": terms});
    let accept = json!([null]);
    let source = json!({
        "prefix-list": [{"name": "low", "prefix": prefixes}],
        "as-path": [{"name": "favorite", "expression": ".* 64600 .*"}],
        "community": [{"name": "no-export", "member": ["no-export"]}, {"name": "all", "member": ["*:*"]}],
        "policy-statement": [
            policy(TestPolicy::RejectLow, json!([
                {"name": "low", "from": {"prefix-list": ["low"]}, "then": {"reject": accept, "reason": "low"}},
            ])),
            policy(TestPolicy::PreferPath, json!([
                {"name": "favorite", "from": {"as-path": ["favorite"]},
                 "then": {"local-preference": format!("{}", 150 + parameter)}},
            ])),
            policy(TestPolicy::PrependLow, json!([
                {"name": "low", "from": {"prefix-list": ["low"]},
                 "then": {"as-path-prepend": "64999 64998", "med": 7 + parameter, "accept": accept}},
            ])),
            policy(TestPolicy::NextHop, json!([
                {"name": "all", "then": {"next-hop": P::host_addr(22).to_string()}},
            ])),
            policy(TestPolicy::NoExport, json!([{"name": "all", "then": {"community-add": "no-export"}}])),
            policy(TestPolicy::Strip, json!([
                {"name": "strip", "then": {"community-delete": "all"}},
                {"name": "stripped", "except": {"community": ["no-export"]}, "then": {"origin": "incomplete"}},
            ])),
            policy(TestPolicy::Nothing, json!([{"name": "all", "then": {"reject": accept}}])),
        ],
    });
    Policies::compile(serde_json::from_value(source).unwrap()).unwrap()
}
