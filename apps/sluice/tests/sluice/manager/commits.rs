//! Commits that overlap.

use crate::manager::Router;

/// Editors in private mode and an editor of the shared candidate commit at the same time, and the file is read again
/// meanwhile. Every reported commit is in the running configuration, in the configuration file and in the kernel.
#[test]
fn overlapping_commits_lose_nothing() {
    let Some(mut router) = Router::up("protocols { static { } }\n") else {
        return;
    };
    let manager = router.pid("manager");
    let script = format!(
        "for i in $(seq 1 40); do
             (sluice configure \"set protocols static route 10.$i.0.0/16 discard\" commit > /dev/null 2>&1 && echo $i >> committed) &
             [ $((i % 10)) = 5 ] && kill -HUP {manager}
             [ $((i % 8)) = 0 ] && wait
         done
         sluice configure --shared 'set protocols static route 11.0.0.0/8 discard' commit && echo 100 >> committed
         wait
         true"
    );
    router.0.write("commits.sh", &script).unwrap();
    router.run("bash commits.sh");
    let committed = router.run("cat committed");
    let committed: Vec<&str> = committed.split_whitespace().collect();
    assert_eq!(committed.len(), 41, "{committed:?}");
    let prefixes: Vec<String> = committed
        .iter()
        .map(|i| if *i == "100" { "11.0.0.0/8".into() } else { format!("10.{i}.0.0/16") })
        .collect();
    let all_in =
        |text: &str, prefixes: &[String]| prefixes.iter().all(|prefix| text.contains(prefix.as_str()));
    let shown = router.run("sluice show configuration");
    assert!(all_in(&shown, &prefixes), "{shown}");
    assert!(router.waits(|router| all_in(&router.run("cat /etc/sluice/sluice.conf"), &prefixes)));
    assert!(router.waits(|router| {
        let kernel = router.kernel();
        all_in(
            &kernel,
            &prefixes.iter().map(|p| p.trim_end_matches(".0.0.0/8").to_owned()).collect::<Vec<_>>(),
        )
    }));
    assert_eq!(router.run("stat -c %a /etc/sluice/sluice.conf").trim(), "600");
}

/// A private candidate in conflict with a foreign commit is refused; after `rollback 0` the candidate equals the
/// running configuration.
#[test]
fn a_conflict_is_left_by_a_rollback() {
    let Some(mut router) = Router::up("protocols { static { } }\n") else {
        return;
    };
    router.run("mkfifo editing");
    router.0.start("sluice configure --private < editing; echo $? > ended").unwrap();
    router.run("exec 7> editing; echo 'set protocols static route 10.1.0.0/16 discard' >&7");
    router.run("sluice configure 'set protocols static route 10.1.0.0/16 reject' commit");
    router.run(
        "printf 'rollback 0\\nset protocols static route 10.2.0.0/16 discard\\ncommit\\n' >&7; exec 7>&-",
    );
    assert!(router.waits(|router| router.shell("cat ended").0.trim() == "0"));
    let shown = router.run("sluice show configuration");
    assert!(shown.contains("reject") && shown.contains("10.2.0.0/16"), "{shown}");
}

#[test]
fn entries_are_renamed_and_copied() {
    let configuration = "# Ours.\nprotocols { static { route 10.1.0.0/16 discard; } }\n";
    let Some(mut router) = Router::up(configuration) else { return };
    router.run(
        "sluice configure 'rename protocols static route 10.1.0.0/16 to 10.2.0.0/16' \
         'copy prot static route 10.2.0.0/16 to 10.3.0.0/16' commit",
    );
    assert!(router.waits(|router| {
        let kernel = router.kernel();
        kernel.contains("10.2.0.0/16") && kernel.contains("10.3.0.0/16") && !kernel.contains("10.1.0.0/16")
    }));
    assert!(router.waits(|router| router.run("cat /etc/sluice/sluice.conf").starts_with("# Ours.\n")));
    let (said, status) =
        router.shell("sluice configure 'set protocols statc route 10.4.0.0/16 discard' commit");
    assert!(status != 0 && said.contains("did you mean `static`?"), "{said}");
    let (said, status) = router.shell("sluice configure 'rename protocols static' commit");
    assert!(status != 0 && said.contains("PATH KEY to KEY"), "{said}");
}
