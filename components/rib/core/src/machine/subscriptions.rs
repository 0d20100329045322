//! Subscriptions to routes of the RIB.

use crate::clients::announced::AnnouncedSubscriber;
use crate::clients::subscriber::{SubscribedBatch, Subscriber, SubscriptionId};
use crate::decide::table::Table;
use crate::machine::Rib;
use crate::policy::SubscriberPolicy;
use alloc::string::String;
use alloc::vec::Vec;
use sluice_base::TableId;
use sluice_stage::TableKey;

impl Rib {
    /// Subscribes to the routes of origins (none named: every origin) that a policy lets through. Existing routes and changes are pulled
    /// with [`Rib::take_subscribed`].
    pub(crate) fn subscribe_through<P: TableKey>(
        &mut self,
        table: TableId,
        origins: Vec<String>,
        policy: Option<SubscriberPolicy>,
    ) -> SubscriptionId {
        let id = SubscriptionId(self.next_subscription);
        self.next_subscription += 1;
        let (family, shared) = self.table_mut(table).split::<P>();
        let subscriber = Subscriber::new(id, origins, policy, shared);
        family.subscribers.push(subscriber);
        id
    }

    /// Subscribes to the routes of origins (none named: every origin). Existing routes and changes are pulled with
    /// [`Rib::take_subscribed`].
    pub fn subscribe<P: TableKey>(&mut self, table: TableId, origins: Vec<String>) -> SubscriptionId {
        self.subscribe_through::<P>(table, origins, None)
    }

    /// Subscribes to the routes of origins (none named: every origin but the interfaces' own) before the decision, as the origins announced
    /// them. Existing routes and changes are pulled with [`Rib::take_subscribed`].
    pub fn subscribe_announced<P: TableKey>(
        &mut self,
        table: TableId,
        origins: Vec<String>,
    ) -> SubscriptionId {
        let id = SubscriptionId(self.next_subscription);
        self.next_subscription += 1;
        let (family, shared) = self.table_mut(table).split::<P>();
        family.announced.push(AnnouncedSubscriber::new(id, origins, &shared.origins));
        id
    }

    /// Ends a subscription.
    pub(super) fn unsubscribe(&mut self, id: SubscriptionId) {
        for table in self.tables.values_mut() {
            let (families, shared) = table.families();
            families.for_each(|family| family.unsubscribe(id, shared));
            table.forget_gone();
        }
    }

    /// Returns true if a subscription has not been ended.
    pub fn has_subscription(&self, id: SubscriptionId) -> bool {
        self.tables.values().any(|table| table.all_families().any(|family| family.has_subscription(id)))
    }

    /// Returns the subscriptions to routes of a family with waiting changes.
    pub fn ready_subscriptions<P: TableKey>(&self) -> Vec<(TableId, SubscriptionId)> {
        let ready = |t: &Table| -> Vec<(TableId, SubscriptionId)> {
            let Some(family) = t.family::<P>() else { return Vec::new() };
            let selected = family.subscribers.iter().filter(|s| s.is_ready()).map(|s| s.id);
            let announced = family.announced.iter().filter(|s| s.is_ready()).map(|s| s.id);
            selected.chain(announced).map(|id| (t.id, id)).collect()
        };
        self.tables.values().flat_map(ready).collect()
    }

    /// Takes at most `limit` changes of a subscription. The second value is true once, when the first dump is complete.
    pub fn take_subscribed<P: TableKey>(
        &mut self,
        table: TableId,
        id: SubscriptionId,
        limit: usize,
    ) -> Option<(SubscribedBatch<P>, bool)> {
        let table = self.tables.get_mut(&table)?;
        let (family, shared) = table.split::<P>();
        if let Some(subscriber) = family.announced.iter_mut().find(|s| s.id == id) {
            return Some(subscriber.take(&family.entries, &shared.origins, &shared.sets, limit));
        }
        let subscriber = family.subscribers.iter_mut().find(|s| s.id == id)?;
        let taken = subscriber.take(shared, limit);
        table.forget_gone();
        Some(taken)
    }
}
