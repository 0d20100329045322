//! A trace (MRT, RFC 6396) as messages of the client's peers: its UPDATEs with the peers' own AS and next hop.

use crate::message::{Attributes, Voice};
use crate::stream::{Stamp, Stream};
use crate::wire::as_path::{self, Width, segments};
use crate::wire::attribute::{self, Attribute, code, put_header};
use crate::wire::{
    AFI_IPV6, Malformed, MessageType, MpReach, MpUnreach, Nlri, SAFI_UNICAST, Update, WirePrefix, header,
    is_routable,
};
use crate::workload::Families;
use anyhow::{Context, Result, ensure};
use sluice_base::{Asn, IpPrefix, Ipv4Prefix, Ipv6Prefix};
use sluice_mrt as mrt;
use std::collections::HashMap;
use std::net::IpAddr;

/// The UPDATEs of a trace.
#[derive(Debug)]
pub struct Trace<'a> {
    /// AS and address of the peers with messages, in the order of their first message.
    pub peers: Vec<(u32, IpAddr)>,
    updates: Vec<(usize, mrt::Message<'a>)>,
}

/// A prefix that a sender announced or withdrew, as the target should see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// The sender.
    pub sender: usize,
    /// The prefix.
    pub prefix: IpPrefix,
    /// True if the target has a route of the sender's now.
    pub announced: bool,
}

/// The senders' messages of a trace.
#[derive(Debug, Default)]
pub struct Said {
    /// The stream of each sender, with stamps.
    pub streams: Vec<Stream>,
    /// In the order of the trace.
    pub events: Vec<Event>,
    /// Messages that no peer can send: malformed messages, messages of unsupported families only, messages longer than
    /// 4096 octets.
    pub skipped: usize,
}

/// An UPDATE, taken apart.
struct Parts {
    withdrawn: [Vec<IpPrefix>; 2],
    announced: [Vec<IpPrefix>; 2],
    attributes: Attributes,
}

impl<'a> Trace<'a> {
    /// Reads a trace.
    ///
    /// # Errors
    /// If the trace has no UPDATE.
    pub fn read(octets: &'a [u8]) -> Result<Self> {
        let mut trace = Trace { peers: Vec::new(), updates: Vec::new() };
        let mut known = HashMap::new();
        for message in mrt::messages(octets) {
            if message.octets.get(18) == Some(&(MessageType::Update as u8)) {
                let peer = (message.peer_as, message.peer);
                let number = *known.entry(peer).or_insert(trace.peers.len());
                if number == trace.peers.len() {
                    trace.peers.push(peer);
                }
                trace.updates.push((number, message));
            }
        }
        ensure!(!trace.updates.is_empty(), "no UPDATE in it; expected an MRT trace with BGP4MP records");
        Ok(trace)
    }

    /// The trace in the mouths of so many senders as there are voices; the trace's peers are dealt out to them in turn. A path with
    /// the target's own AS counts as withdrawn, as the target sees it.
    pub fn said(&self, voices: &[Voice], families: Families, target_as: Asn) -> Said {
        let mut said = Said { streams: vec![Stream::default(); voices.len()], ..Said::default() };
        let Some(begin) = self.updates.iter().map(|(_, m)| m.time).min() else { return said };
        for (place, (peer, message)) in self.updates.iter().enumerate() {
            let sender = peer % voices.len();
            let before = said.streams[sender].len();
            let parts = parts(message, target_as);
            match parts {
                Ok((parts, has_loop)) => parts.say(sender, &voices[sender], families, has_loop, &mut said),
                Err(_) => said.skipped += 1,
            }
            let stream = &mut said.streams[sender];
            if stream.len() > before {
                // More than four billion messages would not fit in memory.
                stream.stamp(Stamp { time: message.time - begin, place: place as u32 });
            }
        }
        said
    }
}

impl Parts {
    fn say(self, sender: usize, voice: &Voice, families: Families, has_loop: bool, said: &mut Said) {
        let wanted = [families.v4, families.v6];
        let stream = &mut said.streams[sender];
        let before = stream.len();
        for (family, _) in wanted.iter().enumerate().filter(|(_, wanted)| **wanted) {
            voice.withdraw(&self.withdrawn[family], stream);
            let event = |prefix: &IpPrefix| Event { sender, prefix: *prefix, announced: false };
            said.events.extend(self.withdrawn[family].iter().map(event));
            let announced = &self.announced[family];
            if voice.announce(&self.attributes, announced, stream) > 0 {
                continue;
            }
            let event = |p: &IpPrefix| Event { sender, prefix: *p, announced: !has_loop && is_routable(*p) };
            said.events.extend(announced.iter().map(event));
        }
        said.skipped += usize::from(stream.len() == before);
    }
}

