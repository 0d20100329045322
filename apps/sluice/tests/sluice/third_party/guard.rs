//! A component whose calls have limits on their arguments.

use crate::third_party::router::{Router, copy, has, install, python, text};
use std::collections::BTreeMap;

#[test]
fn calls_with_limits_pass_a_guard() {
    if !has("python3", "--version") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let packages = folder.path().join("packages");
    install(&packages, "teller");
    copy(&python().join("sluice_xrl"), &packages.join("teller/sluice_xrl"));
    let router =
        Router::start(folder.path(), "protocols { static { route 192.0.2.0/24 { discard; } } teller; }\n");
    let attempts = || -> BTreeMap<String, String> {
        let log = router.log();
        let lines = log.lines().filter_map(|line| line.split_once(": output: attempt ")?.1.split_once(": "));
        lines.map(|(name, outcome)| (name.to_owned(), outcome.to_owned())).collect()
    };
    router.until("every attempt was made", || attempts().contains_key("done"));
    let found = attempts();
    for name in ["inside", "inside, IPv6", "no limits", "one page", "page 0", "page 3"] {
        assert_eq!(found[name], "it worked", "{name}");
    }
    for (name, said) in [
        ("outside", "addr is \"192.0.3.1\"; permitted: one of 192.0.2.0/24, 2001:db8::/32"),
        ("absent", "addr is absent"),
        ("too long a page", "limit is 11; permitted: 1-10"),
        ("another family", "family is \"ipv6\""),
        ("page 4", "more calls than 5/m"),
        ("past the guard", "BadKey"),
    ] {
        assert!(found[name].contains(said), "{name}: {}", found[name]);
    }
    assert!(found["calls"].starts_with("guard@teller:rib "), "{}", found["calls"]);
    // The refusals are the component's, not the guard's.
    router.until("refusals are counted", || {
        let denials = text(&router.run(&["show", "denials"]));
        denials.contains("rib/rib.v1.Rib/LookupRoute: addr is") && denials.contains("teller")
    });
    let words = text(&router.run_alone(&["rights", "show", packages.join("teller").to_str().unwrap()]));
    assert!(words.contains("call rib.v1.Rib/LookupRoute of `rib` with addr: one of 192.0.2.0/24"), "{words}");

    // A guard that dies is a closed door, until the next one stands there.
    let guard = router.process("guard@teller", "pid").as_u64().unwrap();
    let before = router.log().len();
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(guard.try_into().unwrap()),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
    let later = |outcome: &str| {
        router.log()[before..].lines().any(|l| l.contains("attempt later") && l.contains(outcome))
    };
    router.until("calls are refused without a guard", || later("Disconnected") || later("UnknownTarget"));
    let refused = router.log().len();
    router.until("calls pass again", || router.log()[refused..].contains("attempt later: it worked"));
    assert_ne!(router.process("guard@teller", "pid").as_u64(), Some(guard));
}
