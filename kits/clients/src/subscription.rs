//! Subscribing to routes of the RIB.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use sluice_base::Tag;

/// The tag of routes that the RIB sends to a subscriber of named origins, if the origin's routes come from outside of the network: from
/// BGP. A protocol that announces the routes passes their tags on, so that BGP recognizes the routes if they come back. From the
/// range of tags that RFC 1745 sets aside for routes out of BGP.
pub const EXTERNAL_TAG: Tag = Tag(0xd000_0000);

/// The relation of a subscriber to the RIB: one subscription to the routes of a table and family, over all lives of the RIB and over all
/// sets of origins.
///
/// A RIB first sends the present routes and then changes. A new life of the RIB knows no subscribers, and a subscription to other origins
/// begins like one at a new RIB: the subscriber subscribes again and keeps the earlier routes until the present routes are complete.
/// Routes not sent again are then gone. Subscriptions have numbers; a batch of an earlier subscription is stale.
/// `K` is the key of a route: a prefix, or an origin and a prefix where the RIB sends the routes as announced, before its decision. A
/// subscriber without a copy of the routes does not call [`Subscription::set`]. Memory: a key and four octets for each route of the
/// subscription.
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
    /// No RIB, a RIB that refused, or no wish for routes.
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

    /// Notes routes that an earlier process of the subscriber had. They are gone unless the first subscription sends them again.
    pub fn resume(&mut self, keys: impl IntoIterator<Item = K>) {
        let generation = self.generation;
        self.routes.extend(keys.into_iter().map(|key| (key, generation)));
    }

    /// Begins another subscription at the present RIB, as for other origins. Returns the number of the subscription to end, if there
    /// is one. The subscriber is to subscribe, and keeps its routes meanwhile.
    pub fn renew(&mut self) -> Option<u64> {
        let number = self.number();
        self.rib_started();
        number
    }

    /// Ends the wish for routes. Returns the number of the subscription to end, if there is one, and the removed routes.
    pub fn stop(&mut self) -> (Option<u64>, Vec<K>) {
        let number = self.number();
        self.phase = Phase::Disconnected;
        (number, core::mem::take(&mut self.routes).into_keys().collect())
    }

    /// Returns the number of the present subscription; `None` without one.
    pub const fn number(&self) -> Option<u64> {
        match self.phase {
            Phase::Initial(number) | Phase::Following(number) => Some(number),
            Phase::Disconnected | Phase::Requested => None,
        }
    }

    /// Returns true while the RIB's answer is awaited: the subscription of a batch is not known yet.
    pub fn is_requested(&self) -> bool {
        self.phase == Phase::Requested
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

    /// Records a route of a current batch.
    pub fn set(&mut self, key: K) {
        self.routes.insert(key, self.generation);
    }

    /// Records a removed route of a current batch.
    pub fn delete(&mut self, key: K) {
        self.routes.remove(&key);
    }

    /// Notes the end of the present routes. Returns the routes of earlier lives of the RIB not sent again.
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

    /// Returns true if the subscriber has the RIB's present routes completely.
    pub const fn is_complete(&self) -> bool {
        matches!(self.phase, Phase::Following(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
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

    #[test]
    fn a_renewed_subscription_ends_the_one_before() {
        let mut subscription = Subscription::<u8>::default();
        assert_eq!(subscription.renew(), None, "there is none to end");
        subscription.accepted(3);
        subscription.set(1);
        subscription.end_of_initial(3);
        assert_eq!(subscription.renew(), Some(3));
        assert!(subscription.is_requested());
        subscription.accepted(4);
        assert_eq!(subscription.batch(3), SubscribedBatch::Stale);
        assert_eq!(subscription.end_of_initial(3), []);
        assert_eq!(subscription.end_of_initial(4), [1]);
        subscription.set(2);
        assert_eq!(subscription.stop(), (Some(4), Vec::from([2])));
        assert_eq!(subscription.stop(), (None, Vec::new()));
    }

    #[test]
    fn announced_routes_of_a_prefix_are_kept_by_origin() {
        let mut subscription = Subscription::<(&str, u8)>::default();
        subscription.rib_started();
        subscription.accepted(1);
        for origin in ["bgp", "static"] {
            subscription.set((origin, 1));
        }
        subscription.end_of_initial(1);
        subscription.renew();
        subscription.accepted(2);
        subscription.set(("static", 1));
        assert_eq!(subscription.end_of_initial(2), [("bgp", 1)], "the other origin's route stays");
    }

    /// An event in the life of a subscriber.
    #[derive(Clone, Debug)]
    enum Step {
        Set(u8),
        Delete(u8),
        /// The RIB restarts and has these routes; before that, it dies after so many of its present routes.
        Restart(Vec<u8>, usize),
        /// The subscriber subscribes again at the same RIB, which sends these routes.
        Renew(Vec<u8>),
        /// The subscriber wants no routes.
        Stop,
        /// The subscriber's next process begins with the routes of the present one.
        Resume,
    }

    fn step() -> impl Strategy<Value = Step> {
        let routes = || prop::collection::vec(0u8..8, 0..6);
        prop_oneof![
            4 => (0u8..8).prop_map(Step::Set),
            3 => (0u8..8).prop_map(Step::Delete),
            1 => (routes(), 0usize..6).prop_map(|(routes, sent)| Step::Restart(routes, sent)),
            1 => routes().prop_map(Step::Renew),
            1 => Just(Step::Stop),
            1 => Just(Step::Resume),
        ]
    }

    /// A subscriber with a copy of the routes, and the RIB.
    #[derive(Default)]
    struct Pair {
        subscription: Subscription<u8>,
        rib: BTreeSet<u8>,
        copy: BTreeSet<u8>,
        /// The number of the newest subscription.
        number: u64,
    }

    impl Pair {
        fn sends(&mut self, key: u8, kind: SubscribedBatch) {
            assert_eq!(self.subscription.batch(self.number), kind);
            self.subscription.set(key);
            self.copy.insert(key);
        }

        /// The RIB answers with another subscription and sends its present routes.
        fn begins(&mut self) {
            self.number += 1;
            for key in self.rib.clone() {
                self.sends(key, SubscribedBatch::Initial);
            }
            self.subscription.accepted(self.number);
            for key in self.subscription.end_of_initial(self.number) {
                assert!(self.copy.remove(&key), "{key} is gone twice");
            }
            assert!(self.subscription.is_complete());
        }

        fn act(&mut self, step: Step) {
            match step {
                Step::Set(key) => {
                    self.rib.insert(key);
                    self.sends(key, SubscribedBatch::Change);
                }
                Step::Delete(key) => {
                    self.rib.remove(&key);
                    self.subscription.delete(key);
                    self.copy.remove(&key);
                }
                Step::Restart(routes, sent) => {
                    self.rib = routes.into_iter().collect();
                    self.subscription.rib_died();
                    self.subscription.rib_started();
                    self.number += 1;
                    for key in self.rib.clone().into_iter().take(sent) {
                        self.sends(key, SubscribedBatch::Initial);
                    }
                    self.subscription.rib_died();
                    assert!(!self.subscription.is_complete());
                    self.subscription.rib_started();
                    self.begins();
                }
                Step::Renew(routes) => {
                    self.rib = routes.into_iter().collect();
                    let ended = self.subscription.renew();
                    assert_eq!(ended, Some(self.number));
                    self.begins();
                    assert_eq!(
                        ended.map(|ended| self.subscription.batch(ended)),
                        Some(SubscribedBatch::Stale)
                    );
                }
                Step::Stop => {
                    let (ended, gone) = self.subscription.stop();
                    assert_eq!((ended, gone.into_iter().collect()), (Some(self.number), self.copy.clone()));
                    self.copy.clear();
                    self.subscription.renew();
                    self.begins();
                }
                Step::Resume => {
                    self.subscription = Subscription::default();
                    self.subscription.resume(self.copy.iter().copied());
                    self.subscription.rib_started();
                    self.begins();
                }
            }
        }
    }

    proptest! {
        /// Whatever happens, the subscriber has the RIB's routes in the end, and learns of each route that went with a subscription.
        #[test]
        fn a_copy_follows_the_rib(steps in prop::collection::vec(step(), 0..40)) {
            let mut pair = Pair::default();
            pair.subscription.rib_started();
            pair.begins();
            for step in steps {
                pair.act(step);
                prop_assert_eq!(&pair.copy, &pair.rib);
            }
        }
    }
}
