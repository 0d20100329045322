//! Calls to components of another element of the cluster, through this element's component `cluster`.

use sluice_cluster::console::{CallKind, kind};
use sluice_cluster_process::idl::cluster::v1 as cluster;
use sluice_xrl::{Relay, RelayedReply, XrlEndpoint, XrlError};
use std::rc::Rc;
use std::time::Duration;

/// The time for the way to the element and back, beside the call itself.
const WAY: Duration = Duration::from_secs(6);

/// The way to an element.
struct Element {
    client: cluster::ElementsClient,
    number: u16,
    timeout: Duration,
}

impl Relay for Element {
    fn call(&self, target: &str, path: &str, within: Option<Duration>, request: Vec<u8>) -> RelayedReply {
        let within = within.unwrap_or(self.timeout);
        let request = cluster::GetFromElementRequest {
            element: self.number.into(),
            target: target.to_owned(),
            path: path.to_owned(),
            request,
            within_ms: u32::try_from(within.as_millis()).unwrap_or(u32::MAX),
            person: String::new(),
        };
        let client = self.client.with_deadline(within + WAY);
        // Everything else has to say to the element's Finder that it only reads.
        let call = match kind(path, false) {
            Some(CallKind::Changes) => client.call_element(request),
            Some(CallKind::Reads | CallKind::Prepares) | None => client.get_from_element(request),
        };
        Box::pin(async move {
            let reply = call.await.map_err(|error| match error {
                XrlError::UnknownTarget(_) => {
                    XrlError::application(1, "no cluster is configured here: other elements cannot be asked")
                }
                other => other,
            })?;
            if reply.error.is_empty() { Ok(reply.reply) } else { Err(XrlError::decode(&reply.error)) }
        })
    }
}

/// Returns an endpoint whose calls an element carries out.
pub fn at(router: &XrlEndpoint, number: u16, timeout: Duration) -> XrlEndpoint {
    let client = cluster::ElementsClient::new(router, "cluster");
    XrlEndpoint::through(Rc::new(Element { client, number, timeout }))
}
