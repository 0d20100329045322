//! A cache behind TLS (RFC 8210, section 9.2): no data without trust, and sessions with a certificate of the configured name.

use crate::SLUICE;
use crate::rpki::network::{self, Cache, Plan};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use sluice_base::Asn;
use sluice_load::table::RoutingTable;
use sluice_router_lab::{self, RouterLab, share};
use sluice_validation::AnyVrp;
use std::path::Path;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// The name in the certificate of the cache.
const NAME: &str = "cache.example";

fn problem(lab: &RouterLab) -> String {
    lab.ask(&["show", "rpki", "cache"])["caches"][0]["problem"].as_str().unwrap_or_default().into()
}

/// Writes the key and the certificate of a cache. Returns the certificate of the authority.
fn certificates(folder: &Path) -> String {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let authority = params.self_signed(&key).unwrap().pem();
    let own = KeyPair::generate().unwrap();
    let names = vec![NAME.to_string()];
    let certificate =
        CertificateParams::new(names).unwrap().signed_by(&own, &Issuer::new(params, key)).unwrap();
    std::fs::write(folder.join("cache.crt"), certificate.pem()).unwrap();
    std::fs::write(folder.join("cache.key"), own.serialize_pem()).unwrap();
    authority
}

pub fn run() {
    let _share = share();
    let router = format!(
        "rpki {{ cache near {{ address 10.9.0.11; retry-interval 1; refresh-interval 1; \
         tls {{ server-name {NAME}; }} }} }}\npolicy {{ policy-statement rov {{ term all {{ then {{ accept; }} }} }} }}"
    );
    let plan =
        Plan { router: &router, bgp: "", table: &RoutingTable::new(std::iter::empty()), has_others: false };
    let mut lab = RouterLab::up(&plan.topology(), Path::new(SLUICE));
    let mut cache = Cache::new(&lab, "cache1");
    cache.set([&AnyVrp::new("192.0.2.0/24".parse().unwrap(), 24, Asn(65001)).unwrap()]);
    let authority = certificates(cache.folder());
    let [certificate, key] = ["cache.crt", "cache.key"].map(|name| cache.folder().join(name));
    cache.start_with(
        &mut lab,
        &["-tls.bind", ":324", "-tls.cert", certificate.to_str().unwrap(), "-tls.key", key.to_str().unwrap()],
    );
    lab.until("the router misses the authorities", |lab| {
        problem(lab).contains("put the file into credentials/rpki")
    });
    let folder = lab.lab.dir("sluice").join("run/state/credentials/rpki");
    std::fs::create_dir_all(&folder).unwrap();
    // A stranger's authority first.
    std::fs::write(folder.join("ca.crt"), certificates(&lab.lab.dir("cache2"))).unwrap();
    lab.until("the router does not trust the cache", |lab| problem(lab).contains("invalid peer certificate"));
    network::until_payloads(&lab, PATIENCE, None);
    std::fs::write(folder.join("ca.crt"), &authority).unwrap();
    network::until_payloads(&lab, PATIENCE, Some(1));
    let shown = lab.ask(&["show", "rpki", "cache"]);
    assert_eq!((&shown["caches"][0]["tls"], &shown["caches"][0]["port"]), (&true.into(), &324.into()));
    // Another name than that of the certificate.
    sluice_router_lab::bird::commit(&lab, "set rpki cache near tls server-name other.example");
    lab.until("the cache has another name", |lab| problem(lab).contains("not valid for name"));
}
