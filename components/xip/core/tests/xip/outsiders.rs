//! Processes outside that decide for a type: packets wait for them, and whatever they do wrong harms their own type only.

use proptest::prelude::*;
use sluice_base::{Duration, Instant, Interface, InterfaceEvent, InterfaceIndex, Xid, XidPrefix, XidType};
use sluice_machine::{Machine, Outbox, Request};
use sluice_xip::anchor::Token;
use sluice_xip::counters::Reason;
use sluice_xip::io::{Gateway, Input, Output, Ping, RibRoute, Settings};
use sluice_xip::machine::Xip;
use sluice_xip::outside::OutsideAnswer;
use sluice_xip::outsiders::{MOST_TYPES, OutsideReason, PER_SECOND, RegisterError, Registration};
use sluice_xip::principals::catalog::CATALOG;
use sluice_xip::requests::{Answers, BATCH, BatchDone, Register, Statement, TakeBack, Unregister};
use sluice_xip::wire::{Dag, Mac};

const SID: XidType = XidType(0x13);
const CID: XidType = XidType(0x12);
const PATIENCE: Duration = Duration::from_millis(50);

/// A host with a link to the hosts 2 and 3.
struct World {
    xip: Xip<Vec<u64>>,
    now: Instant,
    /// The last octets of the link-layer addresses to which packets were sent.
    sent: Vec<u8>,
    asked: Vec<(XidType, Registration, Vec<Xid>)>,
    /// The last report on each route.
    refused: Vec<(XidPrefix, Option<String>)>,
}

fn xid(kind: XidType, octet: u8) -> Xid {
    Xid { kind, id: [octet; 20] }
}

fn exact(xid: Xid) -> XidPrefix {
    XidPrefix::of_type(xid.kind, xid.id, 160).unwrap()
}

fn hid(octet: u8) -> Xid {
    xid(XidType::HID, octet)
}

fn redirect(xid: Xid, octet: u8) -> Statement {
    Statement { xid, token: Token(u32::from(octet)), answer: OutsideAnswer::Redirect(hid(octet)) }
}

impl World {
    fn new() -> World {
        let xip = Xip::new(7, 0);
        let mut world = World { xip, now: Instant::ZERO, sent: vec![], asked: vec![], refused: vec![] };
        world.input(Input::Configure(settings(&["ad", "hid"])));
        let link = InterfaceIndex::new(1).unwrap();
        world.input(Input::Interface(InterfaceEvent::Changed(Interface {
            index: link,
            name: "a".into(),
            admin_up: true,
            running: true,
            loopback: false,
            point_to_point: false,
            multicast: true,
            mtu: 1500,
            mac: vec![2, 0, 0, 0, 0, 1],
            addresses: vec![],
        })));
        world.route(hid(1), Some(RibRoute::Local));
        for host in [2, 3] {
            let gateway = Xid::of_link_address([2, 0, 0, 0, 0, host]);
            let gateway = Gateway { xid: gateway, interface: Some(link), weight: 1 };
            world.route(hid(host), Some(RibRoute::Gateways(vec![gateway])));
        }
        world
    }

    fn carry_out(&mut self, mut out: Outbox<Output>) {
        for output in out.drain() {
            match output {
                Output::Send { to: sluice_xip::links::Station { mac: Mac(mac), .. }, .. } => {
                    self.sent.push(mac[5]);
                }
                Output::Ask { kind, registration, xids } => self.asked.push((kind, registration, xids)),
                Output::Refused(prefix, reason) => self.refused.push((prefix, reason)),
                _ => {}
            }
        }
    }

    fn input(&mut self, input: Input) {
        let mut out = Outbox::new();
        self.xip.handle(self.now, input, &mut out);
        self.carry_out(out);
    }

    fn request<R: Request<Xip<Vec<u64>>>>(&mut self, request: R) -> R::Answer {
        let mut out = Outbox::new();
        let answer = request.make(&mut self.xip, self.now, &mut out);
        self.carry_out(out);
        answer
    }

    fn route(&mut self, xid: Xid, route: Option<RibRoute>) {
        self.input(Input::Routes(vec![(exact(xid), route)]));
    }

    fn register(&mut self, kind: XidType) -> Registration {
        self.request(Register { kind }).unwrap()
    }

    fn answer(&mut self, registration: Registration, answers: &[Statement]) -> (u32, Option<OutsideReason>) {
        let kind = SID;
        self.request(Answers { kind, registration, answers: answers.to_vec() })
    }

    /// Sends a packet to an XID, with host 3 as the way if the XID leads nowhere. Returns the hosts to which packets were sent.
    fn ping(&mut self, to: Xid) -> Vec<u8> {
        let destination = Dag::any_way(to, &[hid(3)]).unwrap();
        self.input(Input::Ping(Ping { destination, hop_limit: 9, identifier: 1, sequence: 1, octets: 8 }));
        self.take_sent()
    }

