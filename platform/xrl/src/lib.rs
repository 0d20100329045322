//! XRL: how components talk (architecture, section 3; the wire in docs/xrl.md).
//!
//! A component implements the generated server traits of its interfaces, registers them as a target with the Finder,
//! and calls targets by generated clients. The whole process runs on a single thread: a tokio `current_thread` runtime
//! with a `LocalSet`; handlers need not be `Send`.
//!
//! ```no_run
//! # use std::rc::Rc;
//! # use sluice_xrl::{CallContext, XrlEndpoint, EndpointOptions, Target, XrlError};
//! # use sluice_xrl::idl::rib::v1 as rib;
//! struct Mine;
//! impl rib::RouteSubscriber for Mine {
//!     async fn subscribed_routes(&self, _: &CallContext, _: rib::SubscribedRoutesRequest)
//!         -> Result<rib::SubscribedRoutesReply, XrlError> { Ok(Default::default()) }
//! }
//! # async fn f() -> Result<(), XrlError> {
//! let router = XrlEndpoint::connect(EndpointOptions::new("/run/sluice/finder", [0; 16], "/run/sluice")).await?;
//! let service = rib::route_subscriber_service(Rc::new(Mine));
//! let _registered = router.register(Target::new("mine", vec![service]).singleton()).await?;
//! let client = rib::RouteSubscriberClient::new(&router, "mine");
//! let reply = client.subscribed_routes(rib::SubscribedRoutesRequest::default()).await?;
//! # Ok(()) }
//! ```
//!
//! Calling a method of a client issues the call at once; awaiting the result yields the reply. Calls to a target start
//! there in the order of their issue. When as many calls are outstanding as the window allows, later calls wait in
//! their order, each with its request in memory. A caller that does not await its calls awaits `client.ready()`
//! between them.
//!
//! A target of the same process is called directly: its handler begins to run inside of the call. Therefore no
//! `RefCell` of the handler may be borrowed across a call, even without an await.

extern crate self as sluice_xrl;

mod client;
pub mod finder;
pub mod idl;
pub mod routes;
mod server;
pub mod text;
mod wire;

pub use client::call::Call;
pub use client::channel::Client;
pub use client::endpoint::XrlEndpoint;
pub use client::options::{DEFAULT_WINDOW, EndpointOptions, FinderAddress};
pub use client::relay::{Relay, RelayedReply};
pub use client::targets::TargetHandle;
pub use client::watch::LifeWatch;
pub use finder::acl::{Acl, Peer, People, Principal, Secret, guard_name, matches};
pub use finder::actions::{Action, PeoplesActions};
pub use finder::denials::Denial;
pub use finder::life::{Life, LifeEvent};
pub use routes::convert;
pub use server::accounts::{MAX_CONNECTIONS, MAX_REPLIES, MAX_RUNNING};
pub use server::service::{CallContext, Method, Service};
pub use server::target::Target;
pub use wire::denied::Denied;
pub use wire::error::XrlError;
pub use wire::family::{Family, NotAFamily};
pub use wire::frame;
pub use wire::octets::Octets;

/// Declares a module `idl` with the output of `sluice-xrl-build` for the crate.
#[macro_export]
macro_rules! include_idl {
    () => {
        /// The crate's interfaces, generated from protobuf files.
        #[allow(missing_docs, clippy::all)]
        pub mod idl {
            include!(concat!(env!("OUT_DIR"), "/xrl.rs"));
            /// The interfaces' descriptions: an encoded `FileDescriptorSet`.
            pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/xrl-descriptors.bin"));
        }
    };
}
