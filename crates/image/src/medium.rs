//! An image that is opened to find the file system in it.

use crate::contents::start_of;
use crate::format::START_BYTES;
use crate::{
    Contents, DiskDevice, DiskError, DiskInfo, Format, ImageFormat, NotSelected, Partition,
    examine, open_disk,
};
use larder_block::BlockDevice;
use std::sync::Arc;

/// The quotient of the memory for all caches and the memory of the device. A disk image, or an image on a server, needs
/// memory besides the caches of its file system, but at most [`MAX_DEVICE_BYTES`].
const DEVICE_DIVISOR: u64 = 8;
const MAX_DEVICE_BYTES: u64 = 32 << 20;

/// Returns the part of `cache_bytes`, the memory for all caches, that is for the tables and decompressed units of a disk
/// image. An image on a server needs as much for the parts of it that were fetched.
#[must_use]
pub fn device_memory_bytes(cache_bytes: u64) -> u64 {
    MAX_DEVICE_BYTES.min(cache_bytes / DEVICE_DIVISOR)
}

/// A whole image, or the disk in it if it is a disk image.
#[derive(Clone, Debug)]
pub struct Medium {
    /// The image, or the disk in it.
    pub device: Arc<dyn BlockDevice>,
    /// What the image is, if it is a disk image.
    pub disk: Option<DiskInfo>,
    /// What `device` contains.
    pub contents: Contents,
}

/// Why an image is not used: it has no ext file system, it has several, or it does not have the requested partition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// A partition is requested, and there is no partition table.
    #[error("it has no partition table")]
    NoTable,
    /// No partition was selected.
    #[error(transparent)]
    NotSelected(#[from] NotSelected),
    /// The requested partition has another format.
    #[error("partition {number} is {}", .format.description())]
    OtherPartition {
        /// The number of the partition.
        number: u32,
        /// The format.
        format: Format,
    },
    /// There are both an ext file system and partitions with ext file systems.
    #[error("it has both an ext file system and partitions with ext file systems")]
    Ambiguous,
    /// The start or a partition table cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// Both copies of the GPT are damaged.
    #[error("both copies of its GPT are damaged")]
    DamagedGpt,
    /// The image has another format.
    #[error("it is {}", .0.description())]
    Other(Format),
}

impl Medium {
    /// Examines the image on `device`. The caller will use partition `number`. If the image is a disk image, opens the
    /// disk in it, with `memory_bytes` for [`open_disk`], and examines the disk. The image must have the given
    /// `format`. If no format is given, it is guessed from the content, which the users of the disk may have written.
    ///
    /// # Errors
    /// The errors of [`open_disk`], with the format. [`DiskError::OtherFormat`] if the image does not have the given format.
    pub fn open(
        device: Arc<dyn BlockDevice>,
        format: Option<ImageFormat>,
        number: Option<u32>,
        memory_bytes: u64,
    ) -> Result<Self, (Format, DiskError)> {
        if let Some(format) = format.map(ImageFormat::of_disk_image) {
            return match format {
                Some(format) => Self::of_format(&device, format, number, memory_bytes)
                    .map_err(|error| (format, error)),
                None => Ok(Self::raw(device, number)),
            };
        }
        let medium = Self::new(device, None, number);
        let Contents::Other(format) = medium.contents else {
            return Ok(medium);
        };
        let disk = open_disk(Arc::clone(&medium.device), format, memory_bytes)
            .map_err(|error| (format, error))?;
        Ok(disk.map_or(medium, |disk| Self::of_disk(disk, number)))
    }

    /// Opens the disk in a disk image of this `format`.
    fn of_format(
        device: &Arc<dyn BlockDevice>,
        format: Format,
        number: Option<u32>,
        memory_bytes: u64,
    ) -> Result<Self, DiskError> {
        if !format.is_in(&start_of(&**device, START_BYTES)?) {
            return Err(DiskError::OtherFormat);
        }
        match open_disk(Arc::clone(device), format, memory_bytes)? {
            Some(disk) => Ok(Self::of_disk(disk, number)),
            None => Err(DiskError::Unsupported("it has no seek table".to_owned())),
        }
    }

    fn of_disk(disk: DiskDevice, number: Option<u32>) -> Self {
        let info = disk.info();
        Self::new(Arc::new(disk), Some(info), number)
    }

    /// Examines a raw image, of which partition `number` will be used. If it begins like an archive, a compressed file or a
    /// disk image, its content is unknown.
    #[must_use]
    pub fn raw(device: Arc<dyn BlockDevice>, number: Option<u32>) -> Self {
        let mut medium = Self::new(device, None, number);
        if matches!(medium.contents, Contents::Other(format) if format.is_container()) {
            medium.contents = Contents::Unknown;
        }
        medium
    }

