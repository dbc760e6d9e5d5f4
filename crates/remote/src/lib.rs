//! Images in object stores and on web servers, read lazily.
//!
//! # Model
//! An image is an *object*: a sequence of bytes that a server sends in ranges. [`RemoteDevice`] reads the
//! object in *units* of [`UNIT_BYTES`]. A unit that was read is kept in memory for a while, and in the [disk
//! cache](disk_cache). Adjacent units are fetched by one request to the server. Each of them can be used as soon
//! as its bytes have arrived. Many requests are in flight at once, and those that a thread waits for are sent
//! first.
//!
//! ```text
//!   BlockDevice requests --> units in memory, on disk --> Fetcher: one request for a run of units, repeated
//!   (device)                 or in flight (units, known)  (fetch, object, stream)         |
//!                                     ^                                                   |
//!                                     `--- claims: one unit at a time, as it arrives <----'
//! ```
//!
//! # One version
//! All bytes come from one [version](Version) of the object. Each request names the strong `ETag` of the
//! version, if it has one (`If-Match`). Each reply is compared with the version. If the object was replaced,
//! reads fail with `ESTALE`.
//!
//! # Failures
//! After a temporary failure (a broken connection, a stall, a short or wrong reply, 5xx, 429), a request is
//! repeated with growing pauses. If nothing arrives until the deadline, the read fails with `EIO`. Each unit that
//! arrives restarts the deadline. The statistics contain the reason of the last failure.
//!
//! # Secrets
//! Query strings and user names in URLs can be credentials. [`ImageUrl`] shows neither.
//! [`redact`](redact::redact) removes both from error texts of other libraries before they are shown or
//! logged.
//!
//! ```
//! use larder_remote::ImageUrl;
//!
//! let url = ImageUrl::parse("https://user:secret@example.com/disk.img?token=secret")?;
//! assert_eq!(url.to_string(), "https://example.com/disk.img");
//! # Ok::<(), larder_remote::Error>(())
//! ```

#![forbid(unsafe_code)]

mod aws;
mod azure;
mod claims;
mod connector;
mod content;
mod counters;
mod device;
mod digest;
pub mod disk_cache;
mod error;
mod fetch;
mod google;
mod known;
mod meter;
mod object;
mod pace;
pub mod profile;
mod redact;
mod store;
mod stores;
mod stream;
mod units;
#[cfg(any(test, fuzzing))]
mod untrusted;
mod upload;
mod urgency;
mod url;
mod user;

#[cfg(fuzzing)]
pub use aws::untrusted::{Key, keys_in_files, keys_in_output};
pub use content::Progress;
pub use device::{CacheOptions, RemoteDevice, RemoteOptions};
pub use digest::ContentDigest;
pub use error::{Error, Result};
pub use known::UNIT_BYTES;
pub use object::Version;
#[cfg(fuzzing)]
pub use untrusted::{REQUESTED, read_reply};
pub use upload::{UploadOptions, upload};
pub use url::ImageUrl;
