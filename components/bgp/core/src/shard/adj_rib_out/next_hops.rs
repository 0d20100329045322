//! The next hops that a member of an update group is sent.

use crate::wire::FamilyKey;

/// The next hops for a member of a group, in messages without a fixed next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NextHopsFor<'a, P> {
    /// The octets of the router's own next hop towards the member: 4 for IPv4, 16 for IPv6, or 32 where the group's key has link-local addresses.
    pub own: &'a [u8],
    /// The subnet that the router shares with the member, of the family of the next hops.
    pub subnet: Option<P>,
    /// True if next hops of third-party external neighbors on the subnet stay unchanged.
    pub keeps_third_party: bool,
    /// The member's address; `None` for an address of a different family.
    pub member: Option<P>,
}

impl<P: FamilyKey> NextHopsFor<'_, P> {
    /// Returns true if the member reaches the next hop directly, and is not the next hop.
    #[inline]
    pub(crate) fn keeps(&self, octets: &[u8]) -> bool {
        self.keeps_third_party && self.is_on_link(octets) && !self.points_back(octets)
    }

    /// Returns true if the router, the member and a next hop share a subnet.
    #[inline]
    fn is_on_link(&self, octets: &[u8]) -> bool {
        self.subnet.is_some_and(|subnet| address_in(octets).is_some_and(|hop: P| subnet.covers(hop)))
    }

    /// Returns the octets of a third-party next hop for the member: with the link-local address if, and only if, the address is
    /// known and the router, the member and the next hop share a subnet (RFC 2545, section 3).
    pub(crate) fn of_other<'o>(&self, octets: &'o [u8]) -> &'o [u8] {
        let has_link_local = octets.len() == BOTH && octets[ONE..] != [0; BOTH - ONE];
        let ends = if octets.len() != BOTH || has_link_local && self.is_on_link(octets) {
            octets.len()
        } else {
            ONE
        };
        &octets[..ends]
    }

    /// Returns true if the next hop is the member itself: such a route must not be sent (RFC 4271, section 5.1.3).
    #[inline]
    pub(crate) fn points_back(&self, octets: &[u8]) -> bool {
        self.member.is_some_and(|member| address_in(octets) == Some(member))
    }
}

/// Returns the address with which a next hop's octets begin.
fn address_in<P: FamilyKey>(octets: &[u8]) -> Option<P> {
    P::from_octets(octets.get(..usize::from(P::WIDTH / 8))?, P::WIDTH)
}

/// The length of a global and a link-local address together.
pub(super) const BOTH: usize = 32;

pub(super) const ONE: usize = 16;
