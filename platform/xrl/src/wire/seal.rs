//! Keys that say who calls: a keyed hash of the method and its caller (docs/xrl.md, "Keys").
//!
//! The Finder draws a seal for each registration of a target and sends it to the target alone. The key that a caller
//! receives is made with the seal, so the target learns from the key which principal calls, without asking anybody.

use super::frame::{Bind, KEY, Key};
use crate::XrlError;
use hmac::{Hmac, Mac};
use sha2::Sha256;
use std::cell::RefCell;
use std::rc::Rc;

/// Octets of a seal.
pub(crate) const SEAL: usize = 32;
/// Valid seals of a target: the seal of its last registration, and earlier seals, so that callers continue while the
/// Finder restarts.
const MAX_SEALS: usize = 4;
/// The first octets of what is hashed, so that no other use of the same hash can make a key.
const DOMAIN: &[u8] = b"sluice xrl key 2";

/// Who may use a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Holder {
    /// A process of this host by Unix socket, with the numbers that the kernel reports.
    Process { pid: u32, uid: u32 },
    /// Any caller by TCP or UDP: no kernel reports who that is.
    Network,
}

/// A target's secret, known to the Finder and the target.
#[derive(Clone)]
pub(crate) struct Seal([u8; SEAL]);

impl Seal {
    /// Returns a new seal from two random keys.
    pub(crate) fn draw(random: &mut dyn FnMut() -> Key) -> Self {
        let mut octets = [0; SEAL];
        octets[..KEY].copy_from_slice(&random());
        octets[KEY..].copy_from_slice(&random());
        Seal(octets)
    }

    /// Reads a seal as the Finder sends it.
    pub(crate) fn read(octets: &[u8]) -> Result<Self, XrlError> {
        let wrong = |_| XrlError::Protocol(format!("a seal of {} octets", octets.len()));
        octets.try_into().map(Seal).map_err(wrong)
    }

    pub(crate) fn octets(&self) -> &[u8] {
        &self.0
    }

    /// Hashes what a key is about. Every part has a fixed or a stated length: no two meanings have the same octets.
    fn hash(&self, grant: u64, principal: &str, path: &str, holder: Holder) -> Option<Hmac<Sha256>> {
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).ok()?;
        mac.update(DOMAIN);
        mac.update(&grant.to_be_bytes());
        match holder {
            Holder::Process { pid, uid } => {
                mac.update(&[1]);
                mac.update(&pid.to_be_bytes());
                mac.update(&uid.to_be_bytes());
            }
            Holder::Network => mac.update(&[2]),
        }
        mac.update(&[u8::try_from(principal.len()).ok()?]);
        mac.update(principal.as_bytes());
        mac.update(path.as_bytes());
        Some(mac)
    }

    /// Returns the key of `path` (`INSTANCE/INTERFACE/METHOD`) for a caller. A principal with a name of more than 255
    /// octets receives a key that no target accepts.
    pub(crate) fn key(&self, grant: u64, principal: &str, path: &str, holder: Holder) -> Key {
        let mut key = [0; KEY];
        if let Some(mac) = self.hash(grant, principal, path, holder) {
            key.copy_from_slice(&mac.finalize().into_bytes()[..KEY]);
        }
        key
    }

    /// Returns true if the Finder made the key for this caller. Takes the same time for every wrong key.
    fn vouches(&self, bind: &Bind<'_>, holder: Holder) -> bool {
        let mac = self.hash(bind.grant, bind.principal, bind.path, holder);
        mac.is_some_and(|mac| mac.verify_truncated_left(&bind.key).is_ok())
    }
}

/// The seals of a target's registrations, the latest last.
#[derive(Default)]
pub(crate) struct Seals(RefCell<Vec<Seal>>);

