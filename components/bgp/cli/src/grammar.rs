//! The grammar of BGP's commands.

use sluice_cli::{Command, GroupHelp, Kind, Live};

const HELP: &GroupHelp = &[
    ("show", "What the router does"),
    ("show bgp", "BGP: sessions, neighbors, routes"),
    ("show ip", "Spellings of other routers"),
    ("show ip bgp", "BGP"),
    ("show bgp ipv4", "IPv4"),
    ("show bgp ipv6", "IPv6"),
    ("clear", "Begins something anew"),
    ("request", "Has the router do something"),
    ("request bgp", "BGP"),
    ("clear bgp", "BGP's sessions"),
];

fn command(words: &str, help: &str) -> Command {
    Command::new(words, help, HELP)
}

/// The addresses of BGP's neighbors.
fn neighbors() -> Live {
    Live::new("bgp/bgp.v1.Bgp/GetNeighbors", "neighbors.address")
}

/// Returns the commands, and the spellings of other routers.
pub fn commands() -> Vec<Command> {
    let summary = command("show bgp summary", "Every session in a line, and the tables' counts");
    let (neighbor, routes) = (show_neighbor(), show_routes());
    vec![
        summary.spelled("show ip bgp summary", &[], HELP),
        summary.spelled("show bgp ipv4 unicast summary", &[], HELP),
        summary.spelled("show bgp ipv6 unicast summary", &[], HELP),
        neighbor.spelled("show ip bgp neighbors", &[], HELP),
        routes.spelled("show ip bgp", &[], HELP),
        routes.spelled("show bgp ipv4 unicast", &[], HELP),
        routes.spelled("show bgp ipv6 unicast", &["v6"], HELP),
        summary,
        neighbor,
        routes,
        show_diff(),
        command("show bgp plumbing", "The stages that routes pass in BGP, with the counters of each"),
        explain(),
        dump_table(),
        inject(),
        command("clear bgp all", "Closes all sessions and opens them again"),
    ]
}

fn dump_table() -> Command {
    command(
        "request bgp dump-table",
        "Writes the routes of all neighbors, as they came, to a file on this machine, as MRT (RFC 6396)",
    )
    .argument("file", Kind::File, true, "a file that does not exist yet")
}

fn inject() -> Command {
    command(
        "request bgp inject",
        "Plays a trace (MRT, RFC 6396) into BGP, as the routes of a neighbor without a session; none goes to the kernel",
    )
    .argument("file", Kind::File, true, "the trace, not compressed; `-` for standard input")
    .argument("source", Kind::Addr, true, "the address by which the routes are known, no neighbor's")
    .choice_of("peer-as", Kind::Number, None, "the source's AS; needed unless the group has one")
    .choice_of("group", Kind::Text, None, "the group whose statements hold, policies among them")
    .choice_of("peer", Kind::Addr, None, "the peer of the trace whose routes are meant, if not the source's address")
    .choice_of("speed", Kind::Number, None, "the pace: 1 for that of the trace, N for N times as fast; at once if absent")
    .flag("install", None, "the routes go to the RIB and the kernel too")
}

fn explain() -> Command {
    command(
        "explain",
        "Why a prefix has the route that it has, from the wire to the kernel, and who is sent it",
    )
    .argument("prefix", Kind::Place, true, "the prefix, the XID, or an address: its longest match")
    .choice_of("from", Kind::Addr, Some(neighbors()), "only paths of this neighbor")
    .choice_of("to", Kind::Addr, Some(neighbors()), "only what this neighbor is sent")
}

fn show_neighbor() -> Command {
    command("show bgp neighbor", "All that is known of one neighbor, or of all")
        .argument("address", Kind::Addr, false, "its address")
        .live(neighbors())
        .flag("received", None, "the routes that it has announced, as they came")
        .flag("accepted", None, "the routes that import policy accepts, as policy made them")
        .flag("rejected", None, "the routes that import policy rejects, as they came")
        .flag("advertised", None, "the routes that it was sent, with the attributes as sent")
        .flag("received-routes", None, "the same as `received`")
        .flag("advertised-routes", None, "the same as `advertised`")
        .flag("detail", None, "with routes: all attributes")
        .choice_of("community", Kind::Text, None, "with routes: only paths with it")
        .choice_of("as-path", Kind::Text, None, "with routes: only paths that match a regular expression")
        .choice_of("origin-as", Kind::Number, None, "with routes: only paths that end in this AS")
        .flag(
            "v6",
            Some('6'),
            "with routes: IPv6 instead of IPv4, where the neighbor's address does not say so",
        )
        .flag("xid", None, "with routes: XIDs instead of IP prefixes")
        .also("neighbors")
}

fn show_diff() -> Command {
    command("show bgp diff", "The routes that two neighbors were sent, compared prefix by prefix")
        .argument("one", Kind::Addr, true, "the address of a neighbor")
        .live(neighbors())
        .argument("other", Kind::Addr, true, "the address of another neighbor")
        .live(neighbors())
        .flag("received", None, "the routes that the neighbors announced, as they came")
        .flag("next-hop", None, "compares next hops too, which differ from neighbor to neighbor")
        .choice_of("community", Kind::Text, None, "only paths with it")
        .choice_of("as-path", Kind::Text, None, "only paths that match a regular expression")
        .choice_of("origin-as", Kind::Number, None, "only paths that end in this AS")
        .flag("v6", Some('6'), "IPv6 instead of IPv4, where no address shows it")
        .flag("xid", None, "XIDs instead of IP prefixes")
}

