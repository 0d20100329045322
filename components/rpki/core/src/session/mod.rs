//! The router's side of a session with one cache (RFC 8210, sections 6 to 8).
//!
//! ```text
//! Waiting -> Connecting -> Querying -> Receiving -> Ready -> Querying ...
//!    ^            |            |           |          |
//!    +------------+------------+-----------+----------+   failure: again after a while
//! ```
//!
//! An answer's data are gathered apart and take effect at End of Data.

mod state;

pub(crate) use state::SessionState;
pub use state::{CacheData, Counters};

use crate::event::Failure;
use crate::serial::Serial;
use crate::settings::CacheSettings;
use crate::transfer::Transfer;
use crate::wire::{self, ErrorCode, ErrorReport, Intervals, NEWEST, Pdu, Version};
use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use sluice_base::Instant;
use sluice_machine::Timers;
use sluice_validation::VrpTable;

/// The longest wait for the next PDU of an answer.
const ANSWER: Duration = Duration::from_secs(60);

/// The wait after the first failure; each further failure doubles the wait.
const FIRST_RETRY: Duration = Duration::from_secs(2);

/// The least time between two queries, whatever the cache asks for.
const LEAST_REFRESH: Duration = Duration::from_secs(1);

/// The most octets of a PDU that go back to the cache in an error report.
const MOST_QUOTED: usize = 256;

/// The kind of a query.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Query {
    /// For all data.
    Reset,
    /// For changes.
    Serial,
}

/// The state of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// No connection is wanted.
    Idle,
    /// The last attempt failed, and the next one comes after a while.
    Waiting,
    /// A connection is being made.
    Connecting,
    /// A query was sent.
    Querying(Query),
    /// An answer is coming in.
    Receiving(Query),
    /// The data are complete.
    Ready,
    /// The connected cache has no data yet; the next query follows after a while.
    NoData,
}

impl Phase {
    /// Returns the name for operators.
    pub const fn name(self) -> &'static str {
        match self {
            Phase::Idle => "idle",
            Phase::Waiting => "waiting",
            Phase::Connecting => "connecting",
            Phase::Querying(_) => "querying",
            Phase::Receiving(_) => "receiving",
            Phase::Ready => "ready",
            Phase::NoData => "no-data",
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Timer {
    Retry,
    Refresh,
    Expire,
    Answer,
}

/// An effect of a session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Make a connection.
    Connect,
    /// Send octets.
    Send(Vec<u8>),
    /// Close the connection, once everything is sent.
    Close,
    /// A session or an attempt ended.
    Failed(Failure),
    /// The cache's data are complete.
    Synchronized,
    /// The data are too old, and were dropped.
    Expired,
}

/// A session with a cache.
#[derive(Debug)]
pub struct Session {
    settings: CacheSettings,
    phase: Phase,
    version: Version,
    is_negotiated: bool,
    /// True from End of Data until the connection ends.
    is_current: bool,
    buffer: Vec<u8>,
    transfer: Option<Transfer>,
    data: Option<CacheData>,
    /// True if the next query asks for all data: cache and router may disagree on what the router has.
    needs_reset: bool,
    intervals: Intervals,
    /// Ends of Data on the present connection.
    answers: u32,
    /// Failures since the last End of Data.
    failures: u32,
    last_failure: Option<Failure>,
    counters: Counters,
    timers: Timers<Timer>,
}

impl Session {
    /// Makes a session without a connection.
    pub fn new(settings: CacheSettings) -> Self {
        Session {
            settings,
            phase: Phase::Idle,
            version: NEWEST,
            is_negotiated: false,
            is_current: false,
            buffer: Vec::new(),
            transfer: None,
            data: None,
            needs_reset: false,
            intervals: Intervals::RECOMMENDED,
            answers: 0,
            failures: 0,
            last_failure: None,
            counters: Counters::default(),
            timers: Timers::default(),
        }
    }

