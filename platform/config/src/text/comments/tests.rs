//! Tests of comments carried over.

use super::*;
use proptest::prelude::*;

#[track_caller]
fn check(old: &str, new: &str, expected: &str) {
    assert_eq!(carry(old, new, &mut KeptComments::default()), expected);
}

const NEW: &str = "a {\n    b 2;\n    c \"x y\" {\n        d true;\n    }\n}\n";

#[test]
fn comments_stay_with_their_statements() {
    check("a { b 1; }\n", NEW, NEW);
    check(
        "# The head,\n# of two lines.\n\n# Before a.\na {\n  # Two\n  // lines.\n  b 1; # behind b\n  # gone\n  gone 1;\n  /* c */ c \"x y\" { # behind c\n    d; }\n  # last\n}\n",
        NEW,
        "# The head,\n# of two lines.\n\n# Before a.\na {\n    # Two\n    // lines.\n    b 2; # behind b\n    /* c */\n    c \"x y\" { # behind c\n        d true;\n    }\n    # last\n}\n",
    );
    check(
        "# of b\nset a b 1\nset a c \"x y\" d true # behind d\n",
        NEW,
        "a {\n    # of b\n    b 2;\n    c \"x y\" {\n        d true; # behind d\n    }\n}\n",
    );
}

#[test]
fn comments_of_lists_and_ends_stay() {
    check(
        "a {\n  export [ x y ]; # who gets it\n}\n# the end\n",
        "a {\n    b 1;\n    export [ w x y ];\n}\n",
        "a {\n    b 1;\n    export [ w x y ]; # who gets it\n}\n# the end\n",
    );
    check("export x; # one\n", "export [ x y ];\n", "export [ x y ]; # one\n");
    check("export [ x y ]; # two\n", "export x;\n", "export x; # two\n");
}

#[test]
fn comments_come_back_with_their_statements() {
    let mut kept = KeptComments::default();
    let whole = "# of a\na 1; # behind a\nb {\n    c 2; # of c\n}\n";
    let without = carry(whole, "b {\n    d 3;\n}\n", &mut kept);
    assert_eq!(without, "b {\n    d 3;\n}\n");
    let mut again = KeptComments::parse(&kept.text());
    assert_eq!(again, kept);
    assert_eq!(carry(&without, "a 1;\nb {\n    c 2;\n}\n", &mut again), whole);
    assert_eq!(again, KeptComments::default());
    // A statement that is written without a comment has none.
    assert_eq!(carry("a 1;\n", "a 1;\n", &mut kept), "a 1;\n");
    assert_eq!(KeptComments::parse("{"), KeptComments::default());
    // Nothing that is no comment comes into a configuration by a damaged file.
    for wrong in ["set b 1;", "# x\\nb;", "/* open", "}", "/* x */ b;"] {
        let text = format!("{{\"a 1\": {{\"above\": [\"{wrong}\"]}}, \"b\": {{\"end\": [\"# fine\"]}}}}");
        assert_eq!(KeptComments::parse(&text).0.len(), 1, "{wrong}");
    }
}

/// Statements that a configuration may have, each with comments of its own.
fn text_of(statements: &[bool]) -> (String, String) {
    let (mut plain, mut commented) = ("a {\n".to_owned(), "a {\n".to_owned());
    for (number, is_there) in statements.iter().enumerate() {
        if *is_there {
            plain.push_str(&format!("    s{number} {number};\n"));
            commented.push_str(&format!("    # above {number}\n    s{number} {number}; # behind {number}\n"));
        }
    }
    plain.push_str("}\n");
    commented.push_str("}\n");
    (plain, commented)
}

proptest! {
    /// Whatever statements go and come back, each has its comments while it is there.
    #[test]
    fn each_statement_has_its_comments(steps in prop::collection::vec(prop::array::uniform4(any::<bool>()), 1..8)) {
        let mut kept = KeptComments::default();
        let (_, mut text) = text_of(&[true; 4]);
        for step in steps {
            let (plain, commented) = text_of(&step);
            text = carry(&text, &plain, &mut kept);
            kept = KeptComments::parse(&kept.text());
            prop_assert_eq!(&text, &commented);
        }
    }

    #[test]
    fn comments_change_nothing(
        old in "([a-c]( [a-c\"])?( \\{|;|\\}| #x|//y|/\\*z\\*/)?[ \n]{0,2}){0,20}",
        names in prop::collection::vec("[a-c]", 1..4),
    ) {
        let new: String = names.iter().map(|name| format!("{name} {{\n    b {name};\n    a;\n}}\n")).collect();
        let carried = carry(&old, &new, &mut KeptComments::default());
        let words = |text: &str| -> Vec<String> {
            fn all(statements: &[crate::text::Statement], found: &mut Vec<String>) {
                for statement in statements {
                    found.extend(statement.words.iter().map(|word| word.text.clone()));
                    all(statement.block.as_deref().unwrap_or_default(), found);
                }
            }
            let mut found = Vec::new();
            all(&parse("f", text).unwrap(), &mut found);
            found
        };
        prop_assert_eq!(words(&carried), words(&new));
    }
}
