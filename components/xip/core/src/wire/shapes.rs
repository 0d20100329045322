//! Addresses of common shapes.

use super::address::{Dag, Node};
use sluice_base::Xid;

impl Dag {
    /// An address of a single node.
    pub fn direct(intent: Xid) -> Self {
        let mut dag = Dag::EMPTY;
        dag.push(Node::new(intent, &[0]));
        dag
    }

    /// Scoping: the packet passes each of `scopes`, in order, before the intent. `None` with more than eight scopes.
    pub fn scoped(scopes: &[Xid], intent: Xid) -> Option<Self> {
        Self::chain(scopes, intent, |_, next| [Some(next), None], [Some(0), None])
    }

    /// Fallback: the entry prefers the intent, and otherwise leads through `via`, in order, to the intent. `None` with more
    /// than eight nodes in `via`.
    pub fn with_fallback(intent: Xid, via: &[Xid]) -> Option<Self> {
        let last = via.len() as u8;
        Self::chain(via, intent, |_, next| [Some(next), None], [Some(last), (last > 0).then_some(0)])
    }

    /// Several ways: the entry prefers the intent, and otherwise tries each of `ways`, in order, each of which leads to the intent. `None`
    /// with more than three ways.
    pub fn any_way(intent: Xid, ways: &[Xid]) -> Option<Self> {
        let last = ways.len() as u8;
        let mut dag = Dag::EMPTY;
        for way in ways {
            dag.push(Node::new(*way, &[last]));
        }
        let order = [last, 0, 1, 2];
        dag.push(Node::new(intent, order.get(..=ways.len())?));
        Some(dag)
    }

    /// Iterative refinement: each node prefers the intent, and otherwise leads to the next scope. `None` with more than eight
    /// scopes.
    pub fn refined(scopes: &[Xid], intent: Xid) -> Option<Self> {
        let last = scopes.len() as u8;
        let edges = |_, next| [Some(last), (next < last).then_some(next)];
        Self::chain(scopes, intent, edges, [Some(last), (last > 0).then_some(0)])
    }

    /// Alternatives: the entry tries each of `sinks`, in order. `None` without sinks and with more than four.
    pub fn any_of(sinks: &[Xid]) -> Option<Self> {
        let (last, before) = sinks.split_last()?;
        if sinks.len() > Node::EDGES {
            return None;
        }
        let mut dag = Dag::EMPTY;
        before.iter().for_each(|sink| {
            dag.push(Node::new(*sink, &[]));
        });
        let order = [0, 1, 2, 3];
        dag.push(Node::new(*last, order.get(..sinks.len())?));
        Some(dag)
    }

    /// Nodes in order, with up to two edges each (`edges` gets a row and the row after it), then the intent, whose row has the
    /// entry's edges.
    fn chain(
        nodes: &[Xid],
        intent: Xid,
        edges: impl Fn(u8, u8) -> [Option<u8>; 2],
        entry: [Option<u8>; 2],
    ) -> Option<Self> {
        let node = |xid, edges: [Option<u8>; 2]| match edges {
            [Some(first), Some(second)] => Node::new(xid, &[first, second]),
            [Some(only), None] | [None, Some(only)] => Node::new(xid, &[only]),
            [None, None] => Node::new(xid, &[]),
        };
        let mut dag = Dag::EMPTY;
        for (row, xid) in (0_u8..).zip(nodes) {
            if !dag.push(node(*xid, edges(row, row + 1))) {
                return None;
            }
        }
        dag.push(node(intent, entry)).then_some(dag)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_base::XidType;
    use std::string::ToString;

    fn xid(kind: u32) -> Xid {
        Xid { kind: XidType(kind), id: [kind as u8; 20] }
    }

    fn edges(dag: Option<Dag>) -> std::string::String {
        let dag = dag.unwrap();
        assert_eq!(dag.validate(), Ok(dag.len()));
        let text = dag.to_string();
        text.split(':').map(|node| node.split('-').nth(2).unwrap_or("").to_string() + " ").collect()
    }

    #[test]
    fn each_way_leads_to_the_intent() {
        let xid = |octet| Xid { kind: sluice_base::XidType::AD, id: [octet; 20] };
        let dag = Dag::any_way(xid(9), &[xid(1), xid(2)]).unwrap();
        assert_eq!(
            (dag.validate(), dag.sinks().collect::<alloc::vec::Vec<_>>()),
            (Ok(3), alloc::vec![xid(9)])
        );
        assert_eq!(dag.nodes()[2].edges.map(|edge| edge.0), [2, 0, 1, 0x7f]);
        assert!(Dag::any_way(xid(9), &[xid(1); 4]).is_none());
    }

    #[test]
    fn shapes_have_the_edges_of_their_vectors() {
        let (scopes, intent) = ([xid(0x10), xid(0x11)], xid(0x12));
        assert_eq!(edges(Some(Dag::direct(intent))), "0 ");
        assert_eq!(edges(Dag::scoped(&scopes, intent)), "1 2 0 ");
        assert_eq!(edges(Dag::scoped(&[], intent)), "0 ");
        assert_eq!(edges(Dag::refined(&scopes, intent)), "21 2 20 ");
        assert_eq!(edges(Dag::refined(&[], intent)), "0 ");
        assert_eq!(edges(Dag::with_fallback(intent, &scopes)), "1 2 20 ");
        assert_eq!(edges(Dag::with_fallback(intent, &[])), "0 ");
        assert_eq!(edges(Dag::any_of(&[xid(1), xid(2), xid(3), xid(4)])), "   0123 ");
        assert_eq!(Dag::any_of(&[intent; 5]), None);
        assert_eq!(Dag::scoped(&[intent; 9], intent), None);
        assert_eq!(Dag::scoped(&[intent; 8], intent).map(|dag| dag.len()), Some(9));
    }
}
