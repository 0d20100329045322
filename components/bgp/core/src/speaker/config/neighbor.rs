//! The configuration of a neighbor.

use super::add_path::AddPath;
use super::default_originate::DefaultOriginate;
use super::graceful_restart::GracefulRestart;
use super::identity::Identity;
use super::maximum_prefixes::MaximumPrefixes;
use crate::event::{DownReason, NotOpened};
use crate::family::{Families, FamilyIndex};
use crate::local_as::LocalAs;
use crate::policy::{AspaProcedure, DefaultPolicy};
use crate::relationship::Relationship;
use crate::session::{OwnRestart, SessionConfig};
use crate::shard::SentCommunities;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use serde::{Deserialize, Serialize};
use sluice_base::{Asn, Duration, Family, IpPrefix, RouterId, Xid};

/// A neighbor, as in `neighbor` of `bgp.yang`; each field is read from the leaf of its name.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct NeighborConfig {
    /// The neighbor's address, by which it is known.
    pub address: IpAddr,
    /// The neighbor's AS; [`NeighborConfig::UNKNOWN_AS`] for a dynamic neighbor before the OPEN.
    pub peer_as: Asn,
    /// The listen range of a dynamic neighbor; `None` for a configured neighbor.
    #[serde(default)]
    pub range: Option<IpPrefix>,
    /// The local AS in the session with an external neighbor; `None` for the router's AS.
    #[serde(default)]
    pub local_as: Option<LocalAs>,
    /// True if a session is wanted.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// The local address; `None` for the address implied by the route to the neighbor.
    #[serde(default)]
    pub local_address: Option<IpAddr>,
    /// The neighbor's TCP port.
    #[serde(default = "default_port")]
    pub port: u16,
    /// True if the neighbor must connect.
    #[serde(default)]
    pub passive: bool,
    /// Proposed hold time in seconds; 0 for none, never 1 or 2.
    #[serde(default = "default_hold_time")]
    pub hold_time: u16,
    /// SendHoldTime in seconds (RFC 9687); see [`SessionConfig`].
    #[serde(default)]
    pub send_hold_time: Option<u16>,
    /// KeepaliveTime in seconds; `None` for a third of the negotiated hold time.
    #[serde(default)]
    pub keepalive_time: Option<u16>,
    /// ConnectRetryTime in seconds.
    #[serde(default = "default_connect_retry_time")]
    pub connect_retry_time: u16,
    /// DelayOpenTime in seconds.
    #[serde(default)]
    pub delay_open_time: Option<u16>,
    /// A note for people.
    #[serde(default)]
    pub description: String,
    /// TCP MD5 key (RFC 2385).
    #[serde(default)]
    pub password: Option<String>,
    /// TTL of sent packets if the external neighbor is not on a link of this router.
    #[serde(default)]
    pub multihop: Option<u8>,
    /// True if packets that may have come from far away are dropped (RFC 5082).
    #[serde(default)]
    pub ttl_security: bool,
    /// IPv4 unicast.
    #[serde(default)]
    pub ipv4_unicast: FamilyConfig,
    /// IPv6 unicast.
    #[serde(default)]
    pub ipv6_unicast: FamilyConfig,
    /// True if the neighbor may send outbound route filters (RFC 5291).
    #[serde(default)]
    pub prefix_filter_receive: bool,
    /// The name of the prefix list sent to the neighbor as an outbound route filter; `None` without a filter.
    #[serde(default)]
    pub prefix_filter_send: Option<String>,
    /// MinRouteAdvertisementInterval in seconds; 0 for none.
    #[serde(default)]
    pub advertisement_interval: u16,
    /// True if messages of up to 65,535 octets are offered (RFC 8654).
    #[serde(default = "yes")]
    pub extended_messages: bool,
    /// XIDs.
    #[serde(default)]
    pub xid: FamilyConfig,
    /// True if the router announces itself as the next hop: to an internal neighbor for routes learned outside, to an external
    /// neighbor for routes with a next hop on the shared subnet.
    #[serde(default)]
    pub next_hop_self: bool,
    /// True for a client of this route reflector (RFC 4456); ignored for an external neighbor.
    #[serde(default)]
    pub route_reflector_client: bool,
    /// The router's cluster; `None` for the BGP Identifier.
    #[serde(default)]
    pub cluster_id: Option<RouterId>,
    /// True if routes of clients are reflected to clients.
    #[serde(default = "yes")]
    pub client_to_client_reflection: bool,
    /// True if routes between external neighbors are sent without the router's AS and next hop, as by a route server (RFC 7947).
    #[serde(default)]
    pub transparent: bool,
    /// True if the router's AS replaces the AS of an external neighbor in paths sent to the neighbor.
    #[serde(default)]
    pub as_override: bool,
    /// The most occurrences of the router's AS in the path of the neighbor's routes.
    #[serde(default)]
    pub allow_as_in: u8,
    /// True if the AS path must begin with the neighbor's AS; false for route servers.
    #[serde(default = "yes")]
    pub enforce_first_as: bool,
    /// The role of an external neighbor (RFC 9234); ignored for an internal one.
    #[serde(default)]
    pub relationship: Option<Relationship>,
    /// The procedure for the verification of an external neighbor's AS paths, in place of the procedure for the role
    /// (draft-ietf-sidrops-aspa-verification, section 7.4); ignored for an internal neighbor.
    #[serde(default)]
    pub aspa_procedure: Option<AspaProcedure>,
    /// True if announced routes are marked as about to be withdrawn (RFC 8326).
    #[serde(default)]
    pub graceful_shutdown: bool,
    /// The name of the neighbor's group, for policies.
    #[serde(default)]
    pub group: Option<String>,
    /// The kinds of communities that the neighbor is sent.
    #[serde(default)]
    pub send_community: SentCommunities,
    /// The names of the policies for the neighbor's routes, in order.
    #[serde(default)]
    pub import: Vec<String>,
    /// The names of the policies for routes to the neighbor, in order.
    #[serde(default)]
    pub export: Vec<String>,
    /// The default route for the neighbor, sent even if the router has no default route.
    #[serde(default)]
    pub default_originate: Option<DefaultOriginate>,
    /// True if routes rejected by import policy are stored. Otherwise a changed import policy needs a route refresh from the
    /// neighbor (RFC 2918).
    #[serde(default = "yes")]
    pub keep_rejected: bool,
    /// Several paths of a prefix, in each direction (RFC 7911).
    #[serde(default)]
    pub add_path: AddPath,
    /// True if flaps of an external neighbor's routes are counted (RFC 2439).
    #[serde(default)]
    pub damping: bool,
    /// The treatment of the neighbor when it restarts.
    #[serde(default)]
    pub graceful_restart: GracefulRestart,
    /// The seconds for which neighbors keep the router's routes during a restart; `None` if routes are not kept.
    #[serde(default)]
    pub restart_time: Option<u16>,
    /// The seconds for which the neighbor is asked to keep the router's routes afterwards, as long-lived stale routes (RFC 9494);
    /// 0 to not keep routes.
    pub long_lived_time: u32,
    /// The decision on routes on which no policy decides; `None` for the default of [`NeighborConfig::default_policy`].
    #[serde(default)]
    pub default_policy: Option<DefaultPolicy>,
}

