//! The reasons of refusals.

/// What was refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Denied {
    /// A secret that the Finder does not know, or does not know from this user.
    Secret,
    /// The registration of a class or an instance.
    Registration,
    /// The resolution of a method.
    Resolution,
    /// A call without a key, or with a key that the Finder did not give to this caller.
    Key,
    /// A socket at which another process answers than the registered one.
    Impostor,
    /// A call that the receiver's own rules do not allow the caller.
    Right,
    /// More connections, registrations or octets than a principal may have at once.
    Limit,
    /// Octets that break the protocol.
    Frame,
}

impl Denied {
    /// Returns the denial's number on the wire.
    pub(crate) fn number(self) -> u32 {
        match self {
            Denied::Secret => 1,
            Denied::Registration => 2,
            Denied::Resolution => 3,
            Denied::Key => 4,
            Denied::Impostor => 5,
            Denied::Right => 6,
            Denied::Limit => 7,
            Denied::Frame => 8,
        }
    }

    /// Returns the denial that another process may report under a number: what only the Finder sees is not among
    /// them.
    pub(crate) fn reported(number: u32) -> Option<Self> {
        let reported = [Denied::Key, Denied::Impostor, Denied::Right, Denied::Limit, Denied::Frame];
        reported.into_iter().find(|denied| denied.number() == number)
    }

    /// Returns the denial's name, as in metrics and records.
    pub fn name(self) -> &'static str {
        match self {
            Denied::Secret => "secret",
            Denied::Registration => "registration",
            Denied::Resolution => "resolution",
            Denied::Key => "key",
            Denied::Impostor => "impostor",
            Denied::Right => "right",
            Denied::Limit => "limit",
            Denied::Frame => "frame",
        }
    }
}
