//! The journal (jbd2).
