//! Selects a partition of an image, and explains what an image contains if that is not an ext file system, or why a disk
//! image of another format cannot be used.

use crate::remote;
use larder_console::{Failure, name, size};
use larder_image::{
    Contents, DiskError, DiskInfo, Format, NotFound, NotSelected, Partition, PartitionTable,
};
use std::path::Path;

/// Returns the failure for `image`, which has these `contents`, and not the requested partition. If the image is a disk
/// image of another format, `disk` describes it.
pub(crate) fn not_found(
    image: &Path,
    disk: Option<DiskInfo>,
    contents: &Contents,
    error: &NotFound,
) -> Failure {
    match (error, contents.table()) {
        (NotFound::NoTable, _) => {
            Failure::new(format!("{} has no partition table", image.display()))
        }
        (NotFound::NotSelected(error), Some(table)) => not_selected(image, disk, table, error),
        (NotFound::OtherPartition { number, format }, Some(table)) => {
            let message = format!(
                "partition {number} of {} is {}",
                image.display(),
                format.description()
            );
            match table.partitions.iter().find(|one| one.number == *number) {
                Some(one) => Failure::with_hint(message, partition_hint(image, disk, one, *format)),
                None => Failure::new(message),
            }
        }
        _ => not_ext(image, disk, contents),
    }
}

/// Returns the failure for `image`, which has these `contents`: no usable ext file system, or more than one. If the
/// image is a disk image of another format, `disk` describes it.
pub(crate) fn not_ext(image: &Path, disk: Option<DiskInfo>, contents: &Contents) -> Failure {
    let path = image.display();
    match contents {
        Contents::Partitions(table) => {
            let selected = table.select(None);
            not_selected(
                image,
                disk,
                table,
                &selected.expect_err("not one ext partition"),
            )
        }
        Contents::ExtAndPartitions(table) => Failure::with_hint(
            format!(
                "{path} has both an ext file system and partitions with ext file systems: one of them is a \
                 remainder of an earlier use"
            ),
            format!(
                "--partition 0 selects the file system of the whole image; {}",
                listed(table)
            ),
        ),
        Contents::DamagedGpt => Failure::with_hint(
            format!("{path}: both copies of its GPT are damaged"),
            "repair the GPT of a copy of the image with gdisk, or give --offset BYTES",
        ),
        Contents::Other(format) => match disk {
            None => Failure::with_hint(
                format!("{path} is {}", format.description()),
                hint(image, *format),
            ),
            Some(disk) => Failure::with_hint(
                format!("the disk in {path} is {}", format.description()),
                hint(image, disk.format),
            ),
        },
        Contents::Empty => Failure::with_hint(
            format!("{path} is not an ext2, ext3 or ext4 image: it begins with zeros"),
            "if the file system begins at another place, give --offset BYTES",
        ),
        Contents::Unreadable(why) => Failure::with_hint(
            format!("cannot find the file system in {path}: {why}"),
            "if you know where the file system begins, give --offset BYTES",
        ),
        Contents::Ext | Contents::Unknown => Failure::with_hint(
            format!("{path} is not an ext2, ext3 or ext4 image"),
            "if the file system is inside of it, give --offset BYTES; file(1) may know the format",
        ),
    }
}

/// Returns what a user can do with `image`, which has this `format`.
pub(crate) fn hint(image: &Path, format: Format) -> String {
    of_local(image, |file| format.hint(file))
}

/// Returns what a user can do with the partitions of `image`, which has this `table` and no ext file system: the hint for the
/// largest partition whose format is known.
pub(crate) fn table_hint(
    image: &Path,
    disk: Option<DiskInfo>,
    table: &PartitionTable,
) -> Option<String> {
    let known = table.partitions.iter();
    let known = known.filter_map(|one| one.format.map(|format| (one, format)));
    let (largest, format) = known.max_by_key(|(one, _)| one.size_bytes)?;
    let hint = partition_hint(image, disk, largest, format);
    Some(format!("for partition {}, {hint}", largest.number))
}

/// Returns what a user can do with a `partition` of `image` that has this `format`.
fn partition_hint(
    image: &Path,
    disk: Option<DiskInfo>,
    partition: &Partition,
    format: Format,
) -> String {
    match disk {
        // Other programs find no partition in a disk image.
        Some(disk) => hint(image, disk.format),
        None => of_local(image, |file| {
            let start = partition.offset_bytes;
            let range = start..start.saturating_add(partition.size_bytes);
            format.hint_for_partition(file, partition.number, &range)
        }),
    }
}

