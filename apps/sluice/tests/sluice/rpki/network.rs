//! A LAN: the router, a feed, caches on hosts, and other daemons that validate.

use sluice_base::IpPrefix;
use sluice_lab::Topology;
use sluice_lab::process::ProcessId;
use sluice_load::bird::Feed;
use sluice_load::table::RoutingTable;
use sluice_router_lab::RouterLab;
use sluice_validation::AnyVrp;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

/// The port of the caches.
pub const PORT: u16 = 3323;

/// The router's neighbor that announces the table.
pub const FEED: &str = "10.9.0.2";

/// The nodes of the LAN and the last part of their addresses.
const NODES: [(&str, u8); 7] =
    [("sluice", 1), ("feed", 2), ("frr", 3), ("validator", 4), ("bird", 5), ("cache1", 11), ("cache2", 12)];

/// A lab before it is up.
pub struct Plan<'a> {
    /// Statements of the router beside BGP's session with the feed.
    pub router: &'a str,
    /// Statements of BGP beside that session.
    pub bgp: &'a str,
    /// The table that the feed announces.
    pub table: &'a RoutingTable,
    /// True if FRR and BIRD validate the same table.
    pub has_others: bool,
}

impl Plan<'_> {
    /// Returns the topology.
    pub fn topology(&self) -> Topology {
        let mut text = String::from("[nodes.lan]\ndaemon = 'switch'\n[nodes.cache1]\n[nodes.cache2]\n");
        let Plan { router, bgp, .. } = self;
        write!(
            text,
            "[nodes.sluice]\ndaemon = 'sluice'\nconfig = '''\n{router}\nprotocols {{ bgp {{\n    local-as 64500; router-id 10.9.0.1; \
             default-policy accept;\n    neighbor {FEED} {{ peer-as 64501; connect-retry-time 1; ipv6-unicast enabled; import rov; }}\n{bgp}\n}} }}\n'''\n"
        )
        .unwrap();
        let feed = Feed {
            router_id: "10.9.0.2",
            local_as: 64501,
            local: (FEED, "2001:db8:9::2"),
            neighbor: ("10.9.0.1", 64500),
            table: self.table,
        };
        let mut feed = feed.config();
        let others = [("frr", "10.9.0.3", 64503), ("validator", "10.9.0.4", 64504)];
        for (name, address, asn) in others.into_iter().filter(|_| self.has_others) {
            writeln!(
                feed,
                "protocol bgp {name} {{ local {FEED} as 64501; neighbor {address} as {asn}; connect delay time 1; connect retry time 2; \
                 error wait time 1, 4; ipv4 {{ import none; export filter announced; next hop self; }}; \
                 ipv6 {{ import none; export filter announced; next hop address 2001:db8:9::2; }}; }}"
            )
            .unwrap();
        }
        write!(text, "[nodes.feed]\ndaemon = 'bird'\nconfig = '''\n{feed}'''\n").unwrap();
        if self.has_others {
            text.push_str(OTHERS);
        } else {
            text.push_str(RECEIVER);
        }
        let is_there = |name: &str| match name {
            "frr" | "validator" => self.has_others,
            "bird" => !self.has_others,
            _ => true,
        };
        for (name, last) in NODES.into_iter().filter(|(name, _)| is_there(name)) {
            write!(
                text,
                "[[links]]\na = 'lan:{name}'\nb = '{name}:lan'\nb_addresses = ['10.9.0.{last}/24', '2001:db8:9::{last}/64']\n"
            )
            .unwrap();
        }
        text.parse().unwrap()
    }
}

