//! Policies as people get them wrong: each is refused whole, with line, reason and remedy.

use sluice_bgp_process::config;
use sluice_config::{ConfigText, Module, Schema};

const GOOD: &str = r#"policy {
    prefix-list customers {
        prefix [
            "192.0.2.0/24"
            "10.0.0.0/8 orlonger"
        ];
    }
    as-path from-customer { expression "65010 .*"; }
    community prefer { member [ 65000:100 65000:1:2 ]; }
    community any { member 65000:*; }
    policy-statement from-customer {
        term ok {
            from { prefix-list customers; as-path from-customer; local-preference 0-100; }
            then { local-preference 200; community-add prefer; call "mark value=7"; accept; }
        }
        term rest {
            then { reject; reason "not a customer's prefix"; }
        }
    }
    policy-statement mark {
        parameter value;
        term t { then { tag $value; med +10; } }
    }
    policy-statement of-the-rib {
        term t { from { distance 5; } then { distance 7; accept; } }
    }
}
protocols {
    bgp {
        local-as 65000;
        router-id 10.0.0.1;
        neighbor 10.0.0.2 {
            peer-as 65010;
            import from-customer;
        }
    }
}
"#;

fn check(text: &str) -> Result<(), String> {
    let schema =
        Schema::of(&[Module { name: "sluice-bgp", text: include_str!("../../../bgp.yang") }]).unwrap();
    let tree = schema.read("r.conf", text).map_err(|error| error.to_string())?;
    let part = schema.part("bgp", &tree).unwrap();
    let written = ConfigText { file: "r.conf".into(), text: text.into() };
    let refused = config::check(part).map(|reason| schema.refusal("bgp", &written, &reason).to_string());
    refused.map_or(Ok(()), Err)
}

#[test]
fn what_is_right_is_taken() {
    assert_eq!(check(GOOD), Ok(()));
    let facts = GOOD
        .replace("from { distance 5; } then { distance 7; accept; }", "from { route-present 10.0.0.0/8; } then { accept; }")
        .replace(
            "import from-customer;",
            "import [ from-customer of-the-rib ]; default-originate { while-present 10.1.2.3/8; policy of-the-rib; }",
        )
        .replace("neighbor 10", "network-while-present [ 10.0.0.0/8 2001:db8::/32 ]; neighbor 10");
    assert_eq!(check(&facts), Ok(()));
    assert_eq!(check(&GOOD.replace("import from-customer;", "default-originate;")), Ok(()));
    let own = GOOD.replace("local-preference 200", "next-hop self").replace("import from", "export from");
    assert_eq!(check(&own), Ok(()));
    let both = GOOD.replace("local-preference 200", "next-hop [ 192.0.2.1 2001:db8::1 ]");
    assert_eq!(check(&both), Ok(()));
}