    /// Examines `device`, of which partition `number` will be used. `disk` is what the image is, if it is a disk image.
    #[must_use]
    pub fn new(device: Arc<dyn BlockDevice>, disk: Option<DiskInfo>, number: Option<u32>) -> Self {
        Self {
            contents: examine(&*device, number)
                .unwrap_or_else(|error| Contents::Unreadable(error.to_string())),
            device,
            disk,
        }
    }
}

impl Contents {
    /// Returns the partition with the file system: partition `number` or, without a number, the only one with an ext
    /// file system. Returns `None` if the file system may begin at the start of the image. Content that is unknown or cannot
    /// be read is such a case, because the superblock may be damaged, and a backup of it intact.
    ///
    /// # Errors
    /// If there is no such partition, or no ext file system that can be selected.
    pub fn place(&self, number: Option<u32>) -> Result<Option<&Partition>, NotFound> {
        if let Some(number) = number {
            let table = self.table().ok_or(match self {
                Self::DamagedGpt => NotFound::DamagedGpt,
                Self::Other(format) => NotFound::Other(*format),
                Self::Unreadable(why) => NotFound::Unreadable(why.clone()),
                _ => NotFound::NoTable,
            })?;
            let partition = table.select(Some(number))?;
            return match partition.format {
                Some(format) => Err(NotFound::OtherPartition { number, format }),
                None => Ok(Some(partition)),
            };
        }
        match self {
            Self::Ext | Self::Empty | Self::Unknown | Self::Unreadable(_) => Ok(None),
            Self::Partitions(table) => Ok(Some(table.select(None)?)),
            // The table is left over from an earlier use of the disk, unless one of its partitions has a file system.
            Self::ExtAndPartitions(table) if !table.has_ext() => Ok(None),
            Self::ExtAndPartitions(_) => Err(NotFound::Ambiguous),
            Self::DamagedGpt => Err(NotFound::DamagedGpt),
            Self::Other(format) => Err(NotFound::Other(*format)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{PartitionTable, TableKind};

    fn partition(number: u32, is_ext: bool, format: Option<Format>) -> Partition {
        Partition {
            number,
            offset_bytes: u64::from(number) << 20,
            size_bytes: 1 << 20,
            type_name: "Linux filesystem".to_owned(),
            name: String::new(),
            is_ext,
            format,
            error: None,
        }
    }

    fn table(partitions: Vec<Partition>) -> PartitionTable {
        PartitionTable {
            kind: TableKind::Gpt,
            sector_bytes: 512,
            partitions,
        }
    }

    #[test]
    fn only_partition_with_a_file_system_is_found() {
        let fat = partition(1, false, Some(Format::Fat));
        let contents = Contents::Partitions(table(vec![fat.clone(), partition(2, true, None)]));
        let ext = partition(2, true, None);
        assert_eq!(contents.place(None), Ok(Some(&ext)));
        assert_eq!(contents.place(Some(2)), Ok(Some(&ext)));
        let other = NotFound::OtherPartition {
            number: 1,
            format: Format::Fat,
        };
        assert_eq!(contents.place(Some(1)), Err(other));
        let missing = NotFound::NotSelected(NotSelected::NoSuchNumber(3));
        assert_eq!(contents.place(Some(3)), Err(missing));
        let none = NotFound::NotSelected(NotSelected::NoExt);
        assert_eq!(
            Contents::Partitions(table(vec![fat])).place(None),
            Err(none)
        );
    }

    #[test]
    fn file_system_of_the_whole_image_is_found_unless_partitions_have_some() {
        for contents in [Contents::Ext, Contents::Empty, Contents::Unknown] {
            assert_eq!(contents.place(None), Ok(None));
            assert_eq!(contents.place(Some(1)), Err(NotFound::NoTable));
        }
        let remains = Contents::ExtAndPartitions(table(vec![partition(1, false, None)]));
        assert_eq!(remains.place(None), Ok(None));
        let both = Contents::ExtAndPartitions(table(vec![partition(1, true, None)]));
        assert_eq!(both.place(None), Err(NotFound::Ambiguous));
        assert!(both.place(Some(1)).is_ok());
        let gzip = Contents::Other(Format::Gzip);
        assert_eq!(gzip.place(None), Err(NotFound::Other(Format::Gzip)));
        assert_eq!(
            Contents::DamagedGpt.place(Some(1)),
            Err(NotFound::DamagedGpt)
        );
        let unreadable = Contents::Unreadable("EIO".to_owned());
        assert_eq!(unreadable.place(None), Ok(None));
        let failed = NotFound::Unreadable("EIO".to_owned());
        assert_eq!(unreadable.place(Some(1)), Err(failed));
    }
}
