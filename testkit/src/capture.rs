//! Packet captures (pcap and pcapng): the payloads of TCP segments in them, and captures of one TCP stream written.

use std::collections::BTreeMap;

/// The two ends of a TCP stream, as octets: addresses and ports of sender and receiver.
pub type Stream = Vec<u8>;

/// The octets of each TCP stream with `port` at one end, in the order of their sequence numbers; a gap ends a stream.
pub fn tcp_streams(capture: &[u8], port: u16) -> Vec<Vec<u8>> {
    let mut segments: BTreeMap<Stream, Vec<(u32, &[u8])>> = BTreeMap::new();
    for (link, frame) in frames(capture) {
        if let Some((stream, sequence, payload)) = segment(link, frame, port)
            && !payload.is_empty()
        {
            segments.entry(stream).or_default().push((sequence, payload));
        }
    }
    segments.into_values().map(join).collect()
}

/// Returns a capture (pcap, frames begin with the IPv4 header) of a TCP stream to `port` with a segment for each payload.
pub fn written(port: u16, payloads: &[Vec<u8>]) -> Vec<u8> {
    const RAW_IP: u32 = 101;
    let mut capture = Vec::new();
    for word in [0xa1b2_c3d4, 2 << 16 | 4, 0, 0, 0xffff, RAW_IP] {
        capture.extend_from_slice(&u32::to_be_bytes(word));
    }
    let mut sequence = 1_u32;
    for payload in payloads {
        // Headers of IPv4 and TCP have 20 octets each; BGP's messages have 4,096 at most.
        let len = payload.len() as u16 + 40;
        for word in [0, 0, len.into(), len.into()] {
            capture.extend_from_slice(&u32::to_be_bytes(word));
        }
        let [high, low] = len.to_be_bytes();
        capture.extend_from_slice(&[0x45, 0, high, low, 0, 0, 0, 0, 64, 6, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2]);
        capture.extend_from_slice(&40_000_u16.to_be_bytes());
        capture.extend_from_slice(&port.to_be_bytes());
        capture.extend_from_slice(&sequence.to_be_bytes());
        capture.extend_from_slice(&[0, 0, 0, 1, 0x50, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
        capture.extend_from_slice(payload);
        sequence = sequence.wrapping_add(payload.len() as u32);
    }
    capture
}

fn join(mut segments: Vec<(u32, &[u8])>) -> Vec<u8> {
    let first = segments[0].0;
    segments.sort_by_key(|(sequence, _)| sequence.wrapping_sub(first) as i32);
    let mut octets: Vec<u8> = Vec::new();
    let start = segments[0].0;
    for (sequence, payload) in segments {
        let at = sequence.wrapping_sub(start) as usize;
        if at > octets.len() {
            break;
        }
        let known = octets.len() - at;
        octets.extend_from_slice(payload.get(known..).unwrap_or_default());
    }
    octets
}

/// Returns the link type (1 is Ethernet) and the octets of every frame of a capture. A file that was cut, or claims too much, ends
/// inside its last frame: the octets that are there count.
pub fn frames(capture: &[u8]) -> Vec<(u32, &[u8])> {
    let Some(capture) = sluice_capture::parse(capture) else { return Vec::new() };
    capture.records.iter().chain(&capture.torn).map(|record| (record.link, record.octets)).collect()
}

/// Stream, sequence number and payload of a frame with a TCP segment of `port`.
fn segment(link: u32, frame: &[u8], port: u16) -> Option<(Stream, u32, &[u8])> {
    let packet = match link {
        1 => {
            let tagged = usize::from(frame.get(12..14)? == [0x81, 0x00]) * 4;
            frame.get(14 + tagged..)?
        }
        // Linux cooked, Cisco HDLC and PPP-like, null, raw.
        113 => frame.get(16..)?,
        104 | 0 | 108 => frame.get(4..)?,
        101 | 12 => frame,
        _ => return None,
    };
    let (addresses, tcp) = match packet.first()? >> 4 {
        4 => {
            let header = usize::from(packet[0] & 15) * 4;
            let total = usize::from(u16::from_be_bytes(*packet.get(2..)?.first_chunk()?));
            (
                packet.get(12..20)?,
                (packet.get(9)? == &6).then(|| packet.get(header..total.min(packet.len())))??,
            )
        }
        6 => (packet.get(8..40)?, (packet.get(6)? == &6).then(|| packet.get(40..))??),
        _ => return None,
    };
    let ports = tcp.get(..4)?;
    if ![&ports[..2], &ports[2..]].contains(&&port.to_be_bytes()[..]) {
        return None;
    }
    let sequence = u32::from_be_bytes(*tcp.get(4..)?.first_chunk()?);
    let payload = tcp.get(usize::from(tcp.get(12)? >> 4) * 4..)?;
    Some(([addresses, ports].concat(), sequence, payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_capture_reads_back() {
        let capture = written(179, &[vec![1; 19], vec![2; 4096]]);
        assert_eq!(tcp_streams(&capture, 179), [[vec![1; 19], vec![2; 4096]].concat()]);
        assert!(tcp_streams(&capture, 180).is_empty());
    }
}
