//! setxattr(2) through a mount: the time of a call, depending on the number of concurrent processes.
//!
//! | side | what it is |
//! |---|---|
//! | larder | `larder mount` over /dev/fuse |
//! | larder-off | the same with `-o mbcache=off` |
//! | fuse2fs | the mount over libext2fs |
//! | kernel | the kernel's ext4 on a loop device |
//!
//! The workload is [xattr-bench](larder_lab::xattr_bench), with processes. Each process sets the
//! attribute of its own files to values from a pool. The total number of calls is the same in each case,
//! so that the time of a call can be compared between cases. Each measurement has a new image.
//! Afterwards the files must have the values that were set last, and e2fsck must find the image clean.
//! The sides take turns, in an order that rotates from round to round.

pub mod plan;
pub mod report;
pub mod results;
pub mod run;
pub mod side;
