//! The expect stage: has a list of expected changes, and finds every surprise and every omission (after XORP's
//! `rt_tab_expect`).

use sluice_stage::{Action, Batch, Stage, Table, Upstream};
use std::collections::VecDeque;

/// Stands behind the stage under test. Changes must arrive in the expected order.
pub struct ExpectStage<T: Table> {
    expected: VecDeque<(T::Key, Action<T::Route>)>,
    surprises: Vec<String>,
}

impl<T: Table> ExpectStage<T> {
    /// Returns a stage without expected changes.
    pub fn new() -> Self {
        ExpectStage { expected: VecDeque::new(), surprises: Vec::new() }
    }

    /// Expects a change after the earlier expected changes.
    pub fn expect(&mut self, key: T::Key, action: Action<T::Route>) {
        self.expected.push_back((key, action));
    }

    /// Returns the differences from the expectation, in words; empty if there are none.
    pub fn differences(&self) -> Vec<String> {
        let missing = self.expected.iter().map(|(key, action)| format!("never came: {key:?} {action:?}"));
        self.surprises.iter().cloned().chain(missing).collect()
    }
}

impl<T: Table> Stage<T> for ExpectStage<T> {
    fn name(&self) -> &'static str {
        "expect"
    }

    fn process(&mut self, input: &mut Batch<T>, _up: Upstream<'_, T>, out: &mut Batch<T>) {
        for change in input.as_slice() {
            match self.expected.pop_front() {
                Some((key, action)) if key == change.key && action == change.action => {}
                Some((key, action)) => self
                    .surprises
                    .push(format!("expected {key:?} {action:?}, came {:?} {:?}", change.key, change.action)),
                None => self.surprises.push(format!("unexpected: {:?} {:?}", change.key, change.action)),
            }
        }
        out.append(input);
    }

    fn lookup(&self, key: T::Key, up: Upstream<'_, T>) -> Option<T::Route> {
        up.lookup(key)
    }
}
