//! `sluice call`: any method of any component from the shell.

use crate::Where;
use crate::connection::connect::with_router;
use crate::output::{Failure, print_json, say, say_lines};
use clap::Args;
use serde_json::json;
use sluice_xrl::text;

#[derive(Args)]
pub struct CallArgs {
    /// The method, as `finder://bgp/bgp.v1.Bgp/GetSummary` with `?name:type=value&...` after it; with --list a target.
    #[arg(required_unless_present = "list")]
    xrl: Option<String>,
    /// List the methods of the target (without a target, of every target), with their arguments and results.
    #[arg(long)]
    list: bool,
}

/// Calls or lists.
pub fn run(args: CallArgs, place: &Where) -> Result<(), Failure> {
    let as_json = place.json;
    with_router(place, move |router| async move {
        if args.list {
            let methods = text::list(&router, args.xrl.as_deref()).await?;
            if as_json {
                let all: Vec<_> = methods
                    .iter()
                    .map(|m| {
                        json!({
                            "target": m.target, "interface": m.interface, "method": m.method,
                            "arguments": m.arguments, "results": m.results, "xrl": m.to_string(),
                        })
                    })
                    .collect();
                print_json("call-list", &json!({ "methods": all }));
            } else {
                methods.iter().for_each(|m| say(&m.to_string()));
            }
            return Ok(());
        }
        let reply = text::call_text(&router, &args.xrl.unwrap_or_default()).await?;
        match as_json {
            true => print_json("call", &reply.json),
            // A reply without fields has no line.
            false if reply.text.is_empty() => {}
            false => say_lines(&reply.text),
        }
        Ok(())
    })
}