/// FRR and BIRD with the first cache.
const OTHERS: &str = "
[nodes.frr]
daemon = 'frr'
daemons = ['bgpd -M rpki']
config = '''
rpki
 rpki polling_period 1
 rpki retry_interval 1
 rpki cache 10.9.0.11 3323 preference 1
 exit
router bgp 64503
 bgp router-id 10.9.0.3
 no bgp ebgp-requires-policy
 neighbor 10.9.0.2 remote-as 64501
 neighbor 10.9.0.2 timers connect 1
 address-family ipv6 unicast
  neighbor 10.9.0.2 activate
 exit-address-family
'''
[nodes.validator]
daemon = 'bird'
config = '''
router id 10.9.0.4;
roa4 table payloads4;
roa6 table payloads6;
protocol device { }
protocol rpki cache1 { roa4 { table payloads4; }; roa6 { table payloads6; }; remote 10.9.0.11 port 3323; retry keep 1; refresh keep 5; }
protocol bgp feed {
    local 10.9.0.4 as 64504; neighbor 10.9.0.2 as 64501; connect delay time 1; connect retry time 1; error wait time 1, 2;
    ipv4 { import all; export none; };
    ipv6 { import all; export none; };
}
'''
";

/// A neighbor that receives the router's routes.
pub const RECEIVER: &str = "
[nodes.bird]
daemon = 'bird'
config = '''
router id 10.9.0.5;
protocol device { }
protocol bgp sluice {
    local 10.9.0.5 as 64505; neighbor 10.9.0.1 as 64500; connect delay time 1; connect retry time 1; error wait time 1, 2;
    ipv4 { import all; export none; };
    ipv6 { import all; export none; };
}
'''
";

/// A cache on a host of the lab.
pub struct Cache {
    node: &'static str,
    file: PathBuf,
    process: Option<ProcessId>,
}

impl Cache {
    /// Makes the cache of a node, not yet started.
    pub fn new(lab: &RouterLab, node: &'static str) -> Self {
        let folder = lab.lab.dir(node);
        std::fs::create_dir_all(&folder).unwrap();
        Cache { node, file: folder.join("payloads.json"), process: None }
    }

    /// Gives the cache other payloads. The file changes at once.
    pub fn set<'v>(&self, vrps: impl IntoIterator<Item = &'v AnyVrp>) {
        self.set_text(&super::payloads::json(vrps));
    }

    /// Gives the cache other data, as JSON. The file changes at once.
    pub fn set_text(&self, text: &str) {
        let new = self.file.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }

    /// Starts the cache. It looks at its file each second.
    pub fn start(&mut self, lab: &mut RouterLab) {
        self.start_with(lab, &[]);
    }

    /// Returns the folder of the cache.
    pub fn folder(&self) -> &Path {
        self.file.parent().unwrap()
    }

    /// Starts the cache with further options.
    pub fn start_with(&mut self, lab: &mut RouterLab, options: &[&str]) {
        let mut command = lab.lab.command(self.node, "stayrtr").unwrap();
        let bind = format!(":{PORT}");
        command.args([
            "-bind",
            &bind,
            "-metrics.addr",
            "127.0.0.1:9847",
            "-checktime=false",
            "-refresh",
            "1",
            "-cache",
        ]);
        command.arg(&self.file).args(options).stdin(Stdio::null());
        let log = std::fs::File::create(self.file.with_extension("log")).unwrap();
        command.stdout(log.try_clone().unwrap()).stderr(log);
        self.process = Some(lab.lab.spawn(self.node, "stayrtr", command).unwrap());
    }

    /// Kills the cache.
    pub fn kill(&mut self) {
        self.process.take().unwrap().kill();
    }
}

/// Brings the lab up; the first cache has payloads and runs.
pub fn up(plan: &Plan<'_>, program: &Path, vrps: &[AnyVrp]) -> (RouterLab, Cache) {
    let mut lab = RouterLab::up(&plan.topology(), program);
    let mut cache = Cache::new(&lab, "cache1");
    cache.set(vrps);
    cache.start(&mut lab);
    (lab, cache)
}

/// Waits until the router has so many payloads in effect, or none.
pub fn until_payloads(lab: &RouterLab, within: Duration, expected: Option<usize>) {
    lab.until_within(within, "the router has the payloads", |lab| {
        let shown = lab.ask(&["show", "rpki"]);
        let count = shown["ipv4"].as_u64().unwrap_or(0) + shown["ipv6"].as_u64().unwrap_or(0);
        shown["has_data"] == expected.is_some() && count == expected.unwrap_or(0) as u64
    });
}

