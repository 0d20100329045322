//! A table as a task. Tasks share no state with a table: requests and results are messages.

use crate::exchange::credit::Credit;
use crate::exchange::messages::{Chunk, ControlMessage, PIECE, Routes};
use crate::exchange::send_queue::SendQueue;
use crate::executor::{others_wait, yield_now};
use sluice_base::RouteBatch;
use sluice_bgp::batch::Batches;
use sluice_bgp::family::{ByFamily, FamilyIndex, FamilyVisitor, Sharded};
use sluice_bgp::shard::{PeerIndex, Sent};
use sluice_bgp::table::turns::{OwnWrites, Turns};
use sluice_bgp::table::{MonitorRequest, MonitorVoid, Order, SessionEpoch, Table, TableChunk, TableEvent};
use sluice_bgp::wire::MAX_MESSAGE_LEN;
use sluice_machine::{Budget, Outbox, Progress};
use sluice_process::clock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// The most batches waiting for a table. With a full queue readers wait, and TCP slows the neighbors down.
const WAITING: usize = 16;

/// Routes in a batch for the RIB.
pub const RIB_BATCH: usize = 4096;

/// Rounds of work before the RIB's turn, without consumers of the RIB's routes: neighbors come first.
const RIB_ROUNDS: u32 = 256;

/// Rounds of work before the RIB's turn, with consumers of the RIB's routes: queued messages may have routes for a neighbor.
const CONSUMED_RIB_ROUNDS: u32 = 4;

/// Messages read before the writers' turn.
const BURST: usize = 8;

type View = Box<dyn FnOnce(&Table) + Send>;
type MonitorReply = Result<Option<TableChunk>, MonitorVoid>;

/// A message to a table.
pub enum TableMessage {
    /// An order of control.
    Order(Order),
    /// Batches from a reader, in a session.
    Read(PeerIndex, SessionEpoch, Box<Batches>, OwnedSemaphorePermit),
    /// The send queue of a neighbor in its session.
    Writer(PeerIndex, SessionEpoch, Arc<SendQueue>),
    /// A writer or the RIB has room again; the table waited for the room.
    Room,
    /// A read-only request on the table.
    View(View),
    /// A request for a station's monitor, and its reply.
    Monitor(MonitorRequest, oneshot::Sender<MonitorReply>),
    /// A request for a reply after every route is decided by the RIB's answers and sent to the RIB.
    Settle(oneshot::Sender<()>),
    /// Stops the task: the table moves to another thread.
    Halt,
    /// Stops the task as soon as no work is left and writers have every route for the neighbors.
    Rest,
    /// Ends the rest.
    GoOn,
}

/// A table's address.
#[derive(Clone)]
pub struct TableHandle {
    messages: UnboundedSender<TableMessage>,
    room: Arc<Semaphore>,
    /// Empty batches, to be used again. The lock is held for one push or pop, once for thousands of routes. Boxes, because a
    /// batch has 200 octets.
    #[expect(clippy::vec_box, reason = "what is taken out goes on in its box")]
    spare: Arc<Mutex<Vec<Box<Batches>>>>,
    rib: Arc<WayToRib>,
}

/// The state shared by a table and the task that sends its routes to the RIB.
struct WayToRib {
    /// By family: at most one batch of the table is in flight.
    credits: ByFamily<Credit<()>>,
    /// True if the RIB has consumers of the routes.
    has_consumers: AtomicBool,
}

impl TableHandle {
    /// Sends a message without waiting for room: only for rare messages.
    pub fn write(&self, message: TableMessage) {
        // A table ends with the process.
        let _ = self.messages.send(message);
    }

    /// Sends the table the read batches as soon as the queue has room, and leaves empty batches in exchange.
    pub async fn hand_over(&self, peer: PeerIndex, life: SessionEpoch, batches: &mut Batches) {
        let Ok(permit) = Arc::clone(&self.room).acquire_owned().await else { return };
        let mut read = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        std::mem::swap(&mut *read, batches);
        self.write(TableMessage::Read(peer, life, read, permit));
    }

    /// Notes room at the RIB for the next batch of a family.
    pub fn rib_room(&self, family: FamilyIndex) {
        if self.rib.credits[family].give(()) {
            self.write(TableMessage::Room);
        }
    }

    /// Notes the presence of consumers of the RIB's routes.
    pub fn rib_has_consumers(&self, has_consumers: bool) {
        self.rib.has_consumers.store(has_consumers, Ordering::Relaxed);
    }

    /// Returns the result of `look` on the table; `None` if the process ends.
    pub async fn ask<R: Send + 'static>(&self, look: impl FnOnce(&Table) -> R + Send + 'static) -> Option<R> {
        let (reply, answer) = oneshot::channel();
        self.write(TableMessage::View(Box::new(move |table| {
            let _ = reply.send(look(table));
        })));
        answer.await.ok()
    }

    /// Sends a request for a station's monitor. The reply comes unless the process ends.
    pub fn monitor(&self, request: MonitorRequest) -> oneshot::Receiver<MonitorReply> {
        let (reply, answer) = oneshot::channel();
        self.write(TableMessage::Monitor(request, reply));
        answer
    }

    /// Waits until every route is decided by the RIB's answers and sent to the RIB.
    pub async fn settled(&self) {
        let (reply, answer) = oneshot::channel();
        self.write(TableMessage::Settle(reply));
        let _ = answer.await;
    }
}

