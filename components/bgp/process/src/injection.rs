//! Injections: traces (MRT, RFC 6396) whose routes come as if from a neighbor without a session.
//!
//! A client reads the trace and sends the octets in calls, so the process needs no right to the file. A task on the threads for
//! routes reads each call like a connection, and replies when the tables have taken the routes: a client is as fast as the
//! tables, and memory holds at most a call's octets and an incomplete record of each injection.
//!
//! Injected routes stay until the injection is ended. A live upgrade leaves out injected routes: the old process removes the
//! routes.

use crate::BgpProcess;
use crate::executor::yield_now;
use crate::idl::bgp::v1 as pb;
use crate::transport::reader::Mailboxes;
use crate::values::{address, not_configured};
use sluice_base::Asn;
use sluice_bgp::batch::Batches;
use sluice_bgp::injection::{
    Injected, InjectionCounts, InjectionEnd, InjectionError, InjectionEvent, Injector,
};
use sluice_bgp::intake::Reading;
use sluice_bgp::reader::ReaderCounters;
use sluice_bgp::speaker::control::Input;
use sluice_bgp::speaker::{InjectionConfig, NeighborConfig, PrefixCounts, Settings};
use sluice_bgp::table::Table;
use sluice_xrl::XrlError;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;
use tracing::{info, warn};

/// The most injections at a time.
const MOST: usize = 64;

/// An operator's request for an injection.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Wanted {
    peer_as: Option<Asn>,
    group: Option<String>,
    is_installed: bool,
}

/// The state of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
enum TraceState {
    Reading,
    Whole,
    Failed(String),
}

/// An injection.
struct Source {
    wanted: Wanted,
    peer: IpAddr,
    file: String,
    state: TraceState,
    /// The reader of the trace; `None` during the reading of a call.
    injector: Option<Box<Injector>>,
    counts: InjectionCounts,
    others: Vec<IpAddr>,
}

/// The injections of the process.
#[derive(Default)]
pub struct Injections {
    settings: RefCell<Option<Settings>>,
    sources: RefCell<BTreeMap<IpAddr, Source>>,
    /// Sessions begun by control, until the traces' readers take the sessions.
    sessions: RefCell<BTreeMap<IpAddr, Reading>>,
}

impl Injections {
    /// Takes the session of a trace.
    pub fn begin_session(&self, source: IpAddr, reading: Reading) {
        self.sessions.borrow_mut().insert(source, reading);
    }

    fn take_session(&self, source: IpAddr) -> Option<Reading> {
        self.sessions.borrow_mut().remove(&source)
    }
}

/// The octets of a call after the reading.
struct Read {
    injector: Box<Injector>,
    records: Vec<u8>,
    /// The number of octets taken from `records`.
    taken: usize,
    result: Result<Injected, InjectionError>,
}

/// Reads octets until every octet is taken, or until the caller has to act. The tables have the routes afterwards.
async fn read(mut injector: Box<Injector>, records: Vec<u8>, from: usize, post: Arc<Mailboxes>) -> Read {
    let mut batches: Vec<Batches> = post.tables.iter().map(|_| Batches::default()).collect();
    let mut octets = &records[from..];
    let result = loop {
        let (peer, life) = (injector.reading().peer, injector.reading().life);
        let taken = injector.take(&mut octets, &mut batches);
        for (table, batches) in post.tables.iter().zip(&mut batches) {
            if !batches.is_empty() {
                table.hand_over(peer, life, batches).await;
            }
        }
        if taken != Ok(Injected::Full) {
            break taken;
        }
        // Neighbors are read in between.
        yield_now().await;
    };
    let taken = records.len() - octets.len();
    Read { injector, records, taken, result }
}

fn refused(reason: impl std::fmt::Display) -> XrlError {
    XrlError::application(5, reason.to_string())
}

fn unknown(source: IpAddr) -> XrlError {
    XrlError::application(3, format!("there is no injection {source}"))
}

