//! What decides on a router's BGP as a whole: its sessions, its networks, and what is asked of the RIB.
//!
//! Control is one machine however many threads carry routes. It never sees a route: it tells the tables what to do by
//! [`Order`]s, gives each session that comes up a [`Link`] for whoever carries its octets, and hears what became of it.

use super::aggregation::Aggregation;
use super::config::{Config, Identity, NeighborConfig};
use super::damping::Damping;
use super::dynamic::RangeView;
use super::handover::SpeakerState;
use super::injection::InjectionConfig;
use super::limits::PrefixCount;
use super::listen_range::ListenRange;
use super::peer::{Link, Peer};
use super::peers::Peers;
use super::presence::{PresenceQuestion, Presences};
use super::questions::{Asker, Questions, Reply};
use super::redistribution::{Redistributed, RedistributedRoutes};
use crate::endpoints::Endpoints;
use crate::event::{ConnectError, Event, PeerEvent};
use crate::hash::HashSeed;
use crate::intake::{Message, Reading};
use crate::policy::{OriginData, vocabulary};
use crate::reader::ReaderCounters;
use crate::session::{self, ConnectionId, State};
use crate::shard::{Interest, PeerIndex, Sent};
use crate::table::{Order, Spread, Table, TableEvent, Versioned};
use crate::wire::notification::cease;
use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use sluice_base::interest::InterestAnswer;
use sluice_base::prefix::Prefix;
use sluice_base::{
    AnyPrefix, Duration, Instant, IpPrefix, Ipv4Prefix, Ipv6Prefix, Provenance, Rng, XidPrefix,
};
use sluice_machine::{Machine, Outbox};

/// How long neighbors have to come up and tell all their routes before the RIB hears that what was announced is all: as long as
/// the RIB keeps the routes of an earlier life.
pub const GRACE: Duration = Duration::from_secs(120);

/// How long a neighbor that is not back is waited for after the last session came up: the routes of a neighbor that stays away lead
/// nowhere, and those that others withdrew meanwhile are still in use.
const STRAGGLERS: Duration = Duration::from_secs(20);

/// For how long control waits, after something that may have ended the wait for neighbors, before it looks whether that has ended: many
/// neighbors come up together.
const LOOK_DELAY: Duration = Duration::from_millis(100);

/// The time between a change and the moment when the RIB is told backups, if not much else changes meanwhile.
const REST: Duration = Duration::from_secs(2);

/// The time from when a lost neighbor's routes are withdrawn until its address is a gateway like any other: the RIB has taken the
/// withdrawals by then.
const FORGIVEN: Duration = Duration::from_secs(30);

/// What can happen.
#[derive(Clone, PartialEq, Debug)]
pub enum Input {
    /// This is the configuration from now on.
    Configure(Config),
    /// A connection that was asked for is there.
    Connected(IpAddr, ConnectionId, Endpoints),
    /// An address connects; it may be of no neighbor. Comes before [`Input::Accepted`]: if the address is in a listen range that may have
    /// one more neighbor, it is a neighbor's from now on.
    Offered(IpAddr),
    /// A neighbor connected.
    Accepted(IpAddr, ConnectionId, Endpoints),
    /// A connection could not be made or is gone.
    Closed(IpAddr, ConnectionId),
    /// A connection that was asked for could not be made, and why.
    Failed(IpAddr, ConnectionId, ConnectError),
    /// A connection's intake took a message for the session.
    Message(IpAddr, ConnectionId, Message),
    /// UPDATEs came; this was read in the session so far.
    Heard(IpAddr, ConnectionId, ReaderCounters),
    /// UPDATEs were handed to the connection; this was sent in the session so far.
    Sent(IpAddr, ConnectionId, Sent),
    /// The neighbor took octets on the connection, or none wait to be sent there.
    Written(IpAddr, ConnectionId),
    /// An intake found something remarkable.
    Remark(IpAddr, PeerEvent),
    /// The table of this number says something.
    Table(usize, TableEvent),
    /// The RIB says how IPv4 next hops are reached.
    AnswerIpv4(InterestAnswer<Ipv4Prefix>),
    /// The RIB says how IPv6 next hops are reached.
    AnswerIpv6(InterestAnswer<Ipv6Prefix>),
    /// The RIB says how next hops that are XIDs are reached.
    AnswerXid(InterestAnswer<XidPrefix>),
    /// An answer of the RIB holds no longer.
    Invalid(AnyPrefix),
    /// The RIB was restarted.
    RibRestarted,
    /// The RIB says whether it has routes.
    Presence(Vec<(PresenceQuestion, bool)>),
    /// The neighbors with a session when the process before ended, from its note.
    EstablishedBefore(BTreeSet<IpAddr>),
    /// Another epoch of validated ROA payloads.
    Origins(Arc<OriginData>),
    /// Selected routes of redistributed origins changed at the RIB.
    Redistributed(Vec<Redistributed>),
    /// The operator wants a session closed and opened again, with a word to the other operator (RFC 9003).
    Reset(IpAddr, String),
    /// The operator wants a neighbor asked for all its routes (RFC 2918).
    Refresh(IpAddr),
    /// The operator wants the history of a prefix, or all histories, forgotten by flap damping.
    ClearDamping(Option<AnyPrefix>),
    /// The routes of a trace come, as if from a peer of this configuration. For a source that there is already: its configuration changes.
    Inject(Box<InjectionConfig>),
    /// This was read of a trace in its present session so far.
    Injected(IpAddr, ReaderCounters),
    /// The session of the peer ended in the trace, and the next one begins.
    RestartInjection(IpAddr),
    /// The routes of a trace are removed.
    EndInjection(IpAddr),
    /// The router will be silent for a while: every neighbor with a session hears a word.
    Pause,
    /// It is not any more: silence of neighbors counts from now on.
    GoOn,
}

