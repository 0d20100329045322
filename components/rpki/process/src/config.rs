//! The configuration tree (rpki.yang) as the core's settings.

use serde::Deserialize;
use serde_json::Value;
use sluice_base::prefix::PrefixError;
use sluice_base::{Asn, IpPrefix};
use sluice_rpki::exceptions::{Exceptions, Filter};
use sluice_rpki::settings::{CacheSettings, Identity, PORT, Settings, TLS_PORT, TlsSettings};
use sluice_validation::{AnyVrp, Providers};
use std::net::IpAddr;
use std::time::Duration;

/// The reason why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The tree does not fit `rpki.yang`.
    #[error(transparent)]
    Tree(#[from] serde_json::Error),
    /// A text is no prefix.
    #[error("`{text}` is not a prefix: {error}")]
    Prefix {
        /// The text.
        text: String,
        /// The error.
        error: PrefixError,
    },
    /// The maximum length of a ROA does not fit the prefix.
    #[error("roa {prefix} {asn} max-length: `{max_length}` is out of range; expected {least} to {most}")]
    MaxLength {
        /// The prefix.
        prefix: IpPrefix,
        /// The AS.
        asn: Asn,
        /// The maximum length.
        max_length: u8,
        /// The prefix's own length.
        least: u8,
        /// The length of an address.
        most: u8,
    },
    /// A certificate without a key, or a key without a certificate.
    #[error("cache {0} tls: certificate and key belong together; set rpki cache {0} tls {1}")]
    Identity(String, &'static str),
    /// The two addresses of a cache are of different families.
    #[error("cache {0} local-address: `{1}` is of another family than the cache's address {2}")]
    Families(String, IpAddr, IpAddr),
    /// A filter has no condition.
    #[error("filter {0}: it has neither prefix nor as; set rpki filter {0} prefix PREFIX, or as NUMBER")]
    EmptyFilter(String),
    /// An ASPA has no provider.
    #[error(
        "aspa {0}: it has no provider; set rpki aspa {0} provider NUMBER, or provider 0 for an AS without providers"
    )]
    NoProvider(Asn),
    /// An ASPA has AS 0 beside providers.
    #[error("aspa {0} provider: `0` stands for an AS without providers, and stands alone")]
    ZeroBesideOthers(Asn),
    /// An AS is its own provider (draft-ietf-sidrops-aspa-profile).
    #[error("aspa {0} provider: `{0}` cannot be its own provider")]
    OwnProvider(Asn),
}

