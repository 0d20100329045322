//! The keys of entries.

use std::cmp::Ordering;
use std::sync::Arc;

/// The key of a list's entry, or a value of a leaf-list: the values of the keys in order, [`SEPARATOR`] between them.
pub(crate) type Key = Arc<str>;

/// Stands between the values of a key. No value holds a control character.
pub(crate) const SEPARATOR: char = '\u{1f}';

/// Joins several values to a key.
pub(crate) fn join_key<'t>(values: impl Iterator<Item = &'t str>) -> Key {
    values.collect::<Vec<_>>().join(&SEPARATOR.to_string()).into()
}

/// The words of a key.
pub(crate) fn key_words(key: &Key) -> impl Iterator<Item = &str> + Clone {
    key.split(SEPARATOR)
}

/// Compares keys in natural order: numbers by size, further text character by character.
pub(crate) fn natural(a: &str, b: &str) -> Ordering {
    let (x, y) = (a.as_bytes(), b.as_bytes());
    let shared = x.iter().zip(y).take_while(|(a, b)| a == b).count();
    let is_digit = |t: &[u8], i: usize| t.get(i).is_some_and(u8::is_ascii_digit);
    if is_digit(x, shared) || is_digit(y, shared) {
        // The number in which they differ begins where their common digits do.
        let start = (0..shared).rev().take_while(|i| x[*i].is_ascii_digit()).last().unwrap_or(shared);
        let number = |t: &[u8]| t[start..].iter().take_while(|c| c.is_ascii_digit()).count();
        let (m, n) = (number(x), number(y));
        // Without leading zeros, the longer number is the larger one.
        if m > 0 && n > 0 && m != n && x[start] != b'0' && y[start] != b'0' {
            return m.cmp(&n);
        }
    }
    x[shared..].cmp(&y[shared..])
}
