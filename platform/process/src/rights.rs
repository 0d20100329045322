//! The permissions of a component: read from its `rights.toml`, handed to the Finder, the FEA and the RIB. Anything not
//! named is refused.

mod words;

pub use sluice_clients::{GrantedRoutes, Limit, Permitted, Plain, Rate, RouteRights, SocketRights};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;
use sluice_base::XidType;
use sluice_base::component::format::{FormatHead, RIGHTS_FORMAT};
use std::collections::BTreeMap;

/// The error in a text of rights: the line, and the reason.
pub type ParseError = toml::de::Error;

/// A component's rights.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rights {
    /// The version of the file's format; absent: 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub format: Option<u32>,
    /// The component's class: the name by which it may register.
    pub class: String,
    /// Classes that must be ready before the component starts.
    #[serde(default)]
    pub needs: Vec<String>,
    /// The calls allowed: from target (`*`: any) to methods (`interface/method`, `*` at the end stands for anything).
    #[serde(default)]
    pub calls: BTreeMap<String, Vec<String>>,
    /// True if the component may call every method that only reads, beside `calls`.
    #[serde(default)]
    pub reads: bool,
    /// Limits on the arguments of some of the calls.
    #[serde(default)]
    pub limit: Vec<Limit>,
    /// The sockets that the FEA may open for the component.
    #[serde(default)]
    pub sockets: SocketRights,
    /// The programs that the FEA puts into the path of packets for the component.
    #[serde(default)]
    pub programs: ProgramRights,
    /// The virtual links that the FEA makes for the component.
    #[serde(default)]
    pub links: LinkRights,
    /// The types of XIDs that the component decides for.
    #[serde(default)]
    pub xip: XipRights,
    /// The routes that the RIB accepts from the component.
    #[serde(default)]
    pub routes: RouteRights,
    /// The bounds of a package's process; a router's own component has bounds only if it names some.
    #[serde(default)]
    pub resources: Option<Resources>,
    /// The files that the component keeps; without, the component writes no file.
    #[serde(default)]
    pub files: Option<FileRights>,
    /// The helpers that the manager runs for the component; only the router's own components have some.
    #[serde(default)]
    pub helper: BTreeMap<String, HelperRights>,
    /// True if the process keeps the right to configure the network; only the FEA has that.
    #[serde(default)]
    pub network_admin: bool,
}

/// Programs in the path of packets (`docs/forwarding.md`).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ProgramRights {
    /// The names of the programs.
    pub put: Vec<String>,
}

/// A program that the manager runs for a component, in the router's network and as a user of its own.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HelperRights {
    /// The paths of the program; the first one that exists is executed.
    pub programs: Vec<String>,
    /// The options with which the component may have the program started.
    #[serde(default)]
    pub options: Vec<String>,
    /// The files of the component's credentials that the program reads.
    #[serde(default)]
    pub credentials: Vec<String>,
    /// The files that the component may have written for the program.
    #[serde(default)]
    pub files: Vec<String>,
}

impl HelperRights {
    /// Returns the first argument that is no permitted option with a value (`--OPTION=VALUE`).
    pub fn refused<'a>(&self, arguments: &'a [String]) -> Option<&'a str> {
        let is_permitted = |argument: &&String| {
            let option = argument.strip_prefix("--").and_then(|rest| rest.split_once('='));
            option.is_some_and(|(name, _)| self.options.iter().any(|option| option == name))
        };
        arguments.iter().find(|argument| !is_permitted(argument)).map(String::as_str)
    }
}

/// Virtual links in the router's network (`docs/fea.md`).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LinkRights {
    /// The kinds of links, such as `macvlan`.
    pub kinds: Vec<String>,
}

/// Types of XIDs that a process decides for, at XIP's request (`docs/xia/principals.md`).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct XipRights {
    /// The types: names, or `0x` and hexadecimal digits.
    #[serde(deserialize_with = "xid_types")]
    pub principals: Vec<String>,
}

fn xid_types<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    for name in &names {
        name.parse::<XidType>()
            .map_err(|error| D::Error::custom(format!("principals: `{name}`: {error}")))?;
    }
    Ok(names)
}

/// Bounds on a component's process and its children. A component over its bound of memory is ended and started anew;
/// the other bounds slow the component down or refuse it what it asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Resources {
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Processor time in percent of one processor.
    pub processor_percent: u32,
    /// Processes and threads.
    pub processes: u32,
    /// Open files of one process.
    pub open_files: u32,
}

impl Default for Resources {
    fn default() -> Self {
        Resources { memory_mib: 256, processor_percent: 25, processes: 32, open_files: 1024 }
    }
}

impl Resources {
    /// Returns the bound on the memory in octets.
    pub fn memory(&self) -> u64 {
        u64::from(self.memory_mib) << 20
    }
}

/// Files that a component keeps over its restarts, in a folder of its own: the working directory of its process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileRights {
    /// The most disk space in MiB, 1 to 65,536. A component with more is ended and started anew.
    #[serde(deserialize_with = "quota_mib")]
    pub quota_mib: u32,
}

