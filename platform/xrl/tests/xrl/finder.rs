//! The Finder: names, life and death, access, its own restart.
#![allow(missing_docs, clippy::unwrap_used)]

use std::rc::Rc;

use crate::support::*;
use sluice_xrl::{Client, LifeEvent, LifeWatch, Principal, Target, XrlEndpoint, XrlError};

const NOTE: &[&str] = &["echo.v1.Echo/Note"];

async fn next(watch: &mut LifeWatch) -> (bool, String) {
    match watch.next().await.unwrap() {
        LifeEvent::Birth(life) => (true, life.instance),
        LifeEvent::Death(life) => (false, life.instance),
    }
}

#[test]
fn names() {
    run(async |world| {
        let router = world.router().await;
        let (_n1, first) = noter(&router, echo()).await;
        let (_n2, second) = noter(&router, echo()).await;
        assert_eq!((first.instance(), second.instance()), ("echo", "echo-2"));
        let n = Rc::new(Noter::default());
        let taken = serve(&world.router().await, &n, echo().named("echo-2")).await;
        assert_eq!(taken.err(), Some(XrlError::NameTaken("echo-2".to_owned())));
        let sole = serve(&router, &n, echo().singleton()).await;
        assert!(matches!(sole.err(), Some(XrlError::NameTaken(_))));
        let sole = serve(&router, &n, Target::new("sole", vec![]).singleton()).await.unwrap();
        let more = serve(&router, &n, Target::new("sole", vec![])).await;
        assert!(matches!(more.err(), Some(XrlError::NameTaken(_))));
        drop(sole);
        for bad in ["", "a b", "finder", "a/b"] {
            let refused = serve(&router, &n, Target::new(bad, vec![])).await;
            assert!(matches!(refused.err(), Some(XrlError::BadArguments(_))), "{bad}");
        }
        let targets = router.targets().await.unwrap();
        let mine: Vec<_> = targets.iter().filter(|t| t.class == "echo").collect();
        assert_eq!(mine.len(), 2);
        assert_eq!((mine[0].pid, mine[0].principal.as_str()), (std::process::id(), "tests"));
    });
}

#[test]
fn the_first_of_a_class_answers_and_then_the_next() {
    run(async |world| {
        let (one, two) = (world.router().await, world.router().await);
        let (first, handle) = noter(&one, echo().named("z")).await;
        let (second, _handle) = noter(&two, echo().named("a")).await;
        let router = world.router().await;
        let mut watch = router.watch_class("echo").await.unwrap();
        let client = EchoClient::new(&router, "echo");
        client.note(note(1, 0)).await.unwrap();
        assert_eq!(
            (next(&mut watch).await, next(&mut watch).await),
            ((true, "z".into()), (true, "a".into()))
        );
        drop(handle);
        assert_eq!(next(&mut watch).await, (false, "z".into()));
        client.note(note(2, 0)).await.unwrap();
        assert_eq!((&*first.notes.borrow(), &*second.notes.borrow()), (&vec![1], &vec![2]));
    });
}

#[test]
fn the_death_of_a_process_is_reported_at_once() {
    run(async |world| {
        let router = world.router().await;
        let mut watch = router.watch_instance("echo").await.unwrap();
        let dying = world.router().await;
        let (_noter, handle) = noter(&dying, echo()).await;
        assert_eq!(next(&mut watch).await, (true, "echo".into()));
        let client = EchoClient::new(&router, "echo");
        client.note(note(1, 0)).await.unwrap();
        let call = client.hang(HangRequest {});
        drop((handle, dying));
        assert_eq!(next(&mut watch).await, (false, "echo".into()));
        assert!(matches!(call.await, Err(XrlError::UnknownTarget(_) | XrlError::Disconnected(_))));
        assert_eq!(client.note(note(1, 0)).await, Err(XrlError::UnknownTarget("echo".into())));
        // A new life is found again by the same client.
        let (_noter, _handle) = noter(&world.router().await, echo()).await;
        assert_eq!(next(&mut watch).await, (true, "echo".into()));
        client.note(note(1, 0)).await.unwrap();
    });
}

