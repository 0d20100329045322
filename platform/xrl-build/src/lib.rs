//! The generator behind XRL interfaces, for build scripts: protobuf files in; Rust messages, server traits and typed
//! clients out. It needs no protoc.
//!
//! For `service Rib { rpc AddOrigin(AddOriginRequest) returns (AddOriginReply); }` it writes
//! * `trait Rib`, with `async fn add_origin(&self, ctx: &CallContext, request: AddOriginRequest)` for a component to
//!   implement,
//! * `fn rib_service(Rc<T>) -> Service`, what a component hands to the XrlEndpoint when it registers, and
//! * `struct RibClient`, whose `add_origin(request)` issues a call at once and whose result is awaited for the reply.
//!
//! ```no_run
//! // build.rs; the crate then has `sluice_xrl::include_idl!();` and finds `idl::bgp::v1`.
//! sluice_xrl_build::compile(&["bgp.proto"], &["idl", "../../../idl"]).expect("interfaces compile");
//! ```

mod service;

use std::path::{Path, PathBuf};

use prost::Message;

/// The file in `OUT_DIR` that includes all the others.
pub(crate) const INCLUDE_FILE: &str = "xrl.rs";
/// The file in `OUT_DIR` that describes all interfaces: an encoded `FileDescriptorSet`.
pub(crate) const DESCRIPTOR_FILE: &str = "xrl-descriptors.bin";

/// The reason why interfaces could not be compiled.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// A protobuf file is wrong or missing.
    #[error("protobuf: {0}")]
    Protobuf(#[from] protox::Error),
    /// An output could not be written.
    #[error("writing the generated code: {0}")]
    Io(#[from] std::io::Error),
    /// Not run by cargo as part of a build script.
    #[error("OUT_DIR is not set: this is for build scripts")]
    NoOutDir,
}

/// Compiles the interfaces of a component. Messages of `common.v1` are those of the crate `sluice-xrl`.
pub fn compile(protos: &[&str], includes: &[&str]) -> Result<(), BuildError> {
    Generator::default()
        .extern_package("common.v1", "::sluice_xrl::idl::common::v1")
        .compile(protos, includes)
}

/// A compilation with choices.
#[derive(Debug, Default)]
pub struct Generator {
    externs: Vec<(String, String)>,
    folder: String,
}

impl Generator {
    /// Takes the messages of a protobuf package from a Rust path instead of generating them.
    #[must_use]
    pub fn extern_package(mut self, package: &str, rust_path: &str) -> Self {
        self.externs.push((package.to_owned(), rust_path.to_owned()));
        self
    }

    /// Writes into this folder inside of `OUT_DIR`, for a second compilation of one build script.
    #[must_use]
    pub fn folder(mut self, folder: &str) -> Self {
        self.folder = format!("/{folder}");
        self
    }

    /// Compiles `protos`, found in the folders `includes`, into `OUT_DIR`.
    pub fn compile(self, protos: &[&str], includes: &[&str]) -> Result<(), BuildError> {
        let mut out = std::env::var_os("OUT_DIR").ok_or(BuildError::NoOutDir)?;
        out.push(&self.folder);
        let out = PathBuf::from(out);
        std::fs::create_dir_all(&out)?;
        for dir in includes {
            println!("cargo::rerun-if-changed={dir}");
        }
        self.compile_into(&out, protos, includes)
    }

    fn compile_into(self, out: &Path, protos: &[&str], includes: &[&str]) -> Result<(), BuildError> {
        let mut set = protox::compile(protos, includes)?;
        std::fs::write(out.join(DESCRIPTOR_FILE), set.encode_to_vec())?;
        let mut config = prost_build::Config::new();
        config.out_dir(out).include_file(INCLUDE_FILE).enable_type_names();
        for (package, path) in self.externs {
            config.extern_path(format!(".{package}"), path);
            // Its services are generated where its messages are; here they would be services without messages.
            set.file.iter_mut().filter(|f| f.package() == package).for_each(|f| f.service.clear());
        }
        config.service_generator(Box::new(service::Services { folder: self.folder }));
        config.compile_fds(set)?;
        Ok(())
    }
}
