//! tshark as a decoder without shared code.

use std::ops::Range;
use std::path::Path;
use std::process::Command;

/// A field of a decoded packet. Texts are as in tshark's XML, with `&`, `<` and `"` escaped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    /// The field's name in display filters.
    pub name: String,
    /// The decoded value.
    pub show: String,
    /// The field's octets in the frame.
    pub place: Range<usize>,
}

/// A decoded packet: the fields of its layers, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Packet {
    /// The fields.
    pub fields: Vec<Field>,
}

impl Packet {
    /// Returns the decoded values of every field `name`, in order.
    pub fn shown(&self, name: &str) -> Vec<&str> {
        self.fields.iter().filter(|f| f.name == name).map(|f| &f.show[..]).collect()
    }

    /// Returns where in the frame the fields `name` are, in order.
    pub fn places(&self, name: &str) -> Vec<Range<usize>> {
        self.fields.iter().filter(|f| f.name == name).map(|f| f.place.clone()).collect()
    }

    /// Returns tshark's complaints: malformed packets and doubtful values. Notes and chats are ignored.
    pub fn complaints(&self) -> Vec<&str> {
        const WARNING: u32 = 0x0060_0000;
        let is_complaint = |pair: &[Field]| {
            let severity = &pair[1];
            pair[0].name == "_ws.expert.message"
                && severity.name == "_ws.expert.severity"
                && severity.show.parse().unwrap_or(WARNING) >= WARNING
        };
        let pairs = self.fields.windows(2).filter(|pair| is_complaint(pair)).map(|pair| &pair[0].show[..]);
        pairs.chain(self.shown("_ws.malformed")).collect()
    }
}

/// Decodes the packets of a capture that match the display filter `filter`, with the given preferences
/// (`bgp.asn_length:4`). `None` if tshark is not installed, which is recorded as a skipped test.
///
/// # Panics
///
/// If tshark refuses the capture.
pub fn decode(capture: &Path, filter: &str, preferences: &[&str]) -> Option<Vec<Packet>> {
    let options: Vec<&str> = preferences.iter().flat_map(|preference| ["-o", *preference]).collect();
    decode_with(capture, filter, &options)
}

/// Decodes as [`decode`] does, with the given options of tshark (`-d`, `tcp.port==5000,bmp`).
///
/// # Panics
///
/// If tshark refuses the capture.
pub fn decode_with(capture: &Path, filter: &str, options: &[&str]) -> Option<Vec<Packet>> {
    let mut command = Command::new("tshark");
    command.arg("-n").arg("-r").arg(capture).args(["-T", "pdml", "-Y", filter]).args(options);
    let output = match command.output() {
        Ok(output) => output,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            crate::skipped("tshark is not installed");
            return None;
        }
        Err(error) => panic!("tshark: {error}"),
    };
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "tshark {}: {complaint}", capture.display());
    Some(packets(&String::from_utf8_lossy(&output.stdout)))
}

/// Reads tshark's XML. An element begins on a line of its own, and ends on the same line unless a text has newlines.
fn packets(text: &str) -> Vec<Packet> {
    let mut packets: Vec<Packet> = Vec::new();
    for line in text.split_inclusive(">\n").map(|line| line.trim_end_matches('\n').trim_start()) {
        if line.starts_with("<packet>") {
            packets.push(Packet::default());
        } else if let (Some(packet), Some(element)) = (packets.last_mut(), line.strip_prefix("<field ")) {
            let of = |attribute: &str| {
                let value = element.split_once(&format!("{attribute}=\""))?.1;
                Some(value.split_once('"')?.0.to_owned())
            };
            let number = |attribute| of(attribute).and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
            let start = number(" pos");
            packet.fields.push(Field {
                name: of("name").unwrap_or_default(),
                show: of(" show").unwrap_or_default(),
                place: start..start + number(" size"),
            });
        }
    }
    packets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_fields_and_complaints() {
        let text = "<packet>\n <proto name=\"bgp\" showname=\"BGP\">\n  \
            <field name=\"bgp.type\" showname=\"Type: KEEPALIVE (4)\" size=\"1\" pos=\"58\" show=\"4\" value=\"04\"/>\n  \
            <field name=\"bgp.lines\" size=\"1\" pos=\"59\" show=\"one:\ntwo\"/>\n  \
            <field name=\"_ws.expert.message\" showname=\"m\" show=\"short\"/>\n  \
            <field name=\"_ws.expert.severity\" showname=\"s\" show=\"8388608\"/>\n  \
            <field name=\"_ws.expert.message\" showname=\"m\" show=\"a note\"/>\n  \
            <field name=\"_ws.expert.severity\" showname=\"s\" show=\"4194304\"/>\n </proto>\n</packet>\n<packet>\n</packet>\n";
        let read = packets(text);
        assert_eq!((read.len(), read[0].shown("bgp.type")), (2, vec!["4"]));
        assert_eq!(read[0].places("bgp.type").pop(), Some(58..59));
        assert_eq!(read[0].shown("bgp.lines"), ["one:\ntwo"]);
        assert_eq!(read[0].places("bgp.lines").pop(), Some(59..60));
        assert_eq!((read[0].complaints(), &read[1]), (vec!["short"], &Packet::default()));
    }
}
