//! Scratch.
use sluice_sim::campaign::*;
fn main() {
    let arg = |n: usize, d: u64| std::env::args().nth(n).and_then(|a| a.parse().ok()).unwrap_or(d);
    if arg(3, 0) == 1 {
        let s = serde_json::from_str(&std::fs::read_to_string("/tmp/sim.scenario.json").unwrap()).unwrap();
        let o = run(&s, Some(Box::new(std::io::stdout())));
        println!("{o:#?}");
        return;
    }
    let r = campaign(&Budget {
        first: arg(1, 0),
        seeds: arg(2, 10),
        time: Some(std::time::Duration::from_secs(30)),
        jobs: 1,
    });
    println!("{} seeds {} events {} virtual s {:.2} s", r.seeds, r.events, r.virtual_seconds, r.seconds);
    if let Some((s, w)) = r.failure {
        println!("{}\n{w:#?}", serde_json::to_string_pretty(&s).unwrap());
    }
}