/// What is to be done.
#[derive(Debug)]
pub enum Output {
    /// Connect to the neighbor as its configuration says.
    Connect(IpAddr, ConnectionId),
    /// Close a connection when what was sent on it is written. Its intake is fed no more.
    Close(IpAddr, ConnectionId),
    /// Write a whole message behind what was written before.
    Send(IpAddr, ConnectionId, Vec<u8>),
    /// A session is up: this carries its routes.
    Up(IpAddr, ConnectionId, Box<Link>),
    /// A session of a trace begins, which is read by this.
    Injecting(IpAddr, Box<Reading>),
    /// Tell the table of this number, or every table.
    Order(Option<usize>, Order),
    /// Ask the RIB.
    InterestIpv4(Interest<Ipv4Prefix>),
    /// Ask the RIB.
    InterestIpv6(Interest<Ipv6Prefix>),
    /// Ask the RIB.
    InterestXid(Interest<XidPrefix>),
    /// Ask the RIB whether it has routes, and hear of changes.
    WatchPresence(Vec<PresenceQuestion>),
    /// Take such questions back.
    UnwatchPresence(Vec<PresenceQuestion>),
    /// Tell the RIB whether packets can be sent through a neighbor's address.
    GatewayUsable(IpAddr, bool),
    /// A session came up or ended: [`Control::neighbors_to_remember`] are others.
    SessionsChanged,
    /// Every neighbor has announced all its routes, or the time for that is over: [`Control::have_all_announced`] is true from now on.
    AllAnnounced,
    /// For the log.
    Event(Event),
}

/// The obstacle to asking a neighbor for all its routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RefreshRefusal {
    /// The neighbor's session is in this state and not Established.
    NotEstablished(State),
    /// The neighbor did not announce the capability.
    NotNegotiated,
}

impl fmt::Display for RefreshRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RefreshRefusal::NotEstablished(state) => write!(f, "its session is not Established but {state}"),
            RefreshRefusal::NotNegotiated => {
                f.write_str("it did not announce that it answers ROUTE-REFRESH; `clear bgp neighbor` has it announce all again")
            }
        }
    }
}

