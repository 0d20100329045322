//! Packages that come, are replaced and go while the router runs.

use crate::third_party::router::{Router, copy, has, python, text};
use serde_json::Value;
use sluice_router_lab::steps::Steps;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};

const CONFIGURATION: &str =
    "protocols { static { route 192.0.2.0/24 { discard; } } bgp { local-as 65001; router-id 192.0.2.1; } }\n";
const OURS: [&str; 4] = ["rib", "static", "bgp", "fea"];

/// Makes the package `hello` in a folder, in a version.
fn hello(folder: &Path, version: &str) -> PathBuf {
    let package = folder.join(format!("sources/{version}/hello"));
    copy(&python().join("examples/hello"), &package);
    copy(&python().join("sluice_xrl"), &package.join("sluice_xrl"));
    edit(&package.join("package.toml"), "1.0.0", version);
    edit(&package.join("hello"), "1.0.0", version);
    package
}

fn edit(file: &Path, old: &str, new: &str) {
    let text = std::fs::read_to_string(file).unwrap();
    assert!(text.contains(old), "{}: {old}", file.display());
    std::fs::write(file, text.replace(old, new)).unwrap();
}

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn pids(router: &Router) -> Vec<Value> {
    OURS.map(|class| router.process(class, "pid")).into()
}

/// Asserts that a command failed and said something.
fn fails(output: &Output, said: &str) {
    assert!(!output.status.success() && text(output).contains(said), "expected {said}: {}", text(output));
}

fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", text(output));
}

