//! A fuzz target under libFuzzer: `SLUICE_FUZZ_TARGET` names the target, `SLUICE_FUZZ_SEEDS` a folder that receives
//! its seeds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sluice_fuzz::Target;
use std::env::var;
use std::path::Path;
use std::sync::LazyLock;

static TARGET: LazyLock<&Target> = LazyLock::new(|| {
    let name = var("SLUICE_FUZZ_TARGET").expect("SLUICE_FUZZ_TARGET names a target");
    sluice_fuzz::target(&name).unwrap_or_else(|| panic!("no target is called {name}"))
});

fuzz_target!(
    init: {
        if let Ok(folder) = var("SLUICE_FUZZ_SEEDS") {
            for (number, seed) in TARGET.inputs().iter().enumerate() {
                std::fs::write(Path::new(&folder).join(format!("seed-{number}")), seed).expect("seeds are written");
            }
        }
        TARGET.warm_up();
    },
    |input: &[u8]| TARGET.check(input)
);
