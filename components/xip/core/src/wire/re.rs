//! The text forms of the original XIA prototype: `TYPE:ID` for XIDs, `RE` lines for addresses.
//!
//! `RE ( F G ) A B`: the entry prefers A and falls back to F, F prefers A and falls back to G, G leads to A, A to B. Nodes in
//! parentheses are thus the fallback path to the node behind them.

use super::address::{Dag, Node};
use super::udp;
use core::fmt;
use core::net::Ipv4Addr;
use sluice_base::{Xid, XidType};

/// The reason why a text is no `RE` line or no XID of the prototype.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReError {
    /// The first word is not `RE`.
    NoRe,
    /// A word is no `TYPE:ID`.
    Xid,
    /// Parentheses do not match, are nested or enclose no word.
    Parentheses,
    /// The line has no node, or more than nine.
    Nodes,
}

impl fmt::Display for ReError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReError::NoRe => "expected RE and nodes",
            ReError::Xid => {
                "expected AD, HID, CID, SID or IP, a colon, and 40 hexadecimal digits (IP: an IPv4 address)"
            }
            ReError::Parentheses => "parentheses do not match",
            ReError::Nodes => "an address has 1 to 9 nodes",
        })
    }
}

impl core::error::Error for ReError {}

/// Reads an XID of the prototype: `AD`, `HID`, `CID` or `SID`, a colon and 40 hexadecimal digits; `IP`, a colon and an IPv4
/// address, which is the uni4id of the address.
///
/// # Errors
/// [`ReError::Xid`].
pub fn xid(text: &str) -> Result<Xid, ReError> {
    let (name, id) = text.split_once(':').ok_or(ReError::Xid)?;
    if name == "IP" {
        return id.parse::<Ipv4Addr>().map(udp::uni4id).map_err(|_| ReError::Xid);
    }
    let kind: XidType = match name {
        "AD" | "HID" | "CID" | "SID" => name.parse().map_err(|_| ReError::Xid)?,
        _ => return Err(ReError::Xid),
    };
    let digits: &[u8; 40] = id.as_bytes().try_into().map_err(|_| ReError::Xid)?;
    let mut octets = [0; 20];
    for (octet, pair) in octets.iter_mut().zip(digits.as_chunks::<2>().0) {
        let digit = |digit: u8| char::from(digit).to_digit(16).ok_or(ReError::Xid);
        *octet = ((digit(pair[0])? << 4) | digit(pair[1])?) as u8;
    }
    Ok(Xid { kind, id: octets })
}

/// Reads an `RE` line. In parentheses that no node follows, each node leads to the next.
///
/// # Errors
/// [`ReError`].
pub fn address(text: &str) -> Result<Dag, ReError> {
    let mut words = text.split_ascii_whitespace();
    if words.next() != Some("RE") {
        return Err(ReError::NoRe);
    }
    // Each node, and the row of the main node before which the node is a fallback; nodes outside of parentheses have none.
    let mut nodes: [(Option<Xid>, bool); Dag::MOST_NODES] = [(None, false); Dag::MOST_NODES];
    let (mut len, mut group_start) = (0, None);
    for word in words {
        match word {
            "(" if group_start.is_none() => group_start = Some(len),
            ")" if group_start.is_some_and(|start| start < len) => group_start = None,
            "(" | ")" => return Err(ReError::Parentheses),
            word => {
                let place = nodes.get_mut(len).ok_or(ReError::Nodes)?;
                *place = (Some(xid(word)?), group_start.is_some());
                len += 1;
            }
        }
    }
    if group_start.is_some() {
        return Err(ReError::Parentheses);
    }
    let nodes = nodes.get(..len).unwrap_or_default();
    let next_main = |from: usize| nodes.iter().skip(from).position(|(_, is_fallback)| !is_fallback);
    // Edges of a node, or of the entry, before row `next`.
    let edges = |next: usize| match next_main(next).map(|skipped| next + skipped) {
        Some(main) if main > next => [Some(main as u8), Some(next as u8)],
        _ => [(next < len).then_some(next as u8), None],
    };
    let mut dag = Dag::EMPTY;
    for (row, (xid, _)) in nodes.iter().enumerate() {
        let next = if row + 1 == len { 0 } else { row + 1 };
        let node = match edges(next) {
            [Some(first), Some(second)] => Node::new(xid.ok_or(ReError::Xid)?, &[first, second]),
            [Some(first), None] => Node::new(xid.ok_or(ReError::Xid)?, &[first]),
            _ => Node::new(xid.ok_or(ReError::Xid)?, &[]),
        };
        dag.push(node);
    }
    if dag.is_empty() { Err(ReError::Nodes) } else { Ok(dag) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn fallbacks_lead_to_the_node_behind_their_parentheses() {
        let line = "RE ( IP:192.168.0.1 HID:1111111111111111111111111111111111111111 ) \
                    AD:1000000000000000000000000000000000000000 SID:1110000000000000000000000000000000001113";
        let dag = address(line).unwrap();
        assert_eq!(dag.validate(), Ok(4));
        assert_eq!(
            dag.to_string(),
            "uni4id-4500000000010000fafa000000000000c0a80001-21:hid-1111111111111111111111111111111111111111-2:\
             ad-1000000000000000000000000000000000000000-3:sid-1110000000000000000000000000000000001113-20"
        );
        assert_eq!(address("RE"), Err(ReError::Nodes));
        assert_eq!(address("RE ( )"), Err(ReError::Parentheses));
    }
}
