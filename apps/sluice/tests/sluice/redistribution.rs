//! Static and connected routes go into BGP, beside BIRD as the neighbor: none is lost and none is left over, whichever process is
//! killed, and policies of the RIB decide on them without asking anybody for the routes again.

use crate::SLUICE;
use serde_json::Value;
use sluice_base::Rng;
use sluice_router_lab::bird::{at_bird, commit, kill, until_at_bird, withdrawals};
use sluice_router_lab::{RouterLab, possible, runs, share};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

const TOPOLOGY: &str = r#"
[nodes.bird]
daemon = 'bird'
config = '''
router id 10.1.0.2;
protocol device { }
protocol static { ipv4; route 192.0.2.0/24 blackhole; }
protocol bgp sluice {
    local 10.1.0.2 as 64501; neighbor 10.1.0.1 as 64500; graceful restart off;
    connect delay time 1; connect retry time 1; error wait time 1, 2;
    ipv4 { import all; export where source = RTS_STATIC; };
    ipv6 { import all; export none; };
}
'''
[nodes.sluice]
daemon = 'sluice'
config = '''
policy {
    policy-statement local {
        term tagged { from { tag 7; } then { reject; reason "only for this router"; } }
        term costly { from { metric 20; } then { tag 8; } }
    }
    policy-statement to-bgp {
        term costly { from { protocol static; tag 8; } then { med 77; accept; } }
        term other { then { med 7; } }
    }
}
rib { origin static { import [ local ]; } }
protocols {
    static {
        route 198.51.100.0/24 { discard; }
        route 203.0.113.0/24 { discard; tag 7; }
        route 100.64.0.0/24 { next-hop 10.1.0.2; metric 20; }
        route 2001:db8:77::/48 { discard; }
    }
    bgp {
        local-as 64500; router-id 10.0.0.1; default-policy accept;
        redistribute static { policy to-bgp; } redistribute connected;
        neighbor 10.1.0.2 { peer-as 64501; connect-retry-time 1; ipv6-unicast enabled; }
    }
}
'''
[[links]]
a = 'sluice:bird'
b = 'bird:sluice'
a_addresses = ['10.1.0.1/24', '2001:db8:1::1/64']
b_addresses = ['10.1.0.2/24', '2001:db8:1::2/64']
"#;

/// The route of an origin in the RIB.
fn in_rib(lab: &RouterLab, prefix: &str, origin: &str) -> Value {
    let routes = lab.ask(&["show", "routes", prefix]);
    let mut all = routes["routes"].as_array().cloned().unwrap_or_default().into_iter();
    all.find(|route| route["origin"] == origin).unwrap_or_default()
}