/// A router's BGP but for its routes.
pub struct Control {
    pub(super) peers: Peers,
    pub(super) networks: BTreeSet<AnyPrefix>,
    /// The networks that are originated while the RIB has a route to them.
    pub(super) networks_while_present: BTreeSet<IpPrefix>,
    /// The networks that the tables originate.
    pub(super) originated: BTreeSet<AnyPrefix>,
    pub(super) presences: Presences,
    /// True if the tables have the default routes for neighbors with `default-originate`.
    pub(super) originates_defaults: bool,
    /// The names of the policies for the networks.
    pub(super) network_policy: Vec<String>,
    pub(super) redistributed: RedistributedRoutes,
    pub(super) aggregation: Aggregation,
    damping: Damping,
    questions4: Questions<Ipv4Prefix>,
    questions6: Questions<Ipv6Prefix>,
    questions_of_xids: Questions<XidPrefix>,
    spread: Spread,
    pub(super) started: Instant,
    pub(super) all_announced: bool,
    /// The next time to check whether all neighbors have announced all their routes; `None` when that was reported.
    pub(super) look_at: Option<Instant>,
    /// True if there is a RIB, or was one.
    has_rib: bool,
    /// The neighbors with a session when the process before ended; `None` if that is not known.
    before: Option<BTreeSet<IpAddr>>,
    /// The time at which the RIB is told backups, if there are any and the tables are at rest by then.
    backups_at: Option<Instant>,
    /// Neighbors' addresses that the RIB was told not to use, and when that is over, if the neighbor's routes are withdrawn.
    lost: BTreeMap<IpAddr, Option<Instant>>,
}

impl Control {
    /// A router without neighbors that starts to live now.
    pub fn new(identity: Identity, now: Instant) -> Self {
        let mut rng = Rng::from_seed(identity.seed);
        let spread = Spread::new(HashSeed(rng.next_u64()), identity.tables);
        Control {
            peers: Peers::new(identity, rng, spread),
            networks: BTreeSet::new(),
            networks_while_present: BTreeSet::new(),
            originated: BTreeSet::new(),
            presences: Presences::default(),
            originates_defaults: false,
            network_policy: Vec::new(),
            redistributed: RedistributedRoutes::default(),
            aggregation: Aggregation::default(),
            damping: Damping::default(),
            questions4: Questions::default(),
            questions6: Questions::default(),
            questions_of_xids: Questions::default(),
            spread,
            started: now,
            all_announced: false,
            look_at: Some(now + GRACE),
            has_rib: false,
            before: None,
            backups_at: None,
            lost: BTreeMap::new(),
        }
    }

    /// Who has what.
    pub fn spread(&self) -> Spread {
        self.spread
    }

    /// The router's tables, empty.
    pub fn make_tables(&self) -> Vec<Table> {
        let identity = &self.peers.identity;
        let (seed, codes) = (self.spread.seed(), identity.codes);
        let table = || Table::new(identity.router(), seed, codes);
        core::iter::repeat_with(table).take(self.spread.tables()).collect()
    }

    pub(super) fn configure(&mut self, now: Instant, config: Config, out: &mut Outbox<Output>) {
        self.ask_presence(&config, out);
        self.damping.configure(config.damping, self.spread.tables(), out);
        self.peers.configure(now, (config.neighbors, config.ranges), config.policies, out);
        self.networks = config.networks.into_iter().collect();
        self.networks_while_present = config.networks_while_present.into_iter().collect();
        let import = self.peers.bindings.source(&config.network_policy, self.peers.identity.local_as);
        let name = Arc::from(vocabulary::NETWORK_PROTOCOL);
        out.push(Output::Order(None, Order::SetSource(PeerIndex::LOCAL, name, import)));
        self.network_policy = config.network_policy;
        self.originate_networks(out);
        self.originate_defaults(out);
        self.configure_redistribution(config.redistribute, out);
        self.configure_aggregates(config.aggregates, config.aggregate_policy, out);
    }