    fn take_sent(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.sent)
    }

    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(deadline) = self.xip.next_deadline().filter(|deadline| *deadline <= end) {
            self.now = deadline;
            let mut out = Outbox::new();
            self.xip.on_deadline(self.now, &mut out);
            self.carry_out(out);
        }
        self.now = end;
    }

    fn count(&self, reason: OutsideReason) -> u64 {
        self.xip.outsiders().get(SID).unwrap().of(reason)
    }

    fn packets(&self, name: &str) -> u64 {
        self.xip.forwarding().counts().of(name)
    }
}

fn settings(principals: &[&str]) -> Settings {
    let rows = CATALOG.iter().filter(|row| principals.contains(&row.name));
    let principals = rows.map(|row| (row.number, row.name)).collect();
    let interfaces = [("a".into(), false)].into();
    Settings { interfaces, principals, consultations: 3, ..Settings::default() }
}

#[test]
fn a_packet_waits_for_the_answer_and_takes_the_way_that_it_names() {
    let mut world = World::new();
    assert_eq!(world.ping(xid(SID, 9)), [3], "without a process the next edge is taken");
    let process = world.register(SID);
    assert!(world.ping(xid(SID, 9)).is_empty());
    assert_eq!(world.asked, [(SID, process, vec![xid(SID, 9)])]);
    assert_eq!(world.answer(process, &[redirect(xid(SID, 9), 2)]), (0, None));
    assert_eq!(world.take_sent(), [2], "the packet that waited");
    assert_eq!(world.ping(xid(SID, 9)), [2]);
    // Taken back: asked again.
    world.request(BatchDone { kind: SID, registration: process, failed: vec![] });
    world.request(TakeBack { kind: SID, registration: process, tokens: vec![Token(2)] });
    assert!(world.ping(xid(SID, 9)).is_empty());
    let next = Statement { xid: xid(SID, 9), token: Token(0), answer: OutsideAnswer::NextEdge };
    world.answer(process, &[next]);
    assert_eq!((world.take_sent(), world.asked.len()), (vec![3], 2));
}

#[test]
fn a_process_that_hangs_costs_its_packets_the_limit_and_its_late_answer_counts() {
    let mut world = World::new();
    let process = world.register(SID);
    assert!(world.ping(xid(SID, 9)).is_empty());
    world.pass(PATIENCE - Duration::from_nanos(1));
    assert!(world.take_sent().is_empty());
    world.pass(Duration::from_nanos(1));
    assert_eq!((world.take_sent(), world.count(OutsideReason::Unanswered)), (vec![3], 1));
    assert_eq!(world.ping(xid(SID, 9)), [3], "packets of the same XID do not wait again");
    // The process takes nothing: further questions stay here, and only the first batch has left.
    for octet in 20..30 {
        assert!(world.ping(xid(SID, octet)).is_empty());
    }
    assert_eq!(world.asked.len(), 1);
    world.answer(process, &[redirect(xid(SID, 9), 2)]);
    assert_eq!((world.count(OutsideReason::Late), world.ping(xid(SID, 9))), (1, vec![2]));
    // The call fails after all. The XID is answered by now; the rest is asked in the next batch.
    world.request(BatchDone { kind: SID, registration: process, failed: vec![xid(SID, 9)] });
    assert_eq!(world.asked[1].2.len(), 10);
    assert_eq!(world.ping(xid(SID, 9)), [2]);
}

#[test]
fn questions_that_a_process_did_not_take_are_asked_again() {
    let mut world = World::new();
    let process = world.register(SID);
    assert!(world.ping(xid(SID, 9)).is_empty());
    world.request(BatchDone { kind: SID, registration: process, failed: vec![xid(SID, 9)] });
    // The packet was routed anew, and waits for the next question.
    assert_eq!((world.asked.len(), world.count(OutsideReason::NotTaken)), (2, 1));
    world.answer(process, &[redirect(xid(SID, 9), 2)]);
    assert_eq!(world.take_sent(), [2]);
    for _ in 0..5 {
        let _ = world.ping(xid(SID, 10));
        let failed = vec![xid(SID, 10)];
        world.request(BatchDone { kind: SID, registration: process, failed });
    }
    assert!(world.packets("waited-too-often") > 0, "a packet does not wait for ever");
}