/// An address family of a neighbor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct FamilyConfig {
    /// True if the family is offered; by default only the family of the neighbor's address is.
    #[serde(default)]
    pub enabled: Option<bool>,
    /// Bounds on the neighbor's prefixes.
    #[serde(default)]
    pub maximum_prefixes: MaximumPrefixes,
    /// The router's XID as the next hop for the neighbor. Only the schema of XIDs has the field: for IP families the next hop is
    /// an address of the session's interface.
    #[serde(default)]
    pub next_hop: Option<Xid>,
}

impl FamilyConfig {
    /// No statement.
    pub const DEFAULT: FamilyConfig =
        FamilyConfig { enabled: None, maximum_prefixes: MaximumPrefixes::NONE, next_hop: None };

    /// Returns the configuration with the bounds of `other`: a change of bounds ends no session.
    pub(super) const fn with_bounds_of(self, other: FamilyConfig) -> FamilyConfig {
        FamilyConfig { maximum_prefixes: other.maximum_prefixes, ..self }
    }
}

const fn yes() -> bool {
    true
}

const fn default_port() -> u16 {
    179
}

const fn default_hold_time() -> u16 {
    90
}

const fn default_connect_retry_time() -> u16 {
    30
}

impl NeighborConfig {
    /// Returns the TTL of packets to the neighbor; `None` for the system's default, as for internal neighbors at any distance.
    /// Packets to an external neighbor on the link cannot leave the link, except with `ttl-security`, where the neighbor expects
    /// 255 (RFC 5082).
    pub fn ttl(&self, is_internal: bool) -> Option<u8> {
        match self.multihop {
            _ if self.ttl_security => Some(u8::MAX),
            Some(hops) => Some(hops),
            None if is_internal => None,
            None => Some(1),
        }
    }

