//! The repair of foreign changes, at a limited rate.

use super::Fea;
use crate::event::Event;
use crate::output::{Effect, Output};
use crate::repair::{Drift, Verdict};
use crate::table::Table;
use alloc::format;
use alloc::string::ToString;
use sluice_base::Instant;
use sluice_machine::Outbox;

impl Fea {
    /// Repairs a damage now, or as soon as allowed.
    pub(super) fn damage(&mut self, now: Instant, damage: Drift, out: &mut Outbox<Output>) {
        match self.repairs.ask(now, damage) {
            Verdict::Now => self.repair(damage, out),
            Verdict::FirstWait => {
                let what = match damage {
                    Drift::Route(_, prefix) => prefix.to_string(),
                    Drift::NextHop(id) => id.to_string(),
                    Drift::Forwarding(family) => format!("{family} forwarding"),
                    Drift::Link(index) => format!("interface {}", self.interfaces.name(index)),
                    Drift::Address(index, address) => {
                        format!("the address {} of {}", address.addr, self.interfaces.name(index))
                    }
                };
                out.push(Output::Effect(Effect::Event(Event::Contended(what))));
            }
            Verdict::Wait => {}
        }
    }

    pub(super) fn repair(&mut self, damage: Drift, out: &mut Outbox<Output>) {
        self.repaired += 1;
        match damage {
            Drift::Route(table, prefix) => {
                out.push(Output::Effect(Effect::Event(Event::RouteRepaired(table, prefix))));
                self.table(table).side(prefix.family()).repair(prefix, out);
            }
            Drift::Forwarding(family) => {
                if let Some(enabled) = self.interfaces.wanted_forwarding(family) {
                    out.push(Output::Effect(Effect::Event(Event::ForwardingRepaired(family))));
                    self.interfaces.write_forwarding(family, enabled, out);
                }
            }
            Drift::Link(index) => {
                let name = self.interfaces.name(index);
                out.push(Output::Effect(Effect::Event(Event::LinkRepaired(name))));
                self.interfaces.configure_one(index, out);
            }
            Drift::Address(index, address) => {
                let name = self.interfaces.name(index);
                out.push(Output::Effect(Effect::Event(Event::AddressRepaired(name, address.addr))));
                self.interfaces.configure_one(index, out);
            }
            Drift::NextHop(id) => {
                out.push(Output::Effect(Effect::Event(Event::NextHopRepaired(id))));
                if let Some(n) = self.pool.find(id) {
                    self.pool.rewrite(n, out);
                    for side in self.tables.values_mut().flat_map(Table::sides) {
                        side.member_changed(n, self.round, &mut self.pool, out);
                    }
                    return;
                }
                for side in self.tables.values_mut().flat_map(Table::sides) {
                    if side.rewrite_group(id, &mut self.pool, out) {
                        return;
                    }
                }
            }
        }
    }
}
