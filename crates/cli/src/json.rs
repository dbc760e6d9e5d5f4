//! The values that `--json` prints. Each command prints one object, and its keys do not change between
//! versions.

use crate::mode;
use larder::tables::TreeDepths;
use larder::{FileKind, HistogramReport, Metadata, MountTransport, Timestamp};
use larder_image::{DiskInfo, PartitionTable};
use serde::{Serialize, Serializer};
use std::cell::RefCell;
use std::fmt::Write as _;

/// The name of a file, as text. If the name is not UTF-8, its bytes are included.
#[derive(Debug, Serialize)]
pub(crate) struct Name {
    /// The name, in which U+FFFD replaces bytes that are not UTF-8.
    name: String,
    /// The bytes of the name in hexadecimal, if the name is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    name_hex: Option<String>,
}

impl Name {
    pub(crate) fn new(name: &[u8]) -> Self {
        let (name, name_hex) = text(name);
        Self { name, name_hex }
    }
}

/// The path of a file, as text. If the path is not UTF-8, its bytes are included.
#[derive(Debug, Serialize)]
pub(crate) struct FilePath {
    /// The path, in which U+FFFD replaces bytes that are not UTF-8.
    path: String,
    /// The bytes of the path in hexadecimal, if the path is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
}

impl FilePath {
    pub(crate) fn new(path: &[u8]) -> Self {
        let (path, path_hex) = text(path);
        Self { path, path_hex }
    }
}

/// Returns `bytes` as text. If they are not UTF-8, also returns them in hexadecimal.
fn text(bytes: &[u8]) -> (String, Option<String>) {
    let hex = || {
        bytes.iter().fold(String::new(), |mut hex, byte| {
            // Writing to a string cannot fail.
            let _ = write!(hex, "{byte:02x}");
            hex
        })
    };
    let hex = std::str::from_utf8(bytes).is_err().then(hex);
    (String::from_utf8_lossy(bytes).into_owned(), hex)
}

/// An array whose elements are produced while it is written, so that they are not in memory at the same time. It can be
/// written once.
#[derive(Debug)]
pub(crate) struct Stream<I>(RefCell<I>);

impl<I> Stream<I> {
    pub(crate) fn new(elements: I) -> Self {
        Self(RefCell::new(elements))
    }
}

impl<I: Iterator<Item: Serialize>> Serialize for Stream<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(&mut *self.0.borrow_mut())
    }
}

/// What `larder info` shows of an image.
#[derive(Debug, Serialize)]
pub(crate) struct Image<'t> {
    #[serde(flatten)]
    pub(crate) info: larder::Info,
    /// Whether another process can write to the image, so that all of this may be out of date.
    pub(crate) in_use: bool,
    /// What the image is, if it is a disk image of another format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk: Option<Disk>,
    /// The partition with the file system, if it is the only one, and was not requested.
    #[serde(flatten)]
    pub(crate) only_partition: Option<OnlyPartition<'t>>,
    /// The mounts of the image in this mount namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) mounts: Vec<Mounted>,
}

/// What `larder info` shows of a disk image.
#[derive(Debug, Serialize)]
pub(crate) struct Disk {
    /// `qcow2`, `vmdk` or `zstd`.
    format: &'static str,
    /// The size of the disk, not of the file.
    size_bytes: u64,
    /// The size of a cluster (qcow2), a grain (VMDK) or the largest frame (zstd).
    unit_bytes: u64,
}

impl From<DiskInfo> for Disk {
    fn from(disk: DiskInfo) -> Self {
        Self {
            format: disk.format.as_str(),
            size_bytes: disk.size_bytes,
            unit_bytes: disk.unit_bytes,
        }
    }
}

/// The number of the only partition with an ext file system, and the table with all partitions.
#[derive(Debug, Serialize)]
pub(crate) struct OnlyPartition<'t> {
    #[serde(rename = "partition")]
    number: u32,
    #[serde(flatten)]
    table: Table<'t>,
}

impl<'t> OnlyPartition<'t> {
    pub(crate) fn new(table: &'t PartitionTable, number: u32) -> Self {
        Self {
            number,
            table: Table::new(table),
        }
    }
}

/// What `larder info` shows of an image with partitions, if none or several of them have an ext file system.
#[derive(Debug, Serialize)]
pub(crate) struct Partitions<'t> {
    /// Always `partitions`.
    kind: &'static str,
    in_use: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    disk: Option<Disk>,
    #[serde(flatten)]
    table: Table<'t>,
}

impl<'t> Partitions<'t> {
    pub(crate) fn new(table: &'t PartitionTable, disk: Option<DiskInfo>, in_use: bool) -> Self {
        Self {
            kind: "partitions",
            in_use,
            disk: disk.map(Disk::from),
            table: Table::new(table),
        }
    }
}

/// A partition table.
#[derive(Debug, Serialize)]
struct Table<'t> {
    /// `GPT` or `MBR`.
    #[serde(rename = "table")]
    kind: &'static str,
    sector_bytes: u64,
    #[serde(rename = "partitions")]
    rows: Vec<Partition<'t>>,
}

/// A partition of an image.
#[derive(Debug, Serialize)]
struct Partition<'t> {
    number: u32,
    offset_bytes: u64,
    size_bytes: u64,
    #[serde(rename = "type")]
    type_name: &'t str,
    name: &'t str,
    /// `ext`, the name of another format, or `null` if the format is unknown.
    content: Option<&'static str>,
    /// Why the start of the partition cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'t str>,
}

