//! A router with the Internet's table while packets cross the router: every process is killed in turn, and routes
//! withdrawn by the neighbor meanwhile are gone afterward; then every process is replaced by a new process, without a
//! visible effect.

use crate::survival::feed::{FEED, feed_of};
use crate::survival::traffic::{Drops, Traffic};
use sluice_base::IpPrefix;
use sluice_lab::Topology;
use sluice_load::{Announcement, RoutingTable, wide};
use sluice_router_lab::table::{internet_table, small_subject};
use sluice_router_lab::{Count, RouterLab, alone, possible, routes, share};
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Processes in the order in which they are killed.
const VICTIMS: [&str; 4] = ["bgp", "rib", "fea", "manager"];
/// Routes of each family that the feed withdraws while a process is dead.
const WITHDRAWN: usize = 500;
/// Prefixes that packets are sent to, of each family.
const TARGETS: usize = 1000;
/// Routes of both families where a full table is too much.
const SMALL: (usize, usize) = (20_000, 5_000);
/// The longest time for a full table to arrive everywhere, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(150);

const TOPOLOGY: &str = "
[nodes.feed]
daemon = 'bird'
routes = ['10.2.0.0/24 via 10.1.0.1', '2001:db8:2::/64 via 2001:db8:1::1', 'local default dev lo', 'local ::/0 dev lo']
[nodes.host]
routes = ['default via 10.2.0.1', '::/0 via 2001:db8:2::1']
[nodes.sluice]
daemon = 'sluice'
sysctls = { 'net.ipv6.route.max_size' = '2147483647' }
config = '''
protocols bgp {
    local-as 64500;
    router-id 10.0.0.1;
    default-policy accept;
    neighbor 10.1.0.2 { peer-as 64501; ipv6-unicast enabled; connect-retry-time 1; }
}
'''
[[links]]
a = 'sluice:feed'
b = 'feed:sluice'
a_addresses = ['10.1.0.1/24', '2001:db8:1::1/64']
b_addresses = ['10.1.0.2/24', '2001:db8:1::2/64']
[[links]]
a = 'sluice:host'
b = 'host:sluice'
a_addresses = ['10.2.0.1/24', '2001:db8:2::1/64']
b_addresses = ['10.2.0.2/24', '2001:db8:2::2/64']
";

/// The announcements of the feed: permanent routes, and routes withdrawn while a process is dead.
struct Plan {
    stays: RoutingTable,
    withdrawn: Vec<RoutingTable>,
}

impl Plan {
    /// Withdrawn routes are spread over the whole table.
    fn of(table: &RoutingTable) -> Self {
        let parts = |all: &[Announcement]| {
            let step = all.len() / (VICTIMS.len() * WITHDRAWN);
            let (mut stays, mut withdrawn) = (Vec::new(), vec![Vec::new(); VICTIMS.len()]);
            for (index, a) in all.iter().enumerate() {
                match withdrawn.get_mut(index / step % VICTIMS.len()) {
                    Some(part) if index % step == 0 && part.len() < WITHDRAWN => part.push(a.clone()),
                    _ => stays.push(a.clone()),
                }
            }
            (stays, withdrawn)
        };
        let ((v4, w4), (v6, w6)) = (parts(&table.v4), parts(&table.v6));
        let withdrawn = w4.into_iter().zip(w6).map(|(v4, v6)| RoutingTable { v4, v6 }).collect();
        Plan { stays: RoutingTable { v4, v6 }, withdrawn }
    }

    /// The feed's configuration: what is withdrawn at once is a protocol of each family.
    fn config(&self) -> String {
        let mut text = feed_of(&self.stays).config();
        for (victim, part) in VICTIMS.iter().zip(&self.withdrawn) {
            for (family, all) in [("ipv4", &part.v4), ("ipv6", &part.v6)] {
                writeln!(text, "protocol static {victim}_{family} {{ {family};").unwrap();
                for a in all {
                    writeln!(text, "route {} blackhole;", a.prefix).unwrap();
                }
                text.push_str("}\n");
            }
        }
        text
    }

    /// Returns the number of the feed's routes after the withdrawal of the first `n` parts.
    fn left_after(&self, n: usize) -> Count {
        let rest = &self.withdrawn[n..];
        Count {
            v4: self.stays.v4.len() + rest.iter().map(|t| t.v4.len()).sum::<usize>(),
            v6: self.stays.v6.len() + rest.iter().map(|t| t.v6.len()).sum::<usize>(),
        }
    }

