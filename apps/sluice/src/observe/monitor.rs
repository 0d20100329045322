//! `sluice monitor` and `sluice show events`: the events of the router's processes.

use crate::connection::session::Session;
use crate::observe::monitor_routes;
use crate::output::{Failure, Output};
use serde_json::{Map, Value, json};
use sluice_cli::{Values, render};
use sluice_xrl::idl::common::v1 as common;
use sluice_xrl::{XrlEndpoint, XrlError};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::sync::mpsc;

/// The longest wait of a process for its next event.
const WAIT: Duration = Duration::from_secs(20);
/// The pause after a process without an answer.
const RETRY: Duration = Duration::from_secs(1);
/// The interval between looks for new processes.
const LOOK: Duration = Duration::from_secs(2);
/// Events of a page.
const PAGE: u32 = 500;

/// Returns true if an event is of the wanted kind.
fn wanted(what: &str, id: &str) -> bool {
    match what {
        "sessions" => id.contains(".session."),
        "routes" => id.starts_with("rib.") || [".route", ".next-hop"].iter().any(|s| id.contains(s)),
        "commits" => id.starts_with("config."),
        "processes" => id.starts_with("process."),
        _ => true,
    }
}

fn line(event: &common::Event) -> String {
    let time = render::time(event.time_unix_ms);
    let fields = sluice_process::events::beside_text(event).map(|f| format!(" {}={}", f.name, f.value));
    let fields: String = fields.collect();
    format!("{time} {:<5} {:<8} {} {}{fields}", event.level, event.component, event.id, event.text)
}

fn value(event: &common::Event) -> Value {
    let fields: Map<String, Value> =
        event.fields.iter().map(|f| (f.name.clone(), f.value.clone().into())).collect();
    json!({
        "time": render::time(event.time_unix_ms), "id": event.id, "level": event.level,
        "component": event.component, "text": event.text, "fields": fields, "number": event.number,
    })
}

/// Returns the classes of the running processes.
async fn components(router: &XrlEndpoint) -> Result<Vec<String>, XrlError> {
    let targets = router.targets().await?;
    let has = |t: &sluice_xrl::idl::finder::v1::TargetInfo| {
        t.interfaces.iter().any(|i| i.name == "common.v1.Events")
    };
    Ok(targets.iter().filter(|t| has(t)).map(|t| t.instance.clone()).collect())
}

async fn take(
    router: &XrlEndpoint,
    component: &str,
    after: u64,
    wait: Duration,
    limit: u32,
    timeout: Duration,
) -> Result<common::TakeEventsReply, XrlError> {
    let client = common::EventsClient::new(router, component).with_deadline(timeout + wait);
    let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
    client.take(common::TakeEventsRequest { after, wait_ms, limit }).await
}

/// Returns every event kept by a process.
async fn kept(
    router: &XrlEndpoint,
    component: &str,
    timeout: Duration,
) -> Result<(Vec<common::Event>, u64), XrlError> {
    let mut all = Vec::new();
    let mut after = 0;
    loop {
        let reply = take(router, component, after, Duration::ZERO, PAGE, timeout).await?;
        after = reply.last.max(after);
        let done = reply.events.len() < PAGE as usize;
        all.extend(reply.events);
        if done {
            return Ok((all, after));
        }
    }
}

