//! The text form of XRLs: for scripts, tests and people (XORP, section 6.1; docs/xrl.md, "Text form").
//!
//! `finder://bgp/bgp.v1.Bgp/SetLocalAs?as:u32=65001`. The types are checked against the target's own description from
//! the Finder, so that third-party interfaces need no code here.

mod atoms;
mod plain;
mod syntax;

use prost::Message;
use prost_reflect::{DescriptorPool, DynamicMessage, MethodDescriptor};
use std::str::FromStr;

pub use atoms::{AtomError, atoms, build, signature, type_name};
pub use plain::{
    Decoder, Printer, call_plain, plain, read_plain, read_plain_bounded, reads, reply_schema, schema,
};
pub use syntax::{Atom, SyntaxError, TextCall, escape, parse, unescape};

use crate::finder;
use crate::wire::kill;
use crate::wire::octets::Octets;
use crate::{Family, XrlEndpoint, XrlError};

impl From<SyntaxError> for XrlError {
    fn from(e: SyntaxError) -> Self {
        XrlError::BadArguments(e.to_string())
    }
}

impl From<AtomError> for XrlError {
    fn from(e: AtomError) -> Self {
        XrlError::BadArguments(e.to_string())
    }
}

/// The result of a call, in two forms.
#[derive(Clone, PartialEq, Debug)]
pub struct TextReply {
    /// As `name:type=value&name:type=value`.
    pub text: String,
    /// The reply as JSON, in protobuf's mapping.
    pub json: serde_json::Value,
}

/// A callable method.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct MethodListing {
    /// The target's instance name.
    pub target: String,
    /// Package and service.
    pub interface: String,
    /// The method.
    pub method: String,
    /// The method's arguments as `name:type&name:type`.
    pub arguments: String,
    /// The method's results, in the same form.
    pub results: String,
}

impl std::fmt::Display for MethodListing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "finder://{}/{}/{}", self.target, self.interface, self.method)?;
        if !self.arguments.is_empty() {
            write!(f, "?{}", self.arguments)?;
        }
        if self.results.is_empty() { Ok(()) } else { write!(f, "->{}", self.results) }
    }
}

/// A message in the text form.
pub fn render(message: &DynamicMessage) -> String {
    let atoms: Vec<String> = atoms(message).iter().map(Atom::to_string).collect();
    atoms.join("&")
}

/// Carries out the call in `text`.
pub async fn call_text(router: &XrlEndpoint, text: &str) -> Result<TextReply, XrlError> {
    let call = parse(text)?;
    let family = match call.family.as_str() {
        finder::TARGET => None,
        name => Some(Family::from_str(name).map_err(|e| XrlError::BadArguments(format!("`{name}`: {e}")))?),
    };
    let interface = find_interface(router, &call).await?;
    let method = describe(router, &call.target, &interface, &call.method).await?;
    let request = build(&method.input(), &call.arguments)?;
    let path = format!("{interface}/{}", call.method);
    let octets = Octets(request.encode_to_vec());
    let reply = router.call_octets(&call.target, &path, family, None, octets).await?;
    let reply = DynamicMessage::decode(method.output(), &reply.0[..])
        .map_err(|e| XrlError::Protocol(e.to_string()))?;
    let json = serde_json::to_value(&reply).map_err(|e| XrlError::Internal(e.to_string()))?;
    Ok(TextReply { text: render(&reply), json })
}

/// The methods of a target (class or instance), or of every target.
pub async fn list(router: &XrlEndpoint, target: Option<&str>) -> Result<Vec<MethodListing>, XrlError> {
    let mut listing = Vec::new();
    for (instance, class, interfaces) in targets(router).await? {
        if target.is_some_and(|t| t != instance && t != class) {
            continue;
        }
        for (interface, methods) in interfaces {
            for method in methods {
                let described = describe(router, &instance, &interface, &method).await?;
                listing.push(MethodListing {
                    target: instance.clone(),
                    interface: interface.clone(),
                    arguments: signature(&described.input()),
                    results: signature(&described.output()),
                    method,
                });
            }
        }
    }
    match target {
        Some(target) if listing.is_empty() => Err(XrlError::UnknownTarget(target.to_owned())),
        _ => Ok(listing),
    }
}

type Interfaces = Vec<(String, Vec<String>)>;

/// Instance, class and interfaces of every target, including the system's own interfaces.
async fn targets(router: &XrlEndpoint) -> Result<Vec<(String, String, Interfaces)>, XrlError> {
    let own = |interface: &str| {
        let pool = pool(crate::idl::DESCRIPTORS).ok();
        let service = pool.and_then(|p| p.get_service_by_name(interface));
        let methods = service.map(|s| s.methods().map(|m| m.name().to_owned()).collect()).unwrap_or_default();
        (interface.to_owned(), methods)
    };
    let mut all = vec![(finder::TARGET.to_owned(), finder::TARGET.to_owned(), vec![own("finder.v1.Finder")])];
    for target in router.targets().await? {
        let mut interfaces: Interfaces = target.interfaces.into_iter().map(|i| (i.name, i.methods)).collect();
        interfaces.push(own(kill::INTERFACE));
        all.push((target.instance, target.class, interfaces));
    }
    Ok(all)
}

/// The interface's whole name: a package alone suffices if exactly one of its services has the method.
async fn find_interface(router: &XrlEndpoint, call: &TextCall) -> Result<String, XrlError> {
    let targets = targets(router).await?;
    let target = targets.iter().find(|t| t.0 == call.target);
    let target = target.or_else(|| targets.iter().find(|t| t.1 == call.target));
    let (.., interfaces) = target.ok_or_else(|| XrlError::UnknownTarget(call.target.clone()))?;
    if interfaces.iter().any(|(name, _)| *name == call.interface) {
        return Ok(call.interface.clone());
    }
    let of_package: Vec<_> = interfaces
        .iter()
        .filter(|(name, _)| name.rsplit_once('.').is_some_and(|(package, _)| package == call.interface))
        .collect();
    let with_method: Vec<_> = of_package.iter().filter(|(_, m)| m.contains(&call.method)).collect();
    match (of_package.as_slice(), with_method.as_slice()) {
        (_, [one]) => Ok(one.0.clone()),
        ([], _) => {
            let known: Vec<&str> = interfaces.iter().map(|(name, _)| name.as_str()).collect();
            let known = known.join(", ");
            Err(XrlError::UnknownInterface(format!("{}/{} (there is {known})", call.target, call.interface)))
        }
        (_, []) => {
            let name = format!("{}/{}/{}", call.target, call.interface, call.method);
            Err(XrlError::UnknownMethod(name))
        }
        _ => Err(XrlError::BadArguments(format!("`{}` has several services: name one", call.interface))),
    }
}

fn pool(descriptors: &[u8]) -> Result<DescriptorPool, XrlError> {
    DescriptorPool::decode(descriptors).map_err(|e| XrlError::Protocol(format!("descriptors: {e}")))
}

async fn describe(
    router: &XrlEndpoint,
    target: &str,
    interface: &str,
    method: &str,
) -> Result<MethodDescriptor, XrlError> {
    let pool = if interface == kill::INTERFACE || target == finder::TARGET {
        pool(crate::idl::DESCRIPTORS)?
    } else {
        pool(&router.descriptors(target, interface).await?)?
    };
    let service = pool.get_service_by_name(interface);
    let service = service.ok_or_else(|| XrlError::UnknownInterface(format!("{target}/{interface}")))?;
    let found = service.methods().find(|m| m.name() == method);
    found.ok_or_else(|| XrlError::UnknownMethod(format!("{target}/{interface}/{method}")))
}
