//! etcd as the store of the stream: transactions, reads at a revision, watches, and the leader's key with its lease.

mod members;
mod values;

pub use values::Value;

use super::Connector;
use crate::identity::IdentityError;
use hyper_util::rt::TokioIo;
use pb::request_op::Request;
use pb::response_op::Response;
use rustls::ClientConfig;
use sluice_cluster::inventory::ElementId;
use sluice_cluster::key::KeyRing;
use sluice_cluster::stream::loader::{LoadError, Loaded, Loader};
use sluice_cluster::stream::seal;
use sluice_cluster::stream::store::{CHUNKS, ChunkId, ENTRIES, HEAD, Key, Outcome, Transaction};
use std::error::Error as _;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status, Streaming};

#[allow(missing_docs, clippy::all)] // generated
mod pb {
    include!(concat!(env!("OUT_DIR"), "/etcd/etcdserverpb.rs"));
}

/// The longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The longest wait for a page of a read.
const PAGE_TIMEOUT: Duration = Duration::from_secs(30);
/// Values of a page.
const PAGE: i64 = 32;
/// The largest message that is read.
const MOST_OCTETS: usize = 64 << 20;
/// The window of a stream, so that watches keep up.
const WINDOW: u32 = 8 << 20;
/// The key of the leader, behind the cluster's beginning.
const LEADER: &str = "leader";
/// The metadata by which a server without a leader of the store ends a request (`hasleader` in etcd's `rpctypes`).
const REQUIRE_LEADER: &str = "hasleader";
/// The numbers of the watches: of a single key, and of the log.
const WATCH_KEY: i64 = 1;
const WATCH_LOG: i64 = 2;

/// The reason why the store does not serve.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// No connection.
    #[error("cannot connect: {}", innermost(.0))]
    Connect(#[from] tonic::transport::Error),
    /// No credentials for a store that authenticates elements.
    #[error(transparent)]
    Credentials(#[from] IdentityError),
    /// An answer is an error.
    #[error("{}", .0.message())]
    Answer(Box<Status>),
    /// No answer.
    #[error("no answer for {0:?}")]
    Timeout(Duration),
    /// The lease of the leader's key is over.
    #[error("the leader's lease is over")]
    Lease,
    /// The store closed a watch.
    #[error("the store closed the watch")]
    Closed,
}

/// Returns the text of the cause: the library's own texts do not say why.
fn innermost(error: &tonic::transport::Error) -> String {
    let mut cause = error.source();
    let mut text = error.to_string();
    while let Some(inner) = cause {
        text = inner.to_string();
        cause = inner.source();
    }
    text
}

impl From<Status> for StoreError {
    fn from(status: Status) -> Self {
        StoreError::Answer(Box::new(status))
    }
}

/// The leader as the store has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Found {
    /// The element; `None` if the value is no element's number, or not sealed.
    pub element: Option<ElementId>,
    /// The revision at which the key was created.
    pub epoch: u64,
}

/// A connection to the store.
#[derive(Clone)]
pub struct Client {
    channel: Channel,
    /// The beginning of the names of the cluster's keys.
    start: String,
    /// The keys of the values' tags.
    keys: KeyRing,
}

/// Something that a watch reports.
pub enum Watched {
    /// The single key changed: the leader's, or the one of a value.
    Key,
    /// Entries of the log, each with its revision.
    Entries(Vec<(u64, Vec<u8>)>),
    /// The log cannot be watched from the wanted revision on, or has an entry of others.
    Lost,
    /// All changes up to a revision have been reported.
    Progress(u64),
}

/// Watches of a single key and of the log.
pub struct Watch {
    requests: mpsc::Sender<pb::WatchRequest>,
    responses: Streaming<pb::WatchResponse>,
    keys: KeyRing,
}

