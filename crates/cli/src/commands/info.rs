//! The command `larder info`: shows the label, features, sizes and journal state of an image. Lists the partitions of
//! an image that has any, shows the format of a disk image, and names other formats. An image that another process has
//! locked for writing is read without a lock.

use crate::args::InfoArgs;
use crate::opening::{Content, Opened, open_any};
use crate::{contents, json};
use larder::{Info, JournalState, MountTransport};
use larder_console::{Result, name, size, write_json};
use larder_fuse::server_of;
use larder_image::{Contents, DiskInfo, NotSelected, PartitionTable};
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

pub(super) fn run(args: &InfoArgs) -> Result<ExitCode> {
    let Opened {
        disk,
        content,
        is_in_use,
    } = open_any(&args.source)?;
    if is_in_use && !args.json {
        print_in_use()?;
    }
    let (info, only) = match content {
        Content::Volume(volume) => (volume.info(), None),
        Content::OnlyPartition {
            volume,
            table,
            number,
        } => (volume.info(), Some((table, number))),
        Content::Other(contents) => {
            return show_contents(&args.source.image, disk, &contents, args.json, is_in_use);
        }
    };
    let mounts = mounts_of(&args.source.image);
    if args.json {
        let only = only.as_ref();
        write_json(&json::Image {
            info,
            in_use: is_in_use,
            disk: disk.map(json::Disk::from),
            only_partition: only.map(|(table, number)| json::OnlyPartition::new(table, *number)),
            mounts,
        })?;
        return Ok(ExitCode::SUCCESS);
    }
    print_disk(disk)?;
    if let Some((table, _)) = &only {
        print_partitions(table)?;
    }
    print_text(only.map(|(_, number)| number), &info, &mounts)?;
    Ok(ExitCode::SUCCESS)
}

/// Shows the `contents` of an `image` that has no usable ext file system, or more than one. If the image is a disk image
/// of another format, `disk` describes it.
fn show_contents(
    image: &Path,
    disk: Option<DiskInfo>,
    contents: &Contents,
    is_json: bool,
    is_in_use: bool,
) -> Result<ExitCode> {
    match contents {
        Contents::Partitions(table) | Contents::ExtAndPartitions(table) if is_json => {
            write_json(&json::Partitions::new(table, disk, is_in_use))?;
        }
        Contents::Other(format) if is_json => write_json(&json::OtherFormat {
            kind: format.as_str(),
            in_use: is_in_use,
            disk: disk.map(json::Disk::from),
        })?,
        Contents::Partitions(table) | Contents::ExtAndPartitions(table) => {
            print_disk(disk)?;
            print_partitions(table)?;
            if table.select(None) == Err(NotSelected::NoExt)
                && let Some(hint) = contents::table_hint(image, disk, table)
            {
                let mut out = io::stdout().lock();
                writeln!(out, "\n{:<14} {hint}", "Hint")?;
                out.flush()?;
            }
        }
        Contents::Other(format) => {
            print_disk(disk)?;
            let hint = contents::hint(image, disk.map_or(*format, |disk| disk.format));
            let mut out = io::stdout().lock();
            writeln!(out, "{:<14} {}", "Type", format.description())?;
            writeln!(out, "{:<14} {hint}", "Hint")?;
            out.flush()?;
        }
        Contents::Ext
        | Contents::DamagedGpt
        | Contents::Empty
        | Contents::Unknown
        | Contents::Unreadable(_) => {
            return Err(contents::not_ext(image, disk, contents));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints that another process can write to the image.
fn print_in_use() -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{:<14} open for writing by another process: this information may be out of date",
        "In use"
    )?;
    Ok(out.flush()?)
}

/// Prints the description of a disk image.
fn print_disk(disk: Option<DiskInfo>) -> Result<()> {
    if let Some(disk) = disk {
        let mut out = io::stdout().lock();
        writeln!(out, "{:<14} {}", "Image", contents::described_disk(disk))?;
    }
    Ok(())
}

fn print_partitions(table: &PartitionTable) -> Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{:<14} partitions ({})", "Type", table.kind.as_str())?;
    writeln!(out, "{:<14} of {} bytes", "Sectors", table.sector_bytes)?;
    writeln!(out)?;
    writeln!(
        out,
        "{:>9}  {:>14}  {:>10}  {:<20}  {:<22}  name",
        "partition", "offset", "size", "type", "content"
    )?;
    for partition in &table.partitions {
        writeln!(
            out,
            "{:>9}  {:>14}  {:>10}  {:<20}  {:<22}  {}",
            partition.number,
            partition.offset_bytes,
            size::human(partition.size_bytes),
            name::escaped(partition.type_name.as_bytes()),
            contents::content(partition),
            or_none(&partition.name),
        )?;
    }
    Ok(out.flush()?)
}

