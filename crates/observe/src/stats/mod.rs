//! The statistics socket: one for each mount, its owner's alone.
//!
//! A server listens on a Unix socket that is named after the mount's device
//! number, in a directory that nobody else can write. A client sends one line of
//! JSON, a [`Question`], and gets one line of JSON, an [`Answer`].
//!
//! Invariants:
//! 1. Only the owner of the server and root get an answer: the mode of the
//!    directory and of the socket says so, and both ends check the other's
//!    credentials.
//! 2. A client can hold up the socket's own thread for a second, and the mount
//!    not at all.

mod client;
mod directory;
mod listener;
mod protocol;

pub use client::Closing;
pub use directory::Mount;
pub use listener::Listener;
pub use protocol::{Answer, Question};