async fn within<T>(
    limit: Duration,
    call: impl Future<Output = Result<tonic::Response<T>, Status>>,
) -> Result<T, StoreError> {
    match tokio::time::timeout(limit, call).await {
        Ok(answer) => Ok(answer?.into_inner()),
        Err(_) => Err(StoreError::Timeout(limit)),
    }
}

fn put(key: String, value: Vec<u8>, lease: i64) -> pb::RequestOp {
    let put = pb::PutRequest { key: key.into(), value, lease };
    pb::RequestOp { request: Some(Request::RequestPut(put)) }
}

fn remove(from: String, to: String) -> pb::RequestOp {
    let request = pb::DeleteRangeRequest { key: from.into(), range_end: to.into() };
    pb::RequestOp { request: Some(Request::RequestDeleteRange(request)) }
}

fn read(key: String) -> pb::RequestOp {
    let request = pb::RangeRequest { key: key.into(), ..Default::default() };
    pb::RequestOp { request: Some(Request::RequestRange(request)) }
}

fn created_at(key: String, revision: u64) -> pb::Compare {
    use pb::compare::{CompareTarget, TargetUnion};
    let target_union = Some(TargetUnion::CreateRevision(revision as i64));
    pb::Compare { target: CompareTarget::Create.into(), key: key.into(), target_union, ..Default::default() }
}

fn changed_at(key: String, revision: u64) -> pb::Compare {
    use pb::compare::{CompareTarget, TargetUnion};
    let target_union = Some(TargetUnion::ModRevision(revision as i64));
    pb::Compare { target: CompareTarget::Mod.into(), key: key.into(), target_union, ..Default::default() }
}

fn revision(header: Option<&pb::ResponseHeader>) -> u64 {
    header.map_or(0, |header| header.revision as u64)
}

/// Returns the request for a watch of the keys in a range behind a revision; a range without an end is one key.
fn watch_request((key, end): (String, String), behind: u64, watch_id: i64) -> pb::WatchRequest {
    use pb::watch_request::RequestUnion;
    let (key, range_end, start_revision) = (key.into(), end.into(), behind as i64 + 1);
    let request = pb::WatchCreateRequest { key, range_end, start_revision, watch_id };
    pb::WatchRequest { request_union: Some(RequestUnion::CreateRequest(request)) }
}

/// Returns the key behind all that begin with `start`, whose last octet is no 255.
fn end_of(start: &str) -> String {
    let mut end = start.to_owned();
    let last = end.pop();
    end.extend(last.and_then(|last| char::from_u32(u32::from(last) + 1)));
    end
}

impl Client {
    /// Connects to an endpoint, with settings of TLS for a store that authenticates elements. `name` is the cluster's.
    ///
    /// # Errors
    /// Nobody answers.
    pub async fn connect(
        (connector, tls): (Connector, Option<Arc<ClientConfig>>),
        endpoint: SocketAddr,
        name: &str,
        keys: KeyRing,
    ) -> Result<Self, StoreError> {
        let service = tower::service_fn(move |_| {
            let (connector, tls) = (connector.clone(), tls.clone().map(|tls| (tls, endpoint.ip().into())));
            async move { Ok::<_, io::Error>(TokioIo::new(connector.connect(endpoint, tls).await?)) }
        });
        // The connector speaks TLS: the library need not know.
        let channel = Endpoint::from_shared(format!("http://{endpoint}"))?
            .connect_timeout(TIMEOUT)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(2 * WINDOW)
            .connect_with_connector(service)
            .await?;
        Ok(Client { channel, start: format!("/sluice/{name}/"), keys })
    }

    fn key(&self, key: &str) -> String {
        format!("{}{key}", self.start)
    }

    /// Returns the number in a sealed value.
    fn opened(&self, key: &str, value: &[u8]) -> Option<u16> {
        let octets = seal::open(&self.key(key), value, &self.keys)?;
        str::from_utf8(octets).ok()?.parse().ok()
    }

    fn kv(&self) -> pb::kv_client::KvClient<Channel> {
        pb::kv_client::KvClient::new(self.channel.clone()).max_decoding_message_size(MOST_OCTETS)
    }