impl Default for FileRights {
    fn default() -> Self {
        FileRights { quota_mib: 16 }
    }
}

impl FileRights {
    /// Returns the quota in octets.
    pub fn quota(&self) -> u64 {
        u64::from(self.quota_mib) << 20
    }
}

fn quota_mib<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
    let quota = u32::deserialize(deserializer)?;
    if (1..=65_536).contains(&quota) {
        Ok(quota)
    } else {
        Err(D::Error::custom(format!("quota_mib is {quota}; expected 1 to 65536")))
    }
}

impl Rights {
    /// Reads a `rights.toml`. An error names the line, or both versions of a newer format.
    pub fn parse(text: &str) -> Result<Self, ParseError> {
        // First of all: a newer format has keys that are unknown here.
        if let Ok(head) = toml::from_str::<FormatHead>(text) {
            head.check(RIGHTS_FORMAT).map_err(ParseError::custom)?;
        }
        let rights: Rights = toml::from_str(text)?;
        for (index, limit) in rights.limit.iter().enumerate() {
            let call = &limit.call;
            let is_allowed =
                || rights.call_patterns().iter().any(|pattern| sluice_xrl::matches(pattern, call));
            let reason = if limit.parts().is_none() {
                "a limit is for one method: \"target/interface/method\", without `*`"
            } else if !is_allowed() {
                "[calls] does not allow this call"
            } else if rights.limit[..index].iter().any(|other| other.call == *call) {
                "there is a limit for this call already"
            } else if limit.arguments.is_empty() && limit.rate.is_none() {
                "it limits nothing: name arguments, or a rate"
            } else {
                continue;
            };
            return Err(ParseError::custom(format!("[[limit]] call = \"{call}\": {reason}")));
        }
        Ok(rights)
    }

    /// Returns the bounds of the process: a package's, if the file names none, are the defaults.
    pub fn resources(&self, is_packaged: bool) -> Option<Resources> {
        self.resources.or_else(|| is_packaged.then(Resources::default))
    }

    /// Returns the patterns `target/interface/method` that the Finder lets the component resolve.
    pub fn call_patterns(&self) -> Vec<String> {
        self.calls
            .iter()
            .flat_map(|(target, methods)| methods.iter().map(move |method| format!("{target}/{method}")))
            .collect()
    }
}

/// Returns the ports at a place of a component's configuration: names of containers, lists and leaves with `/` between
/// them, `*` for each entry of a list. Values other than ports are left out.
pub fn ports_at(part: &Value, path: &str) -> Vec<u16> {
    let mut found = vec![part];
    for step in path.split('/') {
        found = found.into_iter().flat_map(|value| below(value, step)).collect();
    }
    let port =
        |value: &Value| value.as_u64().and_then(|port| u16::try_from(port).ok()).filter(|port| *port > 0);
    let mut ports: Vec<u16> = found.into_iter().filter_map(port).collect();
    ports.sort_unstable();
    ports.dedup();
    ports
}

