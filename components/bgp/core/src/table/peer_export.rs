//! The export of routes to a peer, and the import of a peer's routes, as a table needs to know them.

use crate::endpoints::{OwnNextHop, Subnets};
use crate::family::{ByFamily, Families, FamilyIndex};
use crate::policy::BoundPolicy;
use crate::shard::{ExportView, NextHopsFor, PeerIndex};
use crate::wire::FamilyKey;
use alloc::sync::Arc;
use core::net::IpAddr;
use sluice_base::{Address, Prefix};

/// The export of routes to one peer, whose session is up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerExport {
    /// Families that both sides agreed on.
    pub agreed: Families,
    /// Families of routes to the peer: negotiated, and the router has a next hop for the family.
    pub families: Families,
    /// Families of which the peer's prefixes are counted and reported.
    pub counted: Families,
    /// True if the peer has a MinRouteAdvertisementInterval: advertisements pause after each complete advertisement.
    pub paced: bool,
    /// The octets of the router's own next hop, by family.
    pub next_hops: ByFamily<OwnNextHop>,
    /// The subnets that the router shares with the peer.
    pub subnets: Subnets,
    /// True if the peer is sent the next hops of other external neighbors on these subnets, which it reaches itself (RFC 4271, section
    /// 5.1.3); false if it is sent this router for all.
    pub keeps_third_party: bool,
    /// The peer's address, which the peer is never sent as a next hop (RFC 4271, section 5.1.3).
    pub address: IpAddr,
    /// The export views of the peer, by family.
    pub views: ByFamily<Arc<ExportView>>,
}

impl PeerExport {
    /// Returns the next hops of a family that the peer is sent.
    pub fn next_hops<P: FamilyKey>(&self) -> NextHopsFor<'_, P::Hop> {
        let host = |address: IpAddr| {
            let address = <P::Hop as Prefix>::Addr::try_from(Address::Ip(address)).ok()?;
            Some(P::Hop::host(address))
        };
        NextHopsFor {
            own: &self.next_hops[FamilyIndex::of::<P>()],
            subnet: self.subnets.of::<P::Hop>(),
            keeps_third_party: self.keeps_third_party,
            member: host(self.address),
        }
    }
}

/// The import policies of a peer, by family; `None` to accept every route unchanged.
pub type ImportPolicies = ByFamily<Option<Arc<BoundPolicy>>>;

/// The import of a peer's routes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PeerImport {
    /// The policies for the peer's routes.
    pub policies: ImportPolicies,
    /// True if paths that the policies reject are stored.
    pub keeps_rejected: bool,
    /// True if flaps of the peer's routes are counted (RFC 2439).
    pub is_damped: bool,
}

impl Default for PeerImport {
    /// Returns an import without policies, which stores what policies reject.
    fn default() -> Self {
        PeerImport { policies: ImportPolicies::default(), keeps_rejected: true, is_damped: false }
    }
}

/// The policies of a peer.
#[derive(Clone, Debug)]
pub struct PeerPolicies {
    /// The peer.
    pub peer: PeerIndex,
    /// The import of the peer's routes.
    pub import: PeerImport,
    /// The export of routes to the peer.
    pub export: PeerExport,
}
