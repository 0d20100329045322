//! Limits of what the Finder keeps for a principal, on all its connections together.

use super::acl::Identity;
use super::core::{ClientId, Core, MAX_NAME};
use super::denials::Denied;
use crate::XrlError;
use crate::idl::finder::v1::{InterfaceOffer, RegisterRequest};

/// The longest frame to the Finder, in octets. A registration describes each interface.
pub(super) const MAX_FRAME: usize = 2 << 20;
/// Targets of a principal.
const MAX_TARGETS: usize = 256;
/// Octets of the descriptions of a principal's interfaces.
const MAX_DESCRIPTORS: usize = 4 << 20;
/// Watches of a principal.
const MAX_WATCHES: usize = 1024;
/// Interfaces of a target.
const MAX_INTERFACES: usize = 256;
/// Methods of a target.
const MAX_METHODS: usize = 4096;
/// Endpoints of a target.
const MAX_ENDPOINTS: usize = 16;
/// Octets of an endpoint's address.
const MAX_ADDRESS: usize = 512;
/// Families by which a method is offered.
const MAX_FAMILIES: usize = 8;

fn octets(interfaces: &[InterfaceOffer]) -> usize {
    interfaces.iter().map(|interface| interface.descriptors.len()).sum()
}

/// Refuses a registration whose parts are too many or too long.
pub(super) fn check_size(request: &RegisterRequest) -> Result<(), XrlError> {
    let methods = || request.interfaces.iter().flat_map(|interface| &interface.methods);
    let wrong = if request.endpoints.len() > MAX_ENDPOINTS {
        format!("endpoints: more than {MAX_ENDPOINTS}")
    } else if request.endpoints.iter().any(|endpoint| endpoint.address.len() > MAX_ADDRESS) {
        format!("endpoints: an address of more than {MAX_ADDRESS} octets")
    } else if request.interfaces.len() > MAX_INTERFACES {
        format!("interfaces: more than {MAX_INTERFACES}")
    } else if methods().count() > MAX_METHODS {
        format!("interfaces: more than {MAX_METHODS} methods")
    } else if methods().any(|method| method.families.len() > MAX_FAMILIES) {
        format!("interfaces: a method of more than {MAX_FAMILIES} families")
    } else {
        return Ok(());
    };
    Err(XrlError::BadArguments(wrong))
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
