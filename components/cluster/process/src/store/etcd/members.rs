//! The servers of the store, as etcd lists them: elements leave and join while the others serve.

use super::{Client, StoreError, TIMEOUT, pb, within};
use tonic::transport::Channel;

impl Client {
    fn servers(&self) -> pb::cluster_client::ClusterClient<Channel> {
        pb::cluster_client::ClusterClient::new(self.channel.clone())
    }

    /// Removes the server with an address for other servers, if there is one.
    ///
    /// # Errors
    /// The store does not answer, or the other servers would be too few.
    pub(crate) async fn remove_server(&self, peer_url: &str) -> Result<(), StoreError> {
        let list = within(TIMEOUT, self.servers().member_list(pb::MemberListRequest {})).await?;
        let is_named = |member: &&pb::Member| member.peer_ur_ls.iter().any(|url| url == peer_url);
        let Some(id) = list.members.iter().find(is_named).map(|member| member.id) else { return Ok(()) };
        within(TIMEOUT, self.servers().member_remove(pb::MemberRemoveRequest { id })).await.map(|_| ())
    }

    /// Adds a server with an address for other servers. The server starts later.
    ///
    /// # Errors
    /// The store does not answer, or the servers that run would be too few.
    pub(crate) async fn add_server(&self, peer_url: &str) -> Result<(), StoreError> {
        let request = pb::MemberAddRequest { peer_ur_ls: vec![peer_url.into()] };
        within(TIMEOUT, self.servers().member_add(request)).await.map(|_| ())
    }
}
