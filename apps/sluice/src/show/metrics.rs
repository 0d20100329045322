//! `sluice show metrics`: components' answers, as the metrics declared by their packages (`metrics.toml`).
//!
//! Each call is made once, in parallel, regardless of the number of metrics from the answer: stuck components cost a
//! single timeout. Metrics of a stuck component are missing, and `sluice_up` reports the component to readers without
//! standard error.

use crate::components::MANAGER_METRICS;
use crate::connection::session::Session;
use crate::output::{Failure, Output, complain};
use serde_json::{Value, json};
use sluice_cli::metrics::{END, Family, Sample, samples};
use sluice_config::metrics::{self, Call, EXPORTED, Metric, Type};
use sluice_xrl::idl::manager::v1 as pb;
use sluice_xrl::{XrlEndpoint, XrlError, text};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::task::JoinHandle;

/// The manager's name, whose metrics are part of the executable.
const MANAGER: &str = "manager";

/// Limits on the metrics of a component: a package may be anybody's.
#[derive(Clone, Copy)]
struct Limits {
    /// Series; the rest are counted.
    series: usize,
    /// Octets of an answer.
    octets: usize,
}

/// Limits of a package.
const OF_A_PACKAGE: Limits = Limits { series: 10_000, octets: 4 << 20 };
/// Limits of a component of the router.
const OF_THE_ROUTER: Limits = Limits { series: 1_000_000, octets: 16 << 20 };

/// The metrics declared by a package.
struct Declared {
    /// The component's name, or the package's for a package without a component.
    component: String,
    limits: Limits,
    metrics: Vec<Metric>,
}

/// An error in a component's metrics.
struct Wrong {
    component: String,
    failure: Failure,
}

/// An answer, with the number of list entries that were left out, by the list's name.
type Answer = (Value, BTreeMap<String, u64>);

/// Answers by call; `None` for a component not meant to run.
type Answers = BTreeMap<Call, Option<Result<Answer, XrlError>>>;

/// Shows metrics of every component, or of the component `only`.
pub async fn show(session: &Session, only: Option<&str>, out: &mut Output) -> Result<(), Failure> {
    let router = session.router().await?;
    let mut wrongs = Vec::new();
    let mut declared = declared(session, &mut wrongs).await?;
    if let Some(only) = only {
        declared.retain(|d| d.component == only);
        wrongs.retain(|wrong: &Wrong| wrong.component == only);
        if declared.is_empty() && wrongs.is_empty() {
            return Err(Failure::failed(format!("there is no component `{only}` that brings metrics")));
        }
    }
    let mut calls = BTreeMap::<Call, Limits>::new();
    for (call, limits) in declared.iter().flat_map(|d| d.metrics.iter().map(|m| (&m.call, d.limits))) {
        // Packages may use answers of the router's components, which have more.
        let known = calls.entry(call.clone()).or_insert(limits);
        *known = if known.series < limits.series { limits } else { *known };
    }
    let mut answers = ask(&router, calls, session.flags.timeout).await;
    // Who was asked for by name is missed also if nobody wants it to run.
    if only.is_none() {
        forget_the_unwanted(&router, &mut answers, session.flags.timeout).await;
    }
    let mut families = vec![up(&declared, &answers)];
    let mut left_out = Vec::new();
    for one in &declared {
        let (found, wrong, excess) = of_component(one, &answers);
        families.extend(found);
        wrongs.extend(wrong);
        if excess > 0 {
            let labels = [("component".to_string(), one.component.clone())].into();
            left_out.push(Sample { labels, value: excess.into() });
            let text = format!("{excess} series beyond the limit of {} are left out", one.limits.series);
            wrongs.push(Wrong { component: one.component.clone(), failure: Failure::failed(text) });
        }
    }
    if !left_out.is_empty() {
        families.insert(1, excess_family(left_out));
    }
    let has_any = families.iter().skip(1).any(|family| !family.samples.is_empty());
    if only.is_some() && !has_any && !wrongs.is_empty() {
        return Err(wrongs.swap_remove(0).failure);
    }
    print(&families, &wrongs, out);
    Ok(())
}

/// Returns the declarations of the manager and of the running router's packages.
async fn declared(session: &Session, wrongs: &mut Vec<Wrong>) -> Result<Vec<Declared>, Failure> {
    let reply = session.configuration().await?.get_packages(pb::GetPackagesRequest {}).await?;
    let taken = reply.packages.into_iter().filter(|p| p.refused.is_empty() && !p.metrics.is_empty());
    let limits = |p: &pb::Package| if p.builtin { OF_THE_ROUTER } else { OF_A_PACKAGE };
    let mut texts: Vec<_> = taken.map(|p| (limits(&p), p.name, p.metrics)).collect();
    texts.push((OF_THE_ROUTER, MANAGER.into(), MANAGER_METRICS.into()));
    let mut all = Vec::new();
    for (limits, component, text) in texts {
        match metrics::parse(&component, &text) {
            Ok(metrics) => all.push(Declared { component, limits, metrics }),
            // The router took it: it is of another version than this program.
            Err(error) => wrongs.push(Wrong { component, failure: Failure::failed(error.to_string()) }),
        }
    }
    all.sort_by(|a, b| a.component.cmp(&b.component));
    Ok(all)
}

