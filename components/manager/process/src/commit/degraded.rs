//! The reasons why the router runs without a part of the configuration: reports of components, and the manager's own
//! knowledge of the configuration. Also the way back when a component refuses the start configuration.

use crate::ManagerProcess;
use crate::commit::request::{CommitRequest, Source};
use crate::revisions::FileContent;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tracing::error;

/// The most characters of a reason.
const LONGEST: usize = 1000;
/// The most reasons of a component.
const MOST: usize = 16;

/// The reasons for which the router is degraded.
#[derive(Default)]
pub struct Degraded {
    /// The reason why the running configuration differs from the configuration file of the start, if so.
    pub trouble: RefCell<Option<String>>,
    /// The reason why the last read of the configuration file was refused, if so.
    pub refused: RefCell<Option<String>>,
    /// The reasons of components that are degraded.
    components: RefCell<BTreeMap<String, Vec<String>>>,
    /// The revision to go back to if a component refuses what the router started with.
    pub back: Cell<Option<u64>>,
}

impl Degraded {
    /// Returns the state at the start: the reason why the configuration file does not run, if so, and the revision
    /// before the file.
    pub(crate) fn at_start(trouble: Option<String>, back: Option<u64>) -> Self {
        Degraded { trouble: RefCell::new(trouble), back: Cell::new(back), ..Degraded::default() }
    }

    /// Notes a component's report on itself, shortened: the component may be anybody's.
    pub fn reported(&self, class: &str, reasons: Vec<String>) {
        let reasons: Vec<String> = reasons.iter().take(MOST).map(|reason| cut(reason)).collect();
        let mut components = self.components.borrow_mut();
        match reasons.is_empty() {
            true => drop(components.remove(class)),
            false => drop(components.insert(class.into(), reasons)),
        }
    }

    /// Forgets the reports of components that stopped running.
    pub(crate) fn forget_all_but(&self, runs: impl Fn(&str) -> bool) {
        self.components.borrow_mut().retain(|class, _| runs(class));
    }

    /// Returns a component's reasons, empty while all is well.
    pub fn of_component(&self, class: &str) -> String {
        self.components.borrow().get(class).map(|reasons| joined(reasons)).unwrap_or_default()
    }

    /// Notes a commit: problems of the configuration before are over.
    pub fn committed(&self) {
        self.trouble.take();
        self.refused.take();
        self.back.take();
    }
}

fn cut(reason: &str) -> String {
    reason.chars().take(LONGEST).collect()
}

fn joined(reasons: &[String]) -> String {
    reasons.iter().map(|reason| cut(reason)).collect::<Vec<_>>().join("; ")
}

impl ManagerProcess {
    /// Returns the reasons of a component, and those for which its helpers do not run; empty while all is well.
    pub(crate) fn component_degraded(&self, class: &str) -> String {
        let own = Some(self.degraded.of_component(class)).filter(|own| !own.is_empty());
        let reasons: Vec<String> = own.into_iter().chain(self.helpers.problems(class)).collect();
        joined(&reasons)
    }

    /// Returns the reasons why the router does not run its configuration file, empty while the router does.
    pub(crate) fn own_degraded(&self) -> String {
        let mut reasons: Vec<String> = Vec::new();
        reasons.extend(self.degraded.trouble.borrow().clone());
        reasons.extend(self.degraded.refused.borrow().clone());
        if reasons.is_empty() {
            reasons.extend(self.file_differs());
        }
        joined(&reasons)
    }

    fn file_differs(&self) -> Option<String> {
        if self.copies.is_writing() || self.under_way.borrow().is_some() {
            return None;
        }
        let file = &self.options.source.file;
        let shown = file.display();
        let running = self.running.borrow().revision;
        match self.revisions.borrow_mut().file_content(file) {
            FileContent::Revision(Some(revision)) if revision != running => Some(format!(
                "{shown} has revision {revision} and could not be written since, and revision {running} runs; the next commit tries again"
            )),
            FileContent::Revision(_) => None,
            FileContent::Else => Some(format!(
                "{shown} was changed and not read since, and revision {running} runs; a SIGHUP or a start takes its contents"
            )),
            FileContent::Nothing(error) => Some(format!(
                "{shown} cannot be read ({error}), and revision {running} runs; the next commit writes it"
            )),
        }
    }

    /// Goes back to the revision before, because a component refuses the start configuration from the file. The file
    /// stays unchanged.
    pub(crate) fn go_back(self: &Rc<Self>, class: &str, reason: &str) {
        let Some(back) = self.degraded.back.take() else { return };
        let file = self.options.source.file.display();
        let trouble = format!("{class} refuses the configuration of {file}: {reason}");
        let comment = format!("{class} refused the configuration file: back to revision {back}");
        let me = Rc::clone(self);
        tokio::task::spawn_local(async move {
            if let Err(error) = me.revisions.borrow_mut().disown_file() {
                error!(%error, "cannot note that the configuration file does not run");
            }
            let source = Source::Revision(back);
            let request = CommitRequest { source, comment, confirm_within: None, confirms: false };
            match me.commit(request).await {
                Ok(done) => {
                    error!(
                        event = "config.trouble",
                        revision = done.revision,
                        "{trouble}; revision {} runs, which is revision {back}",
                        done.revision
                    );
                }
                Err(error) => error!(event = "config.rollback-failed", revision = back, "{trouble}; {error}"),
            }
            me.degraded.trouble.replace(Some(trouble));
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_come_and_go() {
        let degraded = Degraded::default();
        degraded.reported("bgp", vec!["cannot listen".into(), "x".repeat(5000)]);
        let said = degraded.of_component("bgp");
        assert!(said.starts_with("cannot listen; xxx") && said.len() < 2 * LONGEST, "{said}");
        degraded.reported("bgp", vec!["y".into(); 1000]);
        assert_eq!(degraded.of_component("bgp").matches('y').count(), MOST);
        degraded.reported("bgp", Vec::new());
        assert_eq!(degraded.of_component("bgp"), "");
        degraded.trouble.replace(Some("broken".into()));
        degraded.back.set(Some(3));
        degraded.committed();
        assert_eq!((degraded.trouble.take(), degraded.back.take()), (None, None));
    }
}