    /// Returns the settings.
    pub fn settings(&self) -> &CacheSettings {
        &self.settings
    }

    /// Returns the state.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the version of the session, or of the next query.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the unexpired data.
    pub fn data(&self) -> Option<&CacheData> {
        self.data.as_ref()
    }

    /// Returns the number of failures since the last End of Data.
    pub fn failures(&self) -> u32 {
        self.failures
    }

    /// Returns the reason of the last failure since the last End of Data.
    pub(crate) fn last_failure(&self) -> Option<&Failure> {
        self.last_failure.as_ref()
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Returns the moment at which the data expire.
    pub(crate) fn expires_at(&self) -> Option<Instant> {
        self.timers.deadline(Timer::Expire)
    }

    /// Returns true if the present connection has brought complete data.
    pub fn is_synchronized(&self) -> bool {
        self.is_current && self.data.is_some()
    }

    /// Returns true if the last answer is the first on the present connection.
    pub(crate) fn is_first_answer(&self) -> bool {
        self.answers == 1
    }

    /// Returns true if another cache is to be asked meanwhile: the last attempt failed, or the cache has no data.
    pub(crate) fn is_hopeless(&self) -> bool {
        matches!(self.phase, Phase::Waiting | Phase::NoData) || self.failures > 0 && !self.is_current
    }

    /// Changes times and preference.
    pub fn set_settings(&mut self, now: Instant, settings: CacheSettings) {
        self.settings = settings;
        if self.data.is_some() {
            self.start_expiry(now);
        }
        if self.phase == Phase::Ready {
            self.timers.start(now, Timer::Refresh, self.refresh());
        }
    }

    fn refresh(&self) -> Duration {
        self.settings.refresh.unwrap_or(self.intervals.refresh).max(LEAST_REFRESH)
    }

    fn longest_retry(&self) -> Duration {
        self.settings.retry.unwrap_or(self.intervals.retry).max(LEAST_REFRESH)
    }

    /// Starts the time after which the data are void, counted from End of Data.
    fn start_expiry(&mut self, now: Instant) {
        let Some(data) = &self.data else { return };
        let longest =
            self.settings.expire.map_or(self.intervals.expire, |most| most.min(self.intervals.expire));
        let left = longest.saturating_sub(now.saturating_since(data.received));
        self.timers.start(now, Timer::Expire, left);
    }

    /// Begins to make a connection in the state Idle.
    pub fn open(&mut self, actions: &mut Vec<Action>) {
        if self.phase == Phase::Idle {
            self.phase = Phase::Connecting;
            actions.push(Action::Connect);
        }
    }

    /// Ends the connection and drops the data.
    pub fn close(&mut self, actions: &mut Vec<Action>) {
        if !matches!(self.phase, Phase::Idle | Phase::Waiting) {
            actions.push(Action::Close);
        }
        self.disconnect();
        self.phase = Phase::Idle;
        self.failures = 0;
        self.data = None;
        self.needs_reset = false;
        self.timers.clear();
    }

    fn disconnect(&mut self) {
        self.buffer = Vec::new();
        self.transfer = None;
        self.is_negotiated = false;
        self.is_current = false;
        self.answers = 0;
        for timer in [Timer::Retry, Timer::Refresh, Timer::Answer] {
            self.timers.stop(timer);
        }
    }

    /// Notes a connection: a query goes out.
    pub fn connected(&mut self, now: Instant, actions: &mut Vec<Action>) {
        if self.phase == Phase::Connecting {
            self.query(now, actions);
        }
    }

    /// Notes that the connection ended, or could not be made.
    pub fn closed(&mut self, now: Instant, failure: Failure, actions: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Idle | Phase::Waiting) {
            return;
        }
        if matches!(failure, Failure::Connect(_)) {
            // The next one to answer there may know a newer version again.
            self.version = NEWEST;
        }
        // A cache that knows version 0 alone may close the connection without a word (RFC 8210, section 7).
        let may_be_version =
            failure == Failure::Closed && !self.is_negotiated && self.phase != Phase::Connecting;
        if may_be_version && self.version.0 > 0 && self.failures > 0 {
            self.version = Version(self.version.0 - 1);
        }
        self.fail(now, failure, actions);
    }

