//! The interface by which the configuration is edited and committed.

use crate::audit::record::Act;
use crate::commit::candidate::Side;
use crate::commit::editing::{EditError, Holder};
use crate::commit::request::Done;
use crate::configure::people;
use crate::revisions::now_unix_ms;
use crate::service::Served;
use serde_json::json;
use sluice_config::{ConfigError, ConfigText, Secrets, Tree};
use sluice_manager::editors::{Editors, Mode};
use sluice_manager::roles::Statements;
use sluice_package::Signed;
use sluice_process::Effect;
use sluice_xrl::idl::manager::v1 as pb;
use sluice_xrl::{CallContext, XrlError};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Octets of a page of text.
const PAGE: usize = 256 << 10;

/// A text shown to a client, and the arguments of the request.
pub struct Shown {
    tree: Tree,
    path: Vec<String>,
    form: pb::Form,
    text: Rc<str>,
}

fn refusal(error: EditError) -> XrlError {
    let message = error.to_string();
    let (code, document) = match &error {
        EditError::Invalid(error) => (4, document(error)),
        EditError::InvalidFile(errors) => {
            // The place is that of the first; the text names all.
            let first = errors.all().first().map(document).unwrap_or_default();
            (4, json!({ "message": message, "place": first["place"], "expected": first["expected"] }))
        }
        EditError::Conflict(_) => (5, json!({ "message": message })),
        EditError::NeedsConfirmation(_) => (7, json!({ "message": message })),
        EditError::NotAllowed(_) => return XrlError::AccessDenied(message),
        EditError::Emptied { .. } | EditError::Failed(_) => (1, json!({ "message": message })),
    };
    XrlError::application(code, document.to_string())
}

/// Returns the caller as the holder of editors.
fn holder_of(ctx: &CallContext) -> Holder {
    Holder { principal: ctx.principal.to_string(), uid: ctx.uid }
}

fn document(error: &ConfigError) -> serde_json::Value {
    let place = json!({ "file": error.file, "line": error.place.line, "column": error.place.column });
    json!({ "message": error.to_string(), "place": place, "expected": error.expected })
}

/// Returns the effects as messages, of the components with any.
pub fn effects(effects: BTreeMap<String, Vec<Effect>>) -> Vec<pb::ComponentEffect> {
    let all = effects.into_iter().filter(|(_, effects)| !effects.is_empty());
    all.map(|(component, effects)| pb::ComponentEffect { component, effects }).collect()
}

impl Served {
    /// Reports a commit to the caller.
    fn reply(&self, done: Done) -> pb::CommitReply {
        let Done { revision, effects: touched, changes, took, others, confirmed } = done;
        pb::CommitReply {
            revision,
            effects: effects(touched),
            changes: changes as u64,
            took_ms: u32::try_from(took.as_millis()).unwrap_or(u32::MAX),
            absent: others.absent,
            confirmed: confirmed.unwrap_or(0),
            elements: others.effects,
            unconfirmed_until_unix_ms: self.unconfirmed_until(),
        }
    }

    /// Returns an error, and has the refusal counted, unless the caller opened the editor.
    fn check_holder(&self, ctx: &CallContext, editor: u64) -> Result<(), XrlError> {
        match self.holder_of(editor) {
            Some(holder) if holder != holder_of(ctx) => {
                let subject = format!("editor {editor}: it belongs to {}", holder.principal);
                self.router.report_refusal(ctx, &subject);
                Err(XrlError::AccessDenied(subject))
            }
            _ => Ok(()),
        }
    }

    /// Returns the part of a configuration that the caller may read.
    fn tree(&self, ctx: &CallContext, which: Option<pb::Which>) -> Result<Tree, XrlError> {
        let tree = match which.and_then(|w| w.which) {
            Some(pb::which::Which::Editor(id)) => {
                self.check_holder(ctx, id)?;
                self.candidate(id).map_err(refusal)?
            }
            Some(pb::which::Which::Back(back)) => self.revision_back(back).map_err(refusal)?,
            Some(pb::which::Which::Shared(_)) => self.shared_candidate(),
            Some(pb::which::Which::Base(id)) => {
                self.check_holder(ctx, id)?;
                self.candidate_base(id).map_err(refusal)?
            }
            None => self.running_tree(),
        };
        Ok(match self.people.reads_of(&ctx.principal, ctx.uid) {
            Statements::Everything => tree,
            Statements::Below(paths) => self.model().schema.kept(&tree, &paths),
        })
    }

