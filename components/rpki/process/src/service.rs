//! The component's interface: the core's state as messages, and the data for subscribers.

use crate::Served;
use crate::idl::rpki::v1 as pb;
use crate::transfer::Transfer;
use sluice_base::{Asn, IpPrefix};
use sluice_process::clock;
use sluice_rpki::view::CacheView;
use sluice_validation::aspa::MOST_PROVIDERS;
use sluice_validation::{AnyVrp, Providers, Validity, VrpTable};
use sluice_xrl::convert::ConvertError;
use sluice_xrl::{CallContext, XrlError};
use std::time::Duration;

/// VRPs or ASPAs of a page, unless the caller wants fewer.
const VRPS: usize = 1000;

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn cache(view: CacheView) -> pb::Cache {
    pb::Cache {
        name: view.name,
        address: view.address.to_string(),
        port: view.port.into(),
        tls: view.is_tls,
        preference: view.preference.into(),
        state: view.state.into(),
        source: view.is_source,
        version: view.version.into(),
        session: view.serial.map(|(session, _)| session.into()),
        serial: view.serial.map(|(_, serial)| serial),
        ipv4: count(view.vrps.0),
        ipv6: count(view.vrps.1),
        aspas: count(view.aspas),
        age_ms: view.age.map(millis),
        expires_ms: view.expires_in.map(millis),
        problem: view.problem.unwrap_or_default(),
        resets: view.counters.resets,
        updates: view.counters.updates,
        failures: view.counters.failures,
    }
}

fn not_a_page() -> XrlError {
    XrlError::BadArguments("`after` is not of an earlier page".into())
}

fn message(vrp: AnyVrp) -> pb::Vrp {
    pb::Vrp { net: Some(vrp.prefix().into()), max_length: vrp.max_length().into(), asn: vrp.asn().0 }
}

/// Returns at most `limit` VRPs from place `from` on, and the place behind the last VRP. With a prefix, VRPs that cover the prefix or lie
/// inside.
fn page(table: &VrpTable, net: Option<IpPrefix>, from: usize, limit: usize) -> (Vec<AnyVrp>, Option<usize>) {
    let is_wanted = |vrp: &AnyVrp| net.is_none_or(|net| net.covers(vrp.prefix()) || vrp.prefix().covers(net));
    let mut wanted = table.iter().enumerate().skip(from).filter(|(_, vrp)| is_wanted(vrp));
    let vrps: Vec<(usize, AnyVrp)> = wanted.by_ref().take(limit).collect();
    let next = wanted.next().map(|(place, _)| place);
    (vrps.into_iter().map(|(_, vrp)| vrp).collect(), next)
}

impl pb::Rpki for Served {
    async fn get_summary(
        &self,
        _ctx: &CallContext,
        _request: pb::GetSummaryRequest,
    ) -> Result<pb::GetSummaryReply, XrlError> {
        Ok(self.driver.read(|machine| {
            let epochs = machine.epochs();
            let sizes = epochs.table().map_or((0, 0), |table| (table.ipv4.len(), table.ipv6.len()));
            let exceptions = &machine.settings().exceptions;
            pb::GetSummaryReply {
                epoch: epochs.number(),
                has_data: epochs.table().is_some(),
                ipv4: count(sizes.0),
                ipv6: count(sizes.1),
                aspas: epochs.table().map_or(0, |table| count(table.aspas.len())),
                source: machine.source().unwrap_or_default().into(),
                caches: count(machine.settings().caches.len()),
                synchronized: count(machine.synchronized()),
                roas: count(exceptions.assertions.len()),
                filters: count(exceptions.filters.len()),
                own_aspas: count(exceptions.aspa_assertions.len()),
                aspa_filters: count(exceptions.aspa_filters.len()),
                subscribers: count(self.subscribers.len()),
                epochs: epochs.count(),
            }
        }))
    }

    async fn get_caches(
        &self,
        _ctx: &CallContext,
        _request: pb::GetCachesRequest,
    ) -> Result<pb::GetCachesReply, XrlError> {
        let views = self.driver.read(|machine| machine.view(clock::now()));
        Ok(pb::GetCachesReply { caches: views.into_iter().map(cache).collect() })
    }

