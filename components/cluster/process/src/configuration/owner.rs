//! Commits of the element: offers the shared part to all elements, and decides by a single write.

use super::{read, sharing, unix_ms};
use crate::console::{self, NOT_ASKED};
use crate::idl::cluster::v1 as cluster;
use crate::store::Client;
use crate::{ClusterProcess, Served};
use prost::Message;
use sluice_cluster::configuration::KEY;
use sluice_cluster::configuration::decision::{Decision, Outcome, Step, Written};
use sluice_cluster::configuration::offer::{self, Absence, Answer, Offer};
use sluice_cluster::configuration::shared::{Author, MOST_TEXT, Proposal, Shared, SharedError};
use sluice_cluster::console::PREPARE;
use sluice_cluster::inventory::ElementId;
use sluice_cluster::machine::Cluster;
use sluice_xrl::idl::manager::v1 as pb;
use sluice_xrl::{CallContext, XrlError};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;
use tracing::info;

/// The longest wait for the check of an element.
const CHECK: Duration = Duration::from_secs(15);
/// The wait for the answer of an element without announcements.
const SILENT: Duration = Duration::from_millis(1500);
/// The time between two looks at an element's announcements.
const LOOK: Duration = Duration::from_millis(250);
/// The pause before the store is asked again.
const RETRY: Duration = Duration::from_millis(500);
/// The longest wait for a server of the store, before a commit is refused.
const REACHED: Duration = Duration::from_secs(4);
/// The name of the manager as a caller.
const MANAGER: &str = "manager";

/// The reason why nothing is decided.
#[derive(Debug, thiserror::Error)]
enum OwnerError {
    /// The elements keep separate configurations, or this one is removed.
    #[error(
        "this machine is no member of the cluster any more, or its component does not share the configuration yet"
    )]
    NotShared,
    /// No server of the store answers.
    #[error(
        "no server of the store answers, so that the elements cannot agree on a configuration; packets are forwarded as before"
    )]
    Lost,
    /// The store has no configuration.
    #[error("the store has no configuration yet: it gets that of the control plane")]
    Empty,
    /// The element does not run the newest configuration.
    #[error(
        "the configuration changed meanwhile: {user} at element {element} made number {number}; this element takes it, and your changes go \
         on top of it: look at them, and commit again"
    )]
    Behind {
        /// The author of the newest configuration.
        user: String,
        /// The author's element.
        element: u16,
        /// The number.
        number: u64,
    },
    /// An element refuses the configuration.
    #[error("element {0} refuses it: {1}")]
    Refused(ElementId, String),
    /// The configuration cannot be shared.
    #[error(transparent)]
    Shared(#[from] SharedError),
    /// The store fails.
    #[error("{0}")]
    Configuration(#[from] super::ConfigurationError),
    /// Nothing was offered.
    #[error("nothing was offered to the other elements")]
    NotOffered,
    /// The outcome is not known.
    #[error(
        "the store does not say whether the configuration is decided: this element goes back, and all elements run what the store has when it \
         answers (show cluster)"
    )]
    Open,
}

impl From<OwnerError> for XrlError {
    fn from(error: OwnerError) -> Self {
        let code = match &error {
            OwnerError::Behind { .. } => 5,
            OwnerError::Open => 8,
            _ => 1,
        };
        XrlError::application(code, error.to_string())
    }
}

fn behind(newest: &Shared) -> OwnerError {
    let element = newest.element().map_or(0, ElementId::number);
    OwnerError::Behind { user: newest.author.user.clone(), element, number: newest.number }
}

/// Returns the client of the present session.
fn session(process: &ClusterProcess) -> Option<Client> {
    process.stream.session().filter(|_| process.stream.view().endpoint.is_some())
}

async fn newest(process: &ClusterProcess) -> Result<Option<(Shared, u64)>, OwnerError> {
    let client = session(process).ok_or(OwnerError::Lost)?;
    let value = client.value(KEY).await.map_err(|_| OwnerError::Lost)?;
    Ok(read(&value)?.map(|shared| (shared, value.changed)))
}

/// Returns the newest configuration, also if the next server of the store is asked only within a time.
async fn newest_within(
    process: &ClusterProcess,
    limit: Duration,
) -> Result<Option<(Shared, u64)>, OwnerError> {
    let begun = Instant::now();
    loop {
        match newest(process).await {
            Err(OwnerError::Lost) if begun.elapsed() < limit => tokio::time::sleep(RETRY).await,
            found => return found,
        }
    }
}

/// The effects of a commit on an element, by component.
type Effects = Vec<pb::ComponentEffect>;

