//! States of an image, one after the other in one file, for e2fsck.
//!
//! Cost: only pages that differ from those of the state before are written.

use crate::error::{Context, Result};
use crate::tool::Tool;
use larder_block::{BlockDevice, OVERLAY_PAGE_BYTES, OverlayDevice, OverlayPage};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;
use tempfile::TempDir;

/// Where a file costs no disk.
const MEMORY_FOLDER: &str = "/dev/shm";

/// A file that shows one state of an image after the other.
#[derive(Debug)]
pub struct ImageFile {
    file: File,
    path: PathBuf,
    /// The pages that differ from the base.
    shown: HashMap<u64, OverlayPage>,
    _folder: TempDir,
}

impl ImageFile {
    /// Shows the base of `device`, with whatever is written over it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn new(device: &OverlayDevice) -> Result<Self> {
        let place = Path::new(MEMORY_FOLDER);
        let folder = if place.is_dir() {
            tempfile::tempdir_in(place)
        } else {
            tempfile::tempdir()
        }
        .context("make a folder in", place)?;
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

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Shows `device`, which has the same base.
    ///
    /// # Errors
    /// If the file cannot be written.
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
                // The last page of an image may be cut short.
                let len = device.base_page(*number).len();
                self.file
                    .write_all_at(&page[..len], number * page_bytes)
                    .context("write", &self.path)?;
            }
        }
        self.shown = pages;
        Ok(())
    }

    /// What e2fsck finds to repair; nothing on a clean image.
    ///
    /// # Errors
    /// Its complaints.
    pub fn check(&self) -> Result<()> {
        fsck().args(["-fn"]).arg(&self.path).run().map(|_| ())
    }

    /// Lets e2fsck replay the journal, and finish what orphans began, and forget the state:
    /// the next [`ImageFile::show`] writes every page again.
    ///
    /// # Errors
    /// If it repaired more than that.
    pub fn replay(&mut self) -> Result<()> {
        let text = fsck().args(["-fy"]).accept(1).arg(&self.path).run()?;
        self.forget()?;
        match repair(&text) {
            None => Ok(()),
            Some(line) => Err(crate::Error::Tool {
                command: "e2fsck -fy".to_owned(),
                reason: format!("{line}\n{text}"),
            }),
        }
    }

    /// Notes that all of the file may have changed.
    fn forget(&mut self) -> Result<()> {
        let unknown: OverlayPage = Arc::new([0; OVERLAY_PAGE_BYTES]);
        let size_bytes = self.file.metadata().context("stat", &self.path)?.len();
        self.shown = (0..size_bytes.div_ceil(OVERLAY_PAGE_BYTES as u64))
            .map(|number| (number, Arc::clone(&unknown)))
            .collect();
        Ok(())
    }
}

/// The first complaint that e2fsck repaired, but for those that it has of Linux's images too: the
/// superblock's counts of free blocks and inodes, which are right only after unmounting, blocks of
/// the orphan file whose orphans it has just deleted, the feature that is set while mounted
/// whether there are any or not, and blocks of attributes that it forgot to free with symbolic
/// links that have no other block (of an image that debugfs made, too).
fn repair(text: &str) -> Option<&str> {
    let lines: Vec<_> = text.lines().collect();
    let symbolic_links = lines
        .iter()
        .filter(|line| line.starts_with("Clearing orphaned inode ") && line.contains("mode=0120"))
        .count();
    let forgotten = |line: &str| {
        line.strip_prefix("Block bitmap differences: ")
            .is_some_and(|blocks| {
                let blocks: Vec<_> = blocks.split_whitespace().collect();
                blocks.len() <= symbolic_links && blocks.iter().all(|block| block.starts_with('-'))
            })
    };
    let has_forgotten = lines.iter().any(|line| forgotten(line));
    let is_usual = |line: &str| {
        forgotten(line)
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
            if at > 0 && matches!(lines[at], "Fix? yes" | "Clear? yes") {
                lines[at - 1]
            } else {
                lines[at]
            }
        })
        .find(|line| !is_usual(line))
}

/// e2fsck with the true clock: with the tools' fixed one, what we write would lie in the future.
fn fsck() -> Tool {
    let now = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    Tool::new("e2fsck").env("E2FSPROGS_FAKE_TIME", (now + 1).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crash::layout;
    use crate::requirement::{Requirement, skip};

    #[test]
    fn file_shown_another_state_holds_exactly_that() {
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
    fn repair_of_a_leak_is_usual_only_with_an_orphaned_link() {
        let leak = "Block bitmap differences:  -566\nFix? yes\n\n\
                    Free blocks count wrong for group #0 (7622, counted=7623).\nFix? yes\n";
        let link = "Clearing orphaned inode 16 (uid=0, gid=1, mode=0120777, size=1)\n";
        let file = "Clearing orphaned inode 16 (uid=0, gid=1, mode=0100644, size=1)\n";
        assert_eq!(repair(&format!("{link}{leak}")), None);
        assert!(repair(leak).is_some());
        assert!(repair(&format!("{file}{leak}")).is_some());
        let two = leak.replace("-566", "-566 -568");
        assert!(repair(&format!("{link}{two}")).is_some());
        let missing = leak.replace("-566", "+566");
        assert!(repair(&format!("{link}{missing}")).is_some());
    }

    #[test]
    fn empty_image_is_clean_and_a_damaged_one_is_not() {
        if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
            return;
        }
        let layout = layout("ext4").unwrap();
        let device = OverlayDevice::new(layout.base().unwrap());
        let mut image = ImageFile::new(&device).unwrap();
        image.check().unwrap();
        image.replay().unwrap();
        // The block of the first inode table's first half.
        device.write_at(&[1; 64], 8 * 4096).unwrap();
        device.write_at(&[0; 512], 4096).unwrap();
        image.show(&device).unwrap();
        image.check().unwrap_err();
        image.replay().unwrap_err();
    }
}
