//! The shared configuration on an element: has the manager take the newest configuration from the store, and decides the element's commits.
//! The rules are in the core ([`sluice_cluster::configuration`]).

mod owner;

use crate::ClusterProcess;
use crate::store::{Client, StoreError, Value, Watch, Watched};
use sluice_cluster::configuration::keeper::{Keeper, Step};
use sluice_cluster::configuration::shared::{Author, DecisionId, Proposal, Shared, SharedError};
use sluice_cluster::configuration::{KEY, TAKEN};
use sluice_cluster::inventory::ElementId;
use sluice_cluster::stream::wire::DecodeError;
use sluice_process::clock;
use sluice_xrl::XrlError;
use sluice_xrl::idl::manager::v1 as manager;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::rc::Rc;
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;
use tracing::{debug, info, warn};

/// The time until the store is asked again.
const RETRY: Duration = Duration::from_millis(500);
/// The longest wait for the manager, including restarts of components.
const TAKING: Duration = Duration::from_secs(120);
/// The author of configurations without a person as the author.
const NOBODY: &str = "sluice";

/// The reason why a configuration in the store is not taken.
#[derive(Debug, thiserror::Error)]
enum ConfigurationError {
    /// The store does not answer.
    #[error("the store: {0}")]
    Store(#[from] StoreError),
    /// The value is not readable.
    #[error("the configuration in the store: {0}")]
    Unreadable(#[from] DecodeError),
    /// No key of the cluster gives the tag of the value.
    #[error("the configuration in the store is not of this cluster's key")]
    Tag,
    /// The own configuration cannot be shared.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// The manager does not answer.
    #[error("the manager: {0}")]
    Manager(#[from] XrlError),
}

/// The element's knowledge of the shared configuration.
pub struct ConfigurationKeeper {
    keeper: RefCell<Keeper>,
    /// The reason why the value in the store cannot be read.
    unreadable: RefCell<Option<String>>,
    /// The configuration before the last offer, and the revision of the last change.
    offered: RefCell<Option<(Shared, u64)>>,
    /// The start of the process, in milliseconds since 1970.
    epoch: u64,
    decisions: Cell<u64>,
    /// The session with the store is new, the element leads, or the settings changed.
    pub changed: Notify,
}

impl ConfigurationKeeper {
    /// Makes the keeper of a process started at a time in milliseconds since 1970.
    pub fn new(epoch: u64) -> Self {
        ConfigurationKeeper {
            keeper: RefCell::default(),
            unreadable: RefCell::default(),
            offered: RefCell::default(),
            epoch,
            decisions: Cell::default(),
            changed: Notify::new(),
        }
    }

    /// Returns the reason why the newest configuration does not run here.
    pub fn problem(&self) -> Option<String> {
        let keeper = self.keeper.borrow();
        let failure = keeper.newest().zip(keeper.problem()).map(|((newest, _), problem)| {
            format!(
                "configuration {} of all elements does not run on this one: {problem}; the one before runs",
                newest.number
            )
        });
        failure.or_else(|| self.unreadable.borrow().clone())
    }

    /// Compares the running configuration with the decided configuration.
    pub fn compare(&self) {
        self.keeper.borrow_mut().recheck();
        self.changed.notify_one();
    }

    fn next_decision(&self, element: ElementId) -> DecisionId {
        self.decisions.set(self.decisions.get() + 1);
        DecisionId { element, epoch: self.epoch, count: self.decisions.get() }
    }
}

/// Returns the milliseconds since 1970.
fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the element's own number, if the elements share a configuration and the element is a member: removed elements and earlier machines
/// have no part.
fn sharing(process: &ClusterProcess) -> Option<ElementId> {
    let settings = process.settings.borrow();
    let own = settings.as_ref().filter(|own| own.shares_configuration)?;
    own.inventory.get(own.element).map(|member| member.id)
}

/// Returns the configuration of a value; `None` if the store has none.
fn read(value: &Value) -> Result<Option<Shared>, ConfigurationError> {
    match &value.content {
        Some(content) => Ok(Some(Shared::decode(content)?)),
        None if value.changed == 0 => Ok(None),
        None => Err(ConfigurationError::Tag),
    }
}

/// Follows the configuration in the store, for ever.
pub async fn follow(process: Rc<ClusterProcess>) {
    loop {
        let session = process.stream.session().zip(sharing(&process));
        let following = async {
            let Some((client, element)) = session else { return std::future::pending().await };
            let Err(error) = follow_session(&process, &client, element).await;
            debug!(%error, "the shared configuration is not followed");
            tokio::time::sleep(RETRY).await;
        };
        tokio::select! {
            () = following => {}
            () = process.configuration.changed.notified() => {}
        }
    }
}

async fn follow_session(
    process: &ClusterProcess,
    client: &Client,
    element: ElementId,
) -> Result<Infallible, ConfigurationError> {
    let own = &process.configuration;
    loop {
        let value = client.value(KEY).await?;
        let mut watch = client.watch_value(KEY, value.at).await?;
        let leads = process.stream.with_term(|_| ()).is_some();
        if let Some(content) = value.content.as_ref().filter(|_| leads && !value.is_current) {
            // The value has the tag of a key that is going to be removed.
            client.replace_value(KEY, content, value.changed).await?;
        }
        match read(&value) {
            Ok(shared) => {
                own.unreadable.take();
                own.keeper.borrow_mut().seen(clock::now(), shared, value.changed);
            }
            Err(error) => {
                let text = error.to_string();
                if own.unreadable.replace(Some(text.clone())).as_ref() != Some(&text) {
                    warn!(event = "cluster.configuration.unreadable", %error, "{error}; this element keeps its own");
                }
                changed(&mut watch).await?;
                continue;
            }
        }
        steps(process, client, element, &mut watch).await?;
    }
}

async fn changed(watch: &mut Watch) -> Result<(), StoreError> {
    while !matches!(watch.next().await?, Watched::Key) {}
    Ok(())
}

/// Carries out the keeper's steps until the value may have changed.
async fn steps(
    process: &ClusterProcess,
    client: &Client,
    element: ElementId,
    watch: &mut Watch,
) -> Result<(), ConfigurationError> {
    let own = &process.configuration;
    let mut reported = None;
    loop {
        let leads = process.stream.with_term(|_| ()).is_some();
        let id = own.next_decision(element);
        let step = own.keeper.borrow().step(clock::now(), leads, id, unix_ms());
        match step {
            Step::Seed => return seed(process, client, id).await,
            Step::Take(shared) => {
                let failure = take(process, &shared).await;
                if let Some(reason) = &failure {
                    warn!(
                        event = "cluster.configuration.refused",
                        number = shared.number,
                        reason,
                        "configuration {} of all elements does not run here: {reason}",
                        shared.number
                    );
                }
                own.keeper.borrow_mut().took(clock::now(), shared.number, failure);
            }
            Step::Revert(shared, revision) => {
                if client.replace_value(KEY, &shared.encode(), revision).await? {
                    let (number, comment) = (shared.number, &shared.author.comment);
                    warn!(
                        event = "cluster.configuration.reverted",
                        number, "configuration {number}: {comment}"
                    );
                }
                return Ok(());
            }
            Step::Wait(until) => {
                // A session may end between the two, and the next one reports again.
                let taken = own.keeper.borrow().taken();
                if let Some(taken) = taken.filter(|taken| reported != Some(*taken)) {
                    let name = format!("{TAKEN}{element}");
                    client.put_value(&name, taken.to_string().as_bytes()).await?;
                    reported = Some(taken);
                    continue;
                }
                let left = until.map(|until| until.saturating_since(clock::now()));
                tokio::select! {
                    changed = changed(watch) => return Ok(changed?),
                    () = tokio::time::sleep(left.unwrap_or_default()), if left.is_some() => {}
                }
            }
        }
    }
}

/// Writes the element's own configuration as the first configuration.
async fn seed(process: &ClusterProcess, client: &Client, id: DecisionId) -> Result<(), ConfigurationError> {
    let owner = manager::SharedConfigurationClient::new(&process.protocol.frame.router, "manager")
        .with_deadline(TAKING);
    let text = owner.export(manager::ExportSharedRequest {}).await?.text;
    let comment = format!("the configuration of element {}, which leads", id.element);
    let author = Author { user: NOBODY.into(), comment, time_ms: unix_ms() };
    let shared = Shared::following(None, Proposal { id, text, author, within_s: None, confirms: false })?;
    if client.replace_value(KEY, &shared.encode(), 0).await? {
        info!(
            event = "cluster.configuration.first",
            "the configuration of this element is the one of all elements"
        );
    }
    Ok(())
}

/// Has the manager run a configuration. Returns the reason of a failure.
async fn take(process: &ClusterProcess, shared: &Shared) -> Option<String> {
    let owner = manager::SharedConfigurationClient::new(&process.protocol.frame.router, "manager")
        .with_deadline(TAKING);
    let origin =
        shared.element().map(|element| format!("configuration {} by element {element}", shared.number));
    let origin = origin.unwrap_or_default();
    let comment = match shared.author.comment.as_str() {
        "" => origin,
        comment => format!("{origin}: {comment}"),
    };
    let request =
        manager::TakeSharedRequest { text: shared.text.clone(), user: shared.author.user.clone(), comment };
    match owner.take(request).await {
        Ok(reply) => {
            if reply.changes > 0 {
                let (number, revision) = (shared.number, reply.revision);
                info!(
                    event = "cluster.configuration.taken",
                    number,
                    revision,
                    "configuration {number} of all elements runs here as revision {revision}"
                );
            }
            None
        }
        Err(XrlError::Application { message, .. }) => Some(message),
        Err(error) => Some(error.to_string()),
    }
}

/// Returns the numbers of the running configurations by element, as last reported.
pub async fn numbers(process: &ClusterProcess) -> BTreeMap<ElementId, u64> {
    let Some(own) = sharing(process) else { return BTreeMap::new() };
    let mut found = BTreeMap::new();
    let client = process.stream.session().filter(|_| process.stream.view().endpoint.is_some());
    if let Some(client) = client
        && let Ok(values) = client.values(TAKEN, i64::from(u16::MAX)).await
    {
        let number = |(name, content): (String, Vec<u8>)| {
            let element = ElementId::new(name.parse().ok()?)?;
            Some((element, String::from_utf8(content).ok()?.parse().ok()?))
        };
        found.extend(values.into_iter().filter_map(number));
    }
    found.extend(process.configuration.keeper.borrow().taken().map(|taken| (own, taken)));
    found
}
