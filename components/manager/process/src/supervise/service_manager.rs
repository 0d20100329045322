//! Reports to the host's service manager (systemd) by sd_notify(3): readiness, status, shutdown. Without a service
//! manager nothing is sent.

use crate::ManagerProcess;
use sd_notify::NotifyState;
use sluice_manager::Manager;
use sluice_manager::component::{Component, Phase};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// The longest wait for components until the router counts as ready without them: a service manager that waits in vain
/// would end the router, and with the router the working components.
const PATIENCE: Duration = Duration::from_secs(30);

/// The way there.
#[derive(Default)]
pub struct ServiceManager {
    changed: Notify,
}

impl ServiceManager {
    /// A component may be in another phase.
    pub fn look(&self) {
        self.changed.notify_one();
    }

    /// The router ends.
    pub fn stopping(&self) {
        notify(&[NotifyState::Stopping]);
    }
}

/// Notifies it for as long as the manager lives.
pub async fn follow(me: Rc<ManagerProcess>) {
    if std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    let patience = tokio::time::sleep(PATIENCE);
    tokio::pin!(patience);
    let mut status = String::new();
    let mut is_notified = false;
    loop {
        let (is_ready, now) = me.driver.read(|manager| (manager.is_ready(), summary(manager)));
        if now != status {
            status = now;
            notify(&[NotifyState::Status(&status)]);
        }
        if !is_notified && (is_ready || patience.is_elapsed()) {
            is_notified = true;
            notify(&[NotifyState::Ready]);
        }
        tokio::select! {
            () = me.service_manager.changed.notified() => {}
            () = &mut patience, if !is_notified => {}
        }
    }
}

/// The router in a line, as `systemctl status` shows it.
fn summary(manager: &Manager) -> String {
    let names = |wanted: &dyn Fn(&Component) -> bool, name: &dyn Fn(&Component) -> String| {
        let those = manager.components().filter(|c| c.is_wanted() && wanted(c));
        those.map(name).collect::<Vec<_>>().join(", ")
    };
    match manager.is_ready() {
        true => format!("ready: {}", names(&|_| true, &|c| c.spec.name.clone())),
        false => {
            let name = |c: &Component| format!("{} is {}", c.spec.name, c.phase.name());
            format!("not ready: {}", names(&|c| c.phase != Phase::Ready, &name))
        }
    }
}

/// A service manager that does not listen is no reason not to route.
fn notify(states: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(states);
}
