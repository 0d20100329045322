//! The kernel's events about interfaces and routes, as printed by `ip monitor`.

use std::collections::BTreeSet;

/// The interfaces that went down or lost an address, and the prefixes of the router's own routes added, removed or
/// changed.
#[derive(Debug, Default)]
pub struct Events {
    pub interrupted: BTreeSet<String>,
    pub routes: BTreeSet<String>,
    /// True after any event about an interface, an address, a next hop or a route of the router.
    pub any: bool,
}

/// Reads lines of `ip -o monitor label link address route nexthop`.
pub fn events(text: &str) -> Events {
    let mut events = Events::default();
    for line in text.lines() {
        let Some((label, rest)) = line.trim_start_matches('[').split_once(']') else { continue };
        let (is_gone, rest) = match rest.strip_prefix("Deleted ") {
            Some(rest) => (true, rest),
            None => (false, rest),
        };
        let mut words = rest.split_whitespace();
        match label {
            "LINK" | "ADDR" => {
                events.any = true;
                let name = words.nth(1).unwrap_or_default().trim_end_matches(':');
                let name = name.split('@').next().unwrap_or(name);
                // `<BROADCAST,MULTICAST,UP,LOWER_UP>`
                // A link that was never up has the queue `noop`: the link comes.
                let is_down = label == "LINK"
                    && !rest.contains("qdisc noop ")
                    && !words
                        .next()
                        .unwrap_or_default()
                        .trim_matches(['<', '>'])
                        .split(',')
                        .any(|f| f == "UP");
                if is_gone || is_down {
                    events.interrupted.insert(name.to_string());
                }
            }
            "ROUTE" if rest.contains("proto 83") => {
                events.any = true;
                let prefix = words.find(|w| w.contains(['.', ':']));
                let host = |p: &str| if p.contains('/') { p.to_string() } else { format!("{p}/host") };
                events.routes.extend(prefix.map(host));
            }
            "NEXTHOP" if rest.contains("proto 83") => events.any = true,
            _ => {}
        }
    }
    events
}
