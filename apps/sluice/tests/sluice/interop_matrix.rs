//! The matrix of features proved beside other daemons: `docs/interop.md` is made of the rows here, and each row names the test that
//! proves it. `SLUICE_WRITE_INTEROP=1` writes the document again.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The peers of the matrix, in the order of its columns.
const PEERS: [&str; 5] = ["BIRD", "FRR", "OpenBGPD", "GoBGP", "ExaBGP"];

/// A feature, the address family of its routes, the peers that a test proves it with, and the test: file and function.
type Row = (&'static str, &'static str, &'static [&'static str], &'static str, &'static str);

const BIRD_FRR: &[&str] = &["BIRD", "FRR"];
const ALL: &[&str] = &PEERS;

#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("TCP MD5 signatures (RFC 2385)", "IPv4, IPv6", BIRD_FRR, "interop.rs", "passwords_and_ttl_security_with_bird_and_frr"),
    ("GTSM (RFC 5082)", "IPv4, IPv6", BIRD_FRR, "interop.rs", "passwords_and_ttl_security_with_bird_and_frr"),
    ("next hops on a LAN (RFC 4271, 5.1.3; RFC 2545)", "IPv4, IPv6", BIRD_FRR, "shared_lan.rs", "next_hops_on_a_lan_with_bird_and_frr"),
    ("enhanced route refresh (RFC 7313)", "IPv4, IPv6", &["BIRD", "FRR", "OpenBGPD"], "messages.rs", "refreshes_are_marked_and_long_routes_go_where_they_fit"),
    ("extended messages (RFC 8654)", "IPv4, IPv6", BIRD_FRR, "messages.rs", "refreshes_are_marked_and_long_routes_go_where_they_fit"),
    ("outbound route filters (RFC 5292)", "IPv4, IPv6", &["FRR"], "messages.rs", "filters_by_prefix_go_both_ways"),
    ("several paths sent (ADD-PATH, RFC 7911)", "IPv4, IPv6", BIRD_FRR, "add_path.rs", "a_reflector_sends_all_paths_to_bird_and_frr"),
    ("several paths sent (ADD-PATH, RFC 7911)", "IPv4, IPv6", &["GoBGP", "ExaBGP"], "add_path.rs", "several_paths_from_and_to_gobgp_and_exabgp"),
    ("several paths received (ADD-PATH, RFC 7911)", "IPv4, IPv6", BIRD_FRR, "add_path.rs", "all_paths_of_reflectors_are_received"),
    ("several paths received (ADD-PATH, RFC 7911)", "IPv4, IPv6", &["GoBGP", "ExaBGP"], "add_path.rs", "several_paths_from_and_to_gobgp_and_exabgp"),
    ("route reflection (RFC 4456)", "IPv4, IPv6", BIRD_FRR, "reflection.rs", "bird_and_frr_are_clients"),
    ("route server (RFC 7947)", "IPv4, IPv6", &["BIRD", "FRR", "OpenBGPD"], "exchange_lan.rs", "each_member_has_what_its_policy_says"),
    ("roles and ONLY_TO_CUSTOMER (RFC 9234)", "IPv4, IPv6", &["BIRD"], "exchange_lan.rs", "each_member_has_what_its_policy_says"),
    ("BLACKHOLE (RFC 7999)", "IPv4, IPv6", &["BIRD"], "exchange_lan.rs", "each_member_has_what_its_policy_says"),
    ("local AS of before", "IPv4, IPv6", BIRD_FRR, "reflection.rs", "neighbors_know_the_router_by_another_as"),
    ("graceful restart of the peer (RFC 4724)", "IPv4, IPv6", &["FRR"], "restart.rs", "frr_restarts_and_no_packet_is_lost"),
    ("graceful restart of the peer (RFC 4724)", "IPv4, IPv6", &["ExaBGP"], "restart.rs", "exabgp_restarts_and_no_packet_is_lost"),
    ("graceful restart of the peer (RFC 4724)", "IPv4, IPv6", &["GoBGP"], "restart.rs", "gobgp_restarts_and_no_packet_is_lost"),
    ("graceful restart of Sluice (RFC 4724)", "IPv4, IPv6", &["FRR"], "restart.rs", "sluice_restarts_and_its_neighbors_keep_its_routes"),
    ("graceful restart of Sluice (RFC 4724)", "IPv4, IPv6", &["OpenBGPD", "GoBGP"], "restart.rs", "gobgp_and_openbgpd_keep_routes_while_sluice_restarts"),
    ("NOTIFICATION with graceful restart (RFC 8538)", "IPv4, IPv6", &["FRR"], "restart.rs", "a_notification_of_frr_keeps_routes_unless_it_is_a_hard_reset"),
    ("long-lived graceful restart (RFC 9494)", "IPv4, IPv6", &["BIRD"], "restart.rs", "routes_of_bird_stay_as_a_last_resort"),
    ("routes withdrawn while BGP was dead", "IPv4, IPv6", ALL, "withdrawn_meanwhile.rs", "a_route_that_was_withdrawn_while_bgp_was_dead_goes"),
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sluice")
}

