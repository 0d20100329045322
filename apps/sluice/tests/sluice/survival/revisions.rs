//! Committed revisions, when the manager dies, time runs out, or stored files are damaged: the router always runs with
//! a single whole configuration, and reports the revision and the reason.

use crate::SLUICE;
use serde_json::Value;
use sluice_router_lab::{RouterLab, possible, share};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

const TOPOLOGY: &str = "
[nodes.sluice]
daemon = 'sluice'
config = '''
protocols { static { route 198.51.100.0/24 discard; } }
'''
";

const FIRST: &str = "198.51.100.0/24";
const SECOND: &str = "203.0.113.0/24";
const THIRD: &str = "192.0.2.0/24";

fn up() -> Option<RouterLab> {
    if !possible() {
        return None;
    }
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    lab.until("the router is ready", RouterLab::ready);
    runs(&lab, &[FIRST]);
    Some(lab)
}

/// Waits until the kernel has exactly the given static routes.
fn runs(lab: &RouterLab, routes: &[&str]) {
    lab.until(&format!("{routes:?} are in the kernel"), |lab| {
        let text = lab.kernel_text("-4");
        sluice_router_lab::routes(&text).collect::<Vec<_>>() == routes
    });
}

fn file(lab: &RouterLab) -> PathBuf {
    lab.lab.dir("sluice").join("config")
}

fn file_text(lab: &RouterLab) -> String {
    fs::read_to_string(file(lab)).unwrap_or_default()
}

/// Waits until the configuration file, a copy of the running configuration, has exactly the given static routes.
fn file_has(lab: &RouterLab, routes: &[&str]) {
    lab.until(&format!("the file has {routes:?}"), |lab| {
        let text = file_text(lab);
        [FIRST, SECOND, THIRD].iter().all(|route| text.contains(route) == routes.contains(route))
    });
}

