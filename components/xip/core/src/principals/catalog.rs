//! The principals that Sluice brings, a row for each. Only this file knows more than one principal.

use super::lpm::LpmPrincipal;
use super::table::TablePrincipal;
use super::tunnels::TunnelPrincipal;
use super::uni4id::Uni4idPrincipal;
use super::zf::{Shape, ZfPrincipal};
use super::{Principal, ad, ether, hid, u4id, u6id, xdp};
use alloc::boxed::Box;
use sluice_base::XidType;

/// A row of the catalog.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// The principal's name, as in the text form of XIDs.
    pub name: &'static str,
    /// The type under which the principal is registered unless another is wanted.
    pub number: XidType,
    /// Makes an empty principal for a type. A secret seed keeps the hashes of tables from being guessed.
    pub make: fn(XidType, u64) -> Box<dyn Principal>,
}

/// The principals. A second version of a principal is the same row with another number, such as hid and hidv2.
pub const CATALOG: [Row; 9] = [
    Row {
        name: "ad",
        number: XidType::AD,
        make: |kind, seed| Box::new(TablePrincipal::new(kind, &ad::RULES, seed)),
    },
    Row {
        name: "hid",
        number: XidType::HID,
        make: |kind, seed| Box::new(TablePrincipal::new(kind, &hid::RULES, seed)),
    },
    Row { name: "lpm", number: XidType::LPM, make: |kind, seed| Box::new(LpmPrincipal::new(kind, seed)) },
    Row {
        name: "u4id",
        number: XidType::U4ID,
        make: |kind, seed| Box::new(TunnelPrincipal::new(kind, u4id::is_well_formed, seed)),
    },
    Row {
        name: "u6id",
        number: XidType::U6ID,
        make: |kind, seed| Box::new(TunnelPrincipal::new(kind, u6id::is_well_formed, seed)),
    },
    Row {
        name: "uni4id",
        number: XidType::UNI4ID,
        make: |kind, _| Box::new(Uni4idPrincipal::new(kind, XidType::U4ID)),
    },
    Row {
        name: "zf",
        number: XidType::ZF,
        make: |kind, _| Box::new(ZfPrincipal::new(kind, Shape::default())),
    },
    Row {
        name: "xdp",
        number: XidType::XDP,
        make: |kind, seed| Box::new(TablePrincipal::new(kind, &xdp::RULES, seed)),
    },
    Row {
        name: "ether",
        number: XidType::ETHER,
        make: |kind, seed| Box::new(TablePrincipal::new(kind, &ether::RULES, seed)),
    },
];

/// Returns the row of a name; `None` if the catalog has no such principal.
pub fn row(name: &str) -> Option<&'static Row> {
    CATALOG.iter().find(|row| row.name == name)
}
