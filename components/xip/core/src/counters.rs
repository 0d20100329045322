//! Counts of decisions, by reason and by principal.

use alloc::collections::BTreeMap;
use sluice_base::XidType;

/// Makes an enumeration of reasons for counting, each with its name in metrics.
macro_rules! reasons {
    ($(#[$about:meta])* $enum:ident: $($(#[$doc:meta])* $reason:ident = $name:literal,)*) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
        pub enum $enum { $($(#[$doc])* $reason,)* }

        impl $enum {
            /// All reasons.
            pub const ALL: &[$enum] = &[$($enum::$reason),*];

            /// Returns the reason's name in metrics.
            pub const fn name(self) -> &'static str {
                match self { $($enum::$reason => $name,)* }
            }
        }
    };
}
pub(crate) use reasons;

reasons! {
    /// The outcome of a decision, for counting.
    Reason:
    /// The edge is selected, and routing goes on.
    Dig = "dig",
    /// The packet goes to a neighbor.
    Forward = "forward",
    /// The packet goes through a tunnel.
    Tunnel = "tunnel",
    /// The packet is copied.
    Replicate = "replicate",
    /// The packet goes to a socket of this host.
    Deliver = "deliver",
    /// The XID is this host's, but does not work in this place.
    Unsupported = "unsupported",
    /// A principal drops the packet.
    Drop = "drop",
    /// A principal decides on each packet.
    PerPacket = "per-packet",
    /// No edge leads anywhere.
    Unreachable = "unreachable",
    /// A redirect leads back to an XID of an earlier look-up.
    RedirectLoop = "redirect-loop",
    /// More redirects than the limit allows.
    TooManyRedirects = "too-many-redirects",
    /// A redirect to the type of the redirected XID.
    SameTypeRedirect = "same-type-redirect",
    /// More copies than the limit allows.
    TooManyCopies = "too-many-copies",
    /// A principal could not decide.
    Failure = "failure",
    /// An answer from outside is awaited.
    Pending = "pending",
}

/// Counts since the start. The sum of the counts by reason is the number of decisions on rows.
#[derive(Clone, Default, Debug)]
pub struct Counters {
    by_reason: [u64; Reason::ALL.len()],
    by_principal: BTreeMap<XidType, u64>,
}

impl Counters {
    /// Counts a decision, and the principal of the final answer.
    pub(crate) fn count(&mut self, reason: Reason, principal: Option<XidType>) {
        self.by_reason[reason as usize] += 1;
        if let Some(kind) = principal {
            *self.by_principal.entry(kind).or_default() += 1;
        }
    }

    /// Forgets an unregistered principal, so that the counts stay as few as the principals.
    pub(crate) fn forget(&mut self, kind: XidType) {
        self.by_principal.remove(&kind);
    }

    /// Returns the number of decisions with an outcome.
    pub const fn by_reason(&self, reason: Reason) -> u64 {
        self.by_reason[reason as usize]
    }

    /// Returns the number of decisions whose final answer each principal gave.
    pub fn by_principal(&self) -> impl Iterator<Item = (XidType, u64)> {
        self.by_principal.iter().map(|(kind, count)| (*kind, *count))
    }

    /// Returns the number of decisions.
    pub fn decisions(&self) -> u64 {
        self.by_reason.iter().sum()
    }
}
