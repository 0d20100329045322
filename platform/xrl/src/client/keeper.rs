//! The connection to the Finder: renewed after each loss, with every registration repeated under its old name.

use super::connection::Connection;
use super::endpoint::Inner;
use super::link::{LinkState, ask};
use super::options::{DEFAULT_WINDOW, EndpointOptions, FinderAddress};
use crate::finder::life::LifeEvent;
use crate::idl::finder::v1::{self as wire, event};
use crate::wire::dial::dial;
use crate::{Family, XrlError};
use std::rc::{Rc, Weak};
use std::time::Duration;
use tokio::task::spawn_local;
use tokio::time::Instant;

/// Pause before the second attempt to reach the Finder; doubled up to [`LAST_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_millis(10);

const LAST_PAUSE: Duration = Duration::from_millis(500);

/// The time that processes have to register again with a restarted Finder before a missing process counts as dead.
const GRACE: Duration = Duration::from_secs(3);

/// Keeps the connection for as long as the endpoint lives.
pub(crate) async fn keep(inner: Weak<Inner>) {
    let mut pause = FIRST_PAUSE;
    loop {
        let Some(options) = inner.upgrade().map(|i| i.options.clone()) else {
            return;
        };
        let error = match connect(&options, &inner).await {
            Ok(connection) => {
                pause = FIRST_PAUSE;
                follow(&connection, &inner).await
            }
            Err(e) => e,
        };
        let Some(router) = inner.upgrade() else {
            return;
        };
        tracing::debug!(%error, "no connection to the Finder");
        router.link.send_replace(LinkState::Down(match error {
            XrlError::AccessDenied(_) => error,
            _ => XrlError::NoFinder,
        }));
        for watch in router.watches.borrow().iter().filter_map(Weak::upgrade) {
            watch.doubt();
        }
        drop(router);
        tokio::time::sleep(pause).await;
        pause = LAST_PAUSE.min(pause * 2);
    }
}

/// Connects, identifies the process, and repeats earlier registrations and watches.
async fn connect(options: &EndpointOptions, inner: &Weak<Inner>) -> Result<Rc<Connection>, XrlError> {
    let stream = match &options.finder {
        FinderAddress::Unix(path) => dial(Family::Unix, &path.to_string_lossy()).await,
        FinderAddress::Tcp(address) => dial(Family::Tcp, &address.to_string()).await,
    };
    let stream = stream.map_err(|_| XrlError::NoFinder)?;
    let connection = Connection::start(stream, DEFAULT_WINDOW);
    let result = introduce(&connection, options, inner).await;
    if let Err(e) = &result {
        connection.close(e.clone());
    }
    result.map(|()| connection)
}

async fn introduce(
    connection: &Rc<Connection>,
    options: &EndpointOptions,
    inner: &Weak<Inner>,
) -> Result<(), XrlError> {
    let hello = wire::HelloRequest { secret: options.secret.map(Vec::from).unwrap_or_default() };
    let known: wire::HelloReply = ask(connection, "Hello", &hello).await?;
    let lost = || XrlError::Disconnected("the endpoint was dropped".to_owned());
    inner.upgrade().ok_or_else(lost)?.principal.replace(known.principal.into());
    let known: Vec<(u64, wire::RegisterRequest)> = {
        let router = inner.upgrade().ok_or_else(lost)?;
        let targets = router.targets.borrow();
        targets.iter().map(|(id, t)| (*id, t.request.clone())).collect()
    };
    for (id, request) in known {
        let instance = request.instance.clone();
        match ask(connection, "Register", &request).await {
            Ok(reply) => {
                let router = inner.upgrade().ok_or_else(lost)?;
                if let Some(target) = router.targets.borrow_mut().get_mut(&id) {
                    target.take_seal(reply)?;
                }
                drop(router);
                let enable = wire::EnableRequest { instance };
                let _enabled: wire::EnableReply = ask(connection, "Enable", &enable).await?;
            }
            // The others must not suffer from one whose name was taken meanwhile.
            Err(e @ (XrlError::NameTaken(_) | XrlError::AccessDenied(_))) => {
                tracing::error!(%e, instance, "could not register again");
            }
            Err(e) => return Err(e),
        }
    }
    let watches: Vec<_> = {
        let router = inner.upgrade().ok_or_else(lost)?;
        let watches = router.watches.borrow();
        watches.iter().filter_map(Weak::upgrade).collect()
    };
    for watch in watches {
        let _watching: wire::WatchReply = ask(connection, "Watch", &watch.request()).await?;
        spawn_local(async move {
            tokio::time::sleep(GRACE).await;
            watch.settle();
        });
    }
    let router = inner.upgrade().ok_or_else(lost)?;
    router.linked.set(Some(Instant::now()));
    router.link.send_replace(LinkState::Up(Rc::clone(connection)));
    Ok(())
}

/// Takes events from the Finder until the connection breaks.
async fn follow(connection: &Rc<Connection>, inner: &Weak<Inner>) -> XrlError {
    loop {
        let events: Result<wire::NextEventsReply, _> =
            ask(connection, "NextEvents", &wire::NextEventsRequest {}).await;
        let events = match events {
            Ok(reply) => reply.events,
            Err(e) => {
                connection.close(e.clone());
                return e;
            }
        };
        let Some(router) = inner.upgrade() else {
            return XrlError::NoFinder;
        };
        for event in events.into_iter().filter_map(|e| e.event) {
            let life = match event {
                event::Event::Invalid(name) => {
                    router.invalidate(&name);
                    continue;
                }
                event::Event::Revoked(grant) => {
                    router.registry.revoke(grant);
                    continue;
                }
                event::Event::Birth(life) => LifeEvent::Birth(life.into()),
                event::Event::Death(life) => LifeEvent::Death(life.into()),
            };
            let watches: Vec<_> = router.watches.borrow().iter().filter_map(Weak::upgrade).collect();
            watches.iter().for_each(|watch| watch.handle(&life));
        }
    }
}