#[test]
fn routes_of_other_protocols_go_into_bgp() {
    let _share = share();
    if !possible() {
        return;
    }
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), Path::new(SLUICE));
    lab.until("the session is up", |l| l.established("10.1.0.2"));
    let connected = ["10.1.0.0/24", "2001:db8:1::/64"];
    let with = |more: &[&'static str]| -> Vec<&str> { connected.iter().chain(more).copied().collect() };
    let all = with(&["198.51.100.0/24", "100.64.0.0/24", "2001:db8:77::/48"]);
    until_at_bird(&lab, "BIRD has the routes of both origins, but for the rejected one", &all);
    let rejected = in_rib(&lab, "203.0.113.0/24", "static");
    let reason = "only for this router (policy local, term tagged)";
    assert_eq!(rejected["rejected_by_policy"], reason, "{rejected}");
    assert_eq!(in_rib(&lab, "100.64.0.0/24", "static")["tags"][0], 8);

    // The RIB's policy added the tag that BGP's policy asks for.
    let med = |prefix: &str| {
        let shown = lab.birdc("bird", &format!("show route {prefix} all"));
        shown.lines().find_map(|line| Some(line.split_once("BGP.med: ")?.1.to_string()))
    };
    assert_eq!(["100.64.0.0/24", "198.51.100.0/24"].map(med), [Some("77".into()), Some("7".into())]);

    // A RIB that is killed costs the neighbor nothing: BGP keeps the routes until the next RIB has sent its own.
    let mut before = withdrawals(&lab);
    kill(&lab, "rib");
    lab.until("the RIB has its routes", |l| in_rib(l, "198.51.100.0/24", "static")["selected"] == true);
    // Something that comes after all of them.
    commit(&lab, "set protocols static route 198.51.101.0/24 discard");
    let more = [&all[..], &["198.51.101.0/24"]].concat();
    until_at_bird(&lab, "BIRD has one more", &more);
    assert_eq!(withdrawals(&lab), before, "none was withdrawn meanwhile");

    // Nor does a process that hands over to the next one.
    for (component, prefix) in
        [("rib", "198.51.110.0/24"), ("bgp", "198.51.111.0/24"), ("static", "198.51.112.0/24")]
    {
        let done = lab.cli(&["restart", component]);
        assert!(done.status.success(), "{component}: {}", String::from_utf8_lossy(&done.stdout));
        commit(&lab, &format!("set protocols static route {prefix} discard"));
        until_at_bird(&lab, "BIRD has one more", &[&more[..], &[prefix]].concat());
        assert_eq!(withdrawals(&lab), before, "{component} restarted unnoticed");
        commit(&lab, &format!("delete protocols static route {prefix}"));
        until_at_bird(&lab, "BIRD has one less", &more);
        before = withdrawals(&lab);
    }

    // What goes while there is no RIB is not left over.
    let pid = lab.pid("rib").unwrap();
    lab.kill(pid);
    commit(&lab, "delete protocols static route 198.51.101.0/24");
    until_at_bird(&lab, "BIRD has one less", &all);

    kill(&lab, "bgp");
    lab.until("the session is up again", |l| l.established("10.1.0.2"));
    until_at_bird(&lab, "BIRD has all routes again", &all);
    kill(&lab, "static");
    commit(&lab, "set protocols static route 198.51.102.0/24 discard");
    until_at_bird(&lab, "BIRD has another one", &[&all[..], &["198.51.102.0/24"]].concat());
    commit(&lab, "delete protocols static route 198.51.102.0/24");
    until_at_bird(&lab, "BIRD has all routes", &all);

    // Another policy: the static process is not asked, and has not said anything.
    commit(&lab, "delete rib");
    until_at_bird(&lab, "BIRD has the rejected route too", &[&all[..], &["203.0.113.0/24"]].concat());
    assert_eq!(in_rib(&lab, "203.0.113.0/24", "static")["rejected_by_policy"], Value::Null);
    commit(&lab, "set rib origin static import local");
    until_at_bird(&lab, "BIRD has the others", &all);
    let refused = lab.cli(&["configure", "set rib origin static import locale", "commit"]);
    let text =
        String::from_utf8_lossy(&refused.stdout).into_owned() + &String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && text.contains("did you mean `local`"), "{text}");

    // The neighbor's own route, which a static route replaces for a while.
    lab.until("BGP's route is used", |l| in_rib(l, "192.0.2.0/24", "bgp")["selected"] == true);
    let statements = [
        "set policy policy-statement from-bgp term outside from route-type external",
        "set policy policy-statement from-bgp term outside from table 254",
        "set policy policy-statement from-bgp term outside then distance +10",
        "set rib origin bgp import from-bgp",
    ];
    let done = lab.cli(&[&["configure"][..], &statements, &["commit"]].concat());
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    lab.until("BGP's route has another distance", |l| in_rib(l, "192.0.2.0/24", "bgp")["distance"] == 30);
    commit(&lab, "set protocols static route 192.0.2.0/24 discard");
    until_at_bird(&lab, "BIRD has its own prefix from here", &[&all[..], &["192.0.2.0/24"]].concat());
    commit(&lab, "delete protocols static route 192.0.2.0/24");
    until_at_bird(&lab, "BIRD has it no more", &all);
    lab.until("BGP's route is used again", |l| in_rib(l, "192.0.2.0/24", "bgp")["selected"] == true);

    commit(&lab, "delete protocols bgp redistribute static");
    until_at_bird(&lab, "only the connected routes are left", &connected);
    commit(&lab, "delete protocols bgp redistribute connected");
    until_at_bird(&lab, "none is left", &[]);
}

/// The longest time until BIRD has the right routes: the RIB waits for origins, and the manager before it starts what dies often.
const PATIENCE: Duration = Duration::from_secs(120);
/// Steps of a random life, in the short test and in the long one.
const STEPS: u64 = 12;
const LONG_STEPS: u64 = 150;
/// The most kills of a component: one that dies more than ten times within ten minutes is tried every five minutes only.
const MOST_KILLS: u32 = 8;
/// After so many steps BIRD must have the right routes.
const STEPS_BETWEEN_CHECKS: u64 = 3;

/// The number of the first route that marks a check; lower ones are for the steps.
const FIRST_MARK: u64 = 10;

/// The state of a random life: the static routes that are configured, by number, with true for a tagged one, and whether the
/// RIB's policy is in force.
struct State {
    statics: BTreeMap<u64, bool>,
    has_policy: bool,
    /// The kills of each component.
    kills: BTreeMap<&'static str, u32>,
}