    fn lease(&self) -> pb::lease_client::LeaseClient<Channel> {
        pb::lease_client::LeaseClient::new(self.channel.clone())
    }

    /// Carries a transaction of the stream out.
    ///
    /// # Errors
    /// Without an answer, the transaction may be done or not.
    pub async fn transact(&self, transaction: &Transaction) -> Result<Outcome, StoreError> {
        let head = self.key(HEAD);
        let mut success = Vec::new();
        if transaction.clears {
            // Ranges may not hold keys that the same transaction sets.
            let all = self.key(&Key::Chunk(ChunkId::ALL).text());
            success.push(remove(format!("{all}\0"), end_of(&self.key(CHUNKS))));
            success.push(remove(self.key(ENTRIES), end_of(&self.key(ENTRIES))));
        }
        for id in &transaction.removed_chunks {
            success.push(remove(self.key(&Key::Chunk(*id).text()), String::new()));
        }
        if let Some((from, to)) = transaction.removed_entries {
            success.push(remove(self.key(&Key::Entry(from).text()), self.key(&Key::Entry(to).text())));
        }
        let sealed = |(key, octets): &(Key, Vec<u8>)| {
            let name = self.key(&key.text());
            let value = seal::seal(&name, octets, &self.keys.current);
            put(name, value, 0)
        };
        success.extend(transaction.puts.iter().map(sealed));
        let request = pb::TxnRequest {
            compare: vec![
                created_at(self.key(LEADER), transaction.epoch),
                changed_at(head.clone(), transaction.head_revision),
            ],
            success,
            failure: vec![read(self.key(LEADER)), read(head.clone())],
        };
        let reply = within(TIMEOUT, self.kv().txn(request)).await?;
        if reply.succeeded {
            return Ok(Outcome::Done(revision(reply.header.as_ref())));
        }
        let mut values = reply.responses.into_iter().map(|response| match response.response {
            Some(Response::ResponseRange(range)) => range.kvs.into_iter().next(),
            _ => None,
        });
        let leader = values.next().flatten();
        let value = values.next().flatten();
        Ok(Outcome::Refused {
            is_leader: leader.is_some_and(|leader| leader.create_revision as u64 == transaction.epoch),
            head: value.and_then(|value| {
                let octets = seal::open(&head, &value.value, &self.keys)?;
                Some((octets.to_vec(), value.mod_revision as u64))
            }),
        })
    }

    /// Reads the stream as a whole, at one revision. The second value is the revision of the head's last change, 0 without a head. Others of
    /// this thread run between values.
    ///
    /// # Errors
    /// The store does not answer, or has no history for the read any more.
    pub async fn load(&self) -> Result<(Result<Loaded, LoadError>, u64), StoreError> {
        let mut loader = Loader::default();
        let head = pb::RangeRequest { key: self.key(HEAD).into(), ..Default::default() };
        let head = within(TIMEOUT, self.kv().range(head)).await?;
        let at = revision(head.header.as_ref());
        let head_revision = head.kvs.first().map_or(0, |value| value.mod_revision as u64);
        head.kvs.iter().for_each(|value| self.take_in(&mut loader, value));
        for part in [CHUNKS, ENTRIES] {
            let (mut from, end) = (self.key(part), end_of(&self.key(part)));
            loop {
                let (key, range_end) = (from.into(), end.clone().into());
                let request = pb::RangeRequest { key, range_end, limit: PAGE, revision: at as i64 };
                let page = within(PAGE_TIMEOUT, self.kv().range(request)).await?;
                for value in &page.kvs {
                    self.take_in(&mut loader, value);
                    tokio::task::yield_now().await;
                }
                match page.kvs.last().filter(|_| page.more) {
                    Some(last) => from = format!("{}\0", String::from_utf8_lossy(&last.key)),
                    None => break,
                }
            }
        }
        Ok((loader.finish(at), head_revision))
    }

