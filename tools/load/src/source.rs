//! Where a table comes from, in this order: a file of the user's, the shared data beside the checkout, the real table of 2021 that
//! a public crate carries, a generator with the real distribution of lengths.

use crate::table::{Announcement, RoutingTable};
use anyhow::{Context, Result, bail};
use sluice_base::prefix::{V4Addr, V6Addr};
use sluice_base::{Asn, IpPrefix, Ipv4Prefix, Ipv6Prefix, Prefix, Rng};
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where a table came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TableSource {
    /// A file that the user named: an MRT dump, or prefixes one a line.
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

/// The folder of shared data: `SLUICE_SHARED`, else `../shared`; `None` if the tables are not there.
pub fn shared_folder() -> Option<PathBuf> {
    let named = std::env::var_os("SLUICE_SHARED").map(PathBuf::from);
    [named, Some("../shared".into())].into_iter().flatten().find(|f| f.join(SHARED_V4).exists())
}

/// Reads a user's file: an MRT dump (through bgpdump), or a list with a prefix (and perhaps an origin AS) a line.
pub fn read_file(path: &Path) -> Result<RoutingTable> {
    let name = path.display();
    let bytes = decompressed_bytes(path)?;
    if let Ok(text) = std::str::from_utf8(&bytes) {
        let table = RoutingTable::with_made_up_paths(prefixes(text));
        if table.is_empty() {
            bail!("{name}: no prefix in it; expected one prefix a line, or an MRT dump");
        }
        return Ok(table);
    }
    let dumped = Command::new("bgpdump")
        .args(["-m", "-v"])
        .arg(path)
        .stderr(Stdio::null())
        .output()
        .context("bgpdump does not start; it is in the Debian package of that name")?;
    let text = String::from_utf8_lossy(&dumped.stdout);
    let table = RoutingTable::new(text.lines().filter_map(mrt_line));
    if table.is_empty() {
        bail!("{name}: neither a list of prefixes nor an MRT dump with a table in it");
    }
    Ok(table)
}

/// The announcement that one line of `bgpdump -m` tells of: TABLE_DUMP2|time|B|peer|peer AS|prefix|AS path|...
pub fn mrt_line(line: &str) -> Option<Announcement> {
    let mut fields = line.split('|');
    let kind = fields.next()?;
    let action = fields.nth(1)?;
    if !(kind.starts_with("TABLE_DUMP") && action == "B" || action == "A") {
        return None;
    }
    let prefix = fields.nth(2)?.parse().ok()?;
    let path: Vec<Asn> = fields.next()?.split(' ').filter_map(|n| n.parse().ok().map(Asn)).collect();
    (!path.is_empty()).then_some(Announcement { prefix, path })
}

/// The prefixes of a list, one a line, each perhaps with its origin AS; other lines are passed over.
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
    String::from_utf8(decompressed_bytes(path)?).with_context(|| format!("{} is not text", path.display()))
}

fn decompressed_bytes(path: &Path) -> Result<Vec<u8>> {
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

/// Lets cargo fetch the crate that carries the table, and finds the file in it.
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

/// A table that looks like the real one and is the same every time.
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
        all.extend(Ipv6Prefix::new(addr, len).filter(|p| !is_documentation(*p)).map(IpPrefix::from));
    }
    RoutingTable::with_made_up_paths(all.into_iter().map(|p| (p, None)))
}

fn is_documentation(prefix: Ipv6Prefix) -> bool {
    prefix.addr().0.segments()[..2] == [0x2001, 0xdb8]
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
        let list: Vec<_> = prefixes("10.0.0.0/8\n# no\n2001:db8::/32 64500\n").collect();
        assert_eq!(list.len(), 2);
        assert_eq!(list[1].1, Some(Asn(64500)));
        assert_eq!(csv("\u{feff}net,len,asn\n66.253.19.0,24,18566\n").count(), 1);
    }
}
