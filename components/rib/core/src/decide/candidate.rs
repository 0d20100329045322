//! A route that is tried on the way to a gateway.

use crate::entry::origin::OriginId;
use crate::entry::set::SetId;
use sluice_base::AnyPrefix;

/// A route that may reach a gateway.
#[derive(Clone, Copy)]
pub(crate) struct Candidate {
    pub(crate) prefix: AnyPrefix,
    pub(crate) set: SetId,
    pub(crate) origin: OriginId,
}
