//! Classic BPF programs (linux/filter.h) for sockets: packets not accepted by the program never reach the socket.

use sluice_clients::LinkProtocol;

/// The first offset of the kernel's own facts about a packet among the offsets of a load (`SKF_AD_OFF`).
const FACTS: i32 = -0x1000;
/// The EtherType (`SKF_AD_PROTOCOL`).
const FACT_PROTOCOL: i32 = 0;
/// The packet's destination (`SKF_AD_PKTTYPE`).
const FACT_PACKET_TYPE: i32 = 4;
/// The number of the interface (`SKF_AD_IFINDEX`).
const FACT_INTERFACE: i32 = 8;

/// A program under construction: each failed test drops the packet.
#[derive(Debug, Default)]
pub(crate) struct Program(Vec<libc::sock_filter>);

impl Program {
    /// Accepts frames of `protocol` received by the interface `index`, for this host or a group. Holds for a packet socket of type
    /// SOCK_DGRAM, which a component may rebind to a different protocol or interface.
    pub(crate) fn packet(protocol: LinkProtocol, index: u32) -> Self {
        let mut program = Program::default();
        program.load_fact(FACT_INTERFACE);
        program.demand(JEQ, index);
        program.load_fact(FACT_PACKET_TYPE);
        // PACKET_HOST, PACKET_BROADCAST and PACKET_MULTICAST come before the types of frames for others and from here.
        program.drop_above(u32::from(libc::PACKET_MULTICAST));
        program.load_fact(FACT_PROTOCOL);
        program.demand(JEQ, u32::from(ether_type(protocol)));
        if let LinkProtocol::Llc(point) = protocol {
            program.0.push(instruction(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 0, 0, 0));
            program.demand(JEQ, u32::from_be_bytes([0, 0, point, point]));
        }
        program.accepting()
    }

    /// Accepts ICMPv6 of these types.
    pub(crate) fn icmpv6(types: &[u8]) -> Self {
        let mut program = Program::default();
        program.0.push(instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, 0));
        // At most 256 tests: each jumps over those that follow it, in steps of two, so that no jump is too long.
        for number in types {
            program.0.push(instruction(JEQ, 0, 1, u32::from(*number)));
            program.0.push(ACCEPT);
        }
        program.0.push(DROP);
        program
    }

    /// The instructions.
    pub(crate) fn instructions(&mut self) -> &mut [libc::sock_filter] {
        &mut self.0
    }

    fn load_fact(&mut self, fact: i32) {
        let at = (FACTS + fact).cast_unsigned();
        self.0.push(instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, at));
    }

    fn demand(&mut self, test: u32, value: u32) {
        self.0.extend([instruction(test, 1, 0, value), DROP]);
    }

    fn drop_above(&mut self, value: u32) {
        self.0.extend([instruction(libc::BPF_JMP | libc::BPF_JGT | libc::BPF_K, 0, 1, value), DROP]);
    }

    fn accepting(mut self) -> Self {
        self.0.push(ACCEPT);
        self
    }
}

const JEQ: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const DROP: libc::sock_filter = instruction(libc::BPF_RET | libc::BPF_K, 0, 0, 0);
const ACCEPT: libc::sock_filter = instruction(libc::BPF_RET | libc::BPF_K, 0, 0, u32::MAX);

/// Returns the number by which the kernel knows a protocol of the link layer (linux/if_ether.h).
pub(crate) const fn ether_type(protocol: LinkProtocol) -> u16 {
    match protocol {
        LinkProtocol::EtherType(number) => number,
        LinkProtocol::Llc(_) => libc::ETH_P_802_2 as u16,
    }
}

/// Returns one instruction.
pub(crate) const fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}
