//! What the steps of a scenario do to a world.

use crate::fabric::link::Quality;
use crate::host::{BgpProcess, Host};
use crate::network;
use crate::policy::{self, Direction, PolicyBook, Rule};
use crate::scenario::{MOST_BULK, What, bulk, is_bulk};
use crate::world::{Fabric, World};
use sluice_base::AnyPrefix;
use sluice_bgp::speaker::{Config, Input, NeighborConfig};

impl What {
    /// Carries out the step. A missing router or link stays missing.
    pub fn happen(self, world: &mut World) {
        match self {
            What::Boot { node } => with(world, node, |host, fabric| host.boot(fabric)),
            What::CrashNode { node } => with(world, node, |host, fabric| host.crash(fabric)),
            What::Kill { node, process } => with(world, node, |host, fabric| host.kill(fabric, process)),
            What::Start { node, process } => with(world, node, |host, fabric| host.start(fabric, process)),
            What::Cut { link } => set_link(world, link, |l| l.cut = true),
            What::Heal { link } => set_link(world, link, |l| l.cut = false),
            What::CarrierDown { link } => set_link(world, link, |l| l.carrier = false),
            What::CarrierUp { link } => set_link(world, link, |l| l.carrier = true),
            What::Degrade { link, loss, reorder, delay } => set_link(world, link, |l| {
                l.quality = Quality { loss, reorder, duplicate: 0 };
                l.delay = delay;
            }),
            What::Announce { node, prefix } => with(world, node, |host, fabric| {
                host.configure(fabric, |config: &mut Config| {
                    if !config.networks.contains(&prefix.into()) {
                        config.networks.push(prefix.into());
                    }
                });
            }),
            What::Withdraw { node, prefix } => with(world, node, |host, fabric| {
                host.configure(fabric, |config: &mut Config| config.networks.retain(|p| *p != prefix.into()));
            }),
            What::Bulk { node, count } => with(world, node, |host, fabric| {
                host.configure(fabric, |config: &mut Config| {
                    config.networks.retain(|p| !p.ip().is_some_and(is_bulk));
                    config.networks.extend((0..count.min(MOST_BULK)).map(|n| AnyPrefix::from(bulk(n))));
                });
            }),
            What::Drain => {
                for node in 0..world.hosts.len() as u32 {
                    with(world, node, |host, fabric| {
                        host.configure(fabric, |config: &mut Config| config.networks.clear())
                    });
                }
            }
            What::RemoveNeighbor { link, side } => {
                let address = network::ipv4(link, 1 - usize::from(side));
                with_side(world, link, side, |host, fabric| {
                    host.configure(fabric, |config: &mut Config| {
                        config.neighbors.retain(|n| n.address != address)
                    });
                });
            }
            What::AddNeighbor { link, side } => add_neighbor(world, link, usize::from(side)),
            What::Enable { link, side, enabled } => change(world, link, side, |n| n.enabled = enabled),
            What::NextHopSelf { link, side, on } => change(world, link, side, |n| n.next_hop_self = on),
            What::Policy { link, side, direction, rules } => set_policy(world, link, side, direction, rules),
            What::Reset { link, side } => {
                say(world, link, side, |address| Input::Reset(address, "as ordered".into()));
            }
            What::Refresh { link, side } => say(world, link, side, Input::Refresh),
        }
    }
}

fn with(world: &mut World, node: u32, act: impl FnOnce(&mut Host, &mut Fabric)) {
    if let Some(host) = world.hosts.get_mut(node as usize) {
        act(host, &mut world.fabric);
    }
}

fn with_side(world: &mut World, link: u32, side: u8, act: impl FnOnce(&mut Host, &mut Fabric)) {
    let node = world.fabric.host_at(link, usize::from(side));
    with(world, node, act);
}

fn set_link(world: &mut World, link: u32, act: impl FnOnce(&mut crate::fabric::link::Link)) {
    let Some(known) = world.fabric.links.get_mut(link as usize) else { return };
    let before = known.carrier;
    act(known);
    let carrier = known.carrier;
    if before != carrier {
        for side in 0..2 {
            with_side(world, link, side, |host, fabric| host.set_carrier(fabric, link, carrier));
        }
    }
    world.fabric.resume(link);
}

fn change(world: &mut World, link: u32, side: u8, act: impl FnOnce(&mut NeighborConfig)) {
    let address = network::ipv4(link, 1 - usize::from(side));
    with_side(world, link, side, |host, fabric| {
        host.configure(fabric, |config: &mut Config| {
            if let Some(neighbor) = config.neighbors.iter_mut().find(|n| n.address == address) {
                act(neighbor);
            }
        });
    });
}

fn set_policy(world: &mut World, link: u32, side: u8, direction: Direction, rules: Vec<Rule>) {
    let address = network::ipv4(link, 1 - usize::from(side));
    with_side(world, link, side, |host, fabric| {
        let names = if rules.is_empty() { Vec::new() } else { vec![policy::name(link, direction)] };
        host.configuration.change(|book: &mut PolicyBook| book.set(link, direction, rules));
        let policies = host.configuration.get::<PolicyBook>().map(PolicyBook::compile).unwrap_or_default();
        host.configure(fabric, |config: &mut Config| {
            config.policies = policies;
            if let Some(neighbor) = config.neighbors.iter_mut().find(|n| n.address == address) {
                match direction {
                    Direction::Import => neighbor.import = names,
                    Direction::Export => neighbor.export = names,
                }
            }
        });
    });
}

fn add_neighbor(world: &mut World, link: u32, side: usize) {
    let Some(neighbor) = world.original_neighbor(link, side) else { return };
    with_side(world, link, side as u8, |host, fabric| {
        host.configure(fabric, |config: &mut Config| {
            if config.neighbors.iter().all(|n| n.address != neighbor.address) {
                config.neighbors.push(neighbor);
            }
        });
    });
}

fn say(world: &mut World, link: u32, side: u8, input: impl FnOnce(std::net::IpAddr) -> Input) {
    let address = network::ipv4(link, 1 - usize::from(side)).into();
    with_side(world, link, side, |host, fabric| {
        host.with(|bgp: &mut BgpProcess, base| bgp.input(base, fabric, input(address)));
    });
}
