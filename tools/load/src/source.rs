//! The sources of a table, in order: a file of the user's, the shared data beside the checkout, the real table of 2021
//! in a public crate, a generator with the real distribution of lengths.

use crate::table::{Announcement, RoutingTable};
use anyhow::{Context, Result, bail};
use sluice_base::ip::{V4Addr, V6Addr};
use sluice_base::{Asn, IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix, Rng};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The source of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TableSource {
    /// A file named by the user: an MRT dump, or prefixes one a line.
    File(PathBuf),
    /// The shared data folder.
    Shared(PathBuf),
    /// The default-free-zone table of 2021 in the crate rotonda-store (BSD-3-Clause), fetched by cargo; only its data is used.
    Crate(PathBuf),
    /// Made up.
    Generated,
}

impl std::fmt::Display for TableSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            TableSource::File(path) => write!(f, "{}", path.display()),
            TableSource::Shared(path) => {
                write!(f, "real table of one full feed, May 2026 ({})", path.display())
            }
            TableSource::Crate(_) => {
                f.write_str("real IPv4 table of 2021 (data of the crate rotonda-store 0.5.0)")
            }
            TableSource::Generated => f.write_str("generated, with the real distribution of prefix lengths"),
        }
    }
}

const SHARED_V4: &str = "data/bgp/prefixes/ris-as3333-20260511-ipv4.txt.zst";
const SHARED_V6: &str = "data/bgp/prefixes/ris-as3333-20260511-ipv6.txt.zst";

/// The table to work with, and where it came from.
pub fn find(user: Option<&Path>) -> Result<(RoutingTable, TableSource)> {
    if let Some(path) = user {
        return Ok((read_file(path)?, TableSource::File(path.into())));
    }
    if let Some(folder) = shared_folder() {
        let (v4, v6) = (decompressed(&folder.join(SHARED_V4))?, decompressed(&folder.join(SHARED_V6))?);
        let table = RoutingTable::with_made_up_paths(prefixes(&v4).chain(prefixes(&v6)));
        return Ok((table, TableSource::Shared(folder)));
    }
    if let Ok(path) = crate_table() {
        let text = fs::read_to_string(&path)?;
        let v6 = generate().v6.into_iter().map(|a| (a.prefix, None));
        return Ok((RoutingTable::with_made_up_paths(csv(&text).chain(v6)), TableSource::Crate(path)));
    }
    Ok((generate(), TableSource::Generated))
}

/// Returns the folder of shared data: `SLUICE_SHARED`, or `../shared` by default; `None` without the tables.
pub fn shared_folder() -> Option<PathBuf> {
    let folder = std::env::var_os("SLUICE_SHARED").map_or_else(|| "../shared".into(), PathBuf::from);
    folder.join(SHARED_V4).exists().then_some(folder)
}

/// Reads a user's file: an MRT dump (through bgpdump), or a list with a prefix (and perhaps an origin AS) a line. What no packet
/// of the Internet is forwarded by is left out: default routes, and special-purpose prefixes, which labs use themselves.
pub fn read_file(path: &Path) -> Result<RoutingTable> {
    let name = path.display();
    let bytes = unpacked(path)?;
    let (all, what) = match std::str::from_utf8(&bytes) {
        Ok(text) => (RoutingTable::with_made_up_paths(prefixes(text)), "a prefix a line, or an MRT dump"),
        Err(_) => (dumped(&bytes)?, "an MRT dump with a table or with UPDATEs in it"),
    };
    if all.is_empty() {
        bail!("{name}: no prefix in it; expected {what}");
    }
    let table = all.without(is_special);
    if table.is_empty() {
        bail!("{name}: only default routes and special-purpose prefixes (RFC 6890) in it");
    }
    let left_out = all.len() - table.len();
    if left_out > 0 {
        sluice_print::errln!("{name}: {left_out} default routes and special-purpose prefixes are left out");
    }
    Ok(table)
}