    fn take_in(&self, loader: &mut Loader, value: &pb::KeyValue) {
        let name = String::from_utf8_lossy(&value.key);
        let key = name.strip_prefix(&self.start).unwrap_or_default();
        match seal::open(&name, &value.value, &self.keys) {
            Some(octets) => loader.add(key, octets, value.mod_revision as u64),
            None => loader.refuse(key),
        }
    }

    /// Returns the leader, and the revision at which that was so.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn leader(&self) -> Result<(Option<Found>, u64), StoreError> {
        let request = pb::RangeRequest { key: self.key(LEADER).into(), ..Default::default() };
        let reply = within(TIMEOUT, self.kv().range(request)).await?;
        let found = reply.kvs.first().map(|value| Found {
            element: self.opened(LEADER, &value.value).and_then(ElementId::new),
            epoch: value.create_revision as u64,
        });
        Ok((found, revision(reply.header.as_ref())))
    }

    /// Becomes the leader in place of `before`, if nobody else did so. Returns the epoch.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn campaign(
        &self,
        element: ElementId,
        lease: i64,
        before: Option<Found>,
    ) -> Result<Option<u64>, StoreError> {
        let key = self.key(LEADER);
        let value = seal::seal(&key, element.number().to_string().as_bytes(), &self.keys.current);
        if let Some(before) = before {
            // A key that is set again keeps the revision of its creation: the old one goes first.
            let request = pb::TxnRequest {
                compare: vec![created_at(key.clone(), before.epoch)],
                success: vec![remove(key.clone(), String::new())],
                failure: Vec::new(),
            };
            within(TIMEOUT, self.kv().txn(request)).await?;
        }
        let request = pb::TxnRequest {
            compare: vec![created_at(key.clone(), 0)],
            success: vec![put(key, value, lease)],
            failure: Vec::new(),
        };
        let reply = within(TIMEOUT, self.kv().txn(request)).await?;
        Ok(reply.succeeded.then(|| revision(reply.header.as_ref())))
    }

    /// Makes a lease of so many seconds.
    ///
    /// # Errors
    /// The store does not answer, or has no room.
    pub async fn grant(&self, seconds: i64) -> Result<i64, StoreError> {
        let reply = within(TIMEOUT, self.lease().lease_grant(pb::LeaseGrantRequest { ttl: seconds })).await?;
        if reply.error.is_empty() {
            Ok(reply.id)
        } else {
            Err(Status::new(Code::Internal, reply.error).into())
        }
    }

    /// Ends a lease: the leader's key goes at once.
    pub async fn revoke(&self, lease: i64) {
        // A lease that cannot be revoked ends by itself.
        let _ = within(TIMEOUT, self.lease().lease_revoke(pb::LeaseRevokeRequest { id: lease })).await;
    }

    /// Keeps a lease alive, once each `interval`. Ends with an error only.
    pub async fn keep_alive(&self, lease: i64, interval: Duration) -> StoreError {
        match self.keep(lease, interval).await {
            Ok(()) => StoreError::Lease,
            Err(error) => error,
        }
    }

    async fn keep(&self, lease: i64, interval: Duration) -> Result<(), StoreError> {
        let (requests, waiting) = mpsc::channel(1);
        let request = || pb::LeaseKeepAliveRequest { id: lease };
        let _room = requests.try_send(request());
        let mut answers = within(TIMEOUT, self.lease().lease_keep_alive(Requests(waiting))).await?;
        loop {
            let answer = tokio::time::timeout(TIMEOUT, answers.message()).await;
            let answer = answer.map_err(|_| StoreError::Timeout(TIMEOUT))??;
            if answer.is_none_or(|answer| answer.ttl <= 0) {
                return Ok(());
            }
            tokio::time::sleep(interval).await;
            requests.send(request()).await.map_err(|_| StoreError::Closed)?;
        }
    }

    /// Removes the history before a revision. A failure leaves more history than needed.
    pub async fn compact(&self, revision: u64) {
        let request = pb::CompactionRequest { revision: revision as i64 };
        let _ = within(TIMEOUT, self.kv().compact(request)).await;
    }

    /// Returns the revision and the octets of the store.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn status(&self) -> Result<(u64, u64), StoreError> {
        let mut client = pb::maintenance_client::MaintenanceClient::new(self.channel.clone());
        let reply = within(TIMEOUT, client.status(pb::StatusRequest {})).await?;
        Ok((revision(reply.header.as_ref()), reply.db_size as u64))
    }

    /// Watches the leader's key, and the log, behind revisions.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn watch(&self, leader: u64, log: Option<u64>) -> Result<Watch, StoreError> {
        let (requests, waiting) = mpsc::channel(4);
        let _room = requests.try_send(watch_request((self.key(LEADER), String::new()), leader, WATCH_KEY));
        if let Some(log) = log {
            let entries = self.key(ENTRIES);
            let end = end_of(&entries);
            let _room = requests.try_send(watch_request((entries, end), log, WATCH_LOG));
        }
        self.open_watch(requests, Requests(waiting)).await
    }

    async fn open_watch(
        &self,
        requests: mpsc::Sender<pb::WatchRequest>,
        waiting: Requests<pb::WatchRequest>,
    ) -> Result<Watch, StoreError> {
        let client = pb::watch_client::WatchClient::new(self.channel.clone());
        let mut client = client.max_decoding_message_size(MOST_OCTETS);
        // A server that has lost the others, and so knows of no changes any more, ends the watch.
        let mut request = tonic::Request::new(waiting);
        request.metadata_mut().insert(REQUIRE_LEADER, MetadataValue::from_static("true"));
        let responses = within(TIMEOUT, client.watch(request)).await?;
        Ok(Watch { requests, responses, keys: self.keys.clone() })
    }
}

