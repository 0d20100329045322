//! The credentials of this element. The component fetches the credentials from the manager for each connection, so that renewed
//! credentials count at once.

use crate::credentials::{AUTHORITIES, CERTIFICATE, Credentials, CredentialsError, KEY};
use sluice_cluster::inventory::ElementId;
use sluice_process::Frame;
use sluice_xrl::XrlError;
use sluice_xrl::idl::manager::v1 as manager;

/// Advice for the operator.
const ADVICE: &str =
    "run `sluice cluster init` on one machine, `sluice cluster invite` there, and `sluice cluster join` here";

/// The reason why this element has no certificate.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The manager has no credentials for the component.
    #[error("no certificate: {0}; {ADVICE}")]
    Missing(XrlError),
    /// The manager sends another number of files than asked for.
    #[error("no certificate: the manager sent {0} files")]
    Files(usize),
    /// The credentials are of no use.
    #[error("no certificate: {0}; {ADVICE}")]
    Credentials(#[from] CredentialsError),
    /// The credentials are of another element: the numbers of both.
    #[error("this machine is element {0}, and its certificate is of element {1}; {ADVICE}")]
    Other(u16, u16),
}

/// Returns the credentials of `element`, this machine's element.
///
/// # Errors
/// The manager has no credentials, or the credentials are not valid, or of another element.
pub async fn fetch(frame: &Frame, element: ElementId) -> Result<Credentials, IdentityError> {
    let client = manager::HelpersClient::new(&frame.router, "manager");
    let names = [AUTHORITIES, CERTIFICATE, KEY].map(String::from).into();
    let reply = client.fetch_credentials(manager::FetchCredentialsRequest { names }).await;
    let files = reply.map_err(IdentityError::Missing)?.files;
    let [authorities, certificate, key] = files.as_slice() else {
        return Err(IdentityError::Files(files.len()));
    };
    let credentials = Credentials::parse(authorities, certificate, key)?;
    match credentials.element() {
        own if own == element => Ok(credentials),
        other => Err(IdentityError::Other(element.number(), other.number())),
    }
}
