//! A component as a client of the RIB.

mod origin;
mod subscription;

pub use origin::{RibChange, RibOrigin, RibOriginSettings};
pub use subscription::{RibSubscription, SubscribedChange, SubscribedKey, SubscribedRoute};