#[derive(Deserialize)]
struct Tree {
    #[serde(default)]
    cache: Vec<Cache>,
    #[serde(default)]
    roa: Vec<Roa>,
    #[serde(default)]
    filter: Vec<TreeFilter>,
    #[serde(default)]
    aspa: Vec<Aspa>,
    #[serde(default, rename = "aspa-filter")]
    aspa_filter: Vec<u32>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cache {
    name: String,
    address: IpAddr,
    port: Option<u16>,
    local_address: Option<IpAddr>,
    #[serde(default = "default_preference")]
    preference: u8,
    refresh_interval: Option<u32>,
    retry_interval: Option<u32>,
    expire_interval: Option<u32>,
    tls: Option<Tls>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Tls {
    server_name: Option<String>,
    #[serde(default = "default_authorities")]
    authorities: String,
    certificate: Option<String>,
    key: Option<String>,
}

fn default_authorities() -> String {
    "ca.crt".into()
}

const fn default_preference() -> u8 {
    100
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Roa {
    prefix: String,
    r#as: u32,
    max_length: Option<u8>,
}

#[derive(Deserialize)]
struct TreeFilter {
    name: String,
    prefix: Option<String>,
    r#as: Option<u32>,
}

#[derive(Deserialize)]
struct Aspa {
    customer: u32,
    #[serde(default)]
    provider: Vec<u32>,
}

/// Reads the component's part of a configuration.
///
/// # Errors
/// The first invalid statement.
pub fn settings(part: Value) -> Result<Settings, ConfigError> {
    let tree: Tree = serde_json::from_value(part)?;
    let caches = tree.cache.into_iter().map(cache).collect::<Result<_, _>>()?;
    let assertions = tree.roa.into_iter().map(roa).collect::<Result<_, _>>()?;
    let filters = tree.filter.into_iter().map(filter).collect::<Result<_, _>>()?;
    let aspa_assertions = tree.aspa.into_iter().map(aspa).collect::<Result<_, _>>()?;
    let aspa_filters = tree.aspa_filter.into_iter().map(Asn).collect();
    let exceptions = Exceptions { assertions, filters, aspa_assertions, aspa_filters };
    Ok(Settings { caches, exceptions })
}

fn cache(cache: Cache) -> Result<CacheSettings, ConfigError> {
    let Cache { name, address, local_address, preference, .. } = cache;
    let tls = cache.tls.map(|written| tls(&name, written)).transpose()?;
    let port = cache.port.unwrap_or(if tls.is_some() { TLS_PORT } else { PORT });
    if let Some(local) = local_address.filter(|local| local.is_ipv4() != address.is_ipv4()) {
        return Err(ConfigError::Families(name, local, address));
    }
    let seconds = |time: Option<u32>| time.map(|time| Duration::from_secs(time.into()));
    let (refresh, retry) = (seconds(cache.refresh_interval), seconds(cache.retry_interval));
    let expire = seconds(cache.expire_interval);
    Ok(CacheSettings { name, address, port, local_address, tls, preference, refresh, retry, expire })
}

fn tls(cache: &str, written: Tls) -> Result<TlsSettings, ConfigError> {
    let Tls { server_name, authorities, certificate, key } = written;
    let identity = match (certificate, key) {
        (Some(certificate), Some(key)) => Some(Identity { certificate, key }),
        (None, None) => None,
        (None, Some(_)) => return Err(ConfigError::Identity(cache.into(), "certificate FILE")),
        (Some(_), None) => return Err(ConfigError::Identity(cache.into(), "key FILE")),
    };
    Ok(TlsSettings { server_name, authorities, identity })
}

fn prefix(text: String) -> Result<IpPrefix, ConfigError> {
    IpPrefix::parse_subnet(&text).map_err(|error| ConfigError::Prefix { text, error })
}

fn roa(roa: Roa) -> Result<AnyVrp, ConfigError> {
    let (prefix, asn) = (prefix(roa.prefix)?, Asn(roa.r#as));
    let max_length = roa.max_length.unwrap_or(prefix.len());
    AnyVrp::new(prefix, max_length, asn).ok_or_else(|| {
        let most = if prefix.addr().is_ipv4() { 32 } else { 128 };
        ConfigError::MaxLength { prefix, asn, max_length, least: prefix.len(), most }
    })
}

fn aspa(aspa: Aspa) -> Result<(Asn, Providers), ConfigError> {
    let customer = Asn(aspa.customer);
    let mut asns: Vec<Asn> = aspa.provider.into_iter().map(Asn).collect();
    asns.sort_unstable();
    asns.dedup();
    if asns.contains(&customer) {
        return Err(ConfigError::OwnProvider(customer));
    }
    let is_empty = asns.is_empty();
    let wrong = if is_empty { ConfigError::NoProvider } else { ConfigError::ZeroBesideOthers };
    // The schema bounds the number of providers.
    Providers::new(asns).map(|providers| (customer, providers)).ok_or_else(|| wrong(customer))
}

fn filter(filter: TreeFilter) -> Result<Filter, ConfigError> {
    let (prefix, asn) = (filter.prefix.map(prefix).transpose()?, filter.r#as.map(Asn));
    if prefix.is_none() && asn.is_none() {
        return Err(ConfigError::EmptyFilter(filter.name));
    }
    Ok(Filter { prefix, asn })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn reads_all_that_the_schema_has() {
        let read = settings(json!({
            "cache": [
                {"name": "near", "address": "192.0.2.1", "port": 3323, "local-address": "192.0.2.9", "preference": 1,
                 "refresh-interval": 10, "retry-interval": 20, "expire-interval": 30},
                {"name": "far", "address": "2001:db8::1"},
                {"name": "safe", "address": "2001:db8::2", "tls": {"server-name": "cache.example", "certificate": "a", "key": "b"}},
            ],
            "roa": [{"prefix": "192.0.2.1/24", "as": 65001, "max-length": 26}, {"prefix": "2001:db8::/32", "as": 0}],
            "filter": [{"name": "a", "prefix": "10.0.0.0/8"}, {"name": "b", "as": 65002}],
            "aspa": [{"customer": 65001, "provider": [65003, 65002, 65003]}, {"customer": 65009, "provider": [0]}],
            "aspa-filter": [65004, 65005],
        }))
        .expect("valid");
        let near = &read.caches[0];
        assert_eq!((near.name.as_str(), near.port, near.preference), ("near", 3323, 1));
        let times = [near.refresh, near.retry, near.expire].map(|time| time.map(|time| time.as_secs()));
        assert_eq!(times, [Some(10), Some(20), Some(30)]);
        assert_eq!((read.caches[1].port, read.caches[1].preference), (323, 100));
        let safe = &read.caches[2];
        let tls = safe.tls.as_ref().expect("TLS");
        assert_eq!((safe.port, &*tls.authorities, tls.identity.is_some()), (324, "ca.crt", true));
        let roas: Vec<String> = read.exceptions.assertions.iter().map(ToString::to_string).collect();
        assert_eq!(roas, ["192.0.2.0/24 up to /26 AS 65001", "2001:db8::/32 AS 0"]);
        assert_eq!(read.exceptions.filters[1], Filter { prefix: None, asn: Some(Asn(65002)) });
        let aspas: Vec<String> = read
            .exceptions
            .aspa_assertions
            .iter()
            .map(|(customer, providers)| format!("{customer}: {providers}"))
            .collect();
        assert_eq!(aspas, ["65001: 65002 65003", "65009: 0"]);
        assert_eq!(read.exceptions.aspa_filters, [Asn(65004), Asn(65005)]);
        assert_eq!(settings(json!({})).expect("valid"), Settings::default());
    }

    #[test]
    fn contradictions_are_refused() {
        let refused = |part: Value| settings(part).expect_err("refused").to_string();
        let error = refused(json!({"roa": [{"prefix": "192.0.2.0/24", "as": 1, "max-length": 23}]}));
        assert!(error.contains("max-length: `23` is out of range; expected 24 to 32"), "{error}");
        let cache = json!({"name": "a", "address": "192.0.2.1", "local-address": "2001:db8::1"});
        assert!(refused(json!({"cache": [cache]})).contains("another family"));
        let cache = json!({"name": "a", "address": "192.0.2.1", "tls": {"key": "b"}});
        assert!(refused(json!({"cache": [cache]})).contains("set rpki cache a tls certificate FILE"));
        assert!(refused(json!({"filter": [{"name": "none"}]})).contains("set rpki filter none"));
        for (providers, expected) in [
            (json!([]), "aspa 7: it has no provider; set rpki aspa 7 provider NUMBER"),
            (json!([0, 1]), "aspa 7 provider: `0` stands for an AS without providers"),
            (json!([1, 7]), "aspa 7 provider: `7` cannot be its own provider"),
        ] {
            let error = refused(json!({"aspa": [{"customer": 7, "provider": providers}]}));
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
