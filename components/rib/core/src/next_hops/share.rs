//! Shares of a route's traffic: how weights add up where next hops lead through routes that have several next hops themselves.

use smallvec::SmallVec;

/// A share of a route's whole traffic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Share(u64);

impl Share {
    /// The whole traffic. A power of two large enough for eight routes that lead through each other, 255 next hops each.
    pub(crate) const ALL: Share = Share(1 << 62);

    /// Returns the sum of two shares.
    pub(crate) const fn plus(self, other: Share) -> Share {
        Share(self.0.saturating_add(other.0))
    }

    /// Returns the part of the share in the ratio of `weight` to `sum`.
    pub(crate) fn part(self, weight: u64, sum: u64) -> Share {
        let part = u128::from(self.0) * u128::from(weight) / u128::from(sum.max(1));
        Share(u64::try_from(part).unwrap_or(u64::MAX).max(1))
    }
}

/// The largest error of a weight, in thousandths.
const TOLERANCE: u128 = 5;

/// Returns the smallest weights, 1 to 255, in the ratios of the shares, within half a percent; or the nearest ones.
pub(crate) fn weights(shares: &[Share]) -> SmallVec<[u8; 4]> {
    let (Some(least), Some(most)) = (shares.iter().min(), shares.iter().max()) else {
        return SmallVec::new();
    };
    let scaled = |factor: u128, of: Share| {
        let (share, least) = (u128::from(of.0) * factor, u128::from(least.0));
        let weight = (share + least / 2) / least;
        let error = share.abs_diff(weight * least) * 1000;
        (weight, error <= share * TOLERANCE)
    };
    let fits = |factor: &u128| {
        shares.iter().all(|share| scaled(*factor, *share).1) && scaled(*factor, *most).0 <= 255
    };
    let nearest = |share: &Share| {
        let weight = (u128::from(share.0) * 255 + u128::from(most.0) / 2) / u128::from(most.0);
        u8::try_from(weight.max(1)).unwrap_or(u8::MAX)
    };
    match (1..=255).find(fits) {
        Some(factor) => {
            shares.iter().map(|share| u8::try_from(scaled(factor, *share).0).unwrap_or(u8::MAX)).collect()
        }
        None => shares.iter().map(nearest).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(parts: &[(u64, u64)]) -> Share {
        parts.iter().fold(Share::ALL, |share, (weight, sum)| share.part(*weight, *sum))
    }

    #[test]
    fn weights_are_as_small_as_the_shares_allow() {
        assert_eq!(weights(&[of(&[(1, 2)]), of(&[(1, 2), (1, 2)]), of(&[(1, 2), (1, 2)])])[..], [2, 1, 1]);
        assert_eq!(weights(&[of(&[(2, 5)]), of(&[(3, 5)])])[..], [2, 3]);
        assert_eq!(weights(&[of(&[(1, 3)]), of(&[(2, 3), (1, 4)]), of(&[(2, 3), (3, 4)])])[..], [2, 1, 3]);
        assert_eq!(weights(&[Share::ALL])[..], [1]);
        assert_eq!(weights(&[])[..], []);
    }

    #[test]
    fn weights_stay_in_an_octet() {
        assert_eq!(weights(&[of(&[(1, 1000)]), of(&[(999, 1000)])])[..], [1, 255]);
        let deep = [(1, 255); 8];
        assert_eq!(weights(&[of(&deep), Share::ALL])[..], [1, 255]);
        let nearly = weights(&[of(&[(254, 509)]), of(&[(255, 509)])]);
        assert!(nearly[0].abs_diff(nearly[1]) <= 1, "{nearly:?}");
    }
}
