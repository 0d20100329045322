//! The state of the old process, as the new process reads it.

use super::parts;
use crate::exchange::messages::ConnectionKey;
use crate::transport::connection::Inherited;
use serde::{Deserialize, Serialize};
use sluice_bgp::session::ConnectionId;
use sluice_bgp::shard::Fingerprint;
use sluice_bgp::speaker::control::{Control, Output};
use sluice_bgp::speaker::{Identity, Link, OriginData, Redistributed, Settings, SpeakerState};
use sluice_bgp::table::{Order, Table, TablePart, fingerprint, import};
use sluice_machine::{Machine, Outbox};
use sluice_process::{HandOverError, Source, clock};
use sluice_validation::{ChangedPrefixes, VrpTable};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// The connection of an established session; the socket follows in the stream.
#[derive(Serialize, Deserialize)]
pub(super) struct Held {
    pub(super) address: IpAddr,
    pub(super) id: ConnectionId,
    pub(super) pending: Vec<u8>,
    pub(super) unsent: Vec<u8>,
}

/// The state of the old process, checked for completeness: everything but the listeners.
pub(super) struct Received {
    /// The router's constants, with the number of the new process.
    pub(super) identity: Identity,
    /// Neighbors, sessions and sources of routes.
    pub(super) control: Control,
    /// The routes.
    pub(super) tables: Vec<Table>,
    /// The validated payloads.
    pub(super) payloads: Option<Arc<VrpTable>>,
    /// The connections of sessions.
    pub(super) connections: Vec<(ConnectionKey, Inherited)>,
    /// What is carried out once the process is registered.
    pub(super) outputs: Vec<Output>,
}

impl Received {
    /// Reads all parts up to the listeners; `process` is the number of the new process in provenances.
    pub(super) async fn read(
        settings: &Settings,
        process: u16,
        from: &mut Source,
    ) -> Result<Self, HandOverError> {
        from.begin(&parts::SPEAKER).await?;
        let mut state: SpeakerState = from.take().await?;
        from.begin(&parts::REDISTRIBUTED).await?;
        let mut redistributed = Vec::new();
        for _ in 0..from.take::<usize>().await? {
            redistributed.extend(from.take::<Vec<Redistributed>>().await?);
        }
        from.begin(&parts::VALIDATION).await?;
        let payloads = take_payloads(from).await?;
        let identity = Identity { source: process, ..state.identity.clone() };
        let own = (identity.local_as, identity.router_id, identity.codes);
        if own != (settings.local_as, settings.router_id, settings.codes()) {
            return Err(HandOverError::component("local-as, router-id or xid-family is another one"));
        }
        let mut control = Control::new(identity.clone(), clock::now());
        let mut tables = control.make_tables();
        let mut out = Outbox::new();
        state.put_large(settings.config().policies, redistributed);
        control.import(clock::now(), state, &mut out);
        let (links, outputs) = set_up(&mut tables, out);
        // The same payloads before the first path: the same policies make the same of each.
        let origins = Arc::new(OriginData { table: payloads.clone(), changed: ChangedPrefixes::All });
        for table in &mut tables {
            table.order(Order::SetOrigins(origins.clone()), &mut Outbox::new());
        }
        from.begin(&parts::CONNECTIONS).await?;
        let connections = take_connections(links, from).await?;
        from.begin(&parts::PATHS).await?;
        while let Some(part) = from.take::<Option<TablePart>>().await? {
            import(&mut tables, control.spread(), &part);
        }
        tables.iter_mut().for_each(Table::assume_advertised);
        let expected: Fingerprint = from.take().await?;
        let found = fingerprint(&tables);
        if found != expected {
            return Err(HandOverError::component(format!(
                "{} paths of {} prefixes came, or others than the {} of {} that were sent",
                found.paths, found.decided, expected.paths, expected.decided
            )));
        }
        Ok(Received { identity, control, tables, payloads, connections, outputs })
    }
}

/// Reads the validated payloads of the old process.
async fn take_payloads(from: &mut Source) -> Result<Option<Arc<VrpTable>>, HandOverError> {
    if !from.take::<bool>().await? {
        return Ok(None);
    }
    let mut records = Vec::new();
    for _ in 0..from.take::<usize>().await? {
        records.extend(from.take::<VrpTable>().await?.records());
    }
    Ok(Some(Arc::new(VrpTable::of_records(records))))
}

/// Reads the connections of the sessions that `links` belong to.
async fn take_connections(
    mut links: BTreeMap<ConnectionKey, Box<Link>>,
    from: &mut Source,
) -> Result<Vec<(ConnectionKey, Inherited)>, HandOverError> {
    let mut connections = Vec::new();
    for _ in 0..from.take::<usize>().await? {
        let held: Held = from.take().await?;
        let stream = std::net::TcpStream::from(from.take_descriptor().await?);
        let name = (held.address, held.id);
        let link = links
            .remove(&name)
            .ok_or_else(|| HandOverError::component(format!("{} has no session", held.address)))?;
        let inherited = Inherited { stream, link: *link, pending: held.pending, unsent: held.unsent };
        connections.push((name, inherited));
    }
    Ok(connections)
}

/// Applies control's orders to the tables. Returns the links of sessions, and the outputs for later.
fn set_up(
    tables: &mut [Table],
    mut out: Outbox<Output>,
) -> (BTreeMap<ConnectionKey, Box<Link>>, Vec<Output>) {
    let mut links = BTreeMap::new();
    let mut later = Vec::new();
    let mut events = Outbox::new();
    for output in out.drain() {
        match output {
            Output::Order(Some(number), order) => tables[number].order(order, &mut events),
            Output::Order(None, order) => {
                tables.iter_mut().for_each(|table| table.order(order.clone(), &mut events));
            }
            Output::Up(address, id, link) => drop(links.insert((address, id), link)),
            other => later.push(other),
        }
    }
    (links, later)
}
