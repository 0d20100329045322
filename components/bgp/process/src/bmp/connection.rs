//! A connection to a station: routes from the tables to the socket.

use super::mirror::Mirrored;
use super::{Running, StationState};
use crate::BgpProcess;
use crate::tables::table::TableHandle;
use sluice_bgp::bmp::{
    MirroredMessages, MonitoredPeer, Now, PeerChange, PeerStatistics, Station, StationEvent, StationFailure,
    Termination,
};
use sluice_bgp::family::{ByFamily, FamilyIndex};
use sluice_bgp::shard::{MonitorId, PeerIndex};
use sluice_bgp::speaker::PrefixCounts;
use sluice_bgp::table::MonitorRequest;
use sluice_process::clock;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until, timeout};

/// Changes of a family, and earlier routes, in a request to a table.
const CHUNK: usize = 1024;

/// Octets of the station read and discarded at once: a station must not send messages (RFC 7854, section 3.2).
const DISCARDED: usize = 1024;

/// The longest wait for a station to take the last messages, when the connection is to end.
const LINGER: Duration = Duration::from_secs(1);

/// The time between two checks of the tables' logs for a station that does not read.
const LOOK: Duration = Duration::from_millis(100);

/// The software, as stations are sent.
const DESCRIPTION: &str = concat!("Sluice ", env!("CARGO_PKG_VERSION"));

/// The end of a connection, or of an attempt to connect.
pub enum Ended {
    /// The connection is not wanted any more.
    Stopped,
    /// The connection failed; true if the station had been sent all routes from before.
    Lost(StationFailure, bool),
}

/// A connection in service.
struct Serving<'a> {
    running: &'a Running,
    process: &'a Rc<BgpProcess>,
    tables: Vec<TableHandle>,
    monitor: MonitorId,
    station: Station,
    writer: OwnedWriteHalf,
    /// Octets to write, and the number of written octets.
    octets: Vec<u8>,
    written: usize,
}

/// Serves a connection to the end.
pub async fn serve(
    running: &Running,
    process: &Rc<BgpProcess>,
    stream: TcpStream,
    stop: &mut watch::Receiver<Option<Termination>>,
) -> Ended {
    let instance = process.bmp.instance.clone();
    let router = process.read(|control| control.monitored_router(instance));
    let (Some(core), Some(router)) = (process.core(), router) else { return Ended::Stopped };
    let (reader, writer) = stream.into_split();
    let (monitor, ribs) = (process.bmp.draw_monitor(), running.settings.ribs());
    let tables = core.post.tables.clone();
    for table in &tables {
        drop(table.monitor(MonitorRequest::Begin(monitor, ribs)));
    }
    let host = nix::unistd::gethostname().ok().and_then(|name| name.into_string().ok());
    let name = host.filter(|name| !name.is_empty()).unwrap_or_else(|| router.router_id.to_string());
    let station = Station::new(router, ribs, (&name, DESCRIPTION), now());
    let (octets, written) = (Vec::new(), 0);
    let mut serving = Serving { running, process, tables, monitor, station, writer, octets, written };
    let failure = tokio::select! {
        failure = serving.pump() => Some(failure),
        () = discard(reader) => Some(StationFailure::Closed),
        _ = stop.wait_for(Option::is_some) => None,
    };
    for table in &serving.tables {
        drop(table.monitor(MonitorRequest::End(monitor)));
    }
    let reason = *stop.borrow();
    if let Some(reason) = reason {
        serving.station.terminate(reason);
        serving.take_octets();
        // A station that does not read is sent nothing.
        let _ = timeout(LINGER, serving.flush()).await;
    }
    serving.note(0);
    match failure {
        Some(failure) if reason.is_none() => Ended::Lost(failure, serving.station.is_dumped()),
        _ => Ended::Stopped,
    }
}

/// Reads and discards a station's octets, until the connection ends.
async fn discard(mut reader: OwnedReadHalf) {
    let mut octets = vec![0; DISCARDED];
    while matches!(reader.read(&mut octets).await, Ok(1..)) {}
}

/// Waits for malformed UPDATEs; for ever if the station is not sent malformed UPDATEs. `None`: some were lost.
async fn next(mirrored: &mut Option<Mirrored>) -> Option<Arc<MirroredMessages>> {
    let received = match mirrored {
        Some(mirrored) => mirrored.messages.recv().await,
        None => std::future::pending().await,
    };
    match received {
        Ok(messages) => Some(messages),
        Err(RecvError::Lagged(_)) => None,
        // The channel ends with the process.
        Err(RecvError::Closed) => std::future::pending().await,
    }
}

fn now() -> Now {
    let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let since_1970 = u64::try_from(since_1970.as_micros()).unwrap_or(u64::MAX);
    Now { instant: clock::now(), since_1970 }
}

