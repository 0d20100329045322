//! The connections of neighbors: between control, and the reader and writer tasks.

use crate::exchange::messages::{ConnectionKey, ControlMessage, WriterMessage};
use crate::tables::table::TableMessage;
use crate::transport::connection::Connection;
use crate::{BgpProcess, transport};
use sluice_base::Duration;
use sluice_bgp::endpoints::{Endpoints, Ports};
use sluice_bgp::session::ConnectionId;
use sluice_bgp::speaker::control::{Input, Output};
use sluice_bgp::table::TableEvent;
use sluice_process::clock;
use std::io;
use std::net::IpAddr;
use std::rc::Rc;
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;
use tracing::debug;

/// The time ahead of a timer at which control gets the connections' counters.
const AHEAD: Duration = Duration::from_millis(100);

impl BgpProcess {
    /// Notifies control of a connection's new counters of reads and writes, with times.
    pub(crate) fn collect(&self, (address, id): ConnectionKey, connection: &Connection) {
        let Some(core) = self.core() else { return };
        if let Some((time, read)) = connection.received.look(Option::take) {
            core.driver.input_at(time, Input::Received(address, id, read));
        }
        if let Some((time, sent)) = connection.sent.look(Option::take) {
            core.driver.input_at(time, Input::Sent(address, id, sent));
        }
        let written = connection.backlog.since().unwrap_or_else(clock::now);
        core.driver.input_at(written, Input::Written(address, id));
    }

    /// Does so for the connections whose timers are due or soon will be: before a timer fires.
    pub(crate) fn collect_due(&self) {
        let soon = clock::now() + AHEAD;
        let due = self.read(|control| {
            let due = control.due(soon).into_iter();
            due.filter_map(|address| Some((address, control.established(address)?)))
                .collect::<Vec<ConnectionKey>>()
        });
        for (address, id) in due.unwrap_or_default() {
            if let Some(connection) = self.connection(address, id) {
                self.collect((address, id), &connection);
            }
        }
    }

    /// Does so for every connection: before an operator's request.
    pub(crate) fn collect_all(&self) {
        let all: Vec<(ConnectionKey, Rc<Connection>)> =
            self.connections.borrow().iter().map(|(name, c)| (*name, Rc::clone(c))).collect();
        for (name, connection) in all {
            self.collect(name, &connection);
        }
    }

    /// Removes a lost connection, or a connection that could not be made.
    pub(crate) fn lost(&self, neighbor: IpAddr, id: ConnectionId) {
        if let Some(connection) = self.connection(neighbor, id) {
            self.collect((neighbor, id), &connection);
            self.connections.borrow_mut().remove(&(neighbor, id));
            connection.close();
        }
        self.input(Input::Closed(neighbor, id));
    }

    /// A connection could not be made.
    pub(crate) fn not_connected(&self, neighbor: IpAddr, id: ConnectionId, error: &io::Error) {
        if let Some(connection) = self.connections.borrow_mut().remove(&(neighbor, id)) {
            connection.close();
        }
        self.input(Input::Failed(neighbor, id, transport::sockets::cause(error)));
    }

    pub(crate) fn carry_out(self: &Rc<Self>, output: Output) {
        match output {
            Output::Connect(address, id) => self.connect(address, id),
            Output::Close(address, id) => {
                if let Some(connection) = self.connections.borrow_mut().remove(&(address, id)) {
                    connection.close();
                }
            }
            Output::Send(address, id, octets) => {
                if let Some(connection) = self.connection(address, id) {
                    connection.note(WriterMessage::Octets(octets));
                }
            }
            Output::Up(address, id, link) => {
                if let Some(connection) = self.connection(address, id) {
                    connection.link.replace(Some(link));
                }
            }
            Output::Injecting(address, reading) => self.injections.begin_session(address, *reading),
            Output::Order(to, order) => {
                let Some(core) = self.core() else { return };
                match to {
                    Some(number) => core.post.tables[number].write(TableMessage::Order(order)),
                    None => {
                        core.post.tables.iter().for_each(|t| t.write(TableMessage::Order(order.clone())));
                    }
                }
            }
            Output::InterestIpv4(interest) => self.rib.ask_about(interest),
            Output::InterestIpv6(interest) => self.rib.ask_about(interest),
            Output::InterestXid(interest) => self.rib.ask_about(interest),
            Output::WatchPresence(questions) => self.presence.ask(questions, true),
            Output::UnwatchPresence(questions) => self.presence.ask(questions, false),
            Output::GatewayUsable(address, usable) => self.origin.set_usable(&[address], usable),
            Output::SessionsChanged => self.rib.sessions_changed(),
            Output::AllAnnounced => {
                self.rib.announced();
                self.rib.sessions_changed();
            }
            Output::Event(event) => self.report(&event),
        }
    }

