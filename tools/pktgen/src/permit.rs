//! The permission to send: the interfaces of labs, and those that the operator names twice.

use crate::PktgenError;
use sluice_lab::ethtool;
use std::path::Path;

/// The driver of the interfaces of labs.
const LAB_DRIVER: &str = "veth";

/// A setting that each network namespace has.
const EVERYWHERE: &str = "/proc/sys/net/core/somaxconn";

/// A setting that only the host's initial network namespace has.
const INITIAL_ONLY: &str = "/proc/sys/net/core/netdev_budget";

/// Checks that packets may be sent out of an interface of this thread's network namespace: a veth in a namespace other
/// than the host's initial one and than that of process 1, or the interface that the operator named again as
/// `named_again`.
///
/// # Errors
///
/// [`PktgenError::NotPermitted`] with the reason. A namespace that cannot be told from the initial one is refused.
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