#[test]
fn a_process_that_dies_leaves_its_type_to_the_next_edge_and_others_alone() {
    let mut world = World::new();
    let (process, other) = (world.register(SID), world.register(CID));
    assert!(world.ping(xid(SID, 9)).is_empty());
    assert!(world.ping(xid(CID, 9)).is_empty());
    world.request(Unregister { kind: SID, registration: process, has_died: true });
    assert_eq!(world.take_sent(), [3], "the packet that waited");
    assert_eq!(world.ping(xid(SID, 9)), [3]);
    assert_eq!((world.ping(hid(2)), world.count(OutsideReason::Died)), (vec![2], 1));
    let answers = vec![redirect(xid(CID, 9), 2)];
    world.request(Answers { kind: CID, registration: other, answers });
    assert_eq!(world.take_sent(), [2], "the other type's packet");
    // The dead process sends nothing any more; the next one does.
    assert_eq!(world.answer(process, &[redirect(xid(SID, 9), 2)]), (0, None));
    assert_eq!(world.ping(xid(SID, 9)), [3]);
    let next = world.register(SID);
    assert!(next > process);
    assert!(world.ping(xid(SID, 9)).is_empty());
    world.request(Unregister { kind: SID, registration: process, has_died: true });
    assert!(world.take_sent().is_empty(), "the end of an earlier process changes nothing");
    world.request(Unregister { kind: SID, registration: next, has_died: false });
    assert_eq!((world.take_sent(), world.xip.outsiders().get(SID).is_none()), (vec![3], true));
}

#[test]
fn lies_are_refused_by_their_reason_and_reach_no_other_type() {
    let mut world = World::new();
    let process = world.register(SID);
    assert!(world.ping(xid(SID, 9)).is_empty());
    let to_own_type = OutsideAnswer::Redirect(xid(SID, 10));
    let lies = [
        (redirect(xid(SID, 77), 2), OutsideReason::NotAsked),
        (redirect(hid(3), 2), OutsideReason::WrongType),
        (
            Statement { xid: xid(SID, 9), token: Token(1), answer: to_own_type },
            OutsideReason::SameTypeRedirect,
        ),
    ];
    for (lie, reason) in lies {
        assert_eq!(world.answer(process, &[lie]), (1, Some(reason)));
        assert_eq!(world.count(reason), 1, "{}", reason.name());
    }
    assert_eq!(world.ping(hid(3)), [3]);
    let wrong = Registration(99);
    assert_eq!(world.answer(wrong, &[redirect(xid(SID, 9), 2)]), (0, None));
    assert!(world.take_sent().is_empty(), "the packet still waits");
    world.answer(process, &[redirect(xid(SID, 9), 2)]);
    assert_eq!(world.take_sent(), [2]);
}

#[test]
fn redirects_in_a_circle_drop_the_packet_and_are_counted() {
    let mut world = World::new();
    let (process, other) = (world.register(SID), world.register(CID));
    assert!(world.ping(xid(SID, 9)).is_empty());
    let to = |target| OutsideAnswer::Redirect(target);
    world.answer(process, &[Statement { xid: xid(SID, 9), token: Token(1), answer: to(xid(CID, 9)) }]);
    assert_eq!(world.asked.last().unwrap().2, [xid(CID, 9)], "the packet waits for the second answer");
    let answers = vec![Statement { xid: xid(CID, 9), token: Token(1), answer: to(xid(SID, 9)) }];
    world.request(Answers { kind: CID, registration: other, answers });
    assert!(world.take_sent().is_empty());
    assert_eq!(world.xip.answers().router().counters().by_reason(Reason::RedirectLoop), 1);
}

#[test]
fn floods_are_bounded_and_counted() {
    let mut world = World::new();
    let process = world.register(SID);
    assert!(world.ping(xid(SID, 9)).is_empty());
    let flood = vec![redirect(xid(SID, 77), 2); PER_SECOND as usize];
    assert_eq!(world.answer(process, &flood).0, PER_SECOND);
    assert_eq!(world.answer(process, &flood[..5]), (5, Some(OutsideReason::TooMany)));
    assert_eq!(world.request(TakeBack { kind: SID, registration: process, tokens: vec![Token(1)] }), 1);
    world.now = world.now + Duration::from_secs(1);
    assert_eq!(world.answer(process, &[redirect(xid(SID, 9), 2)]), (0, None), "the next second");
    // Packets: few wait for one XID, and all of them together are bounded; a batch of questions is too.
    world.request(BatchDone { kind: SID, registration: process, failed: vec![] });
    for _ in 0..100 {
        let _ = world.ping(xid(SID, 10));
    }
    assert_eq!(world.packets("no-room-to-wait"), 100 - 16);
    for number in 0..2_000_u32 {
        let mut id = [0xee; 20];
        id[..4].copy_from_slice(&number.to_be_bytes());
        let _ = world.ping(Xid { kind: SID, id });
    }
    assert!(world.packets("waited") <= 512 + 1, "{}", world.packets("waited"));
    world.request(BatchDone { kind: SID, registration: process, failed: vec![] });
    assert_eq!(world.asked.last().unwrap().2.len(), BATCH);
    world.pass(PATIENCE);
    assert_eq!(world.take_sent(), [3; 512], "the packets that waited");
    assert_eq!(world.ping(hid(2)), [2]);
}

