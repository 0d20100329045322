//! Interfaces that take no frames of XDP programs. A veth takes them only while its other end has NAPI, and some drivers never do: the
//! frames would vanish without an error. The kernel reports that by the generic netlink family `netdev` (Linux 6.3 and later); what an
//! older kernel does not report is no obstacle.

use crate::linux::netlink::decode::{Message, attributes, u16_at, u32_at};
use crate::linux::netlink::encode::Messages;
use crate::linux::netlink::number::NLM_F_DUMP;
use crate::linux::netlink::socket::Socket;
use sluice_base::InterfaceIndex;
use sluice_fea::xdp::obstacles::Obstacles;
use std::io;
use std::ops::ControlFlow;

/// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_ID` and `CTRL_ATTR_FAMILY_NAME` (linux/genetlink.h).
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// `NETDEV_CMD_DEV_GET`, `NETDEV_A_DEV_IFINDEX` and `NETDEV_A_DEV_XDP_FEATURES` (linux/netdev.h).
const GET_DEVICE: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_FEATURES: u16 = 3;
/// `NETDEV_XDP_ACT_NDO_XMIT`: the driver sends frames of XDP programs.
const SENDS_FRAMES: u64 = 1 << 2;
/// The octets of `struct genlmsghdr`: command, version, 2 reserved.
const HEADER: usize = 4;

/// Reads which interfaces take no frames, and takes them in as obstacles.
///
/// # Errors
///
/// If the kernel does not answer.
pub fn read(obstacles: &mut Obstacles) -> io::Result<()> {
    let socket = Socket::open_to_generic()?;
    let mut number = None;
    let known = socket.request(&get(CONTROL, 0, GET_FAMILY, &[(FAMILY_NAME, b"netdev\0")]), |message| {
        number = family(message);
        ControlFlow::Break(())
    });
    match (known, number) {
        (Err(error), _) if error.kind() != io::ErrorKind::NotFound => Err(error),
        (Ok(()), Some(number)) => socket.request(&get(number, NLM_F_DUMP, GET_DEVICE, &[]), |message| {
            if let Some((interface, false)) = device(message) {
                obstacles.note_no_receiver(interface);
            }
            ControlFlow::Continue(())
        }),
        _ => Ok(()),
    }
}

fn get(kind: u16, flags: u16, command: u8, attributes: &[(u16, &[u8])]) -> Messages {
    let mut request = Messages::default();
    request.push_message(kind, flags, 1, &[command, 1, 0, 0], attributes);
    request
}

/// Returns the number of the family that the message describes.
fn family(message: &Message<'_>) -> Option<u16> {
    let (_, number) = attributes(message.body.get(HEADER..)?).find(|(kind, _)| *kind == FAMILY_ID)?;
    u16_at(number, 0)
}

/// Returns an interface, and true if it takes frames of XDP programs.
fn device(message: &Message<'_>) -> Option<(InterfaceIndex, bool)> {
    let (mut interface, mut features) = (None, None);
    for (kind, value) in attributes(message.body.get(HEADER..)?) {
        match kind {
            DEVICE_INDEX => interface = InterfaceIndex::new(u32_at(value, 0)?),
            DEVICE_FEATURES => features = value.first_chunk().map(|octets| u64::from_ne_bytes(*octets)),
            _ => {}
        }
    }
    Some((interface?, features? & SENDS_FRAMES != 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linux::netlink::decode::messages;
    use proptest::prelude::*;

    #[test]
    fn a_device_reports_whether_it_accepts_frames() {
        let fact = |features: u64| {
            let (index, features) = (3_u32.to_ne_bytes(), features.to_ne_bytes());
            let all = get(20, 0, GET_DEVICE, &[(DEVICE_INDEX, &index), (DEVICE_FEATURES, &features)]);
            messages(all.octets()).find_map(|message| device(&message))
        };
        let interface = InterfaceIndex::new(3).unwrap();
        assert_eq!(fact(0x23), Some((interface, false)), "a veth whose other end has no NAPI");
        assert_eq!(fact(0x67), Some((interface, true)));
    }

    proptest! {
        #[test]
        fn no_bodies_do_harm(body in proptest::collection::vec(any::<u8>(), 0..120)) {
            let message = Message { kind: 20, flags: 0, sequence: 0, body: &body };
            let _ = (family(&message), device(&message));
        }
    }
}
