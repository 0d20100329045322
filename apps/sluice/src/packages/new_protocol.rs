//! `sluice new-protocol`: the first files of a package.

use crate::Where;
use crate::output::{Failure, print_json};
use serde_json::json;
use sluice_template::{Names, python_package, rust_package, write};
use std::path::{Path, PathBuf};

/// A language that packages are written in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Language {
    /// A workspace on Sluice's crates, which needs a copy of Sluice's source.
    Rust,
    /// A program with Sluice's Python library beside it, which needs nothing else.
    Python,
}

/// What is written, and where to.
#[derive(clap::Args)]
pub struct NewProtocolArgs {
    /// The component's class: lower-case letters and digits, words joined by `-`.
    name: String,
    /// The language of the program.
    #[arg(long, value_enum)]
    language: Language,
    /// The folder in which the package's folder NAME is made.
    #[arg(long, default_value = ".")]
    into: PathBuf,
    /// The copy of Sluice's source that a program in Rust is built on; the one around the current folder if absent.
    #[arg(long)]
    source: Option<PathBuf>,
    #[command(flatten)]
    pub place: Where,
}

/// Writes the files.
pub fn new_protocol(args: &NewProtocolArgs) -> Result<(), Failure> {
    let refused = |error: sluice_template::TemplateError| Failure::failed(error.to_string());
    let names = Names::of(&args.name).map_err(refused)?;
    let folder = args.into.join(&args.name);
    let (files, next) = match args.language {
        Language::Python => (python_package(&names), "sluice package check .".to_string()),
        Language::Rust => {
            let source = source(args.source.as_deref())?;
            let built = format!("target/release/sluice-{0}-process {0}", args.name);
            // The versions that the crates were tested with.
            let lock = format!("cp {}/Cargo.lock .", source.display());
            let next = format!("{lock} && cargo build --release && cp {built} && sluice package check .");
            (rust_package(&names, &source), next)
        }
    };
    let written = write(&folder, &files).map_err(refused)?;
    let next = format!("cd {} && {next}", folder.display());
    match args.place.json {
        true => print_json("new-protocol", &json!({ "folder": folder, "files": written, "next": next })),
        false => {
            written.iter().for_each(|path| sluice_print::outln!("{}", path.display()));
            sluice_print::outln!("next: {next}");
        }
    }
    Ok(())
}

/// Returns the folder of Sluice's source.
fn source(named: Option<&Path>) -> Result<PathBuf, Failure> {
    let is_source = |folder: &Path| folder.join("platform/process/Cargo.toml").is_file();
    let here = std::env::current_dir().map_err(|error| Failure::io(".", &error))?;
    let found = match named {
        Some(folder) => Some(here.join(folder)).filter(|folder| is_source(folder)),
        None => here.ancestors().find(|folder| is_source(folder)).map(Path::to_path_buf),
    };
    let missing = || {
        let place = named.unwrap_or(&here);
        let advice = "a program in Rust is built on a copy of Sluice's source: name it with --source";
        Failure::failed(format!("{} is no copy of Sluice's source; {advice}", place.display()))
    };
    found.ok_or_else(missing)
}
