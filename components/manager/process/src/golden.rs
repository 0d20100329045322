//! Files that earlier versions of the manager wrote, as each is read now (`testdata/state/README.md`).

use crate::audit;
use crate::revisions::Revisions;
use crate::supervise::state;
use serde_json::{Map, Value, json};
use sluice_testkit::golden;
use std::fs;
use std::path::Path;

/// The kind of state.
const KIND: &str = "manager";

/// Reads a recorded `state.json`. Secrets are named only by their validity.
fn processes(file: &Path) -> Value {
    let processes = state::parse(&fs::read(file).unwrap()).unwrap();
    let described = |(name, process): (String, state::Recorded)| {
        let mut fields = json!(process);
        fields["secret"] = json!(process.secret().is_some());
        (name, fields)
    };
    processes.into_iter().map(described).collect::<Map<_, _>>().into()
}

/// Reads the state folder of a recorded router: the audit, the revisions with the commit that waits, and the note on the configuration file.
fn kept(recording: &Path) -> Value {
    let folder = tempfile::tempdir().unwrap();
    copy(&recording.join("router"), folder.path());
    let (records, head) = audit::read(folder.path()).unwrap();
    let revisions = Revisions::of(folder.path());
    let read = |number| {
        let (revision, text) = revisions.read(number).unwrap();
        json!({ "about": revision, "text": text })
    };
    json!({
        "audit": { "records": records, "head": head },
        "revisions": revisions.numbers().into_iter().map(read).collect::<Vec<_>>(),
        "unconfirmed": revisions.unconfirmed(),
        "copy": crate::parse_copy(&fs::read(folder.path().join("copy.json")).unwrap()),
    })
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir_all(&to).unwrap();
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}

#[test]
fn recorded_files_are_read_as_they_were_meant() {
    for (_, recording) in golden::versions(KIND) {
        let found = json!({
            "router": processes(&recording.join("router/state.json")),
            "hand-over": processes(&recording.join("hand-over/state.json")),
            "kept": kept(&recording),
        });
        golden::compare(&recording, &serde_json::to_string_pretty(&found).unwrap());
    }
}

/// What is written now is what was recorded last: a change of the format needs a version of its own, and a recording.
#[test]
fn the_newest_recording_is_what_is_written_now() {
    let (_, recording) = golden::versions(KIND).pop().unwrap();
    let content = |text: &[u8]| {
        let mut content: Value = serde_json::from_slice(text).unwrap();
        // The version of the executable changes without the format.
        content.as_object_mut().unwrap().remove("written_by");
        content
    };
    for name in ["router", "hand-over"] {
        let recorded = fs::read(recording.join(name).join("state.json")).unwrap();
        let written = state::text(&state::parse(&recorded).unwrap()).unwrap();
        assert_eq!(content(&written), content(&recorded), "{name}");
    }
    let text = fs::read_to_string(recording.join("router/audit.log")).unwrap();
    let (mut again, mut head) = (String::new(), audit::record::Head::default());
    for record in audit::record::verify(&text).unwrap().0 {
        let (line, next) = audit::record::line(record, &head).unwrap();
        again.push_str(&line);
        head = next;
    }
    assert_eq!(again, text);
}

/// A reader of a file's text, which returns the reason against the text.
type Refusal = fn(&str) -> Option<String>;

/// The files of a recording with a version, and their readers.
const READERS: [(&str, Refusal); 3] = [
    ("state.json", |text| state::parse(text.as_bytes()).err().map(|error| error.to_string())),
    ("audit.log", |text| audit::record::verify(text).err().map(|error| error.to_string())),
    ("revisions/00000001.conf", |text| crate::parse_revision(text).err().map(|error| error.to_string())),
];

#[test]
fn recordings_of_later_versions_are_refused_with_both_numbers() {
    for (_, recording) in golden::versions(KIND) {
        for (file, refusal) in READERS {
            let text = fs::read_to_string(recording.join("router").join(file)).unwrap();
            assert_eq!(refusal(&text), None);
            let later = text.replacen("\"version\": 2,", "", 1).replacen('{', "{\"version\":97,", 1);
            let error = refusal(&later).unwrap();
            assert!(
                error.contains("version 97 of the format") && error.contains("versions up to "),
                "{error}"
            );
        }
    }
}

#[test]
fn torn_recordings_are_refused_wherever_they_end() {
    for (_, recording) in golden::versions(KIND) {
        for (file, refusal) in READERS {
            let text = fs::read_to_string(recording.join("router").join(file)).unwrap();
            for length in (0..text.len()).filter(|length| text.is_char_boundary(*length)) {
                let torn = &text[..length];
                // Lost records at the end are missed by the head of the audit.
                let is_whole = file == "audit.log" && (torn.is_empty() || torn.ends_with('\n'));
                assert_eq!(refusal(torn).is_none(), is_whole, "{file} ends at {length}");
            }
        }
    }
}