#[test]
fn a_package_comes_is_replaced_and_goes() {
    if !has("python3", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let router = Router::start(folder.path(), CONFIGURATION);
    router.until("the static route is in the kernel", || router.kernel() == ["192.0.2.0/24"]);
    let before = pids(&router);
    let first = hello(folder.path(), "1.0.0");

    // Nobody of trust signed it; with consent it comes, and all that it brings is there at once.
    fails(&router.run(&["package", "install", path(&first)]), "--unsigned");
    fails(&router.configure(&["set protocols hello", "commit"]), "hello");
    let installed = router.run(&["package", "install", path(&first), "--unsigned"]);
    succeeds(&installed);
    assert!(text(&installed).contains("package hello 1.0.0 is installed, unsigned"), "{}", text(&installed));
    fails(&router.run(&["package", "install", path(&first), "--unsigned"]), "package upgrade");
    let listed = router.ask(&["package", "list"]);
    assert_eq!(
        (&listed["packages"][0]["name"], &listed["packages"][0]["signed"]),
        (&"hello".into(), &"unsigned".into())
    );
    succeeds(&router.configure(&[
        "set protocols hello greeting hi",
        "set protocols hello guest ann",
        "commit",
    ]));
    router.until("the component greets", || {
        text(&router.run(&["show", "hello", "guests"])).contains("hi, ann")
    });

    // What is configured stays.
    fails(&router.run(&["package", "remove", "hello"]), "protocols hello");
    assert!(text(&router.run(&["show", "hello", "guests"])).contains("hi, ann"));

    // The next version is signed, travels as an archive, and asks for more.
    let second = hello(folder.path(), "2.0.0");
    edit(&second.join("rights.toml"), "needs = []", "needs = []\n[sockets]\ntcp_listen = [8080]\n");
    let (key, trust) = (folder.path().join("ann"), folder.path().join("trust"));
    succeeds(&router.run_alone(&["package", "new-key", path(&key)]));
    succeeds(&router.run_alone(&["package", "sign", path(&second), "--key", path(&key)]));
    succeeds(&router.run_alone(&["package", "pack", path(&second), "--into", path(folder.path())]));
    let archive = folder.path().join("hello-2.0.0.tar.zst");
    fails(&router.run(&["package", "upgrade", path(&archive)]), "unknown key");
    std::fs::create_dir(&trust).unwrap();
    std::fs::copy(folder.path().join("ann.pub"), trust.join("ann.pub")).unwrap();
    fails(&router.run(&["package", "upgrade", path(&archive)]), "listen on TCP port 8080");
    assert!(text(&router.run(&["show", "packages"])).contains("1.0.0"));
    let old = router.process("hello", "pid");
    let upgraded = router.run(&["package", "upgrade", path(&archive), "--accept-rights"]);
    succeeds(&upgraded);
    assert!(text(&upgraded).contains("2.0.0 is in the place of 1.0.0, signed by ann"), "{}", text(&upgraded));
    assert!(text(&upgraded).contains("it may listen on TCP port 8080"), "{}", text(&upgraded));
    assert_ne!(router.process("hello", "pid"), old);
    router.until("the new version greets", || {
        text(&router.run(&["show", "hello", "guests"])).contains("hi, ann")
    });
    let verified = router.run_alone(&[
        "package",
        "verify",
        path(&folder.path().join("packages/hello")),
        "--trust-dir",
        path(&trust),
    ]);
    succeeds(&verified);

    // An editor's candidate is looked at too.
    succeeds(&router.configure(&["delete protocols hello", "commit"]));
    succeeds(&router.type_in("configure\nset protocols hello greeting later\nexit\n"));
    fails(&router.run(&["package", "remove", "hello"]), "shared candidate");
    succeeds(&router.type_in("configure\ndiscard\nexit\n"));
    succeeds(&router.run(&["package", "remove", "hello"]));
    fails(&router.run(&["package", "remove", "hello"]), "there is no package `hello`");
    fails(&router.run(&["show", "hello", "guests"]), "hello");
    fails(&router.configure(&["set protocols hello", "commit"]), "hello");
    assert_eq!(std::fs::read_dir(folder.path().join("packages")).unwrap().count(), 0);

    // Nobody else noticed, and everything is in the audit.
    assert_eq!(pids(&router), before);
    assert_eq!(router.kernel(), ["192.0.2.0/24"]);
    let audit = text(&router.run(&["audit", "show"]));
    assert!(audit.contains("install ") && audit.contains("remove hello"), "{audit}");
    assert!(router.log().contains("package.installed") && router.log().contains("package.removed"));
}

#[test]
fn a_package_that_is_refused_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let router = Router::start(folder.path(), CONFIGURATION);
    let before = pids(&router);
    let packed = |version: &str| {
        let package = hello(folder.path(), version);
        succeeds(&router.run_alone(&["package", "pack", path(&package), "--into", path(folder.path())]));
        folder.path().join(format!("hello-{version}.tar.zst"))
    };
    let refused = |package: &Path, said: &str| {
        fails(&router.run(&["package", "install", path(package), "--unsigned"]), said);
    };
    // A file that is cut off.
    let cut = packed("1.0.1");
    let octets = std::fs::read(&cut).unwrap();
    std::fs::write(&cut, &octets[..octets.len() / 2]).unwrap();
    refused(&cut, "archive");
    // A module that makes the running configuration invalid, and one that is none.
    let breaking = hello(folder.path(), "1.0.2");
    let strict = "augment \"/router:system\" { leaf deep-thought { mandatory true; type string; sluice:impact soft; description \"x\"; } }\n  augment \"/router:protocols\"";
    edit(&breaking.join("hello.yang"), "augment \"/router:protocols\"", strict);
    refused(&breaking, "package `hello` is refused");
    let broken = hello(folder.path(), "1.0.3");
    std::fs::write(broken.join("hello.yang"), "module hello {").unwrap();
    refused(&broken, "hello");
    // Rights with a mistake, a link, a program for another machine, a class that is there already.
    let wrong = hello(folder.path(), "1.0.4");
    edit(&wrong.join("rights.toml"), "needs = []", "needs = []\nevil = true");
    refused(&wrong, "evil");
    let linked = hello(folder.path(), "1.0.5");
    std::os::unix::fs::symlink("/etc/shadow", linked.join("shadow")).unwrap();
    refused(&linked, "links");
    let foreign = hello(folder.path(), "1.0.6");
    let mut elf = vec![0u8; 64];
    elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
    elf[18] = 243;
    std::fs::write(foreign.join("hello"), elf).unwrap();
    refused(&foreign, "machine 243");
    let taken = hello(folder.path(), "1.0.7");
    edit(&taken.join("package.toml"), "class = \"hello\"", "class = \"bgp\"");
    refused(&taken, "bgp");
    // A signature of something else.
    let changed = hello(folder.path(), "1.0.8");
    let key = folder.path().join("key");
    succeeds(&router.run_alone(&["package", "new-key", path(&key)]));
    succeeds(&router.run_alone(&["package", "sign", path(&changed), "--key", path(&key)]));
    edit(&changed.join("README.md"), "hello", "bye");
    refused(&changed, "changed");

    let packages = folder.path().join("packages");
    assert!(std::fs::read_dir(&packages).map_or(0, Iterator::count) == 0, "nothing is left");
    assert_eq!(pids(&router), before);
    // A new version whose program ends at once: the version before goes on.
    if !has("python3", "--version") {
        return;
    }
    let good = hello(folder.path(), "1.0.0");
    succeeds(&router.run(&["package", "install", path(&good), "--unsigned"]));
    succeeds(&router.configure(&["set protocols hello guest ann", "commit"]));
    router.until("the component greets", || text(&router.run(&["show", "hello", "guests"])).contains("ann"));
    let bad = hello(folder.path(), "1.0.9");
    std::fs::write(bad.join("hello"), "#!/bin/false\n").unwrap();
    fails(&router.run(&["package", "upgrade", path(&bad), "--unsigned"]), "the version before goes on");
    assert!(text(&router.run(&["package", "list"])).contains("1.0.0"));
    router.until("the component greets again", || {
        text(&router.run(&["show", "hello", "guests"])).contains("ann")
    });
}

