//! Readahead on the real thing: Larder's mount under each policy, beside the kernel's ext4.
//!
//! | side | what it is |
//! |---|---|
//! | kernel | ext4 on the device |
//! | larder | `larder mount` as a user gets it |
//! | off, legacy, … | `larder mount` under this policy, with no cache and no readahead of the kernel's around it |
//!
//! All sides read the same image on the same kind of device, with the same limit on memory (see
//! [`cgroup`]) and the same maximum of readahead. The device is as fast as the machine's storage,
//! or throttled to what a disk of 2007 did: readahead matters to slow devices.
//!
//! Each measurement is on a fresh device and a fresh mount, with nothing cached. The sides take
//! turns, in an order that rotates from round to round. Rates are reported, as ratios in one run;
//! what the device read is counted.

pub mod case;
pub mod cgroup;
pub mod device;
pub mod image;
pub mod peer;
pub mod plan;
pub mod report;
pub mod results;
pub mod run;
pub mod sampler;
pub mod streams;
pub mod tools;
