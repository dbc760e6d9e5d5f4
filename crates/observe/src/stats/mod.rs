//! The statistics socket of a mount, to which only the owner of the mount and root have access.
//!
//! The server of each mount listens on a Unix socket. The name of the socket is the mount's device number,
//! and other users cannot write to its directory. A client sends a [`Question`] as one line of JSON, and
//! receives an [`Answer`] as one line of JSON.
//!
//! Invariants:
//! 1. Only the owner of the server and root receive answers. The modes of the directory and of the socket
//!    ensure this. In addition, the client and the server check each other's user IDs.
//! 2. A client has a second to send its question, and each write to it may take a second. Clients delay only
//!    the thread of the socket and the end of the server, which waits for this thread. They never delay
//!    requests to the mount.

mod client;
mod directory;
mod listener;
mod protocol;

pub use client::Closing;
pub use directory::Mount;
pub use listener::Listener;
pub use protocol::{Answer, Question};