/// The manager is killed somewhere in an installation: the package is there whole, or not at all.
#[test]
fn a_killed_manager_leaves_no_half_of_a_package() {
    let folder = tempfile::tempdir().unwrap();
    let package = hello(folder.path(), "1.0.0");
    let socket = folder.path().join("steps");
    let steps = Steps::listen(&socket);
    let mut router = Router::start_stepping(folder.path(), CONFIGURATION, &socket);
    let installed = folder.path().join("packages/hello");
    let install = |router: &Router| {
        let mut install = router.lab.command("host", crate::third_party::router::SLUICE).unwrap();
        install.args(["package", "install", path(&package), "--unsigned", "--run-dir"]);
        install.arg(folder.path().join("run")).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let mut outcomes = [0, 0];
    // The manager is killed before each step; the last time, before none.
    for killed_at in 0.. {
        let mut installing = install(&router);
        let seen = steps.follow(|step, _| {
            if step == killed_at {
                router.kill_manager();
            }
            step != killed_at
        });
        installing.wait().unwrap();
        let is_killed = seen.len() == killed_at + 1;
        if is_killed {
            router.start_stepping_manager(&socket);
        }
        let step = seen.last().unwrap();
        let is_there = installed.exists();
        outcomes[usize::from(is_there)] += 1;
        let is_whole =
            |name: &str| std::fs::read(installed.join(name)).ok() == std::fs::read(package.join(name)).ok();
        assert!(
            !is_there || ["hello", "hello.yang", "sluice_xrl/__init__.py"].iter().all(|name| is_whole(name)),
            "killed before `{step}`"
        );
        assert!(!folder.path().join("packages/.aside").exists(), "killed before `{step}`");
        let listed = router.ask(&["package", "list"]);
        assert_eq!(listed["packages"].as_array().map(Vec::len), Some(usize::from(is_there)), "{listed}");
        if is_there {
            succeeds(&router.run(&["package", "remove", "hello"]));
        }
        if !is_killed {
            break;
        }
    }
    assert!(outcomes.iter().all(|number| *number >= 2), "without and with the package: {outcomes:?}");
}
