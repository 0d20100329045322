//! SipHash-2-4 (Aumasson and Bernstein, 2012): the tag of hello frames, short enough for the program in the data plane.

/// A key of 128 bits as two little-endian words.
pub type SipKey = [u64; 2];

/// Returns the hash of `octets` under `key`.
pub(crate) fn sip(key: SipKey, octets: &[u8]) -> u64 {
    let mut state = [
        key[0] ^ 0x736f_6d65_7073_6575,
        key[1] ^ 0x646f_7261_6e64_6f6d,
        key[0] ^ 0x6c79_6765_6e65_7261,
        key[1] ^ 0x7465_6462_7974_6573,
    ];
    let (words, rest) = octets.as_chunks::<8>();
    let mut last = [0; 8];
    for (place, octet) in last.iter_mut().zip(rest) {
        *place = *octet;
    }
    last[7] = octets.len() as u8;
    for word in words.iter().chain([&last]) {
        let word = u64::from_le_bytes(*word);
        state[3] ^= word;
        rounds(&mut state, 2);
        state[0] ^= word;
    }
    state[2] ^= 0xff;
    rounds(&mut state, 4);
    state.iter().fold(0, |sum, word| sum ^ word)
}

fn rounds(state: &mut [u64; 4], count: usize) {
    let [mut a, mut b, mut c, mut d] = *state;
    for _ in 0..count {
        a = a.wrapping_add(b);
        c = c.wrapping_add(d);
        b = b.rotate_left(13) ^ a;
        d = d.rotate_left(16) ^ c;
        a = a.rotate_left(32);
        c = c.wrapping_add(b);
        a = a.wrapping_add(d);
        b = b.rotate_left(17) ^ c;
        d = d.rotate_left(21) ^ a;
        c = c.rotate_left(32);
    }
    *state = [a, b, c, d];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vector_of_the_paper_holds() {
        let octets: [u8; 15] = core::array::from_fn(|octet| octet as u8);
        let key = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];
        assert_eq!(sip(key, &octets), 0xa129_ca61_49be_45e5);
    }
}
