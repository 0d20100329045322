//! A subtree shared by several components: every component receives a change in the same commit, with its own impact,
//! or no component does.

use crate::third_party::router::{Router, copy, has, install, python, text};
use serde_json::Value;

#[test]
fn a_shared_subtree_is_sent_to_all_or_to_none() {
    if !has("python3", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("packages");
    install(&packages, "filter");
    install(&packages, "reader");
    copy(&python().join("sluice_xrl"), &packages.join("reader/sluice_xrl"));
    // The same component under another name, which starts anew when the subtree changes.
    copy(&packages.join("reader"), &packages.join("starter"));
    copy(&python().join("sluice_xrl"), &packages.join("starter/sluice_xrl"));
    for file in ["package.toml", "rights.toml", "reader.yang"] {
        let path = packages.join("starter").join(file);
        let text = std::fs::read_to_string(&path).unwrap().replace("filter soft", "filter restart");
        let text =
            text.replace("executable = \"reader\"", "executable = \"bin\"").replace("reader", "starter");
        std::fs::write(&path, text.replace("\"bin\"", "\"reader\"")).unwrap();
    }
    let starter = packages.join("starter");
    std::fs::rename(starter.join("reader.yang"), starter.join("starter.yang")).unwrap();
    let router = Router::start(
        folder.path(),
        "protocols { reader; starter; } instance red { table 100; protocols { reader; } }\n",
    );
    const NAMES: [&str; 3] = ["reader", "starter", "reader@red"];
    let pids = || NAMES.map(|name| router.process(name, "pid"));
    let shows = |name: &str| match router.process(name, "degraded") {
        Value::String(text) => text,
        _ => String::new(),
    };
    let first = pids();

    // Sent to all; a component whose impact is a restart is another process now.
    let done = router.configure(&["set filter rule a action drop", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    for (name, expected) in
        NAMES.into_iter().zip(["reader 0 a=drop", "starter 0 a=drop", "reader@red 100 a=drop"])
    {
        router.until(&format!("{name} has the rule"), || shows(name).contains(expected));
    }
    let second = pids();
    assert_eq!([&second[0], &second[2]], [&first[0], &first[2]]);
    assert_ne!(second[1], first[1]);

    // One refuses: nobody has it.
    let done = router.configure(&["set instance red protocols reader refuses shout", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    let refused = router.configure(&["set filter rule b action shout", "commit"]);
    assert!(!refused.status.success());
    assert!(text(&refused).contains("reader@red: rule b says shout"), "{}", text(&refused));
    assert!(NAMES.iter().all(|name| shows(name).ends_with("a=drop")), "{:?}", NAMES.map(shows));
    assert_eq!(pids(), second);

    // Deletions are sent too, and one that starts later has everything.
    let done = router.configure(&["delete filter", "commit"]);
    assert!(done.status.success(), "{}", text(&done));
    for name in NAMES {
        router.until(&format!("{name} has no rule"), || shows(name).is_empty());
    }
    let done =
        router.configure(&["set filter rule c", "set instance blue table 101 protocols reader", "commit"]);
    assert!(!done.status.success(), "a statement sets one thing");
    let done = router.configure(&[
        "set filter rule c",
        "set instance blue table 101",
        "set instance blue protocols reader",
        "commit",
    ]);
    assert!(done.status.success(), "{}", text(&done));
    router.until("the new one has the rule", || shows("reader@blue").contains("reader@blue 101 c=accept"));
}
