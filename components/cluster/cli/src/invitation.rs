//! An invitation: the credentials of an element on their way to its machine, as one file.

use crate::files::{self, Texts};
use serde::{Deserialize, Serialize};
use sluice_console::Failure;
use std::path::Path;

/// The version of the file.
const VERSION: u32 = 1;
/// The most octets of a file that is read.
const LONGEST: usize = 1 << 20;

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    /// The version of the format.
    sluice_cluster_invitation: u32,
    element: u16,
    authorities: String,
    certificate: String,
    key: String,
}

/// An element's credentials.
pub struct Invitation {
    /// The element that is invited.
    pub element: u16,
    /// The credentials.
    pub texts: Texts,
}

impl Invitation {
    /// Makes an invitation.
    pub fn new(element: u16, texts: Texts) -> Self {
        Invitation { element, texts }
    }

    /// Writes the file with mode 0600.
    pub fn write(self, path: &Path) -> Result<(), Failure> {
        let Texts { authorities, certificate, key } = self.texts;
        let element = self.element;
        let document =
            Document { sluice_cluster_invitation: VERSION, element, authorities, certificate, key };
        let text =
            serde_json::to_string_pretty(&document).map_err(|error| Failure::failed(error.to_string()))?;
        files::write_secret(path, &(text + "\n"))
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file does not exist, or is no invitation.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let text = files::read(path)?.ok_or_else(|| {
            Failure::failed(format!("{shown} does not exist; `sluice cluster invite` makes invitations"))
        })?;
        let document = parse(&text).map_err(|reason| Failure::failed(format!("{shown}: {reason}")))?;
        let Document { element, authorities, certificate, key, .. } = document;
        Ok(Invitation { element, texts: Texts { authorities, certificate, key } })
    }
}

/// The reason why a file is no invitation.
#[derive(Debug, thiserror::Error)]
enum InvitationError {
    #[error("the file is too long for an invitation")]
    Long,
    /// The parser's own text could repeat a part of the key.
    #[error("the file is no invitation to a cluster, or a damaged one")]
    Other,
    #[error("the invitation has version {0}; this program reads version {VERSION}")]
    Version(u32),
}

fn parse(text: &str) -> Result<Document, InvitationError> {
    if text.len() > LONGEST {
        return Err(InvitationError::Long);
    }
    let document: Document = serde_json::from_str(text).map_err(|_| InvitationError::Other)?;
    match document.sluice_cluster_invitation {
        VERSION => Ok(document),
        other => Err(InvitationError::Version(other)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn invitation() -> Invitation {
        let text = |text: &str| text.to_owned();
        Invitation::new(12, Texts { authorities: text("a"), certificate: text("c"), key: text("k") })
    }

    #[test]
    fn what_is_written_is_read_and_is_the_owners_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("x.invitation");
        std::fs::write(&path, "an older file that others read").expect("a file");
        invitation().write(&path).expect("written");
        let read = Invitation::read(&path).expect("read");
        assert_eq!((read.element, read.texts.key.as_str(), read.texts.authorities.as_str()), (12, "k", "a"));
        let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn other_files_are_refused_without_their_content() {
        let wrong = ["", "{}", "secret", "{\"sluice_cluster_invitation\":1,\"key\":\"secret\"}"];
        for text in wrong {
            let error = parse(text).err().expect(text).to_string();
            assert!(error.contains("invitation") && !error.contains("secret"), "{error}");
        }
        let of = |version: u32| {
            format!(
                "{{\"sluice_cluster_invitation\":{version},\"element\":1,\"authorities\":\"\",\"certificate\":\"\",\"key\":\"\"}}"
            )
        };
        assert!(parse(&of(1)).is_ok());
        assert!(parse(&of(2)).err().expect("refused").to_string().contains("version 2"));
        assert!(parse(&"x".repeat(LONGEST + 1)).err().expect("refused").to_string().contains("too long"));
    }
}
