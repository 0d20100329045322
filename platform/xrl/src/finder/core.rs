//! The Finder's state and decisions. Pure: no sockets, no clock, no randomness of its own.

use super::acl::{Acl, Granted, Identity, Peer, draw_grant, guard_name};
use super::actions::PeoplesActions;
use super::denials::Denials;
use super::life::{Life, LifeEvent};
use crate::XrlError;
use crate::finder::offers::check_size;
use crate::finder::records::{Client, ClientId, InterfaceRecord, MAX_NAME, Subject, TargetRecord};
use crate::idl::finder::v1::{
    Endpoint, Event, InterfaceInfo, RegisterReply, RegisterRequest, ResolveReply, TargetInfo,
    TransportFamily, event,
};
use crate::wire::denied::Denied;
use crate::wire::frame::Key;
use crate::wire::seal::{Holder, Seal};
use sluice_base::{class_of, instance_of};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;

/// Resolved names kept for a single connection; older names are declared invalid.
const MAX_RESOLVED: usize = 4096;

/// The Finder's state.
#[derive(Default)]
pub(crate) struct Core {
    pub(super) acl: HashMap<Identity, Granted>,
    pub(super) clients: BTreeMap<ClientId, Client>,
    pub(super) targets: BTreeMap<String, TargetRecord>,
    next_order: u64,
    /// Clients with new events since the last call.
    pub(super) woken: Vec<ClientId>,
    /// The latest grants that were taken away.
    pub(super) revoked: VecDeque<u64>,
    pub(super) denials: Denials,
    pub(super) actions: PeoplesActions,
}

impl Core {
    pub(crate) fn new(acl: Acl, random: &mut dyn FnMut() -> Key) -> Self {
        let granted = |(secret, principal)| {
            (Identity::Secret(secret), Granted { principal, grant: draw_grant(random) })
        };
        Core { acl: acl.into_iter().map(granted).collect(), ..Core::default() }
    }

    /// Returns the clients with new events.
    pub(crate) fn take_woken(&mut self) -> Vec<ClientId> {
        std::mem::take(&mut self.woken)
    }

    pub(crate) fn register(
        &mut self,
        id: ClientId,
        request: RegisterRequest,
        random: &mut dyn FnMut() -> Key,
    ) -> Result<RegisterReply, XrlError> {
        let pid = self.client(id)?.0.pid;
        check_name("class", &request.class)?;
        self.check_right_to_register(id, &request)?;
        check_size(&request)?;
        for interface in &request.interfaces {
            check_name("interface", &interface.name)?;
            interface.methods.iter().try_for_each(|m| check_name("method", &m.name))?;
        }
        let instance = self.free_name(&request)?;
        self.check_singleton(&request, &instance)?;
        self.check_targets(id, &instance, &request.interfaces)?;
        if self.targets.contains_key(&instance) {
            self.remove_target(&instance);
        }
        let interfaces = request.interfaces.into_iter().map(InterfaceRecord::from).collect();
        let mut endpoints = request.endpoints;
        // Nobody registers somebody else's process: the kernel reports the number of the connection's process.
        endpoints.retain(|e| e.family() != TransportFamily::Kill);
        if pid > 1 {
            endpoints.push(Endpoint { family: TransportFamily::Kill.into(), address: pid.to_string() });
        }
        let (cookie, seal) = (random(), Seal::draw(random));
        let life =
            Life { class: request.class, instance: instance.clone(), incarnation: request.incarnation };
        let order = self.next_order;
        self.next_order += 1;
        let record = TargetRecord {
            life,
            owner: id,
            singleton: request.singleton,
            enabled: false,
            order,
            cookie,
            seal: seal.clone(),
            endpoints,
            interfaces,
        };
        let is_first = !self.targets.values().any(|t| t.owner == id);
        self.targets.insert(instance.clone(), record);
        // What was taken away while the process had no target, or no connection, it was not notified of yet.
        if is_first
            && !self.revoked.is_empty()
            && let Some(client) = self.clients.get_mut(&id)
        {
            client.revoked.clone_from(&self.revoked);
            self.woken.push(id);
        }
        Ok(RegisterReply { instance, cookie: cookie.to_vec(), seal: seal.octets().to_vec() })
    }

    fn check_right_to_register(&mut self, id: ClientId, request: &RegisterRequest) -> Result<(), XrlError> {
        let (_, principal) = self.client(id)?;
        // The name of an instance (`bgp@red`) is a right of its own: one instance is not another.
        let name = match instance_of(&request.instance) {
            Some(_) => &request.instance,
            None => &request.class,
        };
        if class_of(name) == class_of(&request.class) && principal.can_register(name) {
            return Ok(());
        }
        let why = format!("{} may not register {name}", principal.name);
        self.deny(id, Denied::Registration, name);
        Err(XrlError::AccessDenied(why))
    }