    /// Returns the lowest accepted TTL of packets from the neighbor; `None` without `ttl-security`. Each router on the way
    /// decrements 255 by 1 (RFC 5082, section 3).
    pub fn min_ttl(&self) -> Option<u8> {
        let hops = self.multihop.unwrap_or(1).max(1);
        self.ttl_security.then_some(u8::MAX - (hops - 1))
    }

    /// Returns the families to offer.
    pub fn families(&self) -> Families {
        let own = FamilyIndex::from(Family::of(&self.address));
        Families::of(|family| self.family(family).enabled.unwrap_or(family == own))
    }

    /// Offers exactly these families.
    pub fn offer(&mut self, families: Families) {
        self.ipv4_unicast.enabled = Some(families.has(FamilyIndex::IPV4));
        self.ipv6_unicast.enabled = Some(families.has(FamilyIndex::IPV6));
        self.xid.enabled = Some(families.has(FamilyIndex::XID));
    }

    /// Returns the settings of a family; the default for a family missing in the schema.
    pub(crate) fn family(&self, family: FamilyIndex) -> FamilyConfig {
        match family {
            FamilyIndex::IPV4 => self.ipv4_unicast,
            FamilyIndex::IPV6 => self.ipv6_unicast,
            FamilyIndex::XID => self.xid,
            _ => FamilyConfig::default(),
        }
    }

    /// Returns the bounds on the neighbor's prefixes of a family.
    pub fn maximum_prefixes(&self, family: FamilyIndex) -> MaximumPrefixes {
        self.family(family).maximum_prefixes
    }

    /// Returns true if the bounds equal the bounds of `other`.
    pub(crate) fn has_bounds_of(&self, other: &NeighborConfig) -> bool {
        FamilyIndex::all().all(|family| self.maximum_prefixes(family) == other.maximum_prefixes(family))
    }

    /// Returns a neighbor with the default of everything but address and AS.
    pub const fn new(address: IpAddr, peer_as: Asn) -> Self {
        NeighborConfig {
            address,
            peer_as,
            range: None,
            local_as: None,
            enabled: true,
            local_address: None,
            port: default_port(),
            passive: false,
            hold_time: default_hold_time(),
            send_hold_time: None,
            keepalive_time: None,
            connect_retry_time: default_connect_retry_time(),
            delay_open_time: None,
            description: String::new(),
            password: None,
            multihop: None,
            ttl_security: false,
            prefix_filter_receive: false,
            prefix_filter_send: None,
            advertisement_interval: 0,
            extended_messages: true,
            ipv4_unicast: FamilyConfig::DEFAULT,
            ipv6_unicast: FamilyConfig::DEFAULT,
            xid: FamilyConfig::DEFAULT,
            next_hop_self: false,
            route_reflector_client: false,
            cluster_id: None,
            client_to_client_reflection: true,
            transparent: false,
            as_override: false,
            allow_as_in: 0,
            enforce_first_as: true,
            relationship: None,
            aspa_procedure: None,
            graceful_shutdown: false,
            group: None,
            send_community: SentCommunities::ALL,
            import: Vec::new(),
            export: Vec::new(),
            default_originate: None,
            keep_rejected: true,
            add_path: AddPath::NONE,
            damping: false,
            graceful_restart: GracefulRestart::DEFAULT,
            restart_time: None,
            long_lived_time: 0,
            default_policy: None,
        }
    }

