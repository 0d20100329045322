//! Answers in words: as short as they can be, and of use after a conflict.

use super::{Router, text};
use crate::SLUICE;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Command, Stdio};

/// Returns the output of a command that succeeds.
fn said(router: &Router, words: &[&str]) -> String {
    let output = router.run(words);
    assert!(output.status.success(), "{words:?}: {}", text(&output));
    text(&output)
}

#[test]
fn answers_are_short() {
    let Some(router) = Router::up() else { return };
    let cleared = said(&router, &["clear", "bgp", "neighbor", "10.1.0.9"]);
    assert_eq!(cleared, "the session is closed and opened again\n");
    let called = said(&router, &["call", "bgp/bgp.v1.Bgp/ResetNeighbor?address:txt=10.1.0.9"]);
    assert_eq!(called, "");
    let unknown = router.run(&["restart", "statics"]);
    assert_eq!(unknown.status.code(), Some(1), "{}", text(&unknown));
    let unknown = text(&unknown);
    assert!(
        unknown.starts_with("sluice: there is no component `statics`; did you mean `static`?"),
        "{unknown}"
    );
    assert_eq!(unknown.lines().count(), 1, "{unknown}");

    // Lists are written as in files.
    let network = ["203.0.113.0/24", "2001:db8:1::/48", "198.18.0.0/15"];
    let line = format!("set protocols bgp network [ {} ] ; commit", network.join(" "));
    said(&router, &[&["configure"], &line.split(' ').collect::<Vec<_>>()[..]].concat());
    let shown = said(&router, &["show", "configuration", "protocols", "bgp", "network"]);
    assert!(network.iter().all(|prefix| shown.contains(prefix)), "{shown}");

    // A rollback prints what it does.
    let back = said(&router, &["rollback", "1"]);
    assert!(back.lines().any(|line| line.starts_with('-') && line.contains("198.18.0.0/15")), "{back}");
    assert!(back.contains("committed as revision 3"), "{back}");
}

#[test]
fn a_conflict_keeps_the_work() {
    let Some(router) = Router::up() else { return };
    let file = router.lab.dir("left").join("saved.conf");
    let mut child = router
        .command(&[])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut typed = child.stdin.take().unwrap();
    let mut shown = BufReader::new(child.stdout.take().unwrap());
    let mut sees = |expected: &str| {
        let mut all = String::new();
        while !all.contains(expected) {
            let begun = all.len();
            assert!(shown.read_line(&mut all).unwrap() > 0, "{expected} is not in: {all}");
            assert!(all.len() > begun);
        }
        all
    };
    let mut types = |lines: &[&str]| {
        lines.iter().for_each(|line| writeln!(typed, "{line}").unwrap());
        typed.flush().unwrap();
    };
    let own = ["set system host-name mine", "set protocols static route 198.51.100.0/24 discard"];
    types(&["configure private", own[0], own[1], "show system"]);
    sees("host-name mine;");
    said(
        &router,
        &["configure", "set system host-name theirs", "set protocols bgp local-as 64500", "commit"],
    );
    let save = format!("save {}", file.display());
    types(&["update", &save]);
    let contested = sees("update mine");
    assert!(contested.contains("mine    set system host-name mine"), "{contested}");
    assert!(contested.contains("theirs  set system host-name theirs"), "{contested}");
    sees(": 2 statements");
    let saved = std::fs::read_to_string(&file).unwrap();
    assert!(own.iter().all(|line| saved.contains(line)) && saved.lines().count() == 2, "{saved}");
    types(&["update mine system host-name", "commit", "quit", "quit"]);
    sees("committed as revision");
    let mut rest = String::new();
    child.stderr.take().unwrap().read_to_string(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{rest}");
    let value = router.value(&["show", "configuration"]);
    assert_eq!(value["system"]["host-name"], "mine");
    // The file does the same again, from what the others committed.
    said(&router, &["rollback", "1"]);
    said(&router, &["configure", &format!("load set {}", file.display()), "commit"]);
    assert_eq!(router.value(&["show", "configuration"])["system"]["host-name"], "mine");
}

#[test]
fn a_package_is_checked_as_it_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    // The folder of a package to be installed has any name.
    let package = folder.path().join("radar-1.0");
    std::fs::create_dir(&package).unwrap();
    let write = |name: &str, text: &str| std::fs::write(package.join(name), text).unwrap();
    write("package.toml", "name = 'radar'\nversion = '1.0'\ndescription = 'x'\n");
    let run = |words: &[&str]| Command::new(SLUICE).args(words).arg(&package).output().unwrap();
    let checked = run(&["package", "check"]);
    assert!(checked.status.success(), "{}", text(&checked));
    write("rights.toml", "class = 'radar'\n[calls]\nrib = ['rib.v1.Rib/GetRoute']\n");
    let (checked, installed) = (run(&["package", "check"]), run(&["package", "install", "--unsigned"]));
    for refused in [checked, installed] {
        assert_eq!(refused.status.code(), Some(4), "{}", text(&refused));
        assert!(text(&refused).contains("`rib.v1.Rib` has no method `GetRoute`"), "{}", text(&refused));
    }
}
