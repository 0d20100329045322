//! The Finder in the manager's process.

use crate::configure::people::People;
use crate::supervise::state;
use crate::{StartOptions, start_error};
use sluice_process::socket_folder;
use sluice_xrl::finder::Finder;
use sluice_xrl::{Acl, EndpointOptions, XrlEndpoint};
use std::rc::Rc;

/// Opens the Finder's sockets, and connects the manager to its own Finder.
pub(crate) async fn open(
    options: &StartOptions,
    acl: Acl,
    own: [u8; 16],
    people: Rc<People>,
) -> anyhow::Result<(Finder, XrlEndpoint)> {
    let socket = options.run_dir.join("finder.sock");
    let mut finder =
        Finder::bind(&socket, acl).await.map_err(start_error::cannot("make the socket", &socket))?;
    let apart = state::make_operators_folder(&options.run_dir)?;
    finder.bind_apart(&apart).await.map_err(start_error::cannot("make the socket", &apart))?;
    state::open_to_components(&options.run_dir, &socket)
        .map_err(start_error::cannot("open the socket", &socket))?;
    finder.set_people(Box::new(move |peer| people.principal(peer)));
    let sockets = socket_folder(&options.run_dir, "manager");
    std::fs::create_dir_all(&sockets).map_err(start_error::cannot("make the folder", &sockets))?;
    // People load whole configurations.
    let options_of_own = EndpointOptions {
        max_frame: sluice_xrl::frame::MAX_LENGTH,
        ..EndpointOptions::new(&socket, own, sockets)
    };
    Ok((finder, XrlEndpoint::connect(options_of_own).await?))
}
