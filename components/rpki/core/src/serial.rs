//! Serial numbers of 32 bits that wrap around (RFC 1982).

use core::fmt;
use serde::{Deserialize, Serialize};

/// A serial number of a cache.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
pub struct Serial(pub u32);

impl Serial {
    /// Returns true if this number comes before `other` (RFC 1982, section 3.2). Of two numbers that are 2^31 apart neither comes first.
    pub(crate) const fn is_before(self, other: Serial) -> bool {
        let ahead = other.0.wrapping_sub(self.0);
        ahead != 0 && ahead < 1 << 31
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_wrap_around() {
        for (first, second) in [(0, 1), (5, 9), (u32::MAX, 0), (u32::MAX - 3, 7), (0, (1 << 31) - 1)] {
            assert!(Serial(first).is_before(Serial(second)), "{first} {second}");
            assert!(!Serial(second).is_before(Serial(first)), "{second} {first}");
        }
        assert!(!Serial(7).is_before(Serial(7)));
        assert!(!Serial(0).is_before(Serial(1 << 31)) && !Serial(1 << 31).is_before(Serial(0)));
    }
}
