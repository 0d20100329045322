//! A call in flight: a future that yields the reply.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use prost::Message;
use tokio::task::JoinHandle;
use tokio::time::Sleep;

use crate::XrlError;
use crate::connection::Connection;

/// A call in flight. The call was issued when the client's method was called, in the order of the calls; awaiting it
/// yields the reply. Dropping it cancels the call: a running handler is dropped.
#[must_use = "dropping a call cancels it"]
pub struct Call<Rep> {
    state: State<Rep>,
    deadline: Option<Pin<Box<Sleep>>>,
}

pub(crate) enum State<Rep> {
    Ready(Result<Rep, XrlError>),
    /// On a connection, in a slot.
    Wire(Rc<Connection>, u32),
    /// A running handler of the same process, or a call by a family without connections.
    Task(JoinHandle<Result<Rep, XrlError>>),
    /// Not yet issued: the target is being resolved, or the window is full.
    Queued(Rc<RefCell<Queued<Rep>>>),
    Taken,
}

/// A call that waits to be issued, shared by the queue and the caller.
pub(crate) enum Queued<Rep> {
    Waiting(Option<Waker>),
    Issued(State<Rep>),
    /// The caller has dropped the call.
    Dropped,
}

impl<Rep> Call<Rep> {
    pub(crate) fn new(state: State<Rep>, within: Option<Duration>) -> Self {
        let deadline = match state {
            State::Ready(_) => None,
            _ => within.map(|d| Box::pin(tokio::time::sleep(d))),
        };
        Call { state, deadline }
    }
}

impl<Rep> Unpin for Call<Rep> {}

impl<Rep: Message + Default> State<Rep> {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Rep, XrlError>> {
        if let State::Queued(queued) = self {
            let mut inner = queued.borrow_mut();
            match &mut *inner {
                Queued::Waiting(waker) => {
                    if !waker.as_ref().is_some_and(|w| w.will_wake(cx.waker())) {
                        *waker = Some(cx.waker().clone());
                    }
                    return Poll::Pending;
                }
                Queued::Issued(state) => {
                    let state = std::mem::replace(state, State::Taken);
                    drop(inner);
                    *self = state;
                }
                Queued::Dropped => return Poll::Ready(Err(XrlError::Cancelled)),
            }
        }
        let result = match self {
            State::Wire(connection, slot) => match connection.poll_reply(*slot, cx) {
                Poll::Ready(result) => result,
                Poll::Pending => return Poll::Pending,
            },
            State::Task(task) => match Pin::new(task).poll(cx) {
                Poll::Ready(Ok(result)) => result,
                Poll::Ready(Err(e)) if e.is_cancelled() => Err(XrlError::Cancelled),
                Poll::Ready(Err(_)) => Err(XrlError::Internal("the handler panicked".to_owned())),
                Poll::Pending => return Poll::Pending,
            },
            State::Ready(_) => match std::mem::replace(self, State::Taken) {
                State::Ready(result) => return Poll::Ready(result),
                _ => return Poll::Pending,
            },
            State::Queued(_) | State::Taken => Err(XrlError::Internal("reply taken twice".to_owned())),
        };
        *self = State::Taken;
        Poll::Ready(result)
    }
}

impl<Rep> State<Rep> {
    fn cancel(&mut self) {
        match std::mem::replace(self, State::Taken) {
            State::Wire(connection, slot) => connection.abandon(slot),
            State::Task(task) => task.abort(),
            State::Queued(queued) => {
                let before = std::mem::replace(&mut *queued.borrow_mut(), Queued::Dropped);
                if let Queued::Issued(mut state) = before {
                    state.cancel();
                }
            }
            State::Ready(_) | State::Taken => {}
        }
    }
}

impl<Rep: Message + Default> Future for Call<Rep> {
    type Output = Result<Rep, XrlError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(result) = self.state.poll(cx) {
            return Poll::Ready(result);
        }
        if let Some(deadline) = &mut self.deadline
            && deadline.as_mut().poll(cx).is_ready()
        {
            self.state.cancel();
            return Poll::Ready(Err(XrlError::DeadlineExceeded));
        }
        Poll::Pending
    }
}

impl<Rep> Drop for Call<Rep> {
    fn drop(&mut self) {
        self.state.cancel();
    }
}
