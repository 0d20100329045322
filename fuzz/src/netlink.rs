//! Netlink: the kernel's messages.

use sluice_base::Provenance;
use sluice_fea::engine::{EngineOp, Scope};
use sluice_fea::{Notice, RouteTarget};
use sluice_fea_process::linux::netlink::decode::{error, messages, notice};
use sluice_fea_process::linux::netlink::encode::Messages;

/// A datagram of messages. A notice about Sluice's own objects can be requested, and the request gives the same
/// notice.
pub fn datagram(octets: &[u8]) {
    for message in messages(octets) {
        let _ = error(&message);
        let Some(notice_in) = notice(&message) else { continue };
        let Some(op) = asks_for(&notice_in) else { continue };
        let mut out = Messages::default();
        if out.push(&op, 1) {
            let again: Vec<Notice> = messages(out.octets()).filter_map(|m| notice(&m)).collect();
            assert_eq!(again, [notice_in], "{op:?}");
        }
    }
}

/// The operation that causes the notice.
fn asks_for(notice: &Notice) -> Option<EngineOp> {
    let (scope, provenance) = (Scope::All, Provenance::NONE);
    Some(match notice.clone() {
        Notice::RouteIs { target: Some(RouteTarget::Other), .. } => return None,
        Notice::RouteIs { table, prefix, target: Some(target), replaced } => {
            EngineOp::SetRoute { table, prefix, target, replace: replaced, scope, provenance }
        }
        Notice::RouteGone { table, prefix } => EngineOp::DeleteRoute { table, prefix, scope, provenance },
        Notice::MemberIs(id, member) => EngineOp::SetMember { id, member },
        Notice::GroupIs(id, members) if members.iter().next().is_some() => {
            EngineOp::SetGroup { id, members, create: true }
        }
        Notice::AddressIs(interface, address, true) if address.peer.is_none() => {
            EngineOp::AddAddress { interface, address }
        }
        _ => return None,
    })
}

/// A kernel's answers to dumps and changes in a namespace with a pair of interfaces, and each message of the answers
/// alone.
pub fn datagrams() -> Vec<Vec<u8>> {
    let dumps: [&[u8]; 6] = [
        include_bytes!("../seeds/netlink/links.bin"),
        include_bytes!("../seeds/netlink/addresses.bin"),
        include_bytes!("../seeds/netlink/routes.bin"),
        include_bytes!("../seeds/netlink/nexthops.bin"),
        include_bytes!("../seeds/netlink/refusal.bin"),
        include_bytes!("../seeds/netlink/notices.bin"),
    ];
    let mut all: Vec<Vec<u8>> = dumps.iter().map(|d| d.to_vec()).collect();
    for dump in dumps {
        let mut rest = dump;
        while let Some(message) = messages(rest).next() {
            let size = (16 + message.body.len()).next_multiple_of(4);
            all.push(rest[..size.min(rest.len())].to_vec());
            rest = rest.get(size..).unwrap_or_default();
        }
    }
    all
}
