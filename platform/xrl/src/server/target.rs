//! A component instance as a process offers it to callers.

use crate::idl::finder::v1 as wire;
use crate::{Family, Method, Service};

/// A callable component instance.
pub struct Target {
    /// The class, such as `bgp`.
    pub class: String,
    /// The instance's name; `None`: chosen by the Finder.
    pub instance: Option<String>,
    /// True if the target must be alone in its class; named instances (`bgp@red`) of the class do not count.
    pub singleton: bool,
    /// The target's interfaces.
    pub services: Vec<Service>,
    /// Families by which the target can be reached; callers of the same process need none.
    pub families: Vec<Family>,
}

impl Target {
    /// A target reached by Unix socket.
    pub fn new(class: &str, services: Vec<Service>) -> Self {
        let class = class.to_owned();
        Target { class, instance: None, singleton: false, services, families: vec![Family::Unix] }
    }

    /// Sets the instance's name.
    #[must_use]
    pub fn named(mut self, instance: &str) -> Self {
        self.instance = Some(instance.to_owned());
        self
    }

    /// Requires the target to be the only instance of its class.
    #[must_use]
    pub fn singleton(mut self) -> Self {
        self.singleton = true;
        self
    }

    /// Sets the families.
    #[must_use]
    pub fn families(mut self, families: &[Family]) -> Self {
        self.families = families.to_vec();
        self
    }
}

/// Describes an interface to the Finder.
pub(crate) fn offer(service: &Service) -> wire::InterfaceOffer {
    let method = |m: &Method| wire::MethodOffer {
        name: m.name.to_string(),
        families: m.families.iter().map(|f| f.to_wire().into()).collect(),
        reads: m.reads,
    };
    wire::InterfaceOffer {
        name: service.name.to_string(),
        methods: service.methods.iter().map(method).collect(),
        descriptors: service.descriptors.to_vec(),
    }
}
