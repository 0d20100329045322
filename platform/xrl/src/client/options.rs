//! Options of an endpoint.

use crate::finder::acl::Secret;
use crate::server::registry;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Calls that may be outstanding on a connection.
pub const DEFAULT_WINDOW: usize = 256;

/// The address of the Finder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FinderAddress {
    /// A Unix socket of the host.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(SocketAddr),
}

/// Options of an endpoint.
#[derive(Clone, Debug)]
pub struct EndpointOptions {
    /// The address of the Finder.
    pub finder: FinderAddress,
    /// The process's own secret; `None`: the process has the rights of its user.
    pub secret: Option<Secret>,
    /// The folder for the process's own Unix socket.
    pub socket_dir: PathBuf,
    /// The address that targets listen on by TCP and UDP.
    pub listen: IpAddr,
    /// Calls that may be outstanding on a connection; further calls wait in their order.
    pub window: usize,
    /// The longest wait of calls for the Finder.
    pub patience: Duration,
    /// The longest frame of callers other than root and the operator, in octets.
    pub max_frame: usize,
}

impl EndpointOptions {
    /// The usual choices for a process of the Finder's host.
    pub fn new(
        finder: impl Into<PathBuf>,
        secret: impl Into<Option<Secret>>,
        socket_dir: impl Into<PathBuf>,
    ) -> Self {
        EndpointOptions {
            finder: FinderAddress::Unix(finder.into()),
            secret: secret.into(),
            socket_dir: socket_dir.into(),
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            window: DEFAULT_WINDOW,
            patience: Duration::from_secs(5),
            max_frame: registry::MAX_FRAME,
        }
    }
}
