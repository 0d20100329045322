//! The first line of `explain`: the cause, in words.

use super::{Answers, standing};
use crate::idl::bgp::v1 as pb;

/// The most neighbors without a session in the first line.
const NAMED: usize = 3;

impl Answers {
    /// Returns the cause, in a line.
    pub(super) fn cause(&self) -> String {
        let sent = self.bgp.exports.iter().filter(|export| export.cause.is_empty()).count();
        let all = self.bgp.exports.len();
        let sent = match &self.bgp.exports[..] {
            [export] if !export.cause.is_empty() => {
                format!("not sent to {}: {}", export.neighbor, export.cause)
            }
            [export] => format!("sent to {}", export.neighbor),
            _ => format!("sent to {sent} of {all} neighbors"),
        };
        let from = |path: &pb::Path| match path.neighbor.as_str() {
            "" => "this router originates it".to_string(),
            neighbor => format!("best path from {neighbor}"),
        };
        match (self.bgp.paths.iter().find(|path| path.best), &self.bgp.paths[..]) {
            (Some(best), _) => match self.not_installed(best) {
                Some(reason) => format!("{}, but {reason}; {sent}", from(best)),
                None => format!("{}; {sent}", from(best)),
            },
            (None, []) => self.not_announced(),
            (None, [path]) => format!("not used: {}", standing(path)),
            (None, paths) => format!("not used: none of {} paths is usable", paths.len()),
        }
    }

    /// Returns the cause of the lack of paths.
    fn not_announced(&self) -> String {
        match &self.bgp.dropped[..] {
            [] => {}
            [dropped] => return format!("not used: dropped from {}: {}", dropped.neighbor, dropped.cause),
            all => return format!("not used: dropped from {} neighbors", all.len()),
        }
        let nobody = "no neighbor announces it, and this router does not originate it";
        let down: Vec<String> = self
            .neighbors
            .values()
            .filter(|neighbor| neighbor.enabled && !neighbor.reason.is_empty())
            .map(|neighbor| format!("{} ({})", neighbor.address, neighbor.reason))
            .collect();
        match (down.len(), down.len().saturating_sub(NAMED)) {
            (0, _) => nobody.into(),
            (_, 0) => format!("{nobody}; not established: {}", down.join(", ")),
            (_, more) => format!("{nobody}; not established: {} and {more} more", down[..NAMED].join(", ")),
        }
    }