/// Returns the state of each prefix that the router has from the feed.
pub fn router_states(lab: &RouterLab) -> BTreeMap<IpPrefix, String> {
    let mut states = BTreeMap::new();
    for family in [&[][..], &["--v6"]] {
        let shown = lab.ask(&[&["show", "bgp", "routes", "--limit", "2000000"], family].concat());
        for route in shown["routes"].as_array().into_iter().flatten() {
            let of_feed =
                route["paths"].as_array().into_iter().flatten().find(|path| path["neighbor"] == FEED);
            let prefix = route["prefix"].as_str().and_then(|text| text.parse().ok());
            if let (Some(path), Some(prefix)) = (of_feed, prefix) {
                states.insert(prefix, path["validation"].as_str().unwrap_or_default().into());
            }
        }
    }
    states
}

/// Returns the state of each prefix in BIRD's tables.
pub fn bird_states(lab: &RouterLab) -> BTreeMap<IpPrefix, String> {
    let mut states = BTreeMap::new();
    for (table, payloads) in [("master4", "payloads4"), ("master6", "payloads6")] {
        for (word, name) in [("ROA_VALID", "valid"), ("ROA_INVALID", "invalid"), ("ROA_UNKNOWN", "not-found")]
        {
            let question = format!(
                "show route table {table} where source = RTS_BGP && roa_check({payloads}, net, bgp_path.last) = {word}"
            );
            for prefix in lab.birdc("validator", &question).lines().filter_map(first_prefix) {
                states.insert(prefix, name.into());
            }
        }
    }
    states
}

/// Returns the number of BIRD's routes from the feed.
pub fn bird_count(lab: &RouterLab) -> usize {
    let count = |table: &str| {
        let shown = lab.birdc("validator", &format!("show route count table {table} where source = RTS_BGP"));
        let words: Vec<&str> = shown.split_whitespace().collect();
        let of = words.windows(2).find(|pair| pair[1] == "of").and_then(|pair| pair[0].parse().ok());
        of.unwrap_or(0)
    };
    count("master4") + count("master6")
}

/// Returns the number of FRR's routes from the feed.
pub fn frr_count(lab: &RouterLab) -> usize {
    let shown = lab.lab.control("frr", "show bgp summary json").unwrap_or_default();
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap_or_default();
    let of = |family: &str| shown[family]["peers"][FEED]["pfxRcd"].as_u64().unwrap_or(0) as usize;
    of("ipv4Unicast") + of("ipv6Unicast")
}

/// Returns the resident memory of the largest process on a node in MiB.
pub fn memory_of(lab: &RouterLab, node: &str) -> u64 {
    let state = lab.lab.state();
    let namespace = state.scope.namespace_file(&state.node(node).unwrap().namespace);
    let resident = |pid: u32| {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let all = sluice_lab::process::inside(&namespace).into_iter();
    all.filter_map(|process| resident(process.pid)).max().unwrap_or(0) >> 10
}

/// Returns the state of each prefix in FRR's tables. FRR writes its first letter before the status of a route. (Its list of routes that
/// are not found has all routes.)
pub fn frr_states(lab: &RouterLab) -> BTreeMap<IpPrefix, String> {
    let mut states = BTreeMap::new();
    for family in ["ipv4", "ipv6"] {
        let shown = lab.lab.control("frr", &format!("show bgp {family} unicast")).unwrap();
        for line in shown.lines() {
            let name = match line.chars().next() {
                Some('V') => "valid",
                Some('I') => "invalid",
                Some('N') => "not-found",
                _ => continue,
            };
            if let Some(prefix) = line.split_whitespace().nth(1).and_then(|word| word.parse().ok()) {
                states.insert(prefix, name.into());
            }
        }
    }
    states
}

fn first_prefix(line: &str) -> Option<IpPrefix> {
    line.split_whitespace().next()?.parse().ok()
}
