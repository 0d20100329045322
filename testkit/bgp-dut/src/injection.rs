//! Traces whose routes are injected into the router under test.

use super::{Dut, Net};
use sluice_base::Asn;
use sluice_bgp::injection::InjectionError;
use sluice_bgp::speaker::{DefaultPolicy, InjectionConfig, NeighborConfig};
use std::net::IpAddr;

impl<P: Net> Dut<P> {
    /// Begins an injection, or configures one, with these import policies.
    pub fn begin_injection(&mut self, source: IpAddr, asn: u32, is_installed: bool, import: &[String]) {
        let neighbor = NeighborConfig {
            enabled: false,
            multihop: Some(255),
            default_policy: Some(DefaultPolicy::Accept),
            import: import.to_vec(),
            ..NeighborConfig::new(source, Asn(asn))
        };
        let config = InjectionConfig { neighbor, is_installed };
        self.speaker.begin_injection(self.now, config, source, &mut self.out);
        self.outputs();
    }

    /// Injects octets of a trace; all that can happen without time passing happens.
    pub fn inject(&mut self, source: IpAddr, octets: &[u8]) -> Result<(), InjectionError> {
        let injected = self.speaker.inject(self.now, source, octets, &mut self.out);
        self.outputs();
        self.settle();
        injected
    }

    /// Ends an injection.
    pub fn end_injection(&mut self, source: IpAddr) -> Result<(), InjectionError> {
        let ended = self.speaker.end_injection(self.now, source, &mut self.out);
        self.outputs();
        self.settle();
        ended
    }
}
