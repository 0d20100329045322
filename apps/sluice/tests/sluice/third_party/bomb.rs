//! A package whose module takes hours and all memory to read.

use crate::third_party::router::{Router, install, text};
use sluice_router_lab::possible;

#[test]
fn a_module_that_multiplies_stops_nothing() {
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (packages, aside) = (folder.path().join("packages"), folder.path().join("aside"));
    install(&packages, "bomb");
    install(&aside, "bomb");
    let bomb = aside.join("bomb");
    let bomb = bomb.to_str().unwrap();

    // It lies in the folder of packages at the start: the router runs without it.
    let router = Router::start(folder.path(), "system { host-name calm; }\n");
    let listed = text(&router.run(&["package", "list"]));
    assert!(listed.contains("its YANG modules take more than"), "{listed}");

    let checked = router.run_alone(&["package", "check", bomb]);
    assert_eq!(checked.status.code(), Some(4), "{}", text(&checked));
    assert!(text(&checked).contains("its YANG modules take more than"), "{}", text(&checked));

    // While a package is tried out, the router commits and answers.
    std::thread::scope(|scope| {
        let installs = scope.spawn(|| router.run(&["package", "install", "--unsigned", bomb]));
        let done = router.configure(&["set system host-name calmer", "commit"]);
        assert!(done.status.success(), "{}", text(&done));
        assert!(router.run(&["status"]).status.success());
        let refused = installs.join().unwrap();
        assert!(!refused.status.success(), "{}", text(&refused));
        assert!(text(&refused).contains("its YANG modules take more than"), "{}", text(&refused));
    });
    let stopped = router.run(&["stop"]);
    assert!(stopped.status.success(), "{}", text(&stopped));
}
