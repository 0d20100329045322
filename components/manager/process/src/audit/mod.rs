//! The audit: who did what, and what was refused, in a file to which is only appended.

pub mod actions;
pub mod record;

use crate::ManagerProcess;
use crate::configure::people;
use crate::revisions::now_unix_ms;
use record::{Act, Broken, Head, Record, Who, check_head, line, verify};
use sluice_xrl::{CallContext, XrlError};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use thiserror::Error;
use tokio::sync::Mutex;
use tracing::{error, info};

/// The file of records in the state folder.
const RECORDS: &str = "audit.log";
/// The file with the end of the chain, so that records cannot be cut off unseen.
const HEAD: &str = "audit.head";

/// The audit of the router.
pub struct Audit {
    folder: PathBuf,
    /// The end of the chain. The lock keeps records in their order.
    head: Mutex<Head>,
}

/// The reason why the audit cannot be read.
#[derive(Debug, Error)]
pub enum AuditError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: String,
        /// The reason.
        source: io::Error,
    },
    /// The records are not as they were written.
    #[error("{path}, {broken}")]
    Broken {
        /// The file.
        path: String,
        /// The place, and what is wrong there.
        broken: Broken,
    },
}

fn read_whole(path: &Path) -> Result<String, AuditError> {
    match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        read => read.map_err(|source| AuditError::Read { path: path.display().to_string(), source }),
    }
}

/// Reads the audit in a state folder, and checks it.
pub(crate) fn read(folder: &Path) -> Result<(Vec<Record>, Head), AuditError> {
    let path = folder.join(RECORDS);
    let broken = |broken| AuditError::Broken { path: path.display().to_string(), broken };
    let (records, head) = verify(&read_whole(&path)?).map_err(broken)?;
    let noted = read_whole(&folder.join(HEAD))?;
    // The first record of all may have been written without its note.
    let noted: Head = serde_json::from_str(&noted).unwrap_or_default();
    // A manager that was killed between the two files has noted the record before the last one.
    let is_late = records.len() as u64 == noted.number + 1;
    if !is_late {
        check_head(&head, &noted).map_err(broken)?;
    }
    Ok((records, head))
}

fn append(folder: &Path, text: &str, head: &Head) -> io::Result<()> {
    let open = |name: &str| -> io::Result<File> {
        OpenOptions::new().create(true).append(true).mode(0o600).open(folder.join(name))
    };
    let mut records = open(RECORDS)?;
    records.write_all(text.as_bytes())?;
    records.sync_data()?;
    let new = folder.join("audit.head.new");
    let mut file = OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
    file.write_all(&serde_json::to_vec(head)?)?;
    file.sync_data()?;
    fs::rename(new, folder.join(HEAD))
}

impl Audit {
    /// Opens the audit in a state folder. A broken chain is reported and continued from its noted end: the place stays
    /// to be found.
    pub fn open(folder: &Path) -> Self {
        let head = match read(folder) {
            Ok((_, head)) => head,
            Err(why) => {
                error!(event = "audit.broken", reason = %why, "the audit is not as it was written: {why}");
                let noted = read_whole(&folder.join(HEAD)).unwrap_or_default();
                serde_json::from_str(&noted).unwrap_or_default()
            }
        };
        Audit { folder: folder.into(), head: Mutex::new(head) }
    }

    /// Appends a record. What cannot be written is an event with the record: nobody's change waits for a full disk.
    pub async fn note(&self, who: Who, act: Act, lines: Vec<String>, result: String, revision: Option<u64>) {
        let mut head = self.head.lock().await;
        let (number, time_unix_ms) = (head.number + 1, now_unix_ms());
        let record = Record { number, time_unix_ms, who, act, lines, result, revision }.shortened();
        let (text, next) = match line(record, &head) {
            Ok(made) => made,
            Err(why) => return error!(event = "audit.lost", reason = %why, "a record is no JSON: {why}"),
        };
        let (folder, written, noted) = (self.folder.clone(), text.clone(), next.clone());
        let done = tokio::task::spawn_blocking(move || append(&folder, &written, &noted)).await;
        match done.map_err(io::Error::other).and_then(|appended| appended) {
            Ok(()) => {
                info!(event = "audit.record", number, hash = next.hash, "audit record {number}");
                *head = next;
            }
            Err(why) => {
                let record = text.trim_end();
                error!(event = "audit.lost", reason = %why, record, "an audit record could not be written: {why}");
            }
        }
    }

