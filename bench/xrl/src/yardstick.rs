//! The same calls over gRPC (tonic, unary, one connection, Unix socket).

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use tokio::net::{UnixListener, UnixStream};
use tonic::codegen::tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::{Channel, Endpoint, Server, Uri};
use tonic::{Request, Response, Status};

use crate::arguments;

/// What tonic generated.
#[allow(missing_docs, clippy::all)]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/grpc/bench.v1.rs"));
}

use proto::bench_client::BenchClient;
use proto::bench_server::{Bench, BenchServer};

struct Counter;

#[tonic::async_trait]
impl Bench for Counter {
    async fn count(
        &self,
        request: Request<proto::CountRequest>,
    ) -> Result<Response<proto::CountReply>, Status> {
        Ok(Response::new(proto::CountReply { arguments: arguments::count_grpc(request.get_ref()) }))
    }
}

/// Serves for as long as the process lives, on a thread of its own.
pub fn serve(path: PathBuf) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let incoming = UnixListenerStream::new(UnixListener::bind(path)?);
        Server::builder().add_service(BenchServer::new(Counter)).serve_with_incoming(incoming).await?;
        Ok(())
    })
}

/// A connection.
pub async fn connect(path: &Path) -> anyhow::Result<BenchClient<Channel>> {
    let path = path.to_owned();
    let channel = Endpoint::try_from("http://localhost")?
        .connect_with_connector(tower::service_fn(move |_: Uri| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        }))
        .await?;
    Ok(BenchClient::new(channel))
}

/// Makes `calls` calls, `window` at a time.
pub async fn run(
    client: &BenchClient<Channel>,
    calls: u64,
    window: u64,
    count: usize,
) -> anyhow::Result<Duration> {
    let left = Rc::new(Cell::new(calls));
    let start = Instant::now();
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..window {
        let (left, mut client) = (Rc::clone(&left), client.clone());
        let request = arguments::grpc(count);
        workers.spawn_local(async move {
            while left.get() > 0 {
                left.set(left.get() - 1);
                let reply = client.count(request).await?;
                anyhow::ensure!(reply.get_ref().arguments == count as u32, "wrong reply");
            }
            Ok(())
        });
    }
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    Ok(start.elapsed())
}
