//! The documents about the certificates of a cluster, without a router.

use crate::cli_contract::{SLUICE, assert_valid, check_failure, text};
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::{Command, Output};

/// Every document about certificates, and the failures.
pub fn all(seen: &mut BTreeSet<String>) {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let run = |words: &[&str]| -> Output {
        let mut command = Command::new(SLUICE);
        command.arg("cluster").args(words).args(["--state-dir", &path("state"), "--json"]).output().unwrap()
    };
    let invitation = path("invitation");
    let invite = ["invite", "12", "--address", "10.9.0.12", "--address", "fd09::c", "--into", &invitation];
    check_failure(&run(&invite), "cluster invite", 1, "failed");
    check_failure(&run(&["join", &invitation]), "cluster join", 1, "failed");
    let printed: [(&[&str], &str); 3] = [
        (&["init", "21", "--address", "10.9.0.21"], "cluster-init"),
        (&invite, "cluster-invite"),
        (&["join", &invitation], "cluster-join"),
    ];
    for (words, schema) in printed {
        let output = run(words);
        assert!(output.status.success(), "{words:?}: {}", text(&output));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_valid(schema, &value, words[0]);
        seen.insert(schema.to_string());
    }
    // Elements change with a store only: `apps/sluice/tests/sluice/cluster/leave.rs` reads these.
    seen.extend(["drain", "undrain", "remove", "replace"].map(|change| format!("request-cluster-{change}")));
    check_failure(&run(&["init", "21", "--address", "10.9.0.21"]), "cluster init", 1, "failed");
    check_failure(&run(&["init", "0", "--address", "10.9.0.21"]), "cluster init", 2, "usage");
    check_failure(&run(&["init", "21"]), "cluster init", 2, "usage");
    std::fs::write(&invitation, "{\"key\": \"a secret\"}").unwrap();
    let wrong = run(&["join", &invitation]);
    check_failure(&wrong, "cluster join", 1, "failed");
    assert!(!text(&wrong).contains("a secret"), "{}", text(&wrong));
}
