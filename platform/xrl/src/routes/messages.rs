//! Batches of routes as readable messages, and batches of calls in either form.

use super::convert::{self, ConvertError, Gateway};
use super::packed::{decode_fib, decode_routes};
use crate::XrlError;
use crate::idl::fea::v1 as fea;
use crate::idl::rib::v1 as rib;
use sluice_base::{
    Distance, FibBatch, FibRoute, Forwarding, GroupId, Metric, Prefix, Provenance, RouteAction, RouteBatch,
    RouteKind, RouteSet, RouteUpdate, Tag,
};

/// A batch as readable messages.
pub fn routes_to_messages<P: Prefix>(batch: &RouteBatch<P>) -> (Vec<rib::RouteSet>, Vec<rib::RouteChange>) {
    let set = |s: &RouteSet| rib::RouteSet {
        forwarding: Some((&s.forwarding).into()),
        metric: s.metric.0,
        distance: s.distance.map(|d| d.0.into()),
        tag: 0,
        kind: s.kind.0.into(),
        tags: s.tags.as_slice().iter().map(|tag| tag.0).collect(),
    };
    let change = |u: &RouteUpdate<P>| rib::RouteChange {
        net: Some(convert::net(u.prefix)),
        delete: u.action == RouteAction::Delete,
        set: if let RouteAction::Set(index) = u.action { index } else { 0 },
        provenance: u.provenance.bits(),
    };
    (batch.sets.iter().map(set).collect(), batch.updates.iter().map(change).collect())
}

/// A batch out of readable messages.
pub fn routes_from_messages<P: Prefix>(
    sets: &[rib::RouteSet],
    routes: &[rib::RouteChange],
) -> Result<RouteBatch<P>, ConvertError> {
    let number = |what, value: u32| ConvertError::Number { what, value: value.into() };
    let set = |s: &rib::RouteSet| {
        let distance = s.distance.map(|d| u8::try_from(d).map_err(|_| number("distance", d))).transpose()?;
        Ok(RouteSet {
            forwarding: convert::forwarding(s.forwarding.as_ref())?,
            metric: Metric(s.metric),
            distance: distance.map(Distance),
            kind: RouteKind(u8::try_from(s.kind).map_err(|_| number("kind", s.kind))?),
            tags: s.tags.iter().copied().chain((s.tag != 0).then_some(s.tag)).map(Tag).collect(),
        })
    };
    let update = |r: &rib::RouteChange| {
        let action = match r.delete {
            true => RouteAction::Delete,
            false if (r.set as usize) < sets.len() => RouteAction::Set(r.set),
            false => return Err(number("set", r.set)),
        };
        let provenance = Provenance::from_bits(r.provenance);
        Ok(RouteUpdate { prefix: convert::prefix(r.net.as_ref())?, action, provenance })
    };
    Ok(RouteBatch {
        sets: sets.iter().map(set).collect::<Result<_, ConvertError>>()?,
        updates: routes.iter().map(update).collect::<Result<_, ConvertError>>()?,
    })
}

/// The batch of an `UpdateRoutes` call, packed or readable.
pub fn routes_of<P: Prefix>(request: &rib::UpdateRoutesRequest) -> Result<RouteBatch<P>, XrlError> {
    if request.packed.is_empty() {
        return Ok(routes_from_messages(&request.sets, &request.routes)?);
    }
    if request.routes.is_empty() && request.sets.is_empty() {
        return Ok(decode_routes(&request.packed)?);
    }
    Err(XrlError::BadArguments("packed, routes: only one of the two".to_owned()))
}

/// A batch for the forwarding engine as readable messages.
pub fn fib_to_messages<P: Prefix, G: Gateway>(
    batch: &FibBatch<P, G>,
) -> (Vec<fea::Group>, Vec<fea::FibRoute>, Vec<u32>) {
    let group = |(id, f): &(GroupId, Forwarding<G>)| fea::Group { id: id.0, forwarding: Some(f.into()) };
    let route = |r: &FibRoute<P>| fea::FibRoute {
        net: Some(convert::net(r.prefix)),
        delete: r.group.is_none(),
        group: r.group.map_or(0, |g| g.0),
        provenance: r.provenance.bits(),
        external: r.is_external,
    };
    (
        batch.groups.iter().map(group).collect(),
        batch.routes.iter().map(route).collect(),
        batch.unused.iter().map(|g| g.0).collect(),
    )
}

/// A batch for the forwarding engine out of readable messages.
pub fn fib_from_messages<P: Prefix, G: Gateway>(
    groups: &[fea::Group],
    routes: &[fea::FibRoute],
    unused: &[u32],
) -> Result<FibBatch<P, G>, ConvertError> {
    let group = |g: &fea::Group| Ok((GroupId(g.id), convert::forwarding(g.forwarding.as_ref())?));
    let route = |r: &fea::FibRoute| {
        Ok(FibRoute {
            prefix: convert::prefix(r.net.as_ref())?,
            group: (!r.delete).then_some(GroupId(r.group)),
            is_external: r.external && !r.delete,
            provenance: Provenance::from_bits(r.provenance),
        })
    };
    Ok(FibBatch {
        groups: groups.iter().map(group).collect::<Result<_, ConvertError>>()?,
        routes: routes.iter().map(route).collect::<Result<_, ConvertError>>()?,
        unused: unused.iter().map(|g| GroupId(*g)).collect(),
    })
}

/// The batch of an `UpdateFib` call, packed or readable.
pub fn fib_of<P: Prefix, G: Gateway>(request: &fea::UpdateFibRequest) -> Result<FibBatch<P, G>, XrlError> {
    let readable = !(request.groups.is_empty() && request.routes.is_empty() && request.unused.is_empty());
    if request.packed.is_empty() {
        return Ok(fib_from_messages(&request.groups, &request.routes, &request.unused)?);
    }
    if readable {
        return Err(XrlError::BadArguments("packed, routes: only one of the two".to_owned()));
    }
    Ok(decode_fib(&request.packed)?)
}