    /// Returns the decision on routes without a deciding policy, in a router of `local_as`: without policy no routes are accepted
    /// from or sent to an external neighbor (RFC 8212), unless the relationship is the policy.
    pub fn default_policy(&self, local_as: Asn) -> DefaultPolicy {
        let is_trusted = self.peer_as == local_as || self.relationship.is_some();
        self.default_policy.unwrap_or(if is_trusted { DefaultPolicy::Accept } else { DefaultPolicy::Reject })
    }

    /// Returns the directions in which an external neighbor of a router of `local_as` exchanges nothing for want of a policy (RFC 8212):
    /// import, export.
    pub fn without_policy(&self, local_as: Asn) -> (bool, bool) {
        let rejects = self.default_policy(local_as) == DefaultPolicy::Reject && self.peer_as != local_as;
        (rejects && self.import.is_empty(), rejects && self.export.is_empty())
    }

    /// Returns the AS that is replaced in paths to the neighbor of a router of `local_as`.
    pub(crate) fn peer_as_override(&self, local_as: Asn) -> Option<Asn> {
        (self.as_override && self.peer_as != local_as).then_some(self.peer_as)
    }

    /// Iterates over the lists of policies that the neighbor has.
    pub(crate) fn policy_names(&self) -> impl Iterator<Item = &Vec<String>> {
        let of_default = self.default_originate.iter().map(|originate| &originate.policy);
        [&self.import, &self.export, &self.add_path.policy].into_iter().chain(of_default)
    }

    pub(crate) fn session(&self, identity: &Identity) -> SessionConfig {
        SessionConfig {
            other_as: self.local_as.filter(|_| self.peer_as != identity.local_as),
            graceful_notifications: self.graceful_restart.helper && self.graceful_restart.notifications,
            keeps_long_lived: self.graceful_restart.helper && self.graceful_restart.long_lived_time > 0,
            restart: self.restart_time.map(|time| OwnRestart {
                time,
                long_lived_time: self.long_lived_time,
                started: identity.started,
                is_preserved: identity.is_restarted,
            }),
            hold_time: self.hold_time,
            send_hold_time: self.send_hold_time,
            keepalive_time: self.keepalive_time,
            connect_retry: Duration::from_secs(self.connect_retry_time.into()),
            delay_open: self.delay_open_time.map(|seconds| Duration::from_secs(seconds.into())),
            passive: self.passive,
            families: self.families(),
            add_path: self.add_path.offered(),
            codes: identity.codes,
            extended_messages: self.extended_messages,
            route_filters: (self.prefix_filter_receive, self.prefix_filter_send.is_some()),
            relationship: self.relationship.filter(|_| self.peer_as != identity.local_as),
            ..SessionConfig::new(identity.local_as, identity.router_id, self.peer_as)
        }
    }
}

impl NeighborConfig {
    /// Describes a failed attempt to open the session.
    pub fn not_opened(&self, reason: DownReason) -> NotOpened {
        NotOpened { reason, has_password: self.password.is_some(), has_ttl_security: self.ttl_security }
    }
}

impl NeighborConfig {
    /// The AS of a dynamic neighbor before the OPEN: no neighbor's OPEN has this AS.
    pub const UNKNOWN_AS: Asn = Asn(0);
}