    /// Returns the statements that an editor's commit would make, without secrets.
    fn statements_of(&self, editor: u64) -> Vec<String> {
        let Ok(after) = self.candidate(editor) else { return Vec::new() };
        self.model().schema.compare(&self.running_tree(), &after).set_text(Secrets::Hidden)
    }

    fn revision_back(&self, back: u32) -> Result<Tree, EditError> {
        if back == 0 {
            return Ok(self.running_tree());
        }
        let revisions = self.revisions.borrow();
        let numbers = revisions.numbers();
        let number = numbers.get(back as usize).ok_or_else(|| {
            let most = numbers.len().saturating_sub(1);
            EditError::Failed(format!("there is no revision {back} back; there are {most}: `show revisions`"))
        })?;
        let (_, text) = revisions.read(*number).map_err(|e| EditError::Failed(e.to_string()))?;
        Ok(self.model().schema.read(&format!("revision {number}"), &text)?)
    }

    /// Returns a text of the configuration. Keeps the last text, because clients read a text in pages.
    fn text(&self, tree: &Tree, path: &[String], form: pb::Form) -> Result<Rc<str>, ConfigError> {
        let known = self.shown.borrow();
        if let Some(known) = known.as_ref().filter(|k| k.form == form && k.path == path && k.tree == *tree) {
            return Ok(known.text.clone());
        }
        drop(known);
        let model = self.model();
        let schema = &model.schema;
        let text = match form {
            pb::Form::Text => schema.text(tree, path, Secrets::Hidden)?,
            pb::Form::Set => {
                let lines = schema.set_lines(tree, path, Secrets::Hidden)?;
                lines.iter().map(|line| format!("{line}\n")).collect()
            }
            pb::Form::Json => schema.json(tree, path, Secrets::Hidden)?.to_string(),
            pb::Form::Effective => schema.effective_text(tree, path)?,
            pb::Form::EffectiveJson => schema.effective_json(tree, path)?.to_string(),
        };
        let text: Rc<str> = text.into();
        let shown = Shown { tree: tree.clone(), path: path.to_vec(), form, text: text.clone() };
        self.shown.replace(Some(shown));
        Ok(text)
    }
}

impl pb::Configuration for Served {
    async fn open(&self, ctx: &CallContext, request: pb::OpenRequest) -> Result<pb::OpenReply, XrlError> {
        let mode = match request.mode() {
            pb::EditMode::Shared => Mode::Shared,
            pb::EditMode::Private => Mode::Private,
            pb::EditMode::Exclusive => Mode::Exclusive,
        };
        // Root may act for somebody, as behind `sudo`; for everybody else the kernel reports the user.
        let user = match people::person(&ctx.principal) {
            Some(name) if ctx.uid != Some(0) || request.user.is_empty() => name.to_owned(),
            _ => request.user,
        };
        let opened = self
            .open_editor((user, holder_of(ctx)), mode, request.connection, now_unix_ms())
            .map_err(refusal)?;
        let editors = opened.others.into_iter().map(|(user, mode, since_unix_ms)| {
            let mode = match mode {
                Mode::Shared => pb::EditMode::Shared,
                Mode::Private => pb::EditMode::Private,
                Mode::Exclusive => pb::EditMode::Exclusive,
            };
            pb::Editor { user, mode: mode.into(), since_unix_ms }
        });
        Ok(pb::OpenReply {
            editor: opened.id,
            revision: self.running.borrow().revision,
            changed: opened.changed,
            editors: editors.collect(),
            lease_s: u32::try_from(Editors::LEASE.as_millis() / 1000).unwrap_or(u32::MAX),
        })
    }

    async fn close(&self, ctx: &CallContext, request: pb::CloseRequest) -> Result<pb::CloseReply, XrlError> {
        self.check_holder(ctx, request.editor)?;
        self.close_editor(request.editor);
        Ok(pb::CloseReply {})
    }