/// A table and its messages.
pub struct TableTask {
    number: usize,
    table: Table,
    messages: UnboundedReceiver<TableMessage>,
    address: TableHandle,
    main: UnboundedSender<ControlMessage>,
    /// The ways out to neighbors whose sessions are up, by number.
    writers: Vec<(PeerIndex, Arc<SendQueue>)>,
    turns: Turns,
    /// Space for the numbers of neighbors with output.
    ready: Vec<PeerIndex>,
    /// Space for the next piece.
    space: Vec<u8>,
    settling: Vec<oneshot::Sender<()>>,
    /// There is background work.
    busy: bool,
    /// Background work waits until the results of read messages are sent.
    puts_off_work: bool,
    /// Changes for the RIB wait for the RIB's turn.
    puts_off: bool,
    /// Rounds since the RIB's turn.
    rounds: u32,
    /// True if the table halts when it has come to rest.
    resting: bool,
    out: Outbox<TableEvent>,
}

impl TableTask {
    /// Returns a table's task and address.
    pub fn new(
        number: usize,
        table: Table,
        main: UnboundedSender<ControlMessage>,
    ) -> (TableTask, TableHandle) {
        let (sender, messages) = mpsc::unbounded_channel();
        let (room, spare) = (Arc::new(Semaphore::new(WAITING)), Arc::default());
        let credits = ByFamily::from_fn(|_| Credit::new(()));
        let rib = Arc::new(WayToRib { credits, has_consumers: AtomicBool::new(true) });
        let address = TableHandle { messages: sender, room, spare, rib };
        let post = TableTask {
            number,
            table,
            messages,
            address: address.clone(),
            main,
            writers: Vec::new(),
            turns: Turns::default(),
            ready: Vec::new(),
            space: Vec::new(),
            settling: Vec::new(),
            busy: false,
            puts_off_work: false,
            puts_off: false,
            rounds: 0,
            resting: false,
            out: Outbox::new(),
        };
        (post, address)
    }

    /// Serves the table until the task is stopped.
    pub async fn serve(mut self) -> TableTask {
        loop {
            let mut next = match self.busy || self.puts_off {
                true => self.messages.try_recv().ok(),
                false => self.messages.recv().await,
            };
            let mut read = 0;
            while let Some(message) = next.take() {
                if matches!(message, TableMessage::Halt) {
                    self.send_all();
                    self.busy = true;
                    return self;
                }
                self.open(message);
                read += 1;
                if read < BURST {
                    next = self.messages.try_recv().ok();
                }
            }
            self.busy = match self.has_time_for_work(read) {
                true => self.table.run_slice(Budget::SLICE, &mut self.out) == Progress::More,
                false => true,
            };
            self.send_all();
            if self.resting && self.is_at_rest() {
                self.resting = false;
                self.busy = true;
                return self;
            }
            // Others have their turn, unless there is nothing to do here anyway.
            if self.busy || self.puts_off || !self.messages.is_empty() {
                yield_now().await;
            }
        }
    }

    /// Returns true if background work has its turn after `read` messages: not while more messages wait, otherwise every second
    /// time. The results of messages are sent before background work continues.
    fn has_time_for_work(&mut self, read: usize) -> bool {
        self.puts_off_work = read >= BURST || (read > 0 && !self.puts_off_work && self.table.has_work());
        !self.puts_off_work
    }

    fn open(&mut self, message: TableMessage) {
        if self.table.damps() {
            self.table.set_now(clock::now());
        }
        match message {
            TableMessage::Order(order) => {
                if let Order::PeerDown(peer, ..) = order {
                    self.writers.retain(|(other, _)| *other != peer);
                }
                self.table.order(order, &mut self.out);
            }
            TableMessage::Read(peer, life, mut batches, permit) => {
                self.table.apply(peer, life, &mut batches, &mut self.out);
                self.address.spare.lock().unwrap_or_else(PoisonError::into_inner).push(batches);
                drop(permit);
            }
            TableMessage::Writer(peer, life, outgoing) => {
                if self.table.is_up(peer, life) {
                    self.writers.retain(|(other, _)| *other != peer);
                    let place = self.writers.partition_point(|(other, _)| *other < peer);
                    self.writers.insert(place, (peer, outgoing));
                }
            }
            // What there is to send is looked for after every message.
            TableMessage::Room | TableMessage::Halt => {}
            TableMessage::Rest => {
                self.table.release_all();
                self.resting = true;
            }
            TableMessage::GoOn => self.resting = false,
            TableMessage::View(view) => view(&self.table),
            TableMessage::Monitor(request, reply) => {
                // A station that has ended takes no reply.
                let _ = reply.send(self.table.monitor(request));
            }
            TableMessage::Settle(waiting) => self.settling.push(waiting),
        }
    }

