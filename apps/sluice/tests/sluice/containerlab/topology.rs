//! A topology file of containerlab with the files that it names, and the same network as a lab.

use crate::containerlab::router::Router;
use saphyr::{LoadableYamlNode, Yaml};
use sluice_lab::topology::{Daemon, End, LinkSpec, NodeSpec};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A topology.
pub struct Topology {
    /// The folder of the topology file.
    pub folder: PathBuf,
    pub nodes: BTreeMap<String, Node>,
    /// Both ends of each link.
    pub links: Vec<[End; 2]>,
}

/// A node of the kind `linux`.
pub struct Node {
    pub image: String,
    /// True if the node runs the program of its image.
    pub runs_image: bool,
    /// Files and folders beside the topology file, and their places in the container.
    pub binds: Vec<(PathBuf, String)>,
    /// Commands after the links exist.
    pub exec: Vec<String>,
    /// The configuration of a node that runs Sluice.
    pub router: Option<Router>,
}

impl Topology {
    /// Reads the topology file `NAME/NAME.clab.yml` of the examples.
    pub fn read(name: &str) -> Self {
        let folder = examples().join(name);
        let text = std::fs::read_to_string(folder.join(format!("{name}.clab.yml"))).unwrap();
        let documents = Yaml::load_from_str(&text).unwrap();
        let [document] = documents.as_slice() else { panic!("{name}: one document is expected") };
        assert_eq!(document["name"].as_str(), Some(name));
        let topology = &document["topology"];
        let defaults = &topology["defaults"];
        let of_node = |(name, node): (&Yaml<'_>, &Yaml<'_>)| {
            let name = name.as_str().unwrap().to_owned();
            (name, Node::read(&folder, defaults, node))
        };
        let nodes = topology["nodes"].as_mapping().unwrap().iter().map(of_node).collect();
        let links = topology["links"].as_sequence().unwrap().iter().map(ends).collect();
        Topology { folder, nodes, links }
    }

    /// Returns the nodes that run Sluice.
    pub fn routers(&self) -> impl Iterator<Item = (&String, &Router)> {
        self.nodes.iter().filter_map(|(name, node)| Some((name, node.router.as_ref()?)))
    }

    /// Returns the interfaces on the link of an interface, across a node that bridges its links.
    pub fn others(&self, node: &str, interface: &str) -> Vec<&End> {
        let is_own = |end: &End| end.node == node && end.interface == interface;
        let across = self.links.iter().find_map(|[a, b]| match (is_own(a), is_own(b)) {
            (true, _) => Some(b),
            (_, true) => Some(a),
            _ => None,
        });
        let Some(across) = across else { return Vec::new() };
        if self.nodes[&across.node].runs_image {
            return vec![across];
        }
        let pairs = self.links.iter().flat_map(|[a, b]| [(a, b), (b, a)]);
        pairs.filter(|(port, end)| port.node == across.node && !is_own(end)).map(|(_, end)| end).collect()
    }

    /// Returns the same network as a lab.
    pub fn lab(&self) -> sluice_lab::Topology {
        let link = |[a, b]: &[End; 2]| LinkSpec {
            xdp: false,
            a: a.clone(),
            b: b.clone(),
            a_addresses: Vec::new(),
            b_addresses: Vec::new(),
            mtu: None,
        };
        sluice_lab::Topology {
            nodes: self.nodes.iter().map(|(name, node)| (name.clone(), node.lab())).collect(),
            links: self.links.iter().map(link).collect(),
            base: self.folder.clone(),
            ..Default::default()
        }
    }
}

impl Node {
    fn read(folder: &Path, defaults: &Yaml<'_>, node: &Yaml<'_>) -> Self {
        let text = |key: &str| {
            let own = node.as_mapping_get(key).or_else(|| defaults.as_mapping_get(key));
            own.and_then(|value| value.as_str()).map(str::to_owned)
        };
        let list = |key: &str| -> Vec<String> {
            let items = node.as_mapping_get(key).and_then(|list| list.as_sequence());
            items.into_iter().flatten().map(|item| item.as_str().unwrap().to_owned()).collect()
        };
        assert_eq!(text("kind").as_deref(), Some("linux"));
        let bind = |bind: String| {
            let (from, to) = bind.split_once(':').unwrap();
            (folder.join(from), to.to_owned())
        };
        let mut node = Node {
            image: text("image").unwrap(),
            runs_image: text("entrypoint").is_none(),
            binds: list("binds").into_iter().map(bind).collect(),
            exec: list("exec"),
            router: None,
        };
        if node.runs_image && node.image.starts_with("sluice:") {
            let configuration = node.binds.iter().find(|(_, to)| to == "/etc/sluice");
            node.router = configuration.map(|(from, _)| Router::read(&from.join("sluice.conf")));
        }
        node
    }

    /// Returns the file that the node's daemon reads, for a node that runs its image.
    fn configuration(&self) -> PathBuf {
        let (from, _) = self.binds.iter().find(|(_, to)| !to.ends_with("daemons")).unwrap();
        if from.is_dir() { from.join("sluice.conf") } else { from.clone() }
    }

    fn lab(&self) -> NodeSpec {
        let daemon = match self.image.split([':', '/']).next() {
            _ if !self.runs_image => Daemon::Host,
            Some("sluice") => Daemon::Sluice,
            Some("bird") => Daemon::Bird,
            Some("quay.io") => Daemon::Frr,
            _ => panic!("no daemon is known for the image {}", self.image),
        };
        let config_file = self.runs_image.then(|| self.configuration());
        NodeSpec { daemon, config_file, ..NodeSpec::default() }
    }
}

fn ends(link: &Yaml<'_>) -> [End; 2] {
    let ends = link["endpoints"].as_sequence().unwrap();
    let ends: Vec<End> = ends.iter().map(|end| end.as_str().unwrap().parse().unwrap()).collect();
    ends.try_into().unwrap()
}

/// Returns the folder of the examples.
pub fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/containerlab")
}
