//! Texts of others on their way to the log and to terminals.

use sluice_base::Instant;
use sluice_base::printable::{printable as escaped, printable_lines};
use sluice_manager::output::{Allowance, LONGEST, Lines};

/// The lines of a component: each is bounded, and the number of octets before and after a cut does not matter.
pub fn lines(octets: &[u8]) {
    let taken = |piece: usize| {
        let mut lines = Lines::new(Allowance::OTHER);
        let mut all: Vec<String> =
            octets.chunks(piece.max(1)).flat_map(|chunk| lines.take(Instant::ZERO, chunk)).collect();
        all.extend(lines.end(Instant::ZERO));
        all
    };
    let whole = taken(octets.len());
    assert!(whole.iter().all(|line| line.len() <= 4 * LONGEST && !line.contains('\n')));
    assert_eq!(taken(7), whole);
}

/// An escaped text has no control character, and a text of lines none but ends of lines and tabs.
pub fn printable(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    assert!(!escaped(&text).chars().any(char::is_control));
    assert!(!printable_lines(&text).chars().any(|c| c.is_control() && c != '\n' && c != '\t'));
}

/// Seeds.
pub fn texts() -> Vec<Vec<u8>> {
    let texts: [&[u8]; 4] = [
        b"begun\nended\n",
        b"\x1b[2J\x1b]0;title\x07\n",
        "no end \u{9b}31m\u{202e}".as_bytes(),
        b"\xff\xfe\n",
    ];
    texts.map(Vec::from).into()
}
