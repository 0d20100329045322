//! The time of this element as the leader: routes of its RIB go to the store.

use super::unix_ms;
use crate::ClusterProcess;
use crate::store::{Client, StoreError};
use sluice_cluster::inventory::ElementId;
use sluice_cluster::stream::leader::{Leader, Standing};
use sluice_cluster::stream::loader::LoadError;
use sluice_cluster::stream::store::Outcome;
use sluice_process::clock;
use std::convert::Infallible;
use std::time::Duration;
use tracing::{info, warn};

/// The time in seconds after which another element is the leader, if this one does not answer the store.
pub(super) const LEASE_SECONDS: i64 = 2;
/// The time between two renewals of the lease.
const RENEWAL: Duration = Duration::from_millis(500);
/// The time between two looks at the store as a whole.
const STATUS: Duration = Duration::from_secs(1);
/// Revisions of the history that stay for followers that are late.
const HISTORY: u64 = 1024;

/// A time as the leader.
pub(crate) struct Term {
    pub(crate) epoch: u64,
    pub(super) lease: i64,
    pub(crate) leader: Leader,
    compacted: u64,
}

/// Begins a time as the leader: reads what the leader before wrote.
pub(super) async fn begin(
    process: &ClusterProcess,
    client: &Client,
    element: ElementId,
    epoch: u64,
    lease: i64,
) -> Result<(), StoreError> {
    let held_until = process.stream.held_until.get();
    let new = |seed, found| Leader::new(clock::now(), epoch, element, seed, found).holding(held_until);
    let loading = async {
        let (found, head_revision) = client.load().await?;
        let mut seed = [0; 16];
        let seeded = getrandom::fill(&mut seed).is_ok();
        let (halves, _) = seed.as_chunks::<8>();
        let seed = if seeded { [0, 1].map(|half| u64::from_le_bytes(halves[half])) } else { [epoch, epoch] };
        if process.stream.rewrites.take() {
            return Ok(new(seed, None).replacing(head_revision));
        }
        Ok::<_, StoreError>(match found {
            Ok(loaded) => new(seed, Some(loaded)),
            Err(LoadError::Empty) => new(seed, None),
            Err(error) => {
                warn!(event = "cluster.stream.unreadable", "{error}; all routes are written anew");
                new(seed, None).replacing(head_revision)
            }
        })
    };
    let mut leader = tokio::select! {
        leader = loading => leader?,
        error = client.keep_alive(lease, RENEWAL) => return Err(error),
    };
    leader.set_interfaces(process.protocol.interfaces.all());
    info!(event = "cluster.stream.leads", "this element distributes its routes, epoch {epoch}");
    let stream = &process.stream;
    stream.term.replace(Some(Term { epoch, lease, leader, compacted: 0 }));
    let settings = process.settings.borrow();
    stream.subscribe(settings.as_ref().and_then(|settings| settings.store.as_ref()));
    process.roster.changed.notify_one();
    process.configuration.changed.notify_one();
    Ok(())
}

/// Writes, until another element is the leader.
///
/// # Errors
/// The store does not answer; the term goes on if the lease lasts.
pub(super) async fn lead(process: &ClusterProcess, client: &Client, lease: i64) -> Result<(), StoreError> {
    // The transaction of a session before may be written or not.
    if let Some(term) = &mut *process.stream.term.borrow_mut() {
        term.leader.answered(Outcome::Unknown);
    }
    let ended = tokio::select! {
        error = client.keep_alive(lease, RENEWAL) => Err(error),
        written = write(process, client) => written,
        Err(error) = watch(process, client) => Err(error),
    };
    match ended {
        Err(StoreError::Lease) => {
            process.stream.step_down();
            warn!(event = "cluster.stream.deposed", "this element is the leader no more: its lease is over");
            Ok(())
        }
        other => other,
    }
}

async fn watch(process: &ClusterProcess, client: &Client) -> Result<Infallible, StoreError> {
    loop {
        let (revision, octets) = client.status().await?;
        process.stream.looked(revision, octets);
        tokio::time::sleep(STATUS).await;
    }
}

async fn write(process: &ClusterProcess, client: &Client) -> Result<(), StoreError> {
    let stream = &process.stream;
    loop {
        let (transaction, deadline) = {
            let mut term = stream.term.borrow_mut();
            let Some(term) = &mut *term else { return Ok(()) };
            let transaction = term.leader.next_transaction(clock::now(), unix_ms());
            (transaction, term.leader.next_deadline())
        };
        let Some(transaction) = transaction else {
            let due = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(clock::to_tokio(deadline)).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = stream.due.notified() => {}
                () = due => {}
            }
            continue;
        };
        let answer = client.transact(&transaction).await;
        let compacts = {
            let mut term = stream.term.borrow_mut();
            let Some(term) = &mut *term else { return Ok(()) };
            let outcome = answer.as_ref().cloned().unwrap_or(Outcome::Unknown);
            let done = if let Outcome::Done(revision) = outcome { revision } else { 0 };
            term.leader.answered(outcome);
            let is_due = done > term.compacted + 2 * HISTORY;
            if is_due {
                term.compacted = done - HISTORY;
            }
            if term.leader.standing() == Standing::Deposed {
                stream.room.notify_waiters();
                None
            } else {
                Some(is_due.then_some(term.compacted))
            }
        };
        stream.room.notify_waiters();
        answer?;
        match compacts {
            Some(Some(revision)) => client.compact(revision).await,
            Some(None) => {}
            None => {
                stream.step_down();
                warn!(
                    event = "cluster.stream.deposed",
                    "this element is the leader no more: the store refuses its routes"
                );
                return Ok(());
            }
        }
    }
}
