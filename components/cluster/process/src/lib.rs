//! The cluster: the rooms of the process. [`maps`] is the program `balance` in the memory of the process; all rules are in the
//! core (`sluice_cluster`).

pub mod maps;
