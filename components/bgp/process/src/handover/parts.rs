//! The parts of BGP's state, in their order.

use sluice_process::StatePart;
use sluice_process::handover::Versions;

/// Identity, configuration, sessions, aggregates: [`sluice_bgp::speaker::SpeakerState`].
pub(crate) const SPEAKER: StatePart = StatePart::new("bgp.speaker", Versions::only(1));
/// Redistributed routes of other origins, in pieces.
pub(crate) const REDISTRIBUTED: StatePart = StatePart::new("bgp.redistributed", Versions::only(1));
/// Validated payloads (RFC 6811) and ASPAs, in pieces.
pub(crate) const VALIDATION: StatePart = StatePart::new("bgp.validation", Versions::only(1));
/// The connections of established sessions, with their sockets.
pub(crate) const CONNECTIONS: StatePart = StatePart::new("bgp.connections", Versions::only(1));
/// Next hops, histories of damped routes and paths of all families in pieces ([`sluice_bgp::table::TablePart`]), and their
/// fingerprint.
pub(crate) const PATHS: StatePart = StatePart::new("bgp.paths", Versions::only(1));
/// The listeners, with their sockets.
pub(crate) const LISTENERS: StatePart = StatePart::new("bgp.listeners", Versions::only(1));

/// All of them.
pub(crate) const ALL: &[StatePart] = &[SPEAKER, REDISTRIBUTED, VALIDATION, CONNECTIONS, PATHS, LISTENERS];
