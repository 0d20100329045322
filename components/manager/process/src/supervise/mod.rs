//! Processes: started, configured, watched, replaced, found again by the manager's next life.

pub mod confinement;
pub mod core_file;
pub mod credentials;
pub mod denials;
pub mod helper;
pub mod inherited;
pub mod kept_files;
pub mod left_behind;
pub mod memory;
pub mod output;
pub mod pins;
pub mod principal;
pub mod processes;
pub mod replace;
pub mod security;
pub mod service_manager;
pub mod sole;
pub mod state;
pub mod watch;
