//! Processes outside as principals (`xip.v1.Principal`): who may decide for which type, questions to them, and their end.

use crate::idl::xip::v1 as pb;
use crate::{Served, XipProcess, config};
use sluice_base::{Xid, XidType};
use sluice_xip::anchor::Token;
use sluice_xip::outside::{OutsideAnswer, OutsideLimits};
use sluice_xip::outsiders::{RegisterError, Registration};
use sluice_xip::principals::{Actions, Treatment};
use sluice_xip::requests::{Answers, BATCH, BatchDone, Register, Statement, TakeBack, Unregister};
use sluice_xrl::{CallContext, XrlError};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::AbortHandle;
use tracing::{info, warn};

/// The number of the refusal of a built-in type.
const BUILT_IN: u32 = 1;
/// The number of the refusal of a taken type.
const TAKEN: u32 = 2;
/// The number of the refusal of one more type.
const FULL: u32 = 3;
/// The most answers or tokens of a call.
const MOST_ANSWERS: usize = 1_024;
/// The time to take a batch of questions, and the time until the next batch after a refusal.
const TAKE: Duration = Duration::from_secs(5);
const AGAIN: Duration = Duration::from_secs(1);
/// The principal of root's own programs, with rights to every type.
const OPERATOR: &str = "operator";
/// The treatment of an XID that is a place in this router.
const LOCAL: Actions = Actions { passthrough: Treatment::Dig, sink: Treatment::Unsupported };

/// A process that decides for a type.
struct Holder {
    registration: Registration,
    /// The component, as the Finder knows it.
    component: Rc<str>,
    target: String,
    client: pb::PrincipalOwnerClient,
    watch: AbortHandle,
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

/// The processes that decide for types of XIDs, and what components may decide for.
#[derive(Default)]
pub(crate) struct Principals {
    rights: RefCell<BTreeMap<String, Vec<XidType>>>,
    holders: RefCell<BTreeMap<XidType, Holder>>,
}

impl Principals {
    /// Sets the types that components may decide for. Registrations stay.
    pub(crate) fn set_rights(&self, rights: BTreeMap<String, Vec<XidType>>) {
        self.rights.replace(rights);
    }

    /// Returns the target of the process that decides for a type; empty without one.
    pub(crate) fn target(&self, kind: XidType) -> String {
        self.holders.borrow().get(&kind).map(|holder| holder.target.clone()).unwrap_or_default()
    }

    fn may_decide(&self, component: &str, kind: XidType) -> bool {
        let rights = self.rights.borrow();
        component == OPERATOR || rights.get(component).is_some_and(|kinds| kinds.contains(&kind))
    }

