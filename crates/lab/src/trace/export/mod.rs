//! Exports: traces in the formats of other programs.

pub mod oracle_general;
