//! The RIB's part in a measurement of BGP's core alone: every next hop is on a connected subnet.

use sluice_base::interest::{InterestAnswer, ResolvingRoute};
use sluice_base::{Distance, Forwarding, InterfaceIndex, Metric, NextHop, Prefix};

/// The RIB's answer for next hops inside `valid`; `None` for no prefix.
pub fn connected<P: Prefix>(valid: Option<P>) -> Option<InterestAnswer<P>> {
    let (valid, interface) = (valid?, InterfaceIndex::new(1)?);
    let route = ResolvingRoute {
        prefix: valid,
        metric: Metric(0),
        distance: Distance::CONNECTED,
        connected: true,
        forwarding: Forwarding::one(NextHop::on(interface)),
    };
    Some(InterestAnswer { valid, route: Some(route) })
}
