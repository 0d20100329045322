//! A message passed on unchanged.

use prost::DecodeError;
use prost::Message;
use prost::bytes::{Buf, BufMut};
use prost::encoding::{DecodeContext, WireType, skip_field};

/// An encoded message: stands in for any message type where only octets pass through.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Octets(pub Vec<u8>);

impl Message for Octets {
    fn encode_raw(&self, buf: &mut impl BufMut) {
        buf.put_slice(&self.0);
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    /// Never used: [`Message::merge`] takes everything before fields are distinguished.
    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buf: &mut impl Buf,
        ctx: DecodeContext,
    ) -> Result<(), DecodeError> {
        skip_field(wire_type, tag, buf, ctx)
    }

    fn merge(&mut self, mut buf: impl Buf) -> Result<(), DecodeError> {
        while buf.has_remaining() {
            let chunk = buf.chunk();
            self.0.extend_from_slice(chunk);
            let n = chunk.len();
            buf.advance(n);
        }
        Ok(())
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn octets_pass_through() {
        // Not even a message.
        let octets = Octets(vec![0xff; 5]);
        assert_eq!(octets.encode_to_vec(), octets.0);
        assert_eq!(Octets::decode(&octets.0[..]), Ok(octets));
    }
}
