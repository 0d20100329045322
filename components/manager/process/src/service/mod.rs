//! The interfaces of the manager.

pub mod configuration;
pub mod finder;
pub mod manager;
pub mod packages;
pub mod remote;
pub mod shared;

use crate::ManagerProcess;
use sluice_xrl::idl::manager::v1::{
    configuration_service, helpers_service, manager_service, packages_service, remote_service,
    shared_configuration_service,
};
use sluice_xrl::{Target, TargetHandle, XrlError};
use std::rc::Rc;

/// The manager for handlers: handlers need the shared pointer to start tasks.
pub struct Served(pub Rc<ManagerProcess>);

impl std::ops::Deref for Served {
    type Target = Rc<ManagerProcess>;

    fn deref(&self) -> &Rc<ManagerProcess> {
        &self.0
    }
}

/// Registers the manager's interfaces, for as long as the handle lives.
pub(crate) async fn register(process: &Rc<ManagerProcess>) -> Result<TargetHandle, XrlError> {
    let served = Rc::new(Served(Rc::clone(process)));
    let services = vec![
        manager_service(Rc::clone(&served)),
        configuration_service(Rc::clone(&served)),
        packages_service(Rc::clone(&served)),
        helpers_service(Rc::clone(&served)),
        remote_service(Rc::clone(&served)),
        shared_configuration_service(served),
        sluice_process::events::service(),
    ];
    process.router.register(Target::new("manager", services).singleton()).await
}
