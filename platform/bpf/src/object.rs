//! Loading of an embedded program: its constants, the sizes of its maps, and maps shared with other programs.

use crate::error::denied;
use crate::{BpfError, Embedded, VerifierLines, ffi};
use aya::maps::{Map, MapError};
use aya::programs::ProgramError;
use aya::{EbpfError, EbpfLoader};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

/// Collects a program's constants and maps before it is loaded.
#[derive(Debug)]
pub struct Loader {
    name: &'static str,
    object: Option<Vec<u8>>,
    constants: BTreeMap<String, Vec<u8>>,
    entries: BTreeMap<String, u32>,
    shared: BTreeMap<String, PathBuf>,
}

impl Loader {
    /// Begins with an embedded program.
    pub fn new(program: Embedded) -> Self {
        Loader::of(program.name(), program.object().map(<[u8]>::to_vec))
    }

    /// Begins with an object that was compiled elsewhere.
    pub fn of_object(name: &'static str, object: &[u8]) -> Self {
        Loader::of(name, Some(object.to_vec()))
    }

    fn of(name: &'static str, object: Option<Vec<u8>>) -> Self {
        let (constants, entries, shared) = Default::default();
        Loader { name, object, constants, entries, shared }
    }

    /// Sets a constant (`const volatile` in C) to a number of 32 bits.
    pub fn constant_u32(self, name: &str, value: u32) -> Self {
        self.constant(name, &value.to_ne_bytes())
    }

    /// Sets a constant to a number of 64 bits.
    pub fn constant_u64(self, name: &str, value: u64) -> Self {
        self.constant(name, &value.to_ne_bytes())
    }

    /// Sets a constant to octets of the constant's length.
    pub fn constant(mut self, name: &str, value: &[u8]) -> Self {
        self.constants.insert(name.into(), value.to_vec());
        self
    }

    /// Sets the number of entries of a map.
    pub fn entries(mut self, map: &str, entries: u32) -> Self {
        self.entries.insert(map.into(), entries);
        self
    }

    /// Uses the map pinned at `path`, or creates the map and pins it there.
    pub fn share(mut self, map: &str, path: &Path) -> Self {
        self.shared.insert(map.into(), path.into());
        self
    }

    /// Returns the hash of the object, the constants and the sizes of maps, in hexadecimal digits.
    pub fn hash(&self) -> String {
        let mut hash = Sha256::new();
        hash.update(self.object.as_deref().unwrap_or_default());
        for (name, value) in &self.constants {
            hash.update(format!("\0constant {name} {}\0", value.len()));
            hash.update(value);
        }
        for (map, entries) in &self.entries {
            hash.update(format!("\0entries {map} {entries}\0"));
        }
        hash.finalize().iter().map(|octet| format!("{octet:02x}")).collect()
    }

    /// Loads the program into the kernel.
    ///
    /// # Errors
    ///
    /// If this build has no programs, the BPF system call is denied, a constant or map does not exist, a pinned map has
    /// another shape, or the verifier refuses the program.
    pub fn load(self) -> Result<Loaded, BpfError> {
        let hash = self.hash();
        let object = self.object.as_deref().ok_or(BpfError::NotAvailable {
            feature: "XDP forwarding",
            because: "this executable was built without the feature `xdp`".into(),
        })?;
        self.check_shared(object)?;
        let mut loader = EbpfLoader::new();
        for (name, value) in &self.constants {
            loader.override_global(name, value.as_slice(), true);
        }
        for (map, entries) in &self.entries {
            loader.map_max_entries(map, *entries);
        }
        for (map, path) in &self.shared {
            loader.map_pin_path(map, path.as_path());
        }
        let mut loaded = loader.load(object).map_err(|error| self.object_error(error))?;
        let name = loaded.programs().next().map(|(name, _)| name.to_owned());
        let no_program = || self.no_such("program", "xdp");
        let name = name.ok_or_else(no_program)?;
        let program: &mut aya::programs::Xdp = match loaded.program_mut(&name).map(TryInto::try_into) {
            Some(Ok(program)) => program,
            _ => return Err(no_program()),
        };
        program.load().map_err(|error| self.program_error(error))?;
        let fd = program.fd().map_err(|error| self.program_error(error))?.as_fd();
        let program = fd.try_clone_to_owned().map_err(BpfError::call("copying the program's descriptor"))?;
        let maps = self.maps(&loaded)?;
        Ok(Loaded { name: self.name, hash, program, maps })
    }