    /// Reads the messages of connections and tables while the process runs.
    pub(crate) async fn read_messages(self: Rc<Self>, mut messages: UnboundedReceiver<ControlMessage>) {
        while let Some(message) = messages.recv().await {
            self.take_message(message);
        }
    }

    pub(crate) fn take_message(&self, message: ControlMessage) {
        match message {
            ControlMessage::Message((address, id), message, reply) => {
                // A connection that is closed meanwhile gets no answer.
                let Some(connection) = self.connection(address, id) else { return };
                self.collect((address, id), &connection);
                self.input(Input::Message(address, id, message));
                if self.connection(address, id).is_none() {
                    return;
                }
                let reading = connection.link.take().map(|link| {
                    connection.note(WriterMessage::Open(link.writer, link.reading.life));
                    link.reading
                });
                let _ = reply.send(reading);
            }
            ControlMessage::Remark(address, what, noted) => {
                self.input(Input::Remark(address, what));
                let _ = noted.send(());
            }
            ControlMessage::Traced(traced) => {
                for (time, (prefix, withdrawn, provenance)) in traced.look(std::mem::take) {
                    self.entering.record_at(time, prefix, withdrawn, provenance);
                }
            }
            ControlMessage::Lost((address, id)) => self.lost(address, id),
            ControlMessage::Table(_, TableEvent::Monitored) => self.bmp.wake(),
            ControlMessage::Table(table, event) => self.input(Input::Table(table, event)),
            ControlMessage::Routes(table, routes) => self.rib.routes(table, routes),
            ControlMessage::Read(reply) => drop(reply.send(())),
        }
    }

    /// Returns true if every neighbor has announced every route, or the time limit has passed.
    pub(crate) fn have_all_announced(&self) -> bool {
        // One whose UPDATEs are not reported to control would count as quiet.
        self.collect_all();
        self.read(|control| control.have_all_announced(clock::now())).unwrap_or(false)
    }

    /// Makes a connection, on the thread with the fewest connections.
    pub(crate) fn new_connection(&self, name: ConnectionKey) -> Rc<Connection> {
        let threads = self.core().map_or(1, |core| core.pool.borrow().plan().threads.max(1));
        let mut connections = self.connections.borrow_mut();
        let mut busy = vec![0; threads];
        connections.values().for_each(|c| busy[c.place % threads] += 1);
        let place = (0..threads).min_by_key(|place| busy[*place]).unwrap_or(0);
        let connection = Rc::new(Connection::new(place));
        connections.insert(name, Rc::clone(&connection));
        connection
    }

    pub(crate) fn connect(self: &Rc<Self>, address: IpAddr, id: ConnectionId) {
        if self.handover.is_asleep() {
            return self.lost(address, id);
        }
        let connection = self.new_connection((address, id));
        let me = Rc::clone(self);
        let task = tokio::task::spawn_local(async move {
            me.snapshot.known().await;
            let Some((config, internal)) = me.neighbor(address) else { return };
            match me.sockets.connect(&config, internal).await {
                Ok(stream) => me.opened(address, id, stream),
                Err(error) => {
                    debug!(%address, %error, "no connection");
                    me.not_connected(address, id, &error);
                }
            }
        });
        connection.connecting(task.abort_handle());
    }

    pub(crate) fn neighbor(&self, address: IpAddr) -> Option<(sluice_bgp::speaker::NeighborConfig, bool)> {
        let config = self.read(|control| control.neighbor_config(address).cloned())??;
        let internal = self.identity.borrow().as_ref().is_some_and(|i| i.local_as == config.peer_as);
        Some((config, internal))
    }

    /// A connection is there: made, or accepted.
    pub(crate) fn opened(self: &Rc<Self>, address: IpAddr, id: ConnectionId, stream: TcpStream) {
        let (Some(core), Some(connection)) = (self.core(), self.connection(address, id)) else { return };
        if self.handover.is_asleep() {
            return self.lost(address, id);
        }
        let (Ok(local), Ok(remote)) = (stream.local_addr(), stream.peer_addr()) else {
            return self.lost(address, id);
        };
        let endpoints = Endpoints::between(&self.interfaces.borrow(), local.ip().to_canonical(), address);
        let ports = Some(Ports { local: local.port(), remote: remote.port() });
        let endpoints = Endpoints { ports, ..endpoints };
        let pool = Rc::clone(&core.pool.borrow());
        let started = stream.into_std().and_then(|s| connection.start(&pool, (address, id), s, &core.post));
        if let Err(error) = started {
            debug!(%address, %error, "a connection broke at once");
            return self.lost(address, id);
        }
        self.input(match id.direction {
            sluice_bgp::session::Direction::Outgoing => Input::Connected(address, id, endpoints),
            sluice_bgp::session::Direction::Incoming => Input::Accepted(address, id, endpoints),
        });
    }
}