impl Watch {
    /// Waits for the next report.
    ///
    /// # Errors
    /// The connection is lost, or the store ends.
    pub async fn next(&mut self) -> Result<Watched, StoreError> {
        loop {
            let response = self.responses.message().await?.ok_or(StoreError::Closed)?;
            let at = revision(response.header.as_ref());
            if response.canceled {
                return if response.watch_id == WATCH_LOG {
                    Ok(Watched::Lost)
                } else {
                    Err(StoreError::Closed)
                };
            }
            if response.created {
                continue;
            }
            if response.events.is_empty() {
                return Ok(Watched::Progress(at));
            }
            if response.watch_id == WATCH_KEY {
                return Ok(Watched::Key);
            }
            let is_put = |event: &pb::Event| event.r#type == i32::from(pb::event::EventType::Put);
            let entries = response.events.into_iter().filter(is_put).filter_map(|event| event.kv);
            let content = |kv: pb::KeyValue| {
                let name = String::from_utf8_lossy(&kv.key);
                let octets = seal::open(&name, &kv.value, &self.keys)?;
                Some((kv.mod_revision as u64, octets.to_vec()))
            };
            let Some(entries) = entries.map(content).collect::<Option<Vec<_>>>() else {
                return Ok(Watched::Lost);
            };
            if !entries.is_empty() {
                return Ok(Watched::Entries(entries));
            }
        }
    }

    /// Asks for a report of the progress.
    pub(crate) fn ask_progress(&self) {
        use pb::watch_request::RequestUnion;
        let union = RequestUnion::ProgressRequest(pb::WatchProgressRequest {});
        // With requests waiting, the store is slow, and the progress is asked for the next time.
        let _room = self.requests.try_send(pb::WatchRequest { request_union: Some(union) });
    }
}

/// Requests as the stream that the client library sends.
struct Requests<T>(mpsc::Receiver<T>);

impl<T> tonic::codegen::tokio_stream::Stream for Requests<T> {
    type Item = T;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<T>> {
        self.0.poll_recv(context)
    }
}
