//! Route changes, for `sluice monitor`: the program subscribes to the RIB, like any component.

use crate::show::routes::Names;
use sluice_base::{Address, Forwarding, IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix, RouteAction, RouteBatch};
use sluice_clients::{SubscribedBatch, Subscription};
use sluice_xrl::idl::common::v1::{self as common, Family};
use sluice_xrl::idl::rib::v1::{self as rib, route_subscriber_service};
use sluice_xrl::routes::decode_routes;
use sluice_xrl::{CallContext, LifeEvent, Target, XrlEndpoint, XrlError};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::mpsc;

/// The most events sent together.
const PAGE: usize = 500;

/// A subscriber to routes, with the initial routes left out.
struct Subscriber {
    sender: mpsc::Sender<Vec<common::Event>>,
    /// The subscriptions, IPv4 first. Routes are not kept: the initial routes of each life of the RIB are left out.
    subscriptions: RefCell<[Subscription<IpPrefix>; 2]>,
    number: Cell<u64>,
    names: Names,
}

/// Follows the RIB's routes until the receiver of `sender` is dropped: routes present at the beginning are not sent.
pub async fn follow(router: XrlEndpoint, sender: mpsc::Sender<Vec<common::Event>>) -> Result<(), XrlError> {
    let names = Names::ask(&router).await;
    let subscriber = Subscriber { sender, subscriptions: RefCell::default(), number: Cell::new(0), names };
    let subscriber = Rc::new(subscriber);
    let service = route_subscriber_service(Rc::clone(&subscriber));
    let registered = router.register(Target::new("monitor", vec![service])).await?;
    let client = rib::RibClient::new(&router, "rib");
    let mut lives = router.watch_class("rib").await?;
    // A RIB that is born again knows nobody.
    while let Some(event) = lives.next().await {
        if !matches!(event, LifeEvent::Birth(_)) {
            subscriber.subscriptions.borrow_mut().iter_mut().for_each(Subscription::rib_died);
            continue;
        }
        for (place, family) in [Family::Ipv4, Family::Ipv6].into_iter().enumerate() {
            subscriber.subscriptions.borrow_mut()[place].rib_started();
            let target = registered.instance().to_string();
            let request = rib::SubscribeRequest { target, family: family.into(), ..Default::default() };
            // An error means that the RIB is gone again.
            if let Ok(reply) = client.subscribe(request).await {
                subscriber.subscriptions.borrow_mut()[place].accepted(reply.subscription);
            }
        }
    }
    Ok(())
}

impl Subscriber {
    fn events<P: Prefix>(
        &self,
        request: &rib::SubscribedRoutesRequest,
        batch: &RouteBatch<P>,
    ) -> Vec<common::Event> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let time_unix_ms = u64::try_from(since.as_millis()).unwrap_or(u64::MAX);
        let of = |update: &sluice_base::RouteUpdate<P>| {
            self.number.set(self.number.get() + 1);
            let prefix = update.prefix.to_string();
            let mut event = common::Event {
                number: self.number.get(),
                time_unix_ms,
                level: "info".into(),
                component: "rib".into(),
                fields: vec![field("prefix", &prefix)],
                ..Default::default()
            };
            let index = match update.action {
                RouteAction::Set(index) => Some(index as usize),
                RouteAction::Delete => None,
            };
            let Some((index, set)) = index.and_then(|index| Some((index, batch.sets.get(index)?))) else {
                let text = format!("{prefix} has no route any more");
                return common::Event { id: "rib.route.deleted".into(), text, ..event };
            };
            let way = self.way(&set.forwarding);
            event.fields.push(field("forwarding", &way));
            event.fields.push(field("metric", &set.metric.0.to_string()));
            let origin =
                request.set_origins.get(index).and_then(|place| request.origins.get(*place as usize));
            if let Some(origin) = origin {
                event.fields.push(field("origin", &origin.name));
                let kind = set.kind.name(&origin.kinds);
                event.fields.extend(kind.map(|kind| field("kind", kind)));
            }
            event.fields.extend(set.tags.as_slice().iter().map(|tag| field("tag", &tag.0.to_string())));
            common::Event { id: "rib.route.set".into(), text: format!("{prefix} goes {way}"), ..event }
        };
        batch.updates.iter().map(of).collect()
    }

    fn way(&self, forwarding: &Forwarding<Address>) -> String {
        let hops = match forwarding {
            Forwarding::Discard => return "nowhere (discard)".into(),
            Forwarding::Reject => return "nowhere (reject)".into(),
            Forwarding::Local => return "to this host".into(),
            Forwarding::NextHops(hops) => hops,
        };
        let words = hops.iter().map(|hop| {
            let via = hop.gateway.map(|gateway| format!("via {gateway}"));
            let on = hop.interface.map(|interface| format!("on {}", self.names.of(interface.number())));
            via.into_iter().chain(on).collect::<Vec<_>>().join(" ")
        });
        words.collect::<Vec<_>>().join(", ")
    }
}

fn field(name: &str, value: &str) -> common::EventField {
    common::EventField { name: name.into(), value: value.into() }
}

impl rib::RouteSubscriber for Subscriber {
    async fn subscribed_routes(
        &self,
        _ctx: &CallContext,
        request: rib::SubscribedRoutesRequest,
    ) -> Result<rib::SubscribedRoutesReply, XrlError> {
        let is_change = {
            let subscription =
                &mut self.subscriptions.borrow_mut()[usize::from(request.family() == Family::Ipv6)];
            let kind = subscription.batch(request.subscription);
            if request.dump_done {
                subscription.end_of_initial(request.subscription);
            }
            kind == SubscribedBatch::Change
        };
        if is_change {
            let events = match request.family() {
                Family::Ipv6 => self.events(&request, &decode_routes::<Ipv6Prefix>(&request.packed)?),
                _ => self.events(&request, &decode_routes::<Ipv4Prefix>(&request.packed)?),
            };
            for page in events.chunks(PAGE) {
                // Who prints is slow: the RIB waits for the reply, and merges what changes meanwhile.
                if self.sender.send(page.to_vec()).await.is_err() {
                    break; // the monitor ends
                }
            }
        }
        Ok(rib::SubscribedRoutesReply {})
    }
}
