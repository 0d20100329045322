//! TLS to caches (RFC 8210, section 9.2). Certificates and keys come from the manager for each connection, so that renewed ones count at
//! once.

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sluice_process::Frame;
use sluice_rpki::settings::{Identity, TlsSettings};
use sluice_xrl::XrlError;
use sluice_xrl::idl::manager::v1 as manager;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The reason why a connection is not protected, and therefore not made.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The manager has no such file.
    #[error("TLS: {0}; put the file into credentials/rpki of the state folder")]
    Missing(XrlError),
    /// The manager sent another number of files than asked for.
    #[error("TLS: the manager sent {0} files")]
    Files(usize),
    /// A file is not as RFC 7468 has it.
    #[error("TLS: {0}: {1}")]
    Pem(String, pem::Error),
    /// A file has no certificate.
    #[error("TLS: {0} has no certificate")]
    Empty(String),
    /// The configured name is no name.
    #[error("TLS: server-name: {0}")]
    Name(#[from] InvalidDnsNameError),
    /// The library refuses a certificate or a key.
    #[error("TLS: {0}")]
    Refused(#[from] rustls::Error),
    /// The handshake failed.
    #[error("TLS: {0}")]
    Handshake(io::Error),
}

/// Protects a connection to a cache at `address`.
///
/// # Errors
/// Files are missing or wrong, or the ends do not trust each other.
pub async fn connect(
    frame: &Frame,
    settings: &TlsSettings,
    address: IpAddr,
    stream: TcpStream,
) -> Result<TlsStream<TcpStream>, TlsError> {
    let name = match &settings.server_name {
        Some(name) => ServerName::try_from(name.clone())?,
        None => ServerName::IpAddress(address.into()),
    };
    let identity = settings.identity.iter().flat_map(|Identity { certificate, key }| [certificate, key]);
    let names: Vec<String> = [&settings.authorities].into_iter().chain(identity).cloned().collect();
    let client = manager::HelpersClient::new(&frame.router, "manager");
    let reply = client.fetch_credentials(manager::FetchCredentialsRequest { names }).await;
    let config = config(settings, &reply.map_err(TlsError::Missing)?.files)?;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(TlsError::Handshake)
}

/// Returns the library's settings by the contents of the files.
fn config(settings: &TlsSettings, files: &[Vec<u8>]) -> Result<ClientConfig, TlsError> {
    let (authorities, identity) = match (files, &settings.identity) {
        ([authorities], None) => (authorities, None),
        ([authorities, certificate, key], Some(identity)) => {
            (authorities, Some((certificate, key, identity)))
        }
        (files, _) => return Err(TlsError::Files(files.len())),
    };
    let mut roots = RootCertStore::empty();
    for authority in certificates(&settings.authorities, authorities)? {
        roots.add(authority)?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_root_certificates(roots);
    let Some((certificate, key, names)) = identity else { return Ok(builder.with_no_client_auth()) };
    let chain = certificates(&names.certificate, certificate)?;
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| TlsError::Pem(names.key.clone(), error))?;
    Ok(builder.with_client_auth_cert(chain, key)?)
}

fn certificates(file: &str, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let read = read.map_err(|error| TlsError::Pem(file.into(), error))?;
    if read.is_empty() { Err(TlsError::Empty(file.into())) } else { Ok(read) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_of_no_use_are_named() {
        let settings = TlsSettings {
            server_name: None,
            authorities: "ca.crt".into(),
            identity: Some(Identity { certificate: "router.crt".into(), key: "router.key".into() }),
        };
        let refused = |files: &[Vec<u8>]| config(&settings, files).expect_err("refused").to_string();
        assert_eq!(refused(&[Vec::new()]), "TLS: the manager sent 1 files");
        assert_eq!(refused(&[Vec::new(), Vec::new(), Vec::new()]), "TLS: ca.crt has no certificate");
        let torn = b"-----BEGIN CERTIFICATE-----\nAAAA".to_vec();
        assert!(refused(&[torn, Vec::new(), Vec::new()]).starts_with("TLS: ca.crt: "));
        let wrong = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_vec();
        assert!(refused(&[wrong, Vec::new(), Vec::new()]).starts_with("TLS: "));
    }
}
