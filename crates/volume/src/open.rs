//! Opens an image: the device, the superblock, the journal and the caches.

use crate::dirty::DirtyFiles;
use crate::fill::PageFiller;
use crate::live::{Inodes, LiveInodes};
use crate::mmp::HeldImage;
use crate::read::{Limits, Reader};
use crate::write::Writer;
use crate::write_back::WriteBack;
use crate::{DataMode, ErrorsMode, JournalState, OpenOptions, Result, Tables};
use larder_block::{
    BackEnd, BlockDevice, CountingDevice, DeadlineDevice, DirectDevice, FileDevice, FileRange,
    ThreadedDevice,
};
use larder_cache::Caches;
use larder_cache::budget::BudgetConfig;
use larder_cache::budget::IN_USE_DIVISOR;
use larder_cache::mbcache::Variant;
use larder_cache::tape::Tape;
use larder_ext4::journal::{self, Overlay};
use larder_ext4::ondisk::features::Incompat;
use larder_ext4::ondisk::superblock::{Superblock, SuperblockRepair};
use larder_ext4::{Filesystem, Now, WriteOptions};
use larder_readahead::{PolicyName, max_pages_from_bytes};
use std::path::Path;
use std::sync::Arc;

/// Dirty metadata takes memory in addition to the caches. It is limited to the size of the caches
/// divided by this number.
const DIRTY_METADATA_DIVISOR: u64 = 4;

/// Opens the part of the file or block device at `path` that `options` select.
pub(crate) fn file(path: &Path, options: &OpenOptions) -> Result<Arc<dyn BlockDevice>> {
    let range = FileRange {
        offset_bytes: options.offset_bytes,
        size_bytes: options.size_bytes,
    };
    Ok(match (options.direct_device, options.read_write) {
        (false, false) => Arc::new(FileDevice::open(path, range)?),
        (false, true) => Arc::new(FileDevice::open_writable(path, range)?),
        (true, false) => Arc::new(DirectDevice::open(path, range)?),
        (true, true) => Arc::new(DirectDevice::open_writable(path, range)?),
    })
}

/// The parts of an opened file system.
pub(crate) struct Opened {
    pub(crate) inodes: Arc<Inodes>,
    pub(crate) reader: Reader,
    pub(crate) writer: Writer,
    pub(crate) origin: Origin,
    /// The acquired multiple-mount protection, if the image has it.
    pub(crate) held: Option<HeldImage>,
}

/// The image of a volume, and the settings with which it was opened.
#[derive(Debug)]
pub(crate) struct Origin {
    /// The device with the image. Its reads do not return the blocks that were replayed in memory.
    pub(crate) image: Arc<CountingDevice>,
    /// The device whose reads return these blocks.
    pub(crate) replayed: Arc<dyn BlockDevice>,
    /// The offset of the file system on its disk, as the options give it.
    pub(crate) offset_bytes: u64,
    /// The state of the journal when the image was opened.
    pub(crate) journal: JournalState,
    /// If the primary superblock was damaged: the damage, and the backup that was used instead.
    pub(crate) superblock_repair: Option<String>,
    pub(crate) cache_size_bytes: u64,
    pub(crate) tables: Tables,
    /// The tape that records the events of the caches.
    pub(crate) tape: Option<Arc<dyn Tape>>,
}

