//! The other daemons: a configuration with every pair, each with neighbors of its own.

use crate::policies::network::{LOCAL_AS, Role, Router};
use crate::policies::pair::Pair;
use std::fmt::Write;

/// The place of a policy.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Place {
    /// Between the feeder and the table.
    Import,
    /// Between the table and the receivers.
    Export,
}

impl Place {
    pub const ALL: [Place; 2] = [Place::Import, Place::Export];

    /// Returns the number of the neighbors for a pair. At import each pair has a table with a feeder; at export all pairs
    /// share the feeder of the first one.
    pub fn number(self, pair: usize) -> u8 {
        let first = if self == Place::Import { 1 } else { 101 };
        first + pair as u8
    }
}

/// A daemon to compare with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Daemon {
    Frr,
    Bird,
}

impl Daemon {
    /// The name of the folder with pairs, of the daemon in a topology, and of the node.
    pub fn name(self) -> &'static str {
        match self {
            Daemon::Frr => "frr",
            Daemon::Bird => "bird",
        }
    }

    pub fn router(self) -> Router {
        Router { node: self.name(), number: 1 }
    }

    /// Returns the daemon's configuration with all pairs.
    pub fn config(self, pairs: &[Pair]) -> String {
        let mut text = String::new();
        for pair in pairs {
            text += &self.with_own_rules(pair);
        }
        match self {
            Daemon::Frr => frr(self.router(), pairs, &mut text),
            Daemon::Bird => bird(self.router(), pairs, &mut text),
        }
        text
    }

    /// Returns a policy with a rule before its own that Sluice and FRR have without a policy (RFC 8326, section 4.3).
    fn with_own_rules(self, pair: &Pair) -> String {
        let begin = format!("filter {} {{\n", pair.symbol());
        let rule = "    if (65535, 0) ~ bgp_community then bgp_local_pref = 0;\n";
        match self {
            Daemon::Frr => pair.theirs.clone(),
            Daemon::Bird => pair.theirs.replace(&begin, &format!("{begin}{rule}")),
        }
    }
}

/// A view of FRR for each pair at import, and one for all at export.
fn frr(router: Router, pairs: &[Pair], text: &mut String) {
    for (number, pair) in pairs.iter().enumerate() {
        let number = Place::Import.number(number);
        let route_map = |role| (role == Role::Feeder).then(|| format!("{} in", pair.name));
        let neighbors = Role::ALL.map(|role| (role, number, route_map(role)));
        view(router, &format!("import-{number}"), &neighbors, text);
    }
    let mut neighbors = vec![(Role::Feeder, Place::Export.number(0), None)];
    for (number, pair) in pairs.iter().enumerate() {
        let out = |role| (role, Place::Export.number(number), Some(format!("{} out", pair.name)));
        neighbors.extend(Role::RECEIVERS.map(out));
    }
    view(router, "export", &neighbors, text);
}

fn view(router: Router, name: &str, neighbors: &[(Role, u8, Option<String>)], text: &mut String) {
    let mut say = |line: String| writeln!(text, "{line}").unwrap();
    say(format!("router bgp {LOCAL_AS} view {name}"));
    say(format!(" bgp router-id {}", router.address(Role::Feeder)));
    say(" no bgp ebgp-requires-policy\n no bgp default ipv4-unicast".into());
    for (role, number, _) in neighbors {
        let peer = router.peer(*role, *number);
        say(format!(" neighbor {peer} remote-as {}", role.asn()));
        say(format!(" neighbor {peer} passive\n neighbor {peer} advertisement-interval 0"));
    }
    say(" address-family ipv4 unicast".into());
    for (role, number, route_map) in neighbors {
        let peer = router.peer(*role, *number);
        say(format!("  neighbor {peer} activate"));
        if let Some(route_map) = route_map {
            say(format!("  neighbor {peer} route-map {route_map}"));
        }
    }
    say(" exit-address-family\nexit".into());
}

/// A table of BIRD for each pair at import, and one for all at export.
fn bird(router: Router, pairs: &[Pair], text: &mut String) {
    let head = format!(
        "router id {};\nprotocol device {{ }}\nprotocol direct {{ ipv4; }}\nipv4 table outward;\n\
         template bgp peer {{ passive; error wait time 1, 2; }}\n\
         filter shut_down {{ if (65535, 0) ~ bgp_community then bgp_local_pref = 0; accept; }}\n",
        router.address(Role::Feeder)
    );
    text.insert_str(0, &head);
    let mut session = |table: &str, role: Role, place: Place, pair: usize, filters: &str| {
        let number = place.number(pair);
        let (local, peer, asn) = (router.address(role), router.peer(role, number), role.asn());
        writeln!(
            text,
            "protocol bgp {table}_{role:?}_{number} from peer {{ local {local} as {LOCAL_AS}; neighbor {peer} as {asn};\n\
             ipv4 {{ table {table}; {filters} }}; }}"
        )
        .unwrap();
    };
    session("outward", Role::Feeder, Place::Export, 0, "import filter shut_down; export none;");
    for (number, pair) in pairs.iter().enumerate() {
        for role in Role::RECEIVERS {
            let filters = format!("import none; export filter {};", pair.symbol());
            session("outward", role, Place::Export, number, &filters);
        }
    }
    for (number, pair) in pairs.iter().enumerate() {
        let table = format!("import_{number}");
        let filters = format!("import filter {}; export none;", pair.symbol());
        session(&table, Role::Feeder, Place::Import, number, &filters);
        for role in Role::RECEIVERS {
            session(&table, role, Place::Import, number, "import none; export all;");
        }
    }
    let tables = (0..pairs.len()).map(|number| format!("ipv4 table import_{number};\n"));
    text.insert_str(0, &tables.collect::<String>());
}
