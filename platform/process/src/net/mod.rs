//! Sockets and descriptors from the FEA, and programs in the path of packets.

pub mod descriptor;
mod packet;
mod program;
pub mod tcp;
mod udp;

pub use packet::{Link, PACKET_HOST, PACKET_OTHERHOST, PacketSocket};
pub use program::{PacketPath, PacketProgram, PacketProgramError};
pub use udp::{SocketError, open_udp};