fn revision_files(lab: &RouterLab) -> Vec<PathBuf> {
    let folder = lab.run_dir().join("state/revisions");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn configure(lab: &RouterLab, statements: &[&str]) -> Output {
    lab.cli(&[&["configure"], statements].concat())
}

fn commit(lab: &RouterLab, statement: &str) {
    let done = configure(lab, &[statement, "commit"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The number of an editor, from the answer to `Open`.
fn editor(answer: &Value) -> u64 {
    answer["editor"]
        .as_u64()
        .or_else(|| answer["editor"].as_str()?.parse().ok())
        .unwrap_or_else(|| panic!("{answer}"))
}

/// Commits a second route that has to be confirmed within so many seconds.
fn commit_for(lab: &RouterLab, seconds: u32) {
    commit_for_route(lab, SECOND, seconds);
}

fn commit_for_route(lab: &RouterLab, route: &str, seconds: u32) {
    let done = try_to_commit_for(lab, route, seconds);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
}

fn try_to_commit_for(lab: &RouterLab, route: &str, seconds: u32) -> Output {
    let opened = lab.ask(&["call", "manager/manager.v1.Configuration/Open?user:txt=test"]);
    let editor = editor(&opened);
    let edit = format!(
        "manager/manager.v1.Configuration/Edit?editor:u64={editor}&statements:list<txt>=set%20protocols%20static%20route%20{route}%20discard"
    );
    assert!(lab.cli(&["call", &edit]).status.success(), "{:?}", lab.cli(&["call", &edit]));
    let commit =
        format!("manager/manager.v1.Configuration/Commit?editor:u64={editor}&confirm_within_s:u32={seconds}");
    lab.cli(&["call", &commit])
}

fn restart_manager(lab: &mut RouterLab) {
    lab.kill(lab.pid("manager").unwrap());
    lab.lab.stop("sluice", true).unwrap();
    lab.lab.start("sluice").unwrap();
    lab.until("the router is ready", RouterLab::ready);
}

fn revisions(lab: &RouterLab) -> Value {
    lab.ask(&["show", "revisions"])
}

fn trouble(lab: &RouterLab) -> String {
    revisions(lab)["trouble"].as_str().unwrap_or_default().into()
}

fn newest_via(lab: &RouterLab) -> String {
    revisions(lab)["revisions"][0]["via"].as_str().unwrap_or_default().into()
}

#[test]
fn a_commit_that_nobody_confirms_goes_back() {
    let _share = share();
    let Some(mut lab) = up() else { return };
    commit_for(&lab, 2);
    runs(&lab, &[FIRST]);
    lab.until("the log of revisions has it", |lab| newest_via(lab) == "rollback");
    file_has(&lab, &[FIRST]);

    // Confirmed by another commit it stays.
    commit_for(&lab, 600);
    runs(&lab, &[FIRST, SECOND]);
    assert_eq!(revisions(&lab)["revisions"][0]["unconfirmed"], true);
    assert!(configure(&lab, &["commit"]).status.success());
    assert_eq!(revisions(&lab)["revisions"][0]["unconfirmed"], false);

    // The time runs on while there is no manager.
    commit(&lab, &format!("delete protocols static route {SECOND}"));
    commit_for(&lab, 3);
    runs(&lab, &[FIRST, SECOND]);
    restart_manager(&mut lab);
    runs(&lab, &[FIRST]);
    lab.until("the log of revisions has it after a restart", |lab| newest_via(lab) == "rollback");
    lab.lab.down().unwrap();
}

#[test]
fn what_is_stored_is_whole_or_not_used() {
    let _share = share();
    let Some(mut lab) = up() else { return };
    commit(&lab, &format!("set protocols static route {SECOND} discard"));
    runs(&lab, &[FIRST, SECOND]);
    file_has(&lab, &[FIRST, SECOND]);

    // A file that is broken, then none at all: what was committed last runs, and every place reports that.
    let written = file_text(&lab);
    fs::write(file(&lab), &written[..written.len() / 2]).unwrap();
    restart_manager(&mut lab);
    runs(&lab, &[FIRST, SECOND]);
    assert!(trouble(&lab).contains("is not valid") && trouble(&lab).contains("config:"), "{}", trouble(&lab));
    assert_eq!(lab.ask(&["status"])["trouble"], trouble(&lab));
    fs::remove_file(file(&lab)).unwrap();
    restart_manager(&mut lab);
    runs(&lab, &[FIRST, SECOND]);
    assert!(trouble(&lab).contains("cannot read"), "{}", trouble(&lab));

    // The next commit writes the file again, and the trouble is over.
    commit(&lab, &format!("delete protocols static route {FIRST}"));
    runs(&lab, &[SECOND]);
    assert_eq!(trouble(&lab), "");
    file_has(&lab, &[SECOND]);

    // The newest revision is torn: the one before runs.
    let newest = revision_files(&lab).pop().unwrap();
    let text = fs::read(&newest).unwrap();
    fs::write(&newest, &text[..text.len() - 5]).unwrap();
    fs::remove_file(file(&lab)).unwrap();
    restart_manager(&mut lab);
    runs(&lab, &[FIRST, SECOND]);
    assert!(trouble(&lab).contains("is damaged"), "{}", trouble(&lab));

    // Written by hand it is a revision like any other, and its comments stay.
    fs::write(file(&lab), format!("# by hand\nprotocols {{ static {{ route {SECOND} discard; }} }}\n"))
        .unwrap();
    restart_manager(&mut lab);
    runs(&lab, &[SECOND]);
    assert_eq!((newest_via(&lab).as_str(), trouble(&lab).as_str()), ("file", ""));
    assert!(file_text(&lab).contains("by hand"));
    lab.lab.down().unwrap();
}

#[test]
fn an_empty_file_is_damaged_and_not_the_wish_to_stop_everything() {
    let _share = share();
    let Some(mut lab) = up() else { return };
    file_has(&lab, &[FIRST]);
    for nothing in ["", "# only a comment\n"] {
        fs::write(file(&lab), nothing).unwrap();
        let refused = lab.cli(&["reload"]);
        assert!(!refused.status.success());
        let said = text(&refused);
        assert!(said.contains("has no statements") && said.contains("allow-empty"), "{said}");
        restart_manager(&mut lab);
        runs(&lab, &[FIRST]);
        assert!(trouble(&lab).contains("has no statements"), "{}", trouble(&lab));
    }
    let empty = lab.lab.dir("sluice").join("empty.conf");
    fs::write(&empty, "").unwrap();
    assert!(!lab.cli(&["commit", "from-file", empty.to_str().unwrap()]).status.success());
    runs(&lab, &[FIRST]);
    assert!(lab.cli(&["reload", "allow-empty"]).status.success());
    runs(&lab, &[]);
    assert_eq!(trouble(&lab), "");
    lab.lab.down().unwrap();
}

#[test]
fn a_folder_of_files_is_one_configuration() {
    let _share = share();
    let Some(lab) = up() else { return };
    let folder = lab.lab.dir("sluice").join("parts");
    fs::create_dir(&folder).unwrap();
    let part = |name: &str, route: &str| {
        fs::write(folder.join(name), format!("protocols {{ static {{\n{route}\n}} }}")).unwrap();
    };
    let commit = || lab.cli(&["commit", "from-file", folder.to_str().unwrap()]);
    part("10-first.conf", &format!("route {SECOND} {{ discard; }}"));
    part("20-second.conf", &format!("route {THIRD} {{ dicsard; }}"));
    part("20-second.conf.bak", "no statement");
    let refused = commit();
    let said = text(&refused);
    assert!(refused.status.code() == Some(4) && said.contains("parts/20-second.conf:2:"), "{said}");
    runs(&lab, &[FIRST]);
    part("20-second.conf", &format!("route {THIRD} {{ discard; }}"));
    assert!(commit().status.success());
    runs(&lab, &[THIRD, SECOND]);
    file_has(&lab, &[THIRD, SECOND]);
    lab.lab.down().unwrap();
}

#[test]
fn only_a_commit_that_names_it_confirms_another_one() {
    let _share = share();
    let Some(mut lab) = up() else { return };
    let waits = |lab: &RouterLab| lab.ask(&["status"])["unconfirmed"]["back_to"] == "1";
    commit_for(&lab, 600);
    runs(&lab, &[FIRST, SECOND]);
    file_has(&lab, &[FIRST, SECOND]);
    assert!(waits(&lab), "{}", lab.ask(&["status"]));

    // Somebody's change of something else, a signal that reads the file again, a file edited by hand.
    let third = format!("set protocols static route {THIRD} discard");
    let checked = text(&configure(&lab, &[&third, "commit check"]));
    assert!(checked.contains("waits for its confirmation"), "{checked}");
    let refused = configure(&lab, &[&third, "commit"]);
    let said = text(&refused);
    assert!(refused.status.code() == Some(5) && said.contains("commit confirm"), "{said}");
    assert!(lab.cli(&["reload"]).status.success() && waits(&lab));
    let by_hand = file_text(&lab).replace(SECOND, THIRD);
    fs::write(file(&lab), by_hand).unwrap();
    assert_eq!(lab.cli(&["reload"]).status.code(), Some(5));
    restart_manager(&mut lab);
    runs(&lab, &[FIRST, SECOND]);
    assert!(waits(&lab) && trouble(&lab).contains("waits for its confirmation"), "{}", trouble(&lab));

    // Both together, said so; then nothing waits.
    assert!(configure(&lab, &[&third, "commit confirm"]).status.success());
    runs(&lab, &[THIRD, FIRST, SECOND]);
    assert!(lab.ask(&["status"])["unconfirmed"].is_null());
    assert!(!configure(&lab, &["commit confirm"]).status.success());

    // The way back to what ran before confirms nothing, and needs no confirmation.
    commit_for_route(&lab, "192.0.3.0/24", 600);
    assert!(lab.cli(&["rollback", "1"]).status.success());
    runs(&lab, &[THIRD, FIRST, SECOND]);
    assert!(lab.ask(&["status"])["unconfirmed"].is_null());
    lab.lab.down().unwrap();
}

#[test]
fn rollback_and_private_editing() {
    let _share = share();
    let Some(lab) = up() else { return };
    let pids = || ["fea", "rib", "static"].map(|name| lab.pid(name));
    let before = pids();
    commit(&lab, &format!("set protocols static route {SECOND} discard"));
    commit(&lab, &format!("delete protocols static route {FIRST}"));
    runs(&lab, &[SECOND]);
    assert!(lab.cli(&["rollback", "2"]).status.success());
    runs(&lab, &[FIRST]);
    assert!(configure(&lab, &["rollback 1", "commit"]).status.success());
    runs(&lab, &[SECOND]);
    assert_eq!(pids(), before, "no process was started anew for any of that");

    // What another one committed meanwhile is in the way if it is the same, and else is not.
    let open = |mode: &str| {
        let xrl = format!("manager/manager.v1.Configuration/Open?user:txt=test&mode:enum={mode}");
        editor(&lab.ask(&["call", &xrl]))
    };
    let call = |method: &str, rest: &str| {
        lab.cli(&["call", &format!("manager/manager.v1.Configuration/{method}?{rest}")])
    };
    let set = |editor: u64, words: &str| {
        let words = words.replace(' ', "%20");
        assert!(call("Edit", &format!("editor:u64={editor}&statements:list<txt>={words}")).status.success());
    };
    let (one, other) = (open("PRIVATE"), open("PRIVATE"));
    set(one, &format!("set protocols static route {SECOND} tag 1"));
    set(other, &format!("set protocols static route {SECOND} tag 2"));
    assert!(call("Commit", &format!("editor:u64={one}")).status.success());
    let refused = call("Commit", &format!("editor:u64={other}"));
    assert!(String::from_utf8_lossy(&refused.stdout).contains("others have committed"), "{refused:?}");
    let third = open("PRIVATE");
    set(third, &format!("set protocols static route {FIRST} discard"));
    assert!(call("Commit", &format!("editor:u64={third}")).status.success());
    runs(&lab, &[FIRST, SECOND]);

    // Who edits exclusively keeps all others out until he leaves.
    let exclusive = open("EXCLUSIVE");
    let refused = configure(&lab, &["set system host-name x", "commit"]);
    assert_eq!(refused.status.code(), Some(5), "{refused:?}");
    assert!(call("Close", &format!("editor:u64={exclusive}")).status.success());
    commit(&lab, "set system host-name x");
}

/// Without space for a revision of the running configuration since the start, a commit can only go back to an older
/// revision.
#[test]
fn what_could_not_be_stored_is_what_a_commit_goes_back_to() {
    let _share = share();
    let Some(mut lab) = up() else { return };
    lab.kill(lab.pid("manager").unwrap());
    lab.lab.stop("sluice", true).unwrap();
    fs::write(file(&lab), format!("protocols {{ static {{ route {THIRD} discard; }} }}\n")).unwrap();
    // No revision can be written where something is in the way.
    let in_the_way = lab.run_dir().join("state/revisions/00000002.conf.new");
    fs::create_dir_all(in_the_way.join("x")).unwrap();
    lab.lab.start("sluice").unwrap();
    lab.until("the router is ready", RouterLab::ready);
    runs(&lab, &[THIRD]);
    assert!(trouble(&lab).contains("no revision can be written"), "{}", trouble(&lab));

    let refused = try_to_commit_for(&lab, SECOND, 2);
    let said = String::from_utf8_lossy(&refused.stdout);
    assert!(!refused.status.success() && said.contains("nothing could go back to it"), "{said}");
    assert!(said.contains("free some space in"), "{said}");
    runs(&lab, &[THIRD]);
    assert_eq!(revision_files(&lab).len(), 2, "the first, and what is in the way");

    fs::remove_dir_all(in_the_way).unwrap();
    commit_for(&lab, 2);
    lab.until("it was taken back", |lab| newest_via(lab) == "rollback");
    runs(&lab, &[THIRD]);
    file_has(&lab, &[THIRD]);
    let all = revisions(&lab);
    let vias: Vec<&str> =
        all["revisions"].as_array().unwrap().iter().map(|r| r["via"].as_str().unwrap()).collect();
    assert_eq!(vias, ["rollback", "commit", "file", "file"]);
    lab.lab.down().unwrap();
}

/// The file is edited by hand while editors commit.
#[test]
fn what_is_written_by_hand_stays() {
    let _share = share();
    let Some(lab) = up() else { return };
    commit(&lab, &format!("set protocols static route {SECOND} discard"));
    file_has(&lab, &[FIRST, SECOND]);
    let by_hand = format!("# by hand\nprotocols {{ static {{ route {THIRD} discard; }} }}\n");
    fs::write(file(&lab), &by_hand).unwrap();
    commit(&lab, &format!("delete protocols static route {FIRST}"));
    runs(&lab, &[SECOND]);
    lab.until("the log reports it", |lab| lab.lab.log("sluice", "sluice").contains("was changed by hand"));
    assert_eq!(file_text(&lab), by_hand);

    // When it is read it is what runs, and then it may be written again.
    lab.signal("-HUP", lab.pid("manager").unwrap());
    runs(&lab, &[THIRD]);
    lab.until("it is a revision", |lab| newest_via(lab) == "file");
    assert_eq!(file_text(&lab), by_hand);
    commit(&lab, &format!("set protocols static route {FIRST} discard"));
    file_has(&lab, &[FIRST, THIRD]);

    // Who wants none of it removes the file.
    fs::write(file(&lab), &by_hand).unwrap();
    fs::remove_file(file(&lab)).unwrap();
    commit(&lab, &format!("delete protocols static route {THIRD}"));
    file_has(&lab, &[FIRST]);
    lab.lab.down().unwrap();
}

/// Revisions with steps from an earlier revision, and the effect of damage to the earlier revision.
#[test]
fn steps_are_as_good_as_what_they_stand_on() {
    let _share = share();
    let Some(mut lab) = up() else { return };
    let many: Vec<String> =
        (0..60).map(|n| format!("set protocols static route 10.0.{n}.0/24 reject")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).chain(["commit"]).collect();
    assert!(configure(&lab, &many).status.success());
    for (statement, comment) in [
        (format!("set protocols static route {SECOND} discard"), "second"),
        (format!("set protocols static route {THIRD} discard"), "third"),
        (format!("delete protocols static route {SECOND}"), "not the second"),
    ] {
        let done = configure(&lab, &[&statement, &format!("commit comment \"{comment}\"")]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    }
    let files = revision_files(&lab);
    let lengths: Vec<u64> = files.iter().map(|file| fs::metadata(file).unwrap().len()).collect();
    assert!(lengths.len() == 5 && lengths[2..].iter().all(|length| *length < lengths[1] / 3), "{lengths:?}");
    let ours = |lab: &RouterLab| {
        let shown = lab.cli(&["show", "configuration", "protocols", "static"]);
        let text = String::from_utf8(shown.stdout).unwrap();
        let rest = text.contains("10.0.59.0/24");
        ([FIRST, SECOND, THIRD].map(|route| text.contains(route)), rest)
    };

    // The next manager reads what they lead to, and goes on there.
    restart_manager(&mut lab);
    assert_eq!((ours(&lab), trouble(&lab).as_str()), (([true, false, true], true), ""));
    assert!(configure(&lab, &["rollback 2", "commit"]).status.success());
    assert_eq!(ours(&lab), ([true, true, false], true));
    assert!(lab.cli(&["config", "upgrade-check"]).status.success());
    let newest = revision_files(&lab).pop().unwrap();
    assert!(fs::metadata(&newest).unwrap().len() < lengths[1] / 3);
    file_has(&lab, &[FIRST, SECOND]);

    // What they stand on is torn. The file is a copy of the newest: that is what runs, and every place reports that.
    let base = fs::read(&files[1]).unwrap();
    fs::write(&files[1], &base[..base.len() - 5]).unwrap();
    restart_manager(&mut lab);
    assert_eq!(ours(&lab), ([true, true, false], true));
    assert!(trouble(&lab).contains("is damaged") && trouble(&lab).contains("stands on"), "{}", trouble(&lab));
    assert_eq!(newest_via(&lab), "file");

    // Without it the last good one runs.
    for file in revision_files(&lab).split_off(files.len() + 1) {
        fs::remove_file(file).unwrap();
    }
    fs::remove_file(file(&lab)).unwrap();
    restart_manager(&mut lab);
    runs(&lab, &[FIRST]);
    assert!(trouble(&lab).contains("is damaged"), "{}", trouble(&lab));
    lab.lab.down().unwrap();
}