/// Returns the document that the rows make.
fn document() -> String {
    let mut text = "# Interoperability\n\nThis page lists the features that the tests prove with Sluice beside other daemons, in the versions of \
         the Debian packages that `dist/setup` installs. A\ncell without a mark is not tested, which says nothing about whether the feature \
         works. `apps/sluice/tests/sluice/interop_matrix.rs` makes this page.\n\n"
        .to_owned();
    writeln!(text, "| feature | family | {} |", PEERS.join(" | ")).unwrap();
    writeln!(text, "|---|---|{}", "---|".repeat(PEERS.len())).unwrap();
    let mut features: Vec<(&str, &str)> = Vec::new();
    for (feature, family, ..) in ROWS {
        if !features.contains(&(feature, family)) {
            features.push((feature, family));
        }
    }
    let rows = |of: &(&str, &str)| {
        let of = (of.0.to_owned(), of.1.to_owned());
        ROWS.iter().filter(move |(feature, family, ..)| (*feature, *family) == (&*of.0, &*of.1))
    };
    for feature in &features {
        let proved: BTreeSet<&str> =
            rows(feature).flat_map(|(.., peers, _, _)| peers.iter().copied()).collect();
        let cells = PEERS.map(|peer| if proved.contains(peer) { "yes" } else { "" });
        writeln!(text, "| {} | {} | {} |", feature.0, feature.1, cells.join(" | ")).unwrap();
    }
    text.push_str(
        "\n## Tests\n\nEach test needs the daemons that it names, and is skipped without them.\n\n",
    );
    text.push_str("| feature | peers | test |\n|---|---|---|\n");
    for (feature, _, peers, file, test) in ROWS {
        writeln!(
            text,
            "| {feature} | {} | `{test}` in `apps/sluice/tests/sluice/{file}` |",
            peers.join(", ")
        )
        .unwrap();
    }
    text
}

#[test]
fn the_document_says_what_the_rows_say() {
    let path = folder().join("../../../../docs/interop.md");
    let document = document();
    if std::env::var_os("SLUICE_WRITE_INTEROP").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, document, "SLUICE_WRITE_INTEROP=1 writes docs/interop.md again");
}

#[test]
fn each_row_has_a_test_with_its_peers() {
    for (feature, _, peers, file, test) in ROWS {
        let source = std::fs::read_to_string(folder().join(file)).unwrap();
        assert!(source.contains(&format!("#[test]\nfn {test}() {{")), "{feature}: {file} has no test {test}");
        for peer in *peers {
            assert!(PEERS.contains(peer), "{feature}: {peer}");
            let daemon = peer.to_lowercase();
            assert!(source.contains(&daemon), "{feature}: {file} starts no {peer}");
        }
    }
}