    /// Sends neighbors their octets, in turn.
    fn send_to_neighbors(&mut self) {
        let (table, number) = (&mut self.table, self.number);
        let mut own_writes = OwnWrites::default();
        let mut first = None;
        table.with_output(&mut self.ready);
        for peer in self.turns.order(&self.ready) {
            let Ok(place) = self.writers.binary_search_by_key(peer, |(peer, _)| *peer) else { continue };
            let outgoing = &self.writers[place].1;
            // Once more after a piece: what is left is waited for only if it is asked for.
            while table.has_output(*peer) {
                let Some(space) = outgoing.take_credit(number) else { break };
                if self.space.capacity() < space.capacity() {
                    self.space = space;
                }
                let mut piece =
                    Chunk { table: number, octets: std::mem::take(&mut self.space), ..Chunk::default() };
                piece.octets.clear();
                // What is filled in ends with the message that reaches the limit.
                piece.octets.reserve_exact(PIECE + MAX_MESSAGE_LEN);
                piece.marks = table.fill(*peer, PIECE, &mut piece.octets, &mut piece.sent).marks;
                if piece.octets.is_empty() && piece.marks.is_empty() && piece.sent == Sent::default() {
                    self.space = piece.octets;
                    outgoing.give_credit(number, Vec::new());
                    break;
                }
                let is_own = own_writes.allow(piece.octets.len(), others_wait);
                self.space = outgoing.send(piece, is_own);
                own_writes.note(is_own, !self.messages.is_empty());
                first.get_or_insert(*peer);
            }
        }
        if let Some(first) = first {
            self.turns.note(first);
        }
    }

    /// Sends pending output to neighbors, to control, and to the RIB.
    fn send_all(&mut self) {
        self.send_to_neighbors();
        self.table.report_holds(&mut self.out);
        self.table.report_monitored(&mut self.out);
        for event in self.out.drain() {
            // The RIB's pull is answered anyway.
            if !matches!(event, TableEvent::RibReady(_)) {
                let _ = self.main.send(ControlMessage::Table(self.number, event));
            }
        }
        // After the neighbors: their messages are on their way while the RIB's are made.
        let has_time = self.has_time_for_rib();
        self.puts_off = !has_time && FamilyIndex::all().any(|family| self.can_send_to_rib(family));
        if has_time {
            for family in FamilyIndex::all() {
                while let Some(routes) = self.routes_for_rib(family) {
                    let _ = self.main.send(ControlMessage::Routes(self.number, routes));
                }
            }
        }
        if !self.settling.is_empty() && self.is_settled() {
            for waiting in self.settling.drain(..) {
                let _ = waiting.send(());
            }
        }
    }

    /// Returns true if the RIB has its turn: at once without other work on any thread; otherwise after some rounds, fewer if the
    /// RIB has consumers, and after the queued messages.
    fn has_time_for_rib(&mut self) -> bool {
        let has_consumers = self.address.rib.has_consumers.load(Ordering::Relaxed);
        let others_first = match has_consumers {
            true => !self.messages.is_empty(),
            false => self.busy || !self.messages.is_empty() || others_wait(),
        };
        let rounds = if has_consumers { CONSUMED_RIB_ROUNDS } else { RIB_ROUNDS };
        self.rounds = if others_first { (self.rounds + 1) % rounds } else { 0 };
        self.rounds == 0
    }

    /// Returns true if the table has changes for the RIB, and the RIB has room. Without room, a message reports later room.
    fn can_send_to_rib(&self, family: FamilyIndex) -> bool {
        self.table.has_rib_changes(family) && self.address.rib.credits[family].is_here()
    }

    /// Takes a batch of a family for the RIB, if the RIB has room. Call until `None`: a message then requests later batches.
    fn routes_for_rib(&mut self, family: FamilyIndex) -> Option<Routes> {
        if !self.table.has_rib_changes(family) {
            return None;
        }
        let credit = &self.address.rib.credits[family];
        credit.take()?;
        let routes = family.visit(TakeRoutes(&mut self.table));
        if routes.is_none() {
            // Changes that canceled each other out leave nothing.
            credit.give(());
        }
        routes
    }

    /// Returns true if no work, no message and no output for a neighbor is left.
    fn is_at_rest(&self) -> bool {
        let mut writers = self.writers.iter();
        !self.busy && self.messages.is_empty() && writers.all(|(peer, _)| !self.table.has_output(*peer))
    }

    /// The table, which is at rest.
    pub fn table(&self) -> &Table {
        &self.table
    }

    fn is_settled(&self) -> bool {
        let table = &self.table;
        table.is_resolved() && !FamilyIndex::all().any(|family| table.has_rib_changes(family))
    }
}

/// Takes a batch of a family's routes for the RIB; `None` if no route is left to send.
struct TakeRoutes<'t>(&'t mut Table);

impl FamilyVisitor for TakeRoutes<'_> {
    type Output = Option<Routes>;

    fn visit<P: Sharded>(self) -> Option<Routes> {
        let mut batch = RouteBatch::<P>::default();
        self.0.rib_batch(RIB_BATCH, &mut batch);
        (!batch.updates.is_empty()).then(|| Routes::new(batch))
    }
}
