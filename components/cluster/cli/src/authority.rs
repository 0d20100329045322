//! The authority of a cluster: a key for the signatures of elements' certificates (RFC 5280).

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose,
};
use sluice_cluster::inventory::ElementId;
use sluice_cluster::roster::serial_number;
use sluice_cluster_process::credentials::{machine_name, name_of};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

const DAY: Duration = Duration::from_secs(86_400);
/// The validity of the authority's certificate.
const AUTHORITY_DAYS: u32 = 30 * 365;
/// The time before now at which the validity begins: clocks of elements may be behind.
const BEFORE: Duration = DAY;
/// The authority's name in certificates.
const NAME: &str = "Sluice cluster";

/// A key pair that signs.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key, as texts of RFC 7468.
pub struct Issued {
    /// The certificate.
    pub certificate: String,
    /// The secret key.
    pub key: String,
    /// The end of the certificate's validity.
    pub until: SystemTime,
}

fn named(name: &str) -> DistinguishedName {
    let mut named = DistinguishedName::new();
    named.push(DnType::CommonName, name);
    named
}

fn valid_for(params: &mut CertificateParams, days: u32) -> SystemTime {
    let now = SystemTime::now();
    let until = now + DAY * days;
    (params.not_before, params.not_after) = ((now - BEFORE).into(), until.into());
    until
}

/// Returns the parameters of the authority's certificate, the same for each authority: the key alone is enough to sign.
fn of_authority() -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(NAME);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    params
}

impl Authority {
    /// Makes an authority, and returns the certificate and the key beside the authority.
    pub fn new() -> Result<(Self, Issued), rcgen::Error> {
        let key = KeyPair::generate()?;
        let mut params = of_authority();
        let until = valid_for(&mut params, AUTHORITY_DAYS);
        let certificate = params.self_signed(&key)?.pem();
        let issued = Issued { certificate, key: key.serialize_pem(), until };
        Ok((Authority { issuer: Issuer::new(params, key) }, issued))
    }

    /// Reads the authority's key.
    pub(crate) fn of_key(key: &str) -> Result<Self, rcgen::Error> {
        Ok(Authority { issuer: Issuer::new(of_authority(), KeyPair::from_pem(key)?) })
    }

    /// Makes a certificate and a key for a machine of an element with the addresses. Machines have numbers from 1.
    pub fn issue(
        &self,
        (element, machine): (ElementId, u32),
        addresses: &[IpAddr],
        days: u32,
    ) -> Result<Issued, rcgen::Error> {
        let name = name_of(element);
        let addresses = addresses.iter().map(ToString::to_string);
        let names: Vec<String> =
            [name.clone()].into_iter().chain(machine_name(machine)).chain(addresses).collect();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name = named(&name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        params.use_authority_key_identifier_extension = true;
        params.serial_number = Some(serial_number(element, machine).to_vec().into());
        let until = valid_for(&mut params, days);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        Ok(Issued { certificate, key: key.serialize_pem(), until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_cluster_process::credentials::Credentials;

    #[test]
    fn elements_have_valid_certificates_of_their_authority_only() {
        let (authority, own) = Authority::new().expect("an authority");
        let (_, other) = Authority::new().expect("another authority");
        let element = ElementId::new(21).expect("an element");
        let again = Authority::of_key(&own.key).expect("the key");
        for (signer, machine) in [(&authority, 1), (&again, 2)] {
            let address = "10.9.0.21".parse().expect("an address");
            let issued = signer.issue((element, machine), &[address], 30).expect("issued");
            let parse = |authority: &Issued, key: &str| {
                Credentials::parse(
                    authority.certificate.as_bytes(),
                    issued.certificate.as_bytes(),
                    key.as_bytes(),
                )
            };
            let parsed = parse(&own, &issued.key).expect("valid");
            assert_eq!((parsed.element(), parsed.machine()), (element, machine));
            let error = parse(&other, &issued.key).expect_err("another authority").to_string();
            assert!(error.contains("certificate"), "{error}");
            assert!(parse(&own, &other.key).is_err(), "another key");
            assert!(parse(&own, "no key").is_err());
            assert!(parse(&own, &issued.key).expect("valid").client(b"h2").is_ok());
        }
    }

    #[test]
    fn the_authority_is_no_element() {
        let (_, own) = Authority::new().expect("an authority");
        let octets = own.certificate.as_bytes();
        let error = Credentials::parse(octets, octets, own.key.as_bytes()).expect_err("no element");
        assert!(error.to_string().contains("names no element"), "{error}");
    }
}
