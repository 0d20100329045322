//! `sluice show interfaces`.

use crate::components::whole;
use crate::connection::session::Session;
use crate::output::{self, Failure, Output, Table};
use serde_json::json;
use sluice_xrl::idl::fea::v1 as fea;

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
    let mac = |i: &fea::Interface| -> String {
        let octets = i.mac.as_ref().map(|m| m.octets.clone()).unwrap_or_default();
        octets.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(":")
    };
    if out.is_json() {
        let all: Vec<_> = interfaces
            .iter()
            .map(|i| {
                json!({
                    "name": i.name, "index": i.index, "admin_up": i.admin_up, "running": i.running, "mtu": i.mtu,
                    "mac": mac(i), "loopback": i.loopback, "addresses": addresses(i),
                    "rx_packets": i.rx_packets, "tx_packets": i.tx_packets, "rx_bytes": i.rx_bytes,
                    "tx_bytes": i.tx_bytes, "rx_errors": i.rx_errors, "tx_errors": i.tx_errors,
                })
            })
            .collect();
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
