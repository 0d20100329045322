//! Tar archives and their files.

/// Name and content of every plain file, in order.
pub fn files(archive: &[u8]) -> Vec<(String, &[u8])> {
    let mut files = Vec::new();
    let mut rest = archive;
    while let Some(header) = rest.get(..512) {
        let text = |range: core::ops::Range<usize>| {
            let field = &header[range];
            let end = field.iter().position(|b| *b == 0).unwrap_or(field.len());
            String::from_utf8_lossy(&field[..end]).trim().to_owned()
        };
        let Ok(size) = usize::from_str_radix(&text(124..136), 8) else { break };
        let Some(content) = rest.get(512..512 + size) else { break };
        if matches!(header[156], b'0' | 0) && !text(0..100).is_empty() {
            files.push((text(0..100), content));
        }
        rest = rest.get(512 + size.next_multiple_of(512)..).unwrap_or_default();
    }
    files
}
