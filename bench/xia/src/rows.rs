//! The routing state of the benchmark, and the rows of the packets to a domain.

use anyhow::{Context, Result};
use sluice_base::{Prefix, Xid, XidPrefix, XidType};
use sluice_pktgen::{XipFormat, domain, unknown_domain};
use sluice_xip::answer::NeighborId;
use sluice_xip::principals::catalog;
use sluice_xip::registry::Registered;
use sluice_xip::route::Route;
use sluice_xip::router::{Limits, Router};
use sluice_xip::{Edge, Row};

/// Ways out of the router unless a case has others: one neighbor each.
pub const WAYS: usize = 2;

/// The secret of hashes, which nobody attacks here.
pub const SEED: u64 = 43;

/// Returns the host behind a way.
pub fn host(way: usize) -> Xid {
    Xid { kind: XidType::HID, id: [0x11 + way as u8; 20] }
}

/// Returns a router with [`WAYS`] ways.
pub fn router(format: XipFormat) -> Result<Router> {
    wide_router(format, WAYS)
}

/// Returns a router that has no domains yet. Hosts are neighbors with the numbers of their ways; for [`XipFormat::Via`], the domain
/// that packets pass is the router's own.
pub fn wide_router(format: XipFormat, ways: usize) -> Result<Router> {
    let mut router = Router::new(Limits::default(), SEED);
    for name in ["ad", "hid"] {
        let row = catalog::row(name).context("the catalog lacks a principal")?;
        let principal = Registered::Inside((row.make)(row.number, SEED));
        router.register(principal).map_err(|error| anyhow::anyhow!("{error:?}"))?;
    }
    for way in 0..ways {
        set(&mut router, host(way), Route::Neighbor(NeighborId(way as u32)))?;
    }
    if format == XipFormat::Via {
        set(&mut router, unknown_domain(1), Route::Local)?;
    }
    Ok(router)
}

/// Redirects a domain to the host behind a way.
pub fn redirect(router: &mut Router, octets: [u8; 4], way: usize) -> Result<()> {
    set(router, domain(octets), Route::Redirect(host(way)))
}

fn set(router: &mut Router, xid: Xid, route: Route) -> Result<()> {
    router.change(whole(xid)?, Some(route)).map_err(|error| anyhow::anyhow!("{xid}: {error}"))?;
    Ok(())
}

/// Returns the prefix of one XID.
pub fn whole(xid: Xid) -> Result<XidPrefix> {
    XidPrefix::new(xid, XidPrefix::WIDTH).context("no prefix of an XID")
}

/// Returns the row that decides where packets to a domain go.
pub fn row(format: XipFormat, octets: [u8; 4]) -> Row {
    let unknown = if format == XipFormat::Via { 0 } else { format.rows() - 1 };
    let unknown = (1..=unknown as u8).map(unknown_domain);
    let edges = unknown.chain([domain(octets)]).map(|xid| Edge { xid, is_sink: true });
    Row { edges: edges.collect(), is_input: true }
}

/// Returns the row before, which all packets of [`XipFormat::Via`] have in common.
pub fn first_row(format: XipFormat) -> Option<Row> {
    let edge = Edge { xid: unknown_domain(1), is_sink: false };
    (format == XipFormat::Via).then(|| Row { edges: [edge].into_iter().collect(), is_input: true })
}
