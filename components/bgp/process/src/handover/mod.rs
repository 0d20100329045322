//! Live upgrade of BGP: sessions and connections move to a new process, unnoticed by neighbors.
//!
//! The old process comes to rest first: readers stop, tables hand pending UPDATEs to writers, writers write. Octets refused by a
//! neighbor's full socket are handed over. The new process therefore counts every Adj-RIB-Out as advertised in full, and
//! advertises no route again. The sockets are copies: neither process shuts a socket down.
//!
//! Connections to monitoring stations are not handed over: the old process ends the connections, and the new process sends
//! stations every route. Injections of traces end with the old process ([`crate::injection`]).

#[cfg(test)]
mod golden;
pub(crate) mod parts;
mod received;

use received::{Held, Received};

use crate::error::RestError;
use crate::exchange::messages::{ConnectionKey, ControlMessage};
use crate::tables::table::{self, TableMessage};
use crate::transport::connection::{Connection, Inherited};
use crate::transport::listeners as listening;
use crate::{BgpProcess, Core, config};
use sluice_base::Asn;
use sluice_bgp::injection::InjectionEnd;
use sluice_bgp::session::Direction;
use sluice_bgp::speaker::Settings;
use sluice_bgp::speaker::control::{Input, Output};
use sluice_bgp::table::{TablePart, fingerprint};
use sluice_machine::Machine;
use sluice_process::{HandOverError, Sink, Source};
use sluice_validation::{AnyVrp, AspaSet, Providers, VrpTable};
use std::cell::{Cell, RefCell};
use std::os::fd::AsFd;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout, timeout_at};

/// The longest wait for tables to send neighbors pending routes.
const REST: Duration = Duration::from_secs(5);

/// A table's task.
enum TableTask {
    Resting(Box<table::TableTask>),
    Running(oneshot::Receiver<table::TableTask>),
}

/// Work to begin when the process is registered.
struct Waiting {
    connections: Vec<(ConnectionKey, Inherited)>,
    outputs: Vec<Output>,
}

/// The longest wait for the files of traces.
const TRACES: Duration = Duration::from_secs(1);
/// Validated ROA payloads in a value.
const PAYLOADS: usize = 4096;

/// ASPAs in a value: at most 4 MiB.
const ASPAS: usize = 64;

/// Redistributed routes in a value.
const REDISTRIBUTED: usize = 4096;

/// The state of a hand-over.
#[derive(Default)]
pub struct HandOver {
    /// True while no work may begin.
    asleep: Cell<bool>,
    woken: Notify,
    /// Held while the process comes to rest.
    resting: tokio::sync::Mutex<()>,
    /// The tables' tasks, shared with the sender of the state unless the upgrade was abandoned.
    tables: RefCell<Rc<Vec<TableTask>>>,
    /// The task that fires control's timers.
    control: Cell<Option<AbortHandle>>,
    waiting: RefCell<Option<Waiting>>,
}

impl HandOver {
    /// Returns true if no work may begin.
    pub fn is_asleep(&self) -> bool {
        self.asleep.get()
    }

    /// Waits until work may begin.
    pub async fn awake(&self) {
        while self.asleep.get() {
            self.woken.notified().await;
        }
    }

    /// Sets the task that fires control's timers.
    pub fn controls(&self, task: AbortHandle) {
        if let Some(before) = self.control.replace(Some(task)) {
            before.abort();
        }
    }
}

