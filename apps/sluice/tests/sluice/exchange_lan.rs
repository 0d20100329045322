//! A route server on the LAN of an exchange (RFC 7947): BIRD, FRR, OpenBGPD and scripted speakers are members, each with policies
//! of its own, with roles (RFC 9234) and BLACKHOLE (RFC 7999). Eight members; thirty in the long test. The daemons have sessions and
//! routes of IPv6 too.

use crate::SLUICE;
use crate::interop_matrix::proved;
use serde_json::Value;
use sluice_base::Ipv6Prefix;
use sluice_bgpsim::wire::attribute::code;
use sluice_bgpsim::wire::{Capability, WirePrefix};
use sluice_router_lab::lan::{FAMILIES, Family};
use sluice_router_lab::speaker::{Attr, End, Speaker, announcement, base, usual, value};
use sluice_router_lab::{RouterLab, possible_with_frr, share};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::Path;

const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The host to which members send packets that are to be dropped (RFC 7999, section 3.2).
const BLACKHOLE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 200);
const BLACKHOLE6: &str = "2001:db8::200";
/// The members that are daemons, by number; all others are scripted.
const DAEMONS: [(u8, &str); 3] = [(1, "bird"), (2, "frr"), (3, "openbgpd")];
/// The member that announces hosts, the member whose routes point to another member, and that other member.
const HOSTS: u8 = 4;
const POINTER: u8 = 5;
const TARGET: u8 = 6;
/// The member that announces a route which only customers may have.
const LEAKER: u8 = 7;
/// The role of a client of a route server, and of a customer (RFC 9234, section 4.1).
const RS_CLIENT: u8 = 2;
const CUSTOMER: u8 = 3;

fn address(member: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, 10 + member)
}

fn asn(member: u8) -> u32 {
    65000 + u32::from(member)
}

/// The prefix that a member announces.
fn prefix(member: u8) -> String {
    format!("10.100.{member}.0/24")
}

/// The address of a member in a family.
fn address_of(family: Family, member: u8) -> String {
    family.address(10 + member)
}

/// The IPv6 prefix that a daemon announces.
fn prefix6(member: u8) -> String {
    format!("2001:db8:64:{member}::/64")
}

/// The IPv6 host to which packets are to be dropped.
fn host6() -> String {
    format!("2001:db8:64:{HOSTS}::9/128")
}

/// An exchange of so many members.
#[derive(Clone, Copy)]
struct Exchange {
    members: u8,
}

impl Exchange {
    /// The member so many places after another one.
    fn after(self, member: u8, places: u8) -> u8 {
        (member - 1 + places) % self.members + 1
    }

    /// The last two members have the same export policy, every other member has its own.
    fn is_open(self, member: u8) -> bool {
        member + 1 >= self.members
    }

    /// The member that must not have a member's route: by the sender's community.
    fn excluded(self, sender: u8) -> u8 {
        self.after(sender, 1)
    }

    /// The member whose routes a member does not want: by the receiver's policy.
    fn unwanted(self, receiver: u8) -> u8 {
        self.after(receiver, 2)
    }

    /// Returns the prefixes that a member is sent.
    fn expected(self, receiver: u8) -> BTreeSet<String> {
        let is_open = self.is_open(receiver);
        let wanted = |sender: u8| sender != receiver && (is_open || self.unwanted(receiver) != sender);
        let senders = (1..=self.members).filter(|s| wanted(*s) && (is_open || self.excluded(*s) != receiver));
        let mut all: BTreeSet<String> = senders.map(prefix).collect();
        if wanted(HOSTS) {
            all.insert(format!("10.100.{HOSTS}.9/32"));
        }
        if receiver != POINTER && receiver != TARGET {
            all.insert(format!("10.101.{POINTER}.0/24"));
        }
        if receiver == HOSTS {
            all.extend(self.expected6(receiver));
        }
        all
    }

    /// Returns the IPv6 prefixes that a member with IPv6 is sent.
    fn expected6(self, receiver: u8) -> BTreeSet<String> {
        let wanted = |sender: u8| sender != receiver && self.unwanted(receiver) != sender;
        let senders = DAEMONS.iter().map(|(sender, _)| *sender);
        let mut all: BTreeSet<String> =
            senders.filter(|s| wanted(*s) && self.excluded(*s) != receiver).map(prefix6).collect();
        if wanted(HOSTS) {
            all.insert(host6());
        }
        all
    }

