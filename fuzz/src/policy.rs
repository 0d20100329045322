//! Policies: configured texts through the compiler, and any instructions through the verifier and the machine.

use sluice_policy::as_path::{Automaton, Expression};
use sluice_policy::community::{Kind, Member};
use sluice_policy::prefix_list::PrefixRange;
use sluice_policy::program::{Change, Constants, Fact, Instruction, Program, Test};
use sluice_policy::source::Policies;
use sluice_policy::vocabulary::{Reads, Type, Variable};
use sluice_policy::{Draft, PolicySet, Route};

const VARIABLES: &[Variable] = &[
    Variable { name: "metric", values: Type::Number(1000), is_writable: true, reads: Reads::Attributes },
    Variable {
        name: "origin",
        values: Type::Name(&["igp", "egp"]),
        is_writable: true,
        reads: Reads::Attributes,
    },
    Variable { name: "group", values: Type::Text, is_writable: false, reads: Reads::Neighbor },
    Variable { name: "neighbor", values: Type::Address, is_writable: false, reads: Reads::Neighbor },
    Variable { name: "next-hop", values: Type::Address, is_writable: false, reads: Reads::Attributes },
    Variable {
        name: "neighbor-as",
        values: Type::Number(u32::MAX),
        is_writable: false,
        reads: Reads::Neighbor,
    },
];

/// A route whose attributes are any octets.
fn route(octets: &[u8]) -> Draft {
    let mut route = Draft::new("192.0.2.0/24".parse().expect("a prefix"));
    route.as_path = octets.to_vec();
    route.communities.insert(Kind::Standard, octets.to_vec());
    route.communities.insert(Kind::Large, octets.to_vec());
    route.addresses.insert(3, [192, 0, 2, 1].into());
    route.numbers.insert(5, octets.iter().fold(0, |asn: u32, octet| asn.rotate_left(5) ^ u32::from(*octet)));
    route
}

/// The configured subtree as JSON: what compiles runs, and what does not compile has an error with a place.
pub fn source(octets: &[u8]) {
    let Ok(policies) = serde_json::from_slice::<Policies>(octets) else { return };
    match PolicySet::compile(&policies, VARIABLES) {
        Ok(set) => {
            for (_, program) in set.iter() {
                program.run(&mut route(octets));
                let mut route = route(octets);
                program.bind(&route.clone()).run(&mut route);
            }
        }
        Err(error) => assert!(!error.place.is_empty() && error.to_string().starts_with("policy ")),
    }
}

/// Entries of lists: what is read is written and read again.
pub fn texts(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    if let Ok(range) = text.parse::<PrefixRange>() {
        assert_eq!(range.to_string().parse(), Ok(range));
    }
    if let Ok(pattern) = text.parse::<Member>() {
        assert_eq!(pattern.to_string().parse(), Ok(pattern));
    }
    if let Ok(expression) = text.parse::<Expression>()
        && let Ok(automaton) = Automaton::new(&expression)
    {
        automaton.matches(octets);
    }
}

/// Any instructions: what is verified runs to its end.
pub fn instructions(octets: &[u8]) {
    let constants = Constants {
        ranges: vec![vec![(1, 2)]],
        texts: vec!["no".into()],
        text_sets: vec![vec!["a".into()]],
        sequences: vec![vec![65001]],
        facts: vec![Fact::RoutePresent("192.0.2.0/24".parse().expect("a prefix"))],
        communities: vec![Default::default()],
        automata: vec![Automaton::new(&".*".parse().expect("an expression")).expect("small")],
        ..Constants::default()
    };
    let code: Vec<Instruction> = octets.chunks_exact(4).map(instruction).collect();
    if let Ok(program) = Program::verified(code, constants, VARIABLES) {
        let mut steps = 0;
        let mut subject = route(octets);
        program.run_observed(&mut subject, |_, _| steps += 1);
        assert!(steps <= program.len());
        let metric = subject.number(0);
        assert!(metric.is_none_or(|metric| metric <= 1000), "{metric:?}");
    }
}

fn instruction(octets: &[u8]) -> Instruction {
    let [kind, a, b, c] = [octets[0], octets[1], octets[2], octets[3]];
    let index = u16::from(b & 1);
    let test = match a % 9 {
        0 => Test::PrefixIn(index),
        1 => Test::NumberIn(a >> 6, index),
        2 => Test::TextIn(a >> 6, index),
        3 => Test::AddressIn(a >> 6, index),
        4 => Test::PathIs(index),
        5 => Test::AnyCommunity(index),
        6 => Test::AllCommunities(index),
        7 => Test::AddressInOrPeer(a >> 6, index),
        _ => Test::Fact(index),
    };
    let value = u32::from(c) * 8;
    let change = match a % 9 {
        0 => Change::Set(a >> 6, value),
        1 => Change::Add(a >> 6, value),
        2 => Change::Subtract(a >> 6, value),
        3 => Change::AddCommunities(index),
        4 => Change::DeleteCommunities(index),
        5 => Change::ReplaceCommunities(index),
        6 => Change::Prepend(index),
        7 => Change::ReplaceAs(index, value),
        _ => Change::RemovePrivateAs,
    };
    match kind % 6 {
        0 => Instruction::Check { test, expected: b & 2 != 0, otherwise: c.into() },
        1 | 2 => Instruction::Change(change),
        3 => Instruction::Jump(c.into()),
        4 => Instruction::Accept,
        _ => Instruction::Reject((b & 1 == 0).then_some(index)),
    }
}

/// Subtrees that compile.
pub fn sources() -> Vec<Vec<u8>> {
    let one = r#"{"prefix-list": [{"name": "c", "prefix": ["192.0.2.0/24", "10.0.0.0/8 upto /24"]}],
        "as-path": [{"name": "a", "expression": "65001 .*|[1-9]{2}"}],
        "community": [{"name": "m", "member": ["65000:*", "1:2:3", "rt:1:2"]}, {"name": "n", "member": ["1:1", "1:peer-as"]}],
        "policy-statement": [{"name": "p", "term": [
            {"name": "1", "from": {"prefix-list": "c", "metric": "1-9", "next-hop": ["peer"]}, "except": {"as-path": ["a"]},
             "then": {"metric": "+5", "community-delete": "m", "community-add": "n", "as-path-prepend": "1 1", "call": "q x=7"}},
            {"name": "2", "then": {"reject": [null], "reason": "no"}}]},
          {"name": "q", "parameter": ["x"], "term": [{"name": "1", "then": {"metric": "$x", "accept": [null]}}]}]}"#;
    vec![one.as_bytes().to_vec(), b"{}".to_vec()]
}

/// Entries of every kind.
pub fn entries() -> Vec<Vec<u8>> {
    let all = [
        "10.0.0.0/8 prefix-length-range /16-/24",
        "65000:1-9",
        "rt:192.0.2.1:*",
        "*:peer-as:1",
        "(1 2-3)+ [^4 5]? .{0,3}|()",
    ];
    all.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Programs that are valid.
pub fn programs() -> Vec<Vec<u8>> {
    vec![vec![0, 4, 2, 3, 1, 0, 0, 9, 3, 0, 0, 4, 5, 0, 0, 0, 4, 0, 0, 0], vec![4, 0, 0, 0]]
}
