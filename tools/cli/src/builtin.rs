//! The commands of this executable: of the operational mode, and of the configuration mode. Those of components are in their own
//! folders (`components/NAME/commands.toml`), where one call and a table say all there is.

use crate::grammar::{Argument, Choice, Command, Grammar, Keyword};
use crate::kind::{Kind, Live};

/// Help for words that several commands begin with.
const HELP: &[(&str, &str)] = &[
    ("show", "What the router does"),
    ("show bgp", "BGP: sessions, neighbors, routes"),
    ("clear", "Begins something anew"),
    ("clear bgp", "BGP's sessions"),
    ("request", "Has the router do something"),
    ("show ip", "Spellings of other routers"),
    ("show ipv6", "Spellings of other routers"),
    ("show ip bgp", "BGP"),
    ("show ip interface", "Interfaces"),
    ("show bgp ipv4", "IPv4"),
    ("show bgp ipv6", "IPv6"),
];

/// Where the addresses of BGP's neighbors come from.
fn neighbors() -> Live {
    Live::new("bgp/bgp.v1.Bgp/GetNeighbors", "neighbors.address")
}

fn components() -> Live {
    Live::new("manager/manager.v1.Manager/GetProcesses", "processes.component")
}

fn command(words: &str, help: &str) -> Command {
    let list: Vec<&str> = words.split(' ').collect();
    let keywords = list.iter().enumerate().map(|(index, word)| {
        let prefix = list[..=index].join(" ");
        let help = HELP.iter().find(|(p, _)| *p == prefix).map_or("", |(_, h)| h);
        Keyword { word: (*word).into(), help: help.into(), alias: None }
    });
    Command {
        id: words.into(),
        words: keywords.collect(),
        arguments: Vec::new(),
        choices: Vec::new(),
        help: help.into(),
        alias: false,
        preset: Vec::new(),
    }
}

impl Command {
    fn argument(mut self, name: &str, kind: Kind, required: bool, help: &str) -> Self {
        self.arguments.push(Argument { name: name.into(), help: help.into(), kind, live: None, required });
        self
    }

    fn flag(mut self, word: &str, short: Option<char>, help: &str) -> Self {
        self.choices.push(Choice { word: word.into(), help: help.into(), short, value: None });
        self
    }

    fn choice_of(mut self, word: &str, kind: Kind, live: Option<Live>, help: &str) -> Self {
        let value = Argument { name: word.into(), help: help.into(), kind, live, required: true };
        self.choices.push(Choice { word: word.into(), help: help.into(), short: None, value: Some(value) });
        self
    }

    fn live(mut self, live: Live) -> Self {
        if let Some(argument) = self.arguments.last_mut() {
            argument.live = Some(live);
        }
        self
    }

    fn also(mut self, spelling: &str) -> Self {
        if let Some(keyword) = self.words.last_mut() {
            keyword.alias = Some(spelling.into());
        }
        self
    }

    /// The same command in other words, with choices that they stand for.
    fn spelled(&self, words: &str, preset: &[&str]) -> Command {
        let spelling = command(words, &self.help);
        Command {
            id: self.id.clone(),
            words: spelling.words,
            alias: true,
            preset: preset.iter().map(|p| (*p).to_string()).collect(),
            ..self.clone()
        }
    }
}

fn show_routes() -> Command {
    let origins = Live::new("rib/rib.v1.Rib/GetSummary", "tables.origins.origin");
    command(
        "show routes",
        "Routes: of the RIB or the kernel; all, one prefix, or the one that an address is forwarded by",
    )
    .argument(
        "place",
        Kind::Place,
        false,
        "a prefix (its routes only), or an address (the route it is forwarded by)",
    )
    .flag("longer", None, "the prefix and all inside it")
    .flag("kernel", None, "the kernel's table as it is, instead of the RIB's")
    .choice_of("origin", Kind::Text, Some(origins), "only routes of this origin")
    .flag("v4", Some('4'), "only IPv4")
    .flag("v6", Some('6'), "only IPv6")
    .choice_of("table", Kind::Number, None, "the routing table's number; 254 if absent")
    .choice_of("limit", Kind::Number, None, "at most this many prefixes")
    .also("route")
}

