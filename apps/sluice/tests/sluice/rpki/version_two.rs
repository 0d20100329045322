//! A cache that speaks version 2 of the RPKI to Router protocol, octet by octet (draft-ietf-sidrops-8210bis-27), and has ASPAs alone.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// The cache's session.
const SESSION: u16 = 77;

/// The providers by customer.
type Aspas = BTreeMap<u32, Vec<u32>>;

/// The data by serial number, and the connections.
#[derive(Default)]
struct State {
    epochs: Vec<Aspas>,
    connections: Vec<TcpStream>,
}

/// A running cache. Its threads end with the test's process.
pub struct AspaCache {
    state: Arc<Mutex<State>>,
}

/// Returns a PDU: the type, the field behind the type, and the body.
fn pdu(kind: u8, field: [u8; 2], body: &[u32]) -> Vec<u8> {
    let mut octets = vec![2, kind, field[0], field[1]];
    octets.extend((8 + 4 * body.len() as u32).to_be_bytes());
    body.iter().for_each(|word| octets.extend(word.to_be_bytes()));
    octets
}

fn announced(customer: u32, providers: &[u32]) -> Vec<u8> {
    pdu(11, [1, 0], &[&[customer], providers].concat())
}

/// Returns the answer to a query for the changes since `before`.
fn answer(before: &Aspas, epochs: &[Aspas]) -> Vec<u8> {
    let now = &epochs[epochs.len() - 1];
    let mut octets = pdu(3, SESSION.to_be_bytes(), &[]);
    for (customer, providers) in now.iter().filter(|(customer, new)| before.get(customer) != Some(new)) {
        octets.extend(announced(*customer, providers));
    }
    for customer in before.keys().filter(|customer| !now.contains_key(customer)) {
        octets.extend(pdu(11, [0, 0], &[*customer]));
    }
    // The serial number, and the intervals.
    octets.extend(pdu(7, SESSION.to_be_bytes(), &[epochs.len() as u32, 3600, 600, 7200]));
    octets
}

fn serve(mut connection: TcpStream, state: &Mutex<State>) -> std::io::Result<()> {
    loop {
        let mut header = [0; 8];
        connection.read_exact(&mut header)?;
        let octets = match (header[0], header[1]) {
            // A serial query.
            (2, 1) => {
                let mut serial = [0; 4];
                connection.read_exact(&mut serial)?;
                let state = state.lock().unwrap();
                match state.epochs.get((u32::from_be_bytes(serial) as usize).wrapping_sub(1)) {
                    Some(before) => answer(before, &state.epochs),
                    None => pdu(8, [0, 0], &[]),
                }
            }
            // A reset query.
            (2, 2) => answer(&Aspas::new(), &state.lock().unwrap().epochs),
            // An error report, or another version.
            _ => return Ok(()),
        };
        connection.write_all(&octets)?;
    }
}

impl AspaCache {
    /// Starts a cache in the namespace of the calling thread.
    pub fn start(port: u16, aspas: &[(u32, Vec<u32>)]) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).unwrap();
        let state = State { epochs: vec![aspas.iter().cloned().collect()], connections: Vec::new() };
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = Arc::clone(&shared);
                state.lock().unwrap().connections.push(connection.try_clone().unwrap());
                std::thread::spawn(move || drop(serve(connection, &state)));
            }
        });
        AspaCache { state }
    }

    /// Has the cache other ASPAs, and notifies the routers.
    pub fn set(&self, aspas: &[(u32, Vec<u32>)]) {
        let mut state = self.state.lock().unwrap();
        state.epochs.push(aspas.iter().cloned().collect());
        let notify = pdu(0, SESSION.to_be_bytes(), &[state.epochs.len() as u32]);
        state.connections.retain_mut(|connection| connection.write_all(&notify).is_ok());
    }
}