    fn table_event(&mut self, now: Instant, table: usize, event: TableEvent, out: &mut Outbox<Output>) {
        match event {
            TableEvent::InterestIpv4(family, interest, seen) => {
                let outputs = (Output::InterestIpv4 as fn(_) -> _, Order::AnswerIpv4 as fn(_, _) -> _);
                ask(&mut self.questions4, (table, family), (interest, seen), outputs, out);
            }
            TableEvent::InterestIpv6(family, interest, seen) => {
                let outputs = (Output::InterestIpv6 as fn(_) -> _, Order::AnswerIpv6 as fn(_, _) -> _);
                ask(&mut self.questions6, (table, family), (interest, seen), outputs, out);
            }
            TableEvent::InterestXid(family, interest, seen) => {
                let outputs = (Output::InterestXid as fn(_) -> _, Order::AnswerXid as fn(_, _) -> _);
                ask(&mut self.questions_of_xids, (table, family), (interest, seen), outputs, out);
            }
            TableEvent::Drained(peer, life) => {
                let drained = self.peers.clean(peer, life).and_then(|address| self.lost.get_mut(&address));
                if let Some(until) = drained {
                    *until = Some(now + FORGIVEN);
                }
            }
            TableEvent::Prefixes { peer, life, family, received, accepted } => {
                let count = PrefixCount { received, accepted };
                self.peers.counted(now, table, (peer, life, family), count, out);
            }
            TableEvent::BackupsDue if self.has_rib => {
                self.backups_at.get_or_insert(now + REST);
            }
            TableEvent::BackupsDue => {}
            TableEvent::TurnDue(at) => self.damping.note(table, at),
            TableEvent::Held(peer, life) => self.peers.hold(now, table, (peer, life), out),
            TableEvent::AggregatesDue => self.aggregates_due(now),
            TableEvent::Contributors(contributors) => self.take_contributors(table, contributors, out),
            // Where its session is up again it is another life's.
            TableEvent::GatewayLost(address) => {
                let is_down = self.established(address).is_none();
                if self.has_rib && is_down && self.lost.insert(address, None).is_none() {
                    out.push(Output::GatewayUsable(address, false));
                }
            }
            // The RIB's business and that of stations, not control's.
            TableEvent::RibReady(_) | TableEvent::Monitored => {}
        }
    }

    /// Returns true if every neighbor that is wanted has announced all its routes since the router started, or the time for that is over.
    /// Stays true after [`Output::AllAnnounced`].
    pub fn have_all_announced(&self, now: Instant) -> bool {
        self.all_announced || now >= self.all_announced_by()
    }

    /// Returns the end of the wait for neighbors, provided that no neighbor sends anything more.
    ///
    /// Neighbors without a session are awaited if the process before had a session with them, or if that is not known. They are awaited
    /// for [`STRAGGLERS`] after the last session came up, and for [`GRACE`] where no neighbor is back.
    fn all_announced_by(&self) -> Instant {
        let latest = self.started + GRACE;
        let back = self.peers.configured().filter(|peer| peer.config.enabled);
        let back = back.filter_map(Peer::announced_all_by).max();
        let by = match back {
            Some(by) if self.is_one_missing() => by.max(self.peers.last_up + STRAGGLERS),
            Some(by) => by,
            None if self.is_one_missing() => latest,
            None => self.started,
        };
        by.min(latest)
    }

    /// Returns true if a neighbor is awaited and has no session.
    fn is_one_missing(&self) -> bool {
        let is_absent = |peer: &&Peer| {
            peer.config.enabled && peer.config.range.is_none() && peer.announced_all_by().is_none()
        };
        let mut absent = self.peers.configured().filter(is_absent);
        match &self.before {
            Some(before) => {
                // Dynamic neighbors connect when they like. After a restart their routes are worth the wait.
                let is_dynamic = |address: &&IpAddr| {
                    self.peers.of(**address).is_none()
                        && self.peers.ranges.configs().any(|range| range.contains(**address))
                };
                absent.any(|peer| before.contains(&peer.config.address))
                    || before.iter().any(|a| is_dynamic(&a))
            }
            None => {
                let has_ranges = self.peers.ranges.configs().next().is_some();
                absent.next().is_some() || (self.peers.identity.is_restarted && has_ranges)
            }
        }
    }

    /// Returns the neighbors that the next process should wait for: those with a session, and those that this process still waits for.
    pub fn neighbors_to_remember(&self) -> BTreeSet<IpAddr> {
        let awaited = self.before.iter().flatten().filter(|_| !self.all_announced).copied();
        self.peers.addresses().filter(|address| self.established(*address).is_some()).chain(awaited).collect()
    }

    /// Brings the next check of the wait for neighbors forward: something came that may end that wait.
    fn look_soon(&mut self, now: Instant) {
        self.look_at = self.look_at.map(|at| at.min(now + LOOK_DELAY));
    }

    /// Reports the end of the wait for neighbors, or looks again when it can have come.
    fn look(&mut self, now: Instant, out: &mut Outbox<Output>) {
        if self.have_all_announced(now) {
            self.all_announced = true;
            self.look_at = None;
            self.peers.end_deferral(out);
            out.push(Output::AllAnnounced);
        } else {
            self.look_at = Some(self.all_announced_by());
        }
    }

