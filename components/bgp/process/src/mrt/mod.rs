//! Traces in files (MRT, RFC 6396): a task for each configured kind of trace.
//!
//! A task waits for the time of the next file, and writes the file ([`table`], [`updates`]). Calls to the disk run on a thread
//! for blocking work ([`file`]), one call at a time for each task. A failed file is reported, and the task goes on with the next
//! file.

mod file;
pub mod recording;
mod table;
mod updates;
pub mod view;

use crate::BgpProcess;
use recording::{Recorded, Recording, What, microseconds};
use sluice_bgp::mrt::{FileName, FileSettings, MrtEvent, MrtFailure, MrtSettings, TraceKind, next_time};
use sluice_bgp::state::State;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// The folder of the component's files: its working directory (`[files]` in `rights.toml`).
const FILES: &str = ".";
/// The longest wait before the clock is read again: the system's time may be set.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// The state of a kind of trace, for operators.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TraceStatus {
    /// True while a file is being written.
    pub is_writing: bool,
    /// The time at which the next file begins, in seconds since 1970.
    pub next: u64,
    /// The newest whole file; `None` before the first.
    pub newest: Option<FileName>,
    /// Whole files so far.
    pub files: u32,
    /// Records of routes in whole files so far.
    pub routes: u64,
    /// Messages in whole files so far.
    pub messages: u64,
    /// Messages so far missing in the files.
    pub lost: u64,
    /// Octets of whole files so far.
    pub octets: u64,
    /// Failed files so far.
    pub failures: u64,
    /// The reason why the latest file could not be written, in words; empty if the latest file is whole.
    pub problem: String,
}

/// A configured kind of trace.
struct Entry {
    settings: FileSettings,
    status: Rc<RefCell<TraceStatus>>,
    /// Orders the task to end.
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl Entry {
    /// Orders the task to end, and returns the task.
    fn end(self) -> JoinHandle<()> {
        self.stop.send_replace(true);
        self.task
    }
}

/// The traces of the process.
#[derive(Default)]
pub struct MrtSide {
    wanted: RefCell<MrtSettings>,
    traces: RefCell<BTreeMap<TraceKind, Entry>>,
    /// The messages recorded by readers and not written yet.
    pub recording: Arc<Recording>,
}

impl MrtSide {
    /// Sets the configuration, which [`MrtSide::start`] carries out.
    pub fn set(&self, settings: MrtSettings) {
        self.wanted.replace(settings);
    }

    /// Begins configured traces, and ends traces with changed or removed configuration.
    pub fn start(&self, process: &Weak<BgpProcess>) {
        let wanted = *self.wanted.borrow();
        let mut traces = self.traces.borrow_mut();
        for kind in TraceKind::ALL {
            let settings = wanted.of(kind);
            let previous = traces.remove(&kind);
            let Some(interval) = settings.interval else {
                previous.into_iter().for_each(|entry| drop(entry.end()));
                continue;
            };
            let mut previous_task = None;
            if let Some(entry) = previous {
                if entry.settings == settings {
                    traces.insert(kind, entry);
                    continue;
                }
                previous_task = Some(entry.end());
            }
            let (stop, stopped) = watch::channel(false);
            let status = Rc::new(RefCell::new(TraceStatus::default()));
            let running =
                Running { process: process.clone(), kind, interval, settings, status: Rc::clone(&status) };
            let task = match kind {
                TraceKind::Table => tokio::task::spawn_local(running.tables(stopped)),
                TraceKind::Updates => {
                    // The task before has stopped the recording when this one begins.
                    let before = previous_task.take();
                    tokio::task::spawn_local(running.updates(before, Arc::clone(&self.recording), stopped))
                }
            };
            traces.insert(kind, Entry { settings, status, stop, task });
        }
    }

    /// Records a change of the state of a neighbor's session, if messages are recorded.
    pub fn state_changed(&self, peer: IpAddr, from: State, to: State) {
        if self.recording.is_on() {
            let what = What::Change(from, to);
            self.recording.push(Recorded { time: microseconds(), peer, session: None, what });
        }
    }

