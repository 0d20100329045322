//! Scratch.
use sluice_base::Rng;
use sluice_sim::network::*;
use sluice_sim::simulate::{self, Plan};
use sluice_sim::world::Settings;
fn main() {
    let arg = |n: usize, d: u32| std::env::args().nth(n).and_then(|a| a.parse().ok()).unwrap_or(d);
    let (nodes, per, pref) = (arg(1, 100), arg(2, 6), arg(3, 3));
    let mut settings = Settings::light();
    settings.reaction = u64::from(arg(4, 1)) * 1_000_000;
    let mut rng = Rng::from_seed(7);
    let mut network = Network::default();
    for n in 0..nodes {
        network.nodes.push(Node::new(1 + n));
    }
    let mut seen = std::collections::BTreeSet::new();
    for a in 1..nodes {
        for k in 0..per {
            let b = if k == 0 { rng.below(a.into()) as u32 } else { rng.below(nodes.into()) as u32 };
            if a != b && seen.insert((a.min(b), a.max(b))) {
                network.links.push(Link::new(a, b, 1_000_000 + rng.below(20_000_000)));
            }
        }
    }
    simulate::originate(&mut network, pref);
    let (s, _) =
        simulate::run(Plan { network, seed: 1, settings, until: 600, boot_spread: 1_000_000_000 }, |_| {});
    println!("{s:#?}");
}