impl Seals {
    /// Adds the seal of the latest registration.
    pub(crate) fn add(&self, seal: Seal) {
        let mut seals = self.0.borrow_mut();
        if seals.len() == MAX_SEALS {
            seals.remove(0);
        }
        seals.push(seal);
    }

    /// Returns true if one of the seals made the key for this caller.
    pub(crate) fn vouch(&self, bind: &Bind<'_>, holder: Holder) -> bool {
        self.0.borrow().iter().any(|seal| seal.vouches(bind, holder))
    }
}

/// A caller's answer from the Finder: the key of a method, and the grant of rights by which it was given.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Credential {
    pub(crate) key: Key,
    pub(crate) grant: u64,
    pub(crate) principal: Rc<str>,
}

impl Credential {
    /// The credential of a caller without a key.
    pub(crate) fn none() -> Self {
        Credential { key: [0; KEY], grant: 0, principal: "".into() }
    }

    /// Returns the body of a Bind frame.
    pub(crate) fn bind<'a>(&'a self, path: &'a str) -> Bind<'a> {
        Bind { key: self.key, grant: self.grant, principal: &self.principal, path }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PATH: &str = "bgp/bgp.v1.Bgp/GetPeers";
    const HOLDER: Holder = Holder::Process { pid: 4711, uid: 62_001 };

    fn seal() -> Seal {
        Seal([7; SEAL])
    }

    fn bind<'a>(key: Key, principal: &'a str, path: &'a str) -> Bind<'a> {
        Bind { key, grant: 9, principal, path }
    }

    /// The example of docs/xrl.md, for implementations in other languages.
    #[test]
    fn the_documented_key() {
        let key = seal().key(9, "radar", PATH, HOLDER);
        assert_eq!(key.map(|o| format!("{o:02x}")).concat(), "3545f80afecdb38f7a8ca9e2fa33aa3a");
    }

    #[test]
    fn a_key_is_for_its_caller_alone() {
        let key = seal().key(9, "radar", PATH, HOLDER);
        let seals = Seals::default();
        seals.add(seal());
        assert!(seals.vouch(&bind(key, "radar", PATH), HOLDER));
        for holder in [
            Holder::Process { pid: 4712, uid: 62_001 },
            Holder::Process { pid: 4711, uid: 0 },
            Holder::Network,
        ] {
            assert!(!seals.vouch(&bind(key, "radar", PATH), holder), "{holder:?}");
        }
        assert!(!seals.vouch(&bind(key, "rada", PATH), HOLDER));
        assert!(!seals.vouch(&bind(key, "radar", "bgp/bgp.v1.Bgp/ResetPeer"), HOLDER));
        assert!(!seals.vouch(&Bind { grant: 10, ..bind(key, "radar", PATH) }, HOLDER));
        for i in 0..KEY {
            let mut other = key;
            other[i] ^= 0x80;
            assert!(!seals.vouch(&bind(other, "radar", PATH), HOLDER));
        }
    }

    #[test]
    fn keys_of_four_registrations_are_valid() {
        let seals = Seals::default();
        let keys: Vec<Key> = (0..6)
            .map(|n| {
                let seal = Seal([n; SEAL]);
                let key = seal.key(9, "radar", PATH, HOLDER);
                seals.add(seal);
                key
            })
            .collect();
        let valid: Vec<bool> =
            keys.into_iter().map(|key| seals.vouch(&bind(key, "radar", PATH), HOLDER)).collect();
        assert_eq!(valid, [false, false, true, true, true, true]);
    }

    proptest! {
        /// Octets that move from the principal's name to the path make another key.
        #[test]
        fn names_have_a_border(text in "[a-z/]{2,20}", cut in 0_usize..20, other in 0_usize..20) {
            let (cut, other) = (cut % text.len(), other % text.len());
            prop_assume!(cut != other);
            let of = |at| { let (name, path) = text.split_at(at); seal().key(9, name, path, HOLDER) };
            prop_assert_ne!(of(cut), of(other));
        }
    }
}
