//! Images at URLs: `larder mount` of an image that a web server sends over a simulated link, beside other clients.
//!
//! # Model
//! ```text
//!   reader --> mount --> client --> link (delay, bandwidth) --> server with the image
//! ```
//! The server is that of the testkit ([`HttpServer`](larder_testkit::http::HttpServer)), in the process of the benches.
//! It logs each request, and sends the image from the host's page cache. The log yields the numbers of requests, bytes
//! and [waves](larder_testkit::http::waves). The number of waves is the length of the longest chain of requests that
//! waited for one another.
//!
//! | side | what it is |
//! |---|---|
//! | larder | `larder mount` without a disk cache |
//! | larder-profile | the same with a profile |
//! | larder-pack | the same with a packed profile |
//! | larder-disk | `larder mount` with a disk cache |
//! | plain | a client of ranges over parallel connections, without a file system |
//! | nbdkit, rclone, httpdirfs, s3backer | programs that make an image at a URL a local file, which larder mounts |
//!
//! Each measurement of a mount has a new mount, and a new cache. The readers are processes of their own, and check what
//! they read. Each of the [groups](run::Group) is measured several times, and a result is the median.

mod image;
mod latency;
pub mod measure;
mod memory;
mod mount;
pub mod network;
mod nginx;
mod nodes;
mod opened;
mod peers;
pub mod plan;
mod prediction;
mod readers;
pub mod recorded;
pub mod report;
pub mod results;
pub mod run;
mod s3;
mod service;
mod setup;
mod starts;
mod store;
pub mod targets;
pub mod worker;
