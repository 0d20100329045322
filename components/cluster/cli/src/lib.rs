//! The cluster on the command line: certificates of elements (`sluice cluster init|invite|join`, without a
//! router), calls to components of another element (`--element`), and the router as a whole.

#![warn(clippy::disallowed_macros)]

mod authority;
mod element;
mod files;
mod invitation;
pub mod whole;

pub use element::at;

use authority::{Authority, Issued};
use clap::Subcommand;
use files::Texts;
use invitation::Invitation;
use serde_json::{Value, json};
use sluice_cli::render;
use sluice_cli::spelling::Becomes::Words;
use sluice_cli::spelling::Row;
use sluice_cluster::inventory::ElementId;
use sluice_cluster::roster::FIRST_MACHINE;
use sluice_cluster_process::credentials::AUTHORITIES;
use sluice_console::Failure;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Other words for commands of the component, beside the commands for certificates.
pub const SPELLINGS: [Row; 4] = [
    ("cluster drain ...", Words("request cluster drain")),
    ("cluster undrain ...", Words("request cluster undrain")),
    ("cluster remove ...", Words("request cluster remove")),
    ("cluster replace ...", Words("request cluster replace")),
];

/// Prints a JSON document by the schema of a name.
type Print = fn(&str, &Value);
/// Returns the state folder of a run-time folder.
type StateFolder = fn(&Path) -> PathBuf;

/// Commands of the machines of a cluster.
#[derive(Subcommand)]
pub enum ClusterCommand {
    /// Makes the authority of a new cluster on this machine, and the certificate of this element.
    ///
    /// One machine of the cluster has the authority. `sluice cluster invite` makes the certificates of all other elements on the same
    /// machine. The authority's key stays in the folder `cluster-ca` of the state folder: the key admits machines to the cluster.
    Init {
        /// The element.
        #[command(flatten)]
        args: IssueArgs,
        /// The place of the files.
        #[command(flatten)]
        place: Place,
    },
    /// Makes a certificate and a key for an element, as a file for that machine.
    ///
    /// The file is as secret as a password. Copy the file to the element, run `sluice cluster join FILE` there, and remove the file. The same
    /// command renews a certificate.
    Invite {
        /// The element.
        #[command(flatten)]
        args: IssueArgs,
        /// The number of the element's machine, after `sluice cluster replace`: `sluice show cluster` shows the number.
        #[arg(long, default_value_t = FIRST_MACHINE, value_parser = clap::value_parser!(u32).range(1..))]
        machine: u32,
        /// The file; `element-NUMBER.invitation` if absent.
        #[arg(long)]
        into: Option<PathBuf>,
        /// The place of the files.
        #[command(flatten)]
        place: Place,
    },
    /// Takes the certificate and the key of an invitation for this machine. A running router uses both for the next connection.
    Join {
        /// The file that `sluice cluster invite` made.
        file: PathBuf,
        /// The place of the files.
        #[command(flatten)]
        place: Place,
    },
}

/// The element of a certificate.
#[derive(clap::Args)]
pub struct IssueArgs {
    /// The element's number (`cluster element` of its configuration).
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    element: u16,
    /// An address of the element for other elements (`cluster member NUMBER address`); may be given several times.
    #[arg(long, required = true)]
    address: Vec<IpAddr>,
    /// The days for which the certificate is valid.
    #[arg(long, default_value_t = 3650, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    days: u32,
}

/// The place of the files.
#[derive(clap::Args)]
pub struct Place {
    /// The state folder of the router; the state folder of the run-time folder if absent, as for `sluice start`.
    #[arg(long)]
    state_dir: Option<PathBuf>,
    /// The router's run-time folder.
    #[arg(long, env = "SLUICE_RUN_DIR", default_value = "/run/sluice")]
    run_dir: PathBuf,
    /// Print one JSON document instead of text, errors too.
    #[arg(long, short = 'j')]
    json: bool,
}

impl Place {
    fn state_dir(&self, of: StateFolder) -> PathBuf {
        self.state_dir.clone().unwrap_or_else(|| of(&self.run_dir))
    }
}

impl ClusterCommand {
    /// Carries the command out.
    ///
    /// # Errors
    /// A file cannot be read or written, there is no authority or already one, or an invitation is of no use.
    pub fn run(&self, print: Print, state_folder: StateFolder) -> Result<(), Failure> {
        let state_dir = self.place().state_dir(state_folder);
        let print = self.is_json().then_some(print);
        match self {
            ClusterCommand::Init { args, .. } => init(args, &state_dir, print),
            ClusterCommand::Invite { args, machine, into, .. } => {
                invite((args, *machine), into.clone(), &state_dir, print)
            }
            ClusterCommand::Join { file, .. } => join(file, &state_dir, print),
        }
    }

    /// Returns true if the output is JSON, errors too.
    pub fn is_json(&self) -> bool {
        self.place().json
    }

