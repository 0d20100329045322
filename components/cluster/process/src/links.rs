//! Links for outer ports, and neighbors on the links, by the FEA.

use crate::ClusterProcess;
use sluice_cluster::io::{Input, NeighborState, WantedNeighbor};
use sluice_cluster::mac::Mac;
use sluice_cluster::neighbors::NeighborKey;
use sluice_cluster::settings::{PortLink, link_name, port_of_link};
use sluice_xrl::convert;
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::idl::fea::v1::{self as fea, neighbor_change, neighbor_event};
use sluice_xrl::{CallContext, XrlError};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tracing::warn;

/// The time until a failed call is repeated.
const RETRY: Duration = Duration::from_secs(1);
/// Changes of neighbors in a call.
const MOST_CHANGES: usize = 2000;

/// What the FEA is to have.
#[derive(Default)]
pub(crate) struct Links {
    wanted: RefCell<BTreeMap<String, PortLink>>,
    /// True if the FEA may have other links.
    is_dirty: Cell<bool>,
    /// Neighbors to set, while the FEA has the others.
    neighbors: RefCell<BTreeMap<NeighborKey, WantedNeighbor>>,
    problems: RefCell<BTreeMap<String, String>>,
    changed: Notify,
}

impl Links {
    /// Sets the wanted links.
    pub(crate) fn want(&self, links: BTreeMap<String, PortLink>) {
        self.wanted.replace(links);
        self.renew();
    }

    /// Sends the FEA all links and neighbors again.
    pub(crate) fn renew(&self) {
        self.is_dirty.set(true);
        self.changed.notify_one();
    }

    /// Has neighbors set.
    pub(crate) fn set_neighbors(&self, neighbors: Vec<(NeighborKey, WantedNeighbor)>) {
        self.neighbors.borrow_mut().extend(neighbors);
        self.changed.notify_one();
    }

    /// Returns the links that are not as wanted, with the reasons.
    pub(crate) fn problems(&self) -> Vec<String> {
        let problems = self.problems.borrow();
        problems.iter().map(|(name, reason)| format!("{name}: {reason}")).collect()
    }

    fn messages(&self) -> Vec<fea::VirtualLink> {
        let wanted = self.wanted.borrow();
        let message = |(name, link): (&String, &PortLink)| fea::VirtualLink {
            name: name.clone(),
            kind: "macvlan".into(),
            parent: link.parent.clone(),
            mac: Some(common::Mac { octets: link.mac.0.into() }),
            addresses: link.addresses.iter().map(Into::into).collect(),
            told_neighbors: link.told_neighbors,
            mtu: link.mtu.unwrap_or_default().into(),
        };
        wanted.iter().map(message).collect()
    }
}

fn change((key, wanted): (NeighborKey, WantedNeighbor)) -> fea::NeighborChange {
    use neighbor_change::Wanted;
    fea::NeighborChange {
        link: link_name(key.port),
        address: Some(key.address.into()),
        wanted: Some(match wanted {
            WantedNeighbor::At(mac) => Wanted::Mac(common::Mac { octets: mac.0.into() }),
            WantedNeighbor::Resolved => Wanted::Resolved(true),
            WantedNeighbor::Removed => Wanted::Removed(true),
        }),
    }
}

/// Sends the FEA links and neighbors, forever.
pub(crate) async fn follow(process: Rc<ClusterProcess>, instance: String) {
    loop {
        process.links.changed.notified().await;
        while let Err(error) = send(&process, &instance).await {
            warn!(event = "cluster.links.missing", %error, "the FEA takes no links: {error}");
            process.links.is_dirty.set(true);
            tokio::time::sleep(RETRY).await;
        }
    }
}

async fn send(process: &ClusterProcess, instance: &str) -> Result<(), XrlError> {
    let client = fea::LinksClient::new(&process.protocol.frame.router, "fea");
    let links = &process.links;
    if links.is_dirty.replace(false) {
        let reply = client.put_links(fea::PutLinksRequest { links: links.messages() }).await?;
        let problems = reply.problems.into_iter().map(|problem| (problem.name, problem.reason));
        links.problems.replace(problems.collect());
        // All neighbors follow; changes that come during the calls come after.
        if let Some(all) = process.driver.read(|machine| machine.wanted_neighbors()) {
            links.neighbors.borrow_mut().clear();
            let mut parts = all.chunks(MOST_CHANGES);
            let first = parts.next().unwrap_or_default();
            update(&client, first.iter().copied(), true).await?;
            for part in parts {
                update(&client, part.iter().copied(), false).await?;
            }
        }
        client.watch_neighbors(fea::WatchNeighborsRequest { target: instance.into() }).await?;
    }
    loop {
        let part: Vec<_> = {
            let mut waiting = links.neighbors.borrow_mut();
            std::iter::from_fn(|| waiting.pop_first()).take(MOST_CHANGES).collect()
        };
        if part.is_empty() {
            return Ok(());
        }
        update(&client, part, false).await?;
    }
}

async fn update(
    client: &fea::LinksClient,
    neighbors: impl IntoIterator<Item = (NeighborKey, WantedNeighbor)>,
    replace: bool,
) -> Result<(), XrlError> {
    let changes = neighbors.into_iter().map(change).collect();
    client.update_neighbors(fea::UpdateNeighborsRequest { changes, replace }).await.map(drop)
}

/// Reads the FEA's events about neighbors.
///
/// # Errors
/// An event is malformed.
fn events(request: fea::NeighborsChangedRequest) -> Result<Input, XrlError> {
    use neighbor_event::Event;
    let bad = |text: &str| XrlError::BadArguments(text.into());
    let (mut states, mut is_whole) = (Vec::new(), false);
    for event in request.events {
        let (neighbor, state) = match event.event {
            Some(Event::Known(neighbor)) => {
                let octets = neighbor.mac.clone().unwrap_or_default().octets;
                let mac = <[u8; 6]>::try_from(&octets[..]).map_err(|_| bad("a MAC address has 6 octets"))?;
                (neighbor, NeighborState::Known(Mac(mac)))
            }
            Some(Event::Gone(neighbor)) => (neighbor, NeighborState::Gone),
            Some(Event::Wanted(neighbor)) => (neighbor, NeighborState::Wanted),
            Some(Event::SnapshotBegin(_)) => {
                is_whole = true;
                continue;
            }
            Some(Event::SnapshotEnd(_)) | None => continue,
        };
        // Links of another name are links that this process does not want any more.
        let Some(port) = port_of_link(&neighbor.link) else { continue };
        let address = convert::addr(neighbor.address.as_ref())?;
        states.push((NeighborKey { port, address }, state));
    }
    Ok(Input::Neighbors { states, is_whole })
}

impl fea::NeighborObserver for crate::Served {
    async fn neighbors_changed(
        &self,
        _ctx: &CallContext,
        request: fea::NeighborsChangedRequest,
    ) -> Result<fea::NeighborsChangedReply, XrlError> {
        self.input(events(request)?);
        Ok(fea::NeighborsChangedReply {})
    }
}
