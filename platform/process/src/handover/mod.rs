//! Hand-over: the values a process passes to its successor, and their transport.
//!
//! The successor listens on a Unix socket with message boundaries; its predecessor connects, and each checks with the
//! kernel (SO_PEERCRED) that the peer is the process named by the manager. The socket carries *values*: postcard, at
//! most [`MOST_OCTETS`] each, in packets that the socket takes at once, with descriptors beside the packets
//! (SCM_RIGHTS, unix(7)).
//!
//! A state consists of [parts](StatePart), each with a version of its own. First the predecessor sends its abilities: for each part
//! the versions that it writes. The successor answers with its own, and the predecessor names the version of each part: the
//! newest that both know. Where there is none, nothing has happened yet: the predecessor works on. Then the parts follow, in the order
//! of the predecessor's abilities, and a mark with the number of values and their checksum. The successor answers once, with "taken" or
//! with the reason of a refusal, and again after taking over.
//!
//! State from before the parts is read too: the same values without abilities and marks, in version 1 of each part.

mod packets;
mod sink;
mod source;
mod versions;

pub use sink::Sink;
pub use source::Source;
pub(crate) use source::Waiting;
pub use versions::{Abilities, AgreedPart, Disagreement, Loss, StatePart, Versions, losses};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// The most octets of one value.
pub const MOST_OCTETS: usize = 4 << 20;
/// The version of the whole format except the components' values.
const FORMAT: u32 = 2;
/// The format without parts.
const BEFORE_PARTS: u32 = 1;
const MAGIC: &str = "sluice hand-over";

/// The part of every component: its configuration, as JSON text in pieces.
pub const CONFIGURATION: StatePart = StatePart::new("configuration", Versions::only(1));

/// The reason why nothing was handed over.
#[derive(Debug, Error)]
pub enum HandOverError {
    /// The socket does not work, or the other side is gone.
    #[error("the way between the processes broke: {0}")]
    Io(#[from] io::Error),
    /// A value is too large, or not what was expected.
    #[error("{0}")]
    Value(String),
    /// The versions of the two processes do not fit.
    #[error(transparent)]
    Versions(#[from] Disagreement),
    /// Something would be lost, and nothing may be.
    #[error("{0}; without --no-loss the upgrade goes on")]
    Loss(String),
    /// The successor does not want it.
    #[error("the new process refuses: {0}")]
    Refused(String),
    /// The component cannot let go, or cannot take it.
    #[error("{0}")]
    Component(Box<dyn std::error::Error>),
}

impl HandOverError {
    /// Wraps the component's own reason.
    pub fn component(reason: impl Into<Box<dyn std::error::Error>>) -> Self {
        HandOverError::Component(reason.into())
    }
}

/// Returns the path of a successor's socket in the folder of the component's sockets.
pub fn socket_path(folder: &Path, successor: u32) -> PathBuf {
    folder.join(format!("{successor}-handover"))
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, HandOverError> {
    postcard::to_allocvec(value).map_err(|error| HandOverError::Value(error.to_string()))
}

fn decode<T: DeserializeOwned>(octets: &[u8]) -> Result<T, HandOverError> {
    let unreadable = |error| HandOverError::Value(format!("a value cannot be read: {error}"));
    postcard::from_bytes(octets).map_err(unreadable)
}

/// The first value, before the abilities. A process from before the parts reads this much of it.
#[derive(Serialize, Deserialize)]
struct Head {
    magic: String,
    format: u32,
    class: String,
    /// The version of the state before it had parts.
    state: u32,
    program: String,
}

/// The mark at the beginning of a part.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct PartHead {
    name: String,
    version: u16,
}

/// The mark at the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Tail {
    values: u64,
    sum: u64,
}

impl Tail {
    /// Adds a value to the sum (FNV-1a over all octets).
    fn add(&mut self, octets: &[u8]) {
        self.values += 1;
        let step = |sum: u64, octet: &u8| (sum ^ u64::from(*octet)).wrapping_mul(0x0100_0000_01b3);
        self.sum = octets.iter().fold(self.sum, step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    const LONG: StatePart = StatePart::new("test.long", Versions::new(1, 3));
    const NOTE: StatePart = StatePart::new("test.note", Versions::only(1)).optional();

    fn here<F: Future>(act: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(act)
    }

    /// Passes values from end to end in a single process, its own successor, which knows `parts`. Returns the version of the first part and
    /// the note.
    async fn pass(
        name: &str,
        parts: &[&StatePart],
    ) -> (Result<(), HandOverError>, Result<(u16, Option<String>), HandOverError>) {
        let folder = std::env::temp_dir().join(format!("sluice-handover-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let me = std::process::id();
        let waiting = Waiting::new(&folder, me).expect("listens");
        let giving = async {
            let mut sink = Sink::connect(&folder, me, "test", 1, &[&LONG, &NOTE]).await?;
            let given = async {
                sink.begin(&LONG).await?.expect("required");
                sink.put(&vec![7_u8; 300_000]).await?;
                sink.put_descriptor(std::io::stdin().as_fd()).await?;
                if sink.begin(&NOTE).await?.is_some() {
                    sink.put(&"the end").await?;
                }
                sink.finish().await
            };
            match given.await {
                Ok(()) => Ok(()),
                Err(error) => Err(sink.explain(error).await),
            }
        };
        let taking = async {
            let mut source = waiting.accept("test", 1, parts).await?;
            let taken = async {
                let version = source.begin(parts[0]).await?.expect("required");
                let long: Vec<u8> = source.take().await?;
                assert_eq!(long, vec![7; 300_000]);
                source.take_descriptor().await?;
                let note = match source.begin(&NOTE).await? {
                    Some(_) => Some(source.take().await?),
                    None => None,
                };
                source.finish().await?;
                Ok((version, note))
            };
            let taken: Result<_, HandOverError> = taken.await;
            match &taken {
                Ok(_) => source.answer(Ok(())).await?,
                Err(error) => source.answer(Err(&error.to_string())).await?,
            }
            taken
        };
        let both = tokio::join!(giving, taking);
        std::fs::remove_dir_all(&folder).expect("removes what it made");
        both
    }

    #[test]
    fn values_and_descriptors_arrive() {
        let (given, taken) = here(pass("same", &[&LONG, &NOTE]));
        given.expect("given");
        assert_eq!(taken.expect("taken"), (3, Some("the end".into())));
    }

    #[test]
    fn an_older_program_is_sent_its_version_and_no_part_that_it_does_not_know() {
        let older = StatePart { reads: Versions::new(1, 2), ..LONG };
        let (given, taken) = here(pass("older", &[&older]));
        given.expect("given");
        assert_eq!(taken.expect("taken"), (2, None));
    }

    #[test]
    fn versions_without_a_common_one_are_refused_in_words() {
        let newer = StatePart { reads: Versions::new(4, 5), ..LONG };
        let (given, _) = here(pass("newer", &[&newer]));
        let reason = given.expect_err("refused").to_string();
        assert!(
            reason.contains("test.long") && reason.contains("1 to 3") && reason.contains("4 to 5"),
            "{reason}"
        );
    }

    #[test]
    fn a_part_in_the_place_of_another_one_is_refused_by_name() {
        let first = StatePart::new("test.note", Versions::only(1));
        let (given, _) = here(pass("order", &[&first, &LONG]));
        let reason = given.expect_err("refused").to_string();
        assert!(reason.contains("test.long") && reason.contains("test.note"), "{reason}");
    }
}