/// Makes every call, and waits for every answer.
async fn ask(router: &XrlEndpoint, calls: BTreeMap<Call, Limits>, timeout: Duration) -> Answers {
    let ask_one = |call: &Call, Limits { series, octets }: Limits| -> JoinHandle<Result<Answer, XrlError>> {
        let (router, call) = (router.clone(), call.clone());
        tokio::task::spawn_local(async move {
            let method = (call.target.as_str(), call.interface.as_str(), call.method.as_str());
            let fields: Vec<(String, String)> = call.with.clone().into_iter().collect();
            let asking = text::read_plain_bounded(&router, method, &fields, timeout, (series, octets));
            // What the method looks like is asked first, and may not be answered either.
            tokio::time::timeout(timeout, asking).await.unwrap_or(Err(XrlError::DeadlineExceeded))
        })
    };
    let ask_all = calls.into_iter().map(|(call, limits)| (ask_one(&call, limits), call));
    let asked: Vec<_> = ask_all.collect();
    let mut answers = Answers::new();
    for (task, call) in asked {
        let answer = task.await.unwrap_or_else(|e| Err(XrlError::Protocol(e.to_string())));
        answers.insert(call, Some(answer));
    }
    answers
}

/// Drops the errors of components not configured: their absence is no error.
async fn forget_the_unwanted(router: &XrlEndpoint, answers: &mut Answers, timeout: Duration) {
    let absent =
        |answer: &Option<Result<_, XrlError>>| matches!(answer, Some(Err(XrlError::UnknownTarget(_))));
    if !answers.values().any(absent) {
        return;
    }
    let manager = pb::ManagerClient::new(router, MANAGER).with_deadline(timeout);
    // Without an answer every component that is not there is missed.
    let Ok(reply) = manager.get_processes(pb::GetProcessesRequest {}).await else { return };
    let is_wanted =
        |target: &str| reply.processes.iter().any(|p| p.component == target && p.state != "stopped");
    for (call, answer) in answers.iter_mut() {
        if absent(answer) && !is_wanted(&call.target) {
            *answer = None;
        }
    }
}

/// Returns the metric of components that answered every call.
fn up(declared: &[Declared], answers: &Answers) -> Family {
    let sample = |one: &Declared| {
        let mut asked =
            one.metrics.iter().filter_map(|metric| answers.get(&metric.call)?.as_ref()).peekable();
        asked.peek()?;
        let value = u8::from(asked.all(Result::is_ok)).into();
        Some(Sample { labels: [("component".to_string(), one.component.clone())].into(), value })
    };
    Family {
        name: format!("{EXPORTED}up"),
        kind: Type::Gauge,
        help: "Whether a component has answered what its metrics are made of.".into(),
        unit: None,
        samples: declared.iter().filter_map(sample).collect(),
    }
}

/// Returns the metric of series beyond a component's limit.
fn excess_family(samples: Vec<Sample>) -> Family {
    Family {
        name: format!("{EXPORTED}series_left_out"),
        kind: Type::Gauge,
        help: "Series of a component beyond the limit, which are not shown.".into(),
        unit: None,
        samples,
    }
}

/// Returns a component's families, its errors, and the number of series beyond its limit. A missing answer is reported once.
fn of_component(one: &Declared, answers: &Answers) -> (Vec<Family>, Vec<Wrong>, u64) {
    let (mut families, mut said) = (Vec::new(), BTreeMap::new());
    let (mut left, mut excess) = (one.limits.series, 0);
    for metric in &one.metrics {
        match answers.get(&metric.call) {
            Some(Some(Ok((answer, left_out)))) => {
                let (mut samples, troubles) = samples(metric, answer);
                excess +=
                    left_out.get(metric.rows.split('.').next().unwrap_or_default()).copied().unwrap_or(0);
                excess += samples.len().saturating_sub(left) as u64;
                samples.truncate(left);
                left -= samples.len();
                for trouble in troubles {
                    let text = format!("{}: {trouble}", metric.name);
                    said.entry(text.clone()).or_insert_with(|| Failure::failed(text));
                }
                families.push(Family { samples, ..Family::of(metric) });
            }
            Some(Some(Err(error))) => {
                said.entry(error.to_string()).or_insert_with(|| Failure::from(error.clone()));
            }
            Some(None) | None => {}
        }
    }
    let wrong = |failure| Wrong { component: one.component.clone(), failure };
    (families, said.into_values().map(wrong).collect(), excess)
}

fn print(families: &[Family], wrongs: &[Wrong], out: &mut Output) {
    if out.is_json() {
        let errors: Vec<Value> = wrongs
            .iter()
            .map(|w| json!({ "component": w.component, "code": w.failure.code, "message": w.failure.text() }))
            .collect();
        let families: Vec<Value> = families.iter().map(family_json).collect();
        return out.json(&json!({ "metrics": families, "errors": errors }));
    }
    for family in families {
        out.write(&family.text());
    }
    out.line(END);
    out.flush();
    for wrong in wrongs {
        complain(&format!("sluice: {}: {}", wrong.component, wrong.failure.text()));
    }
}

fn family_json(family: &Family) -> Value {
    let samples: Vec<Value> =
        family.samples.iter().map(|s| json!({ "labels": s.labels, "value": s.value })).collect();
    json!({
        "name": family.name, "type": family.kind.name(), "help": family.help, "unit": family.unit,
        "samples": samples,
    })
}
