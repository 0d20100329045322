//! Datagram sockets: an XID is local while a socket is bound to it.

use super::table::Rules;
use super::{Actions, Treatment};

/// Sockets are sinks only: nothing lies behind them. Traffic for other sockets may be redirected.
pub const RULES: Rules = Rules {
    local: Actions { passthrough: Treatment::Unsupported, sink: Treatment::Deliver },
    takes_redirects: true,
    takes_neighbors: false,
};
