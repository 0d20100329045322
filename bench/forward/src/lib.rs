//! The network, the routers and the traffic of benchmarks of forwarding. The benchmark `bench-forward` compares XDP with the kernel;
//! `bench-xia` forwards XIP between the same sources and sinks.

pub mod network;
pub mod router;
pub mod traffic;

use sluice_base::IpPrefix;

/// Returns true for prefixes whose addresses are neither the network's own nor never forwarded.
pub fn is_forwarded(prefix: &IpPrefix) -> bool {
    match prefix.addr() {
        std::net::IpAddr::V4(address) => {
            let first = address.octets()[0];
            prefix.len() > 0 && ![0, 10, 127].contains(&first) && first < 224
        }
        std::net::IpAddr::V6(_) => prefix.len() > 0,
    }
}
