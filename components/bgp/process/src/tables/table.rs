//! A table as a task: letters in, letters out. It shares nothing; whoever wants something of it writes to it.

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

/// Batches that may wait for a table. Readers wait for room, and so do their neighbors.
const WAITING: usize = 16;

/// Routes in a batch for the RIB.
pub const RIB_BATCH: usize = 4096;

/// Rounds of other work after which the RIB has its turn, where nobody waits for what it is sent: neighbors do.
const RIB_ROUNDS: u32 = 256;

/// The same where somebody waits for it: letters that wait may have routes for a neighbor that wait longer otherwise.
const CONSUMED_RIB_ROUNDS: u32 = 4;

/// Letters that are read before writers have their turn.
const BURST: usize = 8;

type View = Box<dyn FnOnce(&Table) + Send>;
type MonitorReply = Result<Option<TableChunk>, MonitorVoid>;

/// A message to a table.
pub enum TableMessage {
    /// Control's word.
    Order(Order),
    /// Batches that a reader read in a session.
    Read(PeerIndex, SessionEpoch, Box<Batches>, OwnedSemaphorePermit),
    /// The way out to a neighbor in its session: what there is for it goes there.
    Writer(PeerIndex, SessionEpoch, Arc<SendQueue>),
    /// A writer or the RIB can take more, which the table waited for.
    Room,
    /// A view of the table, which changes nothing.
    View(View),
    /// A request for a station's monitor, and its reply.
    Monitor(MonitorRequest, oneshot::Sender<MonitorReply>),
    /// Somebody waits until all is decided by the RIB's word and the RIB has been sent.
    Settle(oneshot::Sender<()>),
    /// The table is to go to another thread.
    Halt,
    /// The same as soon as nothing is left to do, and every neighbor was given what there is for it.
    Rest,
    /// Ends the rest.
    GoOn,
}

/// A table's address.
#[derive(Clone)]
pub struct TableHandle {
    letters: UnboundedSender<TableMessage>,
    room: Arc<Semaphore>,
    /// Empty batches, to be used again. The lock is held for one push or pop, once for thousands of routes. They come and go by their
    /// addresses: each is 200 octets.
    #[expect(clippy::vec_box, reason = "what is taken out goes on in its box")]
    spare: Arc<Mutex<Vec<Box<Batches>>>>,
    rib: Arc<WayToRib>,
}

/// The state shared by a table and the task that sends its routes to the RIB.
struct WayToRib {
    /// By family: one batch of the table may be on its way.
    credits: ByFamily<Credit<()>>,
    /// True if anybody waits there for what it is sent.
    has_consumers: AtomicBool,
}

impl TableHandle {
    /// Writes a letter. It is one of few: what could be many waits for room first.
    pub fn write(&self, letter: TableMessage) {
        // A table ends with the process.
        let _ = self.letters.send(letter);
    }

    /// Hands over what was read, as soon as there is room, in exchange for empty space.
    pub async fn hand_over(&self, peer: PeerIndex, life: SessionEpoch, batches: &mut Batches) {
        let Ok(permit) = Arc::clone(&self.room).acquire_owned().await else { return };
        let mut read = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        std::mem::swap(&mut *read, batches);
        self.write(TableMessage::Read(peer, life, read, permit));
    }

    /// The RIB can take another batch of a family.
    pub fn rib_room(&self, family: FamilyIndex) {
        if self.rib.credits[family].give(()) {
            self.write(TableMessage::Room);
        }
    }

    /// Returns true if anybody waits for what the RIB is sent.
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

    /// Waits until everything is decided by the RIB's word, and the RIB has been sent.
    pub async fn settled(&self) {
        let (reply, answer) = oneshot::channel();
        self.write(TableMessage::Settle(reply));
        let _ = answer.await;
    }
}

/// A table and its letters.
pub struct TableTask {
    number: usize,
    table: Table,
    letters: UnboundedReceiver<TableMessage>,
    address: TableHandle,
    main: UnboundedSender<ControlMessage>,
    /// The ways out to neighbors whose sessions are up, by number.
    writers: Vec<(PeerIndex, Arc<SendQueue>)>,
    turns: Turns,
    /// Space for the numbers of neighbors that have to be sent something.
    ready: Vec<PeerIndex>,
    /// Space for the next piece.
    space: Vec<u8>,
    settling: Vec<oneshot::Sender<()>>,
    /// There is background work.
    busy: bool,
    /// Background work waits until what was read has gone out.
    puts_off_work: bool,
    /// The RIB is sent something when there is time.
    puts_off: bool,
    /// Rounds since the RIB was thought of.
    rounds: u32,
    /// True if the table halts when it has come to rest.
    resting: bool,
    out: Outbox<TableEvent>,
}