    /// The route server's configuration.
    fn config(self) -> String {
        let mut policy = String::from(
            "community blackhole { member blackhole; } community control { member [ 0:* ]; }\n\
             policy-statement to-open { term all { then { community-delete control; accept; } } }\n",
        );
        let mut neighbors = String::new();
        for member in 1..=self.members {
            let (own, own6) = (prefix(member), prefix6(member));
            write!(
                policy,
                "community not-{member} {{ member 0:{}; }}\n\
                 policy-statement from-{member} {{\n\
                 term blackhole {{ from {{ community blackhole; prefix [ \"{own} orlonger\" ]; prefix-length 32; }} \
                 then {{ next-hop {BLACKHOLE}; accept; }} }}\n\
                 term blackhole6 {{ from {{ community blackhole; prefix [ \"{own6} orlonger\" ]; prefix-length 128; }} \
                 then {{ next-hop {BLACKHOLE6}; accept; }} }}\n\
                 term own {{ from {{ prefix [ {own} 10.101.{member}.0/24 {own6} ]; }} then {{ accept; }} }}\n\
                 term rest {{ then {{ reject; reason \"not a prefix of the member\"; }} }} }}\n",
                asn(member)
            )
            .unwrap();
            let export = if self.is_open(member) {
                "to-open".to_owned()
            } else {
                let (unwanted, unwanted6) = (prefix(self.unwanted(member)), prefix6(self.unwanted(member)));
                write!(
                    policy,
                    "policy-statement to-{member} {{\n\
                     term excluded {{ from {{ community not-{member}; }} then {{ reject; }} }}\n\
                     term unwanted {{ from {{ prefix [ \"{unwanted} orlonger\" \"{unwanted6} orlonger\" ]; }} then {{ reject; }} }}\n\
                     term rest {{ then {{ community-delete control; accept; }} }} }}\n"
                )
                .unwrap();
                format!("to-{member}")
            };
            for family in FAMILIES {
                let is_daemon = DAEMONS.iter().any(|(daemon, _)| *daemon == member);
                if family == Family::Ipv6 && !is_daemon {
                    continue;
                }
                let both = if member == HOSTS { "ipv6-unicast { enabled true; }" } else { "" };
                writeln!(
                    neighbors,
                    "neighbor {} {{ group members; peer-as {}; import from-{member}; export {export}; {both} }}",
                    address_of(family, member),
                    asn(member)
                )
                .unwrap();
            }
        }
        let stranger = self.members + 1;
        format!(
            "policy {{\n{policy}}}\nprotocols {{ bgp {{ local-as 64500; router-id {ROUTER};\n\
             group members {{ connect-retry-time 1; transparent true; relationship route-server-client; }}\n{neighbors}\
             neighbor {} {{ group members; passive; peer-as {}; }}\n}} }}\n",
            address(stranger),
            asn(stranger)
        )
    }

    fn up(self, program: &Path) -> RouterLab {
        let node = |name: &str, hosts: &[u8], daemon: &str, config: &str| {
            let both = |host: &u8| FAMILIES.map(|f| format!("'{}/{}'", f.address(*host), f.pick(24, 64)));
            let addresses: Vec<String> = hosts.iter().flat_map(both).collect();
            let daemon = if daemon.is_empty() {
                String::new()
            } else {
                format!("daemon = '{daemon}'\nconfig = '''\n{config}'''\n")
            };
            format!(
                "[nodes.{name}]\n{daemon}[[links]]\na = 'lan:{name}'\nb = '{name}:lan'\nb_addresses = [{}]\n",
                addresses.join(", ")
            )
        };
        let scripted: Vec<u8> = (4..=self.members + 1).map(|member| 10 + member).collect();
        let mut text = "[nodes.lan]\ndaemon = 'switch'\n".to_owned();
        text += &node("sluice", &[1], "sluice", &self.config());
        text += &node("speakers", &scripted, "", "");
        for (member, daemon) in DAEMONS {
            text += &node(daemon, &[10 + member], daemon, &self.daemon(member, daemon));
        }
        RouterLab::up(&text.parse().unwrap(), program)
    }

