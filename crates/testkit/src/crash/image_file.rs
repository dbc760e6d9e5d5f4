//! Successive states of an image in one file, for e2fsck.
//!
//! Cost: only pages that differ from the previous state are written.

use crate::e2fsprogs;
use crate::error::{Context, Result};
use crate::tool;
use larder_block::{BlockDevice, FileDevice, FileRange};
use larder_ext4::ondisk::features::Incompat;
use larder_ext4::ondisk::superblock::Superblock;
use larder_instruments::{OVERLAY_PAGE_BYTES, OverlayDevice, OverlayPage};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// A directory whose files use no disk.
const MEMORY_FOLDER: &str = "/dev/shm";

/// A file that shows the states of an image in turn.
#[derive(Debug)]
pub struct ImageFile {
    file: File,
    path: PathBuf,
    /// The pages that differ from the base.
    shown: HashMap<u64, OverlayPage>,
    _folder: TempDir,
}

impl ImageFile {
    /// Creates a file that shows the base of `device` and the writes on top of it.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn new(device: &OverlayDevice) -> Result<Self> {
        let place = Path::new(MEMORY_FOLDER);
        let folder = if place.is_dir() {
            tempfile::tempdir_in(place)
        } else {
            tempfile::tempdir()
        }
        .context("create a directory in", place)?;
        let path = folder.path().join("state.img");
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(&path)
            .context("create", &path)?;
        let mut at_bytes = 0;
        let mut number = 0;
        while at_bytes < device.size_bytes() {
            let page = device.base_page(number);
            file.write_all_at(page, at_bytes).context("write", &path)?;
            at_bytes += page.len() as u64;
            number += 1;
        }
        let mut image = Self {
            file,
            path,
            shown: HashMap::new(),
            _folder: folder,
        };
        image.show(device)?;
        Ok(image)
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Shows `device`, which has the same base.
    ///
    /// # Errors
    /// Fails if the file cannot be written.
    pub fn show(&mut self, device: &OverlayDevice) -> Result<()> {
        let pages = device.pages();
        let page_bytes = OVERLAY_PAGE_BYTES as u64;
        for number in self
            .shown
            .keys()
            .filter(|number| !pages.contains_key(number))
        {
            self.file
                .write_all_at(device.base_page(*number), number * page_bytes)
                .context("write", &self.path)?;
        }
        for (number, page) in &pages {
            let same = self
                .shown
                .get(number)
                .is_some_and(|old| Arc::ptr_eq(old, page));
            if !same {
                // The last page of an image may be short.
                let len = device.base_page(*number).len();
                self.file
                    .write_all_at(&page[..len], number * page_bytes)
                    .context("write", &self.path)?;
            }
        }
        self.shown = pages;
        Ok(())
    }

    /// Checks the image with e2fsck, without repairs.
    ///
    /// # Errors
    /// Returns the problems that e2fsck reports.
    pub fn check(&self) -> Result<()> {
        e2fsprogs::check(&self.path)
    }

    /// Runs e2fsck to replay the journal and to process the orphans. The contents of the file are then
    /// unknown: the next [`ImageFile::show`] writes every page again.
    ///
    /// # Errors
    /// Fails if e2fsck repaired more than that.
    pub fn replay(&mut self) -> Result<()> {
        let text = e2fsprogs::e2fsck("-fy").accept(1).arg(&self.path).run()?;
        self.mark_unknown()?;
        match repair(&text, self.has_inline_data()) {
            None => Ok(()),
            Some(line) => Err(tool::Error {
                command: "e2fsck -fy".to_owned(),
                reason: format!("{line}\n{text}"),
            }
            .into()),
        }
    }

    /// Returns whether files may be stored in their inodes, without a block.
    fn has_inline_data(&self) -> bool {
        FileDevice::open(&self.path, FileRange::default())
            .ok()
            .and_then(|device| Superblock::read(&device).ok())
            .is_some_and(|superblock| superblock.incompat.contains(Incompat::INLINE_DATA))
    }

    /// Records that the whole file may have changed.
    fn mark_unknown(&mut self) -> Result<()> {
        let unknown: OverlayPage = Arc::new([0; OVERLAY_PAGE_BYTES]);
        let size_bytes = self.file.metadata().context("stat", &self.path)?.len();
        self.shown = (0..size_bytes.div_ceil(OVERLAY_PAGE_BYTES as u64))
            .map(|number| (number, Arc::clone(&unknown)))
            .collect();
        Ok(())
    }
}

/// Returns the first problem that e2fsck repaired, except those that it also reports on Linux's images:
///
/// - the superblock's counts of free blocks and inodes, which are correct only after an unmount;
/// - blocks of the orphan file whose orphans it has just deleted;
/// - the feature `orphan_present`, which is set during a mount, whether there are orphans or not;
/// - attribute blocks of orphans that have no other block, which e2fsck neither freed nor counted;
/// - inodes of attribute values of orphans, which e2fsck neither freed nor counted (also on an image that
///   debugfs made).
fn repair(text: &str, has_inline_data: bool) -> Option<&str> {
    let lines: Vec<_> = text.lines().collect();
    let orphans: Vec<u32> = lines.iter().filter_map(|line| orphan_mode(line)).collect();
    let may_lack_blocks = |mode: &&u32| has_inline_data || !matches!(*mode >> 12, 0o4 | 0o10);
    let most_forgotten = orphans.iter().filter(may_lack_blocks).count();
    let forgotten: Vec<_> = lines.iter().map(|line| forgotten_users(line)).collect();
    let is_forgotten = |at: usize| {
        forgotten[at].is_some() && forgotten.iter().flatten().sum::<usize>() <= most_forgotten
    };
    let has_forgotten = (0..lines.len()).any(is_forgotten);
    let is_usual = |at: usize| {
        let line = lines[at];
        is_forgotten(at)
            || (!orphans.is_empty() && is_of_value(line))
            || (has_forgotten && line.starts_with("Free blocks count wrong for group #"))
            || ["Free blocks count wrong (", "Free inodes count wrong ("]
                .iter()
                .any(|start| line.starts_with(start))
            || (line.starts_with("Orphan file (inode ") && line.ends_with(" is not clean."))
            || line == "Feature orphan_present is set but orphan file is clean."
    };
    let repaired = (0..lines.len()).filter(|&at| lines[at].ends_with("? yes"));
    repaired
        .map(|at| {
            let is_prompt = matches!(lines[at], "Fix? yes" | "Clear? yes");
            if is_prompt { at.saturating_sub(1) } else { at }
        })
        .find(|&at| !is_usual(at))
        .map(|at| lines[at])
}

