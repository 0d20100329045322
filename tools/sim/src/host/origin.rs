//! A protocol's side of its relation to the RIB, driven over simulated messages.

use super::messages::{FromRib, ToRib};
use super::{Base, Life, ProcessId};
use crate::world::Fabric;
use sluice_clients::{Origin, Window};
use sluice_rib::OriginSettings;

/// An origin in the RIB of its router.
pub struct OriginClient {
    settings: OriginSettings,
    /// The rules of an origin, as in real processes.
    pub state: Origin,
    window: Window,
}

impl OriginClient {
    /// Returns an origin that is not registered yet.
    pub fn new(settings: OriginSettings) -> Self {
        OriginClient { settings, state: Origin::default(), window: Window::new(Origin::WINDOW) }
    }

    /// Registers with a started RIB; forgets a dead RIB.
    pub fn life(&mut self, base: &Base, fabric: &mut Fabric, life: Life) {
        match life {
            Life::Born(rib) if rib.process == ProcessId::RIB => {
                base.send(fabric, ProcessId::RIB, ToRib::RegisterOrigin(self.settings.clone()));
            }
            Life::Died(rib) if rib.process == ProcessId::RIB => {
                self.state.rib_died();
                self.window.clear();
            }
            _ => {}
        }
    }

    /// Takes note of a reply. Returns true if the origin is newly registered: everything must be announced.
    pub const fn reply(&mut self, reply: &FromRib) -> bool {
        match reply {
            FromRib::Registered => self.state.registered(),
            FromRib::RoutesTaken => self.window.answered(),
            FromRib::Answers(_) | FromRib::InterestInvalid(_) => {}
        }
        matches!(reply, FromRib::Registered)
    }

    /// Returns true if a batch may be sent.
    pub const fn has_room(&self) -> bool {
        self.state.is_registered() && self.window.has_room()
    }

    /// Returns true if the RIB has taken every batch.
    pub const fn is_drained(&self) -> bool {
        self.window.is_empty()
    }

    /// Sends a batch. A RIB without the origin gets every route after the registration.
    pub fn send(&mut self, base: &Base, fabric: &mut Fabric, routes: ToRib) {
        if self.state.is_registered() {
            self.window.sent();
            base.send(fabric, ProcessId::RIB, routes);
        }
    }

    /// Ends the refresh, if a refresh is due and every route is announced.
    pub fn end_refresh(&mut self, base: &Base, fabric: &mut Fabric, is_all_announced: bool) {
        if self.state.end_refresh(is_all_announced) {
            base.send(fabric, ProcessId::RIB, ToRib::EndOfRefresh);
        }
    }
}
