//! The element's certificate and key, and the authorities of the cluster, for TLS 1.3 between elements (RFC 8446). The name
//! `element-NUMBER` in a certificate names the element.

use rcgen::{
    CertificateParams, CertificateRevocationListParams, Issuer, KeyIdMethod, KeyPair, RevokedCertParams,
};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use sluice_cluster::inventory::ElementId;
use sluice_cluster::roster::FIRST_MACHINE;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The file of the authorities' certificates, in the folder of an element's credentials.
pub const AUTHORITIES: &str = "ca.crt";
/// The file of the element's certificate.
pub const CERTIFICATE: &str = "element.crt";
/// The file of the element's key.
pub const KEY: &str = "element.key";

/// The beginning of an element's name in its certificate.
const NAME: &str = "element-";
/// The beginning of the name with the number of the element's machine.
const MACHINE: &str = "machine-";

/// The validity of a list of revoked certificates, which is written anew when it changes.
const LIST_VALID: Duration = Duration::from_secs(3650 * 86_400);

/// The reason why credentials are of no use.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A text is not as RFC 7468 has it.
    #[error("{0}: {1}")]
    Pem(&'static str, pem::Error),
    /// A text has no certificate.
    #[error("{0} has no certificate")]
    Empty(&'static str),
    /// The certificate names no element.
    #[error("{CERTIFICATE} names no element of a cluster")]
    NoElement,
    /// The certificate is not valid, or the key is another certificate's.
    #[error("the certificate of this element: {0}")]
    Tls(#[from] rustls::Error),
    /// The authorities are of no use.
    #[error("{AUTHORITIES}: {0}")]
    Authorities(#[from] rustls::client::VerifierBuilderError),
}

/// Valid credentials: a certificate of the authorities, and the key of the certificate.
#[derive(Debug)]
pub struct Credentials {
    element: ElementId,
    machine: u32,
    authorities: Arc<RootCertStore>,
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

/// Returns the name of an element in its certificate.
pub fn name_of(element: ElementId) -> String {
    format!("{NAME}{}", element.number())
}

/// Returns the element that a certificate names.
pub(crate) fn element_of(certificate: &CertificateDer<'_>) -> Option<ElementId> {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok()?;
    let number = certificate.valid_dns_names().find_map(|name| name.strip_prefix(NAME)?.parse().ok())?;
    ElementId::new(number)
}

/// Returns the name of an element's machine in a certificate; `None` for the first machine, which needs no name.
pub fn machine_name(machine: u32) -> Option<String> {
    (machine > FIRST_MACHINE).then(|| format!("{MACHINE}{machine}"))
}

/// Returns the number of the element's machine that a certificate names: the first one without a name.
pub(crate) fn machine_of(certificate: &CertificateDer<'_>) -> u32 {
    let certificate = webpki::EndEntityCert::try_from(certificate).ok();
    let number = certificate
        .and_then(|known| known.valid_dns_names().find_map(|name| name.strip_prefix(MACHINE)?.parse().ok()));
    number.unwrap_or(FIRST_MACHINE)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn certificates(file: &'static str, text: &[u8]) -> Result<Vec<CertificateDer<'static>>, CredentialsError> {
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text).collect();
    let read = read.map_err(|error| CredentialsError::Pem(file, error))?;
    if read.is_empty() { Err(CredentialsError::Empty(file)) } else { Ok(read) }
}

impl Credentials {
    /// Reads the texts of the three files.
    ///
    /// # Errors
    /// The certificate is none of the authorities', is not valid at this time, or does not fit the key.
    pub fn parse(authorities: &[u8], certificate: &[u8], key: &[u8]) -> Result<Self, CredentialsError> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(AUTHORITIES, authorities)? {
            roots.add(authority)?;
        }
        let authorities = Arc::new(roots);
        let chain = certificates(CERTIFICATE, certificate)?;
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|error| CredentialsError::Pem(KEY, error))?;
        let (own, between) = chain.split_first().ok_or(CredentialsError::Empty(CERTIFICATE))?;
        let element = element_of(own).ok_or(CredentialsError::NoElement)?;
        let name = ServerName::try_from(name_of(element)).map_err(|_| CredentialsError::NoElement)?;
        WebPkiServerVerifier::builder_with_provider(Arc::clone(&authorities), provider())
            .build()?
            .verify_server_cert(own, between, &name, &[], UnixTime::now())?;
        CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider())?.keys_match()?;
        let machine = machine_of(own);
        Ok(Credentials { element, machine, authorities, chain, key })
    }

    /// Returns the settings of a server that asks for certificates of the cluster's authorities.
    ///
    /// # Errors
    /// The library refuses the certificate.
    pub fn server(&self, protocol: &[u8]) -> Result<ServerConfig, CredentialsError> {
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::clone(&self.authorities), provider());
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_client_cert_verifier(verifier.build()?)
            .with_single_cert(self.chain.clone(), self.key.clone_key())?;
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(config)
    }

    /// Returns a list of revoked certificates (RFC 5280, section 5), as DER, by their serial numbers. The own key signs the list: the servers of
    /// the store read it from their own disk, and verify no signature.
    ///
    /// # Errors
    /// The key does not sign.
    pub(crate) fn revocations(
        &self,
        serial_numbers: impl IntoIterator<Item = Vec<u8>>,
        now: SystemTime,
    ) -> Result<Vec<u8>, rcgen::Error> {
        let params = CertificateParams::new(vec![name_of(self.element)])?;
        let issuer = Issuer::new(params, KeyPair::try_from(&self.key)?);
        let revoked = |number: Vec<u8>| RevokedCertParams {
            serial_number: number.into(),
            revocation_time: now.into(),
            reason_code: None,
            invalidity_date: None,
        };
        let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let list = CertificateRevocationListParams {
            this_update: now.into(),
            next_update: (now + LIST_VALID).into(),
            crl_number: since.as_secs().into(),
            issuing_distribution_point: None,
            revoked_certs: serial_numbers.into_iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        Ok(list.signed_by(&issuer)?.der().to_vec())
    }

    /// Returns the element of the certificate.
    pub fn element(&self) -> ElementId {
        self.element
    }

    /// Returns the number of the element's machine, from 1.
    pub fn machine(&self) -> u32 {
        self.machine
    }

    /// Returns the settings of a client with the element's certificate. The client trusts the cluster's authorities only. `protocol` is the
    /// client's protocol (RFC 7301).
    ///
    /// # Errors
    /// The library refuses the certificate.
    pub fn client(&self, protocol: &[u8]) -> Result<ClientConfig, CredentialsError> {
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(Arc::clone(&self.authorities))
            .with_client_auth_cert(self.chain.clone(), self.key.clone_key())?;
        config.alpn_protocols = vec![protocol.to_vec()];
        Ok(config)
    }
}
