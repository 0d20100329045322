//! The server of the store on this element, as a helper of the component: the manager runs etcd, since the component may not execute
//! programs.

use crate::ClusterProcess;
use crate::identity::{self, IdentityError};
use rustls::ClientConfig;
use sluice_cluster::roster::FIRST_MACHINE;
use sluice_cluster::server::{Server, server};
use sluice_cluster::settings::Settings;
use sluice_process::Frame;
use sluice_xrl::XrlError;
use sluice_xrl::idl::manager::v1 as manager;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// The name of the helper in `rights.toml`.
const HELPER: &str = "store";
/// The protocol of etcd (RFC 7301).
const PROTOCOL: &[u8] = b"h2";
/// The time until the manager is asked again.
const RETRY: Duration = Duration::from_secs(1);

/// The state of the server.
#[derive(Default)]
pub struct StoreServer {
    /// The settings changed.
    pub changed: Notify,
    /// The reason why the manager was not asked.
    problem: RefCell<Option<String>>,
    /// The server that the manager was asked to run last.
    asked: RefCell<Option<Server>>,
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
}

/// Asks the manager to run the server of the settings.
async fn run(asked: &RefCell<Option<Server>>, frame: &Frame, settings: &Settings) -> Result<(), RunError> {
    // The number of the machine is a part of the folder's name: a server is not run by a guess.
    let machine = match identity::fetch(frame, settings.element).await {
        Ok(credentials) => credentials.machine(),
        Err(IdentityError::Missing(XrlError::Application { .. })) => FIRST_MACHINE,
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
    });
    let client = manager::HelpersClient::new(&frame.router, "manager");
    client.run(manager::RunRequest { helpers: helper.into_iter().collect() }).await?;
    asked.replace(wanted);
    Ok(())
}

/// Asks the manager to run the server at each change of the settings, for ever.
pub async fn follow(process: Rc<ClusterProcess>) {
    let server = &process.store_server;
    loop {
        let settings = process.settings.borrow().clone();
        let asked = match &settings {
            Some(settings) => run(&server.asked, &process.frame, settings).await,
            None => Ok(()),
        };
        let failed = asked.is_err();
        server.problem.replace(asked.err().map(|error| format!("the server of the store: {error}")));
        tokio::select! {
            () = server.changed.notified() => {}
            () = tokio::time::sleep(RETRY), if failed => {}
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
