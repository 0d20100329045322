//! The machine as a resource that tests share, or that one test has to itself, whichever program each test belongs to.

use std::fs::File;

/// Held while a test waits for the machine: later tests wait behind it, so that a stream of sharing tests never
/// keeps out a test that needs the machine alone.
const GATE: &str = "sluice-tests-gate.lock";
/// Held by each running test.
const MACHINE: &str = "sluice-tests-machine.lock";

/// A share of the machine, or the whole machine, until the value is dropped. The kernel releases the lock of a killed test.
#[must_use]
pub struct Machine(#[expect(dead_code, reason = "the open file holds the lock")] File);

fn open(name: &str) -> File {
    let path = std::env::temp_dir().join(name);
    File::options()
        .create(true)
        .append(true)
        .open(&path)
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Waits for a share of the machine, which tests of all programs can hold at once.
pub fn share() -> Machine {
    let (gate, machine) = (open(GATE), open(MACHINE));
    gate.lock().unwrap();
    machine.lock_shared().unwrap();
    Machine(machine)
}

/// Waits for the whole machine: no other test of any program holds a share until the value is dropped. A test with a full
/// table measures the router, and not the tests beside it.
pub fn alone() -> Machine {
    let (gate, machine) = (open(GATE), open(MACHINE));
    gate.lock().unwrap();
    machine.lock().unwrap();
    Machine(machine)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    #[test]
    fn a_test_alone_excludes_those_that_share() {
        static INSIDE: AtomicU32 = AtomicU32::new(0);
        let run = |wide: bool| {
            let _machine = if wide { alone() } else { share() };
            let weight = if wide { 100 } else { 1 };
            let others = INSIDE.fetch_add(weight, SeqCst);
            assert!(others < 100 && (!wide || others == 0), "{others}");
            std::thread::yield_now();
            INSIDE.fetch_sub(weight, SeqCst);
        };
        std::thread::scope(|scope| {
            for n in 0..32 {
                scope.spawn(move || run(n % 4 == 0));
            }
        });
    }
}