/// Returns the `hint` for the file that is `image`, or for a copy if the image is at a URL.
fn of_local(image: &Path, hint: impl Fn(&str) -> String) -> String {
    if !remote::is_remote(image) {
        return hint(&image.display().to_string());
    }
    let hint = hint("FILE");
    if hint.contains("FILE") {
        format!("copy the image to a local FILE; {hint}")
    } else {
        hint
    }
}

/// Returns the failure for `image`, a disk image of `format` that cannot be read.
pub(crate) fn unusable(image: &Path, format: Format, error: &DiskError) -> Failure {
    let path = image.display();
    let is = format.description();
    match error {
        DiskError::OtherFile { role, name } => {
            let other = match &name[..] {
                [] => String::new(),
                name => format!(" ({})", name::escaped(name)),
            };
            Failure::with_hint(
                format!("{path} is {is} that needs another file: its {role}{other}"),
                format!(
                    "larder opens only files that you name; if you trust the image, {}",
                    hint(image, format)
                ),
            )
        }
        DiskError::Unsupported(_) => {
            Failure::with_hint(format!("{path} is {is}, but {error}"), hint(image, format))
        }
        DiskError::OtherFormat => Failure::with_hint(
            format!("{path} is not {is}"),
            "omit the format: larder then recognizes it by the first bytes",
        ),
        DiskError::Encrypted(_) if format == Format::Qcow2 => Failure::with_hint(
            format!("{path} is {is}, but {error}"),
            hint(image, Format::EncryptedQcow2),
        ),
        DiskError::Device(_) => Failure::new(format!("{path}: {error}")),
        _ => Failure::new(format!("{path} is {is}, but {error}")),
    }
}

/// Returns the failure for `image`, a disk image that was to be written.
pub(crate) fn not_writable(image: &Path, disk: DiskInfo) -> Failure {
    Failure::with_hint(
        format!(
            "{} is {}, and can only be read",
            image.display(),
            disk.format.description()
        ),
        format!("to change it, {}", hint(image, disk.format)),
    )
}

/// Returns the failure for `image`, from whose `table` no partition was selected.
fn not_selected(
    image: &Path,
    disk: Option<DiskInfo>,
    table: &PartitionTable,
    error: &NotSelected,
) -> Failure {
    let mut hint = listed(table);
    match error {
        NotSelected::SeveralExt(_) => hint.insert_str(0, "choose one with --partition N; "),
        NotSelected::NoExt => {
            if let Some(more) = table_hint(image, disk, table) {
                hint = format!("{hint}; {more}");
            }
        }
        NotSelected::NoSuchNumber(_) => {}
    }
    Failure::with_hint(format!("{}: {error}", image.display()), hint)
}

/// Lists the partitions of `table` for a hint.
fn listed(table: &PartitionTable) -> String {
    if table.partitions.is_empty() {
        return format!("its {} has no partitions", table.kind.as_str());
    }
    let all: Vec<String> = table.partitions.iter().map(described).collect();
    format!("its partitions are {}", all.join(", "))
}

/// Describes the disk image of `disk` in a line: its format, and its sizes.
pub(crate) fn described_disk(disk: DiskInfo) -> String {
    let units = match disk.format {
        Format::Vmdk => "grains of",
        Format::Zstd => "frames of at most",
        _ => "clusters of",
    };
    format!(
        "{} (disk of {}, {units} {})",
        disk.format.as_str(),
        size::human(disk.size_bytes),
        size::human(disk.unit_bytes)
    )
}

/// Describes `partition` in a line: its number, its size, and what it contains.
pub(crate) fn described(partition: &Partition) -> String {
    format!(
        "{} ({}, {})",
        partition.number,
        content(partition),
        size::human(partition.size_bytes)
    )
}

/// Returns what `partition` contains, or why this cannot be read, or else its type in the table.
pub(crate) fn content(partition: &Partition) -> String {
    match (partition.format, &partition.error) {
        (Some(format), _) => format.description().to_owned(),
        (None, Some(error)) => format!("unreadable: {error}"),
        (None, None) if partition.is_ext => "ext".to_owned(),
        (None, None) => name::escaped(partition.type_name.as_bytes()),
    }
}
