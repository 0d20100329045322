//! The connection to the Finder, and calls by it.

use super::call::{Call, State};
use super::connection::Connection;
use crate::XrlError;
use crate::finder::TARGET;
use crate::wire::seal::Credential;
use prost::Message;
use std::rc::Rc;

/// The state of the link to the Finder.
pub(crate) enum LinkState {
    Up(Rc<Connection>),
    Down(XrlError),
}

impl LinkState {
    pub(crate) fn connection(&self) -> Result<Rc<Connection>, XrlError> {
        match self {
            LinkState::Up(connection) if connection.is_open() => Ok(Rc::clone(connection)),
            LinkState::Up(_) => Err(XrlError::NoFinder),
            LinkState::Down(error) => Err(error.clone()),
        }
    }

    /// Returns true if waiting does not help: the Finder answers and refuses.
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, LinkState::Down(XrlError::AccessDenied(_)))
    }
}

/// Calls a method of the Finder.
pub(crate) async fn ask<Req: Message, Rep: Message + Default + 'static>(
    connection: &Rc<Connection>,
    method: &str,
    request: &Req,
) -> Result<Rep, XrlError> {
    let number = connection.bind(&format!("{TARGET}/finder.v1.Finder/{method}"), &Credential::none())?;
    let slot = connection.send(number, request, None)?;
    let reply = Call::new(State::Wire(Rc::clone(connection), slot), None).await;
    reply.map_err(|e: XrlError| match e {
        XrlError::Disconnected(_) => XrlError::NoFinder,
        other => other,
    })
}

/// Calls a method of the Finder that answers at once, without waiting for the answer.
pub(crate) fn send_only<Req: Message>(connection: &Rc<Connection>, method: &str, request: &Req) {
    let number = connection.bind(&format!("{TARGET}/finder.v1.Finder/{method}"), &Credential::none());
    if let Ok(slot) = number.and_then(|number| connection.send(number, request, None)) {
        connection.abandon(slot);
    }
}