#[test]
fn built_in_and_taken_types_are_refused_and_types_are_bounded() {
    let mut world = World::new();
    let refusal = |world: &mut World, number| world.request(Register { kind: XidType(number) }).unwrap_err();
    assert_eq!(refusal(&mut world, 0), RegisterError::NotAType);
    for row in CATALOG {
        assert_eq!(refusal(&mut world, row.number.0), RegisterError::BuiltIn, "{}", row.name);
    }
    let first = world.register(SID);
    assert_eq!(refusal(&mut world, SID.0), RegisterError::Taken);
    for number in 1..MOST_TYPES as u32 {
        world.register(XidType(0x1000 + number));
    }
    assert_eq!(refusal(&mut world, 0x2000), RegisterError::Full);
    // A type whose process died makes room.
    world.request(Unregister { kind: SID, registration: first, has_died: true });
    world.register(XidType(0x2000));
    assert!(world.xip.outsiders().get(SID).is_none());
}

#[test]
fn routes_are_refused_while_no_principal_takes_them() {
    let mut world = World::new();
    let domain = xid(XidType::AD, 5);
    let to_host = || {
        let gateway = Gateway { xid: hid(2), interface: None, weight: 1 };
        Some(RibRoute::Gateways(vec![gateway]))
    };
    world.route(domain, to_host());
    assert_eq!((world.refused.len(), world.ping(domain)), (0, vec![2]));
    // A route that the principal does not take replaces one that it took.
    world.route(domain, Some(RibRoute::Discard));
    assert_eq!(world.refused.pop().unwrap().0, exact(domain));
    assert_eq!(world.ping(domain), [3], "the route before is gone");
    world.route(domain, to_host());
    assert_eq!(world.refused.pop(), Some((exact(domain), None)));
    // The principal goes and comes.
    world.input(Input::Configure(settings(&["hid"])));
    assert!(world.refused.pop().unwrap().1.unwrap().contains("no principal"));
    assert_eq!(world.xip.routes().filter(|(_, _, problem)| problem.is_some()).count(), 1);
    world.input(Input::Configure(settings(&["ad", "hid"])));
    assert_eq!(world.refused.pop(), Some((exact(domain), None)));
    // A route that is refused and removed leaves nothing behind.
    world.route(xid(SID, 1), to_host());
    assert!(world.refused.pop().unwrap().1.is_some());
    let process = world.register(SID);
    assert!(world.refused.pop().unwrap().1.unwrap().contains("no table"));
    world.route(xid(SID, 1), None);
    world.request(Unregister { kind: SID, registration: process, has_died: false });
    assert_eq!(world.refused.pop(), Some((exact(xid(SID, 1)), None)));
    assert!(world.refused.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Packets wait at most for the limit of each answer, whatever the processes do, and the host's own types route as before.
    #[test]
    fn whatever_processes_do_no_packet_stays(steps in prop::collection::vec((0..9_u8, 0..4_u8, 0..4_u8), 1..60)) {
        let mut world = World::new();
        let mut process = [SID, CID].map(|kind| world.register(kind));
        for (step, a, b) in steps {
            let which = usize::from(a & 1);
            let (kind, registration) = ([SID, CID][which], process[which]);
            let other = [CID, SID][which];
            match step {
                0..=2 => { let _ = world.ping(xid(kind, b)); }
                3 | 4 => {
                    let answer = match b {
                        0 => OutsideAnswer::NextEdge,
                        1 => OutsideAnswer::Redirect(xid(other, a)),
                        _ => OutsideAnswer::Redirect(hid(b)),
                    };
                    let answers = vec![Statement { xid: xid(kind, b), token: Token(a.into()), answer }];
                    world.request(Answers { kind, registration, answers });
                }
                5 => { world.request(TakeBack { kind, registration, tokens: vec![Token(b.into())] }); }
                6 => world.request(BatchDone { kind, registration, failed: vec![xid(kind, b)] }),
                7 => world.request(Unregister { kind, registration, has_died: a > 1 }),
                _ => {
                    if let Ok(registration) = world.request(Register { kind }) {
                        process[which] = registration;
                    }
                    world.pass(Duration::from_millis(u64::from(b) * 20));
                }
            }
        }
        world.pass(PATIENCE * 5);
        world.take_sent();
        prop_assert_eq!(world.ping(hid(2)), [2]);
        let kinds = [SID, CID];
        let waiting = kinds.iter().filter_map(|kind| world.xip.answers().router().registry().outside(*kind));
        prop_assert_eq!(waiting.map(|principal| principal.counts().0).sum::<usize>(), 0);
    }
}
