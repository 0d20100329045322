//! The check of a package's program against this host.

use crate::error::PackageFileError;
use crate::files::Contents;
use std::path::Path;

/// The machine of an ELF file that this host runs (ELF header, `e_machine`).
const MACHINE: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };

/// Returns an error unless a package's program is an ELF file for this machine, or a script with an interpreter of this host.
pub fn check(contents: &Contents, program: &str) -> Result<(), PackageFileError> {
    let refused = |reason: String| PackageFileError::Program { program: program.into(), reason };
    let file = contents.get(program).ok_or_else(|| refused("it is not in the package".into()))?;
    if !file.is_program {
        return Err(refused(format!("it cannot be executed; chmod 755 {program}")));
    }
    let octets = &file.octets;
    if octets.starts_with(b"\x7fELF") {
        let is_64 = octets.get(4) == Some(&2) && octets.get(5) == Some(&1);
        let machine = octets.get(18..20).map(|m| u16::from_le_bytes([m[0], m[1]]));
        return match (is_64, machine) {
            (true, Some(MACHINE)) => Ok(()),
            (true, Some(other)) => {
                Err(refused(format!("it is for machine {other} (ELF e_machine), this is {MACHINE}")))
            }
            _ => Err(refused("it is no ELF file of 64 bits, little endian".into())),
        };
    }
    let Some(line) = octets.strip_prefix(b"#!") else {
        return Err(refused("it is neither an ELF file nor a script that begins with #!".into()));
    };
    let line = line.split(|octet| *octet == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(&line[..line.len().min(256)]).into_owned();
    let interpreter = line.split_whitespace().next().unwrap_or_default();
    match Path::new(interpreter).is_absolute() && Path::new(interpreter).is_file() {
        true => Ok(()),
        false => Err(refused(format!("its interpreter `{interpreter}` is not on this host"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::File;

    #[test]
    fn programs_for_others_are_refused() {
        let elf = |class: u8, machine: u16| {
            let mut octets = vec![0u8; 64];
            octets[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', class, 1]);
            octets[18..20].copy_from_slice(&machine.to_le_bytes());
            octets
        };
        let outcome = |octets: Vec<u8>, is_program| {
            let mut contents = Contents::default();
            contents.add("p".into(), File { octets, is_program }).expect("a file");
            check(&contents, "p").map_err(|error| error.to_string())
        };
        assert_eq!(outcome(elf(2, MACHINE), true), Ok(()));
        assert_eq!(outcome(b"#!/bin/sh -e\n".to_vec(), true), Ok(()));
        for (octets, is_program, said) in [
            (elf(2, 243), true, "machine 243"),
            (elf(1, MACHINE), true, "64 bits"),
            (elf(2, MACHINE), false, "chmod 755"),
            (b"\x7fELF".to_vec(), true, "64 bits"),
            (b"#!/opt/none/python\n".to_vec(), true, "/opt/none/python"),
            (b"#!".to_vec(), true, "interpreter"),
            (b"MZ".to_vec(), true, "neither"),
            (Vec::new(), true, "neither"),
        ] {
            let error = outcome(octets, is_program).expect_err(said);
            assert!(error.contains(said), "{error}");
        }
        assert!(check(&Contents::default(), "p").is_err());
    }
}
