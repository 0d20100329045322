//! The store: an etcd that the elements share, through sockets that the FEA opens.

mod connector;
mod etcd;
pub mod server;

pub use connector::Connector;
pub use etcd::{Client, Found, StoreError, Value, Watch, Watched};
