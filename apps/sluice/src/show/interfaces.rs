//! `sluice show interfaces`.

use crate::components::whole;
use crate::connection::session::Session;
use crate::output::{self, Failure, Output, Table, leave_out};
use serde_json::json;
use sluice_xrl::idl::DESCRIPTORS;
use sluice_xrl::idl::fea::v1 as fea;
use sluice_xrl::text::Printer;

/// Shows the interfaces: on an element of a cluster those of the router as a whole, unless an element is named.
pub async fn show(session: &Session, out: &mut Output) -> Result<(), Failure> {
    let (router, timeout) = (session.router().await?, session.flags.timeout);
    if session.flags.element.is_none() && whole::interfaces(&router, timeout, out).await {
        return Ok(());
    }
    let client = fea::InterfacesClient::new(&router, "fea").with_deadline(timeout);
    let interfaces = client.get_interfaces(fea::GetInterfacesRequest {}).await?.interfaces;
    let addresses = |i: &fea::Interface| -> Vec<String> {
        i.addresses.iter().map(|a| format!("{}/{}", output::addr(a.addr.as_ref()), a.prefix_length)).collect()
    };
    if out.is_json() {
        let printer = Printer::new(DESCRIPTORS)?;
        let mut all = Vec::new();
        for mut interface in interfaces {
            // An interface without a link-layer address has an empty text.
            let _ = interface.mac.get_or_insert_default();
            let mut shown = printer.plain(&interface)?;
            leave_out(&mut shown, &["point_to_point", "multicast"]);
            shown["addresses"] = addresses(&interface).into();
            all.push(shown);
        }
        out.json(&json!({ "interfaces": all }));
        return Ok(());
    }
    let mut table = Table::new(&["interface", "state", "mtu", "addresses", "received", "sent"]);
    for i in &interfaces {
        let state = match (i.admin_up, i.running) {
            (_, true) => "up",
            (true, false) => "no carrier",
            (false, false) => "down",
        };
        table.row(vec![
            i.name.clone(),
            state.into(),
            i.mtu.to_string(),
            addresses(i).join(" "),
            output::bytes(i.rx_bytes),
            output::bytes(i.tx_bytes),
        ]);
    }
    out.table(&table, "no interfaces");
    Ok(())
}
