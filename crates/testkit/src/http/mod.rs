//! A web server for tests, which listens on loopback only. It sends an object in ranges, or pages, or forwards
//! requests to another server. It logs requests and replies, simulates a link, and injects faults.
//!
//! # Model
//! ```text
//!   client --> request (half of the delay) --> Source: the object, pages, or another server
//!   client <-- reply (half of the delay, then at the bandwidth that all connections share) <-- Fault
//! ```
//! A thread serves each connection. The drop ends the server. A [`Proxy`] or a [`TlsServer`] can be in front of the
//! server. A [`StoreServer`] accepts uploads.

mod body;
mod hold;
mod link;
mod listener;
mod log;
mod message;
mod proxy;
mod server;
mod store;
#[cfg(test)]
mod tests;
mod tls;

pub use body::Body;
pub use link::Link;
pub use log::{Exchange, wave_count, waves};
pub use message::{Reply, Request};
pub use proxy::Proxy;
pub use server::{Fault, HttpServer, OBJECT_NAME, Object};
pub use store::{StoreFault, StoreServer, StoreState, StoredObject};
pub use tls::TlsServer;
