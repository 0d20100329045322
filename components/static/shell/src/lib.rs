//! Static routes: the process.