#[test]
fn the_right_to_read_is_the_right_to_call_methods_that_say_so() {
    run(async |world| {
        let (_noter, _handle) = noter(&world.router().await, echo()).await;
        let reader = Principal { name: "reader".to_owned(), may_read: true, ..Principal::default() };
        let set = |p: &Principal| {
            world.finder.borrow().as_ref().unwrap().set_principal([3; 16], p.clone());
        };
        set(&reader);
        let endpoint = XrlEndpoint::connect(world.options([3; 16])).await.unwrap();
        let client = EchoClient::new(&endpoint, "echo");
        client.echo(Everything::default()).await.unwrap();
        assert!(matches!(client.note(note(1, 0)).await, Err(XrlError::AccessDenied(_))));
        assert_eq!(endpoint.reads("echo", "echo.v1.Echo/Echo").await, Ok(true));
        assert!(matches!(endpoint.reads("echo", "echo.v1.Echo/Note").await, Err(XrlError::AccessDenied(_))));
        assert_eq!(endpoint.reads("finder", "finder.v1.Finder/ListTargets").await, Ok(true));
        assert_eq!(endpoint.reads("finder", "finder.v1.Finder/Register").await, Ok(false));
        // Text calls of a reader are judged by the interface's own description.
        let deadline = std::time::Duration::from_secs(10);
        let method = |name| ("echo", "echo.v1.Echo", name);
        assert!(sluice_xrl::text::read_plain(&endpoint, method("Echo"), &[], deadline).await.is_ok());
        let all = world.router().await;
        let read = sluice_xrl::text::read_plain(&all, method("Note"), &[], deadline).await;
        assert!(matches!(read, Err(XrlError::AccessDenied(_))), "{read:?}");
        assert!(sluice_xrl::text::call_plain(&all, method("Note"), &[], deadline).await.is_ok());
        // A principal that loses the right loses the keys of such methods.
        set(&Principal { may_read: false, ..reader });
        let mut denied = client.echo(Everything::default()).await;
        for _ in 0..100 {
            if denied.is_err() {
                break;
            }
            tokio::task::yield_now().await;
            denied = client.echo(Everything::default()).await;
        }
        assert!(matches!(denied, Err(XrlError::AccessDenied(_))), "{denied:?}");
    });
}

#[test]
fn access_list() {
    run(async |world| {
        let (_noter, _handle) = noter(&world.router().await, echo()).await;
        let unknown = XrlEndpoint::connect(world.options([9; 16])).await;
        assert!(matches!(unknown.err(), Some(XrlError::AccessDenied(_))));
        let mut principal = Principal {
            name: "weak".to_owned(),
            uid: None,
            may_register: vec!["weak".to_owned()],
            may_call: vec!["echo/echo.v1.Echo/Note".to_owned()],
            may_read: false,
            guarded: Vec::new(),
        };
        let set = |p: &Principal| {
            world.finder.borrow().as_ref().unwrap().set_principal([2; 16], p.clone());
        };
        set(&principal);
        let weak = XrlEndpoint::connect(world.options([2; 16])).await.unwrap();
        let client = EchoClient::new(&weak, "echo");
        client.note(note(1, 0)).await.unwrap();
        assert!(matches!(client.hang(HangRequest {}).await, Err(XrlError::AccessDenied(_))));
        let n = Rc::new(Noter::default());
        assert!(matches!(serve(&weak, &n, echo()).await.err(), Some(XrlError::AccessDenied(_))));
        serve(&weak, &n, Target::new("weak", vec![])).await.unwrap();
        // More and less at run time.
        principal.may_call = vec!["*/echo.v1.Echo/Echo".to_owned()];
        set(&principal);
        client.echo(Everything::default()).await.unwrap();
        let mut denied = client.note(note(1, 0)).await;
        for _ in 0..100 {
            if denied.is_err() {
                break;
            }
            tokio::task::yield_now().await;
            denied = client.note(note(1, 0)).await;
        }
        assert!(matches!(denied, Err(XrlError::AccessDenied(_))), "{denied:?}");
        world.finder.borrow().as_ref().unwrap().remove_principal(&[2; 16]);
        assert!(matches!(weak.targets().await, Err(XrlError::AccessDenied(_))));
    });
}

