//! The roster on this element: follows the value in the store, and changes the value for operators.

use crate::ClusterProcess;
use crate::console;
use crate::identity;
use crate::idl::cluster::v1 as pb;
use crate::store::{Client, StoreError, Value, Watched};
use sluice_cluster::inventory::ElementId;
use sluice_cluster::machine::Cluster;
use sluice_cluster::roster::{AdminState, Change, KEY, Roster, RosterError};
use sluice_cluster::server::peer_url;
use sluice_cluster::settings::Settings;
use sluice_cluster::stream::wire::DecodeError;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tracing::{info, warn};

/// The time until the store is asked again.
const RETRY: Duration = Duration::from_millis(500);
/// The time for which a removed element goes on: balancers get the roster meanwhile, and packets on their way arrive.
const LEAVING: Duration = Duration::from_secs(1);
/// The longest wait for etcd, which lets servers leave and join only while the others have been connected for 5 seconds.
const SERVERS: Duration = Duration::from_secs(8);
/// The time for which a silent store is asked again: servers elect another leader within a second or two.
const ELECTION: Duration = Duration::from_secs(4);
/// The time between two questions to other elements, and the longest wait for the answer.
const STANDING: Duration = Duration::from_secs(2);
/// The most attempts to replace the value, while others replace it.
const ATTEMPTS: usize = 8;

