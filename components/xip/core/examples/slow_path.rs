//! Decisions of the slow path in a second, on one core, and the memory of tables and of the forest.
//!
//! `cargo run --release -p sluice-xip --example slow_path`
//!
//! The rows are those of the paper's experiment (Linux XIA, ANCS 2015, section 6.3): three unknown domains and a sampled domain, which is
//! redirected to a gateway of four. Each of 462,150 domains is decided on once, in random order, so that every row is cold.

use sluice_base::{Instant, Rng, Xid, XidPrefix, XidType};
use sluice_xip::anchor::Deps;
use sluice_xip::answer::NeighborId;
use sluice_xip::forest::{CacheEntryId, Forest};
use sluice_xip::principals::catalog::CATALOG;
use sluice_xip::registry::Registered;
use sluice_xip::route::Route;
use sluice_xip::router::{Limits, Outcome, Router};
use sluice_xip::row::{Edge, Row};
use std::time::Instant as Clock;

const DOMAINS: u32 = 462_150;
const GATEWAYS: u64 = 4;

fn domain(n: u32) -> Xid {
    let mut id = [0; 20];
    id[..4].copy_from_slice(&n.wrapping_mul(0x9e37_79b1).to_be_bytes());
    Xid { kind: XidType::AD, id }
}

fn gateway(n: u64) -> Xid {
    Xid { kind: XidType::HID, id: [n as u8; 20] }
}

fn exact(xid: Xid) -> XidPrefix {
    XidPrefix::of_type(xid.kind, xid.id, 160).unwrap_or_else(|| unreachable!("160 bits are all"))
}

/// Returns the rows of all domains behind `unknown` domains, in random order.
fn rows(rng: &mut Rng, unknown: u8) -> Vec<Row> {
    let mut order: Vec<u32> = (0..DOMAINS).collect();
    for place in (1..order.len()).rev() {
        order.swap(place, rng.below(place as u64 + 1) as usize);
    }
    let edge = |xid| Edge { xid, is_sink: true };
    let unknown_domain = |n| edge(Xid { kind: XidType::AD, id: [0xf0 + n; 20] });
    let row = |n: u32| Row {
        edges: (0..unknown).map(unknown_domain).chain([Edge { xid: domain(n), is_sink: false }]).collect(),
        is_input: true,
    };
    order.into_iter().map(row).collect()
}

fn rate(count: usize, since: Clock) -> f64 {
    count as f64 / since.elapsed().as_secs_f64()
}

fn main() {
    let mut rng = Rng::from_seed(1);
    let mut router = Router::new(Limits::default(), 7);
    for row in CATALOG {
        let _ = router.register(Registered::Inside((row.make)(row.number, 7)));
    }
    for n in 0..GATEWAYS {
        let _ = router.change(exact(gateway(n)), Some(Route::Neighbor(NeighborId(n as u32))));
    }
    let began = Clock::now();
    for n in 0..DOMAINS {
        let _ = router.change(exact(domain(n)), Some(Route::Redirect(gateway(rng.below(GATEWAYS)))));
    }
    println!("{DOMAINS} domains: {:.0} new routes a second", rate(DOMAINS as usize, began));
    let mut deps = Deps::default();
    for unknown in 0..4 {
        let rows = rows(&mut rng, unknown);
        let began = Clock::now();
        let mut forwarded = 0;
        for row in &rows {
            if let Outcome::Decided { .. } = router.decide(Instant::ZERO, row, &mut deps) {
                forwarded += 1;
            }
        }
        let decided = rate(forwarded, began);
        let mut forest = Forest::new(7, usize::MAX);
        let began = Clock::now();
        for (entry, row) in (0..).zip(&rows) {
            let _ = router.decide(Instant::ZERO, row, &mut deps);
            let _ = forest.attach(CacheEntryId(entry), deps.anchors());
        }
        let attached = rate(rows.len(), began);
        let size = forest.size();
        println!(
            "fb{unknown}: {decided:.0} decisions a second, {attached:.0} with their attachments ({} anchors an entry, {} octets)",
            size.links / rows.len(),
            size.octets / rows.len(),
        );
        let (mut touched, began) = (0, Clock::now());
        for n in 0..DOMAINS {
            let to = gateway(rng.below(GATEWAYS));
            for touch in router.change(exact(domain(n)), Some(Route::Redirect(to))).into_iter().flatten() {
                forest.flush(&touch, |_| touched += 1);
            }
        }
        println!(
            "     {:.0} redirects changed a second, {touched} entries reached",
            rate(DOMAINS as usize, began)
        );
    }
}
