//! Captures for replay: frames with their times.

use sluice_pktgen::capture::parse;

/// Frames that replay would send.
pub fn frames(input: &[u8]) {
    let Ok(frames) = parse(input) else { return };
    let octets: usize = frames.iter().map(|frame| frame.octets.len()).sum();
    assert!(octets <= input.len(), "{octets} octets of frames in {}", input.len());
    assert!(frames.first().is_none_or(|first| first.time.is_zero()));
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// A pcapng block of a type and whole words.
fn block(kind: u32, body: &[u32]) -> Vec<u8> {
    let length = 12 + 4 * body.len() as u32;
    words(&[&[kind, length], body, &[length]].concat())
}

/// A capture in each format: two frames of 4 octets.
pub fn seeds() -> Vec<Vec<u8>> {
    let classic = words(&[0xa1b2_c3d4, 2 | 4 << 16, 0, 0, 0xffff, 1, 10, 5, 4, 4, 7, 11, 0, 4, 60, 8]);
    let next_generation = [
        block(0x0a0d_0d0a, &[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]),
        // Ethernet, with times in nanoseconds.
        block(1, &[1, 0, 9 | 1 << 16, 9, 0]),
        block(6, &[0, 0, 1_000, 4, 4, 7]),
        block(3, &[4, 8]),
    ];
    vec![classic, next_generation.concat()]
}
