//! Forwarding by XDP: the features of build and kernel, and the veth interfaces of this network namespace.

use super::Finding;
use nix::net::if_::if_nameindex;
use sluice_bpf::Embedded;
use sluice_bpf::probe::{Probed, features};
use sluice_lab::ethtool;

/// The driver whose interfaces need settings for XDP.
const VETH: &str = "veth";

/// The most interfaces that are named.
const MOST: usize = 8;

/// Runs the checks of forwarding by XDP.
pub fn findings() -> Vec<Finding> {
    let probed = Embedded::Root.object().map(|_| features());
    vec![programs(probed), links(&veths())]
}

/// Reports the features; `None` is a build without programs.
fn programs(probed: Option<&[Probed]>) -> Finding {
    const CHECK: &str = "xdp";
    let Some(probed) = probed else {
        return Finding::warn(
            CHECK,
            "this executable was built without XDP programs",
            "build it with the feature `xdp` for forwarding by XDP and for `sluice pktgen`; the kernel forwards without it",
        );
    };
    let missing = missing(probed);
    if !missing.is_empty() {
        return Finding::warn(
            CHECK,
            missing.join("; "),
            "run this as root on a kernel with these features for forwarding by XDP; the kernel forwards without it",
        );
    }
    let names: Vec<&str> = probed.iter().map(|one| one.feature.name()).collect();
    Finding::ok(CHECK, format!("the kernel has {}", names.join(", ")))
}

/// Returns a line for each reason, with the features that are missing for it.
fn missing(probed: &[Probed]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for one in probed {
        let Some(reason) = &one.missing else { continue };
        match reasons.iter_mut().find(|(known, _)| known == reason) {
            Some((_, features)) => features.push(one.feature.name()),
            None => reasons.push((reason, vec![one.feature.name()])),
        }
    }
    let line =
        |(reason, features): (&str, Vec<&str>)| format!("no {}, because {reason}", features.join(", "));
    reasons.into_iter().map(line).collect()
}

/// A veth interface and its settings.
struct Veth {
    name: String,
    /// True if received packets are joined, with which the interface has NAPI.
    has_gro: bool,
    /// True if sent packets have unfinished transport checksums.
    has_transmit_checksum: bool,
}

/// Lists the veth interfaces of this network namespace.
fn veths() -> Vec<Veth> {
    let Ok(all) = if_nameindex() else { return Vec::new() };
    let names = all.iter().filter_map(|interface| interface.name().to_str().ok());
    let veth = |name: &str| {
        let is_veth = ethtool::driver(name).is_ok_and(|driver| driver == VETH);
        let settings = is_veth.then(|| (ethtool::gro(name), ethtool::transmit_checksum(name)));
        match settings {
            Some((Ok(has_gro), Ok(has_transmit_checksum))) => {
                Some(Veth { name: name.into(), has_gro, has_transmit_checksum })
            }
            _ => None,
        }
    };
    names.filter_map(veth).collect()
}

/// Reports the settings that frames of an XDP program at the other end would need. They are no fault of a host whose
/// neighbors forward without XDP.
fn links(veths: &[Veth]) -> Finding {
    const CHECK: &str = "xdp-links";
    let is_ready = |veth: &&Veth| veth.has_gro && !veth.has_transmit_checksum;
    let rest: Vec<&Veth> = veths.iter().filter(|veth| !is_ready(veth)).collect();
    if veths.is_empty() {
        return Finding::ok(CHECK, "no veth interface");
    }
    if rest.is_empty() {
        return Finding::ok(
            CHECK,
            format!("veth interfaces that take frames of XDP programs: {}", veths.len()),
        );
    }
    let on = |is_on| if is_on { "on" } else { "off" };
    let mut words: Vec<String> = rest
        .iter()
        .take(MOST)
        .map(|veth| {
            let (gro, checksum) = (on(veth.has_gro), on(veth.has_transmit_checksum));
            format!("{} has GRO {gro} and transmit checksums {checksum}", veth.name)
        })
        .collect();
    if rest.len() > MOST {
        words.push(format!("{} more", rest.len() - MOST));
    }
    Finding::ok(
        CHECK,
        format!(
            "{}; if an XDP program forwards at the other end: ethtool -K NAME gro on tx off",
            words.join(", ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::super::Outcome;
    use super::*;
    use sluice_bpf::probe::Feature;

    fn veth(name: &str, has_gro: bool, has_transmit_checksum: bool) -> Veth {
        Veth { name: name.into(), has_gro, has_transmit_checksum }
    }

    #[test]
    fn missing_features_are_named_with_their_reasons() {
        let probed = |feature, missing: Option<&str>| Probed { feature, missing: missing.map(Into::into) };
        let all = [probed(Feature::Links, None), probed(Feature::Bpffs, None)];
        let found = programs(Some(&all));
        assert_eq!((found.outcome, &*found.found), (Outcome::Ok, "the kernel has links, bpffs"));
        let some = [
            probed(Feature::Programs, Some("it is denied")),
            probed(Feature::Links, None),
            probed(Feature::LiveFrames, Some("it is old")),
            probed(Feature::Bpffs, Some("it is denied")),
        ];
        let found = programs(Some(&some));
        let expected = "no programs, bpffs, because it is denied; no live frames, because it is old";
        assert_eq!((found.outcome, &*found.found), (Outcome::Warn, expected));
        assert_eq!(programs(None).outcome, Outcome::Warn);
    }

    #[test]
    fn interfaces_that_are_not_ready_are_named_with_the_remedy() {
        assert_eq!(links(&[]).found, "no veth interface");
        let ready = veth("eth0", true, false);
        assert!(links(&[ready]).found.ends_with(": 1"));
        let found =
            links(&[veth("eth0", true, false), veth("eth1", false, true), veth("eth2", true, true)]).found;
        assert!(!found.contains("eth0"), "{found}");
        for part in
            ["eth1 has GRO off and transmit checksums on", "eth2 has GRO on", "ethtool -K NAME gro on tx off"]
        {
            assert!(found.contains(part), "{found}");
        }
        let many: Vec<Veth> = (0..20).map(|n| veth(&format!("v{n}"), false, true)).collect();
        assert!(links(&many).found.contains("12 more"));
    }
}
