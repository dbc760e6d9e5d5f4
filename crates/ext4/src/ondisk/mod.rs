//! The codec: conversion between on-disk bytes and values, without I/O.
#![allow(
    clippy::struct_field_names,
    reason = "on-disk structures keep the field names of the format, with their prefixes"
)]

/// A description of the damage in the bytes of a structure.
pub type Damage = &'static str;

pub mod acl;
pub(crate) mod bitmap;
pub mod checksum;
pub mod dir;
pub(crate) mod dir_edit;
pub mod dx;
pub(crate) mod dx_edit;
pub mod extent;
pub mod fast_commit;
pub mod features;
pub(crate) mod fields;
pub mod group;
pub mod hash;
pub mod indirect;
pub mod inode;
pub mod jbd2;
pub(crate) mod mmp;
pub(crate) mod orphan_file;
pub mod superblock;
pub mod time;
pub mod xattr;
