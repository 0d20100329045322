//! The example package in Python, dropped in beside a broken package: configured, called, refused, killed and removed
//! like any built-in component.

use crate::third_party::router::{Router, SLUICE, copy, has, python, text};
use std::os::unix::fs::symlink;
use std::process::Command;

fn guests(router: &Router) -> Vec<String> {
    let reply = router.ask(&["show", "hello", "guests"]);
    let guests = reply["guests"].as_array().into_iter().flatten();
    guests.filter_map(|g| g["greeting"].as_str().map(Into::into)).collect()
}

#[test]
fn a_component_of_a_third_party_is_one_like_ours() {
    if !has("python3", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let python = python();
    let packages = folder.path().join("packages");
    copy(&python.join("examples/hello"), &packages.join("hello"));
    copy(&python.join("sluice_xrl"), &packages.join("hello/sluice_xrl"));
    let broken = packages.join("broken");
    std::fs::create_dir_all(&broken).unwrap();
    std::fs::write(broken.join("package.toml"), "name = 'broken'\nversion = '1'\ndescription = 'x'\n")
        .unwrap();
    std::fs::write(broken.join("broken.yang"), "module broken {\n  namespace oops\n}\n").unwrap();
    let uncounted = packages.join("uncounted");
    std::fs::create_dir_all(&uncounted).unwrap();
    std::fs::write(uncounted.join("package.toml"), "name = 'uncounted'\nversion = '1'\ndescription = 'x'\n")
        .unwrap();
    std::fs::write(uncounted.join("metrics.toml"), "[[metric]]\nname = 'uncounted_x'\ntype = 'guage'\n")
        .unwrap();
    symlink("/nowhere", packages.join("dangling")).unwrap();
    let router = Router::start(folder.path(), "protocols { static { route 203.0.113.0/24 discard; } }\n");

    // One is taken, the other refused with the reason, and the router runs.
    let shown = text(&router.run(&["show", "packages"]));
    assert!(shown.contains("hello") && shown.contains("Greets whoever asks"), "{shown}");
    assert!(
        shown.lines().any(|line| line.contains("broken") && line.contains("refused: module broken")),
        "{shown}"
    );
    let refused = "refused: metrics.toml:3: unknown variant `guage`, expected `gauge` or `counter`";
    assert!(shown.lines().any(|line| line.contains("uncounted") && line.contains(refused)), "{shown}");
    // The reason comes first: in the log, and where a file is checked whose statements are unknown without the package.
    assert!(
        router.log().contains("package `uncounted` is refused, the router runs without it: metrics.toml:3")
    );
    let file = folder.path().join("other.conf");
    std::fs::write(&file, "protocols { uncounted; }\n").unwrap();
    let check = |file: &str| {
        let mut command = Command::new(SLUICE);
        command.args(["config", "check", file, "--packages-dir"]).arg(folder.path().join("packages"));
        command.output().unwrap()
    };
    let checked = check(file.to_str().unwrap());
    let said = text(&checked);
    let (reason, place) = (said.find("package `uncounted` is refused"), said.find("other.conf:1"));
    assert!(!checked.status.success() && reason.is_some() && reason < place, "{said}");
    let checked = check(folder.path().join("router.conf").to_str().unwrap());
    assert!(
        checked.status.success() && text(&checked).contains("package `broken` is refused"),
        "{checked:?}"
    );

    // What is not configured does not run, and is not missed.
    let before = router.run(&["show", "metrics"]);
    assert!(before.status.success() && before.stderr.is_empty(), "{}", text(&before));
    assert!(!text(&before).contains("sluice_hello_"), "{}", text(&before));
    assert!(text(&before).contains("sluice_manager_package_refused{builtin=\"false\",package=\"broken\"} 1"));
    assert!(!router.run(&["show", "metrics", "hello"]).status.success());

    // Its statements are statements, with its own defaults and refusals.
    let done = router.configure(&[
        "set protocols hello greeting hi",
        "set protocols hello guest ann times 2",
        "commit",
    ]);
    assert!(done.status.success(), "{}", text(&done));
    assert_eq!(guests(&router), ["hi hi, ann"]);
    let pid = router.process("hello", "pid");
    let done =
        router.configure(&["set protocols hello guest bob", "delete protocols hello greeting", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    assert_eq!(guests(&router), ["hello hello, ann", "hello, bob"]);
    // Its metrics are there like those of ours; for both of them it is asked once.
    let shown = text(&router.run(&["show", "metrics", "hello"]));
    let expected = "# HELP sluice_hello_guest_asked How often somebody has asked for a guest's greeting, monitoring included.
# TYPE sluice_hello_guest_asked counter
sluice_hello_guest_asked_total{guest=\"ann\"} 3
sluice_hello_guest_asked_total{guest=\"bob\"} 2
# HELP sluice_hello_guest_info Guests, and how each is greeted; always 1.
# TYPE sluice_hello_guest_info gauge
sluice_hello_guest_info{greeting=\"hello hello, ann\",guest=\"ann\"} 1
sluice_hello_guest_info{greeting=\"hello, bob\",guest=\"bob\"} 1
# EOF
";
    assert!(shown.ends_with(expected), "{shown}");
    assert!(text(&router.run(&["show", "metrics"])).contains("sluice_up{component=\"hello\"} 1\n"));
    let refused = router.configure(&["set protocols hello greeting goodbye", "commit"]);
    assert!(!refused.status.success());
    assert!(text(&refused).contains("`goodbye` is not a greeting"), "{}", text(&refused));
    let refused = router.configure(&["set protocols hello guest eve times 11", "commit"]);
    assert!(text(&refused).contains("1..9"), "{}", text(&refused));
    assert_eq!(guests(&router), ["hello hello, ann", "hello, bob"], "what is refused changes nothing");
    assert_eq!(router.process("hello", "pid"), pid, "the process is the same all along");

    // Its command and its guests are completed.
    let words = |line: &str| {
        let output = router.lab.command("host", SLUICE).unwrap();
        let mut command = output;
        command.env("SLUICE_RUN_DIR", folder.path().join("run")).args(["__complete", "bash", line]);
        text(&command.output().unwrap())
    };
    assert!(words("sluice show he").contains("hello"), "{}", words("sluice show he"));
    assert!(words("sluice show hello guests b").contains("bob"), "{}", words("sluice show hello guests b"));

    // It is started again when it dies, with what is configured, and ends when it is not wanted any more.
    let number = pid.as_u64().unwrap().to_string();
    assert!(Command::new("kill").args(["-9", &number]).status().unwrap().success());
    router.until("it is another process", || {
        router.process("hello", "pid") != pid
            && router.process("hello", "state") == "running"
            && guests(&router).len() == 2
    });
    let done = router.configure(&["delete protocols hello", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    router.until("it has ended", || {
        router.process("hello", "state") == "stopped" || router.process("hello", "state").is_null()
    });
    assert!(router.run(&["status"]).status.success());
}

#[test]
fn a_package_is_checked_without_a_router() {
    let folder = tempfile::tempdir().unwrap();
    let hello = folder.path().join("hello");
    copy(&python().join("examples/hello"), &hello);
    let check = || {
        let output = Command::new(SLUICE).args(["package", "check"]).arg(&hello).output().unwrap();
        (output.status.code(), text(&output))
    };
    assert_eq!(check(), (Some(0), format!("{}: valid\n", hello.display())));
    let output = Command::new(SLUICE).args(["package", "check", "--json"]).arg(&hello).output().unwrap();
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&document["valid"], &document["problems"]), (&true.into(), &serde_json::json!([])));
    std::fs::write(
        hello.join("rights.toml"),
        "class = 'hello'\nneeds = ['ospf']\n[calls]\nrib = ['rib.v1.Rib/Register', 'rib.v1.Rip/*', 'rib.v1.Rib/*']\n",
    )
    .unwrap();
    let executable = hello.join("hello");
    std::fs::set_permissions(&executable, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::write(
        hello.join("commands.toml"),
        "[[command]]\nwords = 'show routes'\nhelp = 'x'\ncall = 'hello/hello.v1.Hello/GetGuests'\n[[command.column]]\nheading = 'x'\npath = 'x'\n",
    )
    .unwrap();
    let (status, said) = check();
    assert_eq!(status, Some(4));
    for problem in [
        "rights.toml: it needs `ospf`",
        "`rib.v1.Rib` has no method `Register`; it has RegisterOrigin",
        "there is no interface `rib.v1.Rip`",
        "hello cannot be executed: chmod 755",
        "commands.toml: `show routes` is taken already",
    ] {
        assert!(said.contains(problem), "{problem:?} is not in {said}");
    }
    std::fs::remove_file(&executable).unwrap();
    assert!(check().1.contains("there is no executable"), "{}", check().1);
}
