//! The description of the packets to send.

use crate::{PktgenError, XipFormat, headers};
use sluice_bpf::layout::Stamp;
use std::net::IpAddr;
use std::num::{NonZeroU32, NonZeroU64};

/// The octets of the stamp.
pub(crate) const STAMP: usize = size_of::<Stamp>();

/// The first source port of generated packets.
pub const FIRST_PORT: u16 = 1024;

/// The most flows: the source ports from [`FIRST_PORT`] on.
pub const MOST_FLOWS: u32 = 0x10000 - FIRST_PORT as u32;

/// The most threads of a generator.
pub const MOST_THREADS: u32 = 64;

/// The most octets of a frame without its check sequence.
pub const MOST_OCTETS: usize = 1514;

/// The least octets of an Ethernet frame without its check sequence.
pub const LEAST_OCTETS: usize = 60;

/// The packets of a generator.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The interface to send from, in the network namespace of the thread that starts the generator.
    pub interface: String,
    /// The content of the frames.
    pub content: Content,
    /// The octets of each frame without its check sequence; the least that the content needs if absent.
    pub size: Option<usize>,
    /// The packets a second; as fast as possible if absent.
    pub rate: Option<NonZeroU64>,
    /// The packets to send; without end if absent.
    pub limit: Option<NonZeroU64>,
    /// The threads that send. Each sends every so many-th sequence number; between the numbers of two threads, packets may be reordered.
    pub threads: NonZeroU32,
    /// The number of the stream, by which a sink knows the packets.
    pub stream: u32,
    /// The sequence number that is left out. Tests see by it that a sink finds a loss.
    pub omitted: Option<u64>,
    /// The interface's name again, which permits sending outside of labs ([`crate::permit`]).
    pub named_again: Option<String>,
}

/// The content of generated frames.
#[derive(Clone, Debug)]
pub enum Content {
    /// UDP packets with a stamp at the beginning of the payload.
    Udp(Udp),
    /// XIP packets without a stamp, which no sink counts.
    Xip(Xip),
    /// The same octets each time. If the frame's size leaves room for it, the stamp is at the frame's end.
    Raw(Vec<u8>),
}

/// Generated UDP packets.
#[derive(Clone, Debug)]
pub struct Udp {
    /// The Ethernet address of the receiver.
    pub to: [u8; 6],
    /// The source address of the packets.
    pub source: IpAddr,
    /// The destination addresses in turn, of the source's family: a power of two of them
    /// ([`crate::destinations::in_turn`]).
    pub destinations: Vec<IpAddr>,
    /// The source ports that are used in turn, at most [`MOST_FLOWS`].
    pub flows: u32,
    /// The packets in a row with the same destination and source port.
    pub flow_length: u32,
}

/// Generated XIP packets.
#[derive(Clone, Debug)]
pub struct Xip {
    /// The Ethernet address of the receiver.
    pub to: [u8; 6],
    /// The form of the destination address.
    pub format: XipFormat,
    /// The destinations in turn, IPv4 addresses of which the autonomous domains are made ([`crate::domain`]): a power of two of them.
    pub destinations: Vec<IpAddr>,
}

impl Spec {
    /// Describes UDP packets of one flow: full speed, without end, of the least size.
    pub fn udp(interface: &str, to: [u8; 6], source: IpAddr, destinations: Vec<IpAddr>) -> Self {
        Spec::of(interface, Content::Udp(Udp { to, source, destinations, flows: 1, flow_length: 1 }))
    }

    /// Describes XIP packets: full speed, without end, without payload.
    pub fn xip(interface: &str, to: [u8; 6], format: XipFormat, destinations: Vec<IpAddr>) -> Self {
        Spec::of(interface, Content::Xip(Xip { to, format, destinations }))
    }

    /// Describes frames of the octets `frame`, beginning with the Ethernet header.
    pub fn raw(interface: &str, frame: Vec<u8>) -> Self {
        Spec::of(interface, Content::Raw(frame))
    }

    fn of(interface: &str, content: Content) -> Self {
        let (size, rate, limit, omitted, named_again) = Default::default();
        let threads = NonZeroU32::MIN;
        Spec {
            interface: interface.into(),
            content,
            size,
            rate,
            limit,
            threads,
            stream: 0,
            omitted,
            named_again,
        }
    }

    /// Returns the octets of each frame.
    ///
    /// # Errors
    ///
    /// If the description has no meaning: addresses of two families, no power of two of destinations, a frame too short
    /// for its content or too long for Ethernet, or too many flows.
    pub fn octets(&self) -> Result<usize, PktgenError> {
        let usage = |text: String| Err(PktgenError::Usage(text));
        let least = match &self.content {
            Content::Udp(udp) => {
                udp.check()?;
                (headers::octets(udp.source) + STAMP).max(LEAST_OCTETS)
            }
            Content::Xip(xip) => {
                check_ring(&xip.destinations)?;
                if xip.destinations.iter().any(IpAddr::is_ipv6) {
                    return usage("the domains of XIP packets are made of IPv4 prefixes".into());
                }
                xip.format.header_octets().max(LEAST_OCTETS)
            }
            Content::Raw(frame) if frame.len() < 14 => {
                return usage(format!(
                    "a raw frame of {} octets has no Ethernet header, which has 14",
                    frame.len()
                ));
            }
            Content::Raw(frame) => frame.len(),
        };
        let octets = self.size.unwrap_or(least);
        if octets < least {
            return usage(format!("these packets need frames of {least} octets at least: `--size {least}`"));
        }
        if octets > MOST_OCTETS {
            return usage(format!("a frame has {MOST_OCTETS} octets at most, not {octets}"));
        }
        Ok(octets)
    }
}

impl Udp {
    fn check(&self) -> Result<(), PktgenError> {
        let usage = |text: &str| Err(PktgenError::Usage(text.into()));
        check_ring(&self.destinations)?;
        if self.destinations.iter().any(|address| address.is_ipv4() != self.source.is_ipv4()) {
            return usage(
                "source and destinations are not of one family; send each family by its own command",
            );
        }
        if self.flows == 0 || self.flows > MOST_FLOWS || self.flow_length == 0 {
            return usage("there have to be 1 to 64512 flows, of 1 packet at least");
        }
        Ok(())
    }
}

/// Tests that the program can walk through the destinations.
fn check_ring(destinations: &[IpAddr]) -> Result<(), PktgenError> {
    let usage = |text: &str| Err(PktgenError::Usage(text.into()));
    if destinations.is_empty() {
        return usage("there is no destination: give one by --destination, or a file by --destinations");
    }
    if !destinations.len().is_power_of_two() || destinations.len() > crate::destinations::MOST {
        return usage("the number of destinations is no power of two up to 1048576");
    }
    Ok(())
}
