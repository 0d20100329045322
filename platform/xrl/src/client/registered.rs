//! Targets as an endpoint stores them.

use crate::XrlError;
use crate::idl::finder::v1 as wire;
use crate::wire::seal::{Seal, Seals};
use std::rc::Rc;

/// A target as stored by the endpoint, for registration with every new Finder.
pub(crate) struct Registered {
    pub(crate) request: wire::RegisterRequest,
    pub(crate) paths: Vec<String>,
    pub(crate) seals: Rc<Seals>,
}

impl Registered {
    /// Takes what the Finder notified of a registration: from now on keys of the new seal are valid.
    pub(crate) fn take_seal(&mut self, reply: wire::RegisterReply) -> Result<(), XrlError> {
        self.request.cookie = reply.cookie;
        self.seals.add(Seal::read(&reply.seal)?);
        Ok(())
    }
}
