#![allow(clippy::unwrap_used)] // a test that cannot go on panics

use super::*;
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::sync::Barrier;
use tokio::sync::mpsc;

fn with_threads(threads: usize) -> Arc<Executor> {
    let executor = Executor::new().unwrap();
    (0..threads).for_each(|n| executor.start(format!("test-{n}")).unwrap());
    executor
}

/// Two ends of a connection.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (one, listener.accept().unwrap().0)
}

/// Reads octets until the other side ends.
async fn read_all(socket: Socket) -> usize {
    let (mut read, mut space) = (0, [0; 1000]);
    loop {
        socket.readable().await;
        match socket.read(&mut space) {
            Ok(0) => return read,
            Ok(octets) => read += octets,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
}

/// Writes so many octets and ends.
async fn write_all(socket: Socket, octets: usize) {
    let mut left = octets;
    while left > 0 {
        match socket.write(&vec![7; left.min(100_000)]) {
            Ok(written) => left -= written,
            Err(error) => {
                assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                socket.writable().await;
            }
        }
    }
    socket.end();
}

#[test]
fn what_waits_is_taken_by_a_thread_that_does_not() {
    let executor = with_threads(2);
    let both = Arc::new(Barrier::new(2));
    let (here, there, threads) = (Arc::clone(&both), both, Arc::clone(&executor));
    let ends = executor.spawn(async move {
        // The first is next on this thread; the second is for the other one, which runs it while this one is blocked.
        let ends = [threads.spawn(async {}), threads.spawn(async move { _ = there.wait() })];
        here.wait();
        ends
    });
    let ends = ends.blocking_recv().unwrap();
    ends.into_iter().for_each(|end| end.blocking_recv().unwrap());
    executor.end();
}

#[test]
fn a_task_that_panics_is_missed_by_who_waits_for_it_only() {
    let executor = with_threads(1);
    let lost = executor.spawn(async { panic!("on purpose: a task may fail") });
    let (to_other, mut received) = mpsc::unbounded_channel();
    let other = executor.spawn(async move { received.recv().await });
    lost.blocking_recv().unwrap_err();
    to_other.send(5).unwrap();
    assert_eq!(other.blocking_recv(), Ok(Some(5)));
    executor.end();
}

#[test]
fn sockets_are_heard_of_on_any_number_of_threads() {
    const OCTETS: usize = 3_000_000;
    for threads in [1, 2, 4] {
        let executor = with_threads(threads);
        let pairs: Vec<_> = (0..8).map(|_| connection()).collect();
        let mut ends = Vec::new();
        for (one, other) in pairs {
            let [one, other] = [one, other].map(|s| Socket::new(&executor, s).unwrap());
            ends.push(executor.spawn(read_all(other)));
            drop(executor.spawn(write_all(one, OCTETS)));
        }
        let read: Vec<usize> = ends.into_iter().map(|end| end.blocking_recv().unwrap()).collect();
        assert_eq!(read, [OCTETS; 8], "{threads} threads");
        executor.end();
    }
}

#[test]
fn what_came_with_the_end_is_read_first() {
    let executor = with_threads(1);
    let (mut one, other) = connection();
    // All of it is there before anything is reported.
    one.write_all(&[0; 100_500]).unwrap();
    drop(one);
    let other = Socket::new(&executor, other).unwrap();
    assert_eq!(executor.spawn(read_all(other)).blocking_recv(), Ok(100_500));
    executor.end();
}

#[test]
fn both_ways_of_a_socket_are_waited_for_at_once() {
    let executor = with_threads(1);
    let (one, mut other) = connection();
    let one = Arc::new(Socket::new(&executor, one).unwrap());
    // Full: until the other side reads, nothing can be written.
    while one.write(&[0; 100_000]).is_ok() {}
    let (reads, writes) = (Arc::clone(&one), one);
    let read = executor.spawn(async move { reads.readable().await });
    let written = executor.spawn(async move { writes.writable().await });
    other.write_all(&[1]).unwrap();
    read.blocking_recv().unwrap();
    // That one way was reported does not end the other's waiting.
    let mut space = vec![0; 100_000];
    let mut other = other;
    let taker =
        std::thread::spawn(move || while io::Read::read(&mut other, &mut space).is_ok_and(|n| n > 0) {});
    written.blocking_recv().unwrap();
    executor.end();
    taker.join().unwrap();
}

#[test]
fn a_socket_goes_to_other_threads() {
    let (from, to) = (with_threads(1), with_threads(1));
    let (mut one, other) = connection();
    let before = Socket::new(&from, other).unwrap();
    let after = before.for_tasks_of(&to).unwrap();
    drop(before);
    one.write_all(&[0; 5000]).unwrap();
    drop(one);
    assert_eq!(to.spawn(read_all(after)).blocking_recv(), Ok(5000));
    from.end();
    to.end();
}

#[test]
fn what_is_left_at_the_end_is_let_go() {
    let executor = with_threads(1);
    let (one, other) = connection();
    let socket = Socket::new(&executor, other).unwrap();
    let ended = executor.spawn(async move { socket.readable().await });
    // Tasks are run in order: the first waits when this is answered.
    executor.spawn(async {}).blocking_recv().unwrap();
    executor.end();
    ended.blocking_recv().unwrap_err();
    drop(one);
}

#[test]
fn tasks_run_beside_others_on_one_thread() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let executor = Executor::here().unwrap();
        let driver = tokio::task::spawn_local(Arc::clone(&executor).drive(executor.watch().unwrap()));
        let (one, other) = connection();
        let [one, other] = [one, other].map(|s| Socket::new(&executor, s).unwrap());
        let read = executor.spawn(read_all(other));
        drop(executor.spawn(write_all(one, 3_000_000)));
        assert_eq!(read.await, Ok(3_000_000));
        driver.abort();
    });
}

#[test]
fn a_task_hears_whether_others_wait() {
    let executor = with_threads(1);
    let threads = Arc::clone(&executor);
    let received = executor.spawn(async move {
        let alone = others_wait();
        let other = threads.spawn(async {});
        let beside = others_wait();
        other.await.unwrap();
        (alone, beside, others_wait())
    });
    assert_eq!(received.blocking_recv().unwrap(), (false, true, false));
    assert!(!others_wait(), "no task asks");
    executor.end();
}
