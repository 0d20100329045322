//! Comparison with the engine: about once a second, the digests of what was sent are compared with those of what the engine received. A
//! family that differs is sent again as a whole.
//!
//! The engine answers in the order of the calls, so that both digests are of the same place in the stream of changes.

use crate::RibProcess;
use sluice_base::{Digest, FamilyId, TableId};
use sluice_rib::Input;
use sluice_xrl::XrlError;
use sluice_xrl::idl::fea::v1 as fea;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::sleep;
use tracing::{debug, info, warn};

/// The time between two comparisons.
const PERIOD: Duration = Duration::from_millis(700);

/// The time between two looks whether a family has been sent.
const LOOK: Duration = Duration::from_millis(10);

/// Compares each family with the engine. Never ends.
pub async fn run(process: Rc<RibProcess>) {
    loop {
        sleep(PERIOD).await;
        let families: Vec<_> = process.driver.read(|rib| rib.fib_families().collect());
        for (table, family) in families {
            if let Err(error) = check(&process, table, family).await {
                // The FEA ended: its next life gets everything.
                debug!(%error, "the FEA is not compared");
            }
        }
    }
}

/// Compares a family, and sends it again if it differs.
async fn check(process: &Rc<RibProcess>, table: TableId, family: FamilyId) -> Result<(), XrlError> {
    if !process.fib.is_synchronized() {
        return Ok(());
    }
    let Some(sent) = process.driver.read(|rib| rib.fib_digests(table, family)) else { return Ok(()) };
    let client = process.fib.client();
    let reply = client.compare(fea::CompareRequest { table: table.0, family: family.0.into() });
    client.flush();
    let reply = reply.await?;
    let digest = |digest: Option<fea::Digest>| {
        digest.map_or(Digest::default(), |digest| Digest { sum: digest.sum, entries: digest.entries })
    };
    let found = [digest(reply.routes), digest(reply.groups)];
    if sent == found || !process.fib.is_synchronized() {
        return Ok(());
    }
    let [[routes, groups], [found_routes, found_groups]] = [sent, found].map(|both| both.map(|d| d.entries));
    warn!(
        event = "rib.engine.differs",
        %table,
        %family,
        routes,
        found_routes,
        groups,
        found_groups,
        "the FEA has {found_routes} routes in {found_groups} groups of {routes} in {groups} that it was sent, or others; they are sent again"
    );
    refresh(process, table, family).await
}

/// Sends a family again, and has the engine sweep the rest.
async fn refresh(process: &Rc<RibProcess>, table: TableId, family: FamilyId) -> Result<(), XrlError> {
    let client = process.fib.client();
    let number = family.0.into();
    let begin = client.begin_resync(fea::BeginResyncRequest { table: table.0, family: number });
    // In the same turn of the loop: no change of the family may come between.
    process.input(Input::RefreshFib(table, family));
    begin.await?;
    while process.fib.is_synchronized()
        && process.driver.read(|rib| rib.fib_work().any(|work| work == (table, family)))
    {
        sleep(LOOK).await;
    }
    let reply = client.end_resync(fea::EndResyncRequest { table: table.0, family: number }).await?;
    info!(%table, %family, kept = reply.kept, swept = reply.swept, "the engine agrees with the RIB again");
    Ok(())
}
