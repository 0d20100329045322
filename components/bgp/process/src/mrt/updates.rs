//! Files with the messages of neighbors. A file begins at the end of the previous file, so the files together are complete.
//! Records are written in pieces; during a write, messages wait in the queue ([`Recording`]).

use super::file::{TraceFile, adopt_parts, remove_surplus, wait_for};
use super::recording::{Recorded, Recording, What};
use super::{Running, Size, seconds};
use sluice_base::Asn;
use sluice_bgp::mrt::{FileName, MrtEvent, MrtFailure, RecordedSession};
use sluice_mrt::Writer;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Octets of records in one write.
const PIECE: usize = 256 << 10;

/// Records and messages not in a file yet.
#[derive(Default)]
struct Waiting {
    /// The next records to write.
    piece: Vec<u8>,
    /// The number of messages in the piece.
    messages: u64,
    /// The messages after the piece.
    all: VecDeque<Recorded>,
}

impl Waiting {
    /// Returns the number of messages and changes.
    fn count(&self) -> u64 {
        self.messages + self.all.iter().map(Recorded::count).sum::<u64>()
    }
}

/// A file, and the size of the contents.
struct Open {
    file: TraceFile,
    size: Size,
}

impl Running {
    /// Writes messages until the task is to end. `before` is the task of the previous configuration.
    pub(super) async fn updates(
        self,
        before: Option<JoinHandle<()>>,
        recording: Arc<Recording>,
        mut stop: watch::Receiver<bool>,
    ) {
        if let Some(before) = before {
            let _ = before.await;
        }
        let (folder, kind) = (self.folder(), self.kind);
        // A failure is reported with the first file, which cannot be written either.
        let _ = wait_for(move || adopt_parts(&folder, kind)).await;
        recording.switch(true);
        let mut waiting = Waiting::default();
        loop {
            recording.set_closed(false);
            let is_stopped = match self.file(&mut waiting, &recording, &mut stop).await {
                Ok(is_stopped) => is_stopped,
                Err(failure) => {
                    self.failed(failure);
                    // Nothing is kept for a file that may never be.
                    recording.set_closed(true);
                    waiting.all.append(&mut recording.take());
                    self.count_lost(&recording, std::mem::take(&mut waiting).count());
                    self.wait(&mut stop).await.is_none()
                }
            };
            if is_stopped {
                break;
            }
        }
        recording.switch(false);
        recording.take();
    }

    /// Writes a file, until the next file is due or the file is full. Returns true if the task is to end.
    async fn file(
        &self,
        waiting: &mut Waiting,
        recording: &Recording,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<bool, MrtFailure> {
        let (folder, name, settings) = (self.folder(), FileName::new(self.kind, seconds()), self.settings);
        let file = wait_for(move || TraceFile::create_next(folder, name, settings)).await?;
        self.status.borrow_mut().is_writing = true;
        let mut open = Some(Open { file, size: Size::default() });
        let written = self.fill(&mut open, waiting, recording, stop).await;
        self.status.borrow_mut().is_writing = false;
        let Some(Open { mut file, size }) = open else { return written };
        let (name, folder, kind, octets) = (file.name(), self.folder(), self.kind, file.octets());
        wait_for(move || {
            // Readers find no part of a record.
            file.cut()?;
            file.finish()?;
            remove_surplus(&folder, kind, &settings)
        })
        .await?;
        self.count_lost(recording, 0);
        let is_stopped = written?;
        self.written(name, Size { octets, ..size });
        Ok(is_stopped)
    }

    /// Writes arriving messages. Returns true if the task is to end, false if the next file is due. Leaves the file in `open`
    /// unless the writing thread was lost.
    async fn fill(
        &self,
        open: &mut Option<Open>,
        waiting: &mut Waiting,
        recording: &Recording,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<bool, MrtFailure> {
        let due = self.due();
        tokio::pin!(due);
        loop {
            let is_over = tokio::select! {
                biased;
                _ = stop.wait_for(|stopped| *stopped) => Some(true),
                _ = &mut due => Some(false),
                () = recording.pushed() => None,
            };
            // What came before the end is in the file.
            let has_room = self.write(open, waiting, recording).await?;
            match is_over {
                Some(is_stopped) => return Ok(is_stopped),
                None if !has_room => return Ok(false),
                None => {}
            }
        }
    }

    /// Writes the queue's messages. Returns false if the file is full: the rest is for the next file.
    async fn write(
        &self,
        open: &mut Option<Open>,
        waiting: &mut Waiting,
        recording: &Recording,
    ) -> Result<bool, MrtFailure> {
        waiting.all.append(&mut recording.take());
        loop {
            self.fill_piece(waiting)?;
            let Some(Open { mut file, size }) = open.take() else { return Ok(false) };
            if waiting.piece.is_empty() || !file.has_room(waiting.piece.len()) {
                *open = Some(Open { file, size });
                return Ok(waiting.piece.is_empty());
            }
            let piece = std::mem::take(&mut waiting.piece);
            let (file, result) = wait_for(move || {
                let result = file.write(&piece);
                Ok((file, result))
            })
            .await?;
            let messages = if result.is_ok() { std::mem::take(&mut waiting.messages) } else { 0 };
            *open = Some(Open { file, size: Size { messages: size.messages + messages, ..size } });
            result?;
        }
    }

    /// Makes records of waiting messages, up to a piece, unless a piece is waiting.
    fn fill_piece(&self, waiting: &mut Waiting) -> Result<(), MrtFailure> {
        if !waiting.piece.is_empty() {
            return Ok(());
        }
        let mut writer = Writer::with_microseconds();
        while writer.octets().len() < PIECE
            && let Some(recorded) = waiting.all.pop_front()
        {
            waiting.messages += self.records(&mut writer, &recorded)?;
        }
        waiting.piece = writer.take();
        Ok(())
    }

    /// Writes the records of messages or of a change of state. Returns the number of messages and changes.
    fn records(&self, writer: &mut Writer, recorded: &Recorded) -> Result<u64, MrtFailure> {
        let session = recorded.session.unwrap_or_else(|| self.opening(recorded));
        let written = match &recorded.what {
            What::Messages(messages) => session.write(writer, recorded.time, &messages.octets),
            What::Change(from, to) => session.write_change(writer, recorded.time, *from, *to).map(|()| 1),
        };
        written.map_err(|_| MrtFailure::Time)
    }

    /// Returns the session of a neighbor without an established session, from the configuration.
    fn opening(&self, recorded: &Recorded) -> RecordedSession {
        let process = self.process.upgrade();
        let known = process.as_ref().and_then(|process| {
            process.read(|control| {
                let peer_as = control.neighbor_config(recorded.peer).map(|config| config.peer_as);
                (peer_as.unwrap_or(Asn(0)), control.router().1)
            })
        });
        let (peer_as, local_as) = known.unwrap_or((Asn(0), Asn(0)));
        RecordedSession::opening(recorded.peer, peer_as, local_as, None)
    }

    /// Counts and reports messages missing in the files: the queue's lost messages, and `more`.
    fn count_lost(&self, recording: &Recording, more: u64) {
        let lost = recording.take_lost() + more;
        if lost > 0 {
            self.status.borrow_mut().lost += lost;
            self.report(&MrtEvent::Lost(lost));
        }
    }
}