/// Returns the mode of the orphan that the line reports as deleted.
fn orphan_mode(line: &str) -> Option<u32> {
    let (_, rest) = line
        .strip_prefix("Clearing orphaned inode ")?
        .split_once("mode=")?;
    u32::from_str_radix(rest.split_once(',')?.0, 8).ok()
}

/// Returns whether the line reports that an inode has fewer references than its count. If nothing else
/// is wrong, that inode holds an attribute's value.
fn is_of_value(line: &str) -> bool {
    let counts = ["Inode ", "Extended attribute inode "];
    line == "Connect to /lost+found? yes"
        || counts.iter().any(|start| line.starts_with(start)) && line.contains(" ref count is ")
}

/// Returns the number of missing users of attribute blocks that the line reports, or `None` for any other
/// line.
fn forgotten_users(line: &str) -> Option<usize> {
    if let Some(blocks) = line.strip_prefix("Block bitmap differences: ") {
        let mut blocks = blocks.split_whitespace();
        let count = blocks.clone().count();
        return blocks.all(|block| block.starts_with('-')).then_some(count);
    }
    let (_, counts) = line
        .strip_prefix("Extended attribute block ")?
        .split_once(" has reference count ")?;
    let (found, right) = counts.split_once(", should be ")?;
    let right = right.split('.').next()?.parse::<usize>().ok()?;
    found.parse::<usize>().ok()?.checked_sub(right)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::layout;
    use crate::requirement::{Requirement, skip};

    #[test]
    fn image_file_contains_exactly_the_last_state() {
        let base: Arc<[u8]> = (0..20_000_u32).map(|i| i.to_le_bytes()[1]).collect();
        let device = OverlayDevice::new(Arc::clone(&base));
        let mut image = ImageFile::new(&device).unwrap();
        let first = device.clone();
        first.write_at(&[9; 6000], 100).unwrap();
        let second = device.clone();
        second.write_at(&[8; 10], 19_990).unwrap();
        for state in [&first, &second, &device, &first] {
            image.show(state).unwrap();
            let mut expected = vec![0; base.len()];
            state.read_at(&mut expected, 0).unwrap();
            assert!(std::fs::read(image.path()).unwrap() == expected);
        }
    }

    #[test]
    fn repair_of_a_leak_is_usual_only_with_an_orphan_without_blocks() {
        let leak = "Block bitmap differences:  -566\nFix? yes\n\n\
                    Free blocks count wrong for group #0 (7622, counted=7623).\nFix? yes\n";
        let link = "Clearing orphaned inode 16 (uid=0, gid=1, mode=0120777, size=1)\n";
        let file = "Clearing orphaned inode 16 (uid=0, gid=1, mode=0100644, size=1)\n";
        let is_usual = |text: &str| repair(text, false).is_none();
        assert!(is_usual(&format!("{link}{leak}")));
        assert!(!is_usual(leak));
        assert!(!is_usual(&format!("{file}{leak}")));
        assert!(repair(&format!("{file}{leak}"), true).is_none());
        let two = leak.replace("-566", "-566 -568");
        assert!(!is_usual(&format!("{link}{two}")));
        let missing = leak.replace("-566", "+566");
        assert!(!is_usual(&format!("{link}{missing}")));
        let count = "Extended attribute block 566 has reference count 3, should be 2.  Fix? yes\n";
        assert!(is_usual(&format!("{link}{count}")));
        assert!(!is_usual(count));
        assert!(!is_usual(&format!("{link}{leak}{count}")));
        let value = "Extended attribute inode 31 ref count is 2, should be 1. Fix? yes\n";
        assert!(is_usual(&format!("{link}{value}")));
        assert!(is_usual(&format!("{file}{value}")));
        assert!(!is_usual(value));
        let too_few = count.replace("count 3", "count 1");
        assert!(!is_usual(&format!("{link}{too_few}")));
    }

    #[test]
    fn check_accepts_an_empty_image_and_rejects_a_damaged_one() {
        if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
            return;
        }
        let layout = layout("ext4").unwrap();
        let device = OverlayDevice::new(layout.base().unwrap());
        let mut image = ImageFile::new(&device).unwrap();
        image.check().unwrap();
        image.replay().unwrap();
        // The second write zeroes the group descriptors, which are in block 1.
        device.write_at(&[1; 64], 8 * 4096).unwrap();
        device.write_at(&[0; 512], 4096).unwrap();
        image.show(&device).unwrap();
        image.check().unwrap_err();
        image.replay().unwrap_err();
    }
}