/// Opens the file system on `device`.
pub(crate) fn device(device: Arc<dyn BlockDevice>, options: &OpenOptions) -> Result<Opened> {
    let policy = if options.readahead_max_bytes == 0 {
        PolicyName::Off
    } else {
        options.readahead
    };
    let device = match (device.back_end(), options.device_timeout) {
        (BackEnd::Calls, _) => Arc::new(ThreadedDevice::new(device)),
        (_, None) => device,
        (_, Some(timeout)) => Arc::new(DeadlineDevice::new(device, timeout)),
    };
    let counting = Arc::new(CountingDevice::new(device));
    let replayed = replayed(Arc::clone(&counting) as _, options)?;
    let superblock = replayed.superblock;

    let caches = Caches::new(&budget(&superblock, options), Arc::clone(&replayed.device))?;
    if let Some(tape) = &options.tape {
        caches.set_tape(tape);
    }
    let page_bytes = u32::try_from(caches.pages.page_bytes()).unwrap_or(u32::MAX);
    let limits = Limits {
        max_pages: max_pages_from_bytes(options.readahead_max_bytes, page_bytes),
        is_exact: options.readahead_exact,
        page_bytes,
    };
    let (mut held, mut journal) = (None, replayed.journal);
    let mut fs = Filesystem::new(superblock, Arc::clone(&caches.buffers), replayed.overlay);
    if options.read_write {
        let clock = Arc::clone(&options.clock);
        held = HeldImage::acquire(fs.superblock(), &replayed.device, &options.clock)?;
        let writing = WriteOptions {
            journals_content: options.data == DataMode::Journal,
            dirty_metadata_bytes: Some(options.cache_size_bytes / DIRTY_METADATA_DIVISOR),
            repair: replayed.repair.clone(),
            attributes: Arc::clone(&caches.attributes),
            examines_full_attributes: options.examines_full_attributes,
            now: Now::new(move || clock.now()),
        };
        fs.enable_writing(Arc::clone(&replayed.device), writing)?;
        journal = JournalState::of_writable(&fs);
    }
    let errors = options
        .errors
        .unwrap_or_else(|| ErrorsMode::of_superblock(fs.superblock()));
    let inodes = Arc::new(Inodes {
        live: options.read_write.then(|| {
            let frames = caches.pages.frames();
            let max_frames = frames.capacity() / IN_USE_DIVISOR;
            LiveInodes::new(frames.clone(), max_frames, frames.frame_bytes() as u64)
        }),
        dirty_files: DirtyFiles::default(),
        fs,
        caches,
        errors,
        reads_trees_ahead: options.tree_readahead && !options.read_write,
        names_tape: options.tape.clone().filter(|tape| tape.records_names()),
    });
    let device = replayed.device;
    let filler = PageFiller::new(&inodes, &device);
    let write_back = WriteBack::new(&inodes, &device, options.background);
    Ok(Opened {
        reader: Reader::new(
            &inodes,
            filler.clone(),
            policy,
            limits,
            options.tape.clone(),
        ),
        writer: Writer::new(&inodes, filler, write_back, &options.clock),
        inodes,
        origin: Origin {
            image: counting,
            replayed: device,
            offset_bytes: options.offset_bytes,
            journal,
            superblock_repair: replayed.repair.map(|repair| repair.to_string()),
            cache_size_bytes: options.cache_size_bytes,
            tables: options.tables,
            tape: options.tape.clone(),
        },
        held,
    })
}

/// Returns the memory budget for the caches of the file system with `superblock`.
fn budget(superblock: &Superblock, options: &OpenOptions) -> BudgetConfig {
    let variant = |is_needed| {
        if is_needed && options.read_write {
            options.mbcache
        } else {
            Variant::Off
        }
    };
    BudgetConfig {
        shared_blocks: variant(true),
        shared_inodes: variant(superblock.incompat.contains(Incompat::EA_INODE)),
        tables: options.tables,
        ..BudgetConfig::new(
            options.cache_size_bytes,
            superblock.block_size_bytes() as usize,
        )
    }
}

/// A file system, whose journal may have been replayed in memory. If it was, reads of `device` return the
/// replayed blocks, and `overlay` contains the changes of fast commits.
struct Replayed {
    superblock: Superblock,
    device: Arc<dyn BlockDevice>,
    overlay: Option<Overlay>,
    journal: JournalState,
    /// The repair of the primary superblock, if it is damaged.
    repair: Option<SuperblockRepair>,
}

impl Replayed {
    /// Returns a file system whose journal is not replayed in memory.
    fn as_is(superblock: Superblock, device: Arc<dyn BlockDevice>, journal: JournalState) -> Self {
        Self {
            superblock,
            device,
            overlay: None,
            journal,
            repair: None,
        }
    }
}

/// Reads the superblock on `device`, and replays the journal in memory if the volume is opened for
/// reading. If the volume is opened for writing, [`Filesystem::enable_writing`] replays the journal
/// on the image later.
fn replayed(device: Arc<dyn BlockDevice>, options: &OpenOptions) -> Result<Replayed> {
    let (superblock, repair) = Superblock::read_or_restore(&*device)?;
    if let Some(repair) = &repair {
        tracing::warn!("superblock: {repair}");
    }
    let replayed = match (&repair, options.read_write) {
        (None, true) => Replayed::as_is(superblock, device, JournalState::Clean),
        (Some(repair), true) => {
            repair.check_writable()?;
            Replayed::as_is(superblock, device, JournalState::Clean)
        }
        (None, false) => replay(superblock, device, options)?,
        (Some(repair), false) => {
            let device = repair.clone().repaired_view(device);
            replay(superblock, device, options)?
        }
    };
    Ok(Replayed { repair, ..replayed })
}

fn replay(
    superblock: Superblock,
    device: Arc<dyn BlockDevice>,
    options: &OpenOptions,
) -> Result<Replayed> {
    if options.noload && superblock.incompat.contains(Incompat::RECOVER) {
        return Ok(Replayed::as_is(superblock, device, JournalState::Ignored));
    }
    let recovery = journal::recover(superblock, device)?;
    Ok(Replayed {
        journal: JournalState::new(&recovery),
        superblock: recovery.superblock,
        device: recovery.device,
        overlay: recovery.overlay,
        repair: None,
    })
}
