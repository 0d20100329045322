//! Calls to a process that has just taken another process's place.

use sluice_xrl::XrlError;
use std::time::Duration;
use tracing::debug;

/// Attempts, and the time between two.
const ATTEMPTS: u32 = 20;
const AGAIN: Duration = Duration::from_millis(100);

/// Calls a process that has just registered. A call can still reach the process before, which ends: such a call is made again, at most
/// 20 times within 2 seconds.
///
/// # Errors
/// The error of the last attempt.
pub async fn call_successor<R>(call: impl AsyncFn() -> Result<R, XrlError>) -> Result<R, XrlError> {
    let mut attempt = 1;
    loop {
        match call().await {
            Err(error @ (XrlError::Disconnected(_) | XrlError::UnknownTarget(_))) if attempt < ATTEMPTS => {
                debug!(%error, attempt, "the call is made again");
            }
            other => return other,
        }
        attempt += 1;
        tokio::time::sleep(AGAIN).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[tokio::test]
    async fn calls_that_reach_the_process_before_are_made_again() {
        let calls = Cell::new(0);
        let fails_with = async |error: XrlError| {
            calls.set(calls.get() + 1);
            if calls.get() > 2 { Ok(calls.get()) } else { Err(error) }
        };
        let ended = || XrlError::Disconnected("the process before ends".into());
        assert_eq!(call_successor(async || fails_with(ended()).await).await.ok(), Some(3));
        calls.set(0);
        let refused = || XrlError::Internal("refused".into());
        assert!(call_successor(async || fails_with(refused()).await).await.is_err());
        assert_eq!(calls.get(), 1, "a refusal is final");
    }
}
