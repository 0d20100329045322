//! A table as a task: letters in, letters out. It shares nothing; whoever wants something of it writes to it.

use crate::reading::ToMain;
use crate::writing::{Note, Piece};
use sluice_base::{Family, Ipv4Prefix, Ipv6Prefix, RouteBatch};
use sluice_bgp::reader::Batches;
use sluice_bgp::shard::PeerIndex;
use sluice_bgp::table::{Life, Order, Sharded, Table, Told};
use sluice_bgp::wire::MAX_MESSAGE_LEN;
use sluice_machine::{Budget, Outbox, Progress};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Octets that are filled in for a neighbour at a time: enough to spread the cost of a system call, few enough to let others have
/// their turn.
pub const PIECE: usize = 32_768;
/// Batches that may wait for a table. Readers wait for room, and so do their neighbours.
const WAITING: usize = 16;
/// Routes in a batch for the RIB.
const RIB_BATCH: usize = 4096;
/// Letters that are read before writers have their turn.
const BURST: usize = 8;

type Question = Box<dyn FnOnce(&mut Table) + Send>;

/// What a table is written.
pub enum Letter {
    /// Control's word.
    Order(Order),
    /// What a reader read in a session.
    Read(PeerIndex, Life, Batches, OwnedSemaphorePermit),
    /// A writer can take octets: they go there when there are some.
    Pull(Pull),
    /// The RIB can take routes of a family: they are written to the process's own thread when there are some.
    PullRib(Family),
    /// Somebody wants to look into the table.
    Ask(Question),
    /// Somebody waits until all is decided by the RIB's word and the RIB has been told.
    Settle(oneshot::Sender<()>),
    /// The table is to go to another thread.
    Halt,
}

/// A writer's wish for octets.
pub struct Pull {
    /// Whose octets.
    pub peer: PeerIndex,
    /// Of which session.
    pub life: Life,
    /// Space for them, empty.
    pub octets: Vec<u8>,
    /// Where they go.
    pub notes: UnboundedSender<Note>,
}

/// Routes for the RIB.
pub enum Routes {
    /// IPv4 unicast.
    Ipv4(RouteBatch<Ipv4Prefix>),
    /// IPv6 unicast.
    Ipv6(RouteBatch<Ipv6Prefix>),
}

/// A table's address.
#[derive(Clone)]
pub struct Address {
    letters: UnboundedSender<Letter>,
    room: Arc<Semaphore>,
    /// Empty batches, to be used again. The lock is held for one push or pop, once for thousands of routes.
    spare: Arc<Mutex<Vec<Batches>>>,
}

impl Address {
    /// Writes a letter. It is one of few: what could be many waits for room first.
    pub fn write(&self, letter: Letter) {
        // A table ends with the process.
        let _ = self.letters.send(letter);
    }

    /// Hands over what was read, as soon as there is room, in exchange for empty space.
    pub async fn hand_over(&self, peer: PeerIndex, life: Life, batches: &mut Batches) {
        let Ok(permit) = Arc::clone(&self.room).acquire_owned().await else { return };
        let spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default();
        self.write(Letter::Read(peer, life, std::mem::replace(batches, spare), permit));
    }

    /// What `look` sees in the table; `None` if the process ends.
    pub async fn ask<R: Send + 'static>(
        &self,
        look: impl FnOnce(&mut Table) -> R + Send + 'static,
    ) -> Option<R> {
        let (reply, answer) = oneshot::channel();
        self.write(Letter::Ask(Box::new(move |table| {
            let _ = reply.send(look(table));
        })));
        answer.await.ok()
    }

    /// Waits until everything is decided by the RIB's word, and the RIB has been told.
    pub async fn settled(&self) {
        let (reply, answer) = oneshot::channel();
        self.write(Letter::Settle(reply));
        let _ = answer.await;
    }
}

/// A table and its letters.
pub struct Post {
    number: usize,
    table: Table,
    letters: UnboundedReceiver<Letter>,
    address: Address,
    main: UnboundedSender<ToMain>,
    /// Writers that can take octets.
    pulls: BTreeMap<PeerIndex, Pull>,
    /// Families that the RIB can take routes of.
    rib_pulls: [bool; 2],
    settling: Vec<oneshot::Sender<()>>,
    /// There is background work.
    busy: bool,
    out: Outbox<Told>,
}

