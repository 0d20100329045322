//! The guard of a component's limited calls: the process (XORP, section 7: an intermediary that restricts arguments).
//!
//! The Finder resolves a limited method of target T to this process's target `guard@COMPONENT:T`. The guard decodes the arguments,
//! checks them (`sluice_guard`), and makes the same call at T with the rights of the component.

use serde_json::Value;
use sluice_base::instance_of;
use sluice_guard::{Argument, Bucket, check};
use sluice_process::part::Planned;
use sluice_process::rights::Limit;
use sluice_process::{Component, Frame, Prepared, RunOptions, Tasks, clock};
use sluice_xrl::text::Decoder;
use sluice_xrl::{CallContext, LifeEvent, Method, Octets, Service, Target, TargetHandle, XrlError};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use tracing::warn;

/// The guard's process.
pub struct GuardProcess {
    frame: Frame,
    /// The component whose calls pass here.
    component: String,
    limits: RefCell<Vec<Rc<Limited>>>,
    /// The registered targets, by the target behind each.
    registered: RefCell<BTreeMap<String, TargetHandle>>,
    tasks: Tasks,
}

/// A limit, with the count of its calls.
struct Limited {
    limit: Limit,
    bucket: Option<RefCell<Bucket>>,
}

/// Runs a guard until asked to end.
pub fn run(options: RunOptions) -> anyhow::Result<()> {
    sluice_process::run(options, |frame| async move {
        let component = instance_of(&frame.name).unwrap_or_default().to_owned();
        Ok(Rc::new(GuardProcess {
            frame,
            component,
            limits: RefCell::default(),
            registered: RefCell::default(),
            tasks: Tasks::default(),
        }))
    })
}

impl GuardProcess {
    /// Keeps a target of the guard registered for each target with limited methods: described as that target describes
    /// itself in its present life.
    async fn stand_before(self: Rc<Self>, target: String) {
        let Ok(mut lives) = self.frame.router.watch_class(&target).await else { return };
        while let Some(event) = lives.next().await {
            if matches!(event, LifeEvent::Birth(_))
                && let Err(error) = self.register(&target).await
            {
                warn!(target, %error, "calls of the target stay refused");
            }
        }
    }

    async fn register(self: &Rc<Self>, target: &str) -> Result<(), XrlError> {
        // The one before goes first: two targets cannot have one name.
        drop(self.registered.borrow_mut().remove(target));
        let mut services = Vec::new();
        for interface in self.interfaces(target) {
            let descriptors = self.frame.router.descriptors(target, &interface).await?;
            let mut methods = Vec::new();
            for limited in self.limits_of(target, &interface) {
                let (_, _, method) = limited.limit.parts().unwrap_or_default();
                let method = method.to_owned();
                let decoder = Rc::new(Decoder::new(&descriptors, &interface, &method)?);
                let (me, target, path) =
                    (Rc::clone(self), target.to_owned(), format!("{interface}/{method}"));
                let handle = move |ctx: CallContext, octets: Octets| {
                    let call = (Rc::clone(&me), Rc::clone(&limited), Rc::clone(&decoder));
                    let (target, path) = (target.clone(), path.clone());
                    async move {
                        let (me, limited, decoder) = call;
                        me.pass_on(ctx, &limited, &decoder, (&target, &path), octets).await
                    }
                };
                methods.push(Method::new(method, handle));
            }
            services.push(Service::described(interface, descriptors, methods));
        }
        let name = format!("{}:{target}", self.frame.name);
        let handle = self.frame.router.register(Target::new("guard", services).named(&name)).await?;
        self.registered.borrow_mut().insert(target.to_owned(), handle);
        Ok(())
    }

    /// Checks a call and makes it at the target.
    async fn pass_on(
        &self,
        ctx: CallContext,
        limited: &Limited,
        decoder: &Decoder,
        (target, path): (&str, &str),
        octets: Octets,
    ) -> Result<Octets, XrlError> {
        let refused = |why: String| {
            let subject = format!("{target}/{path}: {why}");
            self.frame.router.report_refusal(&ctx, &subject);
            XrlError::AccessDenied(subject)
        };
        // The call is made with the rights of the component: for nobody else.
        if *ctx.principal != *self.component {
            return Err(refused(format!("this guard is for calls of {} only", self.component)));
        }
        let arguments = argument(decoder.plain(&octets.0)?);
        check(&arguments, &limited.limit).map_err(|breach| refused(breach.to_string()))?;
        if let Some(bucket) = &limited.bucket {
            bucket.borrow_mut().take(clock::now()).map_err(|breach| refused(breach.to_string()))?;
        }
        let within =
            ctx.deadline.map(|deadline| deadline.saturating_duration_since(tokio::time::Instant::now()));
        self.frame.router.call_octets(target, path, None, within, octets).await
    }

    fn interfaces(&self, target: &str) -> BTreeSet<String> {
        let limits = self.limits.borrow();
        let of_target =
            limits.iter().filter_map(|limited| limited.limit.parts()).filter(|(t, ..)| *t == target);
        of_target.map(|(_, interface, _)| interface.to_owned()).collect()
    }

    fn limits_of(&self, target: &str, interface: &str) -> Vec<Rc<Limited>> {
        let limits = self.limits.borrow();
        let is_it = |limited: &&Rc<Limited>| {
            limited.limit.parts().is_some_and(|(t, i, _)| t == target && i == interface)
        };
        limits.iter().filter(is_it).cloned().collect()
    }
}

/// Returns decoded arguments in the form of the core.
pub fn argument(value: Value) -> Argument {
    match value {
        Value::Null => Argument::Absent,
        Value::Bool(flag) => Argument::Flag(flag),
        Value::Number(number) => number.as_i128().map_or(Argument::Absent, Argument::Number),
        Value::String(text) => Argument::Text(text),
        Value::Array(entries) => Argument::List(entries.into_iter().map(argument).collect()),
        Value::Object(members) => {
            Argument::Message(members.into_iter().map(|(name, value)| (name, argument(value))).collect())
        }
    }
}

impl Component for GuardProcess {
    const CLASS: &'static str = "guard";

    type Settings = Vec<Limit>;

    type Error = serde_json::Error;

    fn services(self: &Rc<Self>) -> Vec<Service> {
        Vec::new()
    }

    fn prepare(self: &Rc<Self>, planned: &Planned<'_>) -> Result<Prepared<Self::Settings>, Self::Error> {
        let part = planned.whole();
        let limits = part.get("limits").cloned().unwrap_or_else(|| Value::Array(Vec::new()));
        serde_json::from_value(limits).map(Prepared::quiet)
    }

    async fn apply(self: Rc<Self>, limits: Self::Settings) -> Result<(), Self::Error> {
        let now = clock::now();
        let targets: BTreeSet<String> =
            limits.iter().filter_map(|limit| Some(limit.parts()?.0.to_owned())).collect();
        let limited = |limit: Limit| {
            let bucket = limit.rate.map(|rate| RefCell::new(Bucket::new(rate, now)));
            Rc::new(Limited { limit, bucket })
        };
        self.limits.replace(limits.into_iter().map(limited).collect());
        self.registered.borrow_mut().clear();
        let stand = |target| tokio::task::spawn_local(Rc::clone(&self).stand_before(target));
        self.tasks.replace(targets.into_iter().map(stand));
        Ok(())
    }
}
