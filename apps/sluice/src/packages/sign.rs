//! `sluice package sign|verify|pack|new-key`: packages as files, without a router.

use crate::Where;
use crate::output::{Failure, print_json, say};
use serde_json::json;
use sluice_package::archive::{SUFFIX, pack as archived};
use sluice_package::signature::FILE as SIGNATURE;
use sluice_package::store::read;
use sluice_package::{Contents, PackageFileError, SecretKey, Trust};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The package to look at.
#[derive(clap::Args)]
pub struct VerifyArgs {
    /// A package's name, folder or archive.
    package: PathBuf,
    /// The folder with the public keys of those whose packages are trusted.
    #[arg(long, default_value = "/etc/sluice/trust")]
    trust_dir: PathBuf,
    /// The folder with the packages of third-party components.
    #[arg(long, default_value = "/etc/sluice/packages")]
    packages_dir: PathBuf,
    #[command(flatten)]
    pub place: Where,
}

/// What is signed, by which key.
#[derive(clap::Args)]
pub struct SignArgs {
    /// The package's folder.
    folder: PathBuf,
    /// The file of the key that `sluice package new-key` made.
    #[arg(long)]
    key: PathBuf,
    #[command(flatten)]
    pub place: Where,
}

/// What is packed, and where to.
#[derive(clap::Args)]
pub struct PackArgs {
    /// The package's folder.
    folder: PathBuf,
    /// The folder of the archive.
    #[arg(long, default_value = ".")]
    into: PathBuf,
    #[command(flatten)]
    pub place: Where,
}

/// Where the key goes.
#[derive(clap::Args)]
pub struct NewKeyArgs {
    /// The file of the secret key, which must not exist.
    file: PathBuf,
    #[command(flatten)]
    pub place: Where,
}

/// Prints the signature of a package.
pub fn verify(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    let path = match args.package.exists() {
        true => args.package.clone(),
        false => args.packages_dir.join(&args.package),
    };
    let (manifest, _, signed) =
        read(&path, &Trust::read(&args.trust_dir).map_err(refused)?).map_err(refused)?;
    match args.place.json {
        true => print_json(
            "package-verify",
            &json!({
                "name": manifest.name, "version": manifest.version, "signed": signed.words(),
                "trusted": signed.is_trusted(),
            }),
        ),
        false => say(&format!("package {} {}: {}", manifest.name, manifest.version, signed.words())),
    }
    Ok(if signed.is_trusted() { ExitCode::SUCCESS } else { ExitCode::from(Failure::FAILED) })
}

/// Signs a package.
pub fn sign(args: &SignArgs) -> Result<(), Failure> {
    let key = SecretKey::read(&args.key).map_err(refused)?;
    let mut contents = unsigned(&args.folder)?;
    key.sign(&mut contents).map_err(refused)?;
    let path = args.folder.join(SIGNATURE);
    std::fs::write(&path, contents.text(SIGNATURE))
        .map_err(|error| Failure::io(&path.display().to_string(), &error))?;
    let files = contents.iter().count() - 1;
    match args.place.json {
        true => {
            print_json("package-sign", &json!({ "signature": path, "files": files, "key": key.public() }))
        }
        false => say(&format!("{}: {files} files signed", path.display())),
    }
    Ok(())
}

/// Makes a package's archive.
pub fn pack(args: &PackArgs) -> Result<(), Failure> {
    // Read as it will be when it is installed: what is wrong with it is said now.
    let (manifest, contents, _) = read(&args.folder, &Trust::default()).map_err(refused)?;
    let archive = archived(&manifest.name, &contents).map_err(refused)?;
    let path = args.into.join(format!("{}-{}{SUFFIX}", manifest.name, manifest.version));
    std::fs::write(&path, &archive).map_err(|error| Failure::io(&path.display().to_string(), &error))?;
    let files = contents.iter().count();
    match args.place.json {
        true => {
            print_json("package-pack", &json!({ "archive": path, "files": files, "octets": archive.len() }))
        }
        false => say(&format!("{}: {files} files, {} octets", path.display(), archive.len())),
    }
    Ok(())
}

/// Makes a key.
pub fn new_key(args: &NewKeyArgs) -> Result<(), Failure> {
    let key = SecretKey::new().map_err(|error| Failure::failed(error.to_string()))?;
    let public = key.write(&args.file).map_err(refused)?;
    match args.place.json {
        true => print_json("package-new-key", &json!({ "secret": args.file, "public": public })),
        false => sluice_print::outln!(
            "{} stays secret; {} goes into the folder /etc/sluice/trust of each router that trusts it",
            args.file.display(),
            public.display()
        ),
    }
    Ok(())
}

fn unsigned(folder: &Path) -> Result<Contents, Failure> {
    let mut contents = Contents::of_folder(folder).map_err(refused)?;
    contents.remove(SIGNATURE);
    match contents.get("package.toml") {
        Some(_) => Ok(contents),
        None => Err(refused(PackageFileError::NoManifest)),
    }
}

fn refused(error: PackageFileError) -> Failure {
    Failure::new(Failure::CONFIG, "package-invalid", error.to_string())
}
