//! The program that asks the tables and the kernel, and the comparison of their answers.

use sluice_base::InterfaceIndex;
use sluice_bpf::array::MappedArray;
use sluice_bpf::run::{Verdict, run};
use sluice_bpf::{Loaded, Loader, Pins};
use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

/// The largest number of addresses of a batch (`BATCH` of the program).
const BATCH: usize = 1 << 16;
/// The maps of the forwarding tables.
const TABLES: [&str; 7] =
    ["ipv4_root", "ipv4_nodes", "ipv6_root", "ipv6_nodes", "groups", "buckets", "members"];
/// The folder of this test, and the folder of the programs' headers.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bench_forward/lookups/lookup.bpf.c");
const HEADERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bpf/include");

/// The kernel's results (`BPF_FIB_LKUP_RET_...` of linux/bpf.h), and the actions of members.
mod number {
    pub const SUCCESS: u64 = 0;
    pub const BLACKHOLE: u64 = 1;
    pub const UNREACHABLE: u64 = 2;
    pub const NOT_FORWARDED: u64 = 4;
    pub const TO_KERNEL: u64 = 0;
    pub const FORWARD: u64 = 1;
    pub const DROP: u64 = 2;
}

/// The numbers of addresses by the tables' answer.
#[derive(Default, Debug)]
pub struct Verdicts {
    /// Sent to a neighbor.
    pub forwarded: usize,
    /// Dropped.
    pub dropped: usize,
    /// Passed to the kernel.
    pub to_kernel: usize,
}

/// The loaded program.
pub struct Oracle {
    program: Loaded,
    questions: MappedArray,
    answers: MappedArray,
    progress: MappedArray,
}

impl Oracle {
    /// Compiles and loads the program with the tables of the program `ip`. `folder` lies on a bpffs; `incoming` is the interface from
    /// which the packets come.
    pub fn new(ip: &Loaded, folder: &Path, incoming: InterfaceIndex) -> Self {
        let object = tempfile::NamedTempFile::new().unwrap();
        let compiled = Command::new("clang-14")
            .args(["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror", "-c", SOURCE, "-o"])
            .arg(object.path())
            .args(["-I", HEADERS, "-I", &format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH)])
            .status();
        assert!(compiled.unwrap().success(), "the program does not compile");
        let pins = Pins::open(folder).unwrap();
        let object = std::fs::read(object.path()).unwrap();
        let mut loader = Loader::of_object("lookup", &object).constant_u32("incoming", incoming.0.get());
        for map in TABLES {
            pins.pin_map(map, ip.map(map).unwrap()).unwrap();
            loader = loader.share(map, &pins.map_path(map));
        }
        let program = loader.load().unwrap();
        pins.remove_all().unwrap();
        let array = |name| MappedArray::new(program.map(name).unwrap()).unwrap();
        let (questions, answers, progress) = (array("questions"), array("answers"), array("progresses"));
        Oracle { program, questions, answers, progress }
    }

    /// Compares the tables' answers with the kernel's, at each address; panics at the first difference.
    pub fn compare<'a>(&self, addresses: impl Iterator<Item = &'a IpAddr>) -> Verdicts {
        let (ipv4, ipv6): (Vec<IpAddr>, Vec<IpAddr>) = addresses.partition(|address| address.is_ipv4());
        let mut verdicts = Verdicts::default();
        for batch in ipv4.chunks(BATCH).chain(ipv6.chunks(BATCH)) {
            self.ask(batch);
            for (place, address) in batch.iter().enumerate() {
                self.judge(place, *address, &mut verdicts);
            }
        }
        verdicts
    }

    /// Runs the program once for each address of one family.
    fn ask(&self, batch: &[IpAddr]) {
        let mut family = 0_u64;
        for (place, address) in batch.iter().enumerate() {
            let mut octets = [0; 16];
            match address {
                IpAddr::V4(address) => octets[..4].copy_from_slice(&address.octets()),
                IpAddr::V6(address) => octets = address.octets(),
            }
            family = if address.is_ipv4() { 2 } else { 10 };
            let (words, _) = octets.as_chunks::<8>();
            for (word, octets) in words.iter().enumerate() {
                assert!(self.questions.store64(place, word, u64::from_ne_bytes(*octets)));
            }
        }
        // The fields `next` and `family`.
        assert!(self.progress.store64(0, 0, family << 32));
        let ran = run(self.program.program(), &[0; 64], u32::try_from(batch.len()).unwrap()).unwrap();
        assert_eq!(ran.verdict, Verdict::Pass);
        assert_eq!(self.progress.load32(0, 0), u32::try_from(batch.len()).ok());
    }

    fn judge(&self, place: usize, address: IpAddr, verdicts: &mut Verdicts) {
        let half = |n| u64::from(self.answers.load32(place, n).unwrap());
        // Interface and both link-layer addresses, of the kernel's frame and of the member.
        let [kernel, member] =
            [1, 6].map(|from| [half(from), half(from + 1), half(from + 2), half(from + 3)]);
        let (result, action) = (half(0), half(5));
        let is_right = match result {
            number::SUCCESS if !is_connected(address) => action == number::FORWARD && kernel == member,
            number::BLACKHOLE => action == number::DROP,
            number::SUCCESS | number::UNREACHABLE | number::NOT_FORWARDED => action == number::TO_KERNEL,
            _ => is_connected(address) && action == number::TO_KERNEL,
        };
        assert!(
            is_right,
            "{address}: the kernel answers {result} and {kernel:x?}, the tables {action} and {member:x?}"
        );
        match action {
            number::FORWARD => verdicts.forwarded += 1,
            number::DROP => verdicts.dropped += 1,
            _ => verdicts.to_kernel += 1,
        }
    }
}

/// Returns true for addresses of the networks to which the router is connected: the kernel delivers there.
fn is_connected(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => matches!(address.octets(), [10, 0, 0..=2, _]),
        IpAddr::V6(address) => {
            matches!(address.segments(), [0xfd00, 0..=2, 0, 0, ..] | [0xfe80..=0xffff, ..])
        }
    }
}
