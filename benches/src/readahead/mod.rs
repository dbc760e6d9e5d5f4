//! Readahead on real devices: Larder's mount with each policy, compared with the kernel's ext4.
//!
//! | side | what it is |
//! |---|---|
//! | kernel | ext4 on the device |
//! | larder | `larder mount` with its defaults |
//! | off, legacy, … | `larder mount` with this policy, without caching or readahead by the kernel around it |
//! | legacy-exact, ondemand-exact | the same with `readahead_exact`, for the published measurements |
//!
//! All sides read the same image on the same kind of device, with the same memory limit (see [`cgroup`])
//! and the same maximum of readahead. The device runs at the speed of the machine's storage, or is
//! throttled to the speed of a disk of 2007, because readahead matters on slow devices.
//!
//! Each measurement uses a new device and a new mount, with nothing cached. The sides take turns, in an
//! order that rotates from round to round. Rates are reported as ratios within one run. The reads of the
//! device are counted.

pub mod case;
pub mod cgroup;
pub mod device;
pub mod image;
pub mod oltp;
pub mod peer;
pub mod plan;
pub mod report;
pub mod results;
pub mod run;
pub mod sampler;
pub mod streams;
pub mod tools;
