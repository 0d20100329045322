//! The frame of every component process.
//!
//! A component's own process code is short because the shared parts are here: the event loop and the clock ([`Driver`],
//! [`clock`]), the life of the process ([`Frame`], [`run`]), the frame of a protocol ([`Protocol`]), its permissions ([`rights`]), its log and its events
//! ([`events`]), latency profiling ([`Profile`]), talking to the RIB as an origin ([`RibOrigin`]) and
//! as a subscriber ([`RibSubscription`]), its part of the
//! configuration ([`part`]), handing over to the next process of its class ([`handover`]), calls under way
//! ([`UnderWay`]), sockets and descriptors from the FEA's broker ([`open_udp`], [`tcp`], [`descriptor`]).

#![warn(clippy::disallowed_macros)]

pub mod clock;
mod component;
mod driver;
pub mod events;
mod executable;
mod ffi;
pub mod handover;
mod interfaces;
mod life;
mod net;
mod process;
mod process_end;
mod profile;
mod program;
mod protocol;
mod rest;
mod rib;
pub mod rights;
mod run_options;
mod snapshot;
mod successor;
mod tasks;
mod under_way;

pub use component::{Component, Frame, Prepared};
pub use driver::{Driver, work};
pub use executable::own_executable;
pub use ffi::{leave_out_checksums, watch};
pub use handover::{HandOverError, Sink, Source, StatePart};
pub use interfaces::{InterfaceNames, follow_fea, interface_events};
pub use life::{PREDECESSOR, successor_class};
pub use net::{
    Link, PACKET_HOST, PACKET_OTHERHOST, PacketPath, PacketProgram, PacketProgramError, PacketSocket,
    SocketError, descriptor, open_udp, tcp,
};
pub use process::{CORES, CORES_DIR, run, start_log};
pub use process_end::process_end;
pub use profile::{Point, Profile};
pub use program::program;
pub use protocol::{Protocol, ProtocolFrame};
pub use rest::Rest;
pub use rib::{
    RibChange, RibOrigin, RibOriginSettings, RibSubscription, SubscribedChange, SubscribedKey,
    SubscribedRoute,
};
pub use run_options::{RunOptions, pins_folder, pins_mount, socket_folder};
pub use sluice_part as part;
pub use sluice_xrl::idl::common::v1::{Effect, EffectKind};
pub use snapshot::InterfaceSnapshot;
pub use successor::call_successor;
pub use tasks::Tasks;
pub use under_way::UnderWay;

/// Declares a newtype around a shared pointer to a process, to implement XRL interfaces on: handlers need the shared
/// pointer to start tasks.
#[macro_export]
macro_rules! served {
    ($process:ty) => {
        /// The process for handlers of its interfaces.
        pub(crate) struct Served(pub(crate) std::rc::Rc<$process>);

        impl std::ops::Deref for Served {
            type Target = std::rc::Rc<$process>;

            fn deref(&self) -> &std::rc::Rc<$process> {
                &self.0
            }
        }
    };
}
