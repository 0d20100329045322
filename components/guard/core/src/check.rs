//! The check of a call's arguments against limits.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use sluice_base::IpPrefix;
use sluice_clients::{Limit, Permitted, Plain, Rate};

/// The longest part of an argument in an error, in characters.
const SHOWN: usize = 80;

/// A decoded argument. Addresses and prefixes are texts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Argument {
    /// Absent, or of a type that no limit is for.
    Absent,
    /// A truth value.
    Flag(bool),
    /// A number.
    Number(i128),
    /// A text, a word of an enumeration, an address, a prefix.
    Text(String),
    /// A list.
    List(Vec<Argument>),
    /// A message, by the names of the fields.
    Message(BTreeMap<String, Argument>),
}

/// The reason for which a call is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Breach {
    /// An argument is out of its limits, or absent.
    Argument {
        /// The argument's name.
        argument: String,
        /// The value, shortened.
        value: String,
        /// The permitted values.
        permitted: String,
    },
    /// There were too many calls.
    Rate(Rate),
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Breach::Argument { argument, value, permitted } => {
                write!(f, "{argument} is {value}; permitted: {permitted}")
            }
            Breach::Rate(rate) => write!(f, "more calls than {rate}"),
        }
    }
}

impl core::error::Error for Breach {}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Argument::Absent => f.write_str("absent"),
            Argument::Flag(flag) => flag.fmt(f),
            Argument::Number(number) => number.fmt(f),
            Argument::Text(text) => write!(f, "\"{text}\""),
            Argument::List(_) => f.write_str("a list"),
            Argument::Message(_) => f.write_str("a message"),
        }
    }
}

/// Checks the arguments of a call.
///
/// # Errors
/// The first argument out of its limits.
pub fn check(arguments: &Argument, limit: &Limit) -> Result<(), Breach> {
    for (name, permitted) in &limit.arguments {
        for value in values(arguments, name) {
            if !is_permitted(value, permitted) {
                let value = value.to_string().chars().take(SHOWN).collect();
                return Err(Breach::Argument {
                    argument: name.clone(),
                    value,
                    permitted: permitted.to_string(),
                });
            }
        }
    }
    Ok(())
}

/// Returns the values at a path, every entry of lists. A path to nowhere gives an absent value, which no limit permits.
fn values<'v>(arguments: &'v Argument, path: &str) -> Vec<&'v Argument> {
    let mut found = vec![arguments];
    for step in path.split('.') {
        let below = |value: &'v Argument| match value {
            Argument::Message(members) => members.get(step).unwrap_or(&Argument::Absent),
            _ => &Argument::Absent,
        };
        found = found.into_iter().map(below).flat_map(entries).collect();
    }
    found
}

fn entries(value: &Argument) -> Vec<&Argument> {
    match value {
        Argument::List(entries) => entries.iter().collect(),
        single => vec![single],
    }
}

fn is_permitted(value: &Argument, permitted: &Permitted) -> bool {
    match permitted {
        Permitted::Longest { longest } => match value {
            Argument::Text(text) => text.len() as u64 <= *longest,
            _ => false,
        },
        Permitted::Only(plain) => covers(plain, value),
        Permitted::OneOf(all) => all.iter().any(|plain| covers(plain, value)),
    }
}

fn covers(plain: &Plain, value: &Argument) -> bool {
    match (plain, value) {
        (Plain::Flag(flag), Argument::Flag(value)) => flag == value,
        (Plain::Number(number), Argument::Number(value)) => i128::from(*number) == *value,
        (Plain::Text(range), Argument::Number(value)) => {
            let bounds = range.split_once('-').map(|(low, high)| (low.parse::<i128>(), high.parse::<i128>()));
            matches!(bounds, Some((Ok(low), Ok(high))) if (low..=high).contains(value))
        }
        (Plain::Text(text), Argument::Text(value)) => text == value || contains(text, value),
        _ => false,
    }
}

/// Returns true if a prefix contains an address or a prefix.
fn contains(prefix: &str, inner: &str) -> bool {
    let inner = match inner.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => format!("{inner}/32").parse(),
        Ok(IpAddr::V6(_)) => format!("{inner}/128").parse(),
        Err(_) => inner.parse::<IpPrefix>(),
    };
    prefix.parse::<IpPrefix>().ok().zip(inner.ok()).is_some_and(|(prefix, inner)| prefix.covers(inner))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(members: &[(&str, Argument)]) -> Argument {
        Argument::Message(members.iter().map(|(name, value)| ((*name).into(), value.clone())).collect())
    }

    fn text(text: &str) -> Argument {
        Argument::Text(text.into())
    }

    fn texts(all: &[&str]) -> Permitted {
        Permitted::OneOf(all.iter().map(|text| Plain::Text((*text).into())).collect())
    }

    /// Returns whether a value of the argument `x` is permitted.
    fn passes(permitted: Permitted, value: Argument) -> bool {
        let limit =
            Limit { call: "b/b.v1.B/M".into(), rate: None, arguments: [("x".into(), permitted)].into() };
        check(&message(&[("x", value)]), &limit).is_ok()
    }

    #[test]
    fn every_form_of_a_limit_is_checked() {
        let prefixes = texts(&["192.0.2.0/24", "2001:db8::/32"]);
        for fine in ["192.0.2.7", "2001:db8::1", "192.0.2.128/25"] {
            assert!(passes(prefixes.clone(), text(fine)), "{fine}");
        }
        for wrong in
            [text("192.0.3.7"), text("192.0.0.0/16"), text(""), Argument::Absent, Argument::Number(7)]
        {
            assert!(!passes(prefixes.clone(), wrong.clone()), "{wrong}");
        }
        let range = Permitted::Only(Plain::Text("1-100".into()));
        assert!(passes(range.clone(), Argument::Number(100)) && !passes(range, Argument::Number(0)));
        let five = Permitted::Only(Plain::Number(5));
        assert!(
            passes(five.clone(), Argument::Number(5)) && !passes(five, Argument::Number(u64::MAX.into()))
        );
        let no = Permitted::Only(Plain::Flag(false));
        assert!(passes(no.clone(), Argument::Flag(false)) && !passes(no, Argument::Flag(true)));
        assert!(passes(texts(&["ipv4"]), text("ipv4")) && !passes(texts(&["ipv4"]), text("ipv6")));
        let short = Permitted::Longest { longest: 3 };
        assert!(passes(short.clone(), text("abc")) && !passes(short, text("abcd")));
    }

    #[test]
    fn limits_lead_into_messages_and_lists() {
        let permitted = Permitted::OneOf(vec![Plain::Number(1), Plain::Number(2)]);
        let limit =
            Limit { call: "b/b.v1.B/M".into(), rate: None, arguments: [("a.b".into(), permitted)].into() };
        let number = Argument::Number;
        let both = |second: Argument| {
            let first = message(&[("b", number(1))]);
            check(&message(&[("a", Argument::List(vec![first, second]))]), &limit)
        };
        assert_eq!(both(message(&[("b", Argument::List(vec![number(2), number(1)]))])), Ok(()));
        let breach = both(message(&[("b", Argument::List(vec![number(2), number(3)]))]))
            .expect_err("3 is not permitted");
        assert_eq!(breach.to_string(), "a.b is 3; permitted: one of 1, 2");
        assert!(both(message(&[])).is_err(), "an absent argument is not permitted");
        assert!(check(&Argument::Absent, &limit).is_err());
    }

    proptest! {
        #[test]
        fn texts_never_panic(prefix in ".{0,40}", inner in ".{0,40}") {
            let _ = contains(&prefix, &inner);
        }
    }
}