    /// The addresses of the configured neighbors, in order.
    pub fn neighbors(&self) -> impl Iterator<Item = IpAddr> {
        self.peers.addresses()
    }

    /// Neighbors of whose connections control must know what was read and written before it fires the timers that are due at `now`.
    pub fn due(&self, now: Instant) -> Vec<IpAddr> {
        if self.look_at.is_some_and(|at| at <= now) {
            return self.peers.addresses().collect();
        }
        self.peers.due(now).collect()
    }

    /// The configuration of a neighbor.
    pub fn neighbor_config(&self, address: IpAddr) -> Option<&NeighborConfig> {
        self.peers.config(address)
    }

    /// The listen ranges, longest prefixes first.
    pub fn listen_ranges(&self) -> impl Iterator<Item = &ListenRange> {
        self.peers.ranges.configs()
    }

    /// Returns the views of the listen ranges, in the order of their prefixes.
    pub fn ranges(&self) -> Vec<RangeView> {
        self.peers.range_views()
    }

    /// All that is configured, and the dynamic neighbors.
    pub fn config(&self) -> Config {
        let neighbors = self.peers.addresses().filter_map(|a| self.peers.config(a).cloned());
        Config {
            neighbors: neighbors.collect(),
            ranges: self.peers.ranges.configs().cloned().collect(),
            networks: self.networks.iter().copied().collect(),
            networks_while_present: self.networks_while_present.iter().copied().collect(),
            policies: self.peers.bindings.policies.clone(),
            network_policy: self.network_policy.clone(),
            redistribute: self.redistributed.redistribute.clone(),
            aggregates: self.aggregation.config.clone(),
            aggregate_policy: self.aggregation.policy.clone(),
            damping: self.damping.rules,
        }
    }

    /// Returns the obstacle to asking a neighbor for its routes (RFC 2918); `None` if there is none.
    pub fn refresh_refusal(&self, address: IpAddr) -> Option<RefreshRefusal> {
        let session = &self.peers.of(address)?.session;
        match session.negotiated() {
            None => Some(RefreshRefusal::NotEstablished(session.state())),
            Some(negotiated) if !negotiated.route_refresh => Some(RefreshRefusal::NotNegotiated),
            Some(_) => None,
        }
    }

    /// The connection of a neighbor's session, if it is up.
    pub fn established(&self, address: IpAddr) -> Option<ConnectionId> {
        self.peers.of(address)?.session.established()
    }
}

/// The outputs by which a question of a family is passed on: to the RIB, or as an answer to the table.
type Asking<P> = (fn(Interest<P>) -> Output, fn(Versioned<P>, Provenance) -> Order);

/// Passes a shard's question on to the RIB, or answers it by what the RIB said before. The shard has seen answers up to a number.
fn ask<P: Prefix>(
    questions: &mut Questions<P>,
    shard: Asker,
    (interest, seen): (Interest<P>, u64),
    (to_rib, to_table): Asking<P>,
    out: &mut Outbox<Output>,
) {
    match questions.interest(shard, interest, seen) {
        None => {}
        Some(Reply::Rib(interest)) => out.push(to_rib(interest)),
        Some(Reply::Table(answer)) => {
            out.push(Output::Order(Some(shard.0), to_table(answer, Provenance::NONE)));
        }
    }
}

impl Machine for Control {
    type Input = Input;
    type Output = Output;
    type State = SpeakerState;

