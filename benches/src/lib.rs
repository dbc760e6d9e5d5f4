//! Larder compared with its peers, on one image, in one run.
//!
//! | peer | what it is |
//! |---|---|
//! | larder | `larder mount` over `io_uring` |
//! | larder-dev | `larder mount` over /dev/fuse |
//! | fuse2fs | the mount over libext2fs |
//! | squashfuse | the mount of squashfs archives, which can only be read |
//! | kernel | the kernel's ext4 on a loop device |
//! | floor, floor-dev | a FUSE server with one file, over the transports of larder and of larder-dev |
//! | device | the image file itself, read as the workload reads the big file |
//! | volume, syscall | the library in process, and the equivalent system call |
//! | direct | the library in process, with direct I/O on the image |
//! | fio | fio with `io_uring`, on the image file |
//!
//! A run builds one image (see [`tree`]). Each round runs all workloads, and each workload runs the
//! peers in a rotating order, so that noise affects all of them equally. Each workload checks what it
//! read: a peer that returns wrong content is an error, not a fast peer.
//!
//! *Cold* means that the mount is fresh and the image is not in the host's page cache (see
//! [`evict`]). *Warm* means that the same workload has just run on the same mount.
//!
//! The report states wall times and their ratios within the run. The tests assert counts, but no times.
#![forbid(unsafe_code)]

pub mod child;
pub mod create;
mod database;
pub mod device_path;
pub mod evict;
mod fio;
pub mod hash_table;
pub mod in_process;
pub mod measure;
pub mod measured;
mod named;
pub mod origin;
pub mod outcome;
mod passes;
pub mod peer;
pub mod plan;
mod processor;
pub mod python;
pub mod readahead;
pub mod remote;
pub mod report;
pub mod requests;
pub mod results;
pub mod run;
pub mod scratch;
pub mod server;
pub mod tree;
pub mod uring;
pub mod user;
pub mod verdict;
pub mod work;
pub mod writing;
pub mod xattr;
