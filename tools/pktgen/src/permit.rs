//! The permission to send: for interfaces of labs, and for an interface that the operator names twice.

use crate::PktgenError;
use sluice_lab::ethtool;
use std::path::Path;

/// The driver of the interfaces of labs.
const LAB_DRIVER: &str = "veth";

/// A kernel setting of each network namespace.
const EVERYWHERE: &str = "/proc/sys/net/core/somaxconn";

/// A kernel setting of the host's initial network namespace only.
const INITIAL_ONLY: &str = "/proc/sys/net/core/netdev_budget";

/// Checks that packets may be sent out of an interface of this thread's network namespace: a veth outside of the host's
/// initial namespace and of process 1's namespace, or the interface that the operator named again as `named_again`.
///
/// # Errors
///
/// [`PktgenError::NotPermitted`] with the reason. If /proc/sys is hidden, every interface is refused.
pub fn check(interface: &str, named_again: Option<&str>) -> Result<(), PktgenError> {
    if named_again == Some(interface) {
        return Ok(());
    }
    let refused = |because: String| PktgenError::NotPermitted { interface: interface.into(), because };
    // Root of a container may lack the right to look at process 1. Then the settings decide alone.
    let namespace = |path: &str| std::fs::read_link(path).ok();
    if let (Some(own), Some(first)) = (namespace("/proc/thread-self/ns/net"), namespace("/proc/1/ns/net"))
        && own == first
    {
        return Err(refused("this is the network namespace of process 1".into()));
    }
    if Path::new(INITIAL_ONLY).exists() {
        return Err(refused("this is the host's initial network namespace".into()));
    }
    if !Path::new(EVERYWHERE).exists() {
        return Err(refused(
            "/proc/sys is hidden, so that this may be the host's initial network namespace".into(),
        ));
    }
    match ethtool::driver(interface) {
        Ok(driver) if driver == LAB_DRIVER => Ok(()),
        Ok(driver) => Err(refused(format!("its driver is {driver} and not {LAB_DRIVER}"))),
        Err(error) => Err(refused(format!("its driver is not known: {error}"))),
    }
}