impl BgpProcess {
    /// Comes to rest, and sends the whole state.
    pub(crate) async fn hand_over_to(self: &Rc<Self>, to: &mut Sink) -> Result<(), HandOverError> {
        let Some(core) = self.core() else {
            return Err(HandOverError::component("it is not configured yet"));
        };
        let (done, rested) = oneshot::channel();
        let me = Rc::clone(self);
        // A task of its own, so that it comes to its end also if nobody waits any more.
        tokio::task::spawn_local(async move {
            let _turn = me.handover.resting.lock().await;
            let _ = done.send(me.rest().await);
        });
        rested.await.unwrap_or(Err(RestError::Ending)).map_err(HandOverError::component)?;
        let mut state = core.driver.read(|control| control.export());
        let redistributed = state.take_large();
        let established: Vec<ConnectionKey> = state.established().collect();
        to.begin(&parts::SPEAKER).await?;
        to.put(&state).await?;
        to.begin(&parts::REDISTRIBUTED).await?;
        let chunks = redistributed.chunks(REDISTRIBUTED);
        to.put(&chunks.len()).await?;
        for chunk in chunks {
            to.put(&chunk).await?;
        }
        to.begin(&parts::VALIDATION).await?;
        self.put_origins(to).await?;
        to.begin(&parts::CONNECTIONS).await?;
        to.put(&established.len()).await?;
        for (address, id) in established {
            let halted = self.connection(address, id).and_then(|c| c.halted());
            let (descriptor, pending, unsent) = halted
                .ok_or_else(|| HandOverError::component(format!("the connection to {address} broke")))?;
            to.put(&Held { address, id, pending, unsent }).await?;
            to.put_descriptor(descriptor.as_fd()).await?;
        }
        let tables = Rc::clone(&self.handover.tables.borrow());
        to.begin(&parts::PATHS).await?;
        send_tables(&tables, to).await?;
        drop(tables);
        to.begin(&parts::LISTENERS).await?;
        listening::hand_over(self, to).await
    }

    /// Sends the validated payloads.
    async fn put_origins(&self, to: &mut Sink) -> Result<(), HandOverError> {
        let table = self.validation.table();
        to.put(&table.is_some()).await?;
        let Some(table) = table else { return Ok(()) };
        let all: Vec<AnyVrp> = table.iter().collect();
        let aspas: Vec<(Asn, &Providers)> = table.aspas.iter().collect();
        let (chunks, of_aspas) = (all.chunks(PAYLOADS), aspas.chunks(ASPAS));
        to.put(&(chunks.len() + of_aspas.len())).await?;
        for chunk in chunks {
            to.put(&VrpTable::new(chunk.iter().copied())).await?;
        }
        for chunk in of_aspas {
            let aspas = chunk.iter().map(|(customer, providers)| (*customer, (*providers).clone()));
            to.put(&VrpTable::default().with_aspas(AspaSet::new(aspas))).await?;
        }
        Ok(())
    }

    /// Comes to rest. The future must run to completion.
    async fn rest(self: &Rc<Self>) -> Result<(), RestError> {
        let Some(core) = self.core() else { return Ok(()) };
        let _no_change_of_threads = core.moving.lock().await;
        self.handover.asleep.set(true);
        self.listening.halt();
        self.bmp.stop();
        self.end_injections(InjectionEnd::Upgrade);
        if let Some(control) = self.handover.control.take() {
            control.abort();
        }
        self.collect_all();
        let is_up = |(address, id): &ConnectionKey| self.read(|c| c.established(*address)) == Some(Some(*id));
        let (up, other): (Vec<ConnectionKey>, Vec<ConnectionKey>) = {
            let all: Vec<ConnectionKey> = self.connections.borrow().keys().copied().collect();
            all.into_iter().partition(is_up)
        };
        // Sessions that are not up yet are begun anew, here or there.
        other.into_iter().for_each(|(address, id)| self.lost(address, id));
        self.input(Input::Pause);
        let connections: Vec<Rc<Connection>> =
            up.iter().filter_map(|(address, id)| self.connection(*address, *id)).collect();
        for connection in &connections {
            connection.halt_reader().await;
        }
        // Traces have what was read. A slow disk does not hold up the upgrade.
        let _ = timeout(TRACES, self.mrt.end()).await;
        self.rest_tables(&core).await?;
        for connection in &connections {
            connection.halt_writer().await;
        }
        // What connections and tables wrote before that is read first.
        let (reply, read) = oneshot::channel();
        let _ = core.post.main.send(ControlMessage::Read(reply));
        let _ = read.await;
        self.collect_all();
        Ok(())
    }

    async fn rest_tables(&self, core: &Core) -> Result<(), RestError> {
        let until = Instant::now() + REST;
        for table in &core.post.tables {
            table.write(TableMessage::Rest);
        }
        let mut tasks = Vec::new();
        let mut late = 0;
        for mut task in core.tables.take() {
            tasks.push(match timeout_at(until, &mut task).await {
                Ok(Ok(post)) => TableTask::Resting(Box::new(post)),
                Ok(Err(error)) => return Err(RestError::LostTable(error)),
                Err(_) => {
                    late += 1;
                    TableTask::Running(task)
                }
            });
        }
        self.handover.tables.replace(Rc::new(tasks));
        match late {
            0 => Ok(()),
            _ => Err(RestError::BusyNeighbors(REST)),
        }
    }

