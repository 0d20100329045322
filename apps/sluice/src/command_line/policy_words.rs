//! Completion of `policy test`.

use crate::command_line::complete::{files, keys, policies};
use crate::connection::session::Session;
use crate::connection::session::back;
use sluice_cli::Candidate;
use sluice_policy_test::offer::{NEIGHBORS, Offer, following};

/// Returns the possible words behind `asked`, the whole words behind `policy test`, that begin like `partial`.
pub async fn completions(session: &Session, asked: &[String], partial: &str) -> Vec<Candidate> {
    let mut found = Vec::new();
    for offer in following(asked) {
        match offer {
            Offer::Policy => found.extend(policies(session, back(0)).await),
            Offer::File => found.extend(files(partial)),
            Offer::Neighbor => {
                let list = NEIGHBORS.map(String::from);
                let addresses = keys(session, back(0), &list, 0, &list).await;
                found.extend(addresses.into_iter().map(|address| Candidate::new(address, "")));
            }
            Offer::Words(words) => found.extend(words.into_iter().map(|word| Candidate::new(word, ""))),
        }
    }
    found.retain(|candidate| candidate.text.starts_with(partial));
    found
}