/// A part of [`GOOD`] and its wrong replacement; the line, the part and the reason that the error names.
const WRONG: &[(&str, &str, usize, &str, &str)] = &[
    (r#""192.0.2.0/24""#, r#""192.0.2.1/24""#, 4, "192.0.2.1/24", "bits after"),
    (
        r#""10.0.0.0/8 orlonger""#,
        r#""10.0.0.0/8 upto /7""#,
        5,
        "10.0.0.0/8 upto /7",
        "the lengths of prefixes inside are /8 to /32",
    ),
    (r#""10.0.0.0/8 orlonger""#, r#""10.0.0.0/8 ge 16""#, 5, "10.0.0.0/8 ge 16", "PREFIX orlonger"),
    (r#""10.0.0.0/8 orlonger""#, r#""10.0.0.0/8 upto 24""#, 5, "10.0.0.0/8 upto 24", "PREFIX upto /N"),
    ("65000:100 65000:1:2", "65000:70000", 9, "65000:70000", "is no community: write 65000:100"),
    ("65000:100 65000:1:2", "no-exprot", 9, "no-exprot", "a well-known name such as no-export"),
    ("65010 .*", "^65010_", 8, "expression", "at character 1: expected an AS number, `.`, `[`, `(`"),
    ("65010 .*", "65010 (. *", 8, "expression", "expected `)`"),
    ("65010 .*", "(.* 65010 .{200})", 8, "expression", "more states"),
    ("65010 .*", "65010 .{300}", 8, "expression", "at most 255 repetitions"),
    ("prefix-list customers;", "prefix-list custmers;", 13, "custmers", "did you mean `customers`?"),
    (
        "as-path from-customer;",
        "as-path customer;",
        13,
        "customer",
        "there is no as-path `customer`; there are: from-customer",
    ),
    ("community-add prefer;", "community-add perfer;", 14, "perfer", "did you mean `prefer`?"),
    (
        "import from-customer;",
        "import from-costumer;",
        34,
        "from-costumer",
        "there is no policy-statement `from-costumer`; did you mean `from-customer`?",
    ),
    (
        "import from-customer;",
        "import mark;",
        34,
        "mark",
        "`mark` has parameters; use a policy without parameters that calls `mark`",
    ),
    (
        "import from-customer;",
        "export [ from-customer nothing ];",
        34,
        "nothing",
        "there is no policy-statement `nothing`",
    ),
    (
        "local-preference 200",
        "next-hop self",
        34,
        "from-customer",
        "`from-customer` has the action `next-hop self`, which is for routes to a neighbor",
    ),
    (
        "local-preference 200",
        "next-hop [ 192.0.2.1 192.0.2.2 ]",
        14,
        "next-hop",
        "one address of each family",
    ),
    (
        "import from-customer;",
        "default-originate { policy nothing; }",
        34,
        "nothing",
        "there is no policy-statement `nothing`",
    ),
    ("local-preference 200", "damping quick", 14, "damping", "there is no damping `quick`; there are: none"),
    (
        "import from-customer;",
        "add-path { policy nothing; }",
        34,
        "nothing",
        "there is no policy-statement `nothing`",
    ),
    (
        "router-id 10.0.0.1;",
        "router-id 10.0.0.1; network 192.0.2.0/24; network-while-present 192.0.2.0/24;",
        31,
        "192.0.2.0/24",
        "is in `network` too, which originates it in any case; delete one of the two",
    ),
    ("import from-customer;", "import of-the-rib;", 25, "distance", "there is no condition `distance`"),
    ("local-preference 0-100", "local-preference 100-0", 13, "100-0", "a range such as 100-199"),
    ("local-preference 0-100", "weight 70000", 13, "70000", "expected a number up to 65535"),
    (
        "local-preference 0-100",
        "local-preference $x",
        13,
        "$x",
        "`$x` is no parameter of this policy; its parameters: none",
    ),
    (
        "local-preference 200",
        "local-preference 4294967296",
        14,
        "local-preference",
        "expected a number up to 4294967295; +N adds",
    ),
    ("local-preference 200", "weight 65536", 14, "weight", "expected a number up to 65535"),
    (
        "community-add prefer;",
        "community-add any;",
        14,
        "community-add",
        "a route can get one without wildcards only",
    ),
    ("mark value=7", "mark", 14, "mark", "needs a value for its parameter: value=VALUE"),
    ("mark value=7", "mark vlaue=7", 14, "call", "did you mean `value`?"),
    ("mark value=7", "mrak value=7", 14, "call", "there is no policy `mrak`; did you mean `mark`?"),
    (
        "mark value=7",
        "from-customer",
        14,
        "call",
        "a policy cannot call itself: from-customer -> from-customer",
    ),
    ("tag $value", "tag $other", 22, "tag", "its parameters: value"),
    ("then { reject; reason", "then { reason", 17, "reason", "a reason is for `reject`"),
    (
        r#"call "mark value=7"; accept;"#,
        r#"call "mark value=7"; accept; reject;"#,
        14,
        "then",
        "exclude each other",
    ),
    ("tag $value; med +10;", "distance 7;", 22, "distance", "there is no action `distance`"),
    ("tag $value; med +10;", "next-hop 10.0.0;", 22, "10.0.0", "self | peer | unchanged | blackhole"),
];

#[test]
fn what_people_get_wrong_is_refused_with_line_and_remedy() {
    for &(right, wrong, line, pointed, said) in WRONG {
        assert_eq!(GOOD.matches(right).count(), 1, "{right}");
        let refused = check(&GOOD.replace(right, wrong)).expect_err(wrong);
        assert!(
            refused.starts_with(&format!("r.conf:{line}:")),
            "{wrong}: expected in line {line}\n{refused}"
        );
        assert!(refused.contains(said), "{wrong}: expected {said}\n{refused}");
        let mut shown = refused.lines().skip(1).map(|line| line.chars().skip(2));
        let (source, marks) = (shown.next().expect("the line"), shown.next().expect("the place"));
        let found: String = source
            .zip(marks.chain(std::iter::repeat(' ')))
            .filter(|(_, mark)| *mark == '^')
            .map(|(c, _)| c)
            .collect();
        assert_eq!(found.trim_matches('"'), pointed, "{wrong}:\n{refused}");
    }
}

#[test]
fn the_examples_of_the_reference_are_taken() {
    let reference = include_str!("../../../../../docs/policy.md");
    let mut examples = 0;
    for block in reference.split("```text\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        let whole = match block {
            block if block.starts_with("policy {") => block.to_owned(),
            block if block.starts_with("group ") => format!("protocols {{ bgp {{ {block} }} }}"),
            _ => continue,
        };
        let with_router = match whole.contains("local-as") {
            true => whole,
            false => format!("{whole}\nprotocols bgp local-as 65000;\nprotocols bgp router-id 10.0.0.1;\n"),
        };
        let known = "policy policy-statement from-customer;\npolicy policy-statement no-leaks;\npolicy policy-statement to-customer;\n";
        let with_policies =
            if with_router.contains("no-leaks") { format!("{known}{with_router}") } else { with_router };
        assert_eq!(check(&with_policies), Ok(()), "{with_policies}");
        examples += 1;
    }
    assert_eq!(examples, 6);
}
