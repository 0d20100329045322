//! Source addresses of the host's own packets on routes.

use crate::engine::EngineOp;
use crate::interface::Interfaces;
use crate::output::Output;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use core::net::IpAddr;
use sluice_base::Family;
use sluice_machine::Outbox;

/// The source addresses by family: as configured, and as the engine has them. An engine accepts only an address of the host, and the routes
/// vanish together with the address. So routes have no source address while the host lacks the configured one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    wanted: BTreeMap<Family, IpAddr>,
    set: BTreeMap<Family, IpAddr>,
}

impl Sources {
    /// Replaces the configured addresses.
    pub(crate) fn configure(&mut self, wanted: BTreeMap<Family, IpAddr>) {
        self.wanted = wanted;
    }

    /// Sets the source addresses of the engine by the host's addresses. Returns the families whose routes must be written again.
    pub(crate) fn settle(
        &mut self,
        interfaces: &Interfaces,
        out: &mut Outbox<Output>,
    ) -> [Option<Family>; 2] {
        Family::ALL.map(|family| {
            let source = self.wanted.get(&family).copied().filter(|source| interfaces.has_address(*source));
            if self.set.get(&family).copied() == source {
                return None;
            }
            match source {
                Some(source) => drop(self.set.insert(family, source)),
                None => drop(self.set.remove(&family)),
            }
            out.push(Output::Engine(EngineOp::SetSource { family, source }));
            Some(family)
        })
    }

    /// Returns sentences about configured addresses missing on the host.
    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        let missing = self.wanted.iter().filter(|(family, _)| !self.set.contains_key(family));
        missing.map(|(_, source)| {
            format!("no interface has the preferred source {source}: routes have no source address")
        })
    }
}
