//! Addresses as text: `TYPE-ID-EDGES` for each node, joined by colons.

use super::address::{Dag, Node};
use super::edge::EdgeByte;
use core::fmt::{self, Display};
use core::str::FromStr;
use sluice_base::{Xid, XidError};

/// The treatment of chosen marks by the parser.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Marks {
    /// Marks are read.
    Keep,
    /// Marks are dropped, as for a reply to the text of a packet in flight.
    Drop,
}

/// The reason why a text is no address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextError {
    /// The text has no node.
    Empty,
    /// The text has more than nine nodes.
    ManyNodes,
    /// The type or the ID of a node, which has this number from 0.
    Xid(u8, XidError),
    /// The edges of a node, which has this number from 0.
    Edges(u8),
}

impl Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TextError::Empty => f.write_str("expected TYPE-ID-EDGES, joined by colons"),
            TextError::ManyNodes => f.write_str("an address has at most 9 nodes"),
            TextError::Xid(node, error) => write!(f, "node {node}: {error}"),
            TextError::Edges(node) => {
                write!(
                    f,
                    "node {node}: expected at most 4 edges, each a digit, a letter or *, after > if chosen"
                )
            }
        }
    }
}

impl core::error::Error for TextError {}

impl Display for EdgeByte {
    /// Writes the index in base 36, `*` for the empty edge, `+` for indices above 35, behind `>` for a chosen edge.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_chosen() {
            f.write_str(">")?;
        }
        let digit = char::from_digit(u32::from(self.index()), 36).unwrap_or('+');
        write!(f, "{}", if self.is_empty() { '*' } else { digit })
    }
}

impl Display for Dag {
    /// Writes a valid address without its empty edges; any other address behind `!` and with four edges for each node. The
    /// alternate form (`{:#}`) has a newline after each colon.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_valid = self.validate().is_ok();
        if !is_valid {
            f.write_str("!")?;
        }
        for (number, node) in self.nodes().iter().enumerate() {
            if number > 0 {
                f.write_str(if f.alternate() { ":\n" } else { ":" })?;
            }
            write!(f, "{}", node.xid)?;
            if !is_valid || !node.has_no_edges() {
                f.write_str("-")?;
            }
            let is_written = |edge: &&EdgeByte| !is_valid || !edge.is_empty();
            node.edges.iter().filter(is_written).try_for_each(|edge| edge.fmt(f))?;
        }
        Ok(())
    }
}

impl FromStr for Dag {
    type Err = TextError;

    /// Reads an address with its chosen marks. See [`Dag::parse`].
    fn from_str(text: &str) -> Result<Self, TextError> {
        Dag::parse(text, Marks::Keep)
    }
}

impl Dag {
    /// Reads an address in either form: 1 to 9 nodes; a newline may follow each colon and end the text. Validity is not
    /// tested ([`Dag::validate`]).
    ///
    /// # Errors
    /// The first node that is none.
    pub fn parse(text: &str, marks: Marks) -> Result<Self, TextError> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_prefix('!').unwrap_or(text);
        if text.is_empty() {
            return Err(TextError::Empty);
        }
        let mut dag = Dag::EMPTY;
        for (number, part) in text.split(':').enumerate() {
            let part = if number > 0 { part.strip_prefix('\n').unwrap_or(part) } else { part };
            if number >= Dag::MOST_NODES || !dag.push(node(part, number as u8, marks)?) {
                return Err(TextError::ManyNodes);
            }
        }
        Ok(dag)
    }
}

