//! Partition tables, in a form that does not depend on their kind.

use crate::Format;
use std::fmt;

/// The largest number of partitions that are read from a table. Tables of usual tools have at most 128.
pub const MAX_PARTITIONS: usize = 256;

/// The sizes of sectors in bytes, the usual one first.
pub(crate) const SECTOR_BYTES: [usize; 2] = [512, 4096];

/// The name of the type of members of a Linux software RAID.
pub(crate) const LINUX_RAID: &str = "Linux RAID";

/// The kind of a partition table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// A GUID partition table (UEFI specification 2.10, section 5.3).
    Gpt,
    /// A table in the master boot record, as `fdisk` has written it since MS-DOS.
    Mbr,
}

impl TableKind {
    /// Returns the usual name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Gpt => "GPT",
            Self::Mbr => "MBR",
        }
    }
}

/// The partitions of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionTable {
    /// The kind of the table.
    pub kind: TableKind,
    /// The size of the sectors that the table counts, in bytes: 512 or 4096.
    pub sector_bytes: u64,
    /// The partitions, ordered by number.
    pub partitions: Vec<Partition>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    /// The number, as the kernel counts: from 1.
    pub number: u32,
    /// The offset of the partition in the device, in bytes.
    pub offset_bytes: u64,
    /// The size in bytes. If the device is truncated, only the part that exists counts.
    pub size_bytes: u64,
    /// The type in the table, for example "Linux filesystem". It need not agree with the content.
    pub type_name: String,
    /// The name in the table, or an empty string.
    pub name: String,
    /// Whether the partition begins with an ext file system.
    pub is_ext: bool,
    /// Another format with which the partition begins.
    pub format: Option<Format>,
    /// If the start of the partition cannot be read: the reason. Its content is then unknown.
    pub error: Option<String>,
}

/// The reason why no partition was selected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotSelected {
    /// No partition has the requested number.
    #[error("there is no partition {0}")]
    NoSuchNumber(u32),
    /// No partition has an ext file system.
    #[error("no partition has an ext2, ext3 or ext4 file system")]
    NoExt,
    /// Several partitions have an ext file system.
    #[error("partitions {} have ext file systems", Numbers(.0))]
    SeveralExt(Vec<u32>),
}

/// Writes numbers as "1, 2 and 5".
struct Numbers<'n>(&'n [u32]);

impl fmt::Display for Numbers<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, number) in self.0.iter().enumerate() {
            let separator = match at {
                0 => "",
                at if at + 1 == self.0.len() => " and ",
                _ => ", ",
            };
            write!(f, "{separator}{number}")?;
        }
        Ok(())
    }
}

impl PartitionTable {
    /// Returns whether a partition begins with an ext file system.
    pub(crate) fn has_ext(&self) -> bool {
        self.partitions.iter().any(|one| one.is_ext)
    }

    /// Returns the partition with `number`. Without a number, returns the only partition with an ext file system.
    ///
    /// # Errors
    /// If there is no such partition, or if several have an ext file system.
    pub fn select(&self, number: Option<u32>) -> Result<&Partition, NotSelected> {
        if let Some(number) = number {
            let found = self.partitions.iter().find(|one| one.number == number);
            return found.ok_or(NotSelected::NoSuchNumber(number));
        }
        // A member of a RAID must not be used without the other members.
        let is_usable = |one: &&Partition| one.is_ext && one.type_name != LINUX_RAID;
        let ext: Vec<&Partition> = self.partitions.iter().filter(is_usable).collect();
        match ext[..] {
            [] => Err(NotSelected::NoExt),
            [only] => Ok(only),
            _ => Err(NotSelected::SeveralExt(
                ext.iter().map(|one| one.number).collect(),
            )),
        }
    }
}
