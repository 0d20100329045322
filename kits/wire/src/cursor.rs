//! A bounds-checked reader over octets from outside.

use core::fmt;

/// The octets ended before the value did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Truncated {
    /// The offset of the value from the first octet of the cursor.
    pub offset: usize,
    /// Octets that the value needs.
    pub needed: usize,
    /// Octets that were left.
    pub left: usize,
}

impl fmt::Display for Truncated {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} octets needed at offset {}, {} left", self.needed, self.offset, self.left)
    }
}

impl core::error::Error for Truncated {}

/// Reads big-endian values from octets, front to back; never beyond the end, never a panic.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    data: &'a [u8],
    offset: usize,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `data`.
    pub const fn new(data: &'a [u8]) -> Self {
        Cursor { data, offset: 0 }
    }

    /// A cursor whose offsets count from `offset`, for a part of a larger message.
    pub const fn at(data: &'a [u8], offset: usize) -> Self {
        Cursor { data, offset }
    }

    /// The offset of the next octet.
    pub const fn offset(&self) -> usize {
        self.offset
    }

    /// The octets not yet read.
    pub const fn rest(&self) -> &'a [u8] {
        self.data
    }

    /// The number of octets not yet read.
    pub const fn len(&self) -> usize {
        self.data.len()
    }

    /// Returns true if all octets are read.
    pub const fn is_empty(&self) -> bool {
        self.data.is_empty()
    }

    /// The next `n` octets.
    pub fn take(&mut self, n: usize) -> Result<&'a [u8], Truncated> {
        match self.data.split_at_checked(n) {
            Some((head, tail)) => {
                self.data = tail;
                self.offset += n;
                Ok(head)
            }
            None => Err(Truncated { offset: self.offset, needed: n, left: self.data.len() }),
        }
    }

    /// A cursor over the next `n` octets, whose offsets go on from here.
    pub fn sub(&mut self, n: usize) -> Result<Cursor<'a>, Truncated> {
        let offset = self.offset;
        self.take(n).map(|data| Cursor { data, offset })
    }

    /// The next `N` octets as an array.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        match self.data.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.data = tail;
                self.offset += N;
                Ok(*head)
            }
            None => Err(Truncated { offset: self.offset, needed: N, left: self.data.len() }),
        }
    }

    /// The next octet.
    pub fn u8(&mut self) -> Result<u8, Truncated> {
        self.array::<1>().map(|[b]| b)
    }

    /// The next 2 octets.
    pub fn u16(&mut self) -> Result<u16, Truncated> {
        self.array().map(u16::from_be_bytes)
    }

    /// The next 4 octets.
    pub fn u32(&mut self) -> Result<u32, Truncated> {
        self.array().map(u32::from_be_bytes)
    }

    /// The next 8 octets.
    pub fn u64(&mut self) -> Result<u64, Truncated> {
        self.array().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_to_the_end_and_not_beyond() {
        let mut c = Cursor::new(&[1, 0, 2, 0, 0, 0, 3, 9]);
        assert_eq!((c.u8(), c.u16(), c.u32()), (Ok(1), Ok(2), Ok(3)));
        let mut sub = c.sub(1).unwrap();
        assert_eq!((sub.offset(), sub.u8()), (7, Ok(9)));
        assert!(c.is_empty());
        assert_eq!(c.u16(), Err(Truncated { offset: 8, needed: 2, left: 0 }));
    }
}
