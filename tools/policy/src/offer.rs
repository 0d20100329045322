//! The words that can follow in a question, for completion.

use crate::route::{PRESENT, PROPERTIES};
use sluice_bgp::policy::vocabulary::{ORIGINS, PATH_VALIDATIONS, ROUTE_TYPES, VALIDATIONS};

/// The list of the configuration whose entries are the neighbors.
pub const NEIGHBORS: [&str; 3] = ["protocols", "bgp", "neighbor"];

/// The possible continuations of a question.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Offer {
    /// The name of a policy.
    Policy,
    /// The name of a file.
    File,
    /// The address of a neighbor.
    Neighbor,
    /// A choice of words.
    Words(Vec<&'static str>),
}

/// Returns what can follow `words`, the whole words behind `policy test`.
pub fn following(words: &[String]) -> Vec<Offer> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (subject, last) = match words.as_slice() {
        [] => return vec![Offer::Policy],
        [_] => return vec![Offer::File],
        [_, rest @ ..] => (rest, words.last().copied().unwrap_or_default()),
    };
    match last {
        "as" => return vec![Offer::Words(vec!["neighbor"])],
        "neighbor" => return vec![Offer::Neighbor],
        "compare" => return vec![Offer::Policy],
        "origin" => return vec![Offer::Words(ORIGINS.to_vec())],
        "route-type" => return vec![Offer::Words(ROUTE_TYPES.to_vec())],
        "aspa" => return vec![Offer::Words(PATH_VALIDATIONS.to_vec())],
        "validation" => return vec![Offer::Words(VALIDATIONS.to_vec())],
        _ if is_property(last) => return Vec::new(),
        _ => {}
    }
    let mut follow = Vec::new();
    let about_whom = subject.iter().position(|word| ["as", "compare"].contains(word));
    // A file has no properties, and a route's stand before the other words.
    if about_whom.is_none() && subject[0].parse::<sluice_base::AnyPrefix>().is_ok() {
        let fresh = |name: &&str| *name == PRESENT || !subject.contains(name);
        follow.extend(PROPERTIES.into_iter().chain([PRESENT]).filter(fresh));
    }
    follow.extend(["as", "compare"].into_iter().filter(|word| !subject.contains(word)));
    vec![Offer::Words(follow)]
}

fn is_property(word: &str) -> bool {
    word == PRESENT || PROPERTIES.contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(line: &str) -> Vec<Offer> {
        let words: Vec<String> = line.split_whitespace().map(String::from).collect();
        following(&words)
    }

    fn words(line: &str) -> Vec<&'static str> {
        match after(line).as_slice() {
            [Offer::Words(words)] => words.clone(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn each_place_has_its_own_words() {
        assert_eq!(after(""), [Offer::Policy]);
        assert_eq!(after("in"), [Offer::File]);
        assert_eq!(after("in 10.0.0.0/8 compare"), [Offer::Policy]);
        assert_eq!(after("in 10.0.0.0/8 as neighbor"), [Offer::Neighbor]);
        assert_eq!(after("in 10.0.0.0/8 med"), []);
        assert_eq!(words("in 10.0.0.0/8 as"), ["neighbor"]);
        assert_eq!(words("in 10.0.0.0/8 origin"), ORIGINS);
    }

    #[test]
    fn what_was_said_is_not_offered_again() {
        let follow = words("in 10.0.0.0/8 med 5");
        assert!(follow.contains(&"as-path") && follow.contains(&"compare") && !follow.contains(&"med"));
        assert_eq!(words("in 10.0.0.0/8 as neighbor 10.0.0.2"), ["compare"]);
        assert_eq!(words("in updates.mrt"), ["as", "compare"]);
    }
}
