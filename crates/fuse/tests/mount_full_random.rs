//! Random operations on full images, with system calls on a larder mount and on the kernel's mount of
//! the same image. [`larder_testkit::full`] describes what must hold.
//!
//! The kernel is the oracle of the tester. Without direct writes, without ranges that are allocated,
//! zeroed or moved, and without inline data, its ext4 follows the model in every sequence. With them,
//! it deviates in some sequences, which is only reported.
//!
//! `LARDER_SEED` repeats one sequence. `LARDER_SEQUENCES` is the number of sequences for each layout. A
//! failure prints the seed and the smallest sequence.

mod mounted;

use larder::OpenOptions;
use larder_fuse::MountOptions;
use larder_testkit::crash::layout;
use larder_testkit::full::{
    Campaign, Folder, KernelMount, Limits, Mix, Mount, Session, Step, Tally,
};
use larder_testkit::{Requirement, e2fsprogs, skip};
use mounted::Mounted;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The layouts that are tested.
const LAYOUTS: [&str; 7] = [
    "ext4",
    "ext4-1k-no-checksums",
    "ext3-1k",
    "ext2-1k",
    "bigalloc",
    "inline-data",
    "no-journal-4k",
];

const MIX: Mix = Mix::ALL;

/// A larder mount of the file `image` in a directory.
struct LarderMount {
    folder: PathBuf,
    mounted: Option<Mounted>,
}

impl std::fmt::Debug for LarderMount {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OurMount")
            .field("folder", &self.folder)
            .finish_non_exhaustive()
    }
}

impl LarderMount {
    fn new(folder: &Path) -> Result<Self, String> {
        let mut mount = Self {
            folder: folder.to_owned(),
            mounted: None,
        };
        mount.remount()?;
        Ok(mount)
    }

    /// Unmounts, and leaves the image clean.
    fn close(&mut self) -> Result<(), String> {
        if let Some(mounted) = self.mounted.take() {
            mounted
                .close()
                .map_err(|error| format!("closing: {error}"))?;
        }
        Ok(())
    }
}

impl Mount for LarderMount {
    fn path(&self) -> PathBuf {
        self.mounted
            .as_ref()
            .map(|mounted| mounted.path.clone())
            .unwrap_or_default()
    }

    fn remount(&mut self) -> Result<(), String> {
        self.close()?;
        let mut volume = OpenOptions::default();
        volume.read_write = true;
        volume.cache_size_bytes = 4 << 20;
        let options = MountOptions {
            read_write: true,
            ..MountOptions::default()
        };
        self.mounted = Some(Mounted::open(&self.folder, &volume, &options));
        Ok(())
    }
}

fn check(folder: &Path) -> Result<(), String> {
    e2fsprogs::check(&folder.join("image")).map_err(|error| error.to_string())
}

/// Runs the steps on a new mount, which `mount` makes of an image with the content `base`.
fn attempt<M: Mount>(
    base: &[u8],
    limits: Limits,
    steps: &[Step],
    mount: impl Fn(&Path) -> Result<M, String>,
) -> Result<Tally, String> {
    let folder = folder();
    std::fs::write(folder.path().join("image"), base).map_err(|error| error.to_string())?;
    let mut session = Session::new(Folder::new(mount(folder.path())?)?, limits)?;
    session.run(steps)?;
    session.empty()?;
    let tally = session.tally;
    drop(session);
    check(folder.path())?;
    Ok(tally)
}

/// Creates a directory with a mount point, in memory if possible.
fn folder() -> TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    }
    .unwrap();
    std::fs::create_dir(folder.path().join("mnt")).unwrap();
    folder
}

fn can_mount() -> bool {
    let needed = [
        Requirement::Tool("mke2fs"),
        Requirement::Tool("e2fsck"),
        Requirement::Root,
        Requirement::Fuse,
    ];
    !skip(&needed)
}

fn larder_follows_the_model(name: &str, seed: u64, mix: Mix) {
    if !can_mount() {
        return;
    }
    let layout = layout(name).unwrap_or_else(|| panic!("no layout {name}"));
    let limits = Limits {
        moves: false,
        ..Limits::of(layout)
    };
    let base = layout.base().unwrap();
    let campaign = Campaign::run(name, seed, mix, limits, |steps| {
        attempt(&base, limits, steps, LarderMount::new)
    });
    println!("mounted by Larder, {mix:?}, {}", campaign.summary());
    campaign.expect_success();
    // If no step was refused, no sequence reached a full image.
    assert!(campaign.tally.refused > 0, "{}", campaign.summary());
}

/// Runs the sequences on the kernel's mount. If `must_succeed`, a sequence that fails is a mistake of
/// the tester.
fn run_kernel(name: &str, seed: u64, mix: Mix, must_succeed: bool) {
    if skip(&[
        Requirement::Tool("mke2fs"),
        Requirement::Tool("e2fsck"),
        Requirement::LoopMount,
    ]) {
        return;
    }
    let layout = layout(name).unwrap_or_else(|| panic!("no layout {name}"));
    let (limits, base) = (Limits::of(layout), layout.base().unwrap());
    let campaign = Campaign::run(name, seed, mix, limits, |steps| {
        let mount = |folder: &Path| KernelMount::new(&folder.join("image"), limits);
        attempt(&base, limits, steps, mount)
    });
    println!("mounted by the kernel, {mix:?}, {}", campaign.summary());
    if must_succeed {
        campaign.expect_success();
    }
}

fn kernel_follows_the_model(name: &str, seed: u64, mix: Mix) {
    run_kernel(name, seed, mix, true);
}

#[test]
#[ignore = "asserts nothing: reports how often the kernel follows the model with all operations"]
fn kernel_full_with_all_operations_is_reported() {
    for (number, name) in (0x7000..).zip(LAYOUTS) {
        run_kernel(name, number, Mix::ALL, false);
    }
}

macro_rules! test_mounts {
    ($check:ident $mix:expr, $first:literal $($number:literal $test:ident)*) => {
        $(
            #[test]
            fn $test() {
                $check(LAYOUTS[$number], $first + $number, $mix);
            }
        )*
    };
}

test_mounts! {
    larder_follows_the_model MIX, 0x7000
    0 ext4_mounted_full_follows_the_model
    1 ext4_1k_mounted_full_follows_the_model
    2 ext3_1k_mounted_full_follows_the_model
    3 ext2_1k_mounted_full_follows_the_model
    4 bigalloc_mounted_full_follows_the_model
    5 inline_data_mounted_full_follows_the_model
    6 no_journal_4k_mounted_full_follows_the_model
}

// Without inline data: if a file has to leave its inode and there is no space for it, the kernel
// refuses the write, but loses the content of the inode.
test_mounts! {
    kernel_follows_the_model Mix::PLAIN, 0x7000
    0 ext4_kernel_full_follows_the_model
    1 ext4_1k_kernel_full_follows_the_model
    2 ext3_1k_kernel_full_follows_the_model
    3 ext2_1k_kernel_full_follows_the_model
    4 bigalloc_kernel_full_follows_the_model
    6 no_journal_4k_kernel_full_follows_the_model
}
