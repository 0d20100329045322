//! XIP's commands of the command line. Commands of one call and a table are in `components/xip/commands.toml`.

#![warn(clippy::disallowed_macros)]

mod echoes;

sluice_xrl::include_idl!();

use sluice_cli::{Command, GroupHelp, Kind, Live};
use sluice_console::{Call, ComponentCommands, Failure, Output};

const HELP: &GroupHelp = &[("xip", "Tests of ways through XIP")];

/// XIP's commands.
pub const COMMANDS: ComponentCommands = ComponentCommands {
    commands,
    run: |id, call, out| Box::pin(run(id, call, out)),
    spellings: &[],
    examples: &[
        (
            "xip ping",
            &[(
                "sluice xip ping ad-a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3a3-1:hid-3333333333333333333333333333333333333333-0",
                "Four echo requests to a host within a domain.",
            )],
        ),
        (
            "xip traceroute",
            &[(
                "sluice xip traceroute hid-3333333333333333333333333333333333333333-0",
                "The routers on the way to a host, with the edges that each has chosen.",
            )],
        ),
    ],
    bundled: &["show xip principals", "show xip counters"],
    notices: |_| Box::pin(async { Ok(Vec::new()) }),
    policy_hits: None,
    descriptors: idl::DESCRIPTORS,
};

fn commands() -> Vec<Command> {
    let address = "the address in its text form, such as ad-HEX-1:hid-HEX-0";
    // Each node of an address is completed to a known XID.
    let known = || Live::new("xip/xip.v1.Xip/GetAddresses", "addresses").for_parts(':');
    vec![
        Command::new("xip ping", "Sends echo requests along an address, one a second", HELP)
            .argument("address", Kind::Text, true, address)
            .live(known())
            .choice_of("count", Kind::Number, None, "so many requests, 4 if absent")
            .choice_of("octets", Kind::Number, None, "so many octets of data in each, 0 if absent"),
        Command::new(
            "xip traceroute",
            "Asks each router on the way for the edges that the packet has taken so far",
            HELP,
        )
        .argument("address", Kind::Text, true, address)
        .live(known())
        .choice_of("most", Kind::Number, None, "at most so many routers, 30 if absent"),
    ]
}

async fn run(id: &str, call: Call<'_>, out: &mut Output) -> Result<(), Failure> {
    match id {
        "xip ping" => echoes::ping(&call, out).await,
        "xip traceroute" => echoes::traceroute(&call, out).await,
        id => Err(Failure::usage(format!("`{id}` has no meaning here"))),
    }
}