fn show_bgp_routes() -> Command {
    command(
        "show bgp routes",
        "BGP's own routes by prefix, the best path first; one prefix with all attributes",
    )
    .argument("place", Kind::Place, false, "a prefix, or an address (its longest match)")
    .flag("longer", None, "the prefix and all inside it")
    .choice_of("received-from", Kind::Addr, Some(neighbors()), "only paths of this neighbor")
    .choice_of("advertised-to", Kind::Addr, Some(neighbors()), "only routes that this neighbor was told")
    .flag("v6", Some('6'), "IPv6 instead of IPv4, where no prefix says so")
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

fn monitor() -> Command {
    let what = [
        ("all", "everything"),
        ("sessions", "sessions that come up and go down"),
        ("routes", "routes that are refused, repaired, swept"),
        ("commits", "changes of the configuration"),
        ("processes", "processes that start, are ready, end"),
    ];
    let what = what.iter().map(|(w, h)| ((*w).to_string(), (*h).to_string())).collect();
    command("monitor", "What happens, as it happens")
        .argument("what", Kind::Words(what), false, "only events of this kind")
        .choice_of("component", Kind::Text, Some(components()), "only this component's")
        .choice_of("last", Kind::Number, None, "begin with so many events that were there before")
        .choice_of("count", Kind::Number, None, "end after so many events")
}

/// With a path that has to be there.
fn at(command: Command, kind: Kind) -> Command {
    command.argument("path", kind, true, "a path of the configuration")
}

/// With a path to what is shown of the configuration.
fn part_of(command: Command) -> Command {
    command.argument("path", Kind::Path, false, "only this part")
}

/// With the minutes in which a commit has to be confirmed.
fn confirmed(command: Command) -> Command {
    let help = "minutes; what ran before runs again unless another commit comes by then";
    command.choice_of("confirmed", Kind::Number, None, help)
}

/// With the reason for a commit.
fn commented(command: Command) -> Command {
    command.choice_of("comment", Kind::Text, None, "why")
}

fn shows() -> Vec<Command> {
    let summary = command("show bgp summary", "Every session in a line, and the tables' counts");
    let neighbor = command("show bgp neighbor", "All that is known of one neighbor, or of all")
        .argument("address", Kind::Addr, false, "its address")
        .live(neighbors())
        .flag("received", None, "the routes that it has announced")
        .flag("advertised", None, "the routes that it was told, with the attributes as sent")
        .flag("received-routes", None, "the same as `received`")
        .flag("advertised-routes", None, "the same as `advertised`")
        .flag("detail", None, "with `received` or `advertised`: all attributes")
        .also("neighbors");
    let interfaces = command("show interfaces", "Interfaces and their addresses");
    let configuration = part_of(command("show configuration", "What runs, or a revision, or a part of it"))
        .choice_of("revision", Kind::Revision, None, "how many commits ago; 0 is what runs");
    let routes = show_routes();
    let bgp_routes = show_bgp_routes();
    let mut all = vec![
        routes.spelled("show ip route", &["v4"]),
        routes.spelled("show ipv6 route", &["v6"]),
        interfaces.spelled("show ip interface brief", &[]),
        configuration.spelled("show running-config", &[]),
        summary.spelled("show ip bgp summary", &[]),
        summary.spelled("show bgp ipv4 unicast summary", &[]),
        summary.spelled("show bgp ipv6 unicast summary", &[]),
        neighbor.spelled("show ip bgp neighbors", &[]),
        bgp_routes.spelled("show ip bgp", &[]),
        bgp_routes.spelled("show bgp ipv4 unicast", &[]),
        bgp_routes.spelled("show bgp ipv6 unicast", &["v6"]),
    ];
    all.extend([summary, neighbor, bgp_routes, routes, interfaces, configuration]);
    all.extend([
        command("show summary", "Counts of the RIB's tables, and of the forwarding engine"),
        command("show targets", "Targets that can be called, with their interfaces"),
        command("show revisions", "What was committed: when, by whom, with which comment"),
        command("show packages", "What extends the router; with a name, what the package says of itself")
            .argument("name", Kind::Text, false, "a package")
            .live(Live::new("manager/manager.v1.Configuration/GetPackages", "packages.name")),
        command("show metrics", "Metrics of all components, or of one, as OpenMetrics text")
            .argument("component", Kind::Text, false, "only this component's")
            .live(components()),
        command("show version", "Versions of this program and of the router that runs"),
        command("show events", "What happened last")
            .choice_of("component", Kind::Text, Some(components()), "only this component's")
            .choice_of("last", Kind::Number, None, "so many at most; 100 if absent"),
    ]);
    all
}

/// Commands that look at the router, and those that change it at once.
pub fn operational() -> Grammar {
    let modes = [
        ("shared", "the candidate that all share"),
        ("private", "a candidate of one's own"),
        ("exclusive", "the candidate for oneself; nobody else may commit"),
    ];
    let mut configure = command(
        "configure",
        "Changes the configuration: alone, a mode; with statements, at once",
    )
    .argument("statements", Kind::Rest, false, "statements and commands of the configuration mode");
    for (word, help) in modes {
        configure = configure.flag(word, None, help);
    }
    let mut commands = shows();
    commands.extend([
        configure,
        monitor(),
        command("compare", "What the candidate, or an older revision, has different from what runs")
            .choice_of("rollback", Kind::Revision, None, "compare with this many commits ago"),
        commented(confirmed(
            command("commit", "Commits the candidate, or a file; confirms a commit that waits for it")
                .choice_of("from-file", Kind::File, None, "a whole configuration"),
        ))
        .flag("check", None, "only say what it would do"),
        commented(confirmed(command("rollback", "Runs an older configuration again").argument(
            "revision",
            Kind::Revision,
            true,
            "how many commits ago",
        ))),
        commented(command(
            "drain",
            "Has traffic go another way before maintenance (BGP graceful shutdown); sessions stay up",
        )),
        commented(command("undrain", "Takes `drain` back")),
        command(
            "status",
            "Succeeds if the router runs, all its components are ready, and nothing is missing",
        ),
        command("clear bgp all", "Closes all sessions and opens them again"),
        command("stop", "Ends the router: components in their order, then the manager"),
        command("reload", "Reads the configuration file again and makes it what runs, as SIGHUP does"),
        command(
            "flush",
            "Removes routes, next-hop objects and addresses of Sluice from the kernel, where no router runs",
        ),
        command("doctor", "Looks whether this host can run a router, and what stands in the way"),
        command("support-bundle", "Puts what is needed to look into a problem into a file, without secrets")
            .choice_of("into", Kind::File, None, "the file; sluice-support-TIME.tar.gz if absent"),
    ]);
    Grammar { commands }
}

/// What only the interactive shell has in the operational mode.
pub fn shell_only() -> Vec<Command> {
    vec![
        command("help", "How to use this").argument("command", Kind::Command, false, "a command"),
        command("quit", "Leaves"),
        command("exit", "Leaves"),
        command("watch", "Carries a command out every so often, until Ctrl-C")
            .argument("seconds", Kind::Number, true, "seconds between two")
            .argument("command", Kind::Command, true, "the command"),
        command("ping", "Runs ping of this host").argument("words", Kind::Rest, true, "what ping takes"),
        command("traceroute", "Runs traceroute of this host").argument(
            "words",
            Kind::Rest,
            true,
            "what traceroute takes",
        ),
    ]
}

/// A command that takes a text from a file or from the terminal.
fn loading(words: &str, help: &str) -> Command {
    command(words, help).argument(
        "file",
        Kind::File,
        true,
        "the file; `terminal` takes what is typed or pasted",
    )
}

/// Commands of the configuration mode.
pub fn configuration() -> Grammar {
    let commands = vec![
        command("set", "Sets a value, or adds a block").argument(
            "path",
            Kind::Statement,
            true,
            "a path of the configuration and a value",
        ),
        at(command("delete", "Takes out a value or a block"), Kind::Statement),
        command("rename", "Gives an entry of a list another key: PATH KEY to KEY").argument(
            "path",
            Kind::Statement,
            true,
            "the path of the entry, `to`, and its new key",
        ),
        command("copy", "Adds an entry of a list like another one: PATH KEY to KEY").argument(
            "path",
            Kind::Statement,
            true,
            "the path of the entry, `to`, and the key of the copy",
        ),
        at(
            command("deactivate", "Keeps a statement in the file and out of force, marked `inactive:`"),
            Kind::Statement,
        ),
        at(command("activate", "Puts an inactive statement in force again"), Kind::Statement),
        command("annotate", "Puts a text to a statement; an empty text takes it off: PATH \"TEXT\"")
            .argument("path", Kind::Statement, true, "a path of the configuration and a text"),
        at(command("edit", "Goes into a block"), Kind::Path),
        command("up", "Goes out of the block"),
        command("top", "Goes out of all blocks"),
        part_of(command("show", "The candidate, or a part of it")),
        command("compare", "What the candidate has different from what runs").choice_of(
            "rollback",
            Kind::Revision,
            None,
            "compare with this many commits ago",
        ),
        confirmed(commented(command("commit", "Makes the candidate what runs")).flag(
            "check",
            None,
            "only say whether it could be committed, and what that would touch",
        ))
        .flag("and-quit", None, "and leave the configuration mode"),
        command("rollback", "Puts what ran before into the candidate").argument(
            "revision",
            Kind::Revision,
            false,
            "how many commits ago; 0, if absent, drops all changes",
        ),
        loading("load merge", "Adds a configuration to the candidate"),
        loading("load replace", "Takes a configuration as the candidate"),
        loading("load set", "Carries out statements, a line each: all of them, or none"),
        command("run", "A command of the operational mode").argument(
            "command",
            Kind::Command,
            true,
            "the command",
        ),
        command("discard", "Drops all changes of the candidate"),
        command("help", "How to use this"),
        command("exit", "Goes out of the block, or leaves the configuration mode"),
        command("quit", "Leaves the configuration mode"),
    ];
    Grammar { commands }
}
