//! The whole speaker with a single established session: its work besides reading and the tables is housekeeping.

use crate::clock::time;
use crate::feed::Feed;
use crate::next_hop::connected;
use anyhow::Result;
use sluice_base::{Asn, Instant, Ipv4Prefix, Prefix, RouterId};
use sluice_bgp::endpoints::Endpoints;
use sluice_bgp::family::FamilyCodes;
use sluice_bgp::session::{ConnectionId, Direction};
use sluice_bgp::shard::{DecisionRules, Interest};
use sluice_bgp::speaker::{Config, DefaultPolicy, Identity, Input, NeighborConfig, Output, Speaker};
use sluice_bgp::wire::{AFI_IPV4, Capability, Open, header};
use sluice_machine::{Budget, Machine, Outbox, Progress};
use std::net::IpAddr;

const PEER_AS: Asn = Asn(65001);

struct Router {
    speaker: Speaker,
    out: Outbox<Output>,
    peer: IpAddr,
    connection: ConnectionId,
}

/// Takes a feed in pieces; returns the processor time.
pub fn receive(feed: &Feed, piece: usize) -> Result<f64> {
    let mut router = Router::established();
    let ns = time(|| {
        for piece in feed.octets.chunks(piece) {
            let Router { speaker, out, peer, connection } = &mut router;
            speaker.receive(Instant::ZERO, *peer, *connection, piece, out);
            router.outputs();
        }
        router.rest();
        Ok(())
    })?;
    Ok(ns)
}

impl Router {
    fn established() -> Self {
        let identity = Identity {
            local_as: Asn(65000),
            router_id: RouterId(1),
            seed: 7,
            tables: 1,
            source: 1,
            codes: FamilyCodes::DEFAULT,
            decision: DecisionRules::default(),
            started: Instant::ZERO,
            is_restarted: false,
        };
        let peer = IpAddr::from([10, 0, 0, 2]);
        let connection = ConnectionId { direction: Direction::Incoming, number: 2 };
        let neighbor = NeighborConfig {
            passive: true,
            enforce_first_as: false,
            default_policy: Some(DefaultPolicy::Accept),
            ..NeighborConfig::new(peer, PEER_AS)
        };
        let mut router = Router { speaker: Speaker::new(identity), out: Outbox::new(), peer, connection };
        let config = Config { neighbors: vec![neighbor], ..Config::default() };
        let Router { speaker, out, .. } = &mut router;
        speaker.handle(Instant::ZERO, Input::Configure(config), out);
        let endpoints = Endpoints::new(IpAddr::from([10, 0, 0, 1]));
        speaker.handle(Instant::ZERO, Input::Accepted(peer, connection, endpoints), out);
        let mut octets = Vec::new();
        Open {
            version: sluice_bgp::wire::open::VERSION,
            as_field: PEER_AS.to_u16(),
            hold_time: 90,
            router_id: RouterId(2),
            capabilities: vec![Capability::unicast(AFI_IPV4), Capability::FourOctetAs(PEER_AS)],
        }
        .put(&mut octets);
        header::put_keepalive(&mut octets);
        speaker.receive(Instant::ZERO, peer, connection, &octets, out);
        router.outputs();
        router
    }

    /// Handles the outputs: next hops are resolved, the rest is dropped.
    fn outputs(&mut self) {
        let asked: Vec<_> = self.out.drain().collect();
        for output in asked {
            let Output::InterestIpv4(Interest::Register(address)) = output else { continue };
            let Some(answer) = connected(Ipv4Prefix::new(address, 24)) else { continue };
            self.speaker.handle(Instant::ZERO, Input::AnswerIpv4(answer), &mut self.out);
        }
    }

    fn rest(&mut self) {
        while self.speaker.run_slice(Instant::ZERO, Budget::SLICE, &mut self.out) == Progress::More {
            self.outputs();
        }
    }
}
