//! The FUSE protocol of Linux, version 7: the byte layout of requests and replies.
//!
//! The module neither receives nor sends. It parses a request ([`Request`]), builds the body of a reply
//! ([`Body`]), and negotiates the capabilities of a connection ([`handshake`]). Both transports use this
//! module.
//!
//! Requests are parsed as untrusted bytes, although only the kernel sends them. A malformed request is an
//! error. An unknown operation is parsed as [`Operation::Unknown`], for which the reply is `ENOSYS`.
//!
//! Source: `include/uapi/linux/fuse.h`, protocol versions 7.31 to 7.45, and `Documentation/filesystems/fuse`.

pub(crate) mod abi;
pub(crate) mod handshake;
mod reply;
mod request;

pub(crate) use reply::{Body, nodes_in_reply, type_bits};
pub(crate) use request::{Header, Malformed, Operation, Request};
