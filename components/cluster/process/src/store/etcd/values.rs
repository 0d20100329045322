//! Single values beside the stream: sealed, and replaced only if nobody else has changed the value.

use super::{Client, Requests, StoreError, TIMEOUT, WATCH_KEY, Watch, changed_at, pb, put, revision, within};
use sluice_cluster::key::KeyRing;
use sluice_cluster::stream::seal;
use tokio::sync::mpsc;

/// A value of the store.
pub struct Value {
    /// The content; `None` without the key in the store, or if no key of the cluster gives the tag.
    pub content: Option<Vec<u8>>,
    /// The revision of the last change; 0: the store does not have the key.
    pub changed: u64,
    /// True if the present key of the cluster gives the tag.
    pub is_current: bool,
    /// The revision of the store at the read.
    pub at: u64,
}

impl Client {
    /// Reads a value.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn value(&self, name: &str) -> Result<Value, StoreError> {
        let key = self.key(name);
        let request = pb::RangeRequest { key: key.clone().into(), ..Default::default() };
        let reply = within(TIMEOUT, self.kv().range(request)).await?;
        let at = revision(reply.header.as_ref());
        let Some(found) = reply.kvs.into_iter().next() else {
            return Ok(Value { content: None, changed: 0, is_current: true, at });
        };
        let current = KeyRing::of(self.keys.current.clone());
        Ok(Value {
            content: seal::open(&key, &found.value, &self.keys).map(<[u8]>::to_vec),
            changed: found.mod_revision as u64,
            is_current: seal::open(&key, &found.value, &current).is_some(),
            at,
        })
    }

    /// Replaces a value that was last changed at the revision `changed` (0: is not there). Returns false if somebody else changed the value.
    ///
    /// # Errors
    /// The store does not answer; the value may be replaced or not.
    pub(crate) async fn replace_value(
        &self,
        name: &str,
        content: &[u8],
        changed: u64,
    ) -> Result<bool, StoreError> {
        let key = self.key(name);
        let sealed = seal::seal(&key, content, &self.keys.current);
        let request = pb::TxnRequest {
            compare: vec![changed_at(key.clone(), changed)],
            success: vec![put(key, sealed, 0)],
            failure: Vec::new(),
        };
        Ok(within(TIMEOUT, self.kv().txn(request)).await?.succeeded)
    }

    /// Writes a value of which this element is the only writer.
    ///
    /// # Errors
    /// The store does not answer; the value may be written or not.
    pub(crate) async fn put_value(&self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        let key = self.key(name);
        let sealed = seal::seal(&key, content, &self.keys.current);
        let request = pb::TxnRequest { success: vec![put(key, sealed, 0)], ..Default::default() };
        within(TIMEOUT, self.kv().txn(request)).await.map(drop)
    }

    /// Reads the values whose names begin with `start`, by the rest of the name. Values without a right tag are left out.
    ///
    /// # Errors
    /// The store does not answer.
    pub async fn values(&self, start: &str, most: i64) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let from = self.key(start);
        let (key, range_end) = (from.clone().into(), super::end_of(&from).into());
        let request = pb::RangeRequest { key, range_end, limit: most, ..Default::default() };
        let reply = within(TIMEOUT, self.kv().range(request)).await?;
        let opened = |value: pb::KeyValue| {
            let name = String::from_utf8_lossy(&value.key).into_owned();
            let content = seal::open(&name, &value.value, &self.keys)?.to_vec();
            Some((name.strip_prefix(&from)?.to_owned(), content))
        };
        Ok(reply.kvs.into_iter().filter_map(opened).collect())
    }

    /// Watches a value behind a revision.
    ///
    /// # Errors
    /// The store does not answer.
    pub(crate) async fn watch_value(&self, name: &str, behind: u64) -> Result<Watch, StoreError> {
        let (requests, waiting) = mpsc::channel(4);
        let _room =
            requests.try_send(super::watch_request((self.key(name), String::new()), behind, WATCH_KEY));
        self.open_watch(requests, Requests(waiting)).await
    }
}