impl BgpProcess {
    /// Begins an injection.
    pub(crate) fn begin_injection(&self, request: pb::BeginInjectionRequest) -> Result<(), XrlError> {
        let source = address(&request.source)?;
        let peer = if request.peer.is_empty() { source } else { address(&request.peer)? };
        let wanted = Wanted {
            peer_as: Some(Asn(request.peer_as)).filter(|asn| asn.0 != 0),
            group: Some(request.group).filter(|group| !group.is_empty()),
            is_installed: request.install,
        };
        if self.handover.is_asleep() {
            return Err(refused("another process takes over"));
        }
        let known =
            self.read(|control| control.neighbor_config(source).is_some() && !control.is_injected(source));
        if known.ok_or_else(not_configured)? {
            return Err(refused(format!("{source} is a neighbor, and no source of injected routes")));
        }
        let config = self.injection_config(source, &wanted)?;
        let mut sources = self.injections.sources.borrow_mut();
        let before = sources.get_mut(&source);
        if let Some(before) = &before {
            if before.state == TraceState::Reading {
                return Err(refused(format!(
                    "a trace is being injected as {source} already; `request bgp stop-injection {source}` ends that"
                )));
            }
            if before.wanted != wanted {
                return Err(refused(format!(
                    "{source} is there with another AS, group or `install`; `request bgp stop-injection {source}` ends that"
                )));
            }
        } else if sources.len() >= MOST {
            return Err(refused(format!("there are {MOST} injections, and no more at a time")));
        }
        let reading = match sources.remove(&source).and_then(|before| before.injector) {
            Some(injector) => injector.into_reading(),
            None => {
                let config = InjectionConfig { neighbor: config, is_installed: wanted.is_installed };
                self.input(Input::Inject(Box::new(config)));
                let reading = self.injections.take_session(source);
                reading.ok_or_else(|| refused("there are as many neighbors as may be"))?
            }
        };
        let entry = Source {
            wanted,
            peer,
            file: request.file,
            state: TraceState::Reading,
            injector: Some(Box::new(Injector::new(reading, peer))),
            counts: InjectionCounts::default(),
            others: Vec::new(),
        };
        sources.insert(source, entry);
        report(source, &InjectionEvent::Begun(peer));
        Ok(())
    }

    fn injection_config(&self, source: IpAddr, wanted: &Wanted) -> Result<NeighborConfig, XrlError> {
        let settings = self.injections.settings.borrow();
        let settings = settings.as_ref().ok_or_else(not_configured)?;
        settings.injection(source, wanted.peer_as, wanted.group.as_deref()).map_err(refused)
    }

    /// Takes octets of a trace. Returns when the tables have the routes.
    pub(crate) async fn inject(&self, source: IpAddr, records: Vec<u8>) -> Result<(), XrlError> {
        let me = self.me.upgrade().ok_or_else(not_configured)?;
        // A task of its own, which comes to its end also if nobody waits for the reply.
        let task = tokio::task::spawn_local(async move { me.inject_all(source, records).await });
        task.await.unwrap_or_else(|error| Err(refused(error)))
    }

    async fn inject_all(&self, source: IpAddr, mut records: Vec<u8>) -> Result<(), XrlError> {
        let core = self.core().ok_or_else(not_configured)?;
        let mut injector = {
            let mut sources = self.injections.sources.borrow_mut();
            let known = sources.get_mut(&source).ok_or_else(|| unknown(source))?;
            if known.state != TraceState::Reading {
                return Err(refused(format!("no trace is being injected as {source}")));
            }
            known.injector.take().ok_or_else(|| refused(format!("another call injects as {source}")))?
        };
        let mut from = 0;
        loop {
            let pool = core.pool.borrow().clone();
            let place = usize::from(injector.reading().peer.0);
            let reading = pool.spawn(place, read(injector, records, from, Arc::clone(&core.post)));
            let read = reading.await.map_err(|_| refused("the process ends"))?;
            self.input(Input::Injected(source, read.injector.reading().reader.counters));
            (injector, records, from) = (read.injector, read.records, read.taken);
            let is_over = match read.result {
                Ok(Injected::SessionOver) => true,
                Ok(_) => return self.injected(source, injector, None),
                Err(error) => return self.injected(source, injector, Some(error)),
            };
            if is_over {
                self.input(Input::RestartInjection(source));
                let reading = self.injections.take_session(source).ok_or_else(|| unknown(source))?;
                injector.open(reading);
            }
        }
    }

    /// Puts the reader of a trace back.
    fn injected(
        &self,
        source: IpAddr,
        injector: Box<Injector>,
        error: Option<InjectionError>,
    ) -> Result<(), XrlError> {
        let mut sources = self.injections.sources.borrow_mut();
        // The injection may have been ended meanwhile, or ended and begun anew.
        let known = sources.get_mut(&source).filter(|known| known.injector.is_none());
        let known = known.ok_or_else(|| unknown(source))?;
        known.note(&injector);
        known.injector = Some(injector);
        match error {
            None => Ok(()),
            Some(error) => Err(known.fail(source, error)),
        }
    }

    /// Notes the end of a complete trace.
    pub(crate) fn finish_injection(&self, source: IpAddr) -> Result<pb::Injection, XrlError> {
        let mut sources = self.injections.sources.borrow_mut();
        let known = sources.get_mut(&source).ok_or_else(|| unknown(source))?;
        if known.state != TraceState::Reading {
            return Err(refused(format!("no trace is being injected as {source}")));
        }
        let Some(injector) = &known.injector else {
            return Err(refused(format!("another call injects as {source}")));
        };
        if let Err(error) = injector.finish() {
            return Err(known.fail(source, error));
        }
        known.state = TraceState::Whole;
        report(source, &InjectionEvent::Whole(known.counts.updates));
        Ok(self.injection_view(source, known, 0))
    }

