//! A new image for one workload, and checks of the image with e2fsck and filefrag.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail, ensure};
use larder_testkit::e2fsprogs::{self, make_image};
use larder_testkit::tool::Tool;
use larder_testkit::{Access, LoopMount};
use tempfile::TempDir;

use crate::child;
use crate::peer::{Mounted, Peer, Programs, overlay_of};

/// Creates a directory for one run in `work_folder`. Every user can access it, so that a server that is
/// not root can read an image in it. Dropping the return value removes the directory.
pub fn folder(work_folder: &Path, prefix: &str) -> Result<TempDir> {
    fs::create_dir_all(work_folder)?;
    let folder = tempfile::Builder::new()
        .prefix(prefix)
        .tempdir_in(work_folder)?;
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755))?;
    Ok(folder)
}

/// The size of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// In MiB.
    pub mib: u64,
    /// The number of inodes.
    pub inodes: u64,
}

impl Size {
    /// Returns a size with room for `files` files of one block, for a thousand other files, and for a
    /// journal.
    pub(crate) fn of_files(files: u64) -> Self {
        Self {
            mib: files / 128 + 256,
            inodes: files + 1_000,
        }
    }
}

/// An empty ext4 image, made with mke2fs's defaults.
#[derive(Debug)]
pub(crate) struct Scratch {
    image: PathBuf,
    folder: PathBuf,
}

impl Scratch {
    pub(crate) fn make(folder: &Path, size: Size) -> Result<Self> {
        fs::create_dir_all(folder)?;
        let image = folder.join("scratch.ext4");
        // Remove the image of an earlier workload first, so that none of its blocks is cached or
        // allocated.
        for file in [&image, &overlay_of(&image)] {
            if file.exists() {
                fs::remove_file(file)?;
            }
        }
        let arguments = format!("-t ext4 -b 4096 -N {}", size.inodes);
        make_image(&image, &arguments, &format!("{}M", size.mib))?;
        Ok(Self {
            image,
            folder: folder.to_owned(),
        })
    }

    /// Mounts the image with `peer` for writing, with additional `options`.
    pub(crate) fn mount(
        &self,
        programs: &Programs,
        peer: Peer,
        options: &[&str],
    ) -> Result<Mounted> {
        Mounted::for_writing(programs, peer, options, &self.image, &self.folder)
    }

    /// Checks that e2fsck finds no errors. If there is an overlay, checks the disk with its changes, as qemu reads it.
    pub(crate) fn check(&self) -> Result<()> {
        let overlay = overlay_of(&self.image);
        if !overlay.exists() {
            return Ok(e2fsprogs::check(&self.image)?);
        }
        let merged = self.folder.join("merged.ext4");
        let convert = Tool::new("qemu-img").args(["convert", "-O", "raw"]);
        convert.arg(&overlay).arg(&merged).run()?;
        let checked = e2fsprogs::check(&merged);
        fs::remove_file(&merged)?;
        Ok(checked?)
    }

    /// Returns the mean number of extents of the files that are not empty.
    pub(crate) fn mean_extents(&self) -> Result<f64> {
        let mount = LoopMount::new(&self.image, Access::ReadOnly, &[])?;
        let mut command = Command::new(child::find("find")?);
        command
            .arg(mount.path())
            .args(["-type", "f", "-size", "+0", "-exec", "filefrag", "{}", "+"]);
        let log = self.folder.join("filefrag.log");
        let (_, text) = child::output_of(child::DEADLINE, command, &log)?;
        mean_of(&String::from_utf8_lossy(&text))
    }
}

/// Returns the mean of the numbers in lines such as `name: 3 extents found`.
fn mean_of(text: &str) -> Result<f64> {
    let (mut files, mut extents) = (0_u32, 0_u32);
    for line in text.lines() {
        let found = line
            .rsplit_once(": ")
            .and_then(|(_, found)| found.split(' ').next()?.parse::<u32>().ok());
        let Some(found) = found else {
            bail!("unexpected output of filefrag: {line:?}");
        };
        files += 1;
        extents += found;
    }
    ensure!(files > 0, "filefrag listed no files");
    Ok(f64::from(extents) / f64::from(files))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_of_files_are_averaged() {
        let text = "/m/a: 1 extent found\n/m/b: 4 extents found\n";
        assert!((mean_of(text).unwrap() - 2.5).abs() < 1e-9);
        assert!(mean_of("filefrag: not supported\n").is_err());
        assert!(mean_of("").is_err());
    }
}
