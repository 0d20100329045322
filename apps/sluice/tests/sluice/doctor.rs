//! `sluice doctor` on hosts of the test's own: real daemons in the way, rights and features missing. Each check in text
//! and as JSON, with its advice, and the exit status.

use crate::own_host::{Host, PATIENCE, possible};
use serde_json::Value;

/// Makes a host with the programs `needs`, if possible; else reports the test as skipped.
fn host(needs: &[&str]) -> Option<Host> {
    match possible(needs) {
        Ok(()) => Some(Host::new()),
        Err(reason) => {
            sluice_testkit::skipped(reason);
            None
        }
    }
}

/// Runs a command, which must succeed.
fn run(host: &mut Host, command: &str) -> String {
    let (said, status) = host.shell(command).unwrap();
    assert_eq!(status, 0, "`{command}`: {said}");
    said
}

fn until(host: &mut Host, command: &str) {
    let so = sluice_lab::until(PATIENCE, || host.shell(command).unwrap().1 == 0);
    assert!(so, "never: {command}");
}

/// The doctor's expected finding of a check: outcome, a part of the finding, a part of the advice.
type Expected<'e> = (&'e str, &'e str, &'e str, &'e str);

/// Runs the doctor, with `before` in front of the command. Every finding is as expected, no unnamed check failed or
/// found a daemon; text and JSON agree, and the status is 1 if a check failed.
fn check(host: &mut Host, before: &str, expected: &[Expected<'_>]) {
    let (json, status) = host.shell(&format!("{before} sluice doctor --json")).unwrap();
    let (text, text_status) = host.shell(&format!("{before} sluice doctor")).unwrap();
    let value: Value = serde_json::from_str(&json).unwrap_or_else(|e| panic!("{e}: {json}"));
    let checks = value["checks"].as_array().unwrap();
    for (name, outcome, found, advice) in expected {
        let finding = checks.iter().find(|c| c["check"] == *name).unwrap_or_else(|| panic!("{name}: {json}"));
        let said = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
        let as_expected = finding["outcome"] == *outcome
            && said("found").contains(found)
            && said("advice").contains(advice);
        assert!(as_expected, "{name}: expected {outcome}, {found:?}, {advice:?}, and not {finding}");
        assert_eq!(finding["advice"].is_null(), *outcome == "ok", "{finding}");
        let line = text
            .lines()
            .position(|l| l.starts_with(outcome) && l.contains(name) && l.contains(&said("found")));
        let line = line.unwrap_or_else(|| panic!("{finding} is not in\n{text}"));
        let below = text.lines().nth(line + 1).unwrap_or_default();
        assert_eq!(below.trim_start().strip_prefix("-> "), finding["advice"].as_str(), "{text}");
    }
    let named = |c: &&Value| expected.iter().any(|(name, ..)| c["check"] == *name);
    for finding in checks.iter().filter(|c| !named(c)) {
        assert_ne!(finding["outcome"], "fail", "{finding}");
        assert!(finding["check"] != "other-daemons" || finding["outcome"] == "ok", "{finding}");
    }
    let count = |outcome: &str| checks.iter().filter(|c| c["outcome"] == outcome).count() as u64;
    for outcome in ["ok", "warn", "fail"] {
        assert_eq!(value[outcome], count(outcome));
    }
    let failed = i32::from(count("fail") > 0);
    assert_eq!((status, text_status), (failed, failed), "{text}");
}

const FREE: Expected<'_> = ("port-179", "ok", "free", "");
const STOP_IT: &str = "stop it: neighbors could not connect";
const APART: &str = "stop it, or give each a network namespace";

const BIRD: &str = "router id 10.0.0.1;
protocol device { }
protocol bgp { local 127.0.0.1 as 64500; neighbor 127.0.0.9 as 64501; multihop; ipv4 { import all; export none; }; }
";

const ROUTER: &str = "protocols { bgp { local-as 64500; router-id 10.0.0.1; default-policy accept; neighbor 127.0.0.9 { peer-as 64501; ipv4-unicast maximum-prefixes received 1000; } } }\n";

#[test]
fn another_routing_daemon_is_found() {
    let Some(mut host) = host(&["bird", "birdc"]) else { return };
    check(&mut host, "", &[("other-daemons", "ok", "no other routing daemon", ""), FREE]);

    host.write("/run/bird.conf", BIRD).unwrap();
    // One in a network namespace of its own is in nobody's way.
    host.start("unshare --net bird -f -c /run/bird.conf -s /run/away.ctl").unwrap();
    until(&mut host, "birdc -s /run/away.ctl show status");
    check(&mut host, "", &[("other-daemons", "ok", "no other routing daemon", ""), FREE]);

    host.start("exec bird -f -c /run/bird.conf -s /run/bird.ctl -P /run/bird.pid").unwrap();
    until(&mut host, "birdc -s /run/bird.ctl show status");
    let pid = run(&mut host, "cat /run/bird.pid");
    let found = format!("runs already: bird (BIRD, pid {})", pid.trim());
    check(
        &mut host,
        "",
        &[("other-daemons", "warn", &found, APART), ("port-179", "fail", "held by bird", STOP_IT)],
    );
    // A user who may not look into root's processes reports what is visible.
    check(
        &mut host,
        "setpriv --reuid 65534 --clear-groups",
        &[
            ("rights", "fail", "may not configure the network", "CAP_NET_ADMIN"),
            ("run-dir", "fail", "Permission denied", "--run-dir"),
            ("other-daemons", "ok", "", ""),
            ("port-179", "fail", "held by a process that cannot be seen from here", STOP_IT),
        ],
    );

    // What is advised helps.
    run(&mut host, "birdc -s /run/bird.ctl down");
    until(&mut host, "! birdc -s /run/bird.ctl show status");
    host.write("/etc/sluice/sluice.conf", ROUTER).unwrap();
    host.start("exec sluice start").unwrap();
    until(&mut host, "sluice status && ss -ltn | grep -q :179");
    check(
        &mut host,
        "",
        &[
            ("port-179", "ok", "held by the router itself", ""),
            ("bgp", "ok", "bgp has nothing to report", ""),
        ],
    );
    run(&mut host, "sluice configure 'delete protocols bgp default-policy' commit");
    let found = "neighbor 127.0.0.9: no import and no export policy: nothing is accepted and nothing is announced (RFC 8212)";
    check(&mut host, "", &[("bgp", "warn", found, "configure `import` and `export`")]);
    run(
        &mut host,
        "sluice configure 'set protocols bgp default-policy accept' \
         'delete protocols bgp neighbor 127.0.0.9 ipv4-unicast' commit",
    );
    let found = "no bound on the prefixes of external neighbors: 127.0.0.9";
    check(&mut host, "", &[("bgp", "warn", found, "`maximum-prefixes`")]);
}

#[test]
fn frr_is_found() {
    let zebra = "/usr/lib/frr/zebra";
    let Some(mut host) = host(&[zebra, "/usr/lib/frr/bgpd"]) else { return };
    run(&mut host, "install -d -o frr -g frr /run/frr && echo router bgp 64500 > /run/frr.conf");
    for daemon in ["zebra", "bgpd"] {
        let command = format!(
            "exec /usr/lib/frr/{daemon} -f /run/frr.conf -z /run/frr/zserv.api -i /run/frr/{daemon}.pid --vty_socket /run/frr"
        );
        host.start(&command).unwrap();
        until(&mut host, &format!("test -S /run/frr/{daemon}.vty"));
    }
    until(&mut host, "ss -ltn | grep -q :179");
    let pid =
        |host: &mut Host, daemon: &str| run(host, &format!("cat /run/frr/{daemon}.pid")).trim().to_owned();
    let (zebra, bgpd) = (pid(&mut host, "zebra"), pid(&mut host, "bgpd"));
    let found = format!("zebra (FRR or Quagga, pid {zebra}), bgpd (FRR, Quagga or OpenBGPD, pid {bgpd})");
    check(
        &mut host,
        "",
        &[("other-daemons", "warn", &found, APART), ("port-179", "fail", "held by bgpd", STOP_IT)],
    );
}

#[test]
fn what_is_missing_is_said() {
    let Some(mut host) = host(&["setpriv"]) else { return };
    let lacks = "setpriv --bounding-set -net_admin --inh-caps -net_admin";
    check(
        &mut host,
        lacks,
        &[("rights", "fail", "may not configure the network", "as root, or give CAP_NET_ADMIN")],
    );

    check(
        &mut host,
        "",
        &[("sandbox", "ok", "components have users", ""), ("run-dir", "ok", "can be made", "")],
    );
    let alone = "setpriv --bounding-set -setuid --inh-caps -setuid";
    check(&mut host, alone, &[("sandbox", "warn", "without users of their own", "docs/security.md")]);

    run(&mut host, "sysctl -qw net.ipv4.conf.all.rp_filter=1");
    check(
        &mut host,
        "",
        &[("rp-filter", "warn", "rp_filter is 1", "sysctl -w net.ipv4.conf.all.rp_filter=2")],
    );

    run(&mut host, "mkdir /run/small && mount -t tmpfs -o size=1m tmpfs /run/small");
    check(&mut host, "SLUICE_RUN_DIR=/run/small", &[("space", "warn", "free at /run/small", "free some")]);
    run(&mut host, "mount -o remount,ro /run/small");
    check(
        &mut host,
        "SLUICE_RUN_DIR=/run/small",
        &[
            ("run-dir", "fail", "/run/small cannot be written: Read-only file system", "--run-dir"),
            ("space", "warn", "free at /run/small", "free some"),
        ],
    );
}

#[test]
fn what_the_kernel_lacks_is_said() {
    let Some(mut host) = host(&[]) else { return };
    run(
        &mut host,
        "echo 4.19.0-27-amd64 > /run/release && mount --bind /run/release /proc/sys/kernel/osrelease",
    );
    check(&mut host, "", &[("kernel", "fail", "Linux 4.19.0-27-amd64", "5.3 or later")]);
    run(&mut host, "umount /proc/sys/kernel/osrelease");

    let without_md5 = "echo '# CONFIG_TCP_MD5SIG is not set' > /run/config; mount -t tmpfs tmpfs /boot; \
        cp /run/config /boot/config-$(uname -r); \
        if [ -e /proc/config.gz ]; then gzip /run/config && mount --bind /run/config.gz /proc/config.gz; fi";
    run(&mut host, without_md5);
    check(&mut host, "", &[("tcp-md5", "warn", "built without TCP MD5", "need another kernel")]);

    run(
        &mut host,
        "sysctl -qw net.ipv4.ip_forward=0 && mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys",
    );
    check(
        &mut host,
        "",
        &[("forwarding", "warn", "is 0 and cannot be changed from here", "sysctl -w NAME=1")],
    );

    run(&mut host, "mount -t tmpfs tmpfs /proc/sys/net");
    check(
        &mut host,
        "",
        &[
            ("next-hops", "fail", "no next-hop objects", "a kernel of 5.3 or later"),
            (
                "forwarding",
                "warn",
                "net.ipv4.ip_forward, net.ipv6.conf.all.forwarding cannot be read",
                "/proc/sys",
            ),
            ("rp-filter", "ok", "not there", ""),
        ],
    );
}

#[test]
fn forwarding_by_xdp_is_looked_at() {
    let Some(mut host) = host(&[]) else { return };
    if sluice_bpf::probe::features().iter().all(|probed| probed.missing.is_none()) {
        check(&mut host, "", &[("xdp", "ok", "the kernel has programs, mapped arrays", "")]);
    }
    check(&mut host, "", &[("xdp-links", "ok", "no veth interface", "")]);
    run(&mut host, "ip link add v0 type veth peer name v1");
    let (json, _) = host.shell("sluice doctor --json").unwrap();
    let value: Value = serde_json::from_str(&json).unwrap();
    let links = value["checks"].as_array().unwrap().iter().find(|c| c["check"] == "xdp-links").unwrap();
    for part in
        ["v0 has GRO off and transmit checksums on", "v1 has GRO off", "ethtool -K NAME gro on tx off"]
    {
        assert!(links["found"].as_str().unwrap().contains(part), "{links}");
    }
    // The probe leaves nothing behind.
    let shown = run(&mut host, "ip -o link show");
    assert_eq!(shown.lines().count(), 3, "{shown}");
}
