//! The way of a call to a method of a target.

use super::call::State;
use super::connection::Connection;
use super::relay::RelayedMethod;
use super::udp::UdpCaller;
use crate::server::registry::MethodEntry;
use crate::server::service::{CallContext, PendingReply, Started, TypedHandler};
use crate::wire::kill;
use crate::wire::seal::Credential;
use crate::{Family, XrlError};
use prost::Message;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;

/// A method of the same process, called by the process's own principal.
pub(crate) struct LocalMethod {
    pub(crate) entry: Rc<MethodEntry>,
    pub(crate) principal: Rc<str>,
}

/// The way to a method of a target.
#[derive(Clone)]
pub(crate) enum Route {
    Local(Rc<LocalMethod>),
    Stream { connection: Rc<Connection>, number: u16, version: u32 },
    Udp { caller: Rc<UdpCaller>, path: Rc<str>, credential: Credential },
    Kill { pid: u32 },
    Relay(Rc<RelayedMethod>),
}

impl Route {
    pub(crate) fn is_valid(&self) -> bool {
        match self {
            Route::Local(method) => method.entry.is_live(),
            Route::Stream { connection, version, .. } => {
                connection.is_open() && connection.version() == *version
            }
            Route::Udp { caller, .. } => caller.is_valid(),
            Route::Kill { .. } | Route::Relay(_) => true,
        }
    }

    pub(crate) fn has_room(&self) -> bool {
        match self {
            Route::Stream { connection, .. } => connection.has_room(),
            Route::Local(_) | Route::Udp { .. } | Route::Kill { .. } | Route::Relay(_) => true,
        }
    }

    /// Issues a call; the call is in flight after the return.
    pub(crate) fn issue<Req, Rep>(&self, request: Req, within: Option<Duration>) -> State<Rep>
    where
        Req: Message + 'static,
        Rep: Message + Default + 'static,
    {
        match self {
            Route::Stream { connection, number, .. } => match connection.send(*number, &request, within) {
                Ok(slot) => State::Wire(Rc::clone(connection), slot),
                Err(e) => State::Ready(Err(e)),
            },
            Route::Local(method) => issue_local(method, request, within),
            Route::Udp { caller, path, credential } => {
                let (caller, path, credential) = (Rc::clone(caller), Rc::clone(path), credential.clone());
                let body = request.encode_to_vec();
                State::octets(call_by_udp(caller, path, credential, body, within))
            }
            Route::Relay(method) => State::octets(method.call(request.encode_to_vec(), within)),
            Route::Kill { pid } => State::Ready(
                kill::signal(*pid, &request.encode_to_vec())
                    .and_then(|reply| Rep::decode(&reply[..]).map_err(|e| XrlError::Protocol(e.to_string()))),
            ),
        }
    }
}

/// A call by UDP, without the types of the method.
fn call_by_udp(
    caller: Rc<UdpCaller>,
    path: Rc<str>,
    credential: Credential,
    arguments: Vec<u8>,
    within: Option<Duration>,
) -> PendingReply {
    Box::pin(async move { caller.call(&path, &credential, &arguments, within).await })
}

pub(crate) fn issue_local<Req, Rep>(
    method: &LocalMethod,
    request: Req,
    within: Option<Duration>,
) -> State<Rep>
where
    Req: Message + 'static,
    Rep: Message + Default + 'static,
{
    let entry = &method.entry;
    let ctx = CallContext {
        connection: 0,
        pid: None,
        uid: None,
        principal: Rc::clone(&method.principal),
        family: Family::InProcess,
        deadline: within.map(|d| Instant::now() + d),
    };
    if let Some(typed) = entry.typed.downcast_ref::<Rc<dyn TypedHandler<Req, Rep>>>() {
        return match typed.start_typed(ctx, request) {
            Started::Ready(result) => State::Ready(result),
            Started::Pending(handler) => State::typed(handler),
        };
    }
    // The caller was generated apart from the target: the same octets, other types.
    let decode = |octets: Vec<u8>| Rep::decode(&octets[..]).map_err(|e| XrlError::Protocol(e.to_string()));
    match entry.handler.start_octets(ctx, &request.encode_to_vec()) {
        Started::Ready(result) => State::Ready(result.and_then(decode)),
        Started::Pending(handler) => State::octets(handler),
    }
}
