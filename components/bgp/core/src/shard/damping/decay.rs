//! The arithmetic of flap damping (RFC 2439, section 4.8.6) in whole numbers: how a penalty decays, and how long that takes.
//!
//! Penalties have [`FRACTION`] binary places. Times are in tenths of a second. A decay over a time is a power of 1/2, which is a product
//! of square roots of square roots of 1/2 by the binary places of the exponent.

/// The binary places of a penalty.
pub(crate) const FRACTION: u32 = 10;

/// The binary places of an exponent: over a half-life of 45 minutes the last place is less than 3 milliseconds.
const PLACES: usize = 20;

/// 1 with 63 binary places.
const ONE: u128 = 1 << 63;

/// 2^(-1/2), 2^(-1/4), 2^(-1/8) and so on, with 63 binary places.
const ROOTS: [u128; PLACES] = {
    let mut roots = [0; PLACES];
    let mut before = ONE >> 1;
    let mut place = 0;
    while place < PLACES {
        before = (before << 63).isqrt();
        roots[place] = before;
        place += 1;
    }
    roots
};

/// Returns `penalty` after `time`, where `half_life` (above 0) halves it.
pub(crate) fn decayed(penalty: u32, time: u32, half_life: u32) -> u32 {
    let halves = time / half_life;
    if halves >= u32::BITS {
        return 0;
    }
    // Below 2^PLACES.
    let fraction = (u64::from(time % half_life) << PLACES) / u64::from(half_life);
    let mut value = u128::from(penalty) << 32;
    for (place, root) in ROOTS.iter().enumerate() {
        if (fraction >> (PLACES - 1 - place)) & 1 == 1 {
            value = (value * root) >> 63;
        }
    }
    // At most `penalty`.
    ((value >> 32) >> halves) as u32
}

/// Returns the time after which `penalty` has decayed to `target` (above 0), rounded up; 0 for a penalty up to `target`.
pub(crate) fn time_to(penalty: u32, target: u32, half_life: u32) -> u32 {
    if penalty <= target {
        return 0;
    }
    // The ratio with 31 binary places; the logarithm has PLACES of them.
    let ratio = (u64::from(penalty) << 31) / u64::from(target);
    let halves = ratio.ilog2() - 31;
    let mut value = ratio >> halves;
    let mut logarithm = u64::from(halves);
    for _ in 0..PLACES {
        value = (value * value) >> 31;
        logarithm <<= 1;
        if value >= 1 << 32 {
            value >>= 1;
            logarithm |= 1;
        }
    }
    let time = (logarithm * u64::from(half_life)) >> PLACES;
    u32::try_from(time + 1).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exact(penalty: u32, time: u32, half_life: u32) -> f64 {
        f64::from(penalty) * (-(f64::from(time) / f64::from(half_life))).exp2()
    }

    #[test]
    fn a_half_life_halves() {
        assert_eq!(decayed(6000 << FRACTION, 9000, 9000), 3000 << FRACTION);
        assert_eq!(decayed(6000 << FRACTION, 0, 9000), 6000 << FRACTION);
        assert_eq!((decayed(u32::MAX, u32::MAX, 1), decayed(0, 5, 9000)), (0, 0));
        // RFC 2439's example of a ceiling: from 16 times the reuse threshold it takes 4 half-lives.
        assert_eq!(time_to(12_000 << FRACTION, 750 << FRACTION, 9000), 36_001);
        assert_eq!(time_to(750, 750, 9000), 0);
    }

    proptest! {
        #[test]
        fn the_arithmetic_is_that_of_real_numbers(
            penalty in 1_u32..1_000_000, time in 0_u32..200_000, half_life in 600_u32..27_000, target in 1_u32..20_000,
        ) {
            let (penalty, target) = (penalty << FRACTION, target << FRACTION);
            let (found, expected) = (f64::from(decayed(penalty, time, half_life)), exact(penalty, time, half_life));
            prop_assert!((found - expected).abs() <= 1.0 + expected * 4e-6, "{} {}", found, expected);
            let needed = time_to(penalty, target, half_life);
            let expected = f64::from(half_life) * (f64::from(penalty) / f64::from(target)).log2().max(0.0);
            prop_assert!((f64::from(needed) - expected).abs() <= 2.0, "{} {}", needed, expected);
        }
    }
}
