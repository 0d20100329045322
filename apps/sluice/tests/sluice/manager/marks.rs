//! Inactive statements, annotations, and the order of the configuration file.

use crate::manager::{FILE, Router};

const WRITTEN: &str = "# The head.

system {
    host-name a; # of the host
}
protocols {
    static {
        # The last one first.
        route 10.3.0.0/16 {
            discard;
        }
        route 10.1.0.0/16 discard;
    }
}
";

#[test]
fn what_is_inactive_stays_in_the_file_and_out_of_the_kernel() {
    let Some(mut router) = Router::up(WRITTEN) else { return };
    assert!(router.waits(|router| router.kernel().contains("10.3.0.0/16")));
    router.run(
        "sluice configure 'deactivate protocols static route 10.3.0.0/16' \
         'annotate protocols static route 10.1.0.0/16 \"the first\"' 'set protocols static route 10.2.0.0/16 discard' commit",
    );
    assert!(router.waits(|router| !router.kernel().contains("10.3.0.0/16")));
    let expected = "    static {
        # The last one first.
        inactive: route 10.3.0.0/16 {
            discard;
        }
        annotate route 10.1.0.0/16 \"the first\";
        route 10.1.0.0/16 {
            discard;
        }
        route 10.2.0.0/16 {
            discard;
        }
    }
";
    assert!(
        router.waits(|router| router.run(&format!("cat {FILE}")).contains(expected)),
        "{}",
        router.run(&format!("cat {FILE}"))
    );
    let shown = router.run("sluice show configuration protocols static");
    assert!(shown.contains("inactive: route 10.3.0.0/16 {") && shown.contains("annotate route"), "{shown}");
    router.run(&format!("sluice config check {FILE}"));
    // What the file contains is what runs: a reload changes nothing, and so do the statements.
    assert_eq!(router.json("sluice reload")["changes"], "0");
    router.run("sluice show configuration '|' set > lines && sluice commit --from-file lines");
    assert_eq!(router.json("sluice show revisions")["revisions"].as_array().unwrap().len(), 2);
    // A life of the manager reads its revision, which holds the steps to it.
    router.stop();
    router.start("");
    assert!(!router.kernel().contains("10.3.0.0/16"));
    let shown = router.run("sluice compare --rollback 1; true");
    assert!(shown.contains("inactive: route 10.3.0.0/16 {"), "{shown}");
    router.run("sluice configure 'activate protocols static route 10.3.0.0/16' commit");
    assert!(router.waits(|router| router.kernel().contains("10.3.0.0/16")));
    router.run("sluice rollback 2");
    let shown = router.run("sluice show configuration");
    assert!(!shown.contains("annotate") && !shown.contains("10.2.0.0"), "{shown}");
}
