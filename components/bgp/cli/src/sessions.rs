//! Sessions and neighbors.

use crate::families::family;
use crate::idl::bgp::v1 as pb;
use crate::{idl, limits, neighbor};
use serde_json::{Value, json};
use sluice_console::{Failure, Output, Table, counted, span};
use sluice_xrl::text::Printer;

/// The state of a session that is up.
const ESTABLISHED: &str = "Established";

fn counts(n: &pb::Neighbor, of: impl Fn(&pb::NeighborFamily) -> u64) -> String {
    n.families.iter().filter(|f| f.negotiated).map(|f| of(f).to_string()).collect::<Vec<_>>().join("/")
}

/// Closes all sessions; each opens again.
pub(crate) async fn clear_all(client: &pb::BgpClient, out: &mut Output) -> Result<(), Failure> {
    let neighbors = client.get_neighbors(pb::GetNeighborsRequest::default()).await?.neighbors;
    for neighbor in &neighbors {
        let request = pb::ResetNeighborRequest { address: neighbor.address.clone(), message: String::new() };
        client.reset_neighbor(request).await?;
    }
    if out.is_json() {
        let all: Vec<&str> = neighbors.iter().map(|n| n.address.as_str()).collect();
        out.json(&json!({ "neighbors": all }));
    } else {
        let sessions = counted(neighbors.len() as u64, "session is", "sessions are");
        out.line(&format!("{sessions} closed and opened again"));
    }
    Ok(())
}

/// Every session in a line.
pub async fn summary(client: &pb::BgpClient, out: &mut Output) -> Result<(), Failure> {
    let s = client.get_summary(pb::GetSummaryRequest {}).await?;
    let neighbors = client.get_neighbors(pb::GetNeighborsRequest::default()).await?.neighbors;
    if out.is_json() {
        let printer = Printer::new(idl::DESCRIPTORS)?;
        let mut shown = printer.plain(&s)?;
        shown["sessions"] = all_json(&printer, neighbors)?;
        out.json(&shown);
        return Ok(());
    }
    out.line(&format!(
        "AS {}, router id {}, {} of {} sessions established",
        s.local_as, s.router_id, s.established, s.neighbors
    ));
    if s.graceful_shutdown {
        out.line("draining: neighbors are asked to go another way (`sluice undrain` takes it back)");
    }
    for t in &s.tables {
        out.line(&format!(
            "{}: {}, {}, {} in the RIB, {} stale, {} queued",
            family(t.family),
            counted(t.prefixes, "prefix", "prefixes"),
            counted(t.attribute_sets, "attribute set", "attribute sets"),
            t.in_rib,
            t.stale,
            counted(t.queued, "change", "changes")
        ));
    }
    out.line("");
    out.table(&table_of(&neighbors, out.is_colored()), "no neighbors");
    Ok(())
}

/// Returns a table with a session a line.
fn table_of(neighbors: &[pb::Neighbor], is_colored: bool) -> Table {
    let mut table = Table::new(&[
        "neighbor",
        "as",
        "state",
        "for",
        "received",
        "accepted",
        "sent",
        "description",
        "notes",
    ]);
    for n in neighbors {
        let is_down = n.state != ESTABLISHED;
        // Where a color can say it, the state is the word of the RFC alone.
        let state = if is_down && !is_colored { format!("{} (down)", n.state) } else { n.state.clone() };
        let cells = vec![
            n.address.clone(),
            n.peer_as.to_string(),
            state,
            if n.uptime_ms > 0 { span(n.uptime_ms) } else { "-".into() },
            counts(n, |f| f.prefixes_received),
            counts(n, limits::accepted),
            counts(n, |f| f.prefixes_sent),
            n.description.clone(),
            if n.reason.is_empty() { n.without_policy.clone() } else { n.reason.clone() },
        ];
        if is_down { table.row_down(cells) } else { table.row(cells) }
    }
    table
}

fn all_json(printer: &Printer, neighbors: Vec<pb::Neighbor>) -> Result<Value, Failure> {
    neighbors.into_iter().map(|n| neighbor::json(printer, n)).collect()
}

/// Prints the details of one neighbor, or of all neighbors.
pub async fn neighbors(client: &pb::BgpClient, address: String, out: &mut Output) -> Result<(), Failure> {
    let neighbors =
        client.get_neighbors(pb::GetNeighborsRequest { address: address.clone() }).await?.neighbors;
    if neighbors.is_empty() && !address.is_empty() {
        return Err(Failure::failed(format!("no neighbor {address} is configured")));
    }
    if out.is_json() {
        out.json(&json!({ "neighbors": all_json(&Printer::new(idl::DESCRIPTORS)?, neighbors)? }));
        return Ok(());
    }
    neighbors.iter().for_each(|n| neighbor::print(n, out));
    Ok(())
}