    /// Sends a serial query with data of the version that no failure has put in doubt, else a reset query.
    fn query(&mut self, now: Instant, actions: &mut Vec<Action>) {
        let is_commensurate = |data: &&CacheData| data.version == self.version && !self.needs_reset;
        let (query, pdu) = match self.data.as_ref().filter(is_commensurate) {
            Some(data) => (Query::Serial, Pdu::SerialQuery { session: data.session, serial: data.serial }),
            None => (Query::Reset, Pdu::ResetQuery),
        };
        self.ask(now, query, &pdu, actions);
    }

    fn ask(&mut self, now: Instant, query: Query, pdu: &Pdu, actions: &mut Vec<Action>) {
        self.transfer = None;
        self.phase = Phase::Querying(query);
        self.timers.stop(Timer::Refresh);
        self.timers.stop(Timer::Retry);
        self.timers.start(now, Timer::Answer, ANSWER);
        self.send(pdu, actions);
    }

    fn send(&self, pdu: &Pdu, actions: &mut Vec<Action>) {
        let mut octets = Vec::new();
        pdu.encode(self.version, &mut octets);
        actions.push(Action::Send(octets));
    }

    /// Ends the connection. The wait for the next attempt doubles from failure to failure. After a fatal error in either direction, and
    /// after a serial query without a complete answer, the next query asks for all data: the same serial query would fail again, until
    /// the data expire.
    fn fail(&mut self, now: Instant, failure: Failure, actions: &mut Vec<Action>) {
        let is_unanswered =
            matches!(self.phase, Phase::Querying(Query::Serial) | Phase::Receiving(Query::Serial));
        self.needs_reset |= is_unanswered || failure.is_error();
        self.disconnect();
        if failure.voids_data() {
            self.data = None;
            self.timers.stop(Timer::Expire);
        }
        self.counters.failures += 1;
        let doubled = FIRST_RETRY * (1 << self.failures.min(16));
        self.failures = self.failures.saturating_add(1);
        self.phase = Phase::Waiting;
        self.timers.start(now, Timer::Retry, doubled.min(self.longest_retry()));
        self.last_failure = Some(failure.clone());
        actions.push(Action::Failed(failure));
    }

    /// Sends an error report, if the failure has a code, and ends the connection.
    fn refuse(&mut self, now: Instant, failure: Failure, pdu: &[u8], actions: &mut Vec<Action>) {
        if let Some(code) = failure.code() {
            let pdu = pdu[..pdu.len().min(MOST_QUOTED)].to_vec();
            let report = ErrorReport { code, pdu, text: failure.to_string() };
            self.send(&Pdu::ErrorReport(report), actions);
        }
        actions.push(Action::Close);
        self.fail(now, failure, actions);
    }

    /// Connects again at once, to speak an older version.
    fn downgrade(&mut self, version: Version, actions: &mut Vec<Action>) {
        self.disconnect();
        self.version = version;
        self.phase = Phase::Connecting;
        actions.push(Action::Close);
        actions.push(Action::Connect);
    }

    /// Takes octets from the cache.
    pub fn receive(&mut self, now: Instant, octets: &[u8], actions: &mut Vec<Action>) {
        let mut buffer = core::mem::take(&mut self.buffer);
        buffer.extend_from_slice(octets);
        let mut start = 0;
        while !matches!(self.phase, Phase::Idle | Phase::Waiting | Phase::Connecting) {
            let rest = &buffer[start..];
            match wire::decode(rest) {
                Ok(None) => {
                    buffer.drain(..start);
                    self.buffer = buffer;
                    return;
                }
                Ok(Some(decoded)) => {
                    start += decoded.len;
                    self.counters.received += 1;
                    self.pdu(now, decoded.version, decoded.pdu, &rest[..decoded.len], actions);
                }
                Err(error) => {
                    self.refuse(now, Failure::Malformed(error), rest, actions);
                    if error.is_of_aspa() {
                        // A cache with an earlier draft of version 2: its VRPs are sound in version 1.
                        self.version = Version(1);
                    }
                }
            }
        }
    }

