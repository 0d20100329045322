//! Subscribing to routes of the RIB.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The relation of a subscriber to the RIB: one subscription to the routes of a table and family, over all lives of the RIB.
///
/// A RIB first sends the present routes and then changes. A new life of the RIB knows no subscribers: the subscriber subscribes again and
/// keeps the routes of the earlier life until the new life has sent its present routes. Routes that were not sent again are gone then.
/// `K` is the key of a route. A subscriber without a copy of the routes does not call [`Subscription::set`].
#[derive(Clone, Debug)]
pub struct Subscription<K> {
    phase: Phase,
    /// Counts subscriptions.
    generation: u32,
    /// The generation in which each route was sent last.
    routes: BTreeMap<K, u32>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// No RIB, or a RIB that refused.
    Disconnected,
    /// The RIB was asked. The first batch may arrive before the answer.
    Requested,
    /// The RIB sends the present routes.
    Initial(u64),
    /// The RIB sends changes.
    Following(u64),
}

/// The kind of a batch of routes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SubscribedBatch {
    /// A batch of an earlier subscription, without meaning.
    Stale,
    /// Routes from before the subscription.
    Initial,
    /// Changes since the subscription.
    Change,
}

impl<K: Ord + Copy> Default for Subscription<K> {
    fn default() -> Self {
        Subscription { phase: Phase::Disconnected, generation: 0, routes: BTreeMap::new() }
    }
}

impl<K: Ord + Copy> Subscription<K> {
    /// Notes a new life of the RIB. The subscriber is to subscribe.
    pub fn rib_started(&mut self) {
        self.phase = Phase::Requested;
        self.generation = self.generation.wrapping_add(1);
    }

    /// Notes the death of the RIB, or the refusal of a subscription. The routes stay.
    pub fn rib_died(&mut self) {
        self.phase = Phase::Disconnected;
    }

    /// Notes the RIB's answer: the number of the subscription.
    pub fn accepted(&mut self, subscription: u64) {
        if self.phase == Phase::Requested {
            self.phase = Phase::Initial(subscription);
        }
    }

    /// Returns the kind of a batch with this number of a subscription.
    pub fn batch(&mut self, subscription: u64) -> SubscribedBatch {
        self.accepted(subscription);
        match self.phase {
            Phase::Initial(own) if own == subscription => SubscribedBatch::Initial,
            Phase::Following(own) if own == subscription => SubscribedBatch::Change,
            _ => SubscribedBatch::Stale,
        }
    }

    /// Notes a route of a batch that is not stale.
    pub fn set(&mut self, key: K) {
        self.routes.insert(key, self.generation);
    }

    /// Notes a removed route of a batch that is not stale.
    pub fn delete(&mut self, key: K) {
        self.routes.remove(&key);
    }

    /// Notes the end of the present routes. Returns the routes of earlier lives of the RIB that were not sent again.
    pub fn end_of_initial(&mut self, subscription: u64) -> Vec<K> {
        if self.phase != Phase::Initial(subscription) {
            return Vec::new();
        }
        self.phase = Phase::Following(subscription);
        let generation = self.generation;
        let gone: Vec<K> =
            self.routes.iter().filter(|(_, sent)| **sent != generation).map(|(key, _)| *key).collect();
        self.routes.retain(|_, sent| *sent == generation);
        gone
    }

    /// Returns true if the subscriber has all present routes of the RIB.
    pub const fn is_complete(&self) -> bool {
        matches!(self.phase, Phase::Following(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn present_routes_come_before_changes() {
        let mut subscription = Subscription::<u8>::default();
        assert_eq!(subscription.batch(7), SubscribedBatch::Stale);
        subscription.rib_started();
        // The batch overtakes the answer.
        assert_eq!(subscription.batch(7), SubscribedBatch::Initial);
        subscription.accepted(7);
        assert!(!subscription.is_complete());
        assert_eq!(subscription.end_of_initial(7), []);
        assert_eq!(
            (subscription.batch(7), subscription.batch(6)),
            (SubscribedBatch::Change, SubscribedBatch::Stale)
        );
        assert!(subscription.is_complete());
        subscription.rib_died();
        assert!(subscription.batch(7) == SubscribedBatch::Stale && !subscription.is_complete());
    }

    /// An event in the life of a subscriber.
    #[derive(Clone, Debug)]
    enum Step {
        Set(u8),
        Delete(u8),
        /// The RIB restarts and has these routes.
        Restart(Vec<u8>),
    }

    proptest! {
        /// Whatever happens, the subscriber has the RIB's routes in the end, and hears of each route that went with a life of the RIB.
        #[test]
        fn a_copy_follows_the_rib(steps in prop::collection::vec(prop_oneof![
            4 => (0u8..8).prop_map(Step::Set),
            3 => (0u8..8).prop_map(Step::Delete),
            1 => prop::collection::vec(0u8..8, 0..6).prop_map(Step::Restart),
        ], 0..40)) {
            let mut subscription = Subscription::<u8>::default();
            let (mut rib, mut copy) = (alloc::collections::BTreeSet::new(), alloc::collections::BTreeSet::new());
            subscription.rib_started();
            subscription.accepted(1);
            subscription.end_of_initial(1);
            let mut life = 1;
            for step in steps {
                match step {
                    Step::Set(key) => {
                        rib.insert(key);
                        prop_assert_eq!(subscription.batch(life), SubscribedBatch::Change);
                        subscription.set(key);
                        copy.insert(key);
                    }
                    Step::Delete(key) => {
                        rib.remove(&key);
                        subscription.delete(key);
                        copy.remove(&key);
                    }
                    Step::Restart(routes) => {
                        life += 1;
                        rib = routes.into_iter().collect();
                        subscription.rib_died();
                        subscription.rib_started();
                        for key in &rib {
                            prop_assert_eq!(subscription.batch(life), SubscribedBatch::Initial);
                            subscription.set(*key);
                            copy.insert(*key);
                        }
                        subscription.accepted(life);
                        for key in subscription.end_of_initial(life) {
                            prop_assert!(copy.remove(&key));
                        }
                    }
                }
                prop_assert_eq!(&copy, &rib);
            }
        }
    }
}