fn node(text: &str, number: u8, marks: Marks) -> Result<Node, TextError> {
    let dash = text.find('-').ok_or(TextError::Xid(number, XidError::NoDash))?;
    let (xid, edges) = match text.get(dash + 1..).and_then(|rest| rest.find('-')) {
        Some(second) => text.split_at(dash + 1 + second),
        None => (text, ""),
    };
    let xid: Xid = xid.parse().map_err(|error| TextError::Xid(number, error))?;
    let mut node = Node { xid, edges: [EdgeByte::EMPTY; Node::EDGES] };
    let Some(text) = edges.strip_prefix('-') else { return Ok(node) };
    let mut letters = text.chars();
    let mut places = node.edges.iter_mut();
    while let Some(letter) = letters.next() {
        let is_chosen = letter == '>';
        let letter = if is_chosen { letters.next() } else { Some(letter) };
        let edge = match letter {
            Some('*') => Some(EdgeByte::EMPTY),
            letter => letter.and_then(|letter| letter.to_digit(36)).map(|index| EdgeByte::to(index as u8)),
        };
        let (Some(edge), Some(place)) = (edge, places.next()) else { return Err(TextError::Edges(number)) };
        *place = if is_chosen && marks == Marks::Keep { edge.chosen() } else { edge };
    }
    if text.is_empty() { Err(TextError::Edges(number)) } else { Ok(node) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;
    use std::string::{String, ToString};

    const X: &str = "xdp-d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1d1";
    const A: &str = "ad-a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1";

    #[test]
    fn published_addresses_are_read_as_they_are_written() {
        for text in [
            "ad-1122334455667788aaaaaaaaaaaaaaaaaaaaaaaa-11:\n\
             0x1001-1122334455667788bbbbbbbbbbbbbbbbbbbbbbbb-2:\n\
             hid-0ef791a4543330d92fa9fb0f0e9c59c24c6df701-0",
            "u4id-0a024702c3d70000000000000000000000000000-21:\n\
             zf-0110000000000000000000000000000000000000-2:\n\
             xdp-007f4e38904e83634acc7e1340ef7665e3f1f57b-210",
        ] {
            let dag: Dag = text.parse().unwrap();
            assert_eq!((dag.validate(), format!("{dag:#}").as_str()), (Ok(3), text));
            let line = text.replace('\n', "");
            assert_eq!((line.parse(), dag.to_string()), (Ok(dag), line));
            assert_eq!(format!("{text}\n").to_uppercase().replace("0X", "0x").parse(), Ok(dag));
        }
    }

    #[test]
    fn invalid_addresses_are_written_with_all_their_edges() {
        for (rows, text) in [
            (&[(X, [0x80, 0x7f, 0x7f, 0x7f])][..], format!("!{X}->0***")),
            (&[(A, [0x7f, 1, 0x7f, 0x7f]), (X, [0, 1, 0x7f, 0x7f])], format!("!{A}-*1**:{X}-01**")),
            (&[(A, [0x7e, 0x7f, 0x7f, 0x7f])], format!("!{A}-+***")),
            (&[(A, [0xff, 0x23, 0x24, 9])], format!("!{A}->*z+9")),
        ] {
            let mut dag = Dag::EMPTY;
            for (xid, edges) in rows {
                dag.push(Node { xid: xid.parse().unwrap(), edges: edges.map(EdgeByte) });
            }
            assert_eq!(dag.to_string(), text);
            let readable = !text.contains('+');
            assert_eq!(text.parse::<Dag>().ok() == Some(dag), readable, "{text}");
        }
    }

    #[test]
    fn nine_nodes_are_read_and_ten_are_not() {
        let nodes = |n: usize| (0..n).map(|_| A).collect::<std::vec::Vec<_>>().join(":");
        assert_eq!(nodes(9).parse::<Dag>().map(|dag| dag.len()), Ok(9));
        assert_eq!(nodes(10).parse::<Dag>(), Err(TextError::ManyNodes));
    }

    #[test]
    fn marks_are_dropped_on_request() {
        let marked = format!("!{X}->0***");
        assert_eq!(Dag::parse(&marked, Marks::Drop).unwrap().to_string(), format!("{X}-0"));
        assert_eq!(marked.parse::<Dag>().unwrap().without_marks().to_string(), format!("{X}-0"));
    }

    #[test]
    fn texts_that_are_no_addresses_are_refused() {
        let cases: [(String, TextError); 11] = [
            (String::new(), TextError::Empty),
            ("!".into(), TextError::Empty),
            ("ad".into(), TextError::Xid(0, XidError::NoDash)),
            (format!("{X}-0:"), TextError::Xid(1, XidError::NoDash)),
            (format!("{X}-"), TextError::Edges(0)),
            (format!("{X}-01234"), TextError::Edges(0)),
            (format!("{X}->"), TextError::Edges(0)),
            (format!("{X}->>0"), TextError::Edges(0)),
            (format!("{X}-0:\n\n{X}"), TextError::Xid(1, XidError::Type)),
            (format!("{A}-0-1"), TextError::Edges(0)),
            (format!(" {A}"), TextError::Xid(0, XidError::Type)),
        ];
        for (text, error) in cases {
            assert_eq!(text.parse::<Dag>(), Err(error), "{text}");
        }
    }
}
