//! The test kit of Larder: images made by mke2fs, debugfs and the kernel, the kernel's own mount as the
//! oracle, and seeded damage.
//!
//! Start with [`MATRIX`] and [`Image::get`].

pub mod attribute_names;
pub mod attribute_sets;
pub mod attribute_sizes;
pub mod console;
pub mod crash;
pub mod device;
pub mod e2fsprogs;
pub mod error;
pub mod full;
pub mod http;
pub mod image;
pub mod mbr;
pub mod medium;
pub mod memory;
pub mod model;
pub mod mount;
pub mod mutate;
pub mod operation;
pub mod oracle;
pub mod page;
pub mod qemu;
pub mod readahead;
pub mod requirement;
pub mod seed;
pub mod sfdisk;
pub mod tool;
pub mod trace_instance;
pub mod tree;
pub mod zstd;

pub use error::{Error, Result};
pub use image::{Image, MATRIX, Recipe};
pub use medium::{Medium, Stored};
pub use mount::{Access, Attached, LoopMount};
pub use oracle::{Comparison, DirectorySource, Fields, Oracle, Source, VolumeSource, compare};
pub use requirement::{Requirement, report_skipped, skip};
pub use seed::{Random, Seed};
