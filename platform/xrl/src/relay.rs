//! Calls that somebody else carries out: an endpoint of a command line whose calls go to another element of a cluster.

use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use prost::Message;

use crate::finder;
use crate::link::ask;
use crate::{XrlEndpoint, XrlError};

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

impl XrlEndpoint {
    /// Asks the Finder: the relay's, if there is one.
    pub(crate) async fn ask_finder<Req, Rep>(&self, method: &str, request: &Req) -> Result<Rep, XrlError>
    where
        Req: Message + 'static,
        Rep: Message + Default + 'static,
    {
        let Some(relay) = &self.0.relay else {
            return ask(&self.0.link().await?, method, request).await;
        };
        let path = format!("finder.v1.Finder/{method}");
        let reply = relay.call(finder::TARGET, &path, None, request.encode_to_vec()).await?;
        Rep::decode(&reply[..]).map_err(|e| XrlError::Protocol(e.to_string()))
    }
}
