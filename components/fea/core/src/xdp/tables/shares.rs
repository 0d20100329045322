//! Shares of a group's members in the buckets of a block.

use super::layout::BUCKETS;
use smallvec::SmallVec;

/// A member's number and weight.
pub(super) type Weighted = (u32, u32);

/// Returns the number of buckets of each member, in the order of `ways`.
///
/// The buckets go one by one to the member with the largest quotient of weight and twice its buckets plus one
/// (Sainte-Laguë). A member that is removed therefore leaves each remaining member with at least the buckets that it
/// had, which rounding of proportional shares would not ensure.
fn shares(ways: &[Weighted]) -> SmallVec<[u32; 8]> {
    let mut shares: SmallVec<[u32; 8]> = ways.iter().map(|_| 0).collect();
    for _ in 0..BUCKETS {
        let mut best = 0;
        for at in 1..ways.len() {
            let quotient = |a: usize, b: usize| u64::from(ways[a].1) * u64::from(2 * shares[b] + 1);
            if quotient(at, best) > quotient(best, at) {
                best = at;
            }
        }
        if let Some(share) = shares.get_mut(best) {
            *share += 1;
        }
    }
    shares
}

/// Assigns the buckets to the members of `ways` by weight. A bucket keeps its member if the member is in `ways` and
/// has not yet its share, so that other members' flows do not move.
pub(super) fn assign(buckets: &mut [u32; BUCKETS], ways: &[Weighted]) {
    let mut left = shares(ways);
    let mut open: SmallVec<[usize; BUCKETS]> = SmallVec::new();
    for (at, member) in buckets.iter().enumerate() {
        match ways.iter().position(|way| way.0 == *member).map(|way| &mut left[way]) {
            Some(left) if *left > 0 => *left -= 1,
            _ => open.push(at),
        }
    }
    let mut way = 0;
    for at in open {
        while left.get(way) == Some(&0) {
            way += 1;
        }
        if let (Some(left), Some((member, _))) = (left.get_mut(way), ways.get(way)) {
            *left -= 1;
            buckets[at] = *member;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(buckets: &[u32; BUCKETS], member: u32) -> usize {
        buckets.iter().filter(|m| **m == member).count()
    }

    #[test]
    fn buckets_follow_weights() {
        let mut buckets = [u32::MAX; BUCKETS];
        assign(&mut buckets, &[(5, 3), (7, 1)]);
        assert_eq!((count(&buckets, 5), count(&buckets, 7)), (96, 32));
        assign(&mut buckets, &[(5, 1), (7, 1), (9, 2)]);
        assert_eq!([5, 7, 9].map(|m| count(&buckets, m)), [32, 32, 64]);
    }

    #[test]
    fn a_lost_member_moves_its_own_buckets_only() {
        // Weights for which shares by the largest remainder would take a bucket from a member that stays.
        for weights in [[6, 6, 2], [1, 1, 1], [255, 3, 1], [7, 5, 3]] {
            let ways: SmallVec<[Weighted; 8]> = (1..).zip(weights).collect();
            for lost in 0..ways.len() {
                let mut before = [u32::MAX; BUCKETS];
                assign(&mut before, &ways);
                let mut after = before;
                let stay: SmallVec<[Weighted; 8]> =
                    ways.iter().copied().filter(|way| way.0 != ways[lost].0).collect();
                assign(&mut after, &stay);
                for (old, new) in before.iter().zip(&after) {
                    assert!(old == new || *old == ways[lost].0, "{weights:?} without {lost}");
                    assert_ne!(*new, ways[lost].0);
                }
            }
        }
    }

    #[test]
    fn more_members_than_buckets_leave_no_bucket_open() {
        let ways: SmallVec<[Weighted; 8]> = (1..=300).map(|member| (member, 1)).collect();
        let mut buckets = [u32::MAX; BUCKETS];
        assign(&mut buckets, &ways);
        assert!(buckets.iter().all(|member| *member <= 300));
    }
}
