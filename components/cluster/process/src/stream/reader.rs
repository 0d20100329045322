//! Following: the leader's key on each element, and the log on routers.

use super::{Stream, unix_ms};
use crate::ClusterProcess;
use crate::store::{Client, StoreError, Watched};
use sluice_cluster::settings::Settings;
use sluice_cluster::stream::follower::Followed;
use sluice_cluster::stream::loader::LoadError;
use std::time::Duration;
use tracing::{info, warn};

/// The time between two looks at the store as a whole, and until a stream that cannot be read is read again.
const STATUS: Duration = Duration::from_secs(1);

/// Follows the log, until the leader's key changes.
///
/// # Errors
/// The store does not answer.
pub(super) async fn follow(
    process: &ClusterProcess,
    client: &Client,
    settings: &Settings,
    leader_revision: u64,
) -> Result<(), StoreError> {
    let stream = &process.stream;
    let takes = settings.takes_routes() && !stream.holds_routes();
    // A session has its own watch: entries since the last one are in the history, or the stream is read as a whole.
    loop {
        if takes && stream.follower.borrow().needs_load() {
            load(process, client).await?;
            if stream.holds_routes() {
                return Ok(());
            }
        }
        let log =
            (takes && !stream.follower.borrow().needs_load()).then(|| stream.follower.borrow().revision());
        let mut watch = client.watch(leader_revision, log).await?;
        let mut status = tokio::time::interval(STATUS);
        loop {
            tokio::select! {
                watched = watch.next() => match watched? {
                    Watched::Key => return Ok(()),
                    Watched::Entries(entries) => entries.into_iter().for_each(|(revision, octets)| take_in(process, revision, &octets)),
                    Watched::Lost => stream.follower.borrow_mut().lost(),
                    Watched::Progress(revision) => {
                        let mut view = stream.view.borrow_mut();
                        view.followed = view.followed.max(revision);
                    }
                },
                _ = status.tick() => {
                    let (revision, octets) = client.status().await?;
                    stream.looked(revision, octets);
                    if settings.takes_routes() && !takes && !stream.holds_routes() {
                        return Ok(());
                    }
                    if takes {
                        stream.follower.borrow_mut().looked(revision);
                        watch.ask_progress();
                        if stream.follower.borrow().needs_load() {
                            break;
                        }
                    }
                }
            }
            if takes && log.is_some() && stream.follower.borrow().needs_load() {
                break;
            }
        }
    }
}

async fn load(process: &ClusterProcess, client: &Client) -> Result<(), StoreError> {
    let stream = &process.stream;
    let begun = std::time::Instant::now();
    let (loaded, _) = client.load().await?;
    match loaded {
        Ok(loaded) if stream.waits_for_all(&loaded) => {
            info!(
                event = "cluster.stream.anew",
                "the store began anew; routes stay while the leader writes them"
            );
        }
        Ok(loaded) => {
            let (revision, routes) = (loaded.revision, loaded.table.len());
            stream.follower.borrow_mut().loaded(loaded);
            stream.view.borrow_mut().followed = revision;
            let ms = begun.elapsed().as_millis() as u64;
            info!(event = "cluster.stream.read", routes, ms, "{routes} routes were read from the store");
            stream.announcer.follow(process);
            stream.announcer.walk();
        }
        Err(LoadError::Empty) => {}
        Err(error) => warn!(event = "cluster.stream.unreadable", "{error}; routes stay as they are"),
    }
    Ok(())
}

fn take_in(process: &ClusterProcess, revision: u64, octets: &[u8]) {
    let stream: &Stream = &process.stream;
    let followed = stream.follower.borrow_mut().follow(octets, revision);
    let mut view = stream.view.borrow_mut();
    match followed {
        Ok((Followed::Applied, time_ms)) => {
            view.followed = revision;
            view.revision = view.revision.max(revision);
            view.lag_ms = Some(unix_ms().saturating_sub(time_ms));
            drop(view);
            stream.announcer.follow(process);
        }
        Ok((Followed::Known, _)) => view.followed = view.followed.max(revision),
        Ok((Followed::Lost, _)) => {
            info!(event = "cluster.stream.gap", "entries of the log are missing; all routes are read again")
        }
        Err(error) => warn!(event = "cluster.stream.unreadable", "an entry of the log: {error}"),
    }
}