    fn handle(&mut self, now: Instant, input: Input, out: &mut Outbox<Output>) {
        let tables = self.spread.tables();
        if matches!(
            input,
            Input::Configure(_) | Input::Message(..) | Input::Remark(..) | Input::EstablishedBefore(_)
        ) {
            self.look_soon(now);
        }
        let peers = &mut self.peers;
        match input {
            Input::Configure(config) => self.configure(now, config, out),
            Input::Offered(address) => peers.offer(now, address, out),
            Input::Connected(..) | Input::Accepted(..) | Input::Closed(..) | Input::Failed(..) => {
                peers.connection_input(now, input, out);
            }
            Input::Message(address, connection, message) => {
                peers.message(now, address, connection, message, out);
                let is_up = !self.lost.is_empty() && self.established(address).is_some();
                if is_up && self.lost.remove(&address).is_some() {
                    out.push(Output::GatewayUsable(address, true));
                }
            }
            Input::Heard(address, connection, read) => peers.heard(now, address, connection, read, out),
            Input::Sent(address, connection, sent) => peers.sent(now, address, connection, sent, out),
            Input::Written(address, connection) => peers.written(now, address, connection),
            Input::Remark(address, what) => peers.remark(address, what, out),
            Input::Table(table, event) => self.table_event(now, table, event, out),
            Input::AnswerIpv4(answer) => {
                let answer = self.questions4.answer(answer, tables);
                out.push(Output::Order(None, Order::AnswerIpv4(answer, peers.draw_provenance())));
            }
            Input::AnswerIpv6(answer) => {
                let answer = self.questions6.answer(answer, tables);
                out.push(Output::Order(None, Order::AnswerIpv6(answer, peers.draw_provenance())));
            }
            Input::AnswerXid(answer) => {
                let answer = self.questions_of_xids.answer(answer, tables);
                out.push(Output::Order(None, Order::AnswerXid(answer, peers.draw_provenance())));
            }
            Input::Invalid(prefix) => {
                prefix.to().into_iter().for_each(|prefix| self.questions4.invalid(prefix));
                prefix.to().into_iter().for_each(|prefix| self.questions6.invalid(prefix));
                prefix.to().into_iter().for_each(|prefix| self.questions_of_xids.invalid(prefix));
                out.push(Output::Order(None, Order::Invalid(prefix)));
            }
            Input::RibRestarted => {
                self.questions4.forget();
                self.questions6.forget();
                self.questions_of_xids.forget();
                self.has_rib = true;
                // The RIB has forgotten them with the origin's life.
                self.lost.clear();
                out.push(Output::Order(None, Order::RibRestarted));
                self.ask_presence_again(out);
            }
            Input::Presence(answers) => self.presence(answers, out),
            Input::EstablishedBefore(before) => self.before = Some(before),
            Input::Origins(data) => out.push(Output::Order(None, Order::SetOrigins(data))),
            Input::Redistributed(changes) => self.redistribute(changes, out),
            Input::Reset(address, text) => {
                if let Some(&index) = peers.by_address.get(&address)
                    && !peers.is_injected(address)
                    && !peers.open_limited(now, index, out)
                {
                    peers.drive(now, index, session::Input::Reset { subcode: cease::RESET, text }, out);
                }
            }
            Input::Refresh(address) => {
                if let Some(&index) = peers.by_address.get(&address) {
                    peers.ask_for_refresh(index, out);
                }
            }
            Input::ClearDamping(prefix) => Damping::clear(prefix, out),
            Input::Inject(config) => peers.inject(now, *config, out),
            Input::Injected(address, read) => peers.injected(address, read),
            Input::RestartInjection(address) => peers.restart_injection(address, out),
            Input::EndInjection(address) => peers.end_injection(address, out),
            Input::Pause => peers.pause(now, out),
            Input::GoOn => peers.go_on(now, out),
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        let forgiven = self.lost.values().flatten().min().copied();
        let restart = self.peers.next_restart();
        let (backups, aggregates) = (self.backups_at, self.aggregation.ask_at);
        let release = self.peers.releases.first().map(|(at, ..)| *at);
        let all = [self.peers.next_deadline(), self.look_at, backups, aggregates, forgiven, restart, release];
        all.into_iter().chain([self.damping.next()]).flatten().min()
    }

    fn on_deadline(&mut self, now: Instant, out: &mut Outbox<Output>) {
        self.peers.on_deadline(now, out);
        self.peers.restart_limited(now, out);
        if self.look_at.is_some_and(|at| at <= now) {
            self.look(now, out);
        }
        let forgiven = self.lost.extract_if(.., |_, until| until.is_some_and(|until| until <= now));
        forgiven.for_each(|(address, _)| out.push(Output::GatewayUsable(address, true)));
        if self.backups_at.take_if(|at| *at <= now).is_some() {
            out.push(Output::Order(None, Order::AnnounceBackups));
        }
        self.ask_for_contributors(now, out);
        self.peers.release(now, out);
        self.damping.turn(now, out);
    }

    fn export(&self) -> SpeakerState {
        self.export_state()
    }

    fn import(&mut self, now: Instant, state: SpeakerState, out: &mut Outbox<Output>) {
        self.import_state(now, state, out);
    }
}

#[cfg(test)]
mod tests;
