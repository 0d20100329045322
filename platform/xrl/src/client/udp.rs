//! The family `udp`: a datagram for each call and one for its reply; a single call at a time to each address.
//!
//! No datagram is repeated: a lost datagram is a call that fails with [`XrlError::DeadlineExceeded`], because a call
//! sent twice might be carried out twice.

use crate::XrlError;
use crate::wire::frame::{self, Datagram, Kind, MAX_DATAGRAM};
use crate::wire::seal::Credential;
use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::UdpSocket;
use tokio::sync::Mutex;

/// The wait of a caller without a deadline: the reply may be lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// Calls a single address, a call at a time.
pub(crate) struct UdpCaller {
    socket: Mutex<UdpSocket>,
    sequence: Cell<u32>,
    valid: Cell<bool>,
}

impl UdpCaller {
    pub(crate) async fn new(address: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr =
            if address.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
        let socket = UdpSocket::bind(any).await?;
        socket.connect(address).await?;
        Ok(UdpCaller { socket: Mutex::new(socket), sequence: Cell::new(0), valid: Cell::new(true) })
    }

    /// Returns true if the address's resolution still seems valid.
    pub(crate) fn is_valid(&self) -> bool {
        self.valid.get()
    }

    pub(crate) async fn call(
        &self,
        path: &str,
        credential: &Credential,
        arguments: &[u8],
        within: Option<Duration>,
    ) -> Result<Vec<u8>, XrlError> {
        let socket = self.socket.lock().await;
        let sequence = self.sequence.get();
        self.sequence.set(sequence.wrapping_add(1));
        let ms = within.map_or(0, |d| u32::try_from(d.as_millis()).unwrap_or(u32::MAX));
        let mut out = Vec::new();
        let start = frame::begin(&mut out, Kind::Datagram, sequence, frame::VERSION);
        Datagram::encode_head(&credential.bind(path), ms, &mut out);
        out.extend_from_slice(arguments);
        let fits = frame::end(&mut out, start);
        if fits.is_err() || out.len() > MAX_DATAGRAM {
            let size = fits.err().unwrap_or(out.len());
            return Err(XrlError::TooLarge { size: size as u64, limit: MAX_DATAGRAM as u64 });
        }
        let exchange = async {
            socket.send(&out).await?;
            let mut buf = vec![0; MAX_DATAGRAM];
            loop {
                let n = socket.recv(&mut buf).await?;
                // Late replies of calls that were given up are passed over.
                if let Ok(Some((reply, _))) = frame::decode(&buf[..n])
                    && reply.sequence == sequence
                {
                    return Ok(match reply.kind {
                        Kind::Reply => Ok(reply.body.to_vec()),
                        Kind::Error => Err(XrlError::decode(reply.body)),
                        other => Err(XrlError::Protocol(format!("unexpected {other:?} frame"))),
                    });
                }
            }
        };
        let result: io::Result<Result<Vec<u8>, XrlError>> =
            tokio::time::timeout(within.unwrap_or(PATIENCE), exchange)
                .await
                .unwrap_or(Ok(Err(XrlError::DeadlineExceeded)));
        let result = result.unwrap_or_else(|e| {
            self.valid.set(false);
            Err(XrlError::Disconnected(e.to_string()))
        });
        if matches!(result, Err(XrlError::BadKey | XrlError::UnknownTarget(_))) {
            self.valid.set(false);
        }
        result
    }
}
