//! Documents for people: manual pages, and the schemas of JSON output.

pub mod conf_page;
pub mod pages;
pub mod schemas;