    async fn get_vrps(
        &self,
        _ctx: &CallContext,
        request: pb::GetVrpsRequest,
    ) -> Result<pb::GetVrpsReply, XrlError> {
        let from = match request.after.as_str() {
            "" => 0,
            text => text.parse().map_err(|_| not_a_page())?,
        };
        let net = request.net.as_ref().map(IpPrefix::try_from).transpose()?;
        let limit = if request.limit == 0 { VRPS } else { (request.limit as usize).min(VRPS) };
        let table = self.driver.read(|machine| machine.epochs().table().cloned());
        let (vrps, next) = table.map(|table| page(&table, net, from, limit)).unwrap_or_default();
        let next = next.map(|next| next.to_string()).unwrap_or_default();
        Ok(pb::GetVrpsReply { vrps: vrps.into_iter().map(message).collect(), next })
    }

    async fn get_aspas(
        &self,
        _ctx: &CallContext,
        request: pb::GetAspasRequest,
    ) -> Result<pb::GetAspasReply, XrlError> {
        // The customer of the page before.
        let after: Option<u32> = match request.after.as_str() {
            "" => None,
            text => Some(text.parse().map_err(|_| not_a_page())?),
        };
        let asn = Asn(request.asn);
        let limit = if request.limit == 0 { VRPS } else { (request.limit as usize).min(VRPS) };
        let table = self.driver.read(|machine| machine.epochs().table().cloned());
        let Some(table) = table else { return Ok(pb::GetAspasReply::default()) };
        let mut wanted = table.aspas.iter().filter(|(customer, providers)| {
            after.is_none_or(|after| customer.0 > after)
                && (asn.0 == 0 || *customer == asn || providers.contains(asn))
        });
        let message = |(customer, providers): (Asn, &Providers)| pb::Aspa {
            customer: customer.0,
            providers: providers.asns().iter().map(|asn| asn.0).collect(),
        };
        let (mut aspas, mut left): (Vec<pb::Aspa>, usize) = (Vec::new(), MOST_PROVIDERS);
        for aspa in wanted.by_ref() {
            left = left.saturating_sub(aspa.1.asns().len());
            aspas.push(message(aspa));
            if aspas.len() == limit || left == 0 {
                break;
            }
        }
        let next = wanted.next().and(aspas.last()).map(|last| last.customer.to_string());
        Ok(pb::GetAspasReply { aspas, next: next.unwrap_or_default() })
    }

    async fn validate(
        &self,
        _ctx: &CallContext,
        request: pb::ValidateRequest,
    ) -> Result<pb::ValidateReply, XrlError> {
        let net = IpPrefix::try_from(request.net.as_ref().ok_or(ConvertError::Missing("net"))?)?;
        let table = self.driver.read(|machine| machine.epochs().table().cloned());
        let state =
            table.as_ref().map_or(Validity::Unknown, |table| table.validate(net, Some(Asn(request.asn))));
        let vrps = table.map(|table| table.covering(net)).unwrap_or_default();
        Ok(pb::ValidateReply { state: state.name().into(), vrps: vrps.into_iter().map(message).collect() })
    }

    async fn subscribe(
        &self,
        ctx: &CallContext,
        request: pb::SubscribeRequest,
    ) -> Result<pb::SubscribeReply, XrlError> {
        self.add_subscriber(ctx, request.target).await?;
        Ok(pb::SubscribeReply {})
    }

    async fn fetch(&self, _ctx: &CallContext, request: pb::FetchRequest) -> Result<pb::FetchReply, XrlError> {
        self.driver.read(|machine| {
            let epochs = machine.epochs();
            let settled = machine.is_settled();
            if request.page > 0 && request.epoch != epochs.number() {
                return Ok(pb::FetchReply { superseded: true, settled, ..pb::FetchReply::default() });
            }
            let mut kept = self.transfer.borrow_mut();
            let is_kept = |kept: &Transfer| (kept.known, kept.epoch) == (request.known, epochs.number());
            let transfer =
                kept.take().filter(is_kept).unwrap_or_else(|| Transfer::new(request.known, epochs));
            let records = transfer.pages.get(request.page as usize).cloned();
            if request.page > 0 && records.is_none() {
                return Err(XrlError::BadArguments(format!(
                    "page: {}; there are {}",
                    request.page,
                    transfer.pages.len()
                )));
            }
            let reply = pb::FetchReply {
                epoch: transfer.epoch,
                has_data: transfer.has_data,
                settled,
                whole: transfer.is_whole,
                pages: count(transfer.pages.len()),
                records: records.unwrap_or_default(),
                superseded: false,
            };
            // After the last page nobody needs the pages, most likely.
            if (request.page as usize + 1) < transfer.pages.len() {
                kept.replace(transfer);
            }
            Ok(reply)
        })
    }
}
