//! A Finder, routers and a target for the tests.
#![allow(dead_code, missing_docs, clippy::unwrap_used)]

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use sluice_xrl::finder::Finder;
use sluice_xrl::{
    Acl, CallContext, EndpointOptions, Family, Principal, Target, TargetHandle, XrlEndpoint, XrlError,
};
use tokio::sync::Notify;

#[allow(clippy::all)]
pub mod idl {
    include!(concat!(env!("OUT_DIR"), "/tests/xrl.rs"));
}
pub use idl::echo::v1::*;

pub const SECRET: [u8; 16] = [1; 16];
pub const STREAMS: [Family; 2] = [Family::Unix, Family::Tcp];

pub struct World {
    pub dir: tempfile::TempDir,
    pub finder: RefCell<Option<Finder>>,
}

impl World {
    pub fn socket(&self) -> PathBuf {
        self.dir.path().join("finder")
    }

    pub fn options(&self, secret: [u8; 16]) -> EndpointOptions {
        let patience = Duration::from_millis(300);
        let max_frame = sluice_xrl::frame::MAX_LENGTH;
        EndpointOptions {
            patience,
            max_frame,
            ..EndpointOptions::new(self.socket(), secret, self.dir.path())
        }
    }

    pub async fn router(&self) -> XrlEndpoint {
        XrlEndpoint::connect(self.options(SECRET)).await.unwrap()
    }

    pub async fn start_finder(&self) {
        let acl = Acl::from([(SECRET, Principal::all_powerful("tests"))]);
        *self.finder.borrow_mut() = Some(Finder::bind(self.socket(), acl).await.unwrap());
    }

    pub fn stop_finder(&self) {
        self.finder.borrow_mut().take();
    }
}

/// Runs a test on a single thread with a Finder.
pub fn run<F: Future<Output = ()>>(test: impl FnOnce(Rc<World>) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        let world = Rc::new(World { dir: tempfile::tempdir().unwrap(), finder: RefCell::default() });
        world.start_finder().await;
        tokio::time::timeout(Duration::from_secs(60), test(world)).await.expect("the test ends in time");
    });
}

/// Records its calls.
#[derive(Default)]
pub struct Noter {
    pub notes: RefCell<Vec<u32>>,
    /// The principal of the last call of `Note`.
    pub principal: RefCell<String>,
    /// The processing time of a note.
    pub work: Cell<Duration>,
    pub hanging: Cell<u32>,
    pub changed: Notify,
}

struct Hanging<'a>(&'a Noter);

impl Drop for Hanging<'_> {
    fn drop(&mut self) {
        self.0.hanging.set(self.0.hanging.get() - 1);
        self.0.changed.notify_one();
    }
}

impl Noter {
    /// Waits until so many calls hang.
    pub async fn hanging(&self, n: u32) {
        while self.hanging.get() != n {
            self.changed.notified().await;
        }
    }
}

impl Echo for Noter {
    async fn echo(&self, _: &CallContext, request: Everything) -> Result<Everything, XrlError> {
        Ok(request)
    }

    async fn note(&self, ctx: &CallContext, request: NoteRequest) -> Result<NoteReply, XrlError> {
        *self.principal.borrow_mut() = ctx.principal.to_string();
        self.notes.borrow_mut().push(request.number);
        let begin = std::time::Instant::now();
        while begin.elapsed() < self.work.get() {
            std::hint::spin_loop();
        }
        for _ in 0..request.yields {
            tokio::task::yield_now().await;
        }
        Ok(NoteReply { number: request.number })
    }

    async fn hang(&self, _: &CallContext, _: HangRequest) -> Result<HangReply, XrlError> {
        self.hanging.set(self.hanging.get() + 1);
        self.changed.notify_one();
        let _counted = Hanging(self);
        std::future::pending().await
    }

    async fn fail(&self, _: &CallContext, request: FailRequest) -> Result<FailReply, XrlError> {
        Err(XrlError::application(request.code, request.message))
    }

    async fn panic(&self, _: &CallContext, _: HangRequest) -> Result<HangReply, XrlError> {
        panic!("as asked");
    }
}

pub async fn noter(router: &XrlEndpoint, target: Target) -> (Rc<Noter>, TargetHandle) {
    let noter = Rc::new(Noter::default());
    let handle = serve(router, &noter, target).await.unwrap();
    (noter, handle)
}

pub async fn serve(
    router: &XrlEndpoint,
    noter: &Rc<Noter>,
    mut target: Target,
) -> Result<TargetHandle, XrlError> {
    target.services.push(echo_service(Rc::clone(noter)));
    router.register(target).await
}

pub fn echo() -> Target {
    Target::new("echo", Vec::new()).families(&[Family::Unix, Family::Tcp, Family::Udp])
}

pub fn note(number: u32, yields: u32) -> NoteRequest {
    NoteRequest { number, yields }
}
