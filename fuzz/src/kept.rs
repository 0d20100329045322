//! Files of the router and of packages, the manager's messages to components, and the kernel's patterns for cores.

use ruzstd::decoding::StreamingDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use sluice_config::package::Manifest;
use sluice_config::text::{Statement, parse};
use sluice_config::{KeptComments, carry_comments};
use sluice_manager_process::core_file::{Destination, Facts, expand, matches};
use sluice_manager_process::{
    audit_record as audit, parse_copy, parse_revision, parse_state, parse_unconfirmed, state_text,
};
use sluice_package::archive::{pack, unpack};
use sluice_package::files::File;
use sluice_package::{Contents, SecretKey, Trust};
use sluice_process::part::{Change, Part};
use sluice_process::rights::Rights;
use std::io::Read;

/// A `package.toml`.
pub fn manifest(octets: &[u8]) {
    if let Err(reason) = Manifest::parse(&String::from_utf8_lossy(octets)) {
        assert!(reason.to_string().starts_with("package.toml: "));
    }
}

/// A `rights.toml`.
pub fn rights(octets: &[u8]) {
    match Rights::parse(&String::from_utf8_lossy(octets)) {
        Ok(rights) => {
            let methods: usize = rights.calls.values().map(Vec::len).sum();
            assert_eq!(rights.call_patterns().len(), methods);
            let sockets = serde_json::to_value(&rights.sockets).expect("rights are written");
            assert_eq!(serde_json::from_value(sockets).ok(), Some(rights.sockets));
            let routes = serde_json::to_value(&rights.routes).expect("rights are written");
            assert_eq!(serde_json::from_value(routes).ok(), Some(rights.routes));
            let limits = serde_json::to_value(&rights.limit).expect("rights are written");
            assert_eq!(serde_json::from_value(limits).ok(), Some(rights.limit));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// A revision's file: an accepted file is whole.
pub fn revision(octets: &[u8]) {
    let whole = String::from_utf8_lossy(octets);
    match parse_revision(&whole) {
        Ok((revision, text)) => assert!(whole.ends_with(text) && !format!("{revision:?}").is_empty()),
        Err(reason) => assert!(!reason.to_string().is_empty()),
    }
}

/// An archive of a package, from the tar file inside: accepted files are read again as they were.
pub fn package_archive(octets: &[u8]) {
    let framed = compress_to_vec(octets, CompressionLevel::Uncompressed);
    if let Ok((name, contents)) = unpack(&framed) {
        let _ = Trust::default().check(&contents);
        let _ = sluice_package::program::check(&contents, "x");
        let again = pack(&name, &contents).expect("accepted files are packed");
        assert_eq!(unpack(&again).expect("packed files are unpacked"), (name, contents));
    }
}

/// Tar files of packages.
pub fn package_archives() -> Vec<Vec<u8>> {
    let mut contents = Contents::default();
    let files: [(&str, &[u8]); 3] =
        [("package.toml", b"name = \"x\""), ("x", b"#!/bin/sh\n"), ("lib/a.py", b"")];
    for (path, octets) in files {
        contents.add(path.into(), File { octets: octets.into(), is_program: path == "x" }).expect("a file");
    }
    let key = SecretKey::new().expect("a key");
    key.sign(&mut contents).expect("signed");
    let archive = pack("x", &contents).expect("an archive");
    let mut tar = Vec::new();
    StreamingDecoder::new(archive.as_slice()).expect("a frame").read_to_end(&mut tar).expect("in memory");
    vec![tar]
}

/// The audit: accepted records make the same chain when they are written again.
pub fn audit(octets: &[u8]) {
    match audit::verify(&String::from_utf8_lossy(octets)) {
        Ok((records, head)) => {
            let mut again = audit::Head::default();
            for record in records {
                again = audit::line(record, &again).expect("records are written").1;
            }
            assert_eq!(again, head);
        }
        Err(broken) => assert!(broken.line > 0 && !broken.reason.is_empty()),
    }
}

/// The file of an unconfirmed commit.
pub fn unconfirmed(octets: &[u8]) {
    if let Some(unconfirmed) = parse_unconfirmed(octets) {
        let again = serde_json::to_vec(&unconfirmed).expect("it is written");
        assert_eq!(parse_unconfirmed(&again), Some(unconfirmed));
    }
}

/// The manager's `state.json` of all versions: records are the same after reading and writing, a secret is 32 hexadecimal digits
/// or absent, and a refusal has a reason.
pub fn state(octets: &[u8]) {
    let processes = match parse_state(octets) {
        Ok(processes) => processes,
        Err(reason) => return assert!(!reason.to_string().is_empty()),
    };
    let again = state_text(&processes).expect("records are written");
    assert_eq!(parse_state(&again).ok().as_ref(), Some(&processes));
    for record in processes.values() {
        // Reads `/proc`, where no process has these times.
        let _alive = record.is_alive();
        if let Some(secret) = record.secret() {
            let digits: String = secret.iter().map(|octet| format!("{octet:02x}")).collect();
            let text = String::from_utf8_lossy(&again).to_ascii_lowercase();
            assert!(text.contains(&digits));
        }
    }
}

/// The manager's `copy.json`: notes are the same after reading and writing.
pub fn copy(octets: &[u8]) {
    let noted = parse_copy(octets);
    let again = serde_json::to_vec(&noted).expect("notes are written");
    assert_eq!(parse_copy(&again), noted);
}

/// A change of a component's part: pieces combine to the same change, and applying the result once has the same
/// effect.
pub fn change(octets: &[u8]) {
    let Ok(change) = serde_json::from_slice::<Change>(octets) else { return };
    let read = |piece: &String| serde_json::from_str::<Change>(piece).expect("a piece is a change");
    let pieces = change.in_pieces(100);
    let again = pieces.iter().map(read).reduce(Change::followed_by).expect("there is one at least");
    assert_eq!(again, change);
    let (mut part, mut same) = (Part::default(), Part::default());
    part.apply(change);
    same.apply(part.as_change());
    assert_eq!(same.whole(), part.whole());
}

/// A kernel pattern for cores, and in a second line a name to look for.
pub fn core_pattern(octets: &[u8]) {
    let text = String::from_utf8_lossy(octets);
    let (pattern, name) = text.split_once('\n').unwrap_or((&text, ""));
    let facts = Facts {
        pid: 7,
        uid: 1,
        gid: 2,
        signal: 11,
        host: "h",
        executable: "/usr/bin/\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}\u{e9}",
    };
    for uses_pid in [false, true] {
        match expand(pattern, uses_pid, &facts) {
            Destination::File(file) => {
                assert!(!file.is_empty());
                matches(&file, name);
                assert!(matches(&file, &file));
            }
            Destination::Program(_) => assert!(pattern.starts_with('|')),
            Destination::Nowhere => assert!(!pattern.starts_with(|c| c != '%')),
        }
    }
}

/// The comments of removed statements: whatever the file holds, only comments come into a configuration.
pub fn comments(octets: &[u8]) {
    const TEXT: &str = "a 1;\nb {\n    c 2;\n}\n";
    let mut kept = KeptComments::parse(&String::from_utf8_lossy(octets));
    assert_eq!(KeptComments::parse(&kept.text()), kept);
    let carried = carry_comments("", TEXT, &mut kept);
    let words = |text: &str| {
        let statements = parse("fuzz", text).expect("a configuration with comments");
        let shown = |statements: &[Statement]| {
            statements
                .iter()
                .map(|s| s.words.iter().map(|w| w.text.clone()).collect())
                .collect::<Vec<Vec<String>>>()
        };
        let inner: Vec<_> = statements.iter().filter_map(|s| s.block.as_deref()).map(shown).collect();
        (shown(&statements), inner)
    };
    assert_eq!(words(&carried), words(TEXT));
}

/// Comments of the statements of a text, and texts that are none.
pub fn comment_files() -> Vec<Vec<u8>> {
    seeds(&[
        r##"{"a 1":{"above":["# one","// two"],"behind":"/* x */","end":[]},"b":{"end":["# last"]},"b c 2":{"behind":"# c"}}"##,
        r##"{"b":{"above":["/* open"],"end":["} x;"]}}"##,
    ])
}

fn seeds(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// The example's.
pub fn manifests() -> Vec<Vec<u8>> {
    seeds(&[include_str!("../../sdk/python/examples/hello/package.toml")])
}

/// The files of Sluice's components.
pub fn rights_files() -> Vec<Vec<u8>> {
    seeds(&[
        include_str!("../../components/bgp/rights.toml"),
        include_str!("../../components/fea/rights.toml"),
        include_str!("../../components/rib/rights.toml"),
        include_str!("../../sdk/python/examples/hello/rights.toml"),
        "class = \"x\"\n[sockets]\nudp = [\"49152-65535\"]\ntcp_connect = [\"config:a/*/port\"]\nmulticast = [\"ff02::/16\"]\n\
         icmpv6 = [133]\npacket = [0x88cc, \"llc:fe\"]\nlink_groups = [\"01:80:c2:00:00:14\"]\n\
         [routes]\norigins = [\"x\", \"y\"]\nlowest_distance = 5\nprefixes = [\"10.0.0.0/8\", \"2001:db8::/32\"]\nmost = 7\n",
        "class = \"x\"\n[[limit]]\ncall = \"rib/rib.v1.Rib/LookupRoute\"\naddr = [\"192.0.2.0/24\", \"1-7\"]\nflag = true\n\
         number = 3\ntext = { longest = 64 }\nrate = \"5/m\"\n",
    ])
}

/// A valid revision with its hash, and a revision of steps based on it.
pub fn revisions() -> Vec<Vec<u8>> {
    seeds(&[include_str!("../seeds/revision.conf"), include_str!("../seeds/revision-steps.conf")])
}

/// A chain of two records, and a recorded router's.
pub fn audits() -> Vec<Vec<u8>> {
    let who = audit::Who { principal: "user:ann".into(), uid: Some(1000), pid: 7 };
    let record = |number, act, revision| audit::Record {
        number,
        time_unix_ms: 1_700_000_000_000,
        who: who.clone(),
        act,
        lines: vec!["set protocols static route 192.0.2.0/24 discard".into()],
        result: "done".into(),
        revision,
    };
    let (mut text, mut head) = (String::new(), audit::Head::default());
    for record in [record(1, audit::Act::Commit, Some(2)), record(2, audit::Act::Denied, None)] {
        let (line, next) = audit::line(record, &head).expect("records are written");
        text.push_str(&line);
        head = next;
    }
    vec![text.into_bytes(), include_bytes!("../../testdata/state/manager/1/router/audit.log").to_vec()]
}

/// A file of an unconfirmed commit.
pub fn unconfirmed_files() -> Vec<Vec<u8>> {
    seeds(&["{\"revision\":2,\"back_to\":1,\"until_unix_ms\":1700000000000}"])
}

/// Recordings of routers, of all versions, and a record that needs fields of another version.
pub fn state_files() -> Vec<Vec<u8>> {
    seeds(&[
        "{}",
        include_str!("../../testdata/state/manager/1/router/state.json"),
        include_str!("../../testdata/state/manager/1/hand-over/state.json"),
        include_str!("../../testdata/state/manager/2/router/state.json"),
        include_str!("../../testdata/state/manager/2/hand-over/state.json"),
        "{\"version\":2,\"written_by\":\"9.0.0\",\"required\":[\"pid\",\"color\"],\"processes\":{}}",
        "{\"version\":3,\"processes\":[]}",
        "{\"bgp\":{\"pid\":4194303,\"started\":7,\"secret\":\"00112233445566778899aabbccddeeff\"},\
         \"rib\":{\"pid\":1,\"started\":18446744073709551615,\"secret\":\"ffeeddccbbaa99887766554433221100\",\
         \"binary\":\"/usr/lib/sluice/rib\",\"before\":\"/usr/bin/sluice\"}}",
    ])
}

/// A written configuration file, and an ambiguous configuration file.
pub fn copy_files() -> Vec<Vec<u8>> {
    seeds(&[
        "[{\"sha256\":\"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\",\"revision\":7}]",
        "[{\"sha256\":\"00\"},{\"sha256\":\"01\",\"revision\":18446744073709551615}]",
    ])
}

/// A leaf, a container, added and removed entries of a list, in place of the earlier configuration.
pub fn changes() -> Vec<Vec<u8>> {
    seeds(&[
        "{\"clear\":true,\"edits\":[{\"name\":\"local-as\",\"value\":64500},{\"name\":\"neighbor\",\"key\":[\"192.0.2.1\"],\
         \"value\":{\"address\":\"192.0.2.1\",\"peer-as\":64501}},{\"name\":\"neighbor\",\"key\":[\"192.0.2.2\"]}]}",
        "{\"edits\":[{\"name\":\"timers\",\"value\":{\"hold\":9,\"list\":[1,2.5,null,\"x\"]}},{\"name\":\"router-id\"}]}",
        "{\"edits\":[]}",
    ])
}

/// Patterns of distributions, and a pattern with every placeholder.
pub fn core_patterns() -> Vec<Vec<u8>> {
    seeds(&[
        "core\ncore.7",
        "|/usr/lib/systemd/systemd-coredump %P %u %g %s %t 9223372036854775808 %h %d",
        "|/usr/share/apport/apport -p%p -s%s -c%c -d%d -P%P -u%u -g%g -- %E",
        "/var/cores/%e.%f.%E.%p.%P.%i.%I.%u.%g.%s.%t.%h.%c.%C.%d.%%\n/var/cores/x",
    ])
}
