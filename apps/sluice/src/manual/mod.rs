//! What people read beside the router: manual pages, and the schemas of JSON output.

pub mod conf_page;
pub mod pages;
pub mod schemas;
