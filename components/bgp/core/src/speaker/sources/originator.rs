//! The way of originated routes to the tables: provenance ids, policies, orders.

use crate::shard::{OwnRoute, PeerIndex};
use crate::speaker::config::Bindings;
use crate::speaker::messages::Output;
use crate::table::{ImportPolicies, Order, Origination, Spread};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use sluice_base::{AnyPrefix, Asn, Provenance};
use sluice_machine::Outbox;

/// The provenance ids of control, and the tables of prefixes.
#[derive(Debug)]
pub(crate) struct Originator {
    provenance: Provenance,
    spread: Spread,
}

impl Originator {
    /// Returns an originator that draws ids of the source number `source`.
    pub fn new(source: u16, spread: Spread) -> Self {
        Originator { provenance: Provenance::new(source, 0), spread }
    }

    /// Returns the next provenance id.
    pub fn draw(&mut self) -> Provenance {
        self.provenance = self.provenance.next();
        self.provenance
    }
}

/// The parts of control with which a source of routes originates them.
pub(crate) struct Parts<'a> {
    pub bindings: &'a mut Bindings,
    pub local_as: Asn,
    pub originator: &'a mut Originator,
    pub out: &'a mut Outbox<Output>,
}

impl Parts<'_> {
    /// Returns the bound policies of a source.
    pub fn bound(&mut self, policy: &[String]) -> ImportPolicies {
        self.bindings.source(policy, self.local_as)
    }

    /// Gives the tables a source's name and policies.
    pub fn bind(&mut self, source: PeerIndex, name: &str, policy: &[String]) {
        let import = self.bound(policy);
        self.out.push(Output::Order(None, Order::SetSource(source, Arc::from(name), import)));
    }

    /// Returns true if policies of these names ask for facts.
    pub fn asks_for_facts(&self, policy: &[String]) -> bool {
        self.bindings.policies.facts(policy).next().is_some()
    }

    /// Originates a source's route, or withdraws it.
    pub fn originate(&mut self, source: PeerIndex, prefix: AnyPrefix, route: Option<OwnRoute>) {
        let provenance = self.originator.draw();
        let table = self.originator.spread.table_of(prefix);
        let origination = Box::new(Origination { source, prefix, route, provenance });
        self.out.push(Output::Order(Some(table), Order::Originate(origination)));
    }
}