#[test]
fn calls_go_on_while_the_finder_restarts() {
    run(async |world| {
        let (receiver, caller) = (world.router().await, world.router().await);
        let (_noter, _handle) = noter(&receiver, echo()).await;
        let mut watch = caller.watch_class("echo").await.unwrap();
        assert_eq!(next(&mut watch).await, (true, "echo".into()));
        let client = EchoClient::new(&caller, "echo");
        client.note(note(1, 0)).await.unwrap();
        world.stop_finder();
        client.note(note(2, 0)).await.unwrap();
        while caller.targets().await.is_ok() {}
        client.note(note(3, 0)).await.unwrap();
        // What is not cached cannot be found.
        assert_eq!(
            Client::new(&caller, "other", NOTE).call::<_, NoteReply>(0, note(1, 0)).await,
            Err(XrlError::NoFinder)
        );
        world.start_finder().await;
        caller.finder_connected().await.unwrap();
        receiver.finder_connected().await.unwrap();
        let targets = caller.targets().await.unwrap();
        assert_eq!(targets.iter().map(|t| t.instance.as_str()).collect::<Vec<_>>(), ["echo"]);
        client.note(note(4, 0)).await.unwrap();
        client.echo(Everything::default()).await.unwrap();
        // The life went on, so nothing is reported; a later death is.
        let (_noter, _handle2) = noter(&receiver, echo()).await;
        assert_eq!(next(&mut watch).await, (true, "echo-2".into()));
    });
}

#[test]
fn the_finder_answers_like_any_target() {
    use sluice_xrl::idl::finder::v1::{FinderClient, ListTargetsRequest};
    run(async |world| {
        let router = world.router().await;
        let (_noter, _handle) = noter(&router, echo()).await;
        let reply = FinderClient::new(&router, "finder").list_targets(ListTargetsRequest {}).await.unwrap();
        assert_eq!(reply.targets[0].instance, "echo");
    });
}

/// The instances of a class run in parallel, and each answers only to its own name.
#[test]
fn instances_answer_for_themselves() {
    run(async |world| {
        let (plain, plain_handle) = noter(&world.router().await, echo().singleton()).await;
        let principal = Principal {
            name: "echo@red".to_owned(),
            uid: None,
            may_register: vec!["echo@red".to_owned()],
            may_call: vec!["*".to_owned()],
            may_read: false,
            guarded: Vec::new(),
        };
        world.finder.borrow().as_ref().unwrap().set_principal([2; 16], principal);
        let router = XrlEndpoint::connect(world.options([2; 16])).await.unwrap();
        let red = Rc::new(Noter::default());
        let others = [
            echo(),
            echo().named("echo"),
            echo().named("echo@blue"),
            Target::new("other", vec![]).named("echo@red"),
        ];
        for other in others {
            let refused = serve(&router, &red, other).await;
            assert!(matches!(refused.err(), Some(XrlError::AccessDenied(_))));
        }
        let handle = serve(&router, &red, echo().named("echo@red").singleton()).await.unwrap();
        assert_eq!((plain_handle.instance(), handle.instance()), ("echo", "echo@red"));
        let caller = world.router().await;
        let (to_plain, to_red) = (EchoClient::new(&caller, "echo"), EchoClient::new(&caller, "echo@red"));
        to_plain.note(note(1, 0)).await.unwrap();
        to_red.note(note(2, 0)).await.unwrap();
        assert_eq!((plain.notes.borrow().clone(), red.notes.borrow().clone()), (vec![1], vec![2]));
        // What is meant for the class does not reach the instance that is left.
        let mut watch = caller.watch_class("echo").await.unwrap();
        assert_eq!((next(&mut watch).await.1, next(&mut watch).await.1), ("echo".into(), "echo@red".into()));
        drop(plain_handle);
        assert_eq!(next(&mut watch).await, (false, "echo".into()));
        assert!(matches!(to_plain.note(note(3, 0)).await, Err(XrlError::UnknownTarget(_))));
        to_red.note(note(4, 0)).await.unwrap();
    });
}
