//! Targets of the process: registered, called at its sockets, and unregistered.

use super::endpoint::{Inner, XrlEndpoint};
use super::link::ask;
use super::options::FinderAddress;
use super::registered::Registered;
use crate::finder::random_key;
use crate::idl::finder::v1 as wire;
use crate::server::datagrams;
use crate::server::listener::{self, Listener};
use crate::server::registry::MethodEntry;
use crate::server::target::{Target, offer};
use crate::{Family, XrlError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::rc::Rc;
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::spawn_local;

/// A registered target, unregistered on drop; until then its endpoint lives.
pub struct TargetHandle {
    router: XrlEndpoint,
    id: u64,
    instance: String,
}

impl TargetHandle {
    /// The target's name.
    pub fn instance(&self) -> &str {
        &self.instance
    }
}

impl Drop for TargetHandle {
    fn drop(&mut self) {
        self.router.0.unregister(self.id);
    }
}

impl XrlEndpoint {
    /// Registers a target. After the return, the target can be called.
    pub async fn register(&self, target: Target) -> Result<TargetHandle, XrlError> {
        let mut endpoints = Vec::new();
        for family in &target.families {
            endpoints.extend(self.0.listen(*family).await?);
        }
        let connection = self.0.link().await?;
        let incarnation = random_key();
        let [high, ..] = incarnation.as_chunks::<8>().0 else {
            return Err(XrlError::Internal("a key is 16 octets".to_owned()));
        };
        let mut request = wire::RegisterRequest {
            class: target.class,
            instance: target.instance.unwrap_or_default(),
            singleton: target.singleton,
            endpoints,
            interfaces: target.services.iter().map(offer).collect(),
            cookie: Vec::new(),
            incarnation: u64::from_be_bytes(*high),
        };
        let reply: wire::RegisterReply = ask(&connection, "Register", &request).await?;
        request.instance.clone_from(&reply.instance);
        let mut registered = Registered { request, paths: Vec::new(), seals: Rc::default() };
        let instance = reply.instance.clone();
        registered.take_seal(reply)?;
        for service in target.services {
            for method in service.methods {
                let path = format!("{instance}/{}/{}", service.name, method.name);
                let seals = &registered.seals;
                let entry = MethodEntry::new(&instance, method, seals);
                self.0.registry.insert(path.clone(), Rc::new(entry));
                registered.paths.push(path);
            }
        }
        let id = self.0.insert(registered);
        let handle = TargetHandle { router: self.clone(), id, instance: instance.clone() };
        let _enabled: wire::EnableReply =
            ask(&connection, "Enable", &wire::EnableRequest { instance }).await?;
        Ok(handle)
    }
}

impl Inner {
    fn insert(&self, registered: Registered) -> u64 {
        let mut targets = self.targets.borrow_mut();
        let id = targets.last_key_value().map_or(0, |(id, _)| id + 1);
        targets.insert(id, registered);
        id
    }

    fn unregister(&self, id: u64) {
        let Some(registered) = self.targets.borrow_mut().remove(&id) else {
            return;
        };
        self.registry.remove(&registered.paths);
        if let Ok(connection) = self.current_link() {
            let request = wire::UnregisterRequest { instance: registered.request.instance };
            spawn_local(async move {
                // The Finder forgets it at the latest when the process ends.
                let _gone: Result<wire::UnregisterReply, _> = ask(&connection, "Unregister", &request).await;
            });
        }
    }

    /// Listens by a family, unless done already. In-process and kill need no socket.
    async fn listen(&self, family: Family) -> Result<Option<wire::Endpoint>, XrlError> {
        let known = self.endpoints.borrow().get(&family).cloned();
        if known.is_some() {
            return Ok(known);
        }
        let failed = |e: io::Error| XrlError::Internal(format!("listening by {family}: {e}"));
        let (address, task) = match family {
            Family::InProcess | Family::Kill => return Ok(None),
            Family::Unix => {
                let name: String = random_key()[..4].iter().map(|b| format!("{b:02x}")).collect();
                let path = self.options.socket_dir.join(format!("{}-{name}.xrl", std::process::id()));
                let listener = crate::wire::listen::unix(&path).map_err(|e| {
                    XrlError::Internal(format!("cannot make the socket {}: {e}", path.display()))
                })?;
                self.sockets.borrow_mut().push(path.clone());
                // The user who started the router owns the Finder's socket.
                if let FinderAddress::Unix(finder) = &self.options.finder
                    && let Ok(finder) = std::fs::metadata(finder)
                {
                    self.registry.set_operator(finder.uid());
                }
                let task = spawn_local(listener::serve(Listener::Unix(listener), Rc::clone(&self.registry)));
                (path.to_string_lossy().into_owned(), task)
            }
            Family::Tcp => {
                let listener = TcpListener::bind((self.options.listen, 0)).await.map_err(failed)?;
                let address = listener.local_addr().map_err(failed)?.to_string();
                (address, spawn_local(listener::serve(Listener::Tcp(listener), Rc::clone(&self.registry))))
            }
            Family::Udp => {
                let socket = UdpSocket::bind((self.options.listen, 0)).await.map_err(failed)?;
                let address = socket.local_addr().map_err(failed)?.to_string();
                (address, spawn_local(datagrams::serve(socket, Rc::clone(&self.registry))))
            }
        };
        self.tasks.borrow_mut().push(task.abort_handle());
        let endpoint = wire::Endpoint { family: family.to_wire().into(), address };
        self.endpoints.borrow_mut().insert(family, endpoint.clone());
        Ok(Some(endpoint))
    }
}