    fn free_name(&self, request: &RegisterRequest) -> Result<String, XrlError> {
        if request.instance.is_empty() {
            let numbered = (2..).map(|n: u32| format!("{}-{n}", request.class));
            let mut names = std::iter::once(request.class.clone()).chain(numbered);
            return names
                .find(|name| !self.targets.contains_key(name))
                .ok_or_else(|| XrlError::Busy("no name is free".to_owned()));
        }
        check_name("instance", &request.instance)?;
        match self.targets.get(&request.instance) {
            Some(old) if request.cookie != old.cookie => Err(XrlError::NameTaken(request.instance.clone())),
            _ => Ok(request.instance.clone()),
        }
    }

    fn check_singleton(&self, request: &RegisterRequest, instance: &str) -> Result<(), XrlError> {
        let is_rival = |t: &&TargetRecord| {
            t.life.class == request.class
                && t.life.instance != instance
                && instance_of(&t.life.instance) == instance_of(instance)
        };
        let mut others = self.targets.values().filter(is_rival);
        match others.find(|t| t.singleton || request.singleton) {
            Some(other) => {
                Err(XrlError::NameTaken(format!("{} is there as {}", request.class, other.life.instance)))
            }
            None => Ok(()),
        }
    }

    fn owned(&mut self, id: ClientId, instance: &str) -> Result<&mut TargetRecord, XrlError> {
        let target = self.targets.get_mut(instance).filter(|t| t.owner == id);
        target.ok_or_else(|| XrlError::UnknownTarget(instance.to_owned()))
    }

    pub(crate) fn enable(&mut self, id: ClientId, instance: &str) -> Result<(), XrlError> {
        self.check(id)?;
        let target = self.owned(id, instance)?;
        if !target.enabled {
            target.enabled = true;
            let life = target.life.clone();
            self.notify(&LifeEvent::Birth(life));
        }
        Ok(())
    }

    pub(crate) fn unregister(&mut self, id: ClientId, instance: &str) -> Result<(), XrlError> {
        self.check(id)?;
        self.owned(id, instance)?;
        self.remove_target(instance);
        Ok(())
    }

    fn remove_target(&mut self, instance: &str) {
        let Some(target) = self.targets.remove(instance) else {
            return;
        };
        for (id, client) in &mut self.clients {
            let stale: Vec<String> = client
                .resolved
                .iter()
                .filter(|(_, i)| *i == instance)
                .map(|(name, _)| name.clone())
                .collect();
            if !stale.is_empty() {
                self.woken.push(*id);
            }
            for name in stale {
                client.resolved.remove(&name);
                client.invalid.insert(name);
            }
        }
        if target.enabled {
            self.notify(&LifeEvent::Death(target.life));
        }
    }

    fn notify(&mut self, event: &LifeEvent) {
        for (id, client) in &mut self.clients {
            if client.watches.iter().any(|w| w.covers(event.life())) {
                client.lives.push(event.clone());
                self.woken.push(*id);
            }
        }
    }

    /// Removes a closed connection with its registrations.
    pub(crate) fn closed(&mut self, id: ClientId) {
        self.clients.remove(&id);
        let dead: Vec<String> =
            self.targets.values().filter(|t| t.owner == id).map(|t| t.life.instance.clone()).collect();
        dead.iter().for_each(|instance| self.remove_target(instance));
    }

    fn find(&self, name: &str) -> Result<&TargetRecord, XrlError> {
        let exact = self.targets.get(name).filter(|t| t.enabled);
        // An instance (`bgp@red`) answers for itself only: what is meant for `bgp` must not reach it.
        let answers =
            |t: &&TargetRecord| t.enabled && t.life.class == name && instance_of(&t.life.instance).is_none();
        let first = || self.targets.values().filter(answers).min_by_key(|t| t.order);
        exact.or_else(first).ok_or_else(|| XrlError::UnknownTarget(name.to_owned()))
    }

    pub(crate) fn resolve(
        &mut self,
        id: ClientId,
        name: &str,
        interface: &str,
        method: &str,
    ) -> Result<ResolveReply, XrlError> {
        let (client, principal) = self.client(id)?;
        let target = self.find(name)?;
        let life = &target.life;
        let is_reading = principal.may_read && target.reads(interface, method);
        if !is_reading && !principal.can_call(&life.class, &life.instance, interface, method) {
            let who = &principal.name;
            let subject = format!("{name}/{interface}/{method}");
            let why = format!("{who} may not call {subject}");
            self.deny(id, Denied::Resolution, &subject);
            return Err(XrlError::AccessDenied(why));
        }
        let target = match principal.is_guarded(&life.class, interface, method) {
            false => target,
            // A guard stands before the target that is named like its class; others' calls have no guard, and are refused.
            true if life.instance == life.class => self.find(&guard_name(&principal.name, &life.class))?,
            true => {
                return Err(XrlError::AccessDenied(format!(
                    "{name}/{interface}/{method} has limits, and no guard"
                )));
            }
        };
        let life = &target.life;
        let reads = target.reads(interface, method);
        let offered = target.endpoints_of(name, interface, method)?;
        let grant = self.acl.get(&client.identity).map_or(0, |granted| granted.grant);
        let path = format!("{}/{interface}/{method}", life.instance);
        let key = |holder| target.seal.key(grant, &principal.name, &path, holder).to_vec();
        let owner = self.clients.get(&target.owner);
        let reply = ResolveReply {
            instance: life.instance.clone(),
            key: key(Holder::Process { pid: client.pid, uid: client.uid }),
            network_key: key(Holder::Network),
            grant,
            endpoints: offered,
            pid: owner.map_or(0, |owner| owner.pid),
            uid: owner.map_or(u32::MAX, |owner| owner.uid),
            reads,
        };
        if let Identity::User(_) = client.identity
            && !reads
        {
            let (person, peer) = (principal.name.clone(), Peer { pid: client.pid, uid: client.uid });
            self.actions.note(&person, peer, path);
        }
        self.note_resolved(id, name, &reply.instance);
        Ok(reply)
    }

