//! Raw frames from files of hexadecimal digits.

use crate::PktgenError;
use std::path::Path;

/// Reads a frame from a file of hexadecimal digits. Blanks, line ends and colons separate octets or are left out; `#`
/// begins a remark, up to the line's end.
///
/// # Errors
///
/// If the file cannot be read, or has something other than pairs of digits.
pub fn read(path: &Path) -> Result<Vec<u8>, PktgenError> {
    let text =
        std::fs::read_to_string(path).map_err(|source| PktgenError::File { path: path.into(), source })?;
    parse(&text).map_err(|reason| PktgenError::Raw { path: path.into(), reason: reason.into() })
}

/// Reads hexadecimal digits, as [`read`] does.
fn parse(text: &str) -> Result<Vec<u8>, &'static str> {
    let mut octets = Vec::new();
    for line in text.lines() {
        let line = line.split('#').next().unwrap_or_default();
        for word in line.split([' ', '\t', ':']).filter(|word| !word.is_empty()) {
            let (pairs, rest) = word.as_bytes().as_chunks::<2>();
            if !rest.is_empty() {
                return Err("a digit stands alone; write each octet as two hexadecimal digits");
            }
            for pair in pairs {
                let pair = std::str::from_utf8(pair).ok().filter(|pair| !pair.starts_with('+'));
                let octet = pair.and_then(|pair| u8::from_str_radix(pair, 16).ok());
                octets.push(
                    octet.ok_or("only hexadecimal digits, blanks, colons and remarks (#) are allowed")?,
                );
            }
        }
    }
    Ok(octets)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn digits_are_read() {
        assert_eq!(parse("02:00 0a0B # to\n ff\n\n#08"), Ok(vec![2, 0, 0x0a, 0x0b, 0xff]));
        assert_eq!(parse(""), Ok(vec![]));
        for wrong in ["0", "0 0", "0g", "+1", "0x00", "ä"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
