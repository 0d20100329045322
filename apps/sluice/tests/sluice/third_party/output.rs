//! What components write to their standard output and standard error.

use crate::third_party::router::{Router, install, text};
use sluice_router_lab::possible;

/// The octets of the flood that may reach the log, with the labels of its lines.
const MOST: usize = 4 << 20;

#[test]
fn a_component_holds_no_file_of_the_log() {
    if !possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    install(&folder.path().join("packages"), "scribbler");
    let router = Router::start(folder.path(), "system { host-name scribe; }\n");
    let begun = router.log();
    let done = router.configure(&["set protocols scribbler", "commit"]);
    assert!(!done.status.success(), "{}", text(&done));
    router.until("its last words are in the log", || router.log().contains("scribbler: output: last words"));

    let log = router.log();
    assert!(log.starts_with(&begun), "the log was emptied");
    assert!(!log.contains('\u{1b}') && log.contains("scribbler: output: \\u{1b}[2J\\u{1b}[31mred"));
    let forged = log.lines().find(|line| line.contains("config.commit: forged")).unwrap();
    assert!(forged.contains(" INFO scribbler: output: 2026-01-01T"), "{forged}");
    assert!(log.contains("lines were left out: the component writes too much"));
    assert!(log.len() < MOST, "{} octets", log.len());
}
