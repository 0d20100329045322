//! Signatures of packages (Ed25519, RFC 8032). The signed text is the list of the files' hashes.

use crate::error::PackageFileError;
use crate::files::{Contents, File};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ed25519_dalek::{Signature, Signer, SigningKey, VerifyingKey};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The file of the signature in a package.
pub const FILE: &str = "package.sig";
/// The end of the name of a public key's file.
pub(crate) const PUBLIC: &str = "pub";

/// The secret key of a maker of packages.
pub struct SecretKey(SigningKey);

/// The meaning of a valid signature.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Signed {
    /// There is no signature.
    Not,
    /// The key is in the folder of trust under this name.
    By(String),
    /// The key is not in the folder of trust.
    ByStranger(String),
}

impl Signed {
    /// Returns true if a key of trust made the signature.
    pub fn is_trusted(&self) -> bool {
        matches!(self, Signed::By(_))
    }

    /// Returns the words for lists.
    pub fn words(&self) -> String {
        match self {
            Signed::Not => "unsigned".into(),
            Signed::By(name) => format!("signed by {name}"),
            Signed::ByStranger(key) => format!("signed by unknown key {key}"),
        }
    }
}

impl SecretKey {
    /// Makes a key.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new() -> Result<Self, getrandom::Error> {
        let mut seed = [0; 32];
        getrandom::fill(&mut seed)?;
        Ok(SecretKey(SigningKey::from_bytes(&seed)))
    }

    /// Reads a key written by [`SecretKey::write`].
    pub fn read(path: &Path) -> Result<Self, PackageFileError> {
        let octets =
            key_of(path, &fs::read_to_string(path).map_err(PackageFileError::cannot("read", path))?)?;
        Ok(SecretKey(SigningKey::from_bytes(&octets)))
    }

    /// Writes the key into a new file for the owner's eyes only, and the public key beside the file, with `.pub` at the end.
    pub fn write(&self, path: &Path) -> Result<std::path::PathBuf, PackageFileError> {
        let cannot = |path: &Path| PackageFileError::cannot("write", path);
        let mut file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(cannot(path))?;
        writeln!(file, "{}", BASE64.encode(self.0.to_bytes())).map_err(cannot(path))?;
        let mut public = path.as_os_str().to_owned();
        public.push(format!(".{PUBLIC}"));
        let public = std::path::PathBuf::from(public);
        fs::write(&public, format!("{}\n", self.public())).map_err(cannot(&public))?;
        Ok(public)
    }

    /// Returns the public key as text.
    pub fn public(&self) -> String {
        BASE64.encode(self.0.verifying_key().to_bytes())
    }

    /// Puts a signature into a package, in the place of an older signature.
    pub fn sign(&self, contents: &mut Contents) -> Result<(), PackageFileError> {
        contents.remove(FILE);
        let signature = self.0.sign(contents.sums().as_bytes());
        let text = format!("key {}\nsignature {}\n", self.public(), BASE64.encode(signature.to_bytes()));
        contents.add(FILE.into(), File { octets: text.into_bytes(), is_program: false })
    }
}

/// The public keys whose packages are trusted, with their names.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Trust(BTreeMap<[u8; 32], String>);