    fn maps(&self, loaded: &aya::Ebpf) -> Result<BTreeMap<String, OwnedFd>, BpfError> {
        let mut maps = BTreeMap::new();
        for (name, map) in loaded.maps() {
            let (Map::Array(data)
            | Map::PerCpuArray(data)
            | Map::ProgramArray(data)
            | Map::HashMap(data)
            | Map::PerCpuHashMap(data)
            | Map::LruHashMap(data)
            | Map::LpmTrie(data)
            | Map::DevMap(data)
            | Map::DevMapHash(data)
            | Map::CpuMap(data)
            | Map::XskMap(data)
            | Map::RingBuf(data)) = map
            else {
                continue;
            };
            let fd = data.fd().as_fd().try_clone_to_owned();
            maps.insert(name.into(), fd.map_err(BpfError::call("copying a map's descriptor"))?);
        }
        Ok(maps)
    }

    /// Compares the maps that are pinned with the object's own description of them.
    fn check_shared(&self, object: &[u8]) -> Result<(), BpfError> {
        if self.shared.is_empty() {
            return Ok(());
        }
        let parsed = aya_obj::Object::parse(object)
            .map_err(|error| BpfError::Object { program: self.name, reason: error.to_string() })?;
        for (name, path) in &self.shared {
            let expected = parsed.maps.get(name).ok_or_else(|| self.no_such("map", name))?;
            let found = match ffi::pinned(path) {
                Ok(fd) => ffi::map_info(fd.as_fd()).map_err(BpfError::call("describing a pinned map"))?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(source) => return Err(BpfError::Pin { path: path.clone(), source }),
            };
            let entries = self.entries.get(name).copied().unwrap_or(expected.max_entries());
            let expected = shape(
                expected.map_type(),
                expected.key_size(),
                expected.value_size(),
                entries,
                expected.map_flags(),
            );
            let found =
                shape(found.map_type, found.key_size, found.value_size, found.max_entries, found.map_flags);
            if found != expected {
                return Err(BpfError::Shape { map: name.clone(), found, expected });
            }
        }
        Ok(())
    }

    fn no_such(&self, kind: &'static str, name: &str) -> BpfError {
        BpfError::NoSuch { program: self.name, kind, name: name.into() }
    }

    fn object_error(&self, error: EbpfError) -> BpfError {
        match &error {
            EbpfError::MapError(MapError::CreateError { io_error, .. })
                if io_error.raw_os_error() == Some(libc::EPERM) =>
            {
                BpfError::NotAvailable { feature: "the BPF system call", because: denied(io_error) }
            }
            EbpfError::ParseError(aya_obj::ParseError::SymbolNotFound { name }) => {
                self.no_such("constant", name)
            }
            _ => BpfError::Object { program: self.name, reason: chain(&error) },
        }
    }

    fn program_error(&self, error: ProgramError) -> BpfError {
        match error {
            ProgramError::LoadError { io_error, verifier_log } => match io_error.raw_os_error() {
                Some(libc::EPERM) => {
                    BpfError::NotAvailable { feature: "the BPF system call", because: denied(&io_error) }
                }
                _ => BpfError::Refused {
                    program: self.name.into(),
                    source: io_error,
                    verifier: VerifierLines::last_of(&verifier_log.to_string()),
                },
            },
            other => BpfError::Object { program: self.name, reason: chain(&other) },
        }
    }
}

fn shape(kind: u32, key: u32, value: u32, entries: u32, flags: u32) -> String {
    format!("type {kind}, keys of {key} and values of {value} octets, {entries} entries, flags {flags:#x}")
}

/// Returns an error and its causes in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// A program in the kernel, and its maps. The kernel removes both when no descriptor, link and pin is left.
#[derive(Debug)]
pub struct Loaded {
    name: &'static str,
    hash: String,
    program: OwnedFd,
    maps: BTreeMap<String, OwnedFd>,
}

impl Loaded {
    /// Returns the program's name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the hash of the program as loaded ([`Loader::hash`]).
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Returns the program's descriptor.
    pub fn program(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }

    /// Returns a map's descriptor.
    ///
    /// # Errors
    ///
    /// If the program has no map of that name.
    pub fn map(&self, name: &str) -> Result<BorrowedFd<'_>, BpfError> {
        let no_such = || BpfError::NoSuch { program: self.name, kind: "map", name: name.into() };
        self.maps.get(name).map(AsFd::as_fd).ok_or_else(no_such)
    }
}

/// Returns the kernel's number of a program.
///
/// # Errors
///
/// If the descriptor is no program's.
pub fn program_id(program: BorrowedFd<'_>) -> Result<u32, BpfError> {
    Ok(ffi::program_info(program).map_err(BpfError::call("describing a program"))?.id)
}

/// Opens the program with the kernel's number `id`.
///
/// # Errors
///
/// If there is no such program, or this process may not open programs by number.
pub fn program_by_id(id: u32) -> Result<OwnedFd, BpfError> {
    ffi::program_by_id(id).map_err(BpfError::call("opening a program by its number"))
}
