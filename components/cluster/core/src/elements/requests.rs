//! Neighbors that routers want to know, while the kernel of the control plane finds them out and keeps them known.

use crate::frames::neighbors::NeighborKey;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::time::Duration;
use sluice_base::Instant;

/// The neighbors that are asked for at once: a bound on what senders to unused addresses can cause.
pub(crate) const MOST_REQUESTS: usize = 8192;
/// The time for which a neighbor that does not answer is asked for.
pub(crate) const REQUEST_TIME: Duration = Duration::from_secs(10);

/// The requests, with the time at which the neighbor was known last, or asked for first.
#[derive(Clone, Default, Debug)]
pub struct Requests(BTreeMap<NeighborKey, Instant>);

impl Requests {
    /// Adds a request. Returns false if the neighbor is asked for already, or there are too many requests.
    pub fn add(&mut self, now: Instant, key: NeighborKey) -> bool {
        if self.0.contains_key(&key) || self.0.len() >= MOST_REQUESTS {
            return false;
        }
        self.0.insert(key, now);
        true
    }

    /// Removes and returns the neighbors that have not been known for [`REQUEST_TIME`].
    pub fn expire(&mut self, now: Instant, is_known: impl Fn(&NeighborKey) -> bool) -> Vec<NeighborKey> {
        for (key, since) in &mut self.0 {
            if is_known(key) {
                *since = now;
            }
        }
        self.0.extract_if(.., |_, since| now >= *since + REQUEST_TIME).map(|(key, _)| key).collect()
    }

    /// Iterates over the neighbors.
    pub fn iter(&self) -> impl Iterator<Item = NeighborKey> + '_ {
        self.0.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inventory::PortNumber;
    use alloc::vec;

    #[test]
    fn neighbors_that_do_not_answer_are_given_up() {
        let mut requests = Requests::default();
        let key =
            |last: u8| NeighborKey { port: PortNumber::new(1).unwrap(), address: [10, 0, 1, last].into() };
        assert!(requests.add(Instant::ZERO, key(1)) && !requests.add(Instant::ZERO, key(1)));
        requests.add(Instant::ZERO, key(2));
        let later = Instant::ZERO + REQUEST_TIME;
        assert_eq!(requests.expire(later, |known| *known == key(1)), vec![key(2)]);
        assert_eq!(requests.iter().count(), 1);
        for number in 0..2 * MOST_REQUESTS {
            let [_, _, high, low] = (number as u32).to_be_bytes();
            let port = PortNumber::new(2).unwrap();
            requests.add(later, NeighborKey { port, address: [10, 1, high, low].into() });
        }
        assert_eq!(requests.iter().count(), MOST_REQUESTS);
    }
}
