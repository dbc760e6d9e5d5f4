//! Larder compared with its peers, on one image, in one run.
//!
//! | peer | what it is |
//! |---|---|
//! | larder | `larder mount`, as a user gets it |
//! | fuse2fs | the mount over libext2fs |
//! | kernel | the kernel's ext4 on a loop device |
//! | floor | a FUSE server that answers from a constant, through the same transport as ours |
//! | device | the image file itself, read as the workload reads the big file |
//! | volume, syscall | the library in process, and the system call that does the same |
//!
//! A run makes one image (see [`tree`]), then goes round after round through the workloads, and in
//! each through the peers in a rotating order, so that noise hits all of them alike. Each workload
//! checks what it read: a peer that answers wrong is an error, not a fast peer.
//!
//! *Cold* means that the mount is fresh and the image is not in the host's page cache (see
//! [`evict`]). *Warm* means that the same workload has just run on the same mount.
//!
//! Wall time is only reported, as a ratio in the same run; counts are what the test asserts.
#![forbid(unsafe_code)]

pub mod child;
pub mod evict;
mod fio;
pub mod floor;
pub mod hash_table;
pub mod in_process;
pub mod measure;
mod named;
pub mod origin;
pub mod outcome;
pub mod peer;
pub mod plan;
pub mod readahead;
pub mod report;
pub mod results;
pub mod run;
pub mod scratch;
pub mod server;
pub mod tree;
pub mod user;
pub mod work;
pub mod writing;
pub mod xattr;
