//! The configuration that the elements of a cluster share, as a value of the store.

use sluice_base::Instant;
use sluice_cluster::configuration::keeper::Keeper;
use sluice_cluster::configuration::shared::{Author, DecisionId, Proposal, Shared};
use sluice_cluster::inventory::ElementId;

fn id(count: u64) -> Option<DecisionId> {
    Some(DecisionId { element: ElementId::new(21)?, epoch: 1, count })
}

/// The seeds: a configuration, and one that has to be confirmed.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut before: Option<Shared> = None;
    let following = |count: u64| {
        let author = Author { user: "ann".into(), comment: "a name".into(), time_ms: 7 };
        let text = format!("system {{ host-name router-{count}; }}");
        let within_s = (count > 1).then_some(60);
        let proposal = Proposal { id: id(count)?, text, author, within_s, confirms: false };
        before = Shared::following(before.as_ref(), proposal).ok();
        before.as_ref().map(Shared::encode)
    };
    (1..=2).filter_map(following).collect()
}

/// Reads a value, writes the value again, and lets a keeper see it.
pub fn value(input: &[u8]) {
    let Ok(shared) = Shared::decode(input) else { return };
    assert_eq!(Shared::decode(&shared.encode()).as_ref(), Ok(&shared));
    let Some(id) = id(3) else { return };
    let reverted = shared.reverted(id, 8);
    assert!(reverted.as_ref().is_none_or(|reverted| reverted.back.is_none() && reverted.follows(id)));
    let mut keeper = Keeper::default();
    keeper.seen(Instant::ZERO, Some(shared), 1);
    let _step = keeper.step(Instant::ZERO, true, id, 9);
}