    /// Ends an injection, or every injection for an empty text. Returns the number of ended injections.
    pub(crate) fn stop_injections(&self, text: &str) -> Result<u32, XrlError> {
        if text.is_empty() {
            return Ok(self.end_injections(InjectionEnd::Request));
        }
        let source = address(text)?;
        if self.injections.sources.borrow_mut().remove(&source).is_none() {
            return Err(unknown(source));
        }
        self.input(Input::EndInjection(source));
        report(source, &InjectionEvent::Ended(InjectionEnd::Request));
        Ok(1)
    }

    /// Ends every injection.
    pub(crate) fn end_injections(&self, end: InjectionEnd) -> u32 {
        let sources = self.injections.sources.take();
        let event = InjectionEvent::Ended(end);
        for source in sources.keys() {
            self.input(Input::EndInjection(*source));
            report(*source, &event);
        }
        u32::try_from(sources.len()).unwrap_or(u32::MAX)
    }

    /// Applies the configuration: the statements of groups hold for injections too. Import policy is applied at once, further
    /// statements in the next session.
    pub(crate) fn configure_injections(&self, settings: Settings) {
        self.injections.settings.replace(Some(settings));
        let sources: Vec<(IpAddr, Wanted)> = {
            let sources = self.injections.sources.borrow();
            sources.iter().map(|(source, known)| (*source, known.wanted.clone())).collect()
        };
        for (source, wanted) in sources {
            let is_there = self.read(|control| control.is_injected(source)).unwrap_or(false);
            let end = if is_there {
                match self.injection_config(source, &wanted) {
                    Ok(neighbor) => {
                        let is_installed = wanted.is_installed;
                        self.input(Input::Inject(Box::new(InjectionConfig { neighbor, is_installed })));
                        continue;
                    }
                    Err(error) => InjectionEnd::Configuration(error.to_string()),
                }
            } else {
                InjectionEnd::Neighbor
            };
            self.injections.sources.borrow_mut().remove(&source);
            self.input(Input::EndInjection(source));
            report(source, &InjectionEvent::Ended(end));
        }
    }

    /// Returns the injections, for operators.
    pub(crate) async fn injections(&self) -> Result<Vec<pb::Injection>, XrlError> {
        let all: Vec<IpAddr> = self.injections.sources.borrow().keys().copied().collect();
        let mut views = Vec::new();
        for source in all {
            let index = self.read(|control| control.neighbor_index(source)).flatten();
            let Some(index) = index else { continue };
            let counts = self.ask_all(move |table: &Table| table.counts(index)).await?;
            let counts: PrefixCounts = counts.into_iter().sum();
            let routes = counts.received.iter().map(|(_, count)| u64::from(*count)).sum();
            let sources = self.injections.sources.borrow();
            views.extend(sources.get(&source).map(|known| self.injection_view(source, known, routes)));
        }
        Ok(views)
    }

    fn injection_view(&self, source: IpAddr, known: &Source, routes: u64) -> pb::Injection {
        let (read, peer_as): (ReaderCounters, u32) = self
            .read(|control| {
                let peer_as = control.neighbor_config(source).map_or(0, |config| config.peer_as.0);
                (control.injection_counters(source).unwrap_or_default(), peer_as)
            })
            .unwrap_or_default();
        let (state, problem) = match &known.state {
            TraceState::Reading => ("reading", String::new()),
            TraceState::Whole => ("whole", String::new()),
            TraceState::Failed(problem) => ("failed", problem.clone()),
        };
        let counts = &known.counts;
        pb::Injection {
            source: source.to_string(),
            peer_as,
            group: known.wanted.group.clone().unwrap_or_default(),
            peer: known.peer.to_string(),
            installed: known.wanted.is_installed,
            state: state.into(),
            file: known.file.clone(),
            records: counts.records,
            octets: counts.octets,
            updates: counts.updates,
            of_others: counts.of_others,
            skipped: counts.skipped,
            sessions: counts.sessions,
            treated_as_withdraw: read.treated_as_withdraw,
            loops: read.loops,
            routes,
            problem,
            others: known.others.iter().map(ToString::to_string).collect(),
        }
    }
}

impl Source {
    fn note(&mut self, injector: &Injector) {
        self.counts = injector.counts().clone();
        self.others = injector.others().iter().copied().collect();
    }

    /// Notes a failure of reading the trace, and returns the error for the client.
    fn fail(&mut self, source: IpAddr, error: InjectionError) -> XrlError {
        self.state = TraceState::Failed(error.to_string());
        let refusal = refused(&error);
        report(source, &InjectionEvent::Failed(error));
        refusal
    }
}

fn report(source: IpAddr, event: &InjectionEvent) {
    match event {
        InjectionEvent::Failed(_) => warn!(event = event.id(), %source, "{event}"),
        _ => info!(event = event.id(), %source, "{event}"),
    }
}
