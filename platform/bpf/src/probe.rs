//! The kernel's features, tried once and reported by name.

use crate::layout::Slot;
use crate::{BpfError, Embedded, Link, Loader, Mode, Pins, ffi, run, slots::Slots};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use std::fmt;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// A feature that the data plane uses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Feature {
    /// Loading of this build's programs.
    Programs,
    /// Array maps in the memory of a process.
    MappedArrays,
    /// Calls from one program to the next.
    TailCalls,
    /// Attaching to an interface as a link, by the generic hook at least.
    Links,
    /// The driver's hook, tried on a veth pair; whether a driver has it shows when a program is attached.
    NativeXdp,
    /// Frames made by the kernel for the packet generator.
    LiveFrames,
    /// The file system for pins.
    Bpffs,
}

impl Feature {
    /// All features.
    pub const ALL: [Feature; 7] = [
        Feature::Programs,
        Feature::MappedArrays,
        Feature::TailCalls,
        Feature::Links,
        Feature::NativeXdp,
        Feature::LiveFrames,
        Feature::Bpffs,
    ];

    /// Returns the feature's name.
    pub fn name(self) -> &'static str {
        match self {
            Feature::Programs => "programs",
            Feature::MappedArrays => "mapped arrays",
            Feature::TailCalls => "tail calls",
            Feature::Links => "links",
            Feature::NativeXdp => "native XDP",
            Feature::LiveFrames => "live frames",
            Feature::Bpffs => "bpffs",
        }
    }
}

/// The state of one feature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Probed {
    /// The feature.
    pub feature: Feature,
    /// The reason for which the feature is missing; `None` if it works.
    pub missing: Option<String>,
}

impl fmt::Display for Probed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.missing {
            None => write!(f, "{}: yes", self.feature.name()),
            Some(because) => write!(f, "{}: no, because {because}", self.feature.name()),
        }
    }
}

/// Returns the features of this host. They are tried at the first call, on a thread in namespaces of its own.
pub fn features() -> &'static [Probed] {
    static FEATURES: OnceLock<Vec<Probed>> = OnceLock::new();
    FEATURES.get_or_init(|| {
        let thread = std::thread::Builder::new().name("probe".into()).spawn(probe_all);
        match thread.map(std::thread::JoinHandle::join) {
            Ok(Ok(probed)) => probed,
            Ok(Err(_)) => none_works("the probe ended early"),
            Err(error) => none_works(&format!("no thread could be started to try it: {error}")),
        }
    })
}

/// Returns an error if a feature is missing.
///
/// # Errors
///
/// [`BpfError::NotAvailable`] with the reason in words.
pub fn require(feature: Feature) -> Result<(), BpfError> {
    match features().iter().find(|probed| probed.feature == feature).and_then(|probed| probed.missing.clone())
    {
        None => Ok(()),
        Some(because) => Err(BpfError::NotAvailable { feature: feature.name(), because }),
    }
}

fn none_works(because: &str) -> Vec<Probed> {
    Feature::ALL.iter().map(|feature| Probed { feature: *feature, missing: Some(because.into()) }).collect()
}

fn probe_all() -> Vec<Probed> {
    // A thread that leaves the namespaces behind: its interfaces and mounts end with it.
    let alone = unshare(CloneFlags::CLONE_NEWNET | CloneFlags::CLONE_NEWNS);
    let apart = || alone.map_err(|error| missing(format!("namespaces to try it in are denied: {error}")));
    Feature::ALL
        .iter()
        .map(|feature| {
            let tried = match feature {
                Feature::Programs => load(Embedded::Root).map(drop),
                Feature::MappedArrays => mapped_array(),
                Feature::TailCalls => tail_call(),
                Feature::Links => apart().and_then(|()| attach("lo").map(drop)),
                Feature::NativeXdp => apart().and_then(|()| native()),
                Feature::LiveFrames => apart().and_then(|()| live_frames()),
                Feature::Bpffs => apart().and_then(|()| bpffs()),
            };
            Probed { feature: *feature, missing: tried.err().map(words) }
        })
        .collect()
}

/// Makes the error of a feature that cannot be tried. The caller knows the feature's name.
fn missing(because: String) -> BpfError {
    BpfError::NotAvailable { feature: "the feature", because }
}

/// Returns the reason alone, without the name of a feature.
fn words(error: BpfError) -> String {
    match error {
        BpfError::NotAvailable { because, .. } => because,
        other => other.to_string(),
    }
}

fn load(program: Embedded) -> Result<crate::Loaded, BpfError> {
    Loader::new(program).load()
}

fn mapped_array() -> Result<(), BpfError> {
    let map = ffi::map_create(ffi::MAP_TYPE_ARRAY, 8, 8, ffi::F_MMAPABLE)
        .map_err(BpfError::call("creating an array that can be mapped"))?;
    let array = crate::array::MappedArray::new(map.as_fd())?;
    if array.store64(1, 0, 7) && array.load64(1, 0) == Some(7) {
        Ok(())
    } else {
        Err(missing("a stored word could not be read back".into()))
    }
}

fn tail_call() -> Result<(), BpfError> {
    ffi::map_create(ffi::MAP_TYPE_PROG_ARRAY, 4, 1, 0).map_err(BpfError::call("creating a program array"))?;
    let (root, drop) = (load(Embedded::Root)?, load(Embedded::Drop)?);
    let slots = Slots::new(root.map("slots")?)?;
    slots.set(Slot::Police, drop.program())?;
    match run::run(root.program(), &[0; 64], 1)?.verdict {
        run::Verdict::Drop => Ok(()),
        other => Err(missing(format!("the called program did not run: {other:?}"))),
    }
}

fn attach(interface: &str) -> Result<Link, BpfError> {
    Link::attach(interface, load(Embedded::Root)?.program())
}

fn native() -> Result<(), BpfError> {
    let mut ip = Command::new("ip");
    ip.args(["link", "add", "probe0", "type", "veth", "peer", "name", "probe1"]);
    match ip.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        Ok(_) => return Err(missing("no veth pair to try it on could be made".into())),
        Err(error) => return Err(missing(format!("no veth pair to try it on could be made: ip: {error}"))),
    }
    match attach("probe0")?.mode() {
        Mode::Native => Ok(()),
        Mode::Generic { because } => Err(missing(because.clone())),
    }
}

fn live_frames() -> Result<(), BpfError> {
    let program = load(Embedded::Drop)?;
    let interface = crate::attach::interface_index("lo")?;
    run::run_live(program.program(), &[0; 64], interface, 1).map(drop)
}

fn bpffs() -> Result<(), BpfError> {
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none)
        .map_err(|error| missing(format!("the mounts cannot be made private: {error}")))?;
    // Any folder does: the mount is seen by this thread only.
    let point = Path::new("/sys");
    Pins::mount(point)?;
    Pins::open(&point.join("probe")).map(drop)
}