    /// The configuration of a member that is a daemon: it announces its prefix with the community that excludes a member.
    fn daemon(self, member: u8, daemon: &str) -> String {
        let (own, own6, host, own_as) = (prefix(member), prefix6(member), address(member), asn(member));
        let excluded = asn(self.excluded(member));
        let router6 = Family::Ipv6.address(1);
        match daemon {
            "bird" => {
                let of_family = |name: &str, session: &str, own: &str, router: &str| {
                    format!(
                        "protocol static {{ {name}; route {own} blackhole {{ bgp_community.add((0,{excluded})); }}; }}\n\
                         protocol bgp {session} {{ local as {own_as}; neighbor {router} as 64500; local role rs_client;\n\
                         connect delay time 1; connect retry time 1; error wait time 1, 2;\n\
                         {name} {{ import all; export where source = RTS_STATIC; }}; }}\n"
                    )
                };
                format!(
                    "router id {host};\nprotocol device {{ }}\n{}{}",
                    of_family("ipv4", "sluice", &own, &ROUTER.to_string()),
                    of_family("ipv6", "sluice6", &own6, &router6)
                )
            }
            "frr" => {
                let session = |router: &str| {
                    format!(
                        " neighbor {router} remote-as 64500\n neighbor {router} timers connect 1\n\
                         \x20neighbor {router} local-role rs-client\n"
                    )
                };
                let routes = |name: &str, own: &str, router: &str| {
                    format!(
                        " address-family {name} unicast\n  network {own}\n  neighbor {router} activate\n\
                         \x20 neighbor {router} route-map OUT out\n exit-address-family\n"
                    )
                };
                let router = ROUTER.to_string();
                format!(
                    "route-map OUT permit 10\n set community 0:{excluded}\nexit\n\
                     router bgp {own_as}\n bgp router-id {host}\n no bgp ebgp-requires-policy\n no bgp network import-check\n\
                     \x20no bgp default ipv4-unicast\n{}{}{}{}",
                    session(&router),
                    session(&router6),
                    routes("ipv4", &own, &router),
                    routes("ipv6", &own6, &router6)
                )
            }
            _ => {
                let session = |router: &str| {
                    format!(
                        "neighbor {router} {{\n remote-as 64500\n announce policy rs-client\n enforce neighbor-as no\n}}\n"
                    )
                };
                format!(
                    "AS {own_as}\nrouter-id {host}\nfib-update no\nnexthop qualify via default\n\
                     network {own} set community 0:{excluded}\nnetwork {own6} set community 0:{excluded}\n\
                     {}{}allow from any\nallow to any\n",
                    session(&ROUTER.to_string()),
                    session(&router6)
                )
            }
        }
    }
}

/// Returns the prefixes of a family that a daemon has from the route server.
fn received(lab: &RouterLab, daemon: &str, family: Family, own: &str) -> BTreeSet<String> {
    let question = match daemon {
        "bird" => format!("show route protocol {}", family.pick("sluice", "sluice6")),
        "frr" => format!("show bgp {} unicast", family.name()),
        _ => "show rib".to_owned(),
    };
    let said = lab.lab.control(daemon, &question).unwrap_or_default();
    let begin = family.pick("10.10", "2001:db8:64:");
    let words = said.split_whitespace().filter(|word| word.starts_with(begin) && word.contains('/'));
    words.filter(|word| *word != own).map(String::from).collect()
}