/// Has an element check a text. Returns the effects beside the answer.
async fn ask(process: &ClusterProcess, element: ElementId, text: String) -> (Answer, Effects) {
    let refused = |answer: Answer| (answer, Effects::new());
    let request = cluster::GetFromElementRequest {
        element: element.number().into(),
        target: MANAGER.into(),
        path: PREPARE.into(),
        request: pb::PrepareSharedRequest { text }.encode_to_vec(),
        within_ms: CHECK.as_millis() as u32,
        person: String::new(),
    };
    let reply = match console::ask(process, request).await {
        Ok(reply) => reply,
        Err(XrlError::Application { code: NOT_ASKED, message }) => return refused(Answer::Away(message)),
        Err(error) => return refused(Answer::Away(error.to_string())),
    };
    if !reply.error.is_empty() {
        return refused(match XrlError::decode(&reply.error) {
            XrlError::Application { message, .. } => Answer::Refused(message),
            other => Answer::Away(other.to_string()),
        });
    }
    match pb::PrepareSharedReply::decode(&reply.reply[..]) {
        Ok(reply) if reply.apart => refused(Answer::Apart),
        Ok(reply) => (Answer::Prepared, reply.effects),
        Err(error) => refused(Answer::Away(error.to_string())),
    }
}

/// Asks an element as long as the element's announcements arrive, and a little longer.
async fn ask_present(process: &ClusterProcess, element: ElementId, text: String) -> (Answer, Effects) {
    let begun = Instant::now();
    let asking = ask(process, element, text);
    tokio::pin!(asking);
    loop {
        tokio::select! {
            answer = &mut asking => return answer,
            () = tokio::time::sleep(LOOK) => {}
        }
        let is_silent =
            |machine: &Cluster| machine.membership().get(element).is_none_or(|member| member.is_lost);
        if begun.elapsed() > SILENT && process.driver.read(is_silent) {
            return (Answer::Away("it does not announce itself".into()), Effects::new());
        }
    }
}

/// Offers a text to all other elements. Returns the elements without a part in the commit, in words, and the effects on the others.
async fn offer(
    process: &Rc<ClusterProcess>,
    own: ElementId,
    text: &str,
) -> Result<(Vec<String>, Vec<pb::ElementEffects>), OwnerError> {
    let others: Vec<ElementId> = {
        let settings = process.settings.borrow();
        let all = settings.iter().flat_map(|settings| settings.inventory.iter());
        all.map(|element| element.id).filter(|element| *element != own).collect()
    };
    let mut offer = Offer::new(others.iter().copied());
    let (answers, mut waiting) = mpsc::unbounded_channel();
    for element in others {
        let (process, answers, text) = (Rc::clone(process), answers.clone(), text.to_owned());
        tokio::task::spawn_local(async move {
            let answer = ask_present(&process, element, text).await;
            let _over = answers.send((element, answer));
        });
    }
    drop(answers);
    let mut effects = BTreeMap::new();
    loop {
        match offer.outcome() {
            Some(offer::Outcome::Refused(element, reason)) => {
                return Err(OwnerError::Refused(element, reason));
            }
            Some(offer::Outcome::Accepted(absent)) => {
                let of = |(element, effects): (ElementId, Effects)| pb::ElementEffects {
                    element: element.number().into(),
                    effects,
                };
                return Ok((
                    absent.into_iter().map(in_words).collect(),
                    effects.into_iter().map(of).collect(),
                ));
            }
            None => match waiting.recv().await {
                Some((element, (answer, foreseen))) => {
                    offer.answered(element, answer);
                    if !foreseen.is_empty() {
                        effects.insert(element, foreseen);
                    }
                }
                None => return Err(OwnerError::NotOffered),
            },
        }
    }
}

fn in_words((element, absence): (ElementId, Absence)) -> String {
    match absence {
        Absence::Away(reason) => format!("element {element} takes it when it is back: {reason}"),
        Absence::Apart => format!("element {element} keeps a configuration of its own"),
    }
}

