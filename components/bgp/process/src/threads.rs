//! Other threads for routes, while sessions stay up.

use super::exchange::messages::ConnectionKey;
use crate::BgpProcess;
use crate::error::ThreadsError;
use crate::executor::pool::{Plan, Pool};
use crate::tables::table::TableMessage;
use crate::transport::connection::Connection;
use std::rc::Rc;
use tracing::{info, warn};

impl BgpProcess {
    /// Goes over to other threads; no session notices.
    pub(crate) async fn change_threads(&self, plan: Plan) -> Result<(), ThreadsError> {
        let Some(core) = self.core() else { return Ok(()) };
        let _turn = core.moving.lock().await;
        if core.pool.borrow().plan() == plan {
            return Ok(());
        }
        let pool = Rc::new(Pool::start(plan).map_err(ThreadsError::Start)?);
        // From now on new connections are on the new ones; the old ones go when the last has moved.
        let _old = core.pool.replace(Rc::clone(&pool));
        let tasks = core.tables.take();
        for address in &core.post.tables {
            address.write(TableMessage::Halt);
        }
        for (number, task) in tasks.into_iter().enumerate() {
            let post = task.await.map_err(ThreadsError::LostTable)?;
            core.tables.borrow_mut().push(pool.spawn(number, post.serve()));
        }
        let connections: Vec<(ConnectionKey, Rc<Connection>)> =
            self.connections.borrow().iter().map(|(name, c)| (*name, Rc::clone(c))).collect();
        for ((address, id), connection) in connections {
            if let Err(error) = connection.go(&pool).await {
                warn!(%address, %error, "a connection did not find its new thread");
                self.lost(address, id);
            }
        }
        info!(threads = plan.threads, scheduling = ?plan.scheduling, "threads changed");
        Ok(())
    }
}