    async fn renew(&self, ctx: &CallContext, request: pb::RenewRequest) -> Result<pb::RenewReply, XrlError> {
        self.check_holder(ctx, request.editor)?;
        self.renew_editor(request.editor).map_err(refusal)?;
        Ok(pb::RenewReply {})
    }

    async fn edit(&self, ctx: &CallContext, request: pb::EditRequest) -> Result<pb::EditReply, XrlError> {
        self.check_holder(ctx, request.editor)?;
        self.0.edit(request.editor, &request.statements).map_err(refusal)?;
        Ok(pb::EditReply {})
    }

    async fn load(&self, ctx: &CallContext, request: pb::LoadRequest) -> Result<pb::LoadReply, XrlError> {
        self.check_holder(ctx, request.editor)?;
        let (mode, allow_empty) = (request.mode(), request.allow_empty);
        let first = ConfigText { file: request.file, text: request.text };
        let more = request.more.into_iter().map(|part| ConfigText { file: part.file, text: part.text });
        let texts: Vec<ConfigText> = std::iter::once(first).chain(more).collect();
        match mode {
            pb::LoadMode::Merge => self.merge_into_candidate(request.editor, &texts),
            pb::LoadMode::Replace => self.load_whole(request.editor, texts, allow_empty),
        }
        .map_err(refusal)?;
        Ok(pb::LoadReply {})
    }

    async fn show(&self, ctx: &CallContext, request: pb::ShowRequest) -> Result<pb::ShowReply, XrlError> {
        let form = request.form();
        let tree = self.tree(ctx, request.which)?;
        let text = self.text(&tree, &request.path, form).map_err(|e| refusal(e.into()))?;
        let from = usize::try_from(request.offset).unwrap_or(usize::MAX).min(text.len());
        let rest =
            text.get(from..).ok_or_else(|| XrlError::BadArguments("offset: within a character".into()))?;
        let mut end = rest.len().min(PAGE);
        while !rest.is_char_boundary(end) {
            end -= 1;
        }
        let next_offset = if end == rest.len() { 0 } else { (from + end) as u64 };
        Ok(pb::ShowReply {
            text: rest[..end].into(),
            next_offset,
            schema: self.schema_number.get(),
            unconfirmed_until_unix_ms: self.unconfirmed_until(),
        })
    }

    async fn compare(
        &self,
        ctx: &CallContext,
        request: pb::CompareRequest,
    ) -> Result<pb::CompareReply, XrlError> {
        let (from, to) = (self.tree(ctx, request.from)?, self.tree(ctx, request.to)?);
        let comparison = self.model().schema.compare(&from, &to);
        Ok(pb::CompareReply {
            text: comparison.text(Secrets::Hidden),
            set_text: comparison.set_text(Secrets::Hidden).join("\n"),
            changes: comparison.len() as u64,
        })
    }

    async fn update(
        &self,
        ctx: &CallContext,
        request: pb::UpdateRequest,
    ) -> Result<pb::UpdateReply, XrlError> {
        self.check_holder(ctx, request.editor)?;
        let side = match request.decision() {
            pb::Decision::None => None,
            pb::Decision::Mine => Some(Side::Mine),
            pb::Decision::Theirs => Some(Side::Theirs),
        };
        let decision = side.map(|side| (side, request.path.as_slice()));
        let contested = self.0.update(request.editor, decision).map_err(refusal)?;
        let contested = contested.into_iter().map(|one| pb::Contested {
            path: one.path.join(" "),
            mine: one.mine,
            theirs: one.theirs,
        });
        Ok(pb::UpdateReply { contested: contested.collect() })
    }

    async fn check(&self, ctx: &CallContext, request: pb::CheckRequest) -> Result<pb::CheckReply, XrlError> {
        self.check_holder(ctx, request.editor)?;
        let (done, warnings) = self.check_editor(request.editor).await.map_err(refusal)?;
        Ok(pb::CheckReply {
            effects: effects(done.effects),
            needs_confirmation: !warnings.is_empty(),
            warnings,
            changes: done.changes as u64,
            absent: done.others.absent,
            elements: done.others.effects,
        })
    }

