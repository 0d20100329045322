//! People who work on this machine from another one: a component carries out their calls, by the rule for the user of the same name on this
//! machine.

use crate::ManagerProcess;
use crate::audit::record::{Act, Who};
use crate::configure::people;
use crate::service::Served;
use sluice_manager::roles::Role;
use sluice_xrl::idl::manager::v1 as pb;
use sluice_xrl::{CallContext, XrlError};

/// The most octets of a name.
const LONGEST: usize = 255;

/// Returns true if a role allows a method of a target.
fn allows(role: &Role, method: &str) -> bool {
    let Some((target, path)) = method.split_once('/') else { return false };
    // A target is a class, or an instance of a class behind an `@`.
    let class = target.split('@').next().unwrap_or_default();
    let named = [target, class].map(|name| format!("{name}/{path}"));
    role.calls.iter().any(|pattern| named.iter().any(|method| sluice_xrl::matches(pattern, method)))
}

impl ManagerProcess {
    fn admits(&self, request: &pb::AdmitRequest) -> Result<(), XrlError> {
        let is_allowed =
            self.people.role_of_name(&request.person).is_some_and(|role| allows(&role, &request.method));
        let denied =
            || XrlError::AccessDenied(format!("{} for {} on this machine", request.method, request.person));
        is_allowed.then_some(()).ok_or_else(denied)
    }
}

impl pb::Remote for Served {
    async fn admit(&self, ctx: &CallContext, request: pb::AdmitRequest) -> Result<pb::AdmitReply, XrlError> {
        if people::person(&ctx.principal).is_some() {
            return Err(XrlError::AccessDenied("people make their calls themselves".into()));
        }
        if [&request.person, &request.origin, &request.method].into_iter().any(|text| text.len() > LONGEST) {
            return Err(XrlError::BadArguments(format!("a name has more than {LONGEST} octets")));
        }
        let decided = self.admits(&request);
        let (act, result) = match &decided {
            Ok(()) => (Act::Call, "allowed".to_owned()),
            Err(error) => (Act::Denied, error.to_string()),
        };
        let principal = people::principal_name(&format!("{} at {}", request.person, request.origin));
        let who = Who { principal, uid: None, pid: ctx.pid.unwrap_or(0) };
        self.audit.note(who, act, vec![request.method], result, None).await;
        decided.map(|()| pb::AdmitReply {})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_allows_methods_of_classes_and_instances() {
        let reset = ["bgp/bgp.v1.Bgp/ResetNeighbor", "bgp@red/bgp.v1.Bgp/ResetNeighbor"];
        let own = Role::own(vec![reset[0].into()], Vec::new());
        for method in reset {
            assert!(allows(&Role::admin(), method) && allows(&Role::operator(Vec::new()), method));
            assert!(allows(&own, method) && !allows(&Role::read_only(), method));
        }
        let only_red = Role::own(vec![reset[1].into()], Vec::new());
        assert!(allows(&only_red, reset[1]) && !allows(&only_red, reset[0]));
        for wrong in ["", "bgp", "bgp/"] {
            assert!(!allows(&Role::operator(Vec::new()), wrong));
        }
    }
}
