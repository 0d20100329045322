//! Stations as operators see them.

use super::StationStatus;
use crate::idl::bgp::v1 as pb;
use crate::values::ms;
use sluice_bgp::bmp::StationSettings;
use sluice_process::clock;

/// Returns a station as a message.
pub fn station((settings, status): (StationSettings, StationStatus)) -> pb::Station {
    let counters = status.counters();
    pb::Station {
        address: settings.address.to_string(),
        port: settings.port.into(),
        monitor: settings.ribs().iter().map(|rib| rib.name().into()).collect(),
        name: settings.name,
        state: status.state.name().into(),
        state_ms: ms(clock::now().saturating_since(status.since)),
        peers: u32::try_from(status.peers).unwrap_or(u32::MAX),
        messages: counters.messages,
        route_monitoring: counters.route_monitoring,
        octets: counters.octets,
        mirror_malformed: settings.mirror_malformed,
        mirrored: counters.mirrored,
        connections: status.connections,
        failures: status.failures,
        behind: status.behind,
        problem: status.problem,
    }
}