impl Serving<'_> {
    /// Sends the station changes as they come. Returns the failure that ends the connection.
    async fn pump(&mut self) -> StationFailure {
        let mut news = self.process.bmp.news.subscribe();
        let interval = Duration::from_secs(self.running.settings.statistics_interval.into());
        let mut report_at = (!interval.is_zero()).then(|| Instant::now() + interval);
        let mut mirrored =
            self.running.settings.mirror_malformed.then(|| self.process.bmp.mirror.subscribe());
        loop {
            news.mark_unchanged();
            if let Some(mirrored) = &mut mirrored {
                self.mirror_waiting(mirrored);
            }
            let has_more = match self.pass().await {
                Ok(has_more) => has_more,
                Err(failure) => return failure,
            };
            if report_at.is_some_and(|at| at <= Instant::now()) {
                report_at = Some(Instant::now() + interval);
                if let Err(failure) = self.report().await {
                    return failure;
                }
            }
            if has_more {
                continue;
            }
            let report = async {
                match report_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = news.changed() => {}
                () = report => {}
                messages = next(&mut mirrored) => self.mirror(messages),
            }
        }
    }

    /// Sends the station the waiting malformed UPDATEs.
    fn mirror_waiting(&mut self, mirrored: &mut Mirrored) {
        loop {
            match mirrored.messages.try_recv() {
                Ok(messages) => self.mirror(Some(messages)),
                Err(TryRecvError::Lagged(_)) => self.mirror(None),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Sends the station malformed UPDATEs; `None`: some were lost.
    fn mirror(&mut self, messages: Option<Arc<MirroredMessages>>) {
        let Some(messages) = messages else { return self.station.mirroring_lost(now()) };
        if self.station.lacks_session(messages.peer, messages.epoch) {
            self.change_peers();
        }
        self.station.mirror(&messages);
    }

    /// Sends changes of peers, and a chunk of each table. Returns true if there is more.
    async fn pass(&mut self) -> Result<bool, StationFailure> {
        self.change_peers();
        let (mut has_more, mut is_walked, mut behind) = (false, true, 0);
        let monitor = self.monitor;
        for place in 0..self.tables.len() {
            let reply = self.tables[place].monitor(MonitorRequest::Take(monitor, CHUNK)).await;
            // A table ends with the process.
            let taken = reply.map_err(|_| StationFailure::Closed)?.map_err(|_| StationFailure::Behind)?;
            let Some(chunk) = taken else { continue };
            if self.station.lacks_sessions(&chunk) {
                self.change_peers();
            }
            self.station.take_routes(&chunk, now());
            has_more |= chunk.chunk.has_more;
            is_walked &= chunk.chunk.is_walked;
            behind += chunk.chunk.behind;
            self.send().await?;
        }
        if !has_more {
            let was_dumped = self.station.is_dumped();
            self.station.passed(is_walked, now());
            self.send().await?;
            if self.station.is_dumped() && !was_dumped {
                let mut status = self.running.status.borrow_mut();
                status.enter(StationState::Up);
                status.problem.clear();
                drop(status);
                self.running.report(&StationEvent::Synchronized(self.station.counters().messages));
            }
        }
        self.note(behind);
        Ok(has_more)
    }

    /// Notifies the station of started and ended sessions.
    fn change_peers(&mut self) {
        let (process, station) = (self.process, &mut self.station);
        let mut changes = process.read(|control| control.changed_peers(station)).unwrap_or_default();
        for MonitoredPeer { change, .. } in &mut changes {
            if let PeerChange::Up(session) = change {
                let id = process.read(|control| control.established(session.address)).flatten();
                let connection = id.and_then(|id| process.connection(session.address, id));
                session.ports = connection.map_or((0, 0), |connection| connection.ports.get());
            }
        }
        if !changes.is_empty() {
            station.change_peers(changes, now());
        }
    }

    /// Sends Statistics Reports.
    async fn report(&mut self) -> Result<(), StationFailure> {
        let peers: Vec<PeerIndex> = self.station.known_peers().collect();
        let mut counts: BTreeMap<PeerIndex, PrefixCounts> = BTreeMap::new();
        let mut selected = ByFamily::<u64>::default();
        for table in &self.tables {
            let peers = peers.clone();
            let asked = table.ask(move |table| {
                let selected = ByFamily::from_fn(|family| table.view(family).selected);
                (peers.iter().map(|peer| (*peer, table.counts(*peer))).collect::<Vec<_>>(), selected)
            });
            let (of_peers, of_table) = asked.await.ok_or(StationFailure::Closed)?;
            for (peer, count) in of_peers {
                let known = counts.entry(peer).or_default();
                *known = [*known, count].into_iter().sum();
            }
            for family in FamilyIndex::all() {
                selected[family] += of_table[family];
            }
        }
        self.process.collect_all();
        let process = self.process;
        let statistics = |peer: PeerIndex| {
            let count = counts.get(&peer).copied().unwrap_or_default();
            let of_messages = process.read(|control| control.peer_statistics(peer)).unwrap_or_default();
            PeerStatistics { received: count.received, sent: count.sent, ..of_messages }
        };
        self.station.report(statistics, &selected, now());
        self.send().await
    }

    /// Notes the state for operators.
    fn note(&self, behind: u64) {
        let mut status = self.running.status.borrow_mut();
        status.present = self.station.counters();
        (status.peers, status.behind) = (self.station.peers(), behind);
    }

    fn take_octets(&mut self) {
        self.octets.drain(..self.written);
        self.written = 0;
        self.octets.append(&mut self.station.take_octets());
    }

    /// Writes the station's messages. While the station does not read, checks for void logs in the tables.
    async fn send(&mut self) -> Result<(), StationFailure> {
        self.take_octets();
        let (tables, monitor) = (self.tables.clone(), self.monitor);
        let missed = async move {
            loop {
                sleep(LOOK).await;
                for table in &tables {
                    if table.ask(move |table| table.is_monitor_void(monitor)).await != Some(false) {
                        return;
                    }
                }
            }
        };
        tokio::select! {
            biased;
            written = self.flush() => written.map_err(|_| StationFailure::Closed),
            () = missed => Err(StationFailure::Behind),
        }
    }

    /// Writes the remaining octets. May be canceled: written octets are counted.
    async fn flush(&mut self) -> std::io::Result<()> {
        while self.written < self.octets.len() {
            let count = self.writer.write(&self.octets[self.written..]).await?;
            if count == 0 {
                return Err(std::io::ErrorKind::WriteZero.into());
            }
            self.written += count;
        }
        Ok(())
    }
}
