//! BGP's commands of the command line. Commands of one call and a table are in `components/bgp/commands.toml`.

#![warn(clippy::disallowed_macros)]

mod diff;
mod dump;
mod explain;
mod families;
mod grammar;
mod hits;
mod inject;
mod limits;
mod neighbor;
mod pages;
mod plumbing;
mod routes;
mod sessions;

sluice_xrl::include_idl!();

use routes::{Part, RoutesArgs};
use sluice_cli::spelling::Becomes::{Here, Needless, Words};
use sluice_console::{Call, ComponentCommands, Failure, Notice, Output, PolicyHits};

/// The reason why nothing is to be done after a change of an export policy.
const FILTERED: &str = "not needed: a commit sends each neighbor what a changed policy changes";

/// BGP's commands.
pub const COMMANDS: ComponentCommands = ComponentCommands {
    commands: grammar::commands,
    run: |id, call, out| Box::pin(run(id, call, out)),
    spellings: &[
        ("clear bgp *", Words("clear bgp all")),
        ("clear ip bgp *", Words("clear bgp all")),
        ("clear bgp ? soft", Words("request bgp refresh ?")),
        ("clear bgp ? soft in", Words("request bgp refresh ?")),
        ("clear bgp ? soft out", Needless(FILTERED)),
        ("clear ip bgp ? soft", Words("request bgp refresh ?")),
        ("clear ip bgp ? soft in", Words("request bgp refresh ?")),
        ("clear ip bgp ? in", Words("request bgp refresh ?")),
        ("clear ip bgp ? soft out", Needless(FILTERED)),
        ("clear ip bgp ? out", Needless(FILTERED)),
        ("clear ip bgp ...", Words("clear bgp neighbor")),
        (
            "reload in ?",
            Here(
                "`request bgp refresh ADDRESS` asks a neighbor for its routes; a changed policy needs no command",
            ),
        ),
        ("reload out ?", Needless(FILTERED)),
        ("show ip bgp neighbors ? routes", Words("show bgp neighbor ? accepted")),
        ("show bgp neighbors ? routes", Words("show bgp neighbor ? accepted")),
        ("show ip bgp regexp ?", Words("show bgp routes as-path ?")),
        ("show bgp regexp ?", Words("show bgp routes as-path ?")),
        ("show ip bgp community ?", Words("show bgp routes community ?")),
        ("show bgp community ?", Words("show bgp routes community ?")),
        ("show bgp update-groups", Words("show bgp groups")),
        ("show bgp group", Words("show bgp groups")),
        ("show protocols", Here("`show processes` lists the components, `show bgp summary` BGP's sessions")),
        (
            "show protocols all ...",
            Here("`show processes` lists the components, `show bgp neighbor ADDRESS` shows a session"),
        ),
        ("show ip route bgp", Words("show routes v4 origin bgp")),
        ("show ipv6 route bgp", Words("show routes v6 origin bgp")),
        ("show ip nht", Words("show bgp next-hops")),
        ("show route advertising-protocol bgp ?", Words("show bgp neighbor ? advertised")),
        ("show route receive-protocol bgp ?", Words("show bgp neighbor ? received")),
    ],
    examples: &[
        (
            "explain",
            &[
                (
                    "sluice explain 192.0.2.0/24",
                    "Why the prefix has the route that it has, and who is sent it.",
                ),
                ("sluice explain 192.0.2.0/24 from 10.0.0.2 to 10.0.0.3", "From one neighbor to another."),
            ],
        ),
        (
            "request bgp inject",
            &[
                (
                    "sluice request bgp inject updates.mrt 192.0.2.1 peer-as 64501",
                    "The routes of the trace's peer 192.0.2.1; none goes to the kernel.",
                ),
                (
                    "zcat rib.gz '|' sluice request bgp inject - 192.0.2.1 group transit peer 198.51.100.1",
                    "Another peer of the trace, by the statements of a group; the trace comes on standard input.",
                ),
            ],
        ),
        (
            "show bgp diff",
            &[
                ("sluice show bgp diff 10.0.0.2 10.0.0.3", "What one neighbor is sent and another is not."),
                (
                    "sluice show bgp diff 10.0.0.2 10.0.0.3 received",
                    "What one neighbor announces and another does not.",
                ),
            ],
        ),
        (
            "show bgp routes",
            &[
                (
                    "sluice show bgp routes 192.0.2.0/24",
                    "All paths of a prefix, and why each is not the best.",
                ),
                (
                    "sluice show bgp routes advertised-to 192.0.2.2 '|' count",
                    "How many lines a neighbor was sent.",
                ),
            ],
        ),
    ],
    bundled: &["show bgp summary", "show bgp groups"],
    notices: |call| Box::pin(notices(call)),
    policy_hits: Some(PolicyHits {
        count: |call, policy, terms| Box::pin(hits::count(call, policy, terms)),
        lines: hits::lines,
    }),
    descriptors: idl::DESCRIPTORS,
};