    /// Addresses whose most specific route stays.
    fn targets(&self) -> Vec<String> {
        let some = self.stays.thinned(TARGETS, TARGETS);
        // A prefix's own address is inside all others that it is inside of: its most specific route is this prefix, or one of
        // the same address, and those are left out.
        let others: HashSet<_> =
            self.withdrawn.iter().flat_map(|t| t.v4.iter().chain(&t.v6)).map(|a| a.prefix.addr()).collect();
        let addresses = some.v4.iter().chain(&some.v6).map(|a: &Announcement| a.prefix.addr());
        addresses.filter(|a| !others.contains(a)).map(|a| a.to_string()).collect()
    }
}

#[test]
fn every_process_killed_at_a_small_table() {
    let _machine = share();
    if possible() {
        let (program, table) = small_subject(SMALL);
        kill_and_replace(&program, &table);
    }
}

#[test]
fn every_process_killed_at_full_table() {
    let program = sluice_testkit::long!("kills at full table");
    let _machine = alone();
    if possible()
        && let Some(table) = internet_table()
    {
        kill_and_replace(&program, &table);
    }
}

/// Kills and then replaces each process under traffic.
fn kill_and_replace(program: &Path, table: &RoutingTable) {
    let begin = Instant::now();
    let say = |what: String| println!("[{:6.1} s] {what}", begin.elapsed().as_secs_f64());
    let plan = Plan::of(table);
    let targets = plan.targets();
    let mut topology: Topology = TOPOLOGY.parse().unwrap();
    topology.nodes.get_mut("feed").unwrap().config = Some(plan.config());
    let mut lab = RouterLab::up(&topology, program);
    say("the lab is up".into());
    converged(&lab, plan.left_after(0));
    say(format!("{:?} are in the kernel", plan.left_after(0)));
    warm_up(&lab, &targets);
    for (index, victim) in VICTIMS.into_iter().enumerate() {
        let (before, after) = (plan.left_after(index), plan.left_after(index + 1));
        let drops = Drops::read(&lab.lab);
        let traffic = Traffic::start(&lab.lab, "host", "feed", &targets);
        match victim {
            "manager" => kill_manager(&mut lab, after),
            component => kill_component(&lab, component, before),
        }
        converged(&lab, after);
        no_trace(&lab, &plan.withdrawn[index]);
        let packets = traffic.end();
        say(format!("{victim} was killed and is back: {after:?} in the kernel, {packets:?}"));
        let counted = drops.since(&lab.lab);
        say(format!("{victim}: the kernel counted {counted:?}"));
        assert!(
            packets.sent > 0 && packets.lost() == 0,
            "{victim}: {packets:?}, the kernel counted {counted:?}"
        );
    }
    let all = plan.left_after(VICTIMS.len());
    for component in VICTIMS {
        let drops = Drops::read(&lab.lab);
        let traffic = Traffic::start(&lab.lab, "host", "feed", &targets);
        let (took, octets) = replaced(&lab, component, all);
        let packets = traffic.end();
        let counted = drops.since(&lab.lab);
        say(format!("{component} was replaced in {took} ms, with {octets} octets of state: {packets:?}"));
        assert!(
            packets.sent > 0 && packets.lost() == 0,
            "{component}: {packets:?}, the kernel counted {counted:?}"
        );
    }
}

/// Replaces a component's process without a visible effect. Returns the milliseconds until the takeover, and the number
/// of transferred octets.
fn replaced(lab: &RouterLab, component: &str, all: Count) -> (u64, u64) {
    let of_session = |lab: &RouterLab| {
        let neighbor = lab.neighbor(FEED);
        (neighbor["flaps"].clone(), neighbor["state"].clone(), wide(&neighbor["uptime_ms"]))
    };
    let (pid, before) = (lab.pid(component).unwrap(), of_session(lab));
    let said = lab.cli(&["restart", component]);
    assert!(said.status.success(), "{component}: {said:?}");
    let said: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    if component != "manager" {
        assert!(lab.pid(component).is_some_and(|new| new != pid), "{component} is the same process");
    }
    // One answer that has everything: a manager that is being replaced may answer once more and then be away for a moment.
    let answer = RefCell::new(before.clone());
    lab.until("the router answers", |lab| {
        let is_ready = lab.ready();
        let seen = of_session(lab);
        let is_up = is_ready && seen.1 == "Established";
        answer.replace(seen);
        is_up
    });
    let after = answer.into_inner();
    assert_eq!((&before.0, &before.1), (&after.0, &after.1), "the session of {component}");
    assert!(after.2 >= before.2, "the session's time runs on: {before:?} {after:?}");
    assert_eq!(lab.kernel(), all, "{component}");
    converged(lab, all);
    (said["taken_over_ms"].as_u64().unwrap_or(0), wide(&said["octets"]).unwrap_or(0))
}