    async fn commit(
        &self,
        ctx: &CallContext,
        request: pb::CommitRequest,
    ) -> Result<pb::CommitReply, XrlError> {
        self.check_holder(ctx, request.editor)?;
        let seconds = request.confirm_within_s;
        let within = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        let lines = self.statements_of(request.editor);
        let work = async {
            let done = self.commit_editor(request.editor, request.comment, within, request.confirms).await;
            done.map(|done| self.reply(done)).map_err(refusal)
        };
        let outcome = self.audited(ctx, Act::Commit, lines, |done| Some(done.revision), work).await;
        if let Err(XrlError::AccessDenied(why)) = &outcome {
            self.router.report_refusal(ctx, why);
        }
        outcome
    }

    async fn reload(
        &self,
        ctx: &CallContext,
        request: pb::ReloadRequest,
    ) -> Result<pb::CommitReply, XrlError> {
        let file = self.options.source.file.display().to_string();
        let work = async {
            let done = self.0.reload(request.allow_empty).await;
            done.map(|done| self.reply(done)).map_err(refusal)
        };
        self.audited(ctx, Act::Reload, vec![file], |done| Some(done.revision), work).await
    }

    async fn rollback(
        &self,
        ctx: &CallContext,
        request: pb::RollbackRequest,
    ) -> Result<pb::RollbackReply, XrlError> {
        self.check_holder(ctx, request.editor)?;
        let tree = self.revision_back(request.back).map_err(refusal)?;
        self.replace_candidate(request.editor, tree, None).map_err(refusal)?;
        Ok(pb::RollbackReply {})
    }

    async fn get_revisions(
        &self,
        _ctx: &CallContext,
        _request: pb::GetRevisionsRequest,
    ) -> Result<pb::GetRevisionsReply, XrlError> {
        let revisions = self.revisions.borrow();
        let open = revisions.unconfirmed();
        let unconfirmed = open.map(|open| open.revision);
        let open = open.map(|open| pb::Unconfirmed {
            revision: open.revision,
            back_to: open.back_to,
            until_unix_ms: open.until_unix_ms,
            user: revisions.about(open.revision).map(|about| about.user).unwrap_or_default(),
        });
        let all = revisions.numbers().into_iter().filter_map(|number| revisions.about(number));
        let all = all.map(|revision| pb::Revision {
            number: revision.number,
            time_unix_ms: revision.time_unix_ms,
            user: revision.user,
            comment: revision.comment,
            unconfirmed: unconfirmed == Some(revision.number),
            via: revision.via.name().into(),
        });
        let trouble = self.degraded.trouble.borrow().clone().unwrap_or_default();
        let running = self.running.borrow().revision;
        let file = self.options.source.file.display().to_string();
        Ok(pb::GetRevisionsReply { revisions: all.collect(), trouble, running, unconfirmed: open, file })
    }

    async fn get_schema(
        &self,
        _ctx: &CallContext,
        _request: pb::GetSchemaRequest,
    ) -> Result<pb::GetSchemaReply, XrlError> {
        Ok(pb::GetSchemaReply { json: self.model().schema_json().into() })
    }

    async fn get_packages(
        &self,
        _ctx: &CallContext,
        _request: pb::GetPackagesRequest,
    ) -> Result<pb::GetPackagesReply, XrlError> {
        let folder = |name: &str| self.options.source.packages_dir.join(name).display().to_string();
        let model = self.model();
        let taken = model.packages.iter().map(|package| pb::Package {
            name: package.name.clone(),
            version: package.version.clone(),
            description: package.description.clone(),
            refused: String::new(),
            commands: package.commands.clone().unwrap_or_default(),
            help: package.help.clone().unwrap_or_default(),
            builtin: package.builtin,
            metrics: package.metrics.clone().unwrap_or_default(),
            path: if package.builtin { String::new() } else { folder(&package.name) },
            signed: model.signed.get(&package.name).map(Signed::words).unwrap_or_default(),
        });
        let refused = model.refused.iter().map(|refused| pb::Package {
            name: refused.name.clone(),
            refused: refused.reason.clone(),
            path: folder(&refused.name),
            ..pb::Package::default()
        });
        Ok(pb::GetPackagesReply { packages: taken.chain(refused).collect() })
    }
}
