//! The router as a whole: this element asks all others by the console, adds counters up, and compares checksums of routes.

use crate::Served;
use crate::console;
use crate::idl::cluster::v1 as pb;
use prost::Message;
use sluice_cluster::inventory::{Element, ElementId, OuterPort, PortNumber, Role};
use sluice_cluster::machine::Cluster;
use sluice_cluster::settings::Settings;
use sluice_cluster::totals::{Comparison, Count, Reason, Totals};
use sluice_xrl::XrlError;
use sluice_xrl::idl::common::v1::Family;
use sluice_xrl::idl::fea::v1 as fea;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// The longest wait for the answers of an element.
const WITHIN: Duration = Duration::from_secs(3);

/// The counters of an element.
struct Counters {
    frames: pb::GetCountersReply,
    forwarding: fea::GetForwardingReply,
}

/// The reason why an element is missing in the sums.
#[derive(Debug, thiserror::Error)]
enum MissingError {
    #[error("it does not announce itself")]
    Silent,
    #[error("no answer for {WITHIN:?}")]
    Late,
    #[error("{0}")]
    Call(#[from] XrlError),
    #[error("its answer is not understood: {0}")]
    Answer(#[from] prost::DecodeError),
}

/// The answers of all asked elements, by number, and the elements without an answer.
struct Answers<T> {
    answers: Vec<(Element, T)>,
    missing: Vec<pb::MissingElement>,
}

impl<T> Answers<T> {
    fn answered(&self) -> u32 {
        count(self.answers.len())
    }
}

fn count(elements: usize) -> u32 {
    elements.try_into().unwrap_or(u32::MAX)
}

/// Asks an element for an answer of a method without arguments.
async fn ask<T: Message + Default>(
    served: &Served,
    element: ElementId,
    (target, path): (&str, &str),
) -> Result<T, MissingError> {
    let request = pb::GetFromElementRequest {
        element: element.number().into(),
        target: target.into(),
        path: path.into(),
        within_ms: WITHIN.as_millis() as u32,
        ..Default::default()
    };
    let reply = console::ask(served, request).await?;
    match reply.error.is_empty() {
        true => Ok(T::decode(&reply.reply[..])?),
        false => Err(XrlError::decode(&reply.error).into()),
    }
}

/// Asks elements at the same time: a silent one is waited for once.
async fn ask_all<T: 'static>(
    served: &Served,
    elements: impl IntoIterator<Item = Element>,
    asking: impl AsyncFn(&Served, ElementId) -> Result<T, MissingError> + Copy + 'static,
) -> Answers<T> {
    let ask = |element: Element| {
        let served = Served(Rc::clone(&served.0));
        tokio::task::spawn_local(async move {
            let is_lost =
                |machine: &Cluster| machine.membership().get(element.id).is_some_and(|member| member.is_lost);
            let answer = if served.driver.read(is_lost) {
                Err(MissingError::Silent)
            } else {
                let asked = tokio::time::timeout(WITHIN, asking(&served, element.id)).await;
                asked.unwrap_or(Err(MissingError::Late))
            };
            (element, answer)
        })
    };
    let asked: Vec<_> = elements.into_iter().map(ask).collect();
    let mut all = Answers { answers: Vec::new(), missing: Vec::new() };
    for asked in asked {
        // A task of this thread ends with the process, or with its value.
        match asked.await {
            Ok((element, Ok(answer))) => all.answers.push((element, answer)),
            Ok((element, Err(error))) => all
                .missing
                .push(pb::MissingElement { element: element.id.number().into(), reason: error.to_string() }),
            Err(_) => {}
        }
    }
    all
}

async fn counters(served: &Served, element: ElementId) -> Result<Counters, MissingError> {
    Ok(Counters {
        frames: ask(served, element, ("cluster", "cluster.v1.Cluster/GetCounters")).await?,
        forwarding: ask(served, element, ("fea", "fea.v1.Forwarding/GetForwarding")).await?,
    })
}

fn add(totals: &mut Totals, element: &Element, counters: &Counters) {
    for counter in &counters.frames.counters {
        let reason = Reason { by: counter.by.clone(), reason: counter.reason.clone() };
        totals.add_frames(reason, counter.count);
    }
    for interface in &counters.forwarding.ports {
        for count in &interface.counts {
            let sum = Count { packets: count.packets, octets: count.octets };
            let fate = (count.outcome.clone(), count.reason.clone());
            totals.add_received(element, &interface.name, fate, sum);
        }
    }
}

/// Returns the name of an outer port for people: the balancer's name, and the name of the balancer's interface.
fn port_name(balancer: &Element, port: &OuterPort) -> String {
    format!("{}:{}", balancer.name, port.interface)
}

/// Returns the names of all outer ports.
pub(crate) fn port_names(settings: &Settings) -> BTreeMap<PortNumber, String> {
    let all = settings.inventory.iter();
    let of = |element: &Element| -> Vec<_> {
        element.ports.iter().map(|port| (port.number, port_name(element, port))).collect()
    };
    all.flat_map(of).collect()
}

fn engine(element: &Element, forwarding: &fea::GetForwardingReply) -> pb::ElementEngine {
    let obstacle = |obstacle: &fea::ForwardingObstacle| {
        let family = if obstacle.family() == Family::Ipv6 { "IPv6" } else { "IPv4" };
        format!("{family}: {}", obstacle.reason)
    };
    pb::ElementEngine {
        element: element.id.number().into(),
        name: element.name.clone(),
        configured: forwarding.configured.clone(),
        live: forwarding.live,
        unavailable: forwarding.unavailable.clone(),
        obstacles: forwarding.obstacles.iter().map(obstacle).collect(),
        routes: forwarding.routes,
        no_room: forwarding.no_room,
    }
}

/// Returns the counters of all elements, added up, and the elements that are missing.
pub async fn all(served: &Served) -> pb::GetTotalsReply {
    let settings = served.settings.borrow().clone();
    let Some(settings) = settings else { return pb::GetTotalsReply::default() };
    let all = ask_all(served, settings.inventory.iter().cloned(), counters).await;
    let (elements, answered) = (count(settings.inventory.iter().count()), all.answered());
    let mut totals = Totals::default();
    all.answers.iter().for_each(|(element, counters)| add(&mut totals, element, counters));
    let counters = totals.frames().map(|(reason, count)| pb::Total {
        by: reason.by.clone(),
        reason: reason.reason.clone(),
        count,
        answered,
        elements,
    });
    let names = port_names(&settings);
    let forwarding = totals.fates().map(|(fate, count)| pb::ForwardingTotal {
        place: fate.port.map_or_else(|| "inside".into(), |port| format!("port {}", port.number())),
        name: fate.port.and_then(|port| names.get(&port).cloned()).unwrap_or_default(),
        outcome: fate.outcome.clone(),
        reason: fate.reason.clone(),
        packets: count.packets,
        octets: count.octets,
        answered,
        elements,
    });
    pb::GetTotalsReply {
        counters: counters.collect(),
        forwarding: forwarding.collect(),
        engines: all.answers.iter().map(|(element, of)| engine(element, &of.forwarding)).collect(),
        missing: all.missing,
        answered,
    }
}

async fn interfaces(served: &Served, element: ElementId) -> Result<fea::GetInterfacesReply, MissingError> {
    ask(served, element, ("fea", "fea.v1.Interfaces/GetInterfaces")).await
}

/// Returns an outer port, with the state and counters of the balancer's interface, if there is one.
fn outer(
    settings: &Settings,
    (balancer, port): (&Element, &OuterPort),
    found: Option<&fea::Interface>,
    answered: bool,
) -> pb::OuterInterface {
    let addresses = settings.addresses.get(&port.number).into_iter().flatten();
    let mut message = pb::OuterInterface {
        name: port_name(balancer, port),
        port: port.number.number().into(),
        element: balancer.id.number().into(),
        mac: port.mac.to_string(),
        addresses: addresses.map(|address| format!("{}/{}", address.addr, address.prefix_len)).collect(),
        state: if answered { "absent" } else { "unknown" }.into(),
        ..Default::default()
    };
    let Some(found) = found else { return message };
    message.state = match (found.admin_up, found.running) {
        (_, true) => "up",
        (true, false) => "no carrier",
        (false, false) => "down",
    }
    .into();
    message.index = found.index;
    message.mtu = found.mtu;
    message.rx_packets = found.rx_packets;
    message.tx_packets = found.tx_packets;
    message.rx_bytes = found.rx_bytes;
    message.tx_bytes = found.tx_bytes;
    message.rx_errors = found.rx_errors;
    message.tx_errors = found.tx_errors;
    message
}

/// Returns the interfaces of the router as a whole: the outer ports, with the counters of the balancers' interfaces.
pub(crate) async fn outer_interfaces(served: &Served) -> pb::GetOuterInterfacesReply {
    let settings = served.settings.borrow().clone();
    let Some(settings) = settings else { return pb::GetOuterInterfacesReply::default() };
    let balancers = || settings.inventory.iter().filter(|element| !element.ports.is_empty());
    let all = ask_all(served, balancers().cloned(), interfaces).await;
    let mut ports: Vec<_> =
        balancers().flat_map(|balancer| balancer.ports.iter().map(move |port| (balancer, port))).collect();
    ports.sort_by_key(|(_, port)| port.number);
    let message = |(balancer, port): (&Element, &OuterPort)| {
        let answer = all.answers.iter().find(|(element, _)| element.id == balancer.id);
        let found = answer.and_then(|(_, reply)| {
            reply.interfaces.iter().find(|interface| interface.name == port.interface)
        });
        outer(&settings, (balancer, port), found, answer.is_some())
    };
    let interfaces = ports.into_iter().map(message).collect();
    pb::GetOuterInterfacesReply { interfaces, missing: all.missing }
}

async fn stored(served: &Served, element: ElementId) -> Result<pb::GetStoreReply, MissingError> {
    ask(served, element, ("cluster", "cluster.v1.Cluster/GetStore")).await
}

/// Compares the routes of all elements that have the routes of the control plane with the control plane's, by checksums.
pub async fn comparison(served: &Served) -> pb::GetComparisonReply {
    // The machine's own copy has the leader that the store names.
    let settings = served.driver.read(|machine| machine.settings().cloned());
    let settings = settings.and_then(|settings| Some((settings.store.clone()?, settings)));
    let Some((store, settings)) = settings else { return pb::GetComparisonReply::default() };
    let control = settings.control();
    let has_routes = |element: &&Element| {
        let has = |role| element.roles.contains(&role);
        Some(element.id) == control || (!has(Role::Control) && (has(Role::Router) || has(Role::Filter)))
    };
    let asked = settings.inventory.iter().filter(has_routes).cloned();
    let all = ask_all(served, asked, stored).await;
    let mut comparison = Comparison::new(settings.element, control);
    for (element, store) in &all.answers {
        // Elements before the first reading have no routes of the control plane.
        let sections = store.sections.iter().map(|section| {
            let key = (section.origin.clone(), section.family.clone(), section.table);
            (key, (section.routes, section.checksum.clone()))
        });
        comparison.add(element.id, sections.collect());
    }
    let Some(outcome) = comparison.outcome() else {
        return pb::GetComparisonReply { missing: all.missing, ..Default::default() };
    };
    let numbers = |elements: &[ElementId]| elements.iter().map(|element| element.number().into()).collect();
    pb::GetComparisonReply {
        source: outcome.source.number().into(),
        is_own: outcome.source == settings.element,
        equal: numbers(&outcome.equal),
        differing: numbers(&outcome.differing),
        origins: store.origins.iter().cloned().collect(),
        missing: all.missing,
    }
}
