//! A small reader of the type information (BTF, Documentation/bpf/btf.rst of the kernel) in an ELF object.

use std::collections::BTreeMap;

const STRUCT: u32 = 4;
const ENUM: u32 = 6;

/// The structs and enums of an object.
#[derive(Default, Debug)]
pub struct Types {
    /// Size and members by name of the struct: each member's name and offset in octets.
    pub structs: BTreeMap<String, (usize, BTreeMap<String, usize>)>,
    /// Numbers by name, of all enums.
    pub numbers: BTreeMap<String, u32>,
}

/// Reads the type information of a little-endian 64-bit ELF object.
pub fn types(object: &[u8]) -> Types {
    let btf = section(object, ".BTF").expect("the object has no .BTF section: was it compiled with -g?");
    let header = u32_at(btf, 4) as usize;
    let (types_at, types_len) = (header + u32_at(btf, 8) as usize, u32_at(btf, 12) as usize);
    let strings = &btf[header + u32_at(btf, 16) as usize..];
    let mut found = Types::default();
    let mut at = types_at;
    while at < types_at + types_len {
        let (name, info, size) = (text(strings, u32_at(btf, at)), u32_at(btf, at + 4), u32_at(btf, at + 8));
        let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
        at += 12;
        match kind {
            STRUCT => {
                let members = (0..count).map(|i| {
                    let offset = (u32_at(btf, at + 12 * i + 8) & 0xff_ffff) as usize / 8;
                    (text(strings, u32_at(btf, at + 12 * i)), offset)
                });
                found.structs.insert(name, (size as usize, members.collect()));
            }
            ENUM => {
                for i in 0..count {
                    found.numbers.insert(text(strings, u32_at(btf, at + 8 * i)), u32_at(btf, at + 8 * i + 4));
                }
            }
            _ => {}
        }
        at += match kind {
            1 | 14 | 17 => 4,
            3 => 12,
            STRUCT | 5 | 15 | 19 => 12 * count,
            ENUM | 13 => 8 * count,
            _ => 0,
        };
    }
    found
}

fn section<'a>(elf: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let table = u64_at(elf, 40);
    let (size, count, names) = (u16_at(elf, 58), u16_at(elf, 60), u16_at(elf, 62));
    let header = |index: usize| &elf[table + index * size..];
    let contents = |header: &[u8]| (u64_at(header, 24), u64_at(header, 32));
    let (names_at, _) = contents(header(names));
    (0..count).map(header).find(|h| text(&elf[names_at..], u32_at(h, 0)) == name).map(|h| {
        let (at, len) = contents(h);
        &elf[at..at + len]
    })
}

fn text(strings: &[u8], at: u32) -> String {
    let octets = strings[at as usize..].iter().take_while(|octet| **octet != 0);
    octets.map(|octet| char::from(*octet)).collect()
}

fn u16_at(octets: &[u8], at: usize) -> usize {
    u16::from_le_bytes([octets[at], octets[at + 1]]).into()
}

fn u32_at(octets: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(octets[at..at + 4].try_into().unwrap())
}

fn u64_at(octets: &[u8], at: usize) -> usize {
    u64::from_le_bytes(octets[at..at + 8].try_into().unwrap()) as usize
}
