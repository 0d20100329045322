//! Calls of the owner of a shared configuration.

use super::configuration::effects;
use crate::commit::editing::EditError;
use crate::configure::people;
use crate::service::Served;
use sluice_xrl::idl::manager::v1 as pb;
use sluice_xrl::{CallContext, XrlError};
use std::rc::Rc;

fn failed(error: EditError) -> XrlError {
    XrlError::application(1, error.to_string())
}

/// Refuses people: the calls are the owner's.
fn check_caller(ctx: &CallContext) -> Result<(), XrlError> {
    match people::person(&ctx.principal) {
        Some(_) => Err(XrlError::AccessDenied("the shared configuration is changed by commits".into())),
        None => Ok(()),
    }
}

impl pb::SharedConfiguration for Served {
    async fn prepare(
        &self,
        ctx: &CallContext,
        request: pb::PrepareSharedRequest,
    ) -> Result<pb::PrepareSharedReply, XrlError> {
        check_caller(ctx)?;
        let checking = tokio::task::spawn_local(Rc::clone(self).check_shared(request.text));
        let checked = checking.await.map_err(|error| XrlError::application(1, error.to_string()))?;
        let checked = checked.map_err(failed)?;
        let apart = checked.is_none();
        Ok(pb::PrepareSharedReply { apart, effects: checked.map(effects).unwrap_or_default() })
    }

    async fn take(
        &self,
        ctx: &CallContext,
        request: pb::TakeSharedRequest,
    ) -> Result<pb::TakeSharedReply, XrlError> {
        check_caller(ctx)?;
        self.take_shared(request).await.map_err(failed)
    }

    async fn export(
        &self,
        ctx: &CallContext,
        _request: pb::ExportSharedRequest,
    ) -> Result<pb::ExportSharedReply, XrlError> {
        check_caller(ctx)?;
        // The component may ask before the commit is stored that has it share the configuration.
        let _turn = self.turn.lock().await;
        let text = self.model().shared_text(&self.running_tree());
        Ok(pb::ExportSharedReply { text: text.map_err(|error| failed(error.into()))? })
    }
}
