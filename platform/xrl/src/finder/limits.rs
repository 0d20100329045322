//! Limits of what the Finder keeps for a principal, on all its connections together.

use super::acl::Identity;
use super::core::Core;
use crate::XrlError;
use crate::finder::records::{ClientId, MAX_NAME};
use crate::idl::finder::v1::InterfaceOffer;
use crate::wire::denied::Denied;

/// The longest frame to the Finder, in octets. A registration describes each interface.
pub(super) const MAX_FRAME: usize = 2 << 20;
/// Targets of a principal.
const MAX_TARGETS: usize = 256;
/// Octets of the descriptions of a principal's interfaces.
const MAX_DESCRIPTORS: usize = 4 << 20;
/// Watches of a principal.
const MAX_WATCHES: usize = 1024;

fn octets(interfaces: &[InterfaceOffer]) -> usize {
    interfaces.iter().map(|interface| interface.descriptors.len()).sum()
}

impl Core {
    /// Refuses a target more than the caller's principal may have. `instance` is the target that the new one replaces, if
    /// that exists.
    pub(super) fn check_targets(
        &mut self,
        id: ClientId,
        instance: &str,
        interfaces: &[InterfaceOffer],
    ) -> Result<(), XrlError> {
        let identity = self.identity(id);
        let own = self
            .targets
            .iter()
            .filter(|(name, target)| name.as_str() != instance && self.identity(target.owner) == identity);
        let (count, described) =
            own.fold((0, 0), |(count, all), (_, target)| (count + 1, all + target.described()));
        if count >= MAX_TARGETS {
            return self.beyond(id, format!("more than {MAX_TARGETS} targets"));
        }
        if described + octets(interfaces) > MAX_DESCRIPTORS {
            return self.beyond(id, format!("more than {MAX_DESCRIPTORS} octets of descriptors"));
        }
        Ok(())
    }

    /// Refuses a watch more than the caller's principal may have.
    pub(super) fn check_watches(&mut self, id: ClientId, name: &str) -> Result<(), XrlError> {
        if name.len() > MAX_NAME {
            return Err(XrlError::BadArguments(format!("class, instance: more than {MAX_NAME} octets")));
        }
        let identity = self.identity(id);
        let own = self.clients.values().filter(|client| Some(client.identity) == identity);
        if own.map(|client| client.watches.len()).sum::<usize>() >= MAX_WATCHES {
            return self.beyond(id, format!("more than {MAX_WATCHES} watches"));
        }
        Ok(())
    }

    fn identity(&self, id: ClientId) -> Option<Identity> {
        self.clients.get(&id).map(|client| client.identity)
    }

    fn beyond(&mut self, id: ClientId, limit: String) -> Result<(), XrlError> {
        self.deny(id, Denied::Limit, &limit);
        Err(XrlError::Busy(limit))
    }
}