/// Resolves neighbors before anything is counted: neighbor discovery loses packets of its own.
fn warm_up(lab: &RouterLab, targets: &[String]) {
    let (first, last) = (targets.first().cloned(), targets.last().cloned()); // one of each family
    let targets: Vec<String> = first.into_iter().chain(last).collect();
    lab.until("packets arrive", |l| Traffic::start(&l.lab, "host", "feed", &targets).end().lost() == 0);
}

/// The feed withdraws the victim's part.
fn withdraw(lab: &RouterLab, victim: &str) {
    for family in ["ipv4", "ipv6"] {
        lab.birdc("feed", &format!("disable {victim}_{family}"));
    }
}

/// A component dies and stays dead, for its manager stands still, while the feed withdraws routes.
fn kill_component(lab: &RouterLab, component: &str, before: Count) {
    let (manager, pid) = (lab.pid("manager").unwrap(), lab.pid(component).unwrap());
    lab.signal("-STOP", manager);
    lab.kill(pid);
    withdraw(lab, component);
    assert_eq!(lab.kernel(), before, "{component} is dead: the kernel has what it had");
    lab.signal("-CONT", manager);
    lab.until(&format!("{component} is back"), |l| {
        l.ready() && l.pid(component).is_some_and(|new| new != pid && new != 0)
    });
}

/// The manager dies; routes withdrawn by the feed meanwhile leave the kernel without the manager. The next manager
/// adopts every process.
fn kill_manager(lab: &mut RouterLab, after: Count) {
    let others = ["bgp", "rib", "fea"];
    let before = others.map(|c| lab.pid(c));
    let flaps = lab.neighbor(FEED)["flaps"].clone();
    lab.kill(lab.pid("manager").unwrap());
    withdraw(lab, "manager");
    lab.until("routes are withdrawn without a manager", |l| l.kernel() == after);
    lab.lab.stop("sluice", true).unwrap();
    lab.lab.start("sluice").unwrap();
    lab.until("the router answers again", |l| l.ready() && l.established(FEED));
    assert_eq!(others.map(|c| lab.pid(c)), before, "processes are taken over, not started anew");
    assert_eq!(lab.neighbor(FEED)["flaps"], flaps, "the session lived on");
}

/// Checks that the counts agree: the feed, BGP, the RIB, the kernel.
fn converged(lab: &RouterLab, expected: Count) {
    let done = |l: &RouterLab| {
        l.established(FEED) && l.received(FEED) == expected && l.rib("bgp") == (expected, true)
    };
    lab.until_within(PATIENCE, &format!("BGP and the RIB have {expected:?}"), done);
    lab.until_within(PATIENCE, &format!("the kernel has {expected:?}"), |l| l.kernel() == expected);
    let said = lab.birdc("feed", "show protocols all sluice");
    for count in [expected.v4, expected.v6] {
        assert!(
            said.contains(&format!(" {count} exported")),
            "{count} is not what the feed exported: {said}"
        );
    }
}

/// Checks that no withdrawn route is left in the kernel.
fn no_trace(lab: &RouterLab, withdrawn: &RoutingTable) {
    for (family, all) in [("-4", &withdrawn.v4), ("-6", &withdrawn.v6)] {
        let gone: HashSet<IpPrefix> = all.iter().map(|a| a.prefix).collect();
        let text = lab.kernel_text(family);
        let stale: Vec<&str> =
            routes(&text).filter(|r| r.parse().is_ok_and(|prefix| gone.contains(&prefix))).collect();
        assert!(stale.is_empty(), "{} stale routes: {:?}", stale.len(), &stale[..stale.len().min(10)]);
    }
}
