//! The leader's subscription to the routes of its RIB, before the decision.

use super::Stream;
use crate::Served;
use sluice_base::{Distance, Duration, Family, FamilyId, Ipv4Prefix, Ipv6Prefix, TableId};
use sluice_cluster::stream::section::{Section, StreamOrigin};
use sluice_cluster::stream::wire::Routes;
use sluice_process::clock;
use sluice_xrl::idl::rib::v1 as rib;
use sluice_xrl::routes::decode_routes;
use sluice_xrl::{CallContext, XrlError};

const fn family_of(id: FamilyId) -> Family {
    if id.0 == FamilyId::IPV6.0 { Family::Ipv6 } else { Family::Ipv4 }
}

impl Stream {
    /// Notes that the RIB is going to send all routes of a family.
    pub(crate) fn begin_refresh(&self, family: FamilyId) {
        if let Some(term) = &mut *self.term.borrow_mut() {
            term.leader.begin_refresh(family_of(family));
        }
    }

    /// Hands routes of the RIB to the leader.
    fn announce(&self, family: FamilyId, request: &rib::SubscribedRoutesRequest) -> Result<(), XrlError> {
        let family = family_of(family);
        let routes = match family {
            Family::Ipv4 => Routes::V4(decode_routes::<Ipv4Prefix>(&request.packed)?),
            Family::Ipv6 => Routes::V6(decode_routes::<Ipv6Prefix>(&request.packed)?),
        };
        let mut term = self.term.borrow_mut();
        let Some(term) = &mut *term else { return Ok(()) };
        if let Some(origin) = request.origins.first() {
            let section = Section { table: TableId::MAIN, family, origin: origin.name.clone() };
            let registration = StreamOrigin {
                distance: Distance(u8::try_from(origin.distance).unwrap_or(u8::MAX)),
                external: origin.external,
                grace: Duration::from_secs(origin.grace_seconds.into()),
                kinds: origin.kinds.clone(),
            };
            if !term.leader.announce(clock::now(), &section, &registration, &routes) {
                return Err(XrlError::Busy("the stream has no room for another origin".into()));
            }
        }
        if request.dump_done {
            term.leader.end_refresh(clock::now(), family);
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        self.term.borrow().as_ref().is_none_or(|term| term.leader.has_room())
    }
}

impl rib::RouteSubscriber for Served {
    async fn subscribed_routes(
        &self,
        _ctx: &CallContext,
        request: rib::SubscribedRoutesRequest,
    ) -> Result<rib::SubscribedRoutesReply, XrlError> {
        let stream = &self.stream;
        let Some(family) = stream.subscription.admit(&request).await? else {
            return Err(XrlError::BadArguments("subscription: it is over".into()));
        };
        stream.announce(family, &request)?;
        // The leader itself knows which routes are gone.
        stream.subscription.note(&request, &[]);
        stream.due.notify_one();
        // The reply is the RIB's permission to go on.
        while !stream.has_room() {
            let room = stream.room.notified();
            if !stream.has_room() {
                room.await;
            }
        }
        Ok(rib::SubscribedRoutesReply {})
    }
}