fn show_routes() -> Command {
    command(
        "show bgp routes",
        "BGP's own routes by prefix, the best path first; one prefix with all attributes",
    )
    .argument("place", Kind::Place, false, "a prefix, or an address or XID (its longest match)")
    .flag("longer", None, "the prefix and all inside it")
    .choice_of("received-from", Kind::Addr, Some(neighbors()), "only paths of this neighbor")
    .choice_of("advertised-to", Kind::Addr, Some(neighbors()), "only routes that this neighbor was sent")
    .flag("v6", Some('6'), "IPv6 instead of IPv4, where no prefix shows it")
    .flag("xid", None, "XIDs instead of IP prefixes, where no prefix shows it")
    .flag("accepted", None, "only paths that import policy accepts")
    .flag("rejected", None, "only paths that import policy rejects")
    .choice_of("limit", Kind::Number, None, "at most this many prefixes")
    .flag("detail", None, "all attributes, and why a path is not the best")
    .choice_of("community", Kind::Text, None, "only paths with it: 65000:1, 65000:1:2, no-export, ...")
    .choice_of(
        "as-path",
        Kind::Text,
        None,
        "only paths that match a regular expression; `_` is the border of a number",
    )
    .choice_of("origin-as", Kind::Number, None, "only paths that end in this AS")
    .also("route")
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_cli::spelling::{Becomes, Meaning, Mode, meaning};
    use sluice_cli::{Grammar, builtin};

    fn whole() -> Grammar {
        let mut grammar = Grammar { commands: commands() };
        grammar.commands.extend(builtin::operational().commands);
        grammar
    }

    fn words(line: &str) -> Vec<String> {
        line.split_whitespace().map(String::from).collect()
    }

    #[test]
    fn lines_and_what_they_mean() {
        let grammar = whole();
        for (line, id) in [
            ("show bgp summary", "show bgp summary"),
            ("sh bgp sum", "show bgp summary"),
            ("show ip bgp", "show bgp routes"),
            ("show ip bgp 192.0.2.0/24", "show bgp routes"),
            ("show ip bgp summary", "show bgp summary"),
            ("show bgp ipv4 unicast summary", "show bgp summary"),
            ("show bgp neighbors 192.0.2.1", "show bgp neighbor"),
            ("clear bgp all", "clear bgp all"),
        ] {
            let read = grammar.read(&words(line)).map(|read| read.command.id.clone());
            assert_eq!(read.ok().as_deref(), Some(id), "{line}");
        }
        let unknown = |line| grammar.read(&words(line)).err().map(|misread| misread.to_string());
        assert!(unknown("show bpg").is_some_and(|said| said.contains("; did you mean `bgp`?")));
    }

    #[test]
    fn every_spelling_of_other_routers_is_understood_and_documented() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/coming-from.md");
        let page = std::fs::read_to_string(page).expect("the page");
        let rows = crate::COMMANDS.spellings;
        let mut grammar = whole();
        // Commands of the table `commands.toml` are not in code.
        let elsewhere =
            ["clear bgp neighbor", "request bgp refresh", "show bgp groups", "show bgp next-hops"];
        grammar.commands.retain(|command| !elsewhere.contains(&command.id.as_str()));
        for (spelling, becomes) in rows {
            let typed = words(&spelling.replace("...", "192.0.2.1").replace('?', "192.0.2.1"));
            let shown = spelling.replace('?', "X");
            assert!(page.contains(&format!("`{shown}`")), "{shown} is not in docs/coming-from.md");
            match (becomes, meaning(Mode::Operational, &typed, rows)) {
                (Becomes::Words(known), Some(Meaning::Words(means))) => {
                    let is_elsewhere = elsewhere.iter().any(|other| known.starts_with(other));
                    assert!(is_elsewhere || grammar.read(&means).is_ok(), "{spelling}: {means:?}");
                }
                (Becomes::Needless(why), Some(Meaning::Needless(said))) => assert_eq!(*why, said),
                (Becomes::Here(what), Some(Meaning::Here(said))) => assert_eq!(*what, said),
                (_, found) => panic!("{spelling}: {found:?}"),
            }
        }
    }

    #[test]
    fn what_may_follow() {
        let grammar = whole();
        let texts = |line: &str| {
            let offer = grammar.offer(line);
            let mut all: Vec<String> =
                offer.words.iter().chain(&offer.values).map(|c| c.text.clone()).collect();
            all.sort();
            all.join(" ")
        };
        for (line, expected) in [
            ("show bgp ", "diff neighbor plumbing routes summary"),
            ("show bgp n", "neighbor"),
            (
                "show bgp neighbor ",
                "<address> accepted advertised advertised-routes as-path community detail origin-as received received-routes rejected v6 xid",
            ),
            ("show ip ", "bgp interface route"),
            (
                "show bgp routes --",
                "--accepted --advertised-to --as-path --community --detail --limit --longer --origin-as --received-from --rejected --v6 --xid <place>",
            ),
            ("show bgp routes received-from ", "<received-from>"),
        ] {
            assert_eq!(texts(line), expected, "{line}");
        }
        assert_eq!(grammar.offer("show bgp neighbor ").live.len(), 1);
        assert!(grammar.offer("show bgp neighbor ").enter);
    }

    #[test]
    fn every_command_has_help_and_a_name_of_its_own() {
        let mut seen = std::collections::BTreeSet::new();
        for command in &whole().commands {
            assert!(!command.help.is_empty(), "{}", command.name());
            assert!(seen.insert(command.name()), "{} is there twice", command.name());
            assert!(command.alias || command.id == command.name());
        }
    }
}