/// Returns the mounts of `image`, or an empty list if they are unknown.
fn mounts_of(image: &Path) -> Vec<json::Mounted> {
    let mounts = larder_fuse::mounts_of(image).unwrap_or_default();
    let mounted = mounts.into_iter().map(|entry| {
        let stats = server_of(&entry)
            .ok()
            .and_then(|server| server.stats().ok());
        json::Mounted {
            mountpoint: entry.mountpoint.to_string_lossy().into_owned(),
            transport: stats.and_then(|stats| stats.transport),
        }
    });
    mounted.collect()
}

/// Prints `info`. If it describes the partition with the number `partition`, a list of all partitions precedes it.
fn print_text(partition: Option<u32>, info: &Info, mounts: &[json::Mounted]) -> Result<()> {
    let mut out = io::stdout().lock();
    if let Some(number) = partition {
        writeln!(out, "\n{:<14} {number}", "Partition")?;
    }
    let human = |blocks: u64| size::human(blocks.saturating_mul(info.block_size_bytes.into()));
    let mut row = |key: &str, value: &str| writeln!(out, "{key:<14} {value}");
    row("Type", info.kind.as_str())?;
    row("Label", or_none(&info.label).as_str())?;
    row("UUID", &info.uuid)?;
    row("Last mounted", or_none(&info.last_mounted).as_str())?;
    row("State", if info.clean { "clean" } else { "not clean" })?;
    for mounted in mounts {
        let mountpoint = name::escaped(mounted.mountpoint.as_bytes());
        let transport = mounted.transport.map_or("unknown", MountTransport::as_str);
        row(
            "Mounted at",
            &format!("{mountpoint} (transport: {transport})"),
        )?;
    }
    if let Some(repair) = &info.superblock_repair {
        row("Superblock", repair)?;
    }
    row("Journal", &journal(&info.journal))?;
    let (total, free) = (human(info.blocks), human(info.blocks_free));
    row("Size", &format!("{total} ({free} free)"))?;
    let (blocks, bytes, free) = (info.blocks, info.block_size_bytes, info.blocks_free);
    row(
        "Blocks",
        &format!("{blocks} of {bytes} bytes ({free} free)"),
    )?;
    if info.cluster_size_bytes != info.block_size_bytes {
        row("Clusters", &format!("of {} bytes", info.cluster_size_bytes))?;
    }
    let (inodes, bytes, free) = (info.inodes, info.inode_size_bytes, info.inodes_free);
    row(
        "Inodes",
        &format!("{inodes} of {bytes} bytes ({free} free)"),
    )?;
    row("Features", &info.features.join(" "))?;
    if info.missing_bytes > 0 {
        let missing = size::human(info.missing_bytes);
        row(
            "Truncated",
            &format!("{missing} are missing at the end of the image"),
        )?;
    }
    Ok(out.flush()?)
}

fn or_none(text: &str) -> String {
    if text.is_empty() {
        "-".to_owned()
    } else {
        name::escaped(text.as_bytes())
    }
}

fn journal(state: &JournalState) -> String {
    match state {
        JournalState::None => "none".to_owned(),
        JournalState::Clean => "clean".to_owned(),
        JournalState::External => "clean, on another device".to_owned(),
        JournalState::Recovered {
            transactions,
            blocks,
            fast_commits,
            ..
        } => format!(
            "needs recovery, shown as recovered: {}, {}, {}",
            counted(u64::from(*transactions), "transaction"),
            counted(*blocks, "block"),
            counted(u64::from(*fast_commits), "fast commit"),
        ),
        JournalState::Ignored => "needs recovery, ignored".to_owned(),
        _ => "unknown".to_owned(),
    }
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn external_journal_is_described_in_words() {
        let text = journal(&JournalState::External);
        assert_eq!(text, "clean, on another device");
    }
}