/// Decides on the successor of a configuration. Returns the number.
async fn decide(
    process: &ClusterProcess,
    (before, base): (Shared, u64),
    proposal: Proposal,
) -> Result<u64, OwnerError> {
    let id = proposal.id;
    let after = Shared::following(Some(&before), proposal)?;
    let (number, user) = (after.number, after.author.user.clone());
    let mut decision = Decision::new(id, base, after);
    let mut is_first = true;
    loop {
        let client = session(process);
        if is_first && client.is_none() {
            return Err(OwnerError::Lost);
        }
        is_first = false;
        match decision.step() {
            Step::Write(shared, base) => {
                let written = match client {
                    Some(client) => client.replace_value(KEY, &shared.encode(), base).await.ok(),
                    None => None,
                };
                decision.written(match written {
                    Some(true) => Written::Done,
                    Some(false) => Written::Conflict,
                    None => Written::Unknown,
                });
            }
            Step::Read => {
                tokio::time::sleep(RETRY).await;
                let found = newest(process).await.ok();
                let found = found.as_ref().map(|found| match found {
                    Some((shared, revision)) => (Some(shared), *revision),
                    None => (None, 0),
                });
                decision.found(found);
            }
            Step::Over(Outcome::Decided) => {
                info!(
                    event = "cluster.configuration.decided",
                    number, user, "configuration {number} is the one of all elements"
                );
                return Ok(number);
            }
            Step::Over(Outcome::Overtaken) => {
                return Err(newest(process).await?.map_or(OwnerError::Empty, |(newest, _)| behind(&newest)));
            }
            Step::Over(Outcome::Unknown) => return Err(OwnerError::Open),
        }
    }
}

impl Served {
    fn check_manager(&self, ctx: &CallContext) -> Result<ElementId, XrlError> {
        if *ctx.principal != *MANAGER {
            return Err(XrlError::AccessDenied("the manager decides on configurations".into()));
        }
        Ok(sharing(self).ok_or(OwnerError::NotShared)?)
    }

    async fn decide(
        &self,
        own: ElementId,
        base: (Shared, u64),
        text: String,
        (user, comment): (String, String),
        (within_s, confirms): (u32, bool),
    ) -> Result<u64, OwnerError> {
        let id = self.configuration.next_decision(own);
        let author = Author { user, comment, time_ms: unix_ms() };
        let within_s = (within_s > 0).then_some(within_s);
        let decided = decide(self, base, Proposal { id, text, author, within_s, confirms }).await;
        // Whatever became of it, what runs is compared with what is decided.
        self.configuration.compare();
        decided
    }
}

impl pb::ConfigurationOwner for Served {
    async fn offer(&self, ctx: &CallContext, request: pb::OfferRequest) -> Result<pb::OfferReply, XrlError> {
        let own = self.check_manager(ctx)?;
        if request.after.len() > MOST_TEXT {
            return Err(OwnerError::from(SharedError::Long(request.after.len())).into());
        }
        let (before, base) = newest_within(self, REACHED).await?.ok_or(OwnerError::Empty)?;
        if before.text != request.before {
            self.configuration.compare();
            return Err(behind(&before).into());
        }
        let (absent, elements) = offer(self, own, &request.after).await?;
        self.configuration.offered.replace(Some((before, base)));
        Ok(pb::OfferReply { base, absent, elements })
    }

    async fn decide(
        &self,
        ctx: &CallContext,
        request: pb::DecideRequest,
    ) -> Result<pb::DecideReply, XrlError> {
        let own = self.check_manager(ctx)?;
        let offered = self.configuration.offered.take().filter(|(_, base)| *base == request.base);
        let offered = offered.ok_or(OwnerError::NotOffered)?;
        let wait = (request.confirm_within_s, request.confirms);
        let author = (request.user, request.comment);
        let number = self.decide(own, offered, request.after, author, wait).await?;
        Ok(pb::DecideReply { number })
    }

    async fn confirm(
        &self,
        ctx: &CallContext,
        request: pb::ConfirmRequest,
    ) -> Result<pb::ConfirmReply, XrlError> {
        let own = self.check_manager(ctx)?;
        let known = self.configuration.keeper.borrow().newest().map(|(newest, _)| newest.back.is_some());
        if known != Some(true) && session(self).is_none() {
            return Ok(pb::ConfirmReply { number: 0 });
        }
        let Some((newest, base)) = newest(self).await? else { return Ok(pb::ConfirmReply { number: 0 }) };
        if newest.back.is_none() {
            return Ok(pb::ConfirmReply { number: 0 });
        }
        let text = newest.text.clone();
        let author = (request.user, request.comment);
        let number = self.decide(own, (newest, base), text, author, (0, true)).await?;
        Ok(pb::ConfirmReply { number })
    }

    async fn compare(
        &self,
        ctx: &CallContext,
        _request: pb::CompareSharedRequest,
    ) -> Result<pb::CompareSharedReply, XrlError> {
        self.check_manager(ctx)?;
        self.configuration.compare();
        Ok(pb::CompareSharedReply {})
    }
}