impl TableTask {
    /// The table of this number, and its address.
    pub fn new(
        number: usize,
        table: Table,
        main: UnboundedSender<ControlMessage>,
    ) -> (TableTask, TableHandle) {
        let (sender, letters) = mpsc::unbounded_channel();
        let (room, spare) = (Arc::new(Semaphore::new(WAITING)), Arc::default());
        let credits = ByFamily::from_fn(|_| Credit::new(()));
        let rib = Arc::new(WayToRib { credits, has_consumers: AtomicBool::new(true) });
        let address = TableHandle { letters: sender, room, spare, rib };
        let post = TableTask {
            number,
            table,
            letters,
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

    /// Serves the table until it is to go elsewhere.
    pub async fn serve(mut self) -> TableTask {
        loop {
            let mut next = match self.busy || self.puts_off {
                true => self.letters.try_recv().ok(),
                false => self.letters.recv().await,
            };
            let mut read = 0;
            while let Some(letter) = next.take() {
                if matches!(letter, TableMessage::Halt) {
                    self.tell();
                    self.busy = true;
                    return self;
                }
                self.open(letter);
                read += 1;
                if read < BURST {
                    next = self.letters.try_recv().ok();
                }
            }
            self.busy = match self.has_time_for_work(read) {
                true => self.table.run_slice(Budget::SLICE, &mut self.out) == Progress::More,
                false => true,
            };
            self.tell();
            if self.resting && self.is_at_rest() {
                self.resting = false;
                self.busy = true;
                return self;
            }
            // Others have their turn, unless there is nothing to do here anyway.
            if self.busy || self.puts_off || !self.letters.is_empty() {
                yield_now().await;
            }
        }
    }

    /// Returns true if background work has its turn, with so many letters read: not while more are waiting, and every other time otherwise.
    /// What letters made goes out before background work goes on.
    fn has_time_for_work(&mut self, read: usize) -> bool {
        self.puts_off_work = read >= BURST || (read > 0 && !self.puts_off_work && self.table.has_work());
        !self.puts_off_work
    }

    fn open(&mut self, letter: TableMessage) {
        if self.table.damps() {
            self.table.set_now(clock::now());
        }
        match letter {
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
            // What there is to say is looked for after every letter.
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
                own_writes.note(is_own, !self.letters.is_empty());
                first.get_or_insert(*peer);
            }
        }
        if let Some(first) = first {
            self.turns.note(first);
        }
    }

    /// Says what there is to say.
    fn tell(&mut self) {
        self.send_to_neighbors();
        self.table.report_holds(&mut self.out);
        self.table.report_monitored(&mut self.out);
        for told in self.out.drain() {
            // The RIB's pull is answered anyway.
            if !matches!(told, TableEvent::RibReady(_)) {
                let _ = self.main.send(ControlMessage::Table(self.number, told));
            }
        }
        // After the neighbors: their letters are on their way while the RIB's are made.
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

    /// Returns true if the RIB has its turn: at once if there is no other work, here or elsewhere; otherwise the sooner if somebody waits for
    /// its routes, but not before letters that wait.
    fn has_time_for_rib(&mut self) -> bool {
        let has_consumers = self.address.rib.has_consumers.load(Ordering::Relaxed);
        let others_first = match has_consumers {
            true => !self.letters.is_empty(),
            false => self.busy || !self.letters.is_empty() || others_wait(),
        };
        let rounds = if has_consumers { CONSUMED_RIB_ROUNDS } else { RIB_ROUNDS };
        self.rounds = if others_first { (self.rounds + 1) % rounds } else { 0 };
        self.rounds == 0
    }

    /// Returns true if there is something for the RIB, and it can take it. If it cannot, a letter says when.
    fn can_send_to_rib(&self, family: FamilyIndex) -> bool {
        self.table.has_rib_changes(family) && self.address.rib.credits[family].is_here()
    }

    /// Takes a batch of a family for the RIB, if there is room. Call it until there is no batch: later batches are requested when the RIB
    /// has room.
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

    /// Returns true if nothing is left to do, and nobody has yet to be given anything.
    fn is_at_rest(&self) -> bool {
        let mut writers = self.writers.iter();
        !self.busy && self.letters.is_empty() && writers.all(|(peer, _)| !self.table.has_output(*peer))
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
