//! A call in flight: a future that yields the reply.

use super::connection::Connection;
use crate::XrlError;
use crate::server::service::{PendingCall, PendingReply};
use prost::Message;
use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::Sleep;

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
    /// A running handler of the same process. The task has no type of its own for each method, which would be a copy of the
    /// scheduler's code for each: the reply is a `Rep`.
    Typed(JoinHandle<Result<Box<dyn Any>, XrlError>>),
    /// A call whose reply comes as octets, by a family without connections or from a target that was generated apart.
    Octets(JoinHandle<Result<Vec<u8>, XrlError>>),
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

impl<Rep: Message + Default + 'static> State<Rep> {
    /// Follows a running handler.
    pub(crate) fn typed(handler: PendingCall<Rep>) -> Self {
        let erased: PendingCall<Box<dyn Any>> =
            Box::pin(async move { handler.await.map(|reply| Box::new(reply) as Box<dyn Any>) });
        State::Typed(spawn_local(erased))
    }

    /// Follows a call whose reply comes as octets.
    pub(crate) fn octets(reply: PendingReply) -> Self {
        State::Octets(spawn_local(reply))
    }

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
            State::Typed(task) => match poll_task(task, cx) {
                Poll::Ready(result) => result.and_then(|reply| {
                    let wrong = |_| XrlError::Internal("a reply of another type".to_owned());
                    reply.downcast::<Rep>().map(|reply| *reply).map_err(wrong)
                }),
                Poll::Pending => return Poll::Pending,
            },
            State::Octets(task) => match poll_task(task, cx) {
                Poll::Ready(result) => result.and_then(|octets| {
                    Rep::decode(&octets[..]).map_err(|e| XrlError::Protocol(e.to_string()))
                }),
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

fn poll_task<T>(
    task: &mut JoinHandle<Result<T, XrlError>>,
    cx: &mut Context<'_>,
) -> Poll<Result<T, XrlError>> {
    Pin::new(task).poll(cx).map(|ended| match ended {
        Ok(result) => result,
        Err(e) if e.is_cancelled() => Err(XrlError::Cancelled),
        Err(_) => Err(XrlError::Internal("the handler panicked".to_owned())),
    })
}

impl<Rep> State<Rep> {
    fn cancel(&mut self) {
        match std::mem::replace(self, State::Taken) {
            State::Wire(connection, slot) => connection.abandon(slot),
            State::Typed(task) => task.abort(),
            State::Octets(task) => task.abort(),
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

impl<Rep: Message + Default + 'static> Future for Call<Rep> {
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
