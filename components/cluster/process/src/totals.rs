//! Counters of the router as a whole: this element asks all others by the console, and adds up.

use crate::Served;
use crate::console;
use crate::idl::cluster::v1 as pb;
use prost::Message;
use sluice_cluster::inventory::{Element, ElementId};
use sluice_cluster::machine::Cluster;
use sluice_cluster::totals::{Count, Reason, Totals};
use sluice_xrl::XrlError;
use sluice_xrl::idl::fea::v1 as fea;
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

async fn counters(served: &Served, element: ElementId) -> Result<Counters, MissingError> {
    let is_lost = |machine: &Cluster| machine.membership().get(element).is_some_and(|member| member.is_lost);
    if served.driver.read(is_lost) {
        return Err(MissingError::Silent);
    }
    let asking = async {
        Ok(Counters {
            frames: ask(served, element, ("cluster", "cluster.v1.Cluster/GetCounters")).await?,
            forwarding: ask(served, element, ("fea", "fea.v1.Forwarding/GetForwarding")).await?,
        })
    };
    tokio::time::timeout(WITHIN, asking).await.unwrap_or(Err(MissingError::Late))
}

fn add(totals: &mut Totals, element: &Element, counters: Counters) {
    for counter in counters.frames.counters {
        totals.add_frames(Reason { by: counter.by, reason: counter.reason }, counter.count);
    }
    for interface in counters.forwarding.ports {
        for count in interface.counts {
            let sum = Count { packets: count.packets, octets: count.octets };
            totals.add_received(element, &interface.name, (count.outcome, count.reason), sum);
        }
    }
}

/// Returns the counters of all elements, added up, and the elements that are missing.
pub async fn all(served: &Served) -> pb::GetTotalsReply {
    let settings = served.settings.borrow().clone();
    let Some(settings) = settings else { return pb::GetTotalsReply::default() };
    // Elements are asked at the same time: a silent one is waited for once.
    let asked: Vec<_> = settings
        .inventory
        .iter()
        .cloned()
        .map(|element| {
            let served = Served(std::rc::Rc::clone(&served.0));
            tokio::task::spawn_local(async move {
                let counters = counters(&served, element.id).await;
                (element, counters)
            })
        })
        .collect();
    let (mut totals, mut reply) = (Totals::default(), pb::GetTotalsReply::default());
    for asked in asked {
        // A task of this thread ends with the process, or with its value.
        let Ok((element, counters)) = asked.await else { continue };
        match counters {
            Ok(counters) => {
                reply.answered += 1;
                add(&mut totals, &element, counters);
            }
            Err(error) => reply
                .missing
                .push(pb::MissingElement { element: element.id.number().into(), reason: error.to_string() }),
        }
    }
    let elements = settings.inventory.iter().count().try_into().unwrap_or(u32::MAX);
    let answered = reply.answered;
    reply.counters = totals
        .frames()
        .map(|(reason, count)| pb::Total {
            by: reason.by.clone(),
            reason: reason.reason.clone(),
            count,
            answered,
            elements,
        })
        .collect();
    reply.forwarding = totals
        .fates()
        .map(|(fate, count)| pb::ForwardingTotal {
            place: fate.port.map_or_else(|| "inside".into(), |port| format!("port {}", port.number())),
            outcome: fate.outcome.clone(),
            reason: fate.reason.clone(),
            packets: count.packets,
            octets: count.octets,
            answered,
            elements,
        })
        .collect();
    reply
}
