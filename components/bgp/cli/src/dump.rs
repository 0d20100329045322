//! A dump of the table in a file, as MRT (RFC 6396), slice by slice.

use crate::idl::bgp::v1 as pb;
use serde_json::json;
use sluice_console::{Call, Failure, Output, counted};
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write, stderr};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(1);

/// The routes and octets of a dump.
#[derive(Default)]
struct Written {
    routes: u64,
    octets: u64,
}

/// Writes the routes of all neighbors to the file that the command names.
pub async fn dump(client: &pb::BgpClient, call: &Call<'_>, out: &mut Output) -> Result<(), Failure> {
    let file = call.values.text("file").unwrap_or_default();
    let failed = |error: std::io::Error| Failure::io(file, &error);
    let target = File::create_new(file).map_err(failed)?;
    let written = write(client, BufWriter::new(target), file).await;
    if written.is_err() {
        // A part of a table is no table. The failure to report is the one above.
        drop(std::fs::remove_file(file));
    }
    let Written { routes, octets } = written?;
    if out.is_json() {
        out.json(&json!({ "file": file, "routes": routes.to_string(), "octets": octets.to_string() }));
    } else {
        out.line(&format!("{} in {file}, {octets} octets", counted(routes, "route", "routes")));
    }
    Ok(())
}

async fn write(client: &pb::BgpClient, mut target: BufWriter<File>, file: &str) -> Result<Written, Failure> {
    let failed = |error: std::io::Error| Failure::io(file, &error);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let time = u32::try_from(time).map_err(|_| Failure::failed("MRT has no times after 2106"))?;
    let mut request = pb::GetTableDumpRequest { time, ..Default::default() };
    let mut written = Written::default();
    let mut shown = Instant::now();
    loop {
        let reply = client.get_table_dump(request).await?;
        target.write_all(&reply.records).map_err(failed)?;
        written.routes += reply.routes;
        written.octets += reply.records.len() as u64;
        if reply.next_slice == 0 {
            break;
        }
        // The first reply has the peers alone.
        request = pb::GetTableDumpRequest { time, sequence: reply.sequence, slice: reply.next_slice };
        if shown.elapsed() >= PROGRESS && stderr().is_terminal() {
            shown = Instant::now();
            sluice_print::errln!("{} written", counted(written.routes, "route", "routes"));
        }
    }
    target.flush().map_err(failed)?;
    Ok(written)
}
