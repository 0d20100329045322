//! Every text of every interface takes over the terminal, if it gets there: a router whose components answer every call with
//! such texts, and every command.

use crate::SLUICE;
use crate::cli_contract::lines::RIGHT;
use prost::bytes::{Buf, BufMut};
use prost::encoding::{DecodeContext, WireType, skip_field};
use prost::{DecodeError, Message};
use prost_reflect::{
    DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MessageDescriptor, MethodDescriptor, Value,
};
use sluice_xrl::finder::Finder;
use sluice_xrl::{Acl, EndpointOptions, Method, Principal, Service, Target, XrlEndpoint};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// Clears the screen, ends the line, and uses a control character of eight bits.
const HOSTILE: &str = "x\u{1b}[2J\n\u{9b}2Jforged";
/// The depth of messages in messages.
const DEPTH: usize = 6;
/// The longest time of a command: some follow what happens.
const PATIENCE: Duration = Duration::from_secs(2);

/// The targets.
const TARGETS: [&str; 5] = ["manager", "fea", "rib", "bgp", "xip"];

/// The octets of any message.
#[derive(Clone, Default, Debug)]
struct Raw(Vec<u8>);

impl Message for Raw {
    fn encode_raw(&self, buffer: &mut impl BufMut) {
        buffer.put_slice(&self.0);
    }

    fn merge_field(
        &mut self,
        tag: u32,
        wire_type: WireType,
        buffer: &mut impl Buf,
        context: DecodeContext,
    ) -> Result<(), DecodeError> {
        skip_field(wire_type, tag, buffer, context)
    }

    fn encoded_len(&self) -> usize {
        self.0.len()
    }

    fn clear(&mut self) {
        self.0.clear();
    }
}

/// Returns a message with a hostile text in every field that takes a text.
fn planted(descriptor: &MessageDescriptor, depth: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields() {
        let Some(value) = value(&field, depth) else { continue };
        message.set_field(&field, if field.is_list() { Value::List(vec![value]) } else { value });
    }
    message
}

fn value(field: &FieldDescriptor, depth: usize) -> Option<Value> {
    // A next page would have no end.
    let number = u64::from(!field.name().starts_with("next"));
    Some(match field.kind() {
        _ if field.is_map() => return None,
        Kind::String => Value::String(HOSTILE.into()),
        Kind::Bytes => Value::Bytes(prost::bytes::Bytes::from_static(&[192, 0, 2, 1])),
        Kind::Bool => Value::Bool(field.name() != "more"),
        Kind::Enum(kind) => Value::EnumNumber(kind.values().nth(1).map_or(0, |value| value.number())),
        Kind::Message(_) if depth == 0 => return None,
        Kind::Message(inner) => Value::Message(planted(&inner, depth - 1)),
        Kind::Double => Value::F64(1.0),
        Kind::Float => Value::F32(1.0),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(number),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(number.cast_signed()),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(u32::try_from(number).ok()?),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(i32::try_from(number).ok()?),
    })
}

fn answering(method: &MethodDescriptor) -> Method {
    let reply = Raw(planted(&method.output(), DEPTH).encode_to_vec());
    Method::new(method.name().to_owned(), move |_, _: Raw| {
        let reply = reply.clone();
        async move { Ok(reply) }
    })
}

/// Returns the interfaces of a target: those of its own package, and those that all have.
fn services(target: &str, pools: &[(DescriptorPool, &'static [u8])]) -> Vec<Service> {
    let mut found = Vec::new();
    for (pool, octets) in pools {
        for service in pool.services() {
            let package = service.package_name().split('.').next().unwrap_or_default().to_owned();
            let is_known = found.iter().any(|known: &Service| known.name() == service.full_name());
            if (package == target || package == "common") && !is_known {
                let methods = service.methods().map(|method| answering(&method)).collect();
                found.push(Service::described(service.full_name().into(), octets.to_vec(), methods));
            }
        }
    }
    found
}

/// Runs the Finder and the targets in a thread until the sender is dropped.
fn serve(folder: PathBuf, ready: mpsc::Sender<()>, mut ends: tokio::sync::oneshot::Receiver<()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async move {
        // Descriptions of interfaces are limited for each principal.
        let secrets = TARGETS.map(|target| [target.len() as u8 + target.as_bytes()[0]; 16]);
        let acl: Acl = secrets.into_iter().zip(TARGETS.map(Principal::all_powerful)).collect();
        let socket = folder.join("finder.sock");
        let finder = Finder::bind(&socket, acl).await.unwrap();
        finder.set_people(Box::new(|_| Some(Principal::all_powerful("operator"))));
        let pools: Vec<(DescriptorPool, &'static [u8])> = [
            sluice_xrl::idl::DESCRIPTORS,
            sluice_bgp_cli::COMMANDS.descriptors,
            sluice_xip_cli::COMMANDS.descriptors,
        ]
        .into_iter()
        .map(|octets| (DescriptorPool::decode(octets).unwrap(), octets))
        .collect();
        let mut endpoints = Vec::new();
        for (target, secret) in TARGETS.into_iter().zip(secrets) {
            let sockets = folder.join("xrl").join(target);
            std::fs::create_dir_all(&sockets).unwrap();
            let options = EndpointOptions::new(&socket, secret, sockets);
            let endpoint = XrlEndpoint::connect(options).await.unwrap();
            let registered = endpoint.register(Target::new(target, services(target, &pools))).await.unwrap();
            endpoints.push((endpoint, registered));
        }
        ready.send(()).unwrap();
        let _ended = (&mut ends).await;
    });
}

/// Runs a command; one that follows what happens is ended.
fn run(folder: &Path, line: &str, more: &[&str]) -> Output {
    let mut command = Command::new("timeout");
    command.args(["--signal", "KILL", &PATIENCE.as_secs_f64().to_string(), SLUICE]);
    command.args(line.split(' ')).args(more).arg("--run-dir").arg(folder).stdin(Stdio::null());
    command.output().unwrap()
}

#[test]
fn no_text_takes_over_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let (ready, is_ready) = mpsc::channel();
    let (end, ends) = tokio::sync::oneshot::channel();
    let path = folder.path().to_path_buf();
    let served = std::thread::spawn(move || serve(path, ready, ends));
    is_ready.recv().unwrap();

    let is_hostile = |c: &char| c.is_control() && *c != '\n';
    let (mut seen, mut wrong) = (0, Vec::new());
    let lines = RIGHT.iter().map(|(line, ..)| *line);
    let others =
        ["package list", "call --list", "call bgp/bgp.v1.Bgp/GetSummary", "restart bgp", "commit", "reload"];
    for line in
        lines.chain(others).filter(|line| !line.contains("element") && !line.starts_with("request bgp dump"))
    {
        for more in [&[][..], &["--json"][..]] {
            let output = run(folder.path(), line, more);
            let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
            // Prints of a whole screen begin by clearing it; none is at a terminal here.
            let said = said.concat();
            seen += usize::from(said.contains("\\u{1b}[2J") || said.contains("\\u001b[2J"));
            if let Some(found) =
                said.lines().find(|l| l.contains(|c| is_hostile(&c)) || l.starts_with("forged"))
            {
                wrong.push(format!("{line} {more:?}: {found:?}"));
            }
        }
    }
    drop(end);
    served.join().unwrap();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(seen > 40, "only {seen} outputs had a planted text");
}
