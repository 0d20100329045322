//! The columns of tables within the width of a terminal.
//!
//! A table that is narrow enough is printed as it is. Otherwise the widest columns become narrower: their cells wrap between words.
//! Words stay whole while the columns have room for them. A cell has at most [`MOST_LINES`] lines; `...` stands for the rest.

/// The most lines of a cell.
const MOST_LINES: usize = 3;
/// The space between two columns.
const GAP: &str = "  ";
/// Stands for what is left out.
const REST: &str = "...";

/// The side on which the cells of a column end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Align {
    /// Text begins at the left.
    #[default]
    Left,
    /// Numbers end at the right.
    Right,
}

/// The widths of a table's columns, in characters.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    widths: Vec<usize>,
    /// True if cells may have to wrap.
    is_narrow: bool,
    aligned: Vec<Align>,
}

impl Layout {
    /// Returns the layout of a table with these rows, the headings first, within `width`; `None` for a table of any width.
    /// Columns without an alignment are aligned on the left.
    pub fn new(rows: &[Vec<String>], aligned: Vec<Align>, width: Option<usize>) -> Self {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let widest = |of: &dyn Fn(&str) -> usize, rows: &[Vec<String>]| -> Vec<usize> {
            let cells = |column| rows.iter().filter_map(move |row: &Vec<String>| row.get(column));
            (0..columns).map(|column| cells(column).map(|cell| of(cell)).max().unwrap_or(0)).collect()
        };
        let natural = widest(&length, rows);
        let gaps = columns.saturating_sub(1) * GAP.len();
        let room = width
            .map(|width| width.saturating_sub(gaps))
            .filter(|room| natural.iter().sum::<usize>() > *room);
        let Some(room) = room else { return Layout { widths: natural, is_narrow: false, aligned } };
        let words = widest(&longest_word, rows);
        let widths = match words.iter().sum::<usize>() <= room {
            true => narrowed(&natural, &words, room),
            false => {
                let headings = widest(&longest_word, rows.get(..1).unwrap_or_default());
                let least: Vec<usize> = headings.iter().map(|heading| (*heading).max(REST.len())).collect();
                let shortest = vec![REST.len(); columns];
                // Headings are the last to be cut.
                let least = if least.iter().sum::<usize>() <= room { least } else { shortest };
                narrowed(&words, &least, room)
            }
        };
        Layout { widths, is_narrow: true, aligned }
    }

    /// Returns the lines of a row.
    pub fn lines(&self, row: &[String]) -> Vec<String> {
        if !self.is_narrow {
            return vec![self.line(row.iter().map(String::as_str))];
        }
        let cells: Vec<Vec<String>> =
            row.iter().zip(&self.widths).map(|(cell, width)| wrapped(cell, *width)).collect();
        let height = cells.iter().map(Vec::len).max().unwrap_or(0);
        let line = |at: usize| self.line(cells.iter().map(|cell| cell.get(at).map_or("", String::as_str)));
        (0..height).map(line).collect()
    }

    fn line<'a>(&self, cells: impl Iterator<Item = &'a str>) -> String {
        let padded = cells.zip(&self.widths).enumerate().map(|(column, (text, width))| {
            match self.aligned.get(column).copied().unwrap_or_default() {
                Align::Left => format!("{text:<width$}"),
                Align::Right => format!("{text:>width$}"),
            }
        });
        padded.collect::<Vec<_>>().join(GAP).trim_end().to_string()
    }
}

fn length(text: &str) -> usize {
    text.chars().count()
}

fn longest_word(text: &str) -> usize {
    text.split(' ').map(length).max().unwrap_or(0)
}

/// Returns widths that add up to at most `room`: those of `natural`, with the widest ones cut to a common width, but none below its
/// width of `least`.
fn narrowed(natural: &[usize], least: &[usize], room: usize) -> Vec<usize> {
    let cut =
        |most: usize| natural.iter().zip(least).map(move |(width, least)| (*width).min(most.max(*least)));
    let fits = |most: usize| cut(most).sum::<usize>() <= room;
    // The largest width that fits: it grows with each step, so halving finds it.
    let (mut low, mut high) = (0, natural.iter().copied().max().unwrap_or(0));
    while low < high {
        let middle = (low + high).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    let mut widths: Vec<usize> = cut(low).collect();
    // What is left over is for the columns that were cut.
    let mut left = room.saturating_sub(widths.iter().sum());
    for (width, natural) in widths.iter_mut().zip(natural) {
        let more = natural.saturating_sub(*width).min(left).min(1);
        *width += more;
        left -= more;
    }
    widths
}

/// Returns the lines of a cell of a width.
fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let word = cut(word, width);
        let is_full = lines.len() == MOST_LINES;
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(&word) <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            Some(line) if is_full => {
                *line = with_rest(line, width);
                return lines;
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Returns a word of at most `width` characters.
fn cut(word: &str, width: usize) -> String {
    if length(word) <= width {
        return word.to_owned();
    }
    let kept: String = word.chars().take(width.saturating_sub(REST.len())).collect();
    format!("{kept}{REST}")
}

/// Returns a line that ends in `...`, with its last words left out where they have no room.
fn with_rest(line: &str, width: usize) -> String {
    let mut kept = line;
    while length(kept) + 1 + REST.len() > width {
        match kept.rsplit_once(' ') {
            Some((before, _)) => kept = before,
            None => return cut(&format!("{kept}{REST}"), width),
        }
    }
    format!("{kept} {REST}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect()
    }

    fn shown(rows: &[Vec<String>], width: Option<usize>) -> Vec<String> {
        let layout = Layout::new(rows, Vec::new(), width);
        rows.iter().flat_map(|row| layout.lines(row)).collect()
    }

    #[test]
    fn what_fits_is_printed_as_it_is() {
        let table = rows(&[&["a", "long heading"], &["1", "x y"]]);
        let expected = ["a  long heading", "1  x y"];
        assert_eq!(shown(&table, None), expected);
        assert_eq!(shown(&table, Some(80)), expected);
        assert_eq!(shown(&table, Some(15)), expected);
    }

    #[test]
    fn the_widest_column_wraps_between_words() {
        let table = rows(&[&["who", "lines"], &["ann", "set protocols static route 192.0.2.0/24 discard"]]);
        assert_eq!(
            shown(&table, Some(30)),
            ["who  lines", "ann  set protocols static", "     route 192.0.2.0/24", "     discard"]
        );
    }

    #[test]
    fn long_cells_and_long_words_end_in_dots() {
        let cell = "word ".repeat(100);
        let table = rows(&[&["a", "b"], &["1", cell.trim_end()]]);
        let lines = shown(&table, Some(20));
        assert_eq!(lines, ["a  b", "1  word word word", "   word word word", "   word word ..."]);
        let table = rows(&[&["a", "b"], &["1", "2001:db8:1111:2222:3333:4444:5555:6666"]]);
        assert_eq!(shown(&table, Some(20))[1], "1  2001:db8:1111:...");
    }

    #[test]
    fn numbers_end_at_the_right() {
        let table = rows(&[&["n", "text"], &["100", "x"]]);
        let layout = Layout::new(&table, vec![Align::Right], None);
        assert_eq!(layout.lines(&table[0]), ["  n  text"]);
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_the_terminal(
            table in proptest::collection::vec(proptest::collection::vec("[a-z ]{0,90}", 6), 1..6),
            width in 30usize..200,
        ) {
            let mut table = table;
            table[0] = ["one", "two words", "three", "four", "five", "six"].map(String::from).to_vec();
            for line in shown(&table, Some(width)) {
                prop_assert!(length(&line) <= width, "{line}");
            }
        }
    }
}