    /// Returns the registration of a type, if the caller has it.
    fn of_caller(&self, ctx: &CallContext, kind: XidType) -> Result<Registration, XrlError> {
        let holders = self.holders.borrow();
        let own = holders.get(&kind).filter(|holder| holder.component == ctx.principal);
        own.map(|holder| holder.registration).ok_or_else(|| {
            XrlError::AccessDenied(format!(
                "{} does not decide for the type {kind}; register it",
                ctx.principal
            ))
        })
    }
}

fn kind(text: &str) -> Result<XidType, XrlError> {
    text.parse().map_err(|error| XrlError::BadArguments(format!("type: `{text}`: {error}")))
}

fn xid(octets: &[u8], name: &str) -> Result<Xid, XrlError> {
    let octets = <[u8; Xid::LEN]>::try_from(octets);
    octets.map(Xid::from_octets).map_err(|_| XrlError::BadArguments(format!("{name}: expected 24 octets")))
}

fn statement(answer: &pb::PrincipalAnswer) -> Result<Statement, XrlError> {
    let decision = match answer.decision() {
        pb::Decision::NextEdge => OutsideAnswer::NextEdge,
        pb::Decision::Redirect => OutsideAnswer::Redirect(xid(&answer.redirect, "redirect")?),
        pb::Decision::Local => OutsideAnswer::Forward(LOCAL),
        pb::Decision::Drop => OutsideAnswer::Forward(Actions::both(Treatment::Drop)),
    };
    Ok(Statement { xid: xid(&answer.xid, "xid")?, token: Token(answer.token), answer: decision })
}

fn check_number(number: usize, name: &str) -> Result<(), XrlError> {
    if number > MOST_ANSWERS {
        return Err(XrlError::BadArguments(format!("{name}: {number}; at most {MOST_ANSWERS} in a call")));
    }
    Ok(())
}

impl XipProcess {
    /// Sends a batch of questions to the process of a type.
    pub(crate) fn ask(&self, kind: XidType, registration: Registration, xids: Vec<Xid>) {
        let holders = self.principals.holders.borrow();
        let holder = holders.get(&kind).filter(|holder| holder.registration == registration);
        // A type without a holder is about to be unregistered.
        let Some(holder) = holder else { return };
        let client = holder.client.with_deadline(TAKE);
        let me = self.me.clone();
        tokio::task::spawn_local(async move {
            let octets = xids.iter().map(|xid| xid.octets().to_vec()).collect();
            let asked = client.ask(pb::AskRequest { r#type: kind.to_string(), xids: octets }).await;
            let failed = match asked {
                Ok(_) => Vec::new(),
                Err(error) => {
                    warn!(event = "xip.principal.silent", %kind, %error, "the principal of {kind} takes no questions: {error}");
                    tokio::time::sleep(AGAIN).await;
                    xids
                }
            };
            if let Some(me) = me.upgrade() {
                me.driver.request(BatchDone { kind, registration, failed });
                me.flush();
            }
        });
    }

    /// Ends a registration of a type. Harmless after its end.
    fn end_registration(&self, kind: XidType, registration: Registration, has_died: bool) {
        let mut holders = self.principals.holders.borrow_mut();
        if holders.get(&kind).is_some_and(|holder| holder.registration == registration) {
            holders.remove(&kind);
        }
        drop(holders);
        self.driver.request(Unregister { kind, registration, has_died });
        self.flush();
    }

    /// Waits for the end of a process's target.
    async fn watch_principal(self: Rc<Self>, target: String, kind: XidType, registration: Registration) {
        self.protocol.frame.router.until_death(&target).await;
        warn!(event = "xip.principal.absent", %kind, target, "the process of the principal {kind} has ended");
        // The holder's drop ends this task where it waits next: here.
        self.end_registration(kind, registration, true);
    }
}

impl pb::Principal for Served {
    async fn register(
        &self,
        ctx: &CallContext,
        request: pb::RegisterRequest,
    ) -> Result<pb::RegisterReply, XrlError> {
        let kind = kind(&request.r#type)?;
        let denied = |why: String| {
            self.protocol.frame.router.report_refusal(ctx, &format!("type {kind}: {why}"));
            XrlError::AccessDenied(why)
        };
        if config::is_built_in(kind) {
            return Err(XrlError::application(
                BUILT_IN,
                format!("{kind}: the router has a principal of its own for this type"),
            ));
        } else if !self.principals.may_decide(&ctx.principal, kind) {
            let who = &ctx.principal;
            return Err(denied(format!(
                "{who} may not decide for the type {kind}; `[xip] principals` in rights.toml allows it"
            )));
        } else if self.protocol.frame.router.registrant(&request.target).await? != ctx.principal {
            return Err(denied(format!("{} is no target of {}", request.target, ctx.principal)));
        }
        if let Ok(before) = self.principals.of_caller(ctx, kind) {
            self.end_registration(kind, before, false);
        }
        let registration = self.driver.request(Register { kind }).map_err(|error| match error {
            RegisterError::NotAType => XrlError::BadArguments(format!("type: {error}")),
            RegisterError::BuiltIn => XrlError::application(BUILT_IN, format!("{kind}: {error}")),
            RegisterError::Taken => {
                let holder = self.principals.target(kind);
                XrlError::application(TAKEN, format!("{kind}: {holder} decides for this type"))
            }
            RegisterError::Full => XrlError::application(FULL, format!("{kind}: {error}")),
        })?;
        let watch = Rc::clone(self).watch_principal(request.target.clone(), kind, registration);
        let holder = Holder {
            registration,
            component: Rc::clone(&ctx.principal),
            client: pb::PrincipalOwnerClient::new(&self.protocol.frame.router, &request.target),
            target: request.target,
            watch: tokio::task::spawn_local(watch).abort_handle(),
        };
        info!(%kind, target = holder.target, "a process decides for XIDs of the type {kind}");
        self.principals.holders.borrow_mut().insert(kind, holder);
        Ok(pb::RegisterReply {
            patience_ms: OutsideLimits::default().patience.as_millis() as u32,
            most_asked: BATCH as u32,
            most_answers: MOST_ANSWERS as u32,
        })
    }

    async fn unregister(
        &self,
        ctx: &CallContext,
        request: pb::UnregisterRequest,
    ) -> Result<pb::UnregisterReply, XrlError> {
        let kind = kind(&request.r#type)?;
        let registration = self.principals.of_caller(ctx, kind)?;
        self.end_registration(kind, registration, false);
        Ok(pb::UnregisterReply {})
    }

    async fn answer(
        &self,
        ctx: &CallContext,
        request: pb::AnswerRequest,
    ) -> Result<pb::AnswerReply, XrlError> {
        let kind = kind(&request.r#type)?;
        let registration = self.principals.of_caller(ctx, kind)?;
        check_number(request.answers.len(), "answers")?;
        let answers = request.answers.iter().map(statement).collect::<Result<_, _>>()?;
        let (refused, reason) = self.driver.request(Answers { kind, registration, answers });
        self.flush();
        let reason = reason.map(|reason| reason.name().to_owned()).unwrap_or_default();
        Ok(pb::AnswerReply { refused, reason })
    }

    async fn take_back(
        &self,
        ctx: &CallContext,
        request: pb::TakeBackRequest,
    ) -> Result<pb::TakeBackReply, XrlError> {
        let kind = kind(&request.r#type)?;
        let registration = self.principals.of_caller(ctx, kind)?;
        check_number(request.tokens.len(), "tokens")?;
        let tokens = request.tokens.into_iter().map(Token).collect();
        let refused = self.driver.request(TakeBack { kind, registration, tokens });
        Ok(pb::TakeBackReply { refused })
    }
}
