//! Texts from outside, made safe to print.
//!
//! A terminal obeys control characters, and a line of a log ends at a newline. A text from outside is therefore printed
//! with such characters escaped as in Rust (`\u{1b}`, `\n`): the author can neither move the cursor nor forge a line, and the reader still
//! sees the original text.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt::Write;

/// Returns true for a character with effects beyond the own place: a control character, or a change of the text's
/// direction.
fn is_control(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn escaped(text: &str, keeps: impl Fn(char) -> bool, write: impl Fn(&mut String, char)) -> Cow<'_, str> {
    let is_unsafe = |c: char| is_control(c) && !keeps(c);
    // Octets first: nearly all texts are plain, and long.
    let is_plain = |octet: &u8| (b' '..=b'~').contains(octet);
    if text.as_bytes().iter().all(is_plain) || !text.contains(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut safe = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_unsafe(c) {
            true => write(&mut safe, c),
            false => safe.push(c),
        }
    }
    Cow::Owned(safe)
}

fn as_rust(safe: &mut String, c: char) {
    safe.extend(c.escape_default());
}

/// Returns a text for one line: control characters are escaped, ends of lines too.
pub fn printable(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false, as_rust)
}

/// Returns a text of several lines: control characters are escaped, except ends of lines and tabs.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c == '\n' || c == '\t', as_rust)
}

/// Returns a JSON document with the control characters of its texts escaped as JSON has it. Serializers leave characters
/// above U+007E unescaped.
pub fn printable_json(document: &str) -> Cow<'_, str> {
    // Between the texts of a document, and only there, are ends of lines and tabs.
    escaped(
        document,
        |c| c == '\n' || c == '\t',
        |safe, c| {
            // Writing to a string cannot fail.
            let _ = write!(safe, "\\u{:04x}", u32::from(c));
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_visible() {
        for (text, line, lines) in [
            ("plain text, größer, 路由", "plain text, größer, 路由", "plain text, größer, 路由"),
            ("\u{1b}[2J\n", "\\u{1b}[2J\\n", "\\u{1b}[2J\n"),
            ("a\tb\r\0", "a\\tb\\r\\u{0}", "a\tb\\r\\u{0}"),
            ("\u{9b}31m\u{7f}", "\\u{9b}31m\\u{7f}", "\\u{9b}31m\\u{7f}"),
            ("\u{202e}gnp", "\\u{202e}gnp", "\\u{202e}gnp"),
        ] {
            assert_eq!(printable(text), line);
            assert_eq!(printable_lines(text), lines);
        }
        assert!(matches!(printable("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn a_document_stays_one() {
        assert_eq!(
            printable_json("{\n  \"a\": \"\u{9b}\u{7f}\u{202e}\"\n}"),
            "{\n  \"a\": \"\\u009b\\u007f\\u202e\"\n}"
        );
    }

    #[test]
    fn nothing_that_a_terminal_obeys_is_left() {
        for c in (0..=0x10_ffffu32).filter_map(char::from_u32) {
            let text = String::from(c);
            assert!(!printable(&text).contains(is_control), "{c:?}");
            assert!(!printable_lines(&text).contains(|c| is_control(c) && c != '\n' && c != '\t'), "{c:?}");
        }
    }
}