/// Reads a dump with bgpdump. Passes bgpdump the unpacked octets, because bgpdump reads fewer kinds of packed files.
fn dumped(bytes: &[u8]) -> Result<RoutingTable> {
    let mut child = Command::new("bgpdump")
        .args(["-m", "-v", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("bgpdump does not start; it is in the Debian package of that name")?;
    let stdin = child.stdin.take();
    let output = std::thread::scope(|threads| {
        threads.spawn(|| {
            // If it ends before it has read everything, what it printed is the reason.
            stdin.map(|mut stdin| stdin.write_all(bytes))
        });
        child.wait_with_output()
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(RoutingTable::new(text.lines().filter_map(mrt_line)))
}

/// Returns the announcement in a line of `bgpdump -m`: KIND|time|B or A|peer|peer AS|prefix|AS path|..., where a kind
/// ending in `_AP` (RFC 8050) has the path's identifier before the AS path.
pub fn mrt_line(line: &str) -> Option<Announcement> {
    let mut fields = line.split('|');
    let kind = fields.next()?;
    let action = fields.nth(1)?;
    if !(kind.starts_with("TABLE_DUMP") && action == "B" || action == "A") {
        return None;
    }
    let prefix = fields.nth(2)?.parse().ok()?;
    let path = fields.nth(usize::from(kind.ends_with("_AP")))?;
    // Members of an AS_SET are in braces and no part of the sequence.
    let path: Vec<Asn> = path.split(' ').filter_map(|n| n.parse().ok().map(Asn)).collect();
    (!path.is_empty()).then_some(Announcement { prefix, path })
}

/// Blocks not forwarded in the Internet (RFC 6890 and its registries), or used by labs and the demo.
const SPECIAL: [&str; 18] = [
    "0.0.0.0/8",
    "10.0.0.0/8",
    "100.64.0.0/10",
    "127.0.0.0/8",
    "169.254.0.0/16",
    "172.16.0.0/12",
    "192.0.2.0/24",
    "192.168.0.0/16",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "203.0.113.0/24",
    "224.0.0.0/3",
    "::/8",
    "100::/64",
    "2001:db8::/32",
    "fc00::/7",
    "fe80::/10",
    "ff00::/8",
];

/// Returns true if a prefix is a default route or lies in a special-purpose block.
fn is_special(prefix: IpPrefix) -> bool {
    let mut blocks = SPECIAL.iter().filter_map(|block| block.parse::<IpPrefix>().ok());
    let covers = |block: IpPrefix| match (block, prefix) {
        (IpPrefix::V4(block), IpPrefix::V4(prefix)) => block.covers(prefix),
        (IpPrefix::V6(block), IpPrefix::V6(prefix)) => block.covers(prefix),
        _ => false,
    };
    prefix.len() == 0 || blocks.any(covers)
}

/// Iterates over the prefixes of a list, one a line, each perhaps with its origin AS; further lines are skipped.
pub fn prefixes(text: &str) -> impl Iterator<Item = (IpPrefix, Option<Asn>)> {
    text.lines().filter_map(|line| {
        let mut words = line.split([' ', '\t', ',']).filter(|w| !w.is_empty());
        let prefix = words.next()?.parse().ok()?;
        Some((prefix, words.next().and_then(|w| w.parse().ok()).map(Asn)))
    })
}

/// The prefixes of a table of addresses, lengths and origin ASes, separated by commas; other lines are passed over.
pub fn csv(text: &str) -> impl Iterator<Item = (IpPrefix, Option<Asn>)> {
    text.lines().filter_map(|line| {
        let mut fields = line.split(',');
        let addr: Ipv4Addr = fields.next()?.parse().ok()?;
        let prefix = Ipv4Prefix::new(V4Addr(addr), fields.next()?.parse().ok()?)?;
        Some((prefix.into(), fields.next()?.trim().parse().ok().map(Asn)))
    })
}

fn decompressed(path: &Path) -> Result<String> {
    String::from_utf8(unpacked(path)?).with_context(|| format!("{} is not text", path.display()))
}

/// Returns the content of a file, unpacked by the machine's own tools if the name ends in a packer's suffix.
pub fn unpacked(path: &Path) -> Result<Vec<u8>> {
    let program = match path.extension().and_then(|e| e.to_str()) {
        Some("zst") => "zstd",
        Some("xz") => "xz",
        Some("bz2") => "bzip2",
        Some("gz") => "gzip",
        _ => return fs::read(path).with_context(|| format!("cannot read {}", path.display())),
    };
    let mut child = Command::new(program)
        .args(["-dc", "--"])
        .arg(path)
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("{program} does not start; it is a Debian package"))?;
    let mut bytes = Vec::new();
    if let Some(mut out) = child.stdout.take() {
        out.read_to_end(&mut bytes)?;
    }
    if !child.wait()?.success() {
        bail!("{program} cannot read {}", path.display());
    }
    Ok(bytes)
}

/// Lets cargo fetch the crate with the table, and finds the file in the crate.
fn crate_table() -> Result<PathBuf> {
    let folder = std::env::temp_dir().join(format!("sluice-table-{}", std::process::id()));
    fs::create_dir_all(folder.join("src"))?;
    let found = crate_table_in(&folder);
    fs::remove_dir_all(&folder)?;
    found
}

fn crate_table_in(folder: &Path) -> Result<PathBuf> {
    fs::write(folder.join("src/lib.rs"), "")?;
    let manifest = folder.join("Cargo.toml");
    fs::write(
        &manifest,
        "[package]\nname = \"table\"\nversion = \"0.0.0\"\nedition = \"2024\"\n[dependencies]\nrotonda-store = \"=0.5.0\"\n[workspace]\n",
    )?;
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--manifest-path"])
        .arg(&manifest)
        .stderr(Stdio::null())
        .output()?;
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let package = metadata["packages"]
        .as_array()
        .and_then(|all| all.iter().find(|p| p["name"] == "rotonda-store"))
        .context("cargo did not fetch rotonda-store")?;
    let manifest = Path::new(package["manifest_path"].as_str().context("a package has a manifest")?);
    let file = manifest.with_file_name("data").join("uniq_pfx_asn_dfz_rnd.csv");
    if file.exists() { Ok(file) } else { bail!("{} does not exist", file.display()) }
}

/// Shares of prefix lengths, in thousandths, as full tables have had them for years.
const LENGTHS_V4: [(u8, u64); 10] =
    [(24, 600), (23, 100), (22, 115), (21, 50), (20, 45), (19, 30), (18, 15), (17, 10), (16, 30), (15, 5)];
const LENGTHS_V6: [(u8, u64); 7] = [(48, 480), (32, 120), (44, 120), (40, 110), (36, 70), (46, 60), (29, 40)];
const GENERATED_V4: usize = 1_000_000;
const GENERATED_V6: usize = 240_000;

/// Generates a table that resembles the real table and is always the same.
pub fn generate() -> RoutingTable {
    let mut rng = Rng::from_seed(2026);
    let mut all: BTreeSet<IpPrefix> = BTreeSet::new();
    while all.len() < GENERATED_V4 {
        let len = draw(&mut rng, &LENGTHS_V4);
        let first = 1 + rng.below(222) as u32;
        if matches!(first, 10 | 127 | 100 | 169 | 172 | 192 | 198) {
            continue; // where special-purpose addresses lie (RFC 6890)
        }
        let bits = first << 24 | (rng.next_u64() as u32 & 0x00ff_ffff);
        all.extend(Ipv4Prefix::from_parts(bits, len).map(IpPrefix::from));
    }
    while all.len() < GENERATED_V4 + GENERATED_V6 {
        let len = draw(&mut rng, &LENGTHS_V6);
        let bits = 0x2000_u128 << 112 | u128::from(rng.next_u64() >> 3) << 64;
        let addr = V6Addr(Ipv6Addr::from_bits(bits));
        all.extend(Ipv6Prefix::new(addr, len).filter(|p| !is_special((*p).into())).map(IpPrefix::from));
    }
    RoutingTable::with_made_up_paths(all.into_iter().map(|p| (p, None)))
}

fn draw(rng: &mut Rng, shares: &[(u8, u64)]) -> u8 {
    let mut left = rng.below(shares.iter().map(|(_, share)| share).sum());
    for (len, share) in shares {
        if left < *share {
            return *len;
        }
        left -= share;
    }
    shares[0].0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_dumps_and_lists() {
        let line = "TABLE_DUMP2|1400824800|B|203.181.248.168|7660|1.0.0.0/24|7660 2516 15169|IGP|203.181.248.168|0|0||NAG||";
        let a = mrt_line(line).expect("a table entry");
        assert_eq!((a.prefix.to_string().as_str(), a.path.len()), ("1.0.0.0/24", 3));
        assert!(mrt_line("BGP4MP|1|W|1.1.1.1|1|1.0.0.0/24").is_none());
        let with_path_id =
            "TABLE_DUMP2_AP|1452168107|B|10.0.15.1|65015|10.0.10.0/24|36|65015 65014|IGP|10.0.1.1|0|0||NAG||";
        let a = mrt_line(with_path_id).expect("a table entry");
        assert_eq!(a.path, [Asn(65015), Asn(65014)]);
        let list: Vec<_> = prefixes("10.0.0.0/8\n# no\n2001:db8::/32 64500\n").collect();
        assert_eq!(list.len(), 2);
        assert_eq!(list[1].1, Some(Asn(64500)));
        assert_eq!(csv("\u{feff}net,len,asn\n66.253.19.0,24,18566\n").count(), 1);
    }

    #[test]
    fn special_prefixes() {
        let check = |prefix: &str, expected: bool| {
            assert_eq!(is_special(prefix.parse().expect("a prefix")), expected, "{prefix}");
        };
        check("0.0.0.0/0", true);
        check("::/0", true);
        check("10.1.0.0/16", true);
        check("198.51.100.128/25", true);
        check("198.51.0.0/16", false);
        check("8.8.8.0/24", false);
        check("2001:db8:1::/48", true);
        check("2001:7fb::/32", false);
        check("ff02::/16", true);
    }

    fn written(folder: &Path, name: &str, bytes: &[u8]) -> PathBuf {
        let path = folder.join(name);
        fs::write(&path, bytes).expect("a file");
        path
    }

    #[test]
    fn lists_of_users() {
        let folder = tempfile::tempdir().expect("a folder");
        let read = |name: &str, text: &str| read_file(&written(folder.path(), name, text.as_bytes()));
        let table =
            read("good", "8.8.8.0/24 15169\n\n# a remark\n2001:7fb::/32\n10.0.0.0/8\n").expect("a table");
        assert_eq!((table.v4.len(), table.v6.len()), (1, 1));
        assert_eq!(table.v4[0].path.last(), Some(&Asn(15169)));
        let error = |name: &str, text: &str| read(name, text).expect_err("no table").to_string();
        assert!(error("empty", "").ends_with("no prefix in it; expected a prefix a line, or an MRT dump"));
        assert!(error("private", "10.0.0.0/8\n").contains("RFC 6890"));
        let missing = read_file(&folder.path().join("none")).expect_err("no file").to_string();
        assert!(missing.starts_with("cannot read "), "{missing}");
    }

    /// Real dumps, packed in every way that there is.
    #[test]
    fn dumps_of_the_shared_folder() {
        let Some(rib) = sluice_testkit::shared("data/bgp/rib") else { return };
        if Command::new("bgpdump").arg("-h").output().is_err() {
            return sluice_testkit::skipped("no bgpdump");
        }
        let check = |name: &str, v4: usize, v6: usize| {
            let table = read_file(&rib.join(name)).expect("a table");
            assert_eq!((table.v4.len(), table.v6.len()), (v4, v6), "{name}");
        };
        check("rv2.rib.20140523.0600.first9072.mrt.xz", 9_071, 0);
        check("rv6.rib.20151101.0600.first6870.mrt.xz", 0, 6_870);
        check("ris.bview.20020722.2337.gz", 112_988, 0);
        check("rib.64k_stream_overflow.gz", 0, 1);
    }
}
