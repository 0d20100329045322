//! Routing policy of BGP.

pub mod vocabulary;