    /// Returns the reason for packets not to follow the best path of BGP.
    fn not_installed(&self, best: &pb::Path) -> Option<String> {
        if best.neighbor.is_empty() {
            return None;
        }
        let own = self.rib.iter().find(|route| route.origin == "bgp");
        let Some(own) = own else { return Some("the RIB does not have it (yet)".into()) };
        if !own.rejected_by_policy.is_empty() {
            return Some(format!("the RIB rejects it: {}", own.rejected_by_policy));
        }
        if !own.selected {
            let winner = self.rib.iter().find(|route| route.selected);
            return Some(winner.map_or("the RIB does not select it".into(), |winner| {
                format!(
                    "the RIB prefers {} (distance {}, BGP's {})",
                    winner.origin, winner.distance, own.distance
                )
            }));
        }
        (!own.rejected.is_empty()).then(|| format!("the kernel refused it: {}", own.rejected))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use sluice_xrl::idl::rib::v1 as rib;
    use std::collections::BTreeMap;

    const FROM: &str = "10.0.0.2";
    const TO: &str = "10.0.0.3";

    fn answers(paths: Vec<pb::Path>) -> Answers {
        let exports = vec![pb::Export { neighbor: TO.into(), ..pb::Export::default() }];
        Answers {
            prefix: "192.0.2.0/24".parse().expect("a prefix"),
            bgp: pb::ExplainReply { paths, exports, ..pb::ExplainReply::default() },
            neighbors: BTreeMap::new(),
            policies: None,
            rib: vec![rib::Route {
                origin: "bgp".into(),
                selected: true,
                distance: 20,
                ..rib::Route::default()
            }],
            kernel: Vec::new(),
        }
    }

    fn best() -> pb::Path {
        pb::Path { neighbor: FROM.into(), best: true, ..pb::Path::default() }
    }

    /// Checks the first line, and the cause in JSON.
    fn check(answers: &Answers, expected: &str) {
        assert_eq!(answers.text().lines().next(), Some(&*format!("192.0.2.0/24: {expected}")));
        assert_eq!(answers.json()["cause"], expected);
    }

    fn not_best(reason: &str, expected: &str) {
        let path = pb::Path { best: false, reason: reason.into(), ..best() };
        check(&answers(vec![path]), &format!("not used: not the best: {expected}"));
    }

    fn dropped(cause: &str) {
        let mut answers = answers(Vec::new());
        answers.bgp.dropped = vec![pb::Dropped { neighbor: FROM.into(), cause: cause.into() }];
        check(&answers, &format!("not used: dropped from {FROM}: {cause}"));
        assert!(answers.text().contains(&format!("\nfrom {FROM}: dropped: {cause}\n")));
        assert_eq!(answers.json()["dropped"], json!([{ "neighbor": FROM, "cause": cause }]));
    }

    fn rejected(by: &str) {
        let path = pb::Path { best: false, rejected_by: by.into(), ..best() };
        check(&answers(vec![path]), &format!("not used: rejected on import: {by}"));
    }

    fn not_sent(cause: &str) {
        let mut answers = answers(vec![best()]);
        answers.bgp.exports[0].cause = cause.into();
        check(&answers, &format!("best path from {FROM}; not sent to {TO}: {cause}"));
        assert_eq!(answers.json()["exports"][0]["cause"], cause);
    }

    // The words of the causes themselves are tested with the core (`tests/causes.rs`).

    #[test]
    fn nobody_announces_the_prefix() {
        let mut answers = answers(Vec::new());
        let nobody = "no neighbor announces it, and this router does not originate it";
        check(&answers, nobody);
        let down = |address: &str| pb::Neighbor {
            address: address.into(),
            enabled: true,
            reason: "more prefixes than its maximum".into(),
            ..pb::Neighbor::default()
        };
        answers.neighbors.insert(FROM.into(), down(FROM));
        let one = format!("{nobody}; not established: {FROM} (more prefixes than its maximum)");
        check(&answers, &one);
        answers.neighbors.extend(["10.0.0.4", "10.0.0.5", "10.0.0.6"].map(|more| (more.into(), down(more))));
        assert!(answers.cause().ends_with(") and 1 more"), "{}", answers.cause());
    }

    #[test]
    fn policy_rejects_the_path() {
        rejected("no import policy (RFC 8212): configure `import`, or `default-policy accept`");
        rejected("policy from-customer, term rest: not a customer's prefix");
        rejected("no term of the policies accepts the route (default-policy reject)");
    }

    #[test]
    fn the_announcement_is_dropped() {
        dropped("maximum-prefixes is exceeded, and new prefixes are ignored");
        dropped("this AS is in its AS path (RFC 4271, section 9.1.2)");
        dropped("malformed attributes (RFC 7606); `show events` has the UPDATE");
        dropped("a leak by its ONLY_TO_CUSTOMER (RFC 9234, section 5)");
        dropped(
            "reflected back: this router is its originator, or in its cluster list (RFC 4456, section 8)",
        );
        let mut two = answers(Vec::new());
        two.bgp.dropped = vec![pb::Dropped::default(); 2];
        check(&two, "not used: dropped from 2 neighbors");
    }

    #[test]
    fn the_decision_eliminates_the_path() {
        not_best("next hop unreachable", "next hop unreachable");
        not_best("next hop not on the peer's link", "next hop not on the peer's link");
        not_best("lower local preference", "lower local preference");
        not_best("longer AS path", "longer AS path");
        not_best("higher MED", "higher MED");
        not_best("farther next hop", "farther next hop");
        not_best("higher router identifier", "higher router identifier");
    }

    #[test]
    fn the_rib_or_the_kernel_does_not_follow() {
        let mut answers = answers(vec![best()]);
        check(&answers, &format!("best path from {FROM}; sent to {TO}"));
        answers.rib[0].rejected = "no such device".into();
        check(
            &answers,
            &format!("best path from {FROM}, but the kernel refused it: no such device; sent to {TO}"),
        );
        answers.rib[0].rejected.clear();
        answers.rib[0].selected = false;
        let winner =
            rib::Route { origin: "static".into(), selected: true, distance: 1, ..rib::Route::default() };
        answers.rib.push(winner);
        let prefers = "the RIB prefers static (distance 1, BGP's 20)";
        check(&answers, &format!("best path from {FROM}, but {prefers}; sent to {TO}"));
        answers.rib[0].rejected_by_policy = "policy strict, term all".into();
        let rejects = "the RIB rejects it: policy strict, term all";
        check(&answers, &format!("best path from {FROM}, but {rejects}; sent to {TO}"));
    }

    #[test]
    fn the_neighbor_is_not_sent_the_route() {
        not_sent("rejected on export: policy to-peer, term rest");
        not_sent("community no-export (RFC 1997)");
        not_sent("the best path came from an internal neighbor, as this one is (RFC 4271, section 9.2)");
        not_sent("the neighbor did not agree on the address family");
        not_sent("this router has no next hop of its own for the family there");
        not_sent("no export policy (RFC 8212): configure `export`, or `default-policy accept`");
        let mut several = answers(vec![best()]);
        let cause = "not one of the 2 best paths that are sent";
        let path = pb::PathNotSent { neighbor: FROM.into(), path_id: Some(7), cause: cause.into() };
        several.bgp.exports[0].not_sent = vec![path];
        assert!(several.text().contains(&format!("\n  path from {FROM} path 7 not sent: {cause}\n")));
        let expected = json!([{ "neighbor": FROM, "path_id": 7, "cause": cause }]);
        assert_eq!(several.json()["exports"][0]["not_sent"], expected);
        let mut two = answers(vec![best()]);
        two.bgp.exports.push(pb::Export { cause: "there is no route".into(), ..pb::Export::default() });
        check(&two, &format!("best path from {FROM}; sent to 1 of 2 neighbors"));
    }
}
