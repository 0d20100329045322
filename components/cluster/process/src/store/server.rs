//! The server of the store on this element, as a helper of the component: the manager runs etcd, since the component may not execute
//! programs.

use crate::ClusterProcess;
use crate::credentials::Credentials;
use crate::identity::{self, IdentityError};
use rustls::ClientConfig;
use sluice_cluster::inventory::ElementId;
use sluice_cluster::roster::{FIRST_MACHINE, serial_number};
use sluice_cluster::server::{REVOKED, Server, server};
use sluice_cluster::settings::Settings;
use sluice_process::Frame;
use sluice_xrl::XrlError;
use sluice_xrl::idl::manager::v1 as manager;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;

/// The name of the helper in `rights.toml`.
const HELPER: &str = "store";
/// The protocol of etcd (RFC 7301).
const PROTOCOL: &[u8] = b"h2";
/// The time until the manager is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// A list of revoked certificates, with the machines that it names.
type RevokedList = (BTreeSet<(ElementId, u32)>, Vec<u8>);

/// The state of the server.
#[derive(Default)]
pub struct StoreServer {
    /// The settings changed.
    pub changed: Notify,
    /// The reason why the manager was not asked.
    problem: RefCell<Option<String>>,
    /// The server that the manager was asked to run last.
    asked: RefCell<Option<Server>>,
    /// The last list of revoked certificates.
    revoked: RefCell<Option<RevokedList>>,
}

impl StoreServer {
    /// Returns the reason why the manager does not know about the server.
    pub fn problem(&self) -> Option<String> {
        self.problem.borrow().clone()
    }
}

/// The reason why the manager was not asked to run the server.
#[derive(Debug, thiserror::Error)]
enum RunError {
    #[error(transparent)]
    Identity(#[from] IdentityError),
    #[error(transparent)]
    Call(#[from] XrlError),
    #[error("the list of revoked certificates: {0}")]
    Revoked(#[from] rcgen::Error),
}

/// Returns the file with the revoked certificates. Before the roster was read, a file that is there stays.
fn revoked(process: &ClusterProcess, credentials: &Credentials) -> Result<manager::HelperFile, rcgen::Error> {
    let known = process.roster.revoked();
    let if_absent = known.is_none();
    let known = known.unwrap_or_default();
    let list = &process.store_server.revoked;
    let same = list.borrow().as_ref().filter(|(before, _)| *before == known).map(|(_, list)| list.clone());
    let content = match same {
        Some(content) => content,
        None => {
            let numbers = known.iter().map(|(element, machine)| serial_number(*element, *machine).to_vec());
            credentials.revocations(numbers, SystemTime::now())?
        }
    };
    list.replace(Some((known, content.clone())));
    Ok(manager::HelperFile { name: REVOKED.into(), content, if_absent })
}

/// Asks the manager to run the server of the settings. Returns false without credentials: the list of revoked certificates is missing then, and
/// a server that the manager starts as soon as there are credentials accepts nobody.
async fn run(process: &ClusterProcess, settings: &Settings) -> Result<bool, RunError> {
    let (asked, frame) = (&process.store_server.asked, &process.protocol.frame);
    // The number of the machine is a part of the folder's name: a server is not run by a guess.
    let (machine, file) = match identity::fetch(frame, settings.element).await {
        Ok(credentials) => (credentials.machine(), Some(revoked(process, &credentials)?)),
        Err(IdentityError::Missing(XrlError::Application { .. })) => (FIRST_MACHINE, None),
        Err(error) => return Err(error.into()),
    };
    let wanted = server(settings, machine);
    // A server that has joined goes on when other members leave: the list of members counts at its first start only.
    let before = asked.borrow().clone();
    let same = before.filter(|before| wanted.as_ref().is_some_and(|wanted| wanted.store == before.store));
    let wanted = same.or(wanted);
    let helper = wanted.clone().map(|server| manager::Helper {
        name: HELPER.into(),
        instance: server.store,
        arguments: server.arguments,
        files: file.into_iter().collect(),
    });
    let client = manager::HelpersClient::new(&frame.router, "manager");
    let is_whole = helper.as_ref().is_none_or(|helper| !helper.files.is_empty());
    client.run(manager::RunRequest { helpers: helper.into_iter().collect() }).await?;
    asked.replace(wanted);
    Ok(is_whole)
}

/// Waits until this element has credentials.
async fn credentials_of(process: &ClusterProcess) {
    loop {
        tokio::time::sleep(RETRY).await;
        let own = process.settings.borrow().as_ref().map(|settings| settings.element);
        let Some(own) = own else { return };
        if identity::fetch(&process.protocol.frame, own).await.is_ok() {
            return;
        }
    }
}

/// Asks the manager to run the server at each change of the settings, for ever.
pub async fn follow(process: Rc<ClusterProcess>) {
    let server = &process.store_server;
    loop {
        let settings = process.settings.borrow().clone();
        let asked = match &settings {
            Some(settings) => run(&process, settings).await,
            None => Ok(true),
        };
        let (failed, lacks_credentials) = (asked.is_err(), matches!(asked, Ok(false)));
        server.problem.replace(asked.err().map(|error| format!("the server of the store: {error}")));
        tokio::select! {
            () = server.changed.notified() => {}
            () = tokio::time::sleep(RETRY), if failed => {}
            () = credentials_of(&process), if lacks_credentials => {}
        }
    }
}

/// Returns the settings of TLS with the present credentials.
///
/// # Errors
/// The manager has no credentials, or the credentials are not valid, or of another element.
pub async fn tls(frame: &Frame, settings: &Settings) -> Result<Arc<ClientConfig>, IdentityError> {
    let credentials = identity::fetch(frame, settings.element).await?;
    Ok(Arc::new(credentials.client(PROTOCOL)?))
}