impl Post {
    /// The table of this number, and its address.
    pub fn new(number: usize, table: Table, main: UnboundedSender<ToMain>) -> (Post, Address) {
        let (sender, letters) = mpsc::unbounded_channel();
        let (room, spare) = (Arc::new(Semaphore::new(WAITING)), Arc::default());
        let address = Address { letters: sender, room, spare };
        let post = Post {
            number,
            table,
            letters,
            address: address.clone(),
            main,
            pulls: BTreeMap::new(),
            rib_pulls: [false; 2],
            settling: Vec::new(),
            busy: false,
            out: Outbox::new(),
        };
        (post, address)
    }

    /// Serves the table until it is to go elsewhere.
    pub async fn serve(mut self) -> Post {
        loop {
            let mut next = match self.busy {
                true => self.letters.try_recv().ok(),
                false => self.letters.recv().await,
            };
            let mut read = 0;
            while let Some(letter) = next.take() {
                if matches!(letter, Letter::Halt) {
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
            // Letters first: they may have made work, which is looked for when no more are waiting.
            self.busy = match read < BURST {
                true => self.table.run_slice(Budget::SLICE, &mut self.out) == Progress::More,
                false => true,
            };
            self.tell();
            tokio::task::yield_now().await;
        }
    }

    fn open(&mut self, letter: Letter) {
        match letter {
            Letter::Order(order) => {
                if let Order::PeerDown(peer, _) = order {
                    self.pulls.remove(&peer);
                }
                self.table.order(order, &mut self.out);
            }
            Letter::Read(peer, life, mut batches, permit) => {
                self.table.apply(peer, life, &mut batches, &mut self.out);
                self.address.spare.lock().unwrap_or_else(PoisonError::into_inner).push(batches);
                drop(permit);
            }
            Letter::Pull(pull) => {
                if self.table.is_up(pull.peer, pull.life) {
                    self.pulls.insert(pull.peer, pull);
                }
            }
            Letter::PullRib(family) => self.rib_pulls[family as usize] = true,
            Letter::Ask(question) => question(&mut self.table),
            Letter::Settle(waiting) => self.settling.push(waiting),
            Letter::Halt => {}
        }
    }

    /// Gives writers their octets, and says what there is to say.
    fn tell(&mut self) {
        let table = &mut self.table;
        self.pulls.retain(|peer, pull| {
            if !table.has_output(*peer) {
                return true;
            }
            let mut piece = Piece { table: self.number, ..Piece::default() };
            piece.octets = std::mem::take(&mut pull.octets);
            // What is filled in ends with the message that reaches the limit.
            piece.octets.reserve_exact(PIECE + MAX_MESSAGE_LEN);
            piece.ended = table.fill(*peer, PIECE, &mut piece.octets, &mut piece.sent).ended;
            if piece.octets.is_empty() && piece.ended == [false; 2] {
                pull.octets = piece.octets;
                return true;
            }
            let _ = pull.notes.send(Note::Piece(piece));
            false
        });
        for told in self.out.drain() {
            // The RIB's pull is answered anyway.
            if !matches!(told, Told::RibReady(_)) {
                let _ = self.main.send(ToMain::Told(self.number, told));
            }
        }
        // After the neighbours: their letters are on their way while the RIB's are made.
        if let Some(batch) = self.rib_batch() {
            let _ = self.main.send(ToMain::Routes(self.number, Routes::Ipv4(batch)));
        }
        if let Some(batch) = self.rib_batch() {
            let _ = self.main.send(ToMain::Routes(self.number, Routes::Ipv6(batch)));
        }
        if !self.settling.is_empty() && self.is_settled() {
            for waiting in self.settling.drain(..) {
                let _ = waiting.send(());
            }
        }
    }

    /// What the RIB is to be told of a family, if it can take any.
    fn rib_batch<P: Sharded>(&mut self) -> Option<RouteBatch<P>> {
        let pull = &mut self.rib_pulls[P::FAMILY as usize];
        if !*pull || !self.table.has_rib_changes::<P>() {
            return None;
        }
        let mut batch = RouteBatch::default();
        self.table.rib_batch(RIB_BATCH, &mut batch);
        // Changes that cancelled each other out leave nothing.
        *pull = batch.updates.is_empty();
        (!*pull).then_some(batch)
    }

    fn is_settled(&self) -> bool {
        let table = &self.table;
        table.is_resolved()
            && !table.has_rib_changes::<Ipv4Prefix>()
            && !table.has_rib_changes::<Ipv6Prefix>()
    }
}