    /// Notes that a client knows the endpoints of an instance by a name, to notify the client when they are no longer valid.
    fn note_resolved(&mut self, id: ClientId, name: &str, instance: &str) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        if client.resolved.len() >= MAX_RESOLVED
            && let Some((oldest, _)) = client.resolved.pop_first()
        {
            client.invalid.insert(oldest);
            self.woken.push(id);
        }
        client.resolved.insert(name.to_owned(), instance.to_owned());
    }

    pub(crate) fn watch(&mut self, id: ClientId, subject: Subject) -> Result<(), XrlError> {
        self.check(id)?;
        let (Subject::Class(name) | Subject::Instance(name)) = &subject;
        self.check_watches(id, name)?;
        let mut born: Vec<&TargetRecord> =
            self.targets.values().filter(|t| t.enabled && subject.covers(&t.life)).collect();
        born.sort_by_key(|t| t.order);
        let Some(client) = self.clients.get_mut(&id) else {
            return Ok(());
        };
        for target in born {
            client.lives.push(LifeEvent::Birth(target.life.clone()));
            self.woken.push(id);
        }
        client.watches.insert(subject);
        Ok(())
    }

    pub(crate) fn unwatch(&mut self, id: ClientId, subject: &Subject) -> Result<(), XrlError> {
        self.check(id)?;
        if let Some(client) = self.clients.get_mut(&id) {
            client.watches.remove(subject);
        }
        Ok(())
    }

    /// Takes a client's waiting events; empty without events.
    pub(crate) fn take_events(&mut self, id: ClientId) -> Result<Vec<Event>, XrlError> {
        self.check(id)?;
        let Some(client) = self.clients.get_mut(&id) else {
            return Ok(Vec::new());
        };
        // What is void goes first, so that who acts upon a birth or death resolves anew.
        let invalid = std::mem::take(&mut client.invalid).into_iter().map(event::Event::Invalid);
        let revoked = std::mem::take(&mut client.revoked).into_iter().map(event::Event::Revoked);
        let mut events: Vec<event::Event> = revoked.chain(invalid).collect();
        while let Some(life) = client.lives.pop() {
            events.push(match life {
                LifeEvent::Birth(life) => event::Event::Birth(life.into()),
                LifeEvent::Death(life) => event::Event::Death(life.into()),
            });
        }
        Ok(events.into_iter().map(|e| Event { event: Some(e) }).collect())
    }

    pub(crate) fn list(&self, id: ClientId) -> Result<Vec<TargetInfo>, XrlError> {
        self.check(id)?;
        Ok(self.targets.values().map(|t| self.describe(t)).collect())
    }

    pub(crate) fn target(&self, id: ClientId, instance: &str) -> Result<TargetInfo, XrlError> {
        self.check(id)?;
        let found = self.targets.get(instance);
        found.map(|t| self.describe(t)).ok_or_else(|| XrlError::UnknownTarget(instance.to_owned()))
    }

    fn describe(&self, target: &TargetRecord) -> TargetInfo {
        let owner = self.clients.get(&target.owner);
        let principal = owner.and_then(|c| self.acl.get(&c.identity)).map(|g| g.principal.name.clone());
        let info = |i: &InterfaceRecord| InterfaceInfo {
            name: i.name.clone(),
            methods: i.methods.iter().map(|m| m.name.clone()).collect(),
        };
        TargetInfo {
            class: target.life.class.clone(),
            instance: target.life.instance.clone(),
            singleton: target.singleton,
            principal: principal.unwrap_or_default(),
            pid: owner.map_or(0, |c| c.pid),
            uid: owner.map_or(0, |c| c.uid),
            endpoints: target.endpoints.clone(),
            interfaces: target.interfaces.iter().map(info).collect(),
        }
    }

    pub(crate) fn descriptors(
        &self,
        id: ClientId,
        name: &str,
        interface: &str,
    ) -> Result<Rc<[u8]>, XrlError> {
        self.check(id)?;
        let found = self.find(name)?.interfaces.iter().find(|i| i.name == interface);
        found
            .map(|i| Rc::clone(&i.descriptors))
            .ok_or_else(|| XrlError::UnknownInterface(format!("{name}/{interface}")))
    }
}

fn check_name(what: &str, name: &str) -> Result<(), XrlError> {
    let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '@');
    if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(fine) || name == "finder" {
        let shown: String = name.chars().take(MAX_NAME).collect();
        return Err(XrlError::BadArguments(format!("{what}: `{shown}` cannot be a name")));
    }
    Ok(())
}
