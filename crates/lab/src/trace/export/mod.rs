//! Exports traces to the formats of other programs.

pub mod oracle_general;
