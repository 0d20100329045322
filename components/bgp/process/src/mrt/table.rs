//! A file with a dump of the table. The dump is read slice by slice, each slice after the write of the previous slice, so a slow
//! disk holds back neither tables nor neighbors, and memory holds a single slice.

use super::file::{TraceFile, remove_surplus, wait_for};
use super::{Running, Size};
use crate::idl::bgp::v1 as pb;
use sluice_bgp::mrt::{FileName, MrtFailure};
use tokio::sync::watch;

impl Running {
    /// Writes the dump of a time, in seconds since 1970. Returns the size; `None` if the task is to end.
    pub(super) async fn table(
        &self,
        time: u64,
        stop: &mut watch::Receiver<bool>,
    ) -> Result<Option<Size>, MrtFailure> {
        let stamp = u32::try_from(time).map_err(|_| MrtFailure::Time)?;
        let (folder, name, settings) = (self.folder(), FileName::new(self.kind, time), self.settings);
        let mut file = wait_for(move || TraceFile::create(folder, name, settings)).await?;
        let mut request = pb::GetTableDumpRequest { time: stamp, ..Default::default() };
        let mut routes = 0;
        loop {
            let slice = self.slice(&request).await;
            let (of_file, result) = match slice {
                Ok(reply) => write(file, reply).await?,
                Err(failure) => (file, Err(failure)),
            };
            file = of_file;
            let is_stopped = *stop.borrow_and_update();
            match result {
                Ok(written) if !is_stopped => {
                    routes += written.routes;
                    if written.next_slice == 0 {
                        break;
                    }
                    request = pb::GetTableDumpRequest {
                        time: stamp,
                        sequence: written.sequence,
                        slice: written.next_slice,
                    };
                }
                result => {
                    wait_for(move || {
                        file.discard();
                        Ok(())
                    })
                    .await?;
                    return result.map(|_| None);
                }
            }
        }
        let octets = file.octets();
        let (folder, kind, settings) = (self.folder(), self.kind, self.settings);
        wait_for(move || {
            file.finish()?;
            remove_surplus(&folder, kind, &settings)
        })
        .await?;
        Ok(Some(Size { routes, octets, ..Size::default() }))
    }

    async fn slice(&self, request: &pb::GetTableDumpRequest) -> Result<pb::GetTableDumpReply, MrtFailure> {
        let failed = |error: String| MrtFailure::Table(error);
        let process = self.process.upgrade().ok_or_else(|| failed("the process ends".into()))?;
        process.table_dump(request).await.map_err(|error| failed(error.to_string()))
    }
}

/// Writes the records of a slice. Returns the file, and the rest of the slice.
async fn write(
    mut file: TraceFile,
    mut slice: pb::GetTableDumpReply,
) -> Result<(TraceFile, Result<pb::GetTableDumpReply, MrtFailure>), MrtFailure> {
    wait_for(move || {
        let written = file.write(&std::mem::take(&mut slice.records));
        Ok((file, written.map(|()| slice)))
    })
    .await
}