/// Splits an UPDATE; the flag is true if its path has the target's AS.
fn parts(message: &mrt::Message<'_>, target_as: Asn) -> Result<(Parts, bool)> {
    let frame = header::frame(message.octets)?.context("cut off")?;
    let update = Update::decode(frame.body)?;
    let width = if message.four_octet_as { Width::Four } else { Width::Two };
    let mut parts = Parts {
        withdrawn: [list::<Ipv4Prefix>(update.withdrawn)?, Vec::new()],
        announced: [list::<Ipv4Prefix>(update.nlri)?, Vec::new()],
        attributes: Attributes::default(),
    };
    let (mut path, mut as4_path) = (&[][..], None);
    for attribute in attribute::Attributes::new(update.attributes) {
        let attribute = attribute?;
        let value = attribute.value;
        match attribute.code {
            code::ORIGIN => parts.attributes.origin = *value.first().context("an empty ORIGIN")?,
            code::AS_PATH => path = value,
            code::AS4_PATH if width == Width::Two => as4_path = Some(value),
            code::MP_REACH_NLRI => {
                let reach = MpReach::decode(value)?;
                if (reach.afi, reach.safi) == (AFI_IPV6, SAFI_UNICAST) {
                    parts.announced[1] = list::<Ipv6Prefix>(reach.nlri)?;
                }
            }
            code::MP_UNREACH_NLRI => {
                let unreach = MpUnreach::decode(value)?;
                if (unreach.afi, unreach.safi) == (AFI_IPV6, SAFI_UNICAST) {
                    parts.withdrawn[1] = list::<Ipv6Prefix>(unreach.withdrawn)?;
                }
            }
            _ => keep(&attribute, width, &mut parts.attributes.rest),
        }
    }
    let mut path = segments(path, width)?;
    if let Some(Ok(as4_path)) = as4_path.map(|path| segments(path, Width::Four)) {
        path = as_path::merged(path, as4_path);
    }
    let has_loop = path.iter().any(|segment| segment.asns.contains(&target_as));
    as_path::put(&path, &mut parts.attributes.path);
    Ok((parts, has_loop))
}

fn list<P: WirePrefix>(field: &[u8]) -> Result<Vec<IpPrefix>, Malformed> {
    Nlri::<P>::new(field).map(|p| p.map(Into::into)).collect()
}

/// Appends an attribute to `rest` if an external peer may send it.
fn keep(attribute: &Attribute<'_>, width: Width, rest: &mut Vec<u8>) {
    match attribute.code {
        // A next hop is the sender's own; the others have no place between ASes, or between speakers of 4-octet numbers.
        code::NEXT_HOP
        | code::LOCAL_PREF
        | code::ORIGINATOR_ID
        | code::CLUSTER_LIST
        | code::AS4_PATH
        | code::AS4_AGGREGATOR => {}
        code::AGGREGATOR if width == Width::Two => {
            put_header(rest, attribute.flags, code::AGGREGATOR, attribute.value.len() + 2);
            rest.extend_from_slice(&[0, 0]);
            rest.extend_from_slice(attribute.value);
        }
        _ => attribute.put(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::net::Ipv4Addr;

    const FAMILIES: Families = Families { v4: true, v6: true };

    fn voices(n: usize) -> Vec<Voice> {
        let voice = |n| Voice {
            asn: Asn(65001 + n as u32),
            internal: false,
            next_hop_v4: Ipv4Addr::new(10, 0, 0, 2),
            next_hop_v6: "2001:db8::2".parse().unwrap(),
            per_message: usize::MAX,
            paths: 1,
        };
        (0..n).map(voice).collect()
    }

    /// Every announcement and withdrawal of a real trace is sent again, in order, with any number of senders.
    #[test]
    fn real_traces() {
        for (name, senders) in [
            ("data/bgp/updates/rrc15.updates.20100227.1600.gz", 11),
            ("data/bgp/updates/ris.updates.20160811.1600.gz", 3),
        ] {
            let Some(octets) = sluice_testkit::read(name) else { return };
            let trace = Trace::read(&octets).unwrap();
            let said = trace.said(&voices(senders), FAMILIES, Asn(64500));
            let prefixes: usize = said.streams.iter().map(|s| s.prefixes(0..s.len())).sum();
            assert_eq!(prefixes, said.events.len(), "{name}");
            assert!(said.skipped * 100 < trace.updates.len(), "{name}: {} skipped", said.skipped);
            let mut received: Vec<HashSet<IpPrefix>> = vec![HashSet::new(); senders];
            for (sender, stream) in said.streams.iter().enumerate() {
                let mut rest = stream.octets(0..stream.len());
                let mut before = 0;
                while let Some(frame) = header::frame(rest).unwrap() {
                    crate::routes::each(frame.body, |p, announced| {
                        if announced {
                            received[sender].insert(p)
                        } else {
                            received[sender].remove(&p)
                        };
                    })
                    .unwrap();
                    rest = &rest[frame.len()..];
                }
                for m in 0..stream.len() {
                    let stamp = stream.seen(m).unwrap();
                    assert!(stamp.time >= before);
                    before = stamp.time;
                }
            }
            let mut expected = vec![HashSet::new(); senders];
            for e in &said.events {
                if e.announced {
                    expected[e.sender].insert(e.prefix)
                } else {
                    expected[e.sender].remove(&e.prefix)
                };
            }
            assert_eq!(received, expected, "{name}");
        }
    }

    #[test]
    fn no_trace() {
        for octets in [&[][..], b"not a trace at all, but long enough for a header"] {
            assert!(Trace::read(octets).unwrap_err().to_string().contains("no UPDATE"));
        }
    }
}
