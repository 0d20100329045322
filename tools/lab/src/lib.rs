//! Labs: network namespaces with real routers in them.