impl Trust {
    /// Reads the keys in a folder: each file `NAME.pub` has one key. Without the folder nobody is trusted.
    pub fn read(folder: &Path) -> Result<Self, PackageFileError> {
        let mut trust = Trust::default();
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(trust),
            Err(error) => return Err(PackageFileError::cannot("read", folder)(error)),
        };
        for entry in entries {
            let path = entry.map_err(PackageFileError::cannot("read", folder))?.path();
            if path.extension().is_some_and(|end| end == PUBLIC) {
                let text = fs::read_to_string(&path).map_err(PackageFileError::cannot("read", &path))?;
                let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
                trust.0.insert(key_of(&path, &text)?, name);
            }
        }
        Ok(trust)
    }

    /// Compares a package with its signature.
    ///
    /// # Errors
    /// There is a signature, and the key in the signature did not sign these files.
    pub fn check(&self, contents: &Contents) -> Result<Signed, PackageFileError> {
        let wrong = |reason: &str| PackageFileError::Signature(reason.into());
        let Some(file) = contents.get(FILE) else { return Ok(Signed::Not) };
        let text = str::from_utf8(&file.octets).map_err(|_| wrong("package.sig is no text"))?;
        let value = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let decoded = |name: &str| value(name).and_then(|text| BASE64.decode(text.trim()).ok());
        let key: [u8; 32] = decoded("key")
            .and_then(|key| key.try_into().ok())
            .ok_or_else(|| wrong("package.sig has no key"))?;
        let signature: [u8; 64] = decoded("signature")
            .and_then(|signature| signature.try_into().ok())
            .ok_or_else(|| wrong("package.sig has no signature"))?;
        let verifying =
            VerifyingKey::from_bytes(&key).map_err(|_| wrong("the key in package.sig is none"))?;
        let mut signed = contents.clone();
        signed.remove(FILE);
        let fits = verifying.verify_strict(signed.sums().as_bytes(), &Signature::from_bytes(&signature));
        fits.map_err(|_| wrong("a file was changed, added or taken away after the package was signed"))?;
        Ok(match self.0.get(&key) {
            Some(name) => Signed::By(name.clone()),
            None => Signed::ByStranger(BASE64.encode(key)),
        })
    }
}

fn key_of(path: &Path, text: &str) -> Result<[u8; 32], PackageFileError> {
    let key = BASE64.decode(text.trim()).ok().and_then(|key| key.try_into().ok());
    key.ok_or_else(|| PackageFileError::Key {
        path: path.into(),
        reason: "a key is 32 octets in Base64, on one line; `sluice package new-key FILE` makes one".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package() -> Contents {
        let mut contents = Contents::default();
        for (path, text) in [("package.toml", "name = \"x\""), ("x", "#!/bin/sh")] {
            let file = File { octets: text.into(), is_program: path == "x" };
            contents.add(path.into(), file).expect("a file");
        }
        contents
    }

    #[test]
    fn a_signature_names_its_maker_and_fits_one_package() {
        let folder = tempfile::tempdir().expect("a folder");
        let key = SecretKey::new().expect("a key");
        let path = folder.path().join("ann");
        let public = key.write(&path).expect("written");
        assert!(key.write(&path).is_err(), "no key is written over another");
        let key = SecretKey::read(&path).expect("read");
        let mut contents = package();
        let nobody = Trust::default();
        assert_eq!(nobody.check(&contents).expect("no signature"), Signed::Not);
        key.sign(&mut contents).expect("signed");
        key.sign(&mut contents).expect("signed again");
        assert_eq!(nobody.check(&contents).expect("it fits"), Signed::ByStranger(key.public()));
        assert!(public.ends_with("ann.pub"));
        let trust = Trust::read(folder.path()).expect("the folder of trust");
        assert_eq!(trust.check(&contents).expect("it fits"), Signed::By("ann".into()));
        // Any difference is found: an octet, a mode, a file more, a file less.
        type Change = fn(&mut Contents);
        let changes: [Change; 4] = [
            |c| {
                let mut file = c.remove("x").expect("a file");
                file.octets.push(b'\n');
                c.add("x".into(), file).expect("a file");
            },
            |c| {
                let file = c.remove("x").expect("a file");
                c.add("x".into(), File { is_program: false, ..file }).expect("a file");
            },
            |c| c.add("y".into(), File { octets: Vec::new(), is_program: false }).expect("a file"),
            |c| drop(c.remove("x")),
        ];
        for change in changes {
            let mut other = contents.clone();
            change(&mut other);
            assert!(matches!(trust.check(&other), Err(PackageFileError::Signature(_))));
        }
    }

    #[test]
    fn malformed_signatures_and_keys_are_refused() {
        for text in ["", "key x\nsignature y\n", "key AAAA\nsignature AAAA\n", "\u{fe}"] {
            let mut contents = package();
            contents.add(FILE.into(), File { octets: text.into(), is_program: false }).expect("a file");
            assert!(
                matches!(Trust::default().check(&contents), Err(PackageFileError::Signature(_))),
                "{text}"
            );
        }
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("bad.pub"), "no key").expect("written");
        assert!(Trust::read(folder.path()).expect_err("no key").to_string().contains("bad.pub"));
        assert_eq!(Trust::read(&folder.path().join("none")).expect("nobody"), Trust::default());
    }
}
