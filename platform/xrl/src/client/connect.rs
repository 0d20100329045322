//! The ways to an endpoint: with a Finder, without one, and through a relay.

use super::directory;
use super::endpoint::{Inner, XrlEndpoint};
use super::keeper;
use super::options::EndpointOptions;
use super::relay::Relay;
use crate::wire::error::XrlError;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::spawn_local;

impl XrlEndpoint {
    /// Connects to the Finder; fails if the options' time is over before.
    pub async fn connect(options: EndpointOptions) -> Result<Self, XrlError> {
        let inner = Rc::new(Inner::new(options, None, None));
        let task = spawn_local(keeper::keep(Rc::downgrade(&inner)));
        inner.tasks.borrow_mut().push(task.abort_handle());
        let task = spawn_local(directory::report(Rc::downgrade(&inner)));
        inner.tasks.borrow_mut().push(task.abort_handle());
        inner.link().await?;
        Ok(XrlEndpoint(inner))
    }

    /// Returns an endpoint that calls the targets at the given Unix sockets without a Finder. The receivers let root
    /// and the operator call reading methods, and refuse further methods with [`XrlError::BadKey`]; calls for the
    /// Finder fail at once.
    pub fn direct(targets: BTreeMap<String, PathBuf>) -> Self {
        let mut options = EndpointOptions::new(PathBuf::new(), None, PathBuf::new());
        options.patience = Duration::ZERO;
        XrlEndpoint(Rc::new(Inner::new(options, Some(targets), None)))
    }

    /// Returns an endpoint whose calls a relay carries out, those to the Finder too.
    pub fn through(relay: Rc<dyn Relay>) -> Self {
        let mut options = EndpointOptions::new(PathBuf::new(), None, PathBuf::new());
        options.patience = Duration::ZERO;
        XrlEndpoint(Rc::new(Inner::new(options, None, Some(relay))))
    }
}
