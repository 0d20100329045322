//! Principals of components' processes, and their secrets.

use crate::configure::builtin::guarded_component;
use crate::configure::model::Model;
use sluice_process::rights::Rights;
use sluice_xrl::Principal;

/// Returns the rights of a component's process at the Finder: those of its class, under the instance's name, for processes of `user`
/// only. A guard has the rights to the limited calls of its component, in that component's name.
pub fn principal(name: &str, model: &Model, user: Option<u32>) -> Principal {
    let calls = |rights: &Rights| rights.limit.iter().map(|limit| limit.call.clone()).collect::<Vec<_>>();
    match guarded_component(name) {
        Some(component) => Principal {
            name: component.into(),
            uid: user,
            may_register: vec![name.into(), format!("{name}:*")],
            may_call: calls(&model.rights(component)),
            may_read: false,
            guarded: Vec::new(),
        },
        None => {
            let rights = model.rights(name);
            Principal {
                name: name.into(),
                uid: user,
                may_register: vec![name.into()],
                may_call: rights.call_patterns(),
                may_read: rights.reads,
                guarded: calls(&rights),
            }
        }
    }
}

/// Returns a new secret of a process.
///
/// # Errors
/// The kernel has no randomness.
pub(crate) fn random_secret() -> std::io::Result<[u8; 16]> {
    let mut secret = [0; 16];
    getrandom::fill(&mut secret).map_err(|e| std::io::Error::other(format!("no randomness: {e}")))?;
    Ok(secret)
}