/// Returns the latest events, the oldest first, and the latest event number of each process.
pub async fn recent(
    router: &XrlEndpoint,
    only: Option<&str>,
    last: usize,
    timeout: Duration,
) -> Result<(Vec<common::Event>, BTreeMap<String, u64>), Failure> {
    let mut all = Vec::new();
    let mut numbers = BTreeMap::new();
    for component in components(router).await? {
        if only.is_some_and(|o| o != component) {
            continue;
        }
        match kept(router, &component, timeout).await {
            Ok((events, number)) => {
                all.extend(events);
                numbers.insert(component, number);
            }
            // It ended meanwhile.
            Err(XrlError::Disconnected(_) | XrlError::UnknownTarget(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    all.sort_by_key(|e| e.time_unix_ms);
    let from = all.len().saturating_sub(last);
    Ok((all.split_off(from), numbers))
}

/// `show events`.
pub async fn show(session: &Session, values: &Values, out: &mut Output) -> Result<(), Failure> {
    let router = session.router().await?;
    let last = usize::try_from(values.number("last").unwrap_or(100)).unwrap_or(usize::MAX);
    let (events, _) = recent(&router, values.text("component"), last, session.flags.timeout).await?;
    out.begin_list("events", "");
    for event in &events {
        out.element(|| line(event), || value(event));
    }
    out.end_list("no events");
    Ok(())
}

/// `monitor`: a JSON document a line, or a line of text, for each event. Ends once the output is closed, or after
/// `count`.
pub async fn follow(session: &Session, values: &Values, out: &mut Output) -> Result<(), Failure> {
    let router = session.router().await?;
    let what = values.text("what").unwrap_or("all").to_string();
    let only = values.text("component").map(String::from);
    let mut left = values.number("count").unwrap_or(u64::MAX);
    let last = usize::try_from(values.number("last").unwrap_or(0)).unwrap_or(usize::MAX);
    let (before, mut numbers) = recent(&router, only.as_deref(), usize::MAX, session.flags.timeout).await?;
    let before: Vec<_> = before.into_iter().filter(|e| wanted(&what, &e.id)).collect();
    let mut print = |event: &common::Event, out: &mut Output| {
        if left == 0 || !wanted(&what, &event.id) {
            return left > 0;
        }
        match out.is_json() {
            true => out.json_line(&value(event)),
            false => out.line(&line(event)),
        }
        left -= 1;
        out.page_done() && left > 0
    };
    for event in &before[before.len().saturating_sub(last)..] {
        if !print(event, out) {
            return Ok(());
        }
    }
    let (sender, mut receiver) = mpsc::channel(16);
    let mut followed: BTreeMap<String, tokio::task::JoinHandle<()>> = BTreeMap::new();
    if matches!(what.as_str(), "routes") && only.as_ref().is_none_or(|only| only == "rib") {
        let (router, sender) = (router.clone(), sender.clone());
        tokio::task::spawn_local(async move {
            // Without it what the processes themselves report is printed nevertheless.
            let _ = monitor_routes::follow(router, sender).await;
        });
    }
    let mut look = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            page = receiver.recv() => {
                let events: Vec<common::Event> = page.unwrap_or_default();
                if !events.iter().all(|event| print(event, out)) {
                    return Ok(());
                }
            }
            _ = look.tick() => {
                followed.retain(|_, task| !task.is_finished());
                // While the Finder is away those that are followed go on.
                for component in components(&router).await.unwrap_or_default() {
                    if only.as_ref().is_none_or(|o| *o == component) && !followed.contains_key(&component) {
                        let after = numbers.remove(&component).unwrap_or(0);
                        let task = follow_one(router.clone(), component.clone(), after, session.flags.timeout, sender.clone());
                        followed.insert(component, tokio::task::spawn_local(task));
                    }
                }
                if followed.is_empty() && router.finder_connected().await.is_err() {
                    return Err(Failure::not_connected("the router has gone"));
                }
            }
        }
    }
}

/// Follows a process to its end.
async fn follow_one(
    router: XrlEndpoint,
    component: String,
    mut after: u64,
    timeout: Duration,
    sender: mpsc::Sender<Vec<common::Event>>,
) {
    loop {
        match take(&router, &component, after, WAIT, PAGE, timeout).await {
            Ok(reply) => {
                // A process that began anew counts from 1.
                after = reply.last;
                if !reply.events.is_empty() && sender.send(reply.events).await.is_err() {
                    return;
                }
            }
            Err(XrlError::DeadlineExceeded | XrlError::Busy(_)) => tokio::time::sleep(RETRY).await,
            Err(_) => return,
        }
    }
}
