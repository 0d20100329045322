//! A line as it is typed: words, quotes, and filters behind `|`.

/// A word and where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Word {
    /// The word, quotes taken off.
    pub text: String,
    /// Octets before it.
    pub start: usize,
}

/// A line taken apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Line {
    /// The command.
    pub words: Vec<Word>,
    /// What stands behind each `|`.
    pub filters: Vec<Vec<Word>>,
    /// No blank follows the last word: it may still be going on.
    pub open: bool,
    /// A quote was opened and not closed.
    pub unclosed: bool,
}

impl Line {
    /// The command's words.
    pub fn texts(&self) -> Vec<String> {
        self.words.iter().map(|w| w.text.clone()).collect()
    }
}

/// Splits a line. A `|` at the beginning of a word begins a filter; `\` in quotes escapes the next character.
pub fn split(text: &str) -> Line {
    let mut line = Line::default();
    let mut chars = text.char_indices().peekable();
    while let Some(&(start, first)) = chars.peek() {
        if first.is_whitespace() {
            chars.next();
            line.open = false;
            continue;
        }
        if first == '|' {
            chars.next();
            line.filters.push(Vec::new());
            line.open = false;
            continue;
        }
        let mut word = Word { text: String::new(), start };
        line.unclosed = take_word(&mut chars, &mut word.text);
        line.open = true;
        line.filters.last_mut().unwrap_or(&mut line.words).push(word);
    }
    line
}

/// Takes a word; returns whether a quote was left open.
fn take_word(chars: &mut std::iter::Peekable<std::str::CharIndices<'_>>, word: &mut String) -> bool {
    let mut quoted = false;
    while let Some(&(_, c)) = chars.peek() {
        if c.is_whitespace() && !quoted {
            return false;
        }
        chars.next();
        match c {
            '"' => quoted = !quoted,
            '\\' if quoted => word.extend(chars.next().map(|(_, c)| c)),
            c => word.push(c),
        }
    }
    quoted
}

/// Returns a word quoted if necessary, so that reading yields the word again.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| !c.is_whitespace() && !"\"\\{};[]#|".contains(c);
    if !word.is_empty() && word.chars().all(plain) && !word.starts_with("//") && !word.starts_with("/*") {
        return word.to_string();
    }
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn words_quotes_and_filters() {
        let line = split("show  \"a b\" x | match 'y | count");
        assert_eq!(line.texts(), ["show", "a b", "x"]);
        assert_eq!(line.filters.len(), 2);
        assert_eq!(line.filters[0][1].text, "'y");
        assert!(line.open && !line.unclosed);
        assert!(!split("show ").open);
        assert!(split("set x \"a").unclosed);
        assert_eq!(split("set x \"a | b\"").texts(), ["set", "x", "a | b"]);
    }

    proptest! {
        #[test]
        fn what_is_quoted_reads_back(word in "[ -~]{1,20}") {
            let line = split(&quoted(&word));
            prop_assert_eq!(line.texts(), vec![word]);
        }

        #[test]
        fn no_line_panics(text in "\\PC{0,60}") {
            split(&text);
        }
    }
}
