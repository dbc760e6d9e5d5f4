//! The command `larder df`: shows the free space of an image.

use crate::args::DfArgs;
use crate::opening::open_image;
use larder::Statfs;
use larder_console::{Result, name, size, write_json};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;

/// The numbers of df(1).
#[derive(Serialize)]
struct Space {
    total_bytes: u64,
    used_bytes: u64,
    available_bytes: u64,
    inodes: u64,
    inodes_used: u64,
    inodes_free: u64,
}

pub(super) fn run(args: &DfArgs) -> Result<ExitCode> {
    let space = Space::from(open_image(&args.source)?.statfs());
    if args.json {
        write_json(&space)?;
    } else {
        print_text(args, &space)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl From<Statfs> for Space {
    fn from(statfs: Statfs) -> Self {
        let bytes = |blocks: u64| blocks.saturating_mul(statfs.block_size_bytes.into());
        Self {
            total_bytes: bytes(statfs.blocks),
            used_bytes: bytes(statfs.blocks.saturating_sub(statfs.free_blocks)),
            available_bytes: bytes(statfs.available_blocks),
            inodes: statfs.files,
            inodes_used: statfs.files.saturating_sub(statfs.free_files),
            inodes_free: statfs.free_files,
        }
    }
}

/// Prints the headings and one row. Each column is as wide as its widest cell.
fn print_text(args: &DfArgs, space: &Space) -> Result<()> {
    let image = name::escaped(args.source.image.as_os_str().as_bytes());
    let is_human = args.human_readable;
    let (headings, cells) = if args.inodes {
        let shown = |count: u64| {
            if is_human {
                size::short(count)
            } else {
                count.to_string()
            }
        };
        (
            ["Inodes", "IUsed", "IFree", "IUse%"],
            [
                shown(space.inodes),
                shown(space.inodes_used),
                shown(space.inodes_free),
                percentage(space.inodes_used, space.inodes_free),
            ],
        )
    } else {
        let shown = |bytes| size::shown(bytes, is_human);
        let (total, available) = if is_human {
            ("Size", "Avail")
        } else {
            ("1K-blocks", "Available")
        };
        (
            [total, "Used", available, "Use%"],
            [
                shown(space.total_bytes),
                shown(space.used_bytes),
                shown(space.available_bytes),
                percentage(space.used_bytes, space.available_bytes),
            ],
        )
    };
    let mut lines = [
        format!("{:<1$}", "Filesystem", image.chars().count()),
        format!("{image:<10}"),
    ];
    for (heading, cell) in headings.iter().zip(&cells) {
        let width = heading.len().max(cell.len());
        let _ = write!(lines[0], " {heading:>width$}");
        let _ = write!(lines[1], " {cell:>width$}");
    }
    let mut out = io::stdout().lock();
    for line in lines {
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

/// Returns `used` as a percentage of `used + available`, rounded up as df(1) does.
fn percentage(used: u64, available: u64) -> String {
    let (used, available) = (u128::from(used), u128::from(available));
    match used + available {
        0 => "-".to_owned(),
        all => format!("{}%", (100 * used).div_ceil(all)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentage_is_rounded_up() {
        assert_eq!(percentage(0, 10), "0%");
        assert_eq!(percentage(1, 1_000_000), "1%");
        assert_eq!(percentage(1, 1), "50%");
        assert_eq!(percentage(u64::MAX, 0), "100%");
        assert_eq!(percentage(0, 0), "-");
    }
}