impl<'t> Table<'t> {
    fn new(table: &'t PartitionTable) -> Self {
        let partition = |one: &'t larder_image::Partition| Partition {
            number: one.number,
            offset_bytes: one.offset_bytes,
            size_bytes: one.size_bytes,
            type_name: &one.type_name,
            name: &one.name,
            content: match one.format {
                Some(format) => Some(format.as_str()),
                None => one.is_ext.then_some("ext"),
            },
            error: one.error.as_deref(),
        };
        Self {
            kind: table.kind.as_str(),
            sector_bytes: table.sector_bytes,
            rows: table.partitions.iter().map(partition).collect(),
        }
    }
}

/// What `larder info` shows of an image with another format.
#[derive(Debug, Serialize)]
pub(crate) struct OtherFormat {
    pub(crate) kind: &'static str,
    pub(crate) in_use: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) disk: Option<Disk>,
}

/// A mount of an image.
#[derive(Debug, Serialize)]
pub(crate) struct Mounted {
    pub(crate) mountpoint: String,
    /// How the kernel passes requests. `None` if the server cannot be queried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) transport: Option<MountTransport>,
}

/// A point in time.
#[derive(Clone, Copy, Debug, Serialize)]
struct Time {
    seconds: i64,
    nanoseconds: u32,
}

impl From<Timestamp> for Time {
    fn from(timestamp: Timestamp) -> Self {
        Self {
            seconds: timestamp.seconds,
            nanoseconds: timestamp.nanoseconds,
        }
    }
}

/// The attributes of a file that `larder stat` shows.
#[derive(Debug, Serialize)]
pub(crate) struct File {
    ino: u32,
    #[serde(rename = "type")]
    kind: &'static str,
    mode: String,
    permissions: String,
    links: u32,
    uid: u32,
    gid: u32,
    size_bytes: u64,
    blocks_512: u64,
    accessed: Time,
    modified: Time,
    changed: Time,
    created: Option<Time>,
    flags: u32,
    generation: u32,
    project_id: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    rdev_major: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rdev_minor: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<String>,
}

impl File {
    /// Creates the object from the attributes of a file. `target` must be given for a symbolic link.
    pub(crate) fn new(metadata: &Metadata, target: Option<&[u8]>) -> Self {
        let is_device = mode::is_device(metadata.kind);
        Self {
            ino: metadata.ino.0,
            kind: mode::word(metadata.kind),
            mode: mode::string(metadata),
            permissions: format!("{:04o}", metadata.permissions),
            links: metadata.links,
            uid: metadata.uid,
            gid: metadata.gid,
            size_bytes: metadata.size_bytes,
            blocks_512: metadata.blocks_512,
            accessed: metadata.accessed.into(),
            modified: metadata.modified.into(),
            changed: metadata.changed.into(),
            created: metadata.created.map(Time::from),
            flags: metadata.flags,
            generation: metadata.generation,
            project_id: metadata.project_id,
            rdev_major: is_device.then_some(metadata.rdev_major),
            rdev_minor: is_device.then_some(metadata.rdev_minor),
            target: target
                .filter(|_| metadata.kind == FileKind::Symlink)
                .map(|target| String::from_utf8_lossy(target).into_owned()),
        }
    }
}

/// The number of chains of each length in a cache's hash table, and the number that a random distribution
/// would give.
#[derive(Debug, Serialize)]
pub(crate) struct Histogram {
    cache: &'static str,
    lookups: u64,
    hits: u64,
    links_on_hits: u64,
    links_on_misses: u64,
    buckets: u64,
    objects: u64,
    longest_chain: u64,
    rows: Vec<HistogramRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trees: Option<Trees>,
}

/// The depths of a cache's red-black trees, which take the place of chains.
#[derive(Debug, Serialize)]
struct Trees {
    count: u64,
    largest: u64,
    rows: Vec<DepthRow>,
}

/// The number of objects at one depth.
#[derive(Debug, Serialize)]
struct DepthRow {
    depth: u64,
    objects: u64,
}

/// The number of buckets whose chains have one length.
#[derive(Debug, Serialize)]
struct HistogramRow {
    /// The length. It is null in the last row, which counts all longer chains.
    length: Option<u64>,
    buckets: u64,
    objects: u64,
    poisson_buckets: f64,
}

impl Histogram {
    pub(crate) fn new(report: &HistogramReport) -> Self {
        let (counts, histogram) = (&report.counts, &report.histogram);
        let trees = report.trees.as_ref();
        let rows = histogram.rows().zip(report.poisson);
        // Without chains, all rows would be 0.
        let rows = rows.filter(|_| trees.is_none());
        let row = |((length, buckets, objects), poisson_buckets)| HistogramRow {
            length,
            buckets,
            objects,
            poisson_buckets,
        };
        Self {
            cache: report.cache.as_str(),
            lookups: counts.lookups(),
            hits: counts.hits,
            links_on_hits: counts.links_on_hits,
            links_on_misses: counts.links_on_misses,
            buckets: histogram.buckets(),
            objects: trees.map_or_else(|| histogram.objects(), TreeDepths::objects),
            longest_chain: report.longest_walk(),
            rows: rows.map(row).collect(),
            trees: trees.map(|trees| Trees {
                count: trees.trees,
                largest: trees.largest,
                rows: trees
                    .rows()
                    .map(|(depth, objects)| DepthRow { depth, objects })
                    .collect(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_utf8_name_keeps_its_bytes() {
        let json = serde_json::to_value(Name::new(b"a\xff")).unwrap();
        assert_eq!(json["name"], "a\u{fffd}");
        assert_eq!(json["name_hex"], "61ff");
        let json = serde_json::to_value(Name::new(b"ab")).unwrap();
        assert_eq!(json.get("name_hex"), None);
    }
}