/// The reason why the roster is not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// No cluster is configured.
    #[error("no cluster is configured")]
    NoCluster,
    /// No store is configured.
    #[error(
        "the cluster has no store that all elements share: change the configuration of each element (set cluster member {0} drained true)"
    )]
    NoStore(ElementId),
    /// The number is no element's.
    #[error("{0} is no number of an element: elements have the numbers 1 to 65535")]
    NoNumber(u32),
    /// No server of the store answers.
    #[error("no server of the store answers: the elements cannot agree")]
    Lost,
    /// The change is refused.
    #[error(transparent)]
    Roster(#[from] RosterError),
    /// The value in the store is not readable.
    #[error("the roster in the store: {0}")]
    Unreadable(#[from] DecodeError),
    /// No key of the cluster gives the tag of the value.
    #[error("the roster in the store is not of this cluster's key")]
    Tag,
    /// The store does not answer.
    #[error("the store: {0}")]
    Store(#[from] StoreError),
    /// Others changed the roster at each attempt.
    #[error("other elements change the roster too: try again")]
    Busy,
    /// The servers of the store are not as the roster wants.
    #[error("element {element} is {state}, but its server of the store is not: {error}; repeat the command")]
    Server {
        /// The element.
        element: ElementId,
        /// The present state in words.
        state: &'static str,
        /// The reason.
        error: StoreError,
    },
}

/// The roster as this element knows it.
#[derive(Default)]
pub struct RosterKeeper {
    roster: RefCell<Roster>,
    /// True after the roster was read from the store.
    is_read: Cell<bool>,
    /// The number of this machine by its certificate.
    machine: Cell<Option<u32>>,
    /// The session with the store is another one, or this element leads.
    pub changed: Notify,
}

impl RosterKeeper {
    /// Returns the administrative state of an element.
    pub fn state(&self, element: ElementId) -> AdminState {
        self.roster.borrow().state(element)
    }

    /// Returns the machines whose certificates are refused; `None` before the roster was read.
    pub fn revoked(&self) -> Option<BTreeSet<(ElementId, u32)>> {
        self.is_read.get().then(|| self.roster.borrow().revoked())
    }

    /// Returns the configuration by which this element works.
    pub fn applied(&self, configured: &Settings) -> Settings {
        self.roster.borrow().applied(configured, self.machine.get())
    }
}

/// Returns a state in a word.
pub fn word(state: AdminState) -> &'static str {
    match state {
        AdminState { removed: true, .. } => "removed",
        AdminState { drained: true, .. } => "drained",
        AdminState { .. } => "in service",
    }
}

/// Follows the roster in the store, for ever.
pub async fn follow(process: Rc<ClusterProcess>) {
    loop {
        let session = process.stream.session();
        let following = async {
            let Some(client) = session else { return std::future::pending().await };
            let Err(error) = follow_session(&process, &client).await;
            tracing::debug!(%error, "the roster is not followed");
            tokio::time::sleep(RETRY).await;
        };
        tokio::select! {
            () = following => {}
            () = process.roster.changed.notified() => {}
        }
    }
}

/// Notes the number of this machine by its certificate.
async fn note_machine(process: &ClusterProcess) {
    let own = process.configured.borrow().as_ref().map(|configured| configured.element);
    if let Some(own) = own
        && let Ok(credentials) = identity::fetch(&process.protocol.frame, own).await
    {
        process.roster.machine.set(Some(credentials.machine()));
    }
}

/// Asks other elements, while no server of the store answers, whether this machine is still the element: the servers refuse certificates of
/// machines that were replaced or removed, and such a machine leaves the cluster. For ever.
pub(crate) async fn ask_standing(process: Rc<ClusterProcess>) {
    loop {
        tokio::time::sleep(STANDING).await;
        let settings = process.settings.borrow().clone();
        let Some(settings) = settings.filter(|settings| settings.inventory.get(settings.element).is_some())
        else {
            continue;
        };
        let has_members = settings.store.as_ref().is_some_and(|store| store.is_authenticated);
        if !has_members || process.stream.view().endpoint.is_some() {
            continue;
        }
        for element in settings.reached.keys().filter(|element| **element != settings.element) {
            let request = pb::GetFromElementRequest {
                element: element.number().into(),
                target: "cluster".into(),
                path: "cluster.v1.Cluster/GetCounters".into(),
                within_ms: STANDING.as_millis() as u32,
                ..Default::default()
            };
            let Ok(reply) = console::ask(&process, request).await else { continue };
            if reply.machine > 0 {
                note_machine(&process).await;
                let roster = process.roster.roster.borrow().clone();
                take_in(&process, roster.with_standing(settings.element, reply.machine, reply.removed)).await;
            }
            break;
        }
    }
}

async fn follow_session(process: &ClusterProcess, client: &Client) -> Result<Infallible, StoreError> {
    note_machine(process).await;
    loop {
        let value = client.value(KEY).await?;
        if process.stream.with_term(|_| ()).is_some() {
            renew(process, client, &value).await?;
        }
        match read(&value) {
            Ok(roster) => {
                process.roster.is_read.set(true);
                if let Some(roster) = roster {
                    take_in(process, roster).await;
                }
                process.store_server.changed.notify_one();
            }
            Err(error) => {
                warn!(event = "cluster.roster.unreadable", %error, "{error}; elements stay as they are")
            }
        }
        let mut watch = client.watch_value(KEY, value.at).await?;
        while !matches!(watch.next().await?, Watched::Key) {}
    }
}

/// Returns the roster of a value; `None` if the store has no roster.
fn read(value: &Value) -> Result<Option<Roster>, ChangeError> {
    match &value.content {
        Some(content) => Ok(Some(Roster::decode(content)?)),
        None if value.changed == 0 => Ok(None),
        None => Err(ChangeError::Tag),
    }
}

/// Writes the value anew as the leader, if another store lacks the roster, or if the value has the tag of a key that is going to be removed.
async fn renew(process: &ClusterProcess, client: &Client, value: &Value) -> Result<(), StoreError> {
    let known = process.roster.roster.borrow().clone();
    let is_missing = value.changed == 0 && known != Roster::default();
    let content = match &value.content {
        Some(content) if !value.is_current => Some(content.clone()),
        _ => is_missing.then(|| known.encode()),
    };
    if let Some(content) = content {
        client.replace_value(KEY, &content, value.changed).await?;
    }
    Ok(())
}

async fn take_in(process: &ClusterProcess, roster: Roster) {
    let before = process.roster.roster.replace(roster);
    let now = process.roster.roster.borrow().clone();
    let elements = before.iter().chain(now.iter()).map(|(element, _)| element);
    let changed: BTreeSet<ElementId> =
        elements.filter(|element| before.state(*element) != now.state(*element)).collect();
    for element in changed {
        let state = now.state(element);
        info!(
            event = "cluster.element.state",
            element = element.number(),
            machine = state.machine,
            "element {element} is {}, on machine {}",
            word(state),
            state.machine
        );
    }
    let leaves = |settings: &Settings| settings.inventory.get(settings.element).is_none();
    let after = process.configured.borrow().as_ref().map(|configured| process.roster.applied(configured));
    if after.as_ref().is_some_and(leaves) && !process.settings.borrow().as_ref().is_some_and(leaves) {
        tokio::time::sleep(LEAVING).await;
    }
    process.adopt();
}

/// Reads the value for an operator, and returns the value with the session. Servers do not answer during an election: the read is repeated
/// with the present session. A write is not: without an answer, the write may have been done.
async fn present(process: &ClusterProcess) -> Result<(Client, Value), ChangeError> {
    let begun = tokio::time::Instant::now();
    loop {
        let client = process.stream.session().filter(|_| process.stream.view().endpoint.is_some());
        let error = match client {
            Some(client) => match client.value(KEY).await {
                Ok(value) => return Ok((client, value)),
                Err(error) => ChangeError::Store(error),
            },
            None => ChangeError::Lost,
        };
        if begun.elapsed() >= ELECTION {
            return Err(error);
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Changes the administrative state of an element, and returns the state. `by` is the person who wants it.
///
/// # Errors
/// The change is refused, or the store does not answer.
pub async fn change(
    process: &ClusterProcess,
    element: u32,
    change: Change,
    by: &str,
) -> Result<(ElementId, AdminState), ChangeError> {
    let configured = process.configured.borrow().clone().ok_or(ChangeError::NoCluster)?;
    let number = u16::try_from(element).ok().and_then(ElementId::new);
    let element = number.ok_or(ChangeError::NoNumber(element))?;
    configured.store.as_ref().ok_or(ChangeError::NoStore(element))?;
    let in_service = process.driver.read(|machine: &Cluster| machine.in_service().clone());
    for _ in 0..ATTEMPTS {
        let (client, value) = present(process).await?;
        let before = read(&value)?.unwrap_or_else(|| process.roster.roster.borrow().clone());
        let after = before.changed(&configured, &in_service, element, change)?;
        if !client.replace_value(KEY, &after.encode(), value.changed).await? {
            continue;
        }
        let state = after.state(element);
        info!(
            event = "cluster.element.changed",
            element = element.number(),
            by,
            "{by} changed element {element}: {}, machine {}",
            word(state),
            state.machine
        );
        if let Some(url) = peer_url(&configured, element) {
            let done = change_servers(process, change, &url).await;
            done.map_err(|error| ChangeError::Server { element, state: word(state), error })?;
        }
        return Ok((element, state));
    }
    Err(ChangeError::Busy)
}

/// Has the server of an element leave the store, and that of its next machine join. A session may end with the server that leaves: the next
/// session goes on.
async fn change_servers(process: &ClusterProcess, change: Change, url: &str) -> Result<(), StoreError> {
    if matches!(change, Change::Drain | Change::Undrain) {
        return Ok(());
    }
    let begun = tokio::time::Instant::now();
    loop {
        let client = process.stream.session();
        let changing = async {
            let Some(client) = client else { return Err(StoreError::Closed) };
            client.remove_server(url).await?;
            match change {
                Change::Replace => client.add_server(url).await,
                _ => Ok(()),
            }
        };
        match changing.await {
            Err(_) if begun.elapsed() < SERVERS => tokio::time::sleep(RETRY).await,
            done => return done,
        }
    }
}