    fn pdu(&mut self, now: Instant, version: Version, pdu: Pdu, octets: &[u8], actions: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Querying(_) | Phase::Receiving(_)) {
            self.timers.start(now, Timer::Answer, ANSWER);
        }
        if !self.is_negotiated {
            match &pdu {
                Pdu::SerialNotify { .. } => return,
                Pdu::ErrorReport(report) if report.code == ErrorCode::UNSUPPORTED_VERSION => {
                    let older = Version(self.version.0.saturating_sub(1)).min(version);
                    if older < self.version {
                        return self.downgrade(older, actions);
                    }
                }
                Pdu::ErrorReport(_) => {}
                // The cache answers in its own version (RFC 8210, section 7). A serial number is of one version.
                _ if version < self.version && self.phase == Phase::Querying(Query::Serial) => {
                    return self.downgrade(version, actions);
                }
                _ => {
                    self.version = self.version.min(version);
                    self.is_negotiated = true;
                }
            }
        }
        if let Pdu::ErrorReport(report) = pdu {
            return self.error(now, report, actions);
        }
        if version != self.version {
            return self.refuse(now, Failure::OtherVersion(version), octets, actions);
        }
        if let Err(failure) = self.take(now, &pdu, actions) {
            self.refuse(now, failure, octets, actions);
        }
    }

    fn error(&mut self, now: Instant, report: ErrorReport, actions: &mut Vec<Action>) {
        if report.code == ErrorCode::NO_DATA && matches!(self.phase, Phase::Querying(_)) {
            self.timers.stop(Timer::Answer);
            self.phase = Phase::NoData;
            self.is_current = false;
            // Queries for all data follow (RFC 8210, section 8.4).
            self.needs_reset = true;
            self.timers.start(now, Timer::Retry, self.longest_retry().min(ANSWER));
            self.last_failure = Some(Failure::Reported(report.clone()));
            actions.push(Action::Failed(Failure::Reported(report)));
            return;
        }
        actions.push(Action::Close);
        self.fail(now, Failure::Reported(report), actions);
    }