    fn place(&self) -> &Place {
        match self {
            ClusterCommand::Init { place, .. }
            | ClusterCommand::Invite { place, .. }
            | ClusterCommand::Join { place, .. } => place,
        }
    }
}

fn element(number: u16) -> Result<ElementId, Failure> {
    ElementId::new(number).ok_or_else(|| Failure::usage("elements have the numbers 1 to 65535"))
}

fn refused(error: rcgen::Error) -> Failure {
    Failure::failed(format!("the certificate cannot be made: {error}"))
}

/// Returns a time as text (RFC 3339).
fn date(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    render::time(u64::try_from(since.as_millis()).unwrap_or(0))
}

fn issue(authority: &Authority, args: &IssueArgs, machine: u32) -> Result<Issued, Failure> {
    authority.issue((element(args.element)?, machine), &args.address, args.days).map_err(refused)
}

fn init(args: &IssueArgs, state_dir: &Path, print: Option<Print>) -> Result<(), Failure> {
    let folder = files::authority(state_dir);
    let key_file = folder.join(files::AUTHORITY_KEY);
    if key_file.exists() {
        return Err(Failure::failed(format!(
            "{} exists: this machine has the authority of a cluster already. `sluice cluster invite` makes certificates by it; move the \
             folder away to begin a new cluster",
            key_file.display()
        )));
    }
    let (authority, own) = Authority::new().map_err(refused)?;
    let issued = issue(&authority, args, FIRST_MACHINE)?;
    files::make_folder(&folder)?;
    files::write_secret(&folder.join(AUTHORITIES), &own.certificate)?;
    // The key comes last: without the key there is no authority yet.
    files::write_secret(&key_file, &own.key)?;
    let texts = Texts { authorities: own.certificate, certificate: issued.certificate, key: issued.key };
    texts.check()?;
    let credentials = texts.install(state_dir)?;
    let until = date(issued.until);
    if let Some(print) = print {
        print(
            "cluster-init",
            &json!({
                "element": args.element, "authority": folder, "credentials": credentials, "until": until,
            }),
        );
        return Ok(());
    }
    sluice_print::outln!(
        "element {} has a certificate until {until}, in {}",
        args.element,
        credentials.display()
    );
    sluice_print::outln!(
        "the authority's key is {}: keep a copy in a safe place. Next, for each other element: sluice cluster invite NUMBER --address ADDRESS",
        key_file.display()
    );
    Ok(())
}

fn invite(
    (args, machine): (&IssueArgs, u32),
    into: Option<PathBuf>,
    state_dir: &Path,
    print: Option<Print>,
) -> Result<(), Failure> {
    let folder = files::authority(state_dir);
    let key_file = folder.join(files::AUTHORITY_KEY);
    let none = || {
        Failure::failed(format!(
            "{} does not exist: this machine has no authority of a cluster. Run `sluice cluster init` once on one machine, and invite on that \
             machine; --state-dir names another state folder",
            key_file.display()
        ))
    };
    let key = files::read(&key_file)?.ok_or_else(none)?;
    let authorities = files::read(&folder.join(AUTHORITIES))?.ok_or_else(none)?;
    let authority = Authority::of_key(&key).map_err(refused)?;
    let issued = issue(&authority, args, machine)?;
    let texts = Texts { authorities, certificate: issued.certificate, key: issued.key };
    texts.check()?;
    let file = into.unwrap_or_else(|| PathBuf::from(format!("element-{}.invitation", args.element)));
    Invitation::new(args.element, texts).write(&file)?;
    let until = date(issued.until);
    if let Some(print) = print {
        print("cluster-invite", &json!({ "element": args.element, "file": file, "until": until }));
        return Ok(());
    }
    sluice_print::outln!(
        "{}: a secret for element {} alone, valid until {until}",
        file.display(),
        args.element
    );
    sluice_print::outln!(
        "copy the file to the element, run `sluice cluster join FILE` there, and remove it on both machines"
    );
    Ok(())
}

fn join(file: &Path, state_dir: &Path, print: Option<Print>) -> Result<(), Failure> {
    let invitation = Invitation::read(file)?;
    let element = invitation.texts.check()?.element().number();
    if element != invitation.element {
        return Err(Failure::failed(format!(
            "{}: the certificate is of element {element}, and the invitation of element {}",
            file.display(),
            invitation.element
        )));
    }
    let credentials = invitation.texts.install(state_dir)?;
    if let Some(print) = print {
        print("cluster-join", &json!({ "element": element, "credentials": credentials }));
        return Ok(());
    }
    sluice_print::outln!(
        "this machine is element {element} by its certificate, in {}",
        credentials.display()
    );
    sluice_print::outln!(
        "remove {}, and set `cluster element {element}` in the configuration",
        file.display()
    );
    Ok(())
}