    /// Ends the traces, and waits until the files are finished or removed.
    pub async fn end(&self) {
        let tasks: Vec<JoinHandle<()>> = self.traces.take().into_values().map(Entry::end).collect();
        for task in tasks {
            let _ = task.await;
        }
    }

    /// Returns the traces and states.
    pub fn traces(&self) -> Vec<(TraceKind, FileSettings, TraceStatus)> {
        let traces = self.traces.borrow();
        traces.iter().map(|(kind, entry)| (*kind, entry.settings, entry.status.borrow().clone())).collect()
    }

    /// Returns the problems of traces, in words.
    pub fn problems(&self) -> Vec<String> {
        let traces = self.traces.borrow();
        let problem = |(kind, entry): (&TraceKind, &Entry)| {
            let status = entry.status.borrow();
            (!status.problem.is_empty()).then(|| format!("no trace ({kind}): {}", status.problem))
        };
        traces.iter().filter_map(problem).collect()
    }
}

/// The task of a kind of trace.
struct Running {
    process: Weak<BgpProcess>,
    kind: TraceKind,
    interval: u32,
    settings: FileSettings,
    status: Rc<RefCell<TraceStatus>>,
}

/// The size of a whole file.
#[derive(Clone, Copy, Default)]
struct Size {
    routes: u64,
    messages: u64,
    octets: u64,
}

impl Running {
    /// Writes dumps of the table until the task is to end.
    async fn tables(self, mut stop: watch::Receiver<bool>) {
        let (folder, kind) = (self.folder(), self.kind);
        // A failure is reported with the next file, which cannot be written either.
        let _ = file::wait_for(move || file::remove_parts(&folder, kind)).await;
        while let Some(time) = self.wait(&mut stop).await {
            self.status.borrow_mut().is_writing = true;
            let written = self.table(time, &mut stop).await;
            self.status.borrow_mut().is_writing = false;
            match written {
                Ok(Some(size)) => self.written(FileName::new(self.kind, time), size),
                Ok(None) => return,
                Err(failure) => self.failed(failure),
            }
        }
    }

    fn folder(&self) -> PathBuf {
        file::folder(FILES.as_ref(), self.kind)
    }

    /// Waits for the time of the next file; `None` if the task is to end.
    async fn wait(&self, stop: &mut watch::Receiver<bool>) -> Option<u64> {
        tokio::select! {
            _ = stop.wait_for(|stopped| *stopped) => None,
            due = self.due() => Some(due),
        }
    }

    /// Waits for the time of the next file, and returns the time.
    async fn due(&self) -> u64 {
        let mut due = next_time(seconds(), self.interval);
        loop {
            let now = seconds();
            if now >= due {
                return due;
            }
            // The system's time may have been set back.
            due = due.min(next_time(now, self.interval));
            self.status.borrow_mut().next = due;
            tokio::time::sleep(Duration::from_secs(due.saturating_sub(now)).min(LONGEST_WAIT)).await;
        }
    }

    /// Notes a whole file.
    fn written(&self, name: FileName, size: Size) {
        let was_failing = {
            let mut status = self.status.borrow_mut();
            status.newest = Some(name);
            status.files = status.files.saturating_add(1);
            status.routes += size.routes;
            status.messages += size.messages;
            status.octets += size.octets;
            !std::mem::take(&mut status.problem).is_empty()
        };
        if was_failing {
            self.report(&MrtEvent::Restored(self.kind));
        }
    }

    /// Notes a failed file. A repeated failure is reported once.
    fn failed(&self, failure: MrtFailure) {
        let text = failure.to_string();
        let is_new = {
            let mut status = self.status.borrow_mut();
            status.failures += 1;
            std::mem::replace(&mut status.problem, text.clone()) != text
        };
        if is_new {
            self.report(&MrtEvent::Failed(self.kind, failure));
        }
    }

    fn report(&self, event: &MrtEvent) {
        let trace = self.kind.name();
        match event {
            MrtEvent::Failed(..) | MrtEvent::Lost(_) => warn!(event = event.id(), trace, "{event}"),
            MrtEvent::Restored(_) => info!(event = event.id(), trace, "{event}"),
        }
    }
}

/// Returns the system's time, in seconds since 1970.
fn seconds() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