    /// Takes a PDU of the session's version.
    fn take(&mut self, now: Instant, pdu: &Pdu, actions: &mut Vec<Action>) -> Result<(), Failure> {
        let unexpected = Failure::Unexpected(pdu.name());
        match (pdu, self.phase) {
            (Pdu::SerialNotify { session, serial }, phase) => {
                if self.cache_session().is_some_and(|known| known != *session) {
                    return Err(Failure::OtherSession);
                }
                if phase == Phase::Ready && self.data.as_ref().is_some_and(|data| data.serial != *serial) {
                    self.query(now, actions);
                }
            }
            (Pdu::CacheResponse { session }, Phase::Querying(query)) => {
                let is_other = self.data.as_ref().is_some_and(|data| data.session != *session);
                if query == Query::Serial && is_other {
                    return Err(Failure::OtherSession);
                }
                self.transfer = Some(Transfer::new(*session));
                self.phase = Phase::Receiving(query);
            }
            (Pdu::CacheReset, Phase::Querying(Query::Serial)) => {
                self.ask(now, Query::Reset, &Pdu::ResetQuery, actions);
            }
            (Pdu::Prefix(vrp, is_announced), Phase::Receiving(query)) => {
                let before = self.data.as_ref().filter(|_| query == Query::Serial).map(|data| &*data.table);
                if let Some(transfer) = &mut self.transfer {
                    transfer.gather(before, *vrp, *is_announced)?;
                }
            }
            (Pdu::Aspa(customer, providers), Phase::Receiving(query)) => {
                let before = self.data.as_ref().filter(|_| query == Query::Serial).map(|data| &*data.table);
                if let Some(transfer) = &mut self.transfer {
                    transfer.gather_aspa(before, *customer, providers.clone())?;
                }
            }
            (Pdu::RouterKey(_), Phase::Receiving(_)) => self.counters.router_keys += 1,
            (Pdu::EndOfData { session, serial, intervals }, Phase::Receiving(query)) => {
                let transfer = self.transfer.take().filter(|transfer| transfer.session() == *session);
                let transfer = transfer.ok_or(Failure::OtherSession)?;
                let table = self.finish(query, transfer, *serial)?;
                self.intervals = bounded(intervals.unwrap_or(Intervals::RECOMMENDED));
                self.data = Some(CacheData {
                    table,
                    session: *session,
                    serial: *serial,
                    version: self.version,
                    received: now,
                });
                self.needs_reset = false;
                self.phase = Phase::Ready;
                self.is_current = true;
                self.answers = self.answers.saturating_add(1);
                self.failures = 0;
                self.last_failure = None;
                self.timers.stop(Timer::Answer);
                self.timers.start(now, Timer::Refresh, self.refresh());
                self.start_expiry(now);
                actions.push(Action::Synchronized);
            }
            _ => return Err(unexpected),
        }
        Ok(())
    }

    /// Returns the session number of the cache; `None` while the answer to a reset query may begin another session.
    fn cache_session(&self) -> Option<u16> {
        match self.phase {
            Phase::Querying(Query::Reset) | Phase::NoData => None,
            Phase::Receiving(_) => self.transfer.as_ref().map(Transfer::session),
            _ => self.data.as_ref().map(|data| data.session),
        }
    }

    /// Returns the data after an answer.
    fn finish(&mut self, query: Query, transfer: Transfer, serial: Serial) -> Result<Arc<VrpTable>, Failure> {
        let before = self.data.as_ref().filter(|_| query == Query::Serial);
        if before.is_some_and(|before| serial.is_before(before.serial)) {
            return Err(Failure::SerialWentBack);
        }
        let table = transfer.finish(before.map(|before| &before.table))?;
        match query {
            Query::Reset => self.counters.resets += 1,
            Query::Serial => self.counters.updates += 1,
        }
        Ok(table)
    }

    /// Returns the moment of the next timer.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.timers.next_deadline()
    }

    /// Fires due timers.
    pub fn on_deadline(&mut self, now: Instant, actions: &mut Vec<Action>) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Expire => {
                    self.data = None;
                    actions.push(Action::Expired);
                    // What comes next must be whole.
                    if matches!(self.phase, Phase::Querying(Query::Serial) | Phase::Receiving(Query::Serial))
                    {
                        actions.push(Action::Close);
                        self.fail(now, Failure::Silent, actions);
                    }
                }
                Timer::Refresh => self.query(now, actions),
                Timer::Answer => {
                    actions.push(Action::Close);
                    self.fail(now, Failure::Silent, actions);
                }
                Timer::Retry if self.phase == Phase::NoData => self.query(now, actions),
                Timer::Retry => {
                    self.phase = Phase::Connecting;
                    actions.push(Action::Connect);
                }
            }
        }
    }
}

/// Returns times within the bounds of RFC 8210, section 6.
fn bounded(asked: Intervals) -> Intervals {
    let bounded = |time: Duration, least: u64, most: u64| {
        time.clamp(Duration::from_secs(least), Duration::from_secs(most))
    };
    Intervals {
        refresh: bounded(asked.refresh, 1, 86_400),
        retry: bounded(asked.retry, 1, 7_200),
        expire: bounded(asked.expire, 600, 172_800),
    }
}
