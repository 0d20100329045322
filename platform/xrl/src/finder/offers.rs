//! The size of a registration.

use crate::XrlError;
use crate::idl::finder::v1::RegisterRequest;

/// Interfaces of a target.
const MAX_INTERFACES: usize = 256;

/// Methods of a target.
const MAX_METHODS: usize = 4096;

/// Endpoints of a target.
const MAX_ENDPOINTS: usize = 16;

/// Octets of an endpoint's address.
const MAX_ADDRESS: usize = 512;

/// Families by which a method is offered.
const MAX_FAMILIES: usize = 8;

/// Refuses a registration whose parts are too many or too long.
pub(super) fn check_size(request: &RegisterRequest) -> Result<(), XrlError> {
    let methods = || request.interfaces.iter().flat_map(|interface| &interface.methods);
    let wrong = if request.endpoints.len() > MAX_ENDPOINTS {
        format!("endpoints: more than {MAX_ENDPOINTS}")
    } else if request.endpoints.iter().any(|endpoint| endpoint.address.len() > MAX_ADDRESS) {
        format!("endpoints: an address of more than {MAX_ADDRESS} octets")
    } else if request.interfaces.len() > MAX_INTERFACES {
        format!("interfaces: more than {MAX_INTERFACES}")
    } else if methods().count() > MAX_METHODS {
        format!("interfaces: more than {MAX_METHODS} methods")
    } else if methods().any(|method| method.families.len() > MAX_FAMILIES) {
        format!("interfaces: a method of more than {MAX_FAMILIES} families")
    } else {
        return Ok(());
    };
    Err(XrlError::BadArguments(wrong))
}
