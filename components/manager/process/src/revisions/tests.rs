use super::*;
use sluice_config::carry_comments;

fn new(text: &str) -> New<'static> {
    let text = text.to_string();
    New { user: "ann", comment: "why # not", via: Via::Commit, steps: None, whole: Box::new(|| text) }
}

fn stepping(steps: &str) -> New<'static> {
    let whole = || unreachable!("steps are enough");
    New { steps: Some(steps.into()), whole: Box::new(whole), ..new("") }
}

fn open(dir: &tempfile::TempDir) -> Revisions {
    Revisions::open(dir.path(), "schema").unwrap()
}

fn text(revisions: &Revisions, number: u64) -> Result<String, String> {
    let read = revisions.read(number).map_err(|e| e.to_string());
    read.map(|(_, text)| text.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn what_is_written_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut revisions = open(&dir);
    assert!(revisions.numbers().is_empty() && revisions.read(1).is_err());
    revisions.write(new("a;\n"), None).unwrap();
    revisions.write(new("b;\n"), Some((1, 99))).unwrap();
    let (first, text) = revisions.read(1).unwrap();
    assert_eq!((first.number, first.user.as_str(), text.as_str()), (1, "ann", "a;\n"));
    let expected = Unconfirmed { revision: 2, back_to: 1, until_unix_ms: 99 };
    assert_eq!(revisions.unconfirmed(), Some(expected));
    let mut again = open(&dir);
    assert_eq!((again.numbers(), again.unconfirmed()), (vec![2, 1], Some(expected)));
    again.write(new("c;\n"), None).unwrap();
    assert_eq!(again.unconfirmed(), None, "another one came after it");
    again.confirm().unwrap();
    again.confirm().unwrap();
    assert_eq!(again.about(3).unwrap().comment, "why # not");
}

#[test]
fn steps_stand_on_what_was_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut revisions = open(&dir);
    assert_eq!(revisions.room_for_steps(0), 0, "there is nothing to stand on");
    let whole = format!("a {{ b 1; }} c {};\n", "d".repeat(400));
    revisions.write(new(&whole), None).unwrap();
    assert_eq!((revisions.room_for_steps(1), revisions.room_for_steps(2)), (whole.len() / PART, 0));
    let steps = "[edit a]\n-  b 1;\n+  b 2;\n";
    revisions.write(stepping(steps), None).unwrap();
    let more = "[edit]\n-  a {\n-      b 2;\n-  }\n";
    revisions.write(stepping(more), None).unwrap();
    let c = format!("c {};", "d".repeat(400));
    assert_eq!(text(&revisions, 3), Ok(c.clone()));
    assert_eq!(text(&revisions, 2), Ok(format!("a {{ b 2; }} {c}")));
    assert_eq!(text(&revisions, 1), Ok(format!("a {{ b 1; }} {c}")));
    assert_eq!(revisions.room_for_steps(3), whole.len() / PART - steps.len() - more.len());

    // The next life goes on there, another version or schema does not.
    let room = revisions.room_for_steps(3);
    let mut again = open(&dir);
    again.read_to_run(3).unwrap();
    assert_eq!(again.room_for_steps(3), room);
    let mut another = Revisions::open(dir.path(), "another schema").unwrap();
    another.read_to_run(3).unwrap();
    assert_eq!(another.room_for_steps(3), 0);
    assert_eq!(text(&another, 3), Ok(c));
}

#[test]
fn a_chain_has_an_end() {
    let dir = tempfile::tempdir().unwrap();
    let mut revisions = open(&dir);
    let whole = format!("{}b 0;\n", "a;".repeat(10_000));
    revisions.write(new(&whole), None).unwrap();
    for n in 0..LINKS {
        assert!(revisions.room_for_steps(n as u64 + 1) > 0, "{n}");
        revisions.write(stepping(&format!("[edit]\n-  b {n};\n+  b {};\n", n + 1)), None).unwrap();
    }
    assert_eq!(revisions.room_for_steps(LINKS as u64 + 1), 0);
    assert!(text(&revisions, LINKS as u64 + 1).unwrap().ends_with(&format!("b {LINKS};")));
}

/// Cuts a file at each octet and changes each octet of it, and has a look each time.
fn hurt(file: &Path, mut look: impl FnMut(&str)) {
    let whole = fs::read(file).unwrap();
    for cut in 0..whole.len() {
        fs::write(file, &whole[..cut]).unwrap();
        look(&format!("{} cut at {cut}", file.display()));
    }
    for at in 0..whole.len() {
        for bit in [1, 0x80] {
            let mut other = whole.clone();
            other[at] ^= bit;
            fs::write(file, &other).unwrap();
            look(&format!("{} changed at {at}", file.display()));
        }
    }
    fs::remove_file(file).unwrap();
    look(&format!("{} removed", file.display()));
    fs::write(file, &whole).unwrap();
}