impl State {
    fn expected(&self) -> BTreeSet<String> {
        let passes = |is_tagged: bool| !(is_tagged && self.has_policy);
        let statics = self.statics.iter().filter(|(_, tagged)| passes(**tagged));
        let connected = ["10.1.0.0/24", "2001:db8:1::/64"].map(String::from);
        statics.map(|(n, _)| format!("198.18.{n}.0/24")).chain(connected).collect()
    }

    /// Does something at random, and returns its description.
    fn step(&mut self, lab: &RouterLab, rng: &mut Rng) -> String {
        let component = ["rib", "bgp", "static"][rng.below(3) as usize];
        let n = rng.below(6);
        let words = match rng.below(8) {
            0 | 1 if self.kills.get(component).is_none_or(|kills| *kills < MOST_KILLS) => {
                *self.kills.entry(component).or_default() += 1;
                let pid = lab.pid(component).filter(|pid| *pid != 0);
                pid.filter(|pid| runs(*pid)).into_iter().for_each(|pid| lab.signal("-9", pid));
                return format!("kill {component}");
            }
            0..=2 => {
                lab.until("the router is ready", RouterLab::ready);
                let done = lab.cli(&["restart", component]);
                assert!(done.status.success(), "{component}: {}", String::from_utf8_lossy(&done.stdout));
                return format!("restart {component}");
            }
            3 => {
                self.has_policy = !self.has_policy;
                let words = if self.has_policy { "set rib origin static import local" } else { "delete rib" };
                words.to_string()
            }
            4 if self.statics.remove(&n).is_some() => {
                format!("delete protocols static route 198.18.{n}.0/24")
            }
            5 if self.statics.get(&n) == Some(&true) => {
                self.statics.insert(n, false);
                format!("delete protocols static route 198.18.{n}.0/24 tag")
            }
            6 if self.statics.get(&n) == Some(&false) => {
                self.statics.insert(n, true);
                format!("set protocols static route 198.18.{n}.0/24 tag 7")
            }
            _ => {
                self.statics.entry(n).or_insert(false);
                format!("set protocols static route 198.18.{n}.0/24 discard")
            }
        };
        commit(lab, &words);
        words
    }
}

#[test]
fn whatever_happens_bird_has_the_right_routes_in_the_end() {
    let _share = share();
    if possible() {
        live(Path::new(SLUICE), STEPS);
    }
}

#[test]
fn whatever_happens_for_long_bird_has_the_right_routes_in_the_end() {
    let program = sluice_testkit::long!("redistribution");
    let _share = share();
    if possible() {
        live(&program, LONG_STEPS);
    }
}

/// Makes random changes, and compares BIRD's routes with the expected ones.
fn live(program: &Path, steps: u64) {
    let seed = std::env::var("SLUICE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(2005);
    let mut rng = Rng::from_seed(seed);
    let lab = RouterLab::up(&TOPOLOGY.parse().unwrap(), program);
    lab.until("the session is up", |l| l.established("10.1.0.2"));
    for route in ["198.51.100.0/24", "203.0.113.0/24", "100.64.0.0/24", "2001:db8:77::/48"] {
        commit(&lab, &format!("delete protocols static route {route}"));
    }
    let mut state = State { statics: BTreeMap::new(), has_policy: true, kills: BTreeMap::new() };
    let mut done = Vec::new();
    for n in 1..=steps {
        done.push(state.step(&lab, &mut rng));
        if n.is_multiple_of(STEPS_BETWEEN_CHECKS) {
            lab.until_within(PATIENCE, "the router is ready", RouterLab::ready);
            // A route of its own for each check comes through all processes after what was before.
            state.statics.insert(FIRST_MARK + n, false);
            commit(&lab, &format!("set protocols static route 198.18.{}.0/24 discard", FIRST_MARK + n));
            let began = Instant::now();
            let is_so = sluice_lab::until(PATIENCE, || at_bird(&lab) == state.expected());
            println!("{:?} after {:?}", began.elapsed(), done.split_off(0));
            let (expected, found) = (state.expected(), at_bird(&lab));
            assert!(is_so, "seed {seed}, step {n}: expected {expected:?}, found {found:?}");
        }
    }
    // The RIB that was started last has removed what it does not know: it reports that after a while.
    lab.until_within(PATIENCE, "the engine agrees with the last RIB", |lab| {
        let log = lab.whole_log();
        log.rfind("the engine agrees with the RIB") > log.rfind("sending the FEA all routes")
    });
    let is_so = sluice_lab::until(PATIENCE, || at_bird(&lab) == state.expected());
    assert!(is_so, "seed {seed}: expected {:?}, found {:?}", state.expected(), at_bird(&lab));
}
