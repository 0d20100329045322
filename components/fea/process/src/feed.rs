//! The feed of a subscriber: changes, a call at a time, while the subscriber lives.

use sluice_xrl::{XrlEndpoint, XrlError};
use std::cell::Cell;
use std::time::Duration;
use tokio::sync::Notify;
use tracing::{info, warn};

/// The time until everything is sent again after a call that failed.
const AGAIN: Duration = Duration::from_secs(1);

/// What a subscriber is still to be sent.
pub(crate) trait Feed {
    /// The request of a call.
    type Request;

    /// Returns what is to be sent next; `None` if nothing is.
    fn take(&self) -> Option<Self::Request>;

    /// Begins anew: everything is to be sent.
    fn begin(&self);
}

/// The end of a feed by a newer subscription of the same target, and the notice that there is something to send.
#[derive(Default)]
pub(crate) struct Wake {
    is_replaced: Cell<bool>,
    notify: Notify,
}

impl Wake {
    /// Notes that there is something to send.
    pub(crate) fn wake(&self) {
        self.notify.notify_one();
    }

    /// Ends the feed: the target has subscribed again.
    pub(crate) fn replace(&self) {
        self.is_replaced.set(true);
        self.wake();
    }
}

/// Feeds a target until the target dies or subscribes again.
pub(crate) async fn run<F: Feed>(
    router: &XrlEndpoint,
    target: &str,
    wake: &Wake,
    feed: &F,
    call: impl AsyncFn(F::Request) -> Result<(), XrlError>,
) {
    tokio::select! {
        () = serve(target, wake, feed, AGAIN, call) => {}
        () = router.until_death(target) => {}
    }
}

/// Sends what there is until the target subscribes again. After a call that failed, the target may lack something: everything is sent
/// after the time `again`. A target that does not know the call is not fed.
async fn serve<F: Feed>(
    target: &str,
    wake: &Wake,
    feed: &F,
    again: Duration,
    call: impl AsyncFn(F::Request) -> Result<(), XrlError>,
) {
    loop {
        wake.notify.notified().await;
        if wake.is_replaced.get() {
            return;
        }
        let Some(request) = feed.take() else { continue };
        match call(request).await {
            Ok(()) => {}
            Err(error @ (XrlError::UnknownInterface(_) | XrlError::UnknownMethod(_))) => {
                return warn!(event = "fea.subscriber.refused", target, %error, "{target} takes no changes: {error}");
            }
            Err(error) => {
                info!(target, %error, "{target} did not take changes, and is sent everything again: {error}");
                tokio::time::sleep(again).await;
                feed.begin();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    /// Numbers to send; the whole is 1 to 3.
    #[derive(Default)]
    struct Numbers {
        waiting: RefCell<Vec<u32>>,
        wake: Wake,
    }

    impl Feed for Numbers {
        type Request = Vec<u32>;

        fn take(&self) -> Option<Vec<u32>> {
            Some(self.waiting.take()).filter(|numbers| !numbers.is_empty())
        }

        fn begin(&self) {
            self.waiting.replace(vec![1, 2, 3]);
            self.wake.wake();
        }
    }

    /// Returns the requests to a target that answers with `answers`, the last of which ends the feed.
    fn sent(answers: Vec<Result<(), XrlError>>) -> Vec<Vec<u32>> {
        let numbers = Numbers::default();
        numbers.waiting.borrow_mut().push(3);
        numbers.wake.wake();
        let (sent, answers) = (RefCell::new(Vec::new()), RefCell::new(answers.into_iter()));
        let call = async |request: Vec<u32>| {
            sent.borrow_mut().push(request);
            let mut answers = answers.borrow_mut();
            let answer = answers.next().unwrap_or(Ok(()));
            if answers.len() == 0 {
                numbers.wake.replace();
            }
            answer
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
        runtime.block_on(serve("rib", &numbers.wake, &numbers, Duration::ZERO, call));
        sent.into_inner()
    }

    #[test]
    fn a_call_that_failed_is_followed_by_everything() {
        let errors = [XrlError::DeadlineExceeded, XrlError::BadKey, XrlError::Disconnected("gone".into())];
        for error in errors {
            assert_eq!(sent(vec![Err(error), Ok(())]), [vec![3], vec![1, 2, 3]]);
        }
        let unknown = XrlError::UnknownMethod("rib/x/y".into());
        assert_eq!(sent(vec![Err(unknown), Ok(())]), [vec![3]], "not fed any more");
    }
}
