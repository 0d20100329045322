//! The queue for the forwarding engine: prefixes, each with the route last sent to the engine.
//!
//! Octets in chunks, nine for the usual IPv4 prefix. A full table for a slow engine therefore costs little, and a
//! queue never moves as it grows, and frees unused chunks.

use crate::entry::SentRoute;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::marker::PhantomData;
use sluice_base::{GroupId, Prefix};

/// Octets of a chunk.
const CHUNK: usize = 16_384;
/// The longest item: a length, the longest address of any family, a route.
const LONGEST: usize = 1 + sluice_base::Identifier::ROOM + 4;
/// Stands for no route. A route is twice the number of its group, and 1 more if its origin is external; numbers of groups are below the
/// number of routes, which memory keeps below 2^31.
const NO_ROUTE: u32 = u32::MAX;

/// A queue of prefixes and routes.
pub(crate) struct Queue<P> {
    chunks: VecDeque<Vec<u8>>,
    /// The number of octets read of the first chunk.
    read: usize,
    prefixes: PhantomData<P>,
}

impl<P> Default for Queue<P> {
    fn default() -> Self {
        Queue { chunks: VecDeque::new(), read: 0, prefixes: PhantomData }
    }
}

impl<P: Prefix> Queue<P> {
    /// Returns true if the queue is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.front().is_none_or(|c| c.len() == self.read)
    }

    /// Drops everything.
    pub(crate) fn clear(&mut self) {
        *self = Queue::default();
    }

    /// Adds a prefix at the end, with the route last sent to the engine.
    pub(crate) fn push(&mut self, prefix: P, sent: Option<SentRoute>) {
        if self.chunks.back().is_none_or(|c| c.len() + LONGEST > CHUNK) {
            self.chunks.push_back(Vec::with_capacity(CHUNK));
        }
        let Some(chunk) = self.chunks.back_mut() else { return };
        let len = prefix.len();
        chunk.push(len);
        prefix.push_octets(chunk);
        chunk.extend_from_slice(&sent.map_or(NO_ROUTE, number).to_be_bytes());
    }

    /// Takes the first.
    pub(crate) fn pop(&mut self) -> Option<(P, Option<SentRoute>)> {
        let chunk = self.chunks.front()?;
        let (len, rest) = chunk.get(self.read..)?.split_first()?;
        let (addr, rest) = rest.split_at_checked(octets(*len))?;
        let (group, rest) = rest.split_first_chunk()?;
        let item = (P::from_leading_octets(addr, *len)?, u32::from_be_bytes(*group));
        let at_end = rest.is_empty();
        self.read = chunk.len() - rest.len();
        if at_end {
            self.read = 0;
            match self.chunks.len() {
                1 => self.chunks.iter_mut().for_each(Vec::clear),
                _ => drop(self.chunks.pop_front()),
            }
        }
        Some((item.0, (item.1 != NO_ROUTE).then(|| sent(item.1))))
    }
}

fn number(sent: SentRoute) -> u32 {
    sent.group.0 << 1 | u32::from(sent.is_external)
}

fn sent(number: u32) -> SentRoute {
    SentRoute { group: GroupId(number >> 1), is_external: number & 1 == 1 }
}

fn octets(len: u8) -> usize {
    usize::from(len).div_ceil(8)
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::{Ipv4Prefix, Ipv6Prefix};
    use std::vec::Vec;

    fn check<P: Prefix>(prefixes: &[&str]) {
        let prefixes: Vec<P> = prefixes.iter().map(|p| p.parse().expect("a prefix")).collect();
        let mut queue = Queue::default();
        let mut expected = VecDeque::new();
        for n in 0..20_000u32 {
            let sent = (n % 3 != 0).then_some(SentRoute { group: GroupId(n), is_external: n % 4 > 1 });
            let prefix = prefixes[n as usize % prefixes.len()];
            queue.push(prefix, sent);
            expected.push_back((prefix, sent));
            if n % 5 == 0 {
                assert_eq!(queue.pop(), expected.pop_front());
            }
        }
        while let Some(item) = expected.pop_front() {
            assert!(!queue.is_empty());
            assert_eq!(queue.pop(), Some(item));
        }
        assert!(queue.is_empty());
        assert_eq!((queue.pop(), queue.chunks.len()), (None, 1));
    }

    #[test]
    fn what_went_in_comes_out_in_order() {
        check::<Ipv4Prefix>(&["0.0.0.0/0", "10.0.0.0/7", "192.0.2.0/24", "192.0.2.1/32"]);
        check::<Ipv6Prefix>(&["::/0", "2001:db8::/33", "2001:db8::1/128"]);
    }
}
