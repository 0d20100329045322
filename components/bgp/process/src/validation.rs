//! Validated ROA payloads for the tables, fetched from the validation component, an epoch at a time.
//!
//! The component reports a new epoch, and is also asked from time to time. The copy ([`Replica`]) holds for a while without an
//! answer: routes keep their state when a process is restarted.

use crate::idl::rpki::v1 as pb;
use crate::{BgpProcess, Served};
use sluice_bgp::speaker::OriginData;
use sluice_bgp::speaker::control::Input;
use sluice_process::{Frame, clock};
use sluice_validation::{ChangedPrefixes, Page, PageRequest, Progress, Replica, VrpTable};
use sluice_xrl::{CallContext, LifeEvent, XrlError};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tracing::{debug, info, warn};

/// The class of the component with the payloads.
const CLASS: &str = "rpki";

/// The time between two questions without a report.
const POLL: Duration = Duration::from_secs(30);

/// Attempts to fetch an epoch overtaken by the next epoch.
const ATTEMPTS: usize = 8;

/// The process's side of validation.
pub struct ValidationSide {
    client: pb::RpkiClient,
    replica: RefCell<Replica>,
    /// The lock for a single fetch at a time.
    fetching: Mutex<()>,
}

impl ValidationSide {
    /// Makes the side without data.
    pub fn new(frame: &Frame) -> Self {
        ValidationSide {
            client: pb::RpkiClient::new(&frame.router, CLASS),
            replica: RefCell::new(Replica::new(clock::now())),
            fetching: Mutex::new(()),
        }
    }

    /// Returns the data in effect.
    pub fn table(&self) -> Option<Arc<VrpTable>> {
        self.replica.borrow().table().cloned()
    }

    /// Adopts the data of the previous process.
    pub fn resume(&self, table: Option<Arc<VrpTable>>) {
        self.replica.borrow_mut().resume(table);
    }
}

fn page_of(reply: &pb::FetchReply) -> Page<'_> {
    Page {
        epoch: reply.epoch,
        has_data: reply.has_data,
        is_settled: reply.settled,
        is_whole: reply.whole,
        is_superseded: reply.superseded,
        pages: reply.pages,
        records: &reply.records,
    }
}

impl BgpProcess {
    /// Gives the data in effect to new tables.
    pub(crate) fn give_origins(&self) {
        if let Some(table) = self.validation.table() {
            let data = OriginData { table: Some(table), changed: ChangedPrefixes::All };
            self.input(Input::Origins(Arc::new(data)));
        }
    }

    /// Fetches the present epoch, if new, for the tables.
    async fn fetch_origins(&self) {
        let side = &self.validation;
        let _turn = side.fetching.lock().await;
        if let Err(error) = self.fetch().await {
            debug!(%error, "no payloads came");
            self.handover.awake().await;
            let before = side.table();
            let is_expired = side.replica.borrow_mut().expire(clock::now());
            if is_expired {
                self.set_origins(before.as_deref(), ChangedPrefixes::All);
            }
        }
    }

    async fn fetch(&self) -> Result<(), XrlError> {
        let side = &self.validation;
        for _ in 0..ATTEMPTS {
            let mut request = side.replica.borrow_mut().begin();
            loop {
                let PageRequest { known, epoch, page } = request;
                let reply = side.client.fetch(pb::FetchRequest { known, epoch, page }).await?;
                // Tables and copy are handed over as they are: nothing changes one of them alone.
                self.handover.awake().await;
                let before = side.table();
                let progress = side.replica.borrow_mut().page(clock::now(), page_of(&reply));
                match progress.map_err(|error| XrlError::Protocol(error.to_string()))? {
                    Progress::Next(next) => request = next,
                    Progress::Unchanged => return Ok(()),
                    Progress::Changed(changed) => {
                        self.set_origins(before.as_deref(), changed);
                        return Ok(());
                    }
                    Progress::Superseded => break,
                }
            }
        }
        Ok(())
    }

    /// Gives the tables the data in effect, which differ from `before`.
    fn set_origins(&self, before: Option<&VrpTable>, changed: ChangedPrefixes) {
        let table = self.validation.table();
        match (before, &table) {
            (None, Some(table)) => {
                info!(
                    event = "bgp.validation.begins",
                    payloads = table.len(),
                    "origins of routes are validated"
                );
            }
            (Some(_), None) => {
                warn!(event = "bgp.validation.ends", "origins of routes are not validated any more");
            }
            _ => {}
        }
        self.input(Input::Origins(Arc::new(OriginData { table, changed })));
    }
}

/// Follows the component as long as the process lives.
pub async fn follow(process: Rc<BgpProcess>, instance: String) {
    let side = &process.validation;
    let Ok(mut lives) = process.frame.router.watch_class(CLASS).await else {
        return warn!("the Finder does not report the component {CLASS}; origins are not validated");
    };
    loop {
        tokio::select! {
            event = lives.next() => match event {
                None => return,
                Some(LifeEvent::Death(_)) => continue,
                Some(LifeEvent::Birth(_)) => {
                    let request = pb::SubscribeRequest { target: instance.clone() };
                    if let Err(error) = side.client.subscribe(request).await {
                        warn!(%error, "new payloads are not reported; they are asked for every {} s", POLL.as_secs());
                    }
                }
            },
            () = tokio::time::sleep(POLL) => {}
        }
        process.fetch_origins().await;
    }
}

impl pb::VrpSubscriber for Served {
    async fn epoch_changed(
        &self,
        _ctx: &CallContext,
        _request: pb::EpochChangedRequest,
    ) -> Result<pb::EpochChangedReply, XrlError> {
        // A component that ends waits for the reply.
        self.fetch_origins().await;
        Ok(pb::EpochChangedReply {})
    }
}
