//! Reports: of the FEA and the RIB to BGP (interfaces, invalidated answers, routes that could not be installed), and of BGP to
//! the log.

use crate::{BgpProcess, Input, Served};
use sluice_base::{AnyPrefix, InterfaceEvent};
use sluice_bgp::event::{Event, Hex, PeerEvent, SessionEvent};
use sluice_process::interface_events;
use sluice_xrl::idl::fea::v1 as fea;
use sluice_xrl::idl::rib::v1 as pb;
use sluice_xrl::{CallContext, XrlError};
use tracing::{debug, info, warn};

impl BgpProcess {
    /// Writes an event of a neighbor to the log, and wakes monitoring stations.
    pub(crate) fn report(&self, event: &Event) {
        self.bmp.wake();
        if let PeerEvent::Session(SessionEvent::State { from, to }) = event.what {
            self.mrt.state_changed(event.peer, from, to);
        }
        match &event.what {
            PeerEvent::Up => info!(event = event.id(), neighbor = %event.peer, "{event}"),
            PeerEvent::Down(reason) => info!(event = event.id(), neighbor = %event.peer, %reason, "{event}"),
            PeerEvent::NotOpened(failed) => {
                info!(event = event.id(), neighbor = %event.peer, reason = %failed, "{event}")
            }
            PeerEvent::Restarts(_) => info!(event = event.id(), neighbor = %event.peer, "{event}"),
            PeerEvent::EndOfRib(_) | PeerEvent::Session(_) | PeerEvent::Joined(_) | PeerEvent::Left(_) => {
                debug!(event = event.id(), neighbor = %event.peer, "{event}")
            }
            PeerEvent::Malformed { update, .. } => {
                let octets = Hex(update);
                warn!(event = event.id(), neighbor = %event.peer, %octets, "{event}");
            }
            PeerEvent::MoreMalformed { .. } => {
                warn!(event = event.id(), neighbor = %event.peer, "{event}");
            }
            PeerEvent::Refused { range, .. } => {
                warn!(event = event.id(), neighbor = %event.peer, %range, "{event}");
            }
            PeerEvent::NoNextHop(_) => warn!(event = event.id(), neighbor = %event.peer, "{event}"),
            PeerEvent::RefreshIgnored(..) => info!(event = event.id(), neighbor = %event.peer, "{event}"),
            PeerEvent::RestartTookTooLong(_)
            | PeerEvent::LongLivedStale(_)
            | PeerEvent::RefreshTookTooLong(_)
            | PeerEvent::BadFilter(_)
            | PeerEvent::TooManyNeighbors
            | PeerEvent::TooLarge
            | PeerEvent::Reduced
            | PeerEvent::MaximumPrefixes(..)
            | PeerEvent::NoRefresh(_)
            | PeerEvent::NoPolicy { .. } => {
                warn!(event = event.id(), neighbor = %event.peer, "{event}")
            }
        }
    }
}

impl fea::InterfaceObserver for Served {
    async fn interface_changed(
        &self,
        _ctx: &CallContext,
        request: fea::InterfaceChangedRequest,
    ) -> Result<fea::InterfaceChangedReply, XrlError> {
        for event in interface_events(&request)? {
            if event == InterfaceEvent::SnapshotEnd {
                self.snapshot.arrived();
            }
            self.interfaces.borrow_mut().apply(event);
        }
        Ok(fea::InterfaceChangedReply {})
    }
}

impl pb::InterestHolder for Served {
    async fn interest_invalid(
        &self,
        _ctx: &CallContext,
        request: pb::InterestInvalidRequest,
    ) -> Result<pb::InterestInvalidReply, XrlError> {
        for net in &request.valid {
            let prefix = AnyPrefix::try_from(net)?;
            self.rib.invalidated(prefix);
            self.input(Input::Invalid(prefix));
        }
        Ok(pb::InterestInvalidReply {})
    }
}

impl pb::OriginOwner for Served {
    async fn routes_rejected(
        &self,
        _ctx: &CallContext,
        request: pb::RoutesRejectedRequest,
    ) -> Result<pb::RoutesRejectedReply, XrlError> {
        if let Some(route) = request.routes.first() {
            let count = request.routes.len();
            warn!(reason = route.reason, count, "routes refused by the forwarding engine");
        }
        Ok(pb::RoutesRejectedReply {})
    }
}