    /// Reads all records, and checks them.
    ///
    /// # Errors
    /// A file cannot be read, or the records are not as they were written.
    pub async fn read(&self) -> Result<Vec<Record>, AuditError> {
        let _in_order = self.head.lock().await;
        let folder = self.folder.clone();
        let path = folder.join(RECORDS).display().to_string();
        let read = tokio::task::spawn_blocking(move || read(&folder)).await;
        let read = read.map_err(|error| AuditError::Read { path, source: io::Error::other(error) })?;
        read.map(|(records, _)| records)
    }
}

impl Who {
    /// Returns the caller of a method, by the kernel's word.
    pub fn calls(ctx: &CallContext) -> Self {
        Who { principal: ctx.principal.to_string(), uid: ctx.uid, pid: ctx.pid.unwrap_or(0) }
    }

    /// Returns the name for a list: the person's, or the component's.
    pub fn name(&self) -> &str {
        people::person(&self.principal).unwrap_or(&self.principal)
    }
}

impl ManagerProcess {
    /// Carries out what a caller asks for, and records it with its outcome.
    pub(crate) async fn audited<T>(
        &self,
        ctx: &CallContext,
        act: Act,
        lines: Vec<String>,
        revision: impl FnOnce(&T) -> Option<u64>,
        work: impl Future<Output = Result<T, XrlError>>,
    ) -> Result<T, XrlError> {
        let outcome = work.await;
        let (result, revision) = match &outcome {
            Ok(done) => ("done".to_owned(), revision(done)),
            Err(error) => (error.to_string(), None),
        };
        self.audit.note(Who::calls(ctx), act, lines, result, revision).await;
        outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(audit: &Audit, runtime: &tokio::runtime::Runtime, line: &str) {
        let who = Who { principal: "user:ann".into(), uid: Some(1000), pid: 7 };
        runtime.block_on(audit.note(who, Act::Restart, vec![line.into()], "done".into(), None));
    }

    #[test]
    fn records_outlive_the_process_and_damage_is_found() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let audit = Audit::open(folder.path());
        note(&audit, &runtime, "bgp");
        note(&audit, &runtime, "rib");
        let audit = Audit::open(folder.path());
        note(&audit, &runtime, "fea");
        let records = runtime.block_on(audit.read()).unwrap();
        assert_eq!(records.iter().map(|r| r.number).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!(records[2].who.name(), "ann");
        // A process that ends between the record and the note of the end loses nothing.
        let (path, head) = (folder.path().join(RECORDS), folder.path().join(HEAD));
        let (whole, noted) = (fs::read_to_string(&path).unwrap(), fs::read_to_string(&head).unwrap());
        note(&audit, &runtime, "static");
        fs::write(&head, &noted).unwrap();
        assert_eq!(runtime.block_on(Audit::open(folder.path()).read()).unwrap().len(), 4);
        // Records that are cut off at the end are missed, in the running process and by its next life.
        fs::write(&path, whole.lines().next().unwrap().to_owned() + "\n").unwrap();
        for audit in [audit, Audit::open(folder.path())] {
            let error = runtime.block_on(audit.read()).unwrap_err().to_string();
            assert!(error.contains("line 2: records 2 to 3 are missing at the end"), "{error}");
        }
        let modes = [&path, &head].map(|file| fs::metadata(file).unwrap());
        let mode = |file: &fs::Metadata| std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o777;
        assert_eq!(modes.each_ref().map(mode), [0o600, 0o600]);
    }
}
