//! Following the FEA: each starting FEA is asked to announce its interfaces, and its events are read.

use sluice_base::InterfaceEvent;
use sluice_xrl::idl::fea::v1 as fea;
use sluice_xrl::{Life, LifeEvent, XrlEndpoint, XrlError};
use tracing::warn;

/// Reads the events of a call of `fea.v1.InterfaceObserver`.
///
/// # Errors
/// An event is malformed; none of the call's events may be applied then.
pub fn interface_events(request: &fea::InterfaceChangedRequest) -> Result<Vec<InterfaceEvent>, XrlError> {
    let events = request.events.iter().map(InterfaceEvent::try_from);
    events.collect::<Result<_, _>>().map_err(|error| XrlError::BadArguments(format!("events: {error}")))
}

/// Subscribes `instance` to the interfaces of each FEA that starts, and then calls `started`. The instance must serve
/// `fea.v1.InterfaceObserver`. Never ends.
pub async fn follow_fea(router: XrlEndpoint, instance: String, started: impl AsyncFn(Life)) {
    let client = fea::InterfacesClient::new(&router, "fea");
    let Ok(mut lives) = router.watch_class("fea").await else {
        return warn!("the Finder does not announce the FEA; interfaces stay unknown");
    };
    while let Some(event) = lives.next().await {
        let LifeEvent::Birth(life) = event else { continue };
        if let Err(error) = client.subscribe(fea::SubscribeRequest { target: instance.clone() }).await {
            warn!(%error, "the FEA does not announce its interfaces");
        }
        started(life).await;
    }
}
