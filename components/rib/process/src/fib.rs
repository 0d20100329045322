//! Sends changes to the forwarding engine: batches in order, few in flight, the whole table again to a restarted
//! engine.

use crate::RibProcess;
use sluice_base::{Address, DigestKey, FamilyId, FibBatch, Instant, IpKey, Ipv4Prefix, Ipv6Prefix, TableId};
use sluice_clients::{FibOwner, ResyncEnd};
use sluice_process::{Frame, Point, UnderWay, call_successor, clock};
use sluice_rib::Input;
use sluice_rib::TableKey;
use sluice_rib::request::FillFib;
use sluice_xrl::idl::fea::v1 as fea;
use sluice_xrl::{LifeEvent, XrlError};
use std::cell::RefCell;
use std::rc::Rc;
use tokio::sync::Notify;
use tracing::{info, warn};

/// Routes in a call. Large enough to hide the cost of the call, small enough that a fresh change, or a request to the
/// engine behind the call, does not wait long behind a full table: the kernel takes some microseconds a route.
const BATCH: usize = 256;

/// The state of the way to the engine.
pub struct FibPump {
    client: fea::FibClient,
    interfaces: fea::InterfacesClient,
    owner: RefCell<FibOwner>,
    under_way: UnderWay<fea::UpdateFibReply>,
    ipv4: RefCell<FibBatch<Ipv4Prefix, Address>>,
    ipv6: RefCell<FibBatch<Ipv6Prefix, Address>>,
    wake: Notify,
    sent: Point,
}

impl FibPump {
    /// A pump that is not connected yet.
    pub fn new(frame: &Frame) -> Self {
        FibPump {
            client: fea::FibClient::new(&frame.router, "fea"),
            interfaces: fea::InterfacesClient::new(&frame.router, "fea"),
            owner: RefCell::new(FibOwner::new(clock::now())),
            // The Finder reports the FEA's death; the next FEA receives everything.
            under_way: UnderWay::new(FibOwner::WINDOW as usize, "routes did not reach the FEA"),
            ipv4: RefCell::default(),
            ipv6: RefCell::default(),
            wake: Notify::new(),
            sent: frame.profile.point("route_sent_fea", "Sent to the FEA"),
        }
    }

    /// Returns the time from which the RIB has the routes of all origins; see [`FibOwner::complete_at`].
    pub fn complete_at(&self, are_origins_refreshed: bool) -> Instant {
        self.owner.borrow().complete_at(are_origins_refreshed)
    }

    /// Returns the client of the engine. Its calls arrive in order.
    pub fn client(&self) -> &fea::FibClient {
        &self.client
    }

    /// Returns true if the engine has exactly the RIB's routes, apart from changes in flight.
    pub fn is_synchronized(&self) -> bool {
        self.owner.borrow().is_synchronized()
    }

    /// Something may have changed.
    pub fn wake(&self) {
        self.wake.notify_one();
    }
}

/// Follows the FEA's lives: each life receives the whole table, and no change waits while no FEA runs. Never ends.
pub async fn follow_fea(process: Rc<RibProcess>) {
    process.input(Input::FibGone);
    let Ok(mut lives) = process.frame.router.watch_class("fea").await else {
        return warn!("the Finder does not report the FEA; nothing is forwarded");
    };
    while let Some(event) = lives.next().await {
        match event {
            LifeEvent::Death(_) => {
                process.fib.owner.borrow_mut().engine_died();
                process.fib.under_way.clear();
                process.input(Input::FibGone);
            }
            LifeEvent::Birth(_) => begin_anew(Rc::clone(&process)).await,
        }
    }
}

/// Handles a new FEA, or a FEA with a changed setting: it receives the whole table, or no routes.
pub(crate) async fn begin_anew(process: Rc<RibProcess>) {
    if let Err(error) = call_successor(async || begin(&process).await).await {
        warn!(%error, "the FEA does not take the RIB on");
    }
}

