//! The platform's commands: of the operational mode, and of the configuration mode. Components' commands are in the
//! components' folders: `components/NAME/commands.toml`, if a call and a table are enough, and `components/NAME/cli`
//! otherwise.

use crate::grammar::{Command, Grammar};
use crate::kind::{Kind, Live};

/// Help for words that several commands begin with.
const HELP: &[(&str, &str)] = &[
    ("show", "What the router does"),
    ("clear", "Begins something anew"),
    ("request", "Has the router do something"),
    ("show ip", "Spellings of other routers"),
    ("show ipv6", "Spellings of other routers"),
    ("show ip interface", "Interfaces"),
];

fn components() -> Live {
    Live::new("manager/manager.v1.Manager/GetProcesses", "processes.component")
}

fn command(words: &str, help: &str) -> Command {
    Command::new(words, help, HELP)
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
        "a prefix (its routes only), or an address or XID (the route it is forwarded by)",
    )
    .flag("longer", None, "the prefix and all inside it")
    .flag("kernel", None, "the kernel's table as it is, instead of the RIB's")
    .choice_of("origin", Kind::Text, Some(origins), "only routes of this origin")
    .flag("v4", Some('4'), "only IPv4")
    .flag("v6", Some('6'), "only IPv6")
    .flag("xid", None, "only XIDs")
    .choice_of("table", Kind::Number, None, "the routing table's number; 254 if absent")
    .choice_of("limit", Kind::Number, None, "at most this many prefixes")
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
    let help = "minutes; what ran before runs again unless the commit is confirmed by then";
    command.choice_of("confirmed", Kind::Number, None, help)
}

/// With the confirmation of an earlier commit.
fn confirming(command: Command) -> Command {
    command.flag("confirm", None, "and confirm the commit that waits for its confirmation")
}

/// With the agreement to a text that leaves nothing of the configuration.
fn emptying(command: Command) -> Command {
    command.flag("allow-empty", None, "also a file without statements, which ends all that is configured")
}

/// With the reason for a commit.
fn commented(command: Command) -> Command {
    command.choice_of("comment", Kind::Text, None, "why")
}

fn shows() -> Vec<Command> {
    let interfaces = command("show interfaces", "Interfaces and their addresses");
    let configuration = part_of(command("show configuration", "What runs, or a revision, or a part of it"))
        .choice_of("revision", Kind::Revision, None, "how many commits ago; 0 is what runs");
    let routes = show_routes();
    let mut all = vec![
        routes.spelled("show ip route", &["v4"], HELP),
        routes.spelled("show ipv6 route", &["v6"], HELP),
        interfaces.spelled("show ip interface brief", &[], HELP),
        configuration.spelled("show running-config", &[], HELP),
    ];
    all.extend([routes, interfaces, configuration]);
    all.extend([
        command("show policy", "Policies, their terms, and who uses them").argument(
            "name",
            Kind::Policy,
            false,
            "only this policy, with its definition",
        ),
        part_of(command(
            "show configuration effective",
            "What holds: written and inherited statements and defaults, and where each comes from",
        )),
        command(
            "show forwarding",
            "The fast path by XDP: ports, counters, and where and why the kernel forwards",
        ),
        command("show summary", "Counts of the RIB's tables, and of the forwarding engine"),
        command(
            "show memory",
            "Memory of each process: resident, in proportion of shared pages, heap; and the sums",
        ),
        command("show targets", "Targets that can be called, with their interfaces"),
        command("show revisions", "What was committed: when, by whom, with which comment"),
        command("show packages", "What extends the router; with a name, its description of itself")
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

/// Returns the commands to view the router, and the commands with an immediate effect.
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
        command("rtstat", "Packets of the fast path each second, by interface, CPU and reason")
            .choice_of("interval", Kind::Number, None, "seconds between two lines; 1 if absent")
            .choice_of("count", Kind::Number, None, "end after so many intervals"),
        command("compare", "What the candidate, or an older revision, has different from what runs")
            .choice_of("rollback", Kind::Revision, None, "compare with this many commits ago"),
        emptying(commented(confirmed(confirming(
            command("commit", "Commits the candidate, or a file; without changes confirms a commit that waits")
                .choice_of("from-file", Kind::File, None, "a whole configuration: a file, or a folder with files `*.conf`"),
        ))))
        .flag("check", None, "only say what it would do"),
        commented(confirmed(command("rollback", "Runs an older configuration again").argument(
            "revision",
            Kind::Revision,
            true,
            "how many commits ago",
        )))
        .flag("yes", None, "without a question at the terminal"),
        commented(command(
            "drain",
            "Has traffic go another way before maintenance (RFC 8326: BGP graceful shutdown); sessions stay up",
        )),
        commented(command("undrain", "Takes `drain` back")),
        command(
            "status",
            "Succeeds if the router runs, all its components are ready, and nothing is missing",
        ),
        command("stop", "Ends the router: components in their order, then the manager"),
        emptying(command("reload", "Reads the configuration file again and makes it what runs, as SIGHUP does")),
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
        "the file, or a folder with files `*.conf`; `terminal` takes what is typed or pasted",
    )
}

/// With the contested statements that a decision is about.
fn decided(command: Command) -> Command {
    command.argument("path", Kind::Path, false, "only statements here; all of them if absent")
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
        command(
            "insert",
            "Moves an entry of a list whose order has a meaning: PATH KEY before KEY, or PATH KEY after KEY",
        )
        .argument(
            "path",
            Kind::Statement,
            true,
            "the path of the entry, `before` or `after`, and the key of the entry there",
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
        confirmed(confirming(commented(command("commit", "Makes the candidate what runs"))).flag(
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
        emptying(loading("load replace", "Takes a configuration as the candidate")),
        loading("load set", "Carries out statements, a line each: all of them, or none"),
        command(
            "update",
            "Moves a private candidate onto what runs; prints which statements others changed too",
        ),
        decided(command("update mine", "Keeps the candidate's statements where others changed them too")),
        decided(command("update theirs", "Takes the statements of others where both changed them")),
        command("save", "Writes the changes of the candidate to a file; `load set` carries them out again")
            .argument("file", Kind::File, true, "the file"),
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