    /// Resumes work after an abandoned upgrade.
    pub(crate) async fn go_on(self: &Rc<Self>) {
        let _turn = self.handover.resting.lock().await;
        if !self.handover.asleep.replace(false) {
            return;
        }
        let Some(core) = self.core() else { return };
        let pool = Rc::clone(&core.pool.borrow());
        let tables = Rc::into_inner(self.handover.tables.take()).unwrap_or_default();
        for (number, task) in tables.into_iter().enumerate() {
            let task = match task {
                TableTask::Resting(post) => pool.spawn(number, post.serve()),
                TableTask::Running(mut task) => {
                    let address = &core.post.tables[number];
                    address.write(TableMessage::GoOn);
                    // It answers, or had come to rest before it read that.
                    tokio::select! {
                        _ = address.ask(|_| ()) => task,
                        post = &mut task => match post {
                            Ok(post) => pool.spawn(number, post.serve()),
                            Err(_) => return,
                        },
                    }
                }
            };
            core.tables.borrow_mut().push(task);
        }
        let all: Vec<Rc<Connection>> = self.connections.borrow().values().cloned().collect();
        for connection in all {
            connection.go_on(&pool).await;
        }
        self.handover.woken.notify_waiters();
        self.input(Input::GoOn);
        self.run_control();
        self.listening.go(self);
        self.start_monitoring();
        listening::refresh(self).await;
    }

    /// Takes over the state of the old process. No work begins before the process is registered.
    pub(crate) async fn take_over_from(
        self: &Rc<Self>,
        settings: &Settings,
        from: &mut Source,
    ) -> Result<(), HandOverError> {
        let received = Received::read(settings, self.frame.provenance.source(), from).await?;
        let Received { identity, control, tables, payloads, connections, outputs } = received;
        self.validation.resume(payloads);
        from.begin(&parts::LISTENERS).await?;
        listening::take_over(self, from).await?;
        let incoming = connections.iter().filter(|((_, id), _)| id.direction == Direction::Incoming);
        let next = incoming.map(|((_, id), _)| id.number.wrapping_add(1)).max();
        self.accepted.set(next.unwrap_or(0));
        self.identity.replace(Some(identity));
        self.redistribution.resume(control.redistributed());
        self.set_redistribution(settings);
        self.set_monitoring(settings);
        self.configure_injections(settings.clone());
        self.set_core(control, tables, config::plan(settings)).map_err(HandOverError::component)?;
        self.handover.waiting.replace(Some(Waiting { connections, outputs }));
        Ok(())
    }

    /// Fires control's timers until the process ends or hands over.
    pub(crate) fn run_control(self: &Rc<Self>) {
        let Some(core) = self.core() else { return };
        let me = Rc::clone(self);
        let task = tokio::task::spawn_local(async move {
            core.driver.run_hooked(|| me.collect_due(), || {}).await;
        });
        self.handover.controls(task.abort_handle());
    }

    /// Begins work, with the state of the old process if any.
    pub(crate) fn activate(self: &Rc<Self>) {
        let Some(waiting) = self.handover.waiting.take() else { return };
        let Some(core) = self.core() else { return };
        let pool = Rc::clone(&core.pool.borrow());
        for (name, inherited) in waiting.connections {
            let connection = self.new_connection(name);
            if connection.inherit(&pool, name, inherited, &core.post).is_err() {
                self.lost(name.0, name.1);
            }
        }
        self.input(Input::GoOn);
        waiting.outputs.into_iter().for_each(|output| self.carry_out(output));
        self.run_control();
        self.listening.go(self);
        self.start_monitoring();
    }
}

async fn send_tables(tables: &[TableTask], to: &mut Sink) -> Result<(), HandOverError> {
    let resting = || {
        tables.iter().filter_map(|task| match task {
            TableTask::Resting(post) => Some(post.table()),
            TableTask::Running(_) => None,
        })
    };
    for table in resting() {
        for part in table.parts() {
            to.put(&Some(part)).await?;
        }
    }
    to.put(&None::<TablePart>).await?;
    to.put(&fingerprint(resting())).await
}