/// The client for BGP's interface.
fn client(call: &Call<'_>) -> idl::bgp::v1::BgpClient {
    idl::bgp::v1::BgpClient::new(&call.router, &call.target).with_deadline(call.timeout)
}

/// Returns the neighbors that exchange nothing for want of a policy (RFC 8212), and those without bounds on their prefixes.
async fn notices(call: Call<'_>) -> Result<Vec<Notice>, Failure> {
    let neighbors =
        client(&call).get_neighbors(idl::bgp::v1::GetNeighborsRequest::default()).await?.neighbors;
    let unbounded = limits::notice(&neighbors);
    let without_policy = neighbors.into_iter().filter(|neighbor| !neighbor.without_policy.is_empty());
    let notice = |neighbor: idl::bgp::v1::Neighbor| {
        // The text has the remedy behind a semicolon.
        let (found, advice) =
            neighbor.without_policy.split_once("; ").unwrap_or((&neighbor.without_policy, ""));
        Notice { found: format!("neighbor {}: {found}", neighbor.address), advice: advice.to_owned() }
    };
    Ok(without_policy.map(notice).chain(unbounded).collect())
}

async fn run(id: &str, call: Call<'_>, out: &mut Output) -> Result<(), Failure> {
    let client = client(&call);
    match id {
        "show bgp summary" => sessions::summary(&client, out).await,
        "show bgp neighbor" => show_neighbor(&client, &call, out).await,
        "show bgp diff" => diff::diff(&client, call.values, out).await,
        "show bgp plumbing" => plumbing::plumbing(&client, out).await,
        "show bgp routes" => routes::routes(&client, RoutesArgs::from_values(call.values), out).await,
        "request bgp dump-table" => dump::dump(&client, &call, out).await,
        "request bgp inject" => inject::inject(&client, &call, out).await,
        "explain" => explain::run(&client, &call, out).await,
        "clear bgp all" => sessions::clear_all(&client, out).await,
        id => Err(Failure::usage(format!("`{id}` has no meaning here"))),
    }
}

async fn show_neighbor(
    client: &idl::bgp::v1::BgpClient,
    call: &Call<'_>,
    out: &mut Output,
) -> Result<(), Failure> {
    let address = call.values.text("address").unwrap_or_default();
    let has = |words: [&str; 2]| words.iter().any(|word| call.values.has(word));
    let parts = [
        (Part::Received, ["received", "received-routes"]),
        (Part::Accepted, ["accepted", "accepted"]),
        (Part::Rejected, ["rejected", "rejected"]),
        (Part::Advertised, ["advertised", "advertised-routes"]),
    ];
    let part = parts.into_iter().find(|(_, words)| has(*words)).map(|(part, _)| part);
    match (part, address) {
        (Some(_), "") => {
            let usage = "whose routes: `show bgp neighbor ADDRESS received|accepted|rejected|advertised`";
            Err(Failure::usage(usage))
        }
        (Some(part), address) => {
            routes::routes(client, RoutesArgs::of_neighbor(call.values, address, part), out).await
        }
        (None, address) => sessions::neighbors(client, address.into(), out).await,
    }
}
