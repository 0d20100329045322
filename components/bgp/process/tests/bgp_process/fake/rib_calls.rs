//! The calls of BGP to the fake RIB.

use super::{FakeRib, Served, not_here, until};
use sluice_base::{Ipv4Prefix, Ipv6Prefix};
use sluice_xrl::idl::{common::v1 as common, rib::v1 as rib};
use sluice_xrl::{CallContext, XrlError};

impl rib::Rib for Served<FakeRib> {
    async fn register_origin(
        &self,
        _: &CallContext,
        request: rib::RegisterOriginRequest,
    ) -> Result<rib::RegisterOriginReply, XrlError> {
        assert!(request.external && request.origin == "bgp");
        if self.0.refuses.get() {
            return Err(XrlError::BadArguments("origin: in use".into()));
        }
        self.0.has_origin.set(true);
        self.0.changed.notify_waiters();
        Ok(rib::RegisterOriginReply::default())
    }

    async fn unregister_origin(
        &self,
        _: &CallContext,
        _: rib::UnregisterOriginRequest,
    ) -> Result<rib::UnregisterOriginReply, XrlError> {
        not_here()
    }

    async fn update_routes(
        &self,
        _: &CallContext,
        request: rib::UpdateRoutesRequest,
    ) -> Result<rib::UpdateRoutesReply, XrlError> {
        if request.family == i32::from(common::Family::Ipv6) {
            self.0.take::<Ipv6Prefix>(&request)?;
        } else {
            self.0.take::<Ipv4Prefix>(&request)?;
        }
        self.0.batches.set(self.0.batches.get() + 1);
        self.0.changed.notify_waiters();
        Ok(rib::UpdateRoutesReply { coalesce_ms: self.0.coalesce_ms.get() })
    }

    async fn end_of_refresh(
        &self,
        _: &CallContext,
        _: rib::EndOfRefreshRequest,
    ) -> Result<rib::EndOfRefreshReply, XrlError> {
        self.0.refreshed.set(Some(self.0.routes.borrow().len()));
        self.0.changed.notify_waiters();
        Ok(rib::EndOfRefreshReply {})
    }

    async fn keep_note(
        &self,
        _: &CallContext,
        _: rib::KeepNoteRequest,
    ) -> Result<rib::KeepNoteReply, XrlError> {
        Ok(rib::KeepNoteReply {})
    }

    async fn set_gateways_usable(
        &self,
        _: &CallContext,
        _: rib::SetGatewaysUsableRequest,
    ) -> Result<rib::SetGatewaysUsableReply, XrlError> {
        Ok(rib::SetGatewaysUsableReply {})
    }

    async fn register_interest(
        &self,
        _: &CallContext,
        request: rib::RegisterInterestRequest,
    ) -> Result<rib::RegisterInterestReply, XrlError> {
        until(&self.0.changed, || self.0.answers.get()).await;
        let hop = sluice_base::NextHop::<std::net::IpAddr>::on(sluice_base::InterfaceIndex::new(1).unwrap());
        let forwarding: common::Forwarding = (&sluice_base::Forwarding::one(hop)).into();
        let answers = request.addrs.iter().map(|addr| {
            let length = addr.octets.len() as u32 * 8;
            let net = common::Net { octets: addr.octets.clone(), length, family: 0 };
            rib::Interest {
                valid: Some(net.clone()),
                reachable: true,
                net: Some(net),
                metric: 5,
                distance: 0,
                connected: true,
                forwarding: Some(forwarding.clone()),
            }
        });
        Ok(rib::RegisterInterestReply { answers: answers.collect() })
    }

    async fn deregister_interest(
        &self,
        _: &CallContext,
        _: rib::DeregisterInterestRequest,
    ) -> Result<rib::DeregisterInterestReply, XrlError> {
        Ok(rib::DeregisterInterestReply {})
    }

    async fn watch_presence(
        &self,
        _: &CallContext,
        _: rib::WatchPresenceRequest,
    ) -> Result<rib::WatchPresenceReply, XrlError> {
        not_here()
    }

    async fn unwatch_presence(
        &self,
        _: &CallContext,
        _: rib::UnwatchPresenceRequest,
    ) -> Result<rib::UnwatchPresenceReply, XrlError> {
        not_here()
    }

    async fn subscribe(
        &self,
        _: &CallContext,
        request: rib::SubscribeRequest,
    ) -> Result<rib::SubscribeReply, XrlError> {
        if self.0.refuses_subscriptions.get() {
            return Err(XrlError::Busy("it has too many".into()));
        }
        let mut subscriptions = self.0.subscriptions.borrow_mut();
        subscriptions.push(!request.origins.is_empty());
        self.0.changed.notify_one();
        Ok(rib::SubscribeReply { subscription: subscriptions.len() as u64 })
    }

    async fn unsubscribe(
        &self,
        _: &CallContext,
        request: rib::UnsubscribeRequest,
    ) -> Result<rib::UnsubscribeReply, XrlError> {
        self.0.subscriptions.borrow_mut()[request.subscription as usize - 1] = false;
        self.0.changed.notify_one();
        Ok(rib::UnsubscribeReply {})
    }

    async fn reject_routes(
        &self,
        _: &CallContext,
        _: rib::RejectRoutesRequest,
    ) -> Result<rib::RejectRoutesReply, XrlError> {
        not_here()
    }

    async fn lookup_route(
        &self,
        _: &CallContext,
        _: rib::LookupRouteRequest,
    ) -> Result<rib::LookupRouteReply, XrlError> {
        not_here()
    }

    async fn get_routes(
        &self,
        _: &CallContext,
        _: rib::GetRoutesRequest,
    ) -> Result<rib::GetRoutesReply, XrlError> {
        not_here()
    }

    async fn get_summary(
        &self,
        _: &CallContext,
        _: rib::GetSummaryRequest,
    ) -> Result<rib::GetSummaryReply, XrlError> {
        not_here()
    }

    async fn plumb_stage(
        &self,
        _: &CallContext,
        _: rib::PlumbStageRequest,
    ) -> Result<rib::PlumbStageReply, XrlError> {
        not_here()
    }

    async fn unplumb_stage(
        &self,
        _: &CallContext,
        _: rib::UnplumbStageRequest,
    ) -> Result<rib::UnplumbStageReply, XrlError> {
        not_here()
    }

    async fn get_stages(
        &self,
        _: &CallContext,
        _: rib::GetStagesRequest,
    ) -> Result<rib::GetStagesReply, XrlError> {
        not_here()
    }
}
