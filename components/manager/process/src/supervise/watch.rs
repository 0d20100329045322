//! Asks every component now and then for its health, and ends a stuck component, so that the component starts anew.

use crate::ManagerProcess;
use sluice_manager::Input;
use sluice_manager::component::Phase;
use sluice_manager::watchdog::{Limits, Verdict, Watchdog};
use sluice_process::clock;
use sluice_xrl::idl::common::v1 as common;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;
use tracing::{error, info, warn};

/// The time for a process to write its memory to disk before SIGKILL.
const DUMPS: Duration = Duration::from_secs(5);

/// The longest wait for the components' reports, for somebody who looks at the processes.
const LOOK: Duration = Duration::from_millis(300);

/// Names other limits, for tests: `EVERY,SILENCE,LONGEST` in milliseconds.
const LIMITS: &str = "SLUICE_WATCHDOG";

/// The limits that hold.
fn limits() -> Limits {
    std::env::var(LIMITS).ok().and_then(|text| read_limits(&text)).unwrap_or_default()
}

fn read_limits(text: &str) -> Option<Limits> {
    let mut numbers = text.split(',').map(|word| word.parse().ok().filter(|ms| *ms > 0));
    let mut next = || numbers.next().flatten().map(Duration::from_millis);
    let limits = Limits { every: next()?, silence: next()?, longest: next()? };
    numbers.next().is_none().then_some(limits)
}

/// Watches for as long as the manager lives.
pub async fn watch(me: Rc<ManagerProcess>) {
    let limits = limits();
    let watchdog = Rc::new(RefCell::new(Watchdog::new(limits)));
    let asked: Rc<RefCell<BTreeSet<String>>> = Rc::default();
    let mut times = tokio::time::interval(limits.every);
    times.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        times.tick().await;
        me.degraded.forget_all_but(|class| me.phase(class) == Some(Phase::Ready));
        for class in ready(&me) {
            // A component has at most one question to answer.
            if asked.borrow_mut().insert(class.clone()) {
                let (me, watchdog, asked) = (Rc::clone(&me), Rc::clone(&watchdog), Rc::clone(&asked));
                tokio::task::spawn_local(async move {
                    ask(&me, &watchdog, limits, &class).await;
                    asked.borrow_mut().remove(&class);
                });
            }
        }
    }
}

/// Returns the components that run.
fn ready(me: &ManagerProcess) -> Vec<String> {
    me.driver.read(|manager| {
        let ready = manager.components().filter(|c| c.phase == Phase::Ready);
        ready.map(|c| c.spec.name.clone()).collect()
    })
}

/// Asks all components for their reports, so that somebody who looks at the processes sees a problem at once and not after the next round of
/// [`watch`]. A component that does not answer soon keeps the report before.
pub async fn look(me: &Rc<ManagerProcess>) {
    let mut asked = tokio::task::JoinSet::new();
    for class in ready(me) {
        let me = Rc::clone(me);
        asked.spawn_local(async move {
            let client = common::ComponentClient::new(&me.router, &class).with_deadline(LOOK);
            let answer = client.get_status(common::GetStatusRequest {}).await;
            if let Ok(status) = answer
                && me.phase(&class) == Some(Phase::Ready)
            {
                me.degraded.reported(&class, status.degraded);
            }
        });
    }
    while asked.join_next().await.is_some() {}
}

async fn ask(me: &Rc<ManagerProcess>, watchdog: &RefCell<Watchdog>, limits: Limits, class: &str) {
    let pid = me.processes.pid(class);
    let client = common::ComponentClient::new(&me.router, class).with_deadline(limits.every);
    let answer = client.get_status(common::GetStatusRequest {}).await;
    let answered = answer.is_ok();
    if let Ok(status) = answer {
        me.degraded.reported(class, status.degraded);
    }
    if me.processes.pid(class) != pid || me.phase(class) != Some(Phase::Ready) {
        return watchdog.borrow_mut().forget(class); // another life
    }
    // Who has to wait for others before it gets a processor is busy too.
    let cpu = me.processes.effort(class);
    if answered {
        if watchdog.borrow_mut().answered(clock::now(), class, cpu) {
            info!(event = "process.answers-again", class, "answers again");
        }
        return;
    }
    let verdict = watchdog.borrow_mut().silent(clock::now(), class, cpu);
    let reason = match verdict {
        Verdict::Well => return,
        Verdict::Busy => {
            let silence_ms = limits.silence.as_millis() as u64;
            return warn!(
                event = "process.busy",
                class, silence_ms, "has not answered for a while; it is busy"
            );
        }
        Verdict::Stuck => format!("it did not answer for {:?} and did nothing", limits.silence),
        Verdict::Livelocked => format!("it worked for {:?} without an answer", limits.longest),
    };
    error!(event = "process.stuck", class, pid, reason, "stuck: {reason}; it is ended and started anew");
    me.driver.input(Input::Killed(class.into(), reason));
    // With a core, where those are written: what it was doing is in there.
    me.processes.abort(class);
    tokio::time::sleep(DUMPS).await;
    if me.processes.pid(class) == pid {
        me.processes.kill(class);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_three_numbers() {
        let ms = Duration::from_millis;
        let all = Limits { every: ms(100), silence: ms(500), longest: ms(9000) };
        assert_eq!(read_limits("100,500,9000"), Some(all));
        for wrong in ["", "1", "1,2", "1,2,3,4", "0,1,2", "a,b,c", "1,2,-3"] {
            assert_eq!(read_limits(wrong), None, "{wrong}");
        }
    }
}