/// Returns the values behind a step of a path.
fn below<'v>(value: &'v Value, step: &str) -> Vec<&'v Value> {
    match (step, value) {
        ("*", Value::Array(entries)) => entries.iter().collect(),
        (name, Value::Object(members)) => members.get(name).into_iter().collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_clients::PortRight;

    #[test]
    fn reads_what_components_ship() {
        let text = "class = \"bgp\"\nneeds = [\"rib\"]\n[calls]\nrib = [\"rib.v1.Rib/*\"]\n[sockets]\ntcp_listen = [179]\n";
        let rights = Rights::parse(text).expect("valid");
        assert_eq!(rights.call_patterns(), ["rib/rib.v1.Rib/*"]);
        assert_eq!(rights.sockets.tcp_listen, [PortRight::one(179)]);
        assert!(Rights::parse("class = \"x\"\nevil = true\n").is_err());
    }

    #[test]
    fn the_right_to_read_is_said_to_the_operator() {
        let rights = |text: &str| Rights::parse(&format!("class = \"x\"\n{text}")).expect("valid");
        let (with, without) = (rights("reads = true\n"), rights(""));
        assert!(with.reads && !without.reads && with.call_patterns().is_empty());
        let (more, less) = with.compared_with(&without);
        assert_eq!(
            (more.as_slice(), less.len()),
            (&["call every method that only reads, of any component".to_owned()][..], 0)
        );
    }

    #[test]
    fn every_kind_of_socket_is_named() {
        let text = "class = \"x\"\n[sockets]\nudp = [3784, \"49152-65535\"]\ntcp_connect = [\"config:cache/*/port\"]\n\
                    multicast = [\"ff02::/16\"]\npacket = [0x88cc, \"llc:fe\"]\nlink_groups = [\"01:80:c2:00:00:14\"]\nicmpv6 = [133]\n";
        let sockets = Rights::parse(text).expect("valid").sockets;
        assert!(sockets.udp[1].covers(50_000, 60_000) && sockets.follow_configuration());
        assert_eq!((sockets.packet.len(), sockets.link_groups.len(), sockets.icmpv6.len()), (2, 1, 1));
        let again: SocketRights =
            serde_json::from_value(serde_json::json!(sockets)).expect("what is written is read");
        assert_eq!(again, sockets);
    }

    #[test]
    fn a_newer_format_is_refused_with_both_versions() {
        let rights = |format: &str| Rights::parse(&format!("abilities = 1\n{format}\nclass = \"x\"\n"));
        let error = rights("format = 2").expect_err("newer").to_string();
        assert!(error.contains("format 2,") && error.contains("up to 1;"), "{error}");
        assert!(rights("format = 1").expect_err("unknown key").to_string().contains("abilities"));
        assert!(rights("format = \"1\"").expect_err("no number").to_string().contains("line "));
        assert_eq!(Rights::parse("format = 1\nclass = \"x\"\n").expect("valid").class, "x");
    }

    #[test]
    fn errors_name_line_and_text() {
        for (line, wrong) in
            [("udp = [\n  520,\n  70000,\n]", "70000"), ("multicast = [\"10.0.0.1\"]", "10.0.0.1")]
        {
            let error = Rights::parse(&format!("class = \"x\"\n[sockets]\n{line}\n"))
                .expect_err("not valid")
                .to_string();
            assert!(error.contains(wrong) && error.contains("line "), "{error}");
        }
        let error =
            Rights::parse("class = \"x\"\n[sockets]\nudp = [\n  520,\n  70000,\n]\n").expect_err("not valid");
        assert!(error.to_string().contains("line 5"), "{error}");
    }

    #[test]
    fn bounds_have_defaults_for_packages_only() {
        let rights = |text: &str| Rights::parse(&format!("class = \"x\"\n{text}")).expect("valid");
        assert_eq!(rights("").resources(false), None);
        assert_eq!(rights("").resources(true), Some(Resources::default()));
        let more = rights("[resources]\nmemory_mib = 512\n").resources(true).expect("bounds");
        assert_eq!((more.memory(), more.processes), (512 << 20, 32));
        assert!(Rights::parse("class = \"x\"\n[resources]\nmemory = 1\n").is_err());
    }

    #[test]
    fn types_of_xids_are_names_or_numbers() {
        let types = |text: &str| Rights::parse(&format!("class = \"x\"\n[xip]\nprincipals = {text}\n"));
        assert_eq!(types("[\"sid\", \"0x99\"]").expect("valid").xip.principals, ["sid", "0x99"]);
        let error = types("[\"said\"]").expect_err("not valid").to_string();
        assert!(error.contains("`said`") && error.contains("line 3"), "{error}");
    }

    #[test]
    fn helpers_have_permitted_options_with_values_only() {
        let text = "class = \"x\"\n[helper.store]\nprograms = [\"/usr/bin/etcd\"]\noptions = [\"name\", \"data-dir\"]\n";
        let rights = Rights::parse(text).expect("valid");
        let helper = &rights.helper["store"];
        let refused = |arguments: &[&str]| {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            helper.refused(&arguments).map(String::from)
        };
        assert_eq!(refused(&["--name=a", "--data-dir=x=y"]), None);
        for wrong in ["--named=a", "--name", "name=a", "-name=a", "", "--", "--=a"] {
            assert_eq!(refused(&["--name=a", wrong]).as_deref(), Some(wrong));
        }
        assert!(Rights::parse("class = \"x\"\n[helper.store]\n").is_err());
    }

    #[test]
    fn files_have_a_quota() {
        let files = |text: &str| Rights::parse(&format!("class = \"x\"\n{text}")).map(|rights| rights.files);
        assert_eq!(files("").expect("valid"), None);
        assert_eq!(files("[files]\n").expect("valid").map(|files| files.quota()), Some(16 << 20));
        assert_eq!(
            files("[files]\nquota_mib = 1\n").expect("valid").map(|files| files.quota()),
            Some(1 << 20)
        );
        for wrong in ["0", "65537", "-1", "\"1 MiB\""] {
            let error = files(&format!("[files]\nquota_mib = {wrong}\n")).expect_err("not valid").to_string();
            assert!(error.contains("line 3"), "{error}");
        }
    }

    #[test]
    fn configured_ports_are_found() {
        let part = serde_json::json!({
            "cache": [{"name": "a", "port": 3323}, {"name": "b"}, {"name": "c", "port": 323}, {"name": "d", "port": 70000}],
            "port": 5,
        });
        assert_eq!(ports_at(&part, "cache/*/port"), [323, 3323]);
        assert_eq!(ports_at(&part, "port"), [5]);
        for nothing in ["cache/port", "cache/*", "missing/*/port", "*/port", "cache/*/port/*"] {
            assert_eq!(ports_at(&part, nothing), [0u16; 0], "{nothing}");
        }
    }
}