#[test]
fn every_damage_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let mut revisions = open(&dir);
    revisions.write(new("a { b 1; b 2; b 3; }\n"), None).unwrap();
    // Twice the same steps: one must not stand for the other.
    let (goes, comes) = ("[edit a]\n-  b 1;\n", "[edit a]\n+  b 1;\n");
    for steps in [goes, comes, goes] {
        revisions.write(stepping(steps), None).unwrap();
    }
    let texts: Vec<Result<String, String>> = (1..=4).map(|n| text(&revisions, n)).collect();
    assert!(texts.iter().all(Result::is_ok), "{texts:?}");
    for hurt_one in 1..=4 {
        let mut unseen = 0;
        hurt(&revisions.folder.file(hurt_one), |how| {
            for number in 1..=4 {
                let found = text(&revisions, number);
                // The part of the first line for people may change and still be one; the text may not.
                let expected = &texts[number as usize - 1];
                assert!(found.is_err() || found == *expected, "{how}: revision {number} has {found:?}");
                assert!(number >= hurt_one || found == *expected, "{how}: revision {number} is another's");
                unseen += usize::from(number >= hurt_one && found.is_ok());
            }
        });
        assert!(unseen > 0, "the part of the first line for people was changed too");
    }
    assert_eq!((1..=4).map(|n| text(&revisions, n)).collect::<Vec<_>>(), texts);

    // One whole file in another's place is no better.
    fs::copy(revisions.folder.file(4), revisions.folder.file(2)).unwrap();
    let error = text(&revisions, 3).unwrap_err();
    assert_eq!(error, "revision 3 is damaged (it stands on revision 2: that is another than it was)");
    let error = text(&revisions, 2).unwrap_err();
    assert!(error.contains("it stands on nothing before it"), "{error}");
}

fn note_of(dir: &tempfile::TempDir) -> (std::path::PathBuf, Revisions) {
    let state = dir.path().join("state");
    (dir.path().join("sluice.conf"), Revisions::open(&state, "schema").unwrap())
}

#[test]
fn a_change_by_hand_is_not_taken_for_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (file, mut revisions) = note_of(&dir);
    let write =
        |revisions: &Revisions, text: &str, n| revisions.configuration_file(&file).write(|_| text.into(), n);
    assert!(!revisions.is_as_written("a;\n"));
    revisions.write(new("a;\n"), None).unwrap();
    assert!(revisions.is_as_written("a;\n"), "a crash came before the copy");
    assert_eq!(write(&revisions, "a;\n", 1).unwrap(), Copied::Written);
    revisions.write(new("b;\n"), None).unwrap();
    assert!(revisions.is_as_written("a;\n"), "a crash came before the copy");
    assert_eq!(revisions.copy_of("a;\n"), Some(1));
    assert_eq!(write(&revisions, "b;\n", 2).unwrap(), Copied::Written);
    assert!(!revisions.is_as_written("a;\n"), "somebody put the old one back");
    assert_eq!((fs::read_to_string(&file).unwrap().as_str(), revisions.copy_of("b;\n")), ("b;\n", Some(2)));

    // What was written by hand stays until it was read.
    fs::write(&file, "by hand;\n").unwrap();
    assert_eq!(write(&revisions, "c;\n", 3).unwrap(), Copied::ByHand);
    assert_eq!(fs::read_to_string(&file).unwrap(), "by hand;\n");
    revisions.is_copy("by hand;\n", 4).unwrap();
    assert_eq!(write(&revisions, "d;\n", 5).unwrap(), Copied::Written);
    fs::write(&file, "once more;\n").unwrap();
    revisions.has_read("once more;\n");
    assert_eq!(write(&revisions, "e;\n", 6).unwrap(), Copied::Written);
    fs::remove_file(&file).unwrap();
    assert_eq!(write(&revisions, "f;\n", 7).unwrap(), Copied::Written);
    assert_eq!(fs::read_to_string(&file).unwrap(), "f;\n");
}

#[test]
fn a_crash_may_come_at_any_time_of_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let (file, mut revisions) = note_of(&dir);
    revisions.write(new("a;\n"), None).unwrap();
    revisions.configuration_file(&file).write(|_| "a;\n".into(), 1).unwrap();
    revisions.write(new("b;\n"), None).unwrap();
    // It cannot be written, but what is to come is noted: both are ours.
    let in_the_way = dir.path().join("sluice.conf.new");
    fs::create_dir_all(in_the_way.join("x")).unwrap();
    revisions.configuration_file(&file).write(|_| "b;\n".into(), 2).unwrap_err();
    assert!(revisions.is_as_written("a;\n") && revisions.is_as_written("b;\n"));
    assert_eq!((revisions.copy_of("a;\n"), revisions.copy_of("b;\n")), (Some(1), Some(2)));
    assert!(!revisions.is_as_written("c;\n"));
    fs::remove_dir_all(in_the_way).unwrap();
    revisions.configuration_file(&file).write(|_| "b;\n".into(), 2).unwrap();
    assert!(!revisions.is_as_written("a;\n"));
}

