//! The balancer inside an element's machine: several inputs at once, and what all together change.

use crate::balancer::words::{Place, Words};
use crate::balancer::{self, Balancer};
use crate::elements::event::Event;
use crate::elements::io::Output;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sluice_base::Instant;
use sluice_machine::{Machine, Outbox};

/// Gives the balancer inputs. Of the stores to a word, the last one is carried out, and none if the word is as before: between two
/// inputs, the maps could be without elements.
pub fn feed(
    balancer: &mut Balancer,
    inputs: impl IntoIterator<Item = balancer::Input>,
    out: &mut Outbox<Output>,
) {
    let before = balancer.mirror().clone();
    let mut effects = Outbox::new();
    inputs.into_iter().for_each(|input| balancer.handle(Instant::ZERO, input, &mut effects));
    let effects: Vec<balancer::Output> = effects.drain().collect();
    let mut last: BTreeMap<Place, usize> = BTreeMap::new();
    for (at, effect) in effects.iter().enumerate() {
        if let balancer::Output::Store(store) = effect {
            last.insert(store.place, at);
        }
    }
    for (at, effect) in effects.into_iter().enumerate() {
        match effect {
            balancer::Output::Store(store) => {
                let is_last = last.get(&store.place) == Some(&at);
                if is_last && before.load(store.place) != store.value {
                    out.push(Output::Store(store));
                }
            }
            balancer::Output::NoRoomForNeighbor(mac) => out.push(Output::Event(Event::NoRoomForMac(mac))),
            balancer::Output::NoRoomForAddress(address) => {
                out.push(Output::Event(Event::NoRoomForAddress(address)));
            }
        }
    }
}
