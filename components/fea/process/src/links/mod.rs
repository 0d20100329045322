//! The interface `Links`: virtual links of components in the router's network, and neighbors on these links.
//!
//! A component's wishes are compared with the kernel at each call, and at each change of an interface: a link follows a late parent,
//! and a link removed by a foreign program is made again. A mark in the kernel (the link's alias) names the
//! owner, so a new process of the FEA keeps the links of its predecessor. Links of components removed from the configuration are
//! removed.

mod kernel;
mod observers;

use crate::FeaProcess;
use observers::Observers;
use sluice_base::{InterfaceIndex, Mac};
use sluice_fea::links::{
    self, LONGEST_NAME, MACVLAN, MOST_LINKS, MOST_NEIGHBORS, Neighbor, Neighbors, VirtualLink,
};
use sluice_xrl::convert;
use sluice_xrl::idl::fea::v1::{self as pb, neighbor_change};
use sluice_xrl::{CallContext, XrlError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::rc::Rc;
use tokio::sync::Notify;
use tracing::{info, warn};

/// Rounds from the kernel's state to the wanted state: a new link gets the addresses in the next round.
const ROUNDS: usize = 4;

/// The wishes of a component.
#[derive(Default)]
struct Wanted {
    links: BTreeMap<String, VirtualLink>,
    neighbors: Neighbors,
    problems: BTreeMap<String, String>,
}

/// The links of components.
#[derive(Default)]
pub(crate) struct Links {
    /// The allowed kinds of links, by the component's name; unknown before the first configuration.
    rights: RefCell<Option<BTreeMap<String, Vec<String>>>>,
    wanted: RefCell<BTreeMap<String, Wanted>>,
    /// The kernel's links with owners.
    indices: RefCell<BTreeMap<InterfaceIndex, (String, String)>>,
    observers: Observers,
    changed: Notify,
}

impl Links {
    /// Sets the rights of components. Links of components without rights are removed.
    pub(crate) fn set_rights(&self, rights: BTreeMap<String, Vec<String>>) {
        self.wanted.borrow_mut().retain(|component, _| rights.contains_key(component));
        self.rights.replace(Some(rights));
        self.changed.notify_one();
    }

    /// Records a change of an interface.
    pub(crate) fn note_interface(&self) {
        self.changed.notify_one();
    }

    /// Checks that one of the components may have links of a kind, and returns that component.
    fn permitted(&self, components: &[String], kind: Option<&str>) -> Result<String, XrlError> {
        let rights = self.rights.borrow();
        let may = |component: &&String| {
            let kinds = rights.as_ref().and_then(|rights| rights.get(*component));
            kinds.is_some_and(|kinds| kind.is_none_or(|kind| kinds.iter().any(|known| known == kind)))
        };
        components.iter().find(may).cloned().ok_or_else(|| {
            let who = components.first().map_or("this process", String::as_str);
            let kind = kind.unwrap_or("any kind");
            let what =
                format!("{who} may not have links of {kind}; `[links] kinds` in rights.toml allows it");
            XrlError::AccessDenied(what)
        })
    }

    /// Brings the kernel to the wanted state, and records failures.
    fn reconcile(&self) {
        if let Err(error) = self.try_reconcile() {
            warn!(event = "fea.links.unread", %error, "the kernel's links cannot be read: {error}");
        }
    }

    fn try_reconcile(&self) -> std::io::Result<()> {
        let Some(rights) = self.rights.borrow().clone() else { return Ok(()) };
        let mut problems: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::new();
        let mut indices = BTreeMap::new();
        for _ in 0..ROUNDS {
            let found = kernel::links()?;
            let owned = found.iter().filter_map(|link| Some((link, link.mark.as_ref()?.owner.clone())));
            let before = std::mem::replace(
                &mut indices,
                owned.map(|(link, owner)| (link.index, (owner, link.name.clone()))).collect(),
            );
            problems.clear();
            let mut steps = Vec::new();
            let orphans = indices.iter().filter(|(_, (owner, _))| !rights.contains_key(owner));
            steps.extend(orphans.map(|(index, (owner, _))| (owner.clone(), links::Step::Remove(*index))));
            for (component, wanted) in &*self.wanted.borrow() {
                let plan = links::plan(component, &wanted.links, &found);
                problems.insert(component.clone(), plan.problems);
                steps.extend(plan.steps.into_iter().map(|step| (component.clone(), step)));
            }
            if steps.is_empty() && before == indices {
                break;
            }
            for (component, step) in steps {
                if let Err(error) = kernel::carry_out(&step) {
                    let of = problems.entry(component).or_default();
                    of.insert(self.subject(&step), error.to_string());
                }
            }
        }
        let added: Vec<InterfaceIndex> = {
            let before = self.indices.borrow();
            indices.keys().filter(|index| !before.contains_key(index)).copied().collect()
        };
        self.indices.replace(indices);
        self.note_problems(problems);
        self.set_neighbors_of(&added);
        if !added.is_empty() {
            self.observers.begin_all(&self.indices.borrow());
        }
        Ok(())
    }

    /// Returns the name of the link of a step.
    fn subject(&self, step: &links::Step) -> String {
        use links::Step::{Add, Make, Raise, Remove, SetMtu, Take};
        match step {
            Make { name, .. } => name.clone(),
            Remove(index) | Raise(index, _) | SetMtu(index, _) | Add(index, _) | Take(index, _) => {
                let indices = self.indices.borrow();
                indices.get(index).map_or_else(|| index.to_string(), |(_, name)| name.clone())
            }
        }
    }

    fn note_problems(&self, mut problems: BTreeMap<String, BTreeMap<String, String>>) {
        for (component, wanted) in &mut *self.wanted.borrow_mut() {
            let now = problems.remove(component).unwrap_or_default();
            for (link, reason) in
                now.iter().filter(|(link, reason)| wanted.problems.get(*link) != Some(reason))
            {
                warn!(
                    event = "fea.links.missing",
                    component, link, reason, "{link} is not as wanted: {reason}"
                );
            }
            wanted.problems = now;
        }
    }

    /// Sets the wanted neighbors on new links, and on links found after a restart.
    fn set_neighbors_of(&self, added: &[InterfaceIndex]) {
        let changes: Vec<_> = {
            let (indices, wanted) = (self.indices.borrow(), self.wanted.borrow());
            let on = |index: &InterfaceIndex| {
                let (owner, name) = indices.get(index)?;
                let all = wanted.get(owner)?.neighbors.iter();
                let here = all.filter(|((link, _), _)| link == name);
                Some(here.map(|((_, address), to)| (*index, *address, Some(*to))).collect::<Vec<_>>())
            };
            added.iter().filter_map(on).flatten().collect()
        };
        write(changes);
    }

    /// Returns the index of a component's link, once the link exists.
    fn index(&self, component: &str, link: &str) -> Option<InterfaceIndex> {
        let indices = self.indices.borrow();
        let mut all = indices.iter();
        all.find(|(_, (owner, name))| owner == component && name == link).map(|(index, _)| *index)
    }

    fn put(&self, component: String, wanted: BTreeMap<String, VirtualLink>) -> Vec<pb::LinkProblem> {
        info!(component, links = wanted.len(), "has virtual links");
        self.wanted.borrow_mut().entry(component.clone()).or_default().links = wanted;
        self.reconcile();
        let all = self.wanted.borrow();
        let problems = all.get(&component).into_iter().flat_map(|wanted| &wanted.problems);
        problems
            .map(|(name, reason)| pb::LinkProblem { name: name.clone(), reason: reason.clone() })
            .collect()
    }

    fn update_neighbors(
        &self,
        component: &str,
        changes: Vec<(String, IpAddr, Option<Neighbor>)>,
        replace: bool,
    ) -> Result<(), XrlError> {
        let mut all = self.wanted.borrow_mut();
        let wanted = all.entry(component.to_owned()).or_default();
        if replace {
            wanted.neighbors.clear();
        }
        let mut writes = Vec::new();
        for (link, address, to) in changes {
            let key = (link, address);
            let before = match to {
                Some(to) => wanted.neighbors.insert(key.clone(), to),
                None => wanted.neighbors.remove(&key),
            };
            if wanted.neighbors.len() > MOST_NEIGHBORS {
                wanted.neighbors.remove(&key);
                return Err(XrlError::Busy(format!("{component} has {MOST_NEIGHBORS} neighbors")));
            }
            let is_news = replace || before != to;
            writes.extend(self.index(component, &key.0).filter(|_| is_news).map(|index| (index, key.1, to)));
        }
        if replace {
            let is_stale = |(owner, link): &(String, String), address: IpAddr| {
                owner == component && !wanted.neighbors.contains_key(&(link.clone(), address))
            };
            let indices = self.indices.borrow();
            let found = kernel::neighbors().unwrap_or_default().into_iter().filter(|found| {
                found.is_own && indices.get(&found.link).is_some_and(|of| is_stale(of, found.address))
            });
            writes.extend(found.map(|found| (found.link, found.address, None)));
        }
        drop(all);
        write(writes);
        Ok(())
    }
}

fn write(changes: Vec<(InterfaceIndex, IpAddr, Option<Neighbor>)>) {
    if changes.is_empty() {
        return;
    }
    match kernel::set_neighbors(changes) {
        Ok(0) => {}
        Ok(refused) => {
            warn!(event = "fea.neighbor.refused", refused, "the kernel refused {refused} neighbors");
        }
        Err(error) => {
            warn!(event = "fea.neighbor.refused", %error, "the kernel takes no neighbors: {error}");
        }
    }
}

/// Follows interfaces and rights, for ever.
pub(crate) async fn follow(process: Rc<FeaProcess>) {
    loop {
        process.links.changed.notified().await;
        process.links.reconcile();
    }
}

sluice_process::served!(FeaProcess);

impl pb::Links for Served {
    async fn put_links(
        &self,
        ctx: &CallContext,
        request: pb::PutLinksRequest,
    ) -> Result<pb::PutLinksReply, XrlError> {
        let (_, components) = self.sockets.components_of_caller(ctx).await?;
        let component = self.links.permitted(&components, None)?;
        if request.links.len() > MOST_LINKS {
            return Err(XrlError::BadArguments(format!("more than {MOST_LINKS} links")));
        }
        let mut wanted = BTreeMap::new();
        for message in request.links {
            self.links.permitted(&components, Some(&message.kind))?;
            let (name, link) = virtual_link(message)?;
            wanted.insert(name, link);
        }
        Ok(pb::PutLinksReply { problems: self.links.put(component, wanted) })
    }

    async fn update_neighbors(
        &self,
        ctx: &CallContext,
        request: pb::UpdateNeighborsRequest,
    ) -> Result<pb::UpdateNeighborsReply, XrlError> {
        let (_, components) = self.sockets.components_of_caller(ctx).await?;
        let component = self.links.permitted(&components, None)?;
        let changes = request.changes.into_iter().map(change).collect::<Result<_, _>>()?;
        self.links.update_neighbors(&component, changes, request.replace)?;
        Ok(pb::UpdateNeighborsReply {})
    }

    async fn watch_neighbors(
        &self,
        ctx: &CallContext,
        request: pb::WatchNeighborsRequest,
    ) -> Result<pb::WatchNeighborsReply, XrlError> {
        let (_, components) = self.sockets.components_of_caller(ctx).await?;
        let component = self.links.permitted(&components, None)?;
        let router = &self.frame.router;
        if router.registrant(&request.target).await? != ctx.principal {
            let subject = format!("neighbors for {}: it is no target of {}", request.target, ctx.principal);
            router.report_refusal(ctx, &subject);
            return Err(XrlError::AccessDenied(subject));
        }
        observers::add(&self.0, component, &request.target)
            .map_err(|error| XrlError::Internal(error.to_string()))?;
        Ok(pb::WatchNeighborsReply {})
    }
}

fn bad(text: impl Into<String>) -> XrlError {
    XrlError::BadArguments(text.into())
}

fn virtual_link(message: pb::VirtualLink) -> Result<(String, VirtualLink), XrlError> {
    let is_name = |name: &str| {
        !name.is_empty() && name.len() <= LONGEST_NAME && name.bytes().all(|octet| octet.is_ascii_graphic())
    };
    let name = message.name;
    if !is_name(&name) || name.contains(['/', ':']) || [".", ".."].contains(&&*name) {
        return Err(bad(format!("`{name}` is no name of a link")));
    }
    if message.kind != MACVLAN {
        return Err(bad(format!("`{}` is no kind of links; expected {MACVLAN}", message.kind)));
    }
    let addresses = message.addresses.iter().map(sluice_base::InterfaceAddress::try_from);
    let link = VirtualLink {
        parent: message.parent,
        mac: mac(message.mac)?,
        addresses: addresses.collect::<Result<_, _>>()?,
        told_neighbors: message.told_neighbors,
        mtu: (message.mtu > 0).then_some(message.mtu),
    };
    Ok((name, link))
}

/// Reads the MAC address of a single station.
fn mac(message: Option<sluice_xrl::idl::common::v1::Mac>) -> Result<Mac, XrlError> {
    let octets = message.unwrap_or_default().octets;
    let mac = octets[..].try_into().map(Mac).map_err(|_| bad("a MAC address has 6 octets"))?;
    mac.is_station().then_some(mac).ok_or_else(|| bad("the MAC address is no station's"))
}

fn change(message: pb::NeighborChange) -> Result<(String, IpAddr, Option<Neighbor>), XrlError> {
    let address = convert::addr(message.address.as_ref())?;
    let wanted = match message.wanted {
        Some(neighbor_change::Wanted::Mac(octets)) => Some(Neighbor::At(mac(Some(octets))?)),
        Some(neighbor_change::Wanted::Resolved(_)) => Some(Neighbor::Resolved),
        Some(neighbor_change::Wanted::Removed(_)) => None,
        None => return Err(bad("the neighbor is wanted in no way")),
    };
    Ok((message.link, address, wanted))
}
