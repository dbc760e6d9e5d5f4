//! The statistics socket: one for each mount, accessible only to its owner and root.
//!
//! A server listens on a Unix socket that is named after the mount's device number, in a directory
//! that no other user can write. A client sends one line of JSON, a [`Question`], and receives one
//! line of JSON, an [`Answer`].
//!
//! Invariants:
//! 1. Only the owner of the server and root get an answer. The modes of the directory and of the
//!    socket ensure this, and both ends check the other's credentials.
//! 2. A client can delay the socket's own thread for a second, and cannot delay the mount.

mod client;
mod directory;
mod listener;
mod protocol;

pub use client::Closing;
pub use directory::Mount;
pub use listener::Listener;
pub use protocol::{Answer, Question};
