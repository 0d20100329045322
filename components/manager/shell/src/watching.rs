//! Asks every component now and then whether it is well, and ends one that is stuck, so that it starts anew.

use crate::ManagerShell;
use sluice_manager::component::Phase;
use sluice_manager::watchdog::{Verdict, Watchdog};
use sluice_shell::clock;
use sluice_xrl::idl::common::v1 as common;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use tracing::{error, info, warn};

/// How long a process may take to write its memory to disk before it is ended at once.
const DUMPS: Duration = Duration::from_secs(5);

/// Watches for as long as the manager lives.
pub async fn watch(me: Rc<ManagerShell>) {
    let watchdog = Rc::new(RefCell::new(Watchdog::default()));
    let asked: Rc<RefCell<BTreeSet<String>>> = Rc::default();
    let mut times = tokio::time::interval(Watchdog::EVERY);
    times.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        times.tick().await;
        let classes = me.driver.with(|manager| {
            let ready = manager.components().filter(|c| c.phase == Phase::Ready);
            ready.map(|c| c.spec.class.clone()).collect::<Vec<_>>()
        });
        for class in classes {
            // A component has at most one question to answer.
            if asked.borrow_mut().insert(class.clone()) {
                let (me, watchdog, asked) = (Rc::clone(&me), Rc::clone(&watchdog), Rc::clone(&asked));
                tokio::task::spawn_local(async move {
                    ask(&me, &watchdog, &class).await;
                    asked.borrow_mut().remove(&class);
                });
            }
        }
    }
}

async fn ask(me: &Rc<ManagerShell>, watchdog: &RefCell<Watchdog>, class: &str) {
    let pid = me.processes.usage(class).pid;
    let client = common::ComponentClient::new(&me.router, class).with_deadline(Watchdog::EVERY);
    let answered = client.get_status(common::GetStatusRequest {}).await.is_ok();
    let usage = me.processes.usage(class);
    if usage.pid != pid || me.phase(class) != Some(Phase::Ready) {
        return watchdog.borrow_mut().forget(class); // another life
    }
    let cpu = Duration::from_millis(usage.cpu_ms);
    if answered {
        if watchdog.borrow_mut().answered(clock::now(), class, cpu) {
            info!(event = "process.answers-again", class, "answers again");
        }
        return;
    }
    let verdict = watchdog.borrow_mut().silent(clock::now(), class, cpu);
    match verdict {
        Verdict::Well => return,
        Verdict::Busy => {
            return warn!(event = "process.busy", class, "has not answered for a while; it is busy");
        }
        Verdict::Stuck => error!(
            event = "process.stuck",
            class, "does not answer and does nothing; it is ended and started anew"
        ),
        Verdict::Circling => {
            error!(
                event = "process.stuck",
                class, "has worked for minutes without an answer; it is ended and started anew"
            );
        }
    }
    // With a core, where those are written: what it was doing is in there.
    me.processes.abort(class);
    tokio::time::sleep(DUMPS).await;
    if me.processes.usage(class).pid == pid {
        me.processes.kill(class);
    }
}
