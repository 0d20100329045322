//! The program's cache in the hands of the machine.

use super::{SWEEP, Xip};
use crate::cache::{Cache, Lines};
use crate::io::Output;
use sluice_base::Instant;
use sluice_machine::{Outbox, Request};

/// The cache of the program from now on; `None`: there is no program. A request and no input: the cache is over the lines of a map.
#[derive(Debug)]
pub struct FastPath<L>(pub Option<Cache<L>>);

impl<L: Lines> Request<Xip<L>> for FastPath<L> {
    type Answer = ();

    fn make(self, machine: &mut Xip<L>, now: Instant, out: &mut Outbox<Output>) {
        machine.sweep = self.0.is_some().then(|| now + SWEEP);
        machine.asked_for_key = false;
        machine.answers.set_cache(self.0);
        machine.refresh_neighbors(now, out);
        machine.ask(out);
    }
}