async fn begin(process: &Rc<RibProcess>) -> Result<(), XrlError> {
    let fib = &process.fib;
    let target = process.instance.borrow().clone();
    let owned = fib.client.set_owner(fea::SetOwnerRequest { target: target.clone() }).await?;
    let own: Vec<TableId> = process.driver.read(|rib| rib.tables().map(|t| t.id).collect());
    let tables = fib.owner.borrow_mut().begin_resync(own, owned.tables.into_iter().map(TableId));
    for table in tables {
        fib.client.begin_resync(fea::BeginResyncRequest { table: table.0, family: 0 }).await?;
    }
    fib.interfaces.subscribe(fea::SubscribeRequest { target }).await?;
    process.input(Input::FibDigestKey(DigestKey(owned.digest_key)));
    process.input(if owned.declines_routes { Input::FibGone } else { Input::FibRestarted });
    fib.owner.borrow_mut().accepted(owned.declines_routes);
    fib.wake();
    if owned.declines_routes {
        info!("the FEA wants no routes");
    } else {
        info!("sending the FEA all routes");
    }
    Ok(())
}

/// Sends the changes for the engine. Never ends.
pub async fn pump(process: Rc<RibProcess>) {
    loop {
        while send(&process) {
            process.fib.under_way.room().await;
            tokio::task::yield_now().await;
        }
        idle(&process).await;
    }
}

/// Sends a batch of each family of a table, as far as there is room; returns whether there is more to send.
///
/// Also called after every input: a single change is on its way to the engine before its sender has the reply.
pub fn send(process: &RibProcess) -> bool {
    let fib = &process.fib;
    if !fib.owner.borrow().is_connected() {
        return false;
    }
    let Some((table, families)) = process.driver.read(sluice_rib::Rib::next_fib_work) else {
        return false;
    };
    if families.contains(&FamilyId::IPV4) && fib.under_way.has_room() {
        send_batch(process, table, &mut fib.ipv4.borrow_mut());
    }
    if families.contains(&FamilyId::IPV6) && fib.under_way.has_room() {
        send_batch(process, table, &mut fib.ipv6.borrow_mut());
    }
    process.driver.read(|rib| rib.fib_work().next().is_some())
}

fn send_batch<P: TableKey + IpKey>(process: &RibProcess, table: TableId, batch: &mut FibBatch<P, Address>) {
    let fib = &process.fib;
    *batch = process.driver.request(FillFib { table, limit: BATCH, space: std::mem::take(batch) });
    if batch.is_empty() {
        return;
    }
    if fib.sent.is_on() {
        for route in &batch.routes {
            fib.sent.record(route.prefix, route.group.is_none(), route.provenance);
        }
    }
    let request = fea::UpdateFibRequest {
        table: table.0,
        family: P::ID.0.into(),
        packed: sluice_xrl::routes::encode_fib(batch),
        groups: Vec::new(),
        routes: Vec::new(),
        unused: Vec::new(),
    };
    fib.under_way.push(fib.client.update_fib(request));
    fib.client.flush();
}

/// Waits for changes to send, and ends a resync when it is due.
async fn idle(process: &Rc<RibProcess>) {
    let fib = &process.fib;
    // `send` has nothing left to send: what is in flight is waited for in `end_resync`.
    let end = fib.owner.borrow().resync_end(clock::now(), true, process.clients.are_all_refreshed());
    match end {
        ResyncEnd::Waits => fib.wake.notified().await,
        ResyncEnd::At(end) => tokio::select! {
            () = fib.wake.notified() => {}
            () = tokio::time::sleep_until(clock::to_tokio(end)) => {}
        },
        ResyncEnd::Now => end_resync(process).await,
    }
}

/// Requests the FEA to sweep the routes of earlier lives without a new announcement.
async fn end_resync(process: &Rc<RibProcess>) {
    let fib = &process.fib;
    let tables = fib.owner.borrow_mut().end_resync();
    fib.under_way.drain().await;
    for table in tables {
        // A FEA that took over meanwhile has not got the routes yet: it would forward by empty tables.
        if !fib.owner.borrow().is_ending() {
            return;
        }
        match fib.client.end_resync(fea::EndResyncRequest { table: table.0, family: 0 }).await {
            Ok(reply) => {
                info!(%table, kept = reply.kept, swept = reply.swept, "the engine agrees with the RIB")
            }
            Err(error) => warn!(%error, "the engine's old routes were not swept"),
        }
    }
    fib.owner.borrow_mut().resynced();
}
