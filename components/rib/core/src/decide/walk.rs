//! Background walks over the entries of a family, for routes of an origin.

use crate::entry::origin::OriginId;
use sluice_base::Provenance;
use sluice_stage::Cursor;

/// A background walk that removes an origin's stale routes.
pub(crate) struct Sweep<P> {
    pub(crate) origin: OriginId,
    pub(crate) cursor: Cursor<P>,
    /// The number of removed routes.
    pub(crate) removed: u64,
    pub(crate) provenance: Provenance,
}

/// A background walk that applies an origin's policies again.
pub(crate) struct Refilter<P> {
    pub(crate) origin: OriginId,
    pub(crate) cursor: Cursor<P>,
}
