//! The grammar of the executable: the meaning of lines, and completions.

use crate::{Grammar, Misread, builtin};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(String::from).collect()
}

fn meant(grammar: &Grammar, line: &str) -> String {
    match grammar.read(&words(line)) {
        Ok(read) => read.command.id.clone(),
        Err(e) => e.to_string(),
    }
}

#[test]
fn lines_and_what_they_mean() {
    let grammar = builtin::operational();
    for (line, id) in [
        ("sh int", "show interfaces"),
        ("show ip route 192.0.2.1", "show routes"),
        ("show ipv6 route", "show routes"),
        ("show route", "show routes"),
        ("show ip interface brief", "show interfaces"),
        ("show running-config", "show configuration"),
        ("show configuration protocols bgp revision 3", "show configuration"),
        ("show routes 10.0.0.0/8 longer --origin bgp -6", "show routes"),
        (
            "mon sess",
            "`sess` is not right for `what`: one of all, sessions, routes, commits, processes is expected",
        ),
        ("monitor sessions count 3", "monitor"),
        ("rollback", "incomplete command; expected <revision>"),
        ("show routes origin bgp origin static", "`origin` stands twice; say it once"),
        ("show routes --limit 1 -6 limit 2", "`limit` stands twice; say it once"),
        ("show ipv6 route v6", "show routes"),
        ("show routes frob", "`frob` is not right for `place`: an address, a prefix or an XID is expected"),
    ] {
        assert_eq!(meant(&grammar, line), id, "{line}");
    }
    let read = grammar.read(&words("show ip route 192.0.2.0/24 lon --limit 3")).expect("understood");
    let all = (read.values.text("place"), read.values.number("limit"), read.values.has("longer"));
    assert_eq!(all, (Some("192.0.2.0/24"), Some(3), true));
    assert!(read.values.has("v4"));
    let read = grammar.read(&words("show configuration protocols bgp revision 3")).expect("understood");
    assert_eq!(read.values.all("path"), ["protocols", "bgp"]);
    assert_eq!(read.values.number("revision"), Some(3));
}

#[test]
fn what_is_wrong_names_what_could_be() {
    let grammar = builtin::operational();
    assert!(
        matches!(grammar.read(&words("co")), Err(Misread::Ambiguous { candidates, .. }) if candidates.len() == 3)
    );
    assert!(meant(&grammar, "show frob").starts_with("unknown word `frob`; expected one of routes, "));
    assert!(
        meant(&grammar, "show evnets")
            .starts_with("unknown word `evnets`; did you mean `events`?; expected one of ")
    );
    assert!(meant(&grammar, "show").starts_with("incomplete command; expected one of routes, "));
    assert!(meant(&grammar, "").starts_with("incomplete command"));
}

#[test]
fn what_may_follow() {
    let grammar = builtin::operational();
    let texts = |line: &str| {
        let offer = grammar.offer(line);
        let mut all: Vec<String> = offer.words.iter().chain(&offer.values).map(|c| c.text.clone()).collect();
        all.sort();
        all.join(" ")
    };
    for (line, expected) in [
        ("sh", "show"),
        ("show ip ", "interface route"),
        ("show routes --", "--kernel --limit --longer --origin --table --v4 --v6 --xid <place>"),
        ("show events component ", "<component>"),
        ("monitor ", "all commits component count last processes routes sessions"),
    ] {
        assert_eq!(texts(line), expected, "{line}");
    }
    assert_eq!(grammar.offer("show metrics ").live.len(), 1);
    assert!(grammar.offer("show metrics ").enter);
    assert!(grammar.offer("show policy ").policy && !grammar.offer("show metrics ").policy);
    assert!(!grammar.offer("show ").enter);
    let offer = grammar.offer("show configuration protocols b");
    assert_eq!(offer.statement, Some((words("protocols"), false)));
    assert_eq!((offer.start, offer.partial.as_str()), (29, "b"));
}

#[test]
fn statements_are_left_to_the_schema() {
    let grammar = builtin::configuration();
    assert_eq!(grammar.offer("set protocols bgp ").statement, Some((words("protocols bgp"), true)));
    assert_eq!(grammar.offer("delete ").statement, Some((Vec::new(), true)));
    let mut both = grammar.clone();
    let run = both.commands.iter().find(|c| c.id == "run").cloned();
    assert!(run.is_some());
    both.commands.extend(builtin::operational().commands);
    let read = grammar.read(&words("run show summary")).expect("understood");
    assert_eq!(read.values.all("command"), ["show", "summary"]);
    let read = grammar.read(&words("set system comment")).expect("understood");
    assert_eq!(read.values.all("path"), ["system", "comment"]);
    assert_eq!(meant(&grammar, "load merge x.conf"), "load merge");
    assert_eq!(meant(&grammar, "commit confirmed 5 comment x and-quit"), "commit");
}

#[test]
fn every_command_has_help_and_a_name_of_its_own() {
    for grammar in [builtin::operational(), builtin::configuration()] {
        let mut seen = std::collections::BTreeSet::new();
        for command in &grammar.commands {
            assert!(!command.help.is_empty(), "{}", command.name());
            assert!(seen.insert(command.name()), "{} is there twice", command.name());
            assert!(command.alias || command.id == command.name());
        }
    }
}