#[test]
fn the_note_of_the_version_before_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    let (file, mut revisions) = note_of(&dir);
    fs::write(&file, "a;\n").unwrap();
    let older = revisions.folder().join("file.sha256");
    fs::write(&older, hash(b"a;\n")).unwrap();
    assert!(revisions.is_as_written("a;\n") && !revisions.is_as_written("b;\n"));
    assert_eq!(revisions.copy_of("a;\n"), None);
    revisions.write(new("b;\n"), None).unwrap();
    assert_eq!(revisions.configuration_file(&file).write(|_| "b;\n".into(), 1).unwrap(), Copied::Written);
    assert!(!older.exists() && !revisions.is_as_written("a;\n"));
}

#[test]
fn old_ones_go_unless_others_stand_on_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut revisions = open(&dir);
    for _ in 0..KEPT + 5 {
        revisions.write(new("a;\n"), None).unwrap();
    }
    let numbers = revisions.numbers();
    assert_eq!((numbers.len(), numbers[0], numbers[KEPT]), (KEPT + 1, KEPT as u64 + 5, 5));
    assert_eq!(revisions.folder.numbers(), numbers);

    // Whole ones far apart, steps between them.
    let far = 20;
    for n in 0..KEPT + 2 * far {
        match n % far {
            0 => revisions.write(new("a;\nb 0;\n"), None),
            n => revisions.write(stepping(&format!("[edit]\n-  b {};\n+  b {n};\n", n - 1)), None),
        }
        .unwrap();
        let (kept, all) = (revisions.numbers(), revisions.folder.numbers());
        assert_eq!(kept.len(), KEPT + 1);
        assert!(all.len() < KEPT + 1 + far, "{all:?}");
        for number in kept {
            revisions.read(number).unwrap_or_else(|e| panic!("{e}: {all:?}"));
        }
    }
}

#[test]
fn the_schema_is_written_if_it_is_another() {
    let dir = tempfile::tempdir().unwrap();
    let mut revisions = open(&dir);
    assert_eq!(revisions.schema(), None);
    let file = dir.path().join("schema.json");
    let is_written = |revisions: &mut Revisions, json: &str| {
        let before = State::of(&file);
        revisions.write_schema(json).unwrap();
        assert_eq!(revisions.schema().as_deref(), Some(json));
        before != State::of(&file)
    };
    assert!(is_written(&mut revisions, "[]"));
    assert!(!is_written(&mut revisions, "[]"));
    assert!(!is_written(&mut open(&dir), "[]"));
    assert!(is_written(&mut open(&dir), "[1]"));
    fs::remove_file(&file).unwrap();
    assert!(is_written(&mut revisions, "[]"), "somebody removed it");
    fs::write(&file, "other").unwrap();
    assert!(is_written(&mut revisions, "[]"), "somebody changed it");
}

#[test]
fn a_file_with_the_largest_number_is_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let mut revisions = open(&dir);
    revisions.write(new("a;\n"), None).unwrap();
    let first = std::fs::read_to_string(dir.path().join("revisions/00000001.conf")).unwrap();
    for number in [u64::MAX, u64::MAX - 1, chain::LARGEST + 1] {
        let forged = first.replacen("\"number\":1", &format!("\"number\":{number}"), 1);
        std::fs::write(dir.path().join(format!("revisions/{number:08}.conf")), forged).unwrap();
    }
    let mut again = open(&dir);
    assert_eq!(again.numbers(), [1]);
    assert_eq!(again.write(new("b;\n"), None).unwrap(), 2);
    // The last number is used, and none after it.
    std::fs::rename(
        dir.path().join("revisions/00000002.conf"),
        dir.path().join(format!("revisions/{:08}.conf", chain::LARGEST)),
    )
    .unwrap();
    let mut full = open(&dir);
    assert!(full.write(new("c;\n"), None).unwrap_err().to_string().contains("the last"));
    assert_eq!(full.numbers(), [chain::LARGEST, 1]);
}

#[test]
fn the_configuration_file_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let mut revisions = open(&dir);
    let path = dir.path().join("sluice.conf");
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(revisions.configuration_file(&path).write(|_| "a;\n".into(), 1).unwrap(), Copied::Written);
    assert_eq!(mode(), 0o600);
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    revisions.is_copy("a;\n", 1).unwrap();
    assert_eq!(revisions.configuration_file(&path).write(|_| "b;\n".into(), 2).unwrap(), Copied::Written);
    assert_eq!(mode(), 0o600);
}

#[test]
fn comments_outlive_a_copy() {
    let dir = tempfile::tempdir().unwrap();
    let mut revisions = open(&dir);
    let path = dir.path().join("sluice.conf");
    let by_hand = "# of a\na 1;\nb 2; # of b\n";
    std::fs::write(&path, by_hand).unwrap();
    revisions.is_copy(by_hand, 1).unwrap();
    assert_eq!(
        revisions
            .configuration_file(&path)
            .write(|before| carry_comments(before, "a 3;\nc 4;\n", &mut Default::default()), 2)
            .unwrap(),
        Copied::Written
    );
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text, "# of a\na 3;\nc 4;\n");
    assert_eq!(
        (revisions.copy_of(&text), revisions.file_content(&path)),
        (Some(2), FileContent::Revision(Some(2)))
    );
    std::fs::write(&path, by_hand.replace('1', "5")).unwrap();
    assert_eq!(revisions.file_content(&path), FileContent::Else);
}
