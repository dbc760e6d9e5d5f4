//! Images on servers that others wrote: versitygw and moto, which are compatible with S3, and nginx as a web server
//! and as a caching proxy.
//!
//! Each test starts the servers that it needs, on free ports of loopback. A server ends with the test that started
//! it, also if the test is killed.

mod guide;
mod image;
#[path = "../larder/mod.rs"]
mod larder;
mod nginx;
mod program;
mod s3;
mod s3_tests;
mod web_tests;
