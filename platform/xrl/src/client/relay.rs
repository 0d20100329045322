//! Calls that somebody else carries out: an endpoint of a command line whose calls go to another element of a cluster.

use crate::XrlError;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// The reply to a relayed call, in octets.
pub type RelayedReply = Pin<Box<dyn Future<Output = Result<Vec<u8>, XrlError>>>>;

/// Carries calls out elsewhere.
pub trait Relay {
    /// Calls a method of `target`; `path` is PACKAGE.SERVICE/METHOD, and `within` the longest wait for the reply.
    fn call(&self, target: &str, path: &str, within: Option<Duration>, request: Vec<u8>) -> RelayedReply;
}

/// A method that is called through a relay.
pub(crate) struct RelayedMethod {
    pub(crate) relay: Rc<dyn Relay>,
    pub(crate) target: String,
    pub(crate) path: String,
}

impl RelayedMethod {
    pub(crate) fn call(&self, request: Vec<u8>, within: Option<Duration>) -> RelayedReply {
        self.relay.call(&self.target, &self.path, within, request)
    }
}
