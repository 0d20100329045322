//! Addresses of machines: which ones a module's leaf takes, and what is said of the others.

use sluice_config::{Module, Schema};

const MODULE: &str = r#"module addresses {
    yang-version 1.1;
    namespace "urn:addresses";
    prefix a;
    import sluice-extensions { prefix sluice; }
    import sluice-router { prefix router; }
    augment "/router:protocols" {
        container addresses {
            presence "It runs.";
            sluice:component "addresses";
            leaf unicast { type sluice:unicast-address; sluice:impact "soft"; }
            leaf global { type sluice:global-address; sluice:impact "soft"; }
            leaf ipv4 { type sluice:ipv4-unicast-address; sluice:impact "soft"; }
            leaf subnet { type sluice:ip-address-and-prefix; sluice:impact "soft"; }
        }
    }
}"#;

#[test]
fn addresses_that_no_machine_can_have_are_refused_with_what_was_expected() {
    let schema = Schema::of(&[Module { name: "addresses", text: MODULE }]).unwrap();
    let refused = |leaf: &str, value: &str| {
        let text = format!("protocols {{ addresses {{ {leaf} {value}; }} }}");
        schema
            .read("r.conf", &text)
            .err()
            .map(|error| error.to_string().lines().next().unwrap_or_default().to_owned())
    };
    let machine =
        "expected the address of one machine: not 0.0.0.0/8, no multicast address, and not 255.255.255.255";
    let machine6 = "expected the address of one machine: neither :: nor a multicast address";
    for leaf in ["unicast", "global", "ipv4"] {
        for value in ["192.0.2.1", "10.0.0.1", "127.0.0.9", "240.0.0.1", "223.255.255.254", "255.255.255.254"]
        {
            assert_eq!(refused(leaf, value), None, "{leaf} {value}");
        }
        for value in ["0.0.0.0", "0.1.2.3", "224.0.0.5", "239.255.255.250", "255.255.255.255"] {
            let said = refused(leaf, value).unwrap_or_default();
            assert!(said.ends_with(machine), "{leaf} {value}: {said}");
        }
        assert!(refused(leaf, "banana").is_some());
    }
    for leaf in ["unicast", "global"] {
        for value in ["2001:db8::1", "::1", "fd00::1", "::ffff:0:1.2.3.4", "ff::1"] {
            assert_eq!(refused(leaf, value), None, "{leaf} {value}");
        }
        for value in ["::", "0::0", "0:0:0:0:0:0:0:0", "::0.0.0.0", "ff02::1", "FF0E::1"] {
            let said = refused(leaf, value).unwrap_or_default();
            assert!(said.ends_with(machine6), "{leaf} {value}: {said}");
        }
        let said = refused(leaf, "::ffff:10.0.0.1").unwrap_or_default();
        assert!(said.ends_with("not one that is mapped into IPv6"), "{said}");
    }
    assert_eq!(refused("unicast", "fe80::1"), None);
    for value in ["fe80::1", "FEBF::1", "fe90:1::2"] {
        let said = refused("global", value).unwrap_or_default();
        assert!(
            said.ends_with("expected an address that needs no interface: not a link-local one"),
            "{said}"
        );
    }
    for value in ["192.0.2.1/24", "2001:db8::1/64", "fe80::1/64", "::1/128", "10.0.0.0/31"] {
        assert_eq!(refused("subnet", value), None, "{value}");
    }
    for (value, expected) in [
        ("0.0.0.0/24", machine),
        ("224.0.0.1/24", machine),
        ("255.255.255.255/32", machine),
        ("::/64", machine6),
        ("ff02::1/64", machine6),
    ] {
        let said = refused("subnet", value).unwrap_or_default();
        assert!(said.ends_with(expected), "{value}: {said}");
    }
}