/// Opens the session of a scripted member and announces the member's routes.
fn member(lab: &RouterLab, exchange: Exchange, member: u8) -> Speaker {
    let capabilities = [usual(asn(member)), vec![Capability::Role(RS_CLIENT)]].concat();
    let mut speaker = Speaker::connect(lab, "speakers", address(member), ROUTER, &capabilities);
    let communities = |all: &[[u16; 2]]| {
        Attr(0xc0, code::COMMUNITIES, all.iter().flatten().flat_map(|half| half.to_be_bytes()).collect())
    };
    let own = base(&[asn(member)], address(member));
    let excluded = asn(exchange.excluded(member)) as u16;
    let with = |more: &[Attr]| [own.clone(), more.to_vec()].concat();
    let med = Attr(0x80, code::MULTI_EXIT_DISC, vec![0, 0, 0, member]);
    speaker.announce(&with(&[med, communities(&[[0, excluded]])]), &[&prefix(member)]);
    if member == HOSTS {
        let host = |n: u8| format!("10.100.{HOSTS}.{n}/32");
        speaker.announce(&with(&[communities(&[[0xffff, 666]])]), &[&host(9), "10.100.3.9/32"]);
        speaker.announce(&own, &[&host(10)]);
        // The session carries IPv6 routes in the attributes (RFC 4760, section 3).
        let mut reach = vec![0, 2, 1, 16];
        reach.extend(address_of(Family::Ipv6, member).parse::<Ipv6Addr>().unwrap().octets());
        reach.push(0);
        host6().parse::<Ipv6Prefix>().unwrap().put(&mut reach);
        let attributes = with(&[Attr(0x80, code::MP_REACH_NLRI, reach), communities(&[[0xffff, 666]])]);
        let attributes: Vec<Attr> = attributes.into_iter().filter(|a| a.1 != code::NEXT_HOP).collect();
        speaker.update(&announcement(&attributes, &[]));
    }
    if member == POINTER {
        speaker.announce(&base(&[asn(member)], address(TARGET)), &[&format!("10.101.{member}.0/24")]);
    }
    if member == LEAKER {
        let mark = Attr(0xc0, code::ONLY_TO_CUSTOMER, asn(member).to_be_bytes().to_vec());
        speaker.announce(&with(&[mark]), &[&format!("10.101.{member}.0/24")]);
    }
    speaker
}

#[test]
fn each_member_has_what_its_policy_accepts() {
    let _share = share();
    check(8, Path::new(SLUICE));
}

#[test]
fn each_of_30_members_has_what_its_policy_accepts() {
    let program = sluice_testkit::long!("exchange lan");
    let _share = share();
    check(30, &program);
}

