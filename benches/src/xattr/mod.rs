//! setxattr(2) through a mount: how long a set takes, over the number of processes that set.
//!
//! | side | what it is |
//! |---|---|
//! | larder | `larder mount` as a user gets it |
//! | larder-off | the same with `-o mbcache=off` |
//! | fuse2fs | the mount over libext2fs |
//! | kernel | the kernel's ext4 on a loop device |
//!
//! The workload is [xattr-bench](larder_lab::xattr_bench), with processes: each sets the attribute of
//! files of its own to values from a pool, and all of them together as many times in each case,
//! so that the time of a set can be compared from case to case. Each measurement has a fresh
//! image, which keeps all that was set last, and which e2fsck must find clean afterwards. The sides
//! take turns, in an order that rotates from round to round.

pub mod plan;
pub mod report;
pub mod results;
pub mod run;
pub mod side;
