//! Following the FEA: its interfaces, of which sessions' next hops are made, and the listeners that it opens.

use crate::{BgpShell, listening};
use sluice_xrl::LifeEvent;
use sluice_xrl::idl::fea::v1 as fea;
use std::rc::Rc;
use tracing::warn;

/// Has every FEA that comes to life tell of its interfaces, and open the listeners. Never ends.
pub(crate) async fn follow(shell: Rc<BgpShell>, instance: String) {
    let router = &shell.frame.router;
    let client = fea::InterfacesClient::new(router, "fea");
    let Ok(mut lives) = router.watch_class("fea").await else {
        return warn!("the Finder does not tell of the FEA; BGP has no sockets");
    };
    while let Some(event) = lives.next().await {
        if let LifeEvent::Birth(life) = event {
            if let Err(error) = client.subscribe(fea::SubscribeRequest { target: instance.clone() }).await {
                warn!(%error, "the FEA does not tell of interfaces");
            }
            shell.listening.fea_is(&life);
            listening::refresh(&shell).await;
        }
    }
}