/// Checks the routes of all members of an exchange.
fn check(members: u8, program: &Path) {
    if !possible_with_frr() {
        return;
    }
    if std::process::Command::new("bgpd").arg("-V").output().is_err() {
        return sluice_testkit::skipped("OpenBGPD is not installed");
    }
    let exchange = Exchange { members };
    let lab = exchange.up(program);
    let mut speakers: BTreeMap<u8, Speaker> = (4..=members).map(|n| (n, member(&lab, exchange, n))).collect();
    for (number, speaker) in &mut speakers {
        let expected = exchange.expected(*number);
        speaker.until(&format!("routes of member {number}: {expected:?}"), |routes| {
            routes.keys().cloned().collect::<BTreeSet<_>>() == expected
        });
    }
    for (number, daemon) in DAEMONS {
        let expected = exchange.expected(number);
        lab.until(&format!("routes of {daemon}: {expected:?}"), |lab| {
            received(lab, daemon, Family::Ipv4, &prefix(number)) == expected
        });
        let expected = exchange.expected6(number);
        lab.until(&format!("routes of {daemon}: {expected:?}"), |lab| {
            received(lab, daemon, Family::Ipv6, &prefix6(number)) == expected
        });
    }
    // Routes come as the other member announced them, but for control communities, the host for packets to drop, and the mark for
    // customers, which this route server is the first to add.
    for (number, speaker) in &speakers {
        for (prefix, route) in speaker.routes.iter().filter(|(prefix, _)| prefix.contains('.')) {
            let sender: u8 = prefix.split('.').nth(2).unwrap().parse().unwrap();
            let is_host = prefix.ends_with("/32");
            let hop = match prefix.as_str() {
                _ if is_host => BLACKHOLE,
                of_pointer if of_pointer.starts_with("10.101.") => address(TARGET),
                _ => address(sender),
            };
            let what = format!("{prefix} at member {number}: {route:?}");
            assert_eq!(value(route, code::NEXT_HOP), Some(&hop.octets()[..]), "{what}");
            let path = [vec![2, 1], asn(sender).to_be_bytes().to_vec()].concat();
            assert_eq!(value(route, code::AS_PATH), Some(&path[..]), "{what}");
            assert_eq!(value(route, code::ONLY_TO_CUSTOMER), Some(&64500_u32.to_be_bytes()[..]), "{what}");
            let communities = value(route, code::COMMUNITIES);
            assert_eq!(communities, is_host.then_some(&[0xff, 0xff, 2, 154][..]), "{what}");
            let is_plain = sender > 3 && prefix.starts_with("10.100.") && !is_host;
            assert!(!is_plain || value(route, code::MULTI_EXIT_DISC) == Some(&[0, 0, 0, sender]), "{what}");
        }
    }
    for host in [format!("10.100.{HOSTS}.9/32"), host6()] {
        let said = lab.lab.control("bird", &format!("show route all {host}")).unwrap();
        assert!(said.contains("BGP.community: (65535,666)") && said.contains("BGP.otc: 64500"), "{said}");
    }
    let said = lab.lab.control("bird", &format!("show route all {}", prefix6(2))).unwrap();
    let hop = format!("BGP.next_hop: {}", address_of(Family::Ipv6, 2));
    assert!(said.contains("BGP.as_path: 65002\n") && said.contains(&hop), "{said}");
    // As many export views as policies.
    let tables = lab.ask(&["show", "bgp", "groups"])["tables"].clone();
    let table = tables.as_array().unwrap().iter().find(|table| table["family"] == "ipv4").unwrap();
    let views = table["groups"].as_array().unwrap().iter().map(|group| {
        let all = group["members"].as_array().unwrap().iter();
        all.map(|member| member.as_str().unwrap().parse().unwrap()).collect::<BTreeSet<Ipv4Addr>>()
    });
    let views: BTreeSet<_> = views.filter(|view| !view.is_empty()).collect();
    let mut expected: BTreeSet<_> = (1..members - 1).map(|n| BTreeSet::from([address(n)])).collect();
    expected.insert(BTreeSet::from([address(members - 1), address(members)]));
    assert_eq!(views, expected, "{table}");
    // The member to which a route points gets the reason why it lacks the route; the leak counts.
    let cause = |prefix: &str, to: u8| -> Value {
        lab.ask(&["explain", prefix, "to", &address(to).to_string()])["cause"].clone()
    };
    let text = cause(&format!("10.101.{POINTER}.0/24"), TARGET);
    assert!(text.as_str().unwrap_or_default().contains("next hop"), "{text}");
    assert_eq!(sluice_load::wide(&lab.neighbor(&address(LEAKER).to_string())["leaks"]), Some(1));
    // Whoever has another role is refused (RFC 9234, section 4.2).
    let stranger = members + 1;
    let capabilities = [usual(asn(stranger)), vec![Capability::Role(CUSTOMER)]].concat();
    let end = Speaker::refused(&lab, "speakers", address(stranger), ROUTER, &capabilities);
    assert!(matches!(&end, End::Notification(n) if (n.code, n.subcode) == (2, 11)), "{end:?}");
    // A member that leaves takes its routes with it, and nobody else's.
    drop(speakers.remove(&members).unwrap());
    for (number, speaker) in &mut speakers {
        let mut expected = exchange.expected(*number);
        expected.remove(&prefix(members));
        speaker.until("the routes without those of a member that left", |routes| {
            routes.keys().cloned().collect::<BTreeSet<_>>() == expected
        });
        // The update group does not know whether the member had another route before the one that points to the member.
        let may_go = |withdrawn: &String| {
            *withdrawn == prefix(members)
                || *number == TARGET && *withdrawn == format!("10.101.{POINTER}.0/24")
        };
        assert!(speaker.withdrawals.keys().all(may_go), "{:?}", speaker.withdrawals);
    }
    proved("route server (RFC 7947)", &["BIRD", "FRR", "OpenBGPD"]);
    proved("roles and ONLY_TO_CUSTOMER (RFC 9234)", &["BIRD"]);
    proved("BLACKHOLE (RFC 7999)", &["BIRD"]);
}
