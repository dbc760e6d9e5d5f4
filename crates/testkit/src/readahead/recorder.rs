//! Runs patterns on the kernel's ext4 and records its readahead.
//!
//! The recorder uses one thread and one file at a time. It need not wait for events, because the kernel
//! chooses the windows and adds pages to the page cache before a read returns.

use super::golden::{Folios, Golden};
use super::groups::Group;
use super::mapping;
use super::outcome::Outcome;
use super::pattern::BLOCKS_FILE_BYTES;
use super::pattern::{Action, Content, Operation, PAGE_BYTES, Pattern};
use super::queue::Queue;
use super::trace::Trace;
use crate::e2fsprogs::make_image_of;
use crate::error::{Context, Error, Result};
use crate::mount::{Access, LoopMount};
use larder_readahead::Advice;
use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The maximum number of attempts for a pattern.
const ATTEMPTS: usize = 5;

/// A kernel file system whose readahead is traced. The drop unmounts and removes it.
#[derive(Debug)]
pub struct Recorder {
    folios: Folios,
    // Fields drop in this order: users of the mount, the mount, the image below it.
    trace: Trace,
    queue: Queue,
    mount: LoopMount,
    _folder: TempDir,
}

impl Recorder {
    /// Creates an image, mounts it and sets up the tracing.
    pub fn new(folios: Folios) -> Result<Self> {
        let folder = TempDir::new().context("create a directory in", &std::env::temp_dir())?;
        let image = make_image(folder.path())?;
        let mount = LoopMount::new(&image, Access::ReadWrite, folios.mount_options())?;
        Ok(Self {
            folios,
            trace: Trace::new()?,
            queue: Queue::of(mount.device())?,
            mount,
            _folder: folder,
        })
    }

    /// Records the outcomes for each pattern of `group`.
    pub fn record_group(&self, group: &Group) -> Result<Golden> {
        let recordings = group.patterns.iter().map(|pattern| {
            let outcomes = self.record(pattern)?;
            Ok((pattern.clone(), outcomes))
        });
        Ok(Golden {
            kernel: kernel_release(),
            folios: self.folios,
            recordings: recordings.collect::<Result<_>>()?,
        })
    }

    /// Records the outcome of each operation of `pattern`, on a file that is not cached.
    ///
    /// Starts again if the kernel itself drops pages, because memory is short or another process empties
    /// the page cache.
    pub fn record(&self, pattern: &Pattern) -> Result<Vec<Outcome>> {
        for _ in 0..ATTEMPTS {
            if let Some(outcomes) = self.attempt(pattern)? {
                return Ok(outcomes);
            }
        }
        Err(Error::Inconsistent(format!(
            "{}: in {ATTEMPTS} attempts, the kernel dropped pages without a request",
            pattern.name
        )))
    }

    /// Makes one attempt. Returns `None` if the kernel itself dropped pages.
    fn attempt(&self, pattern: &Pattern) -> Result<Option<Vec<Outcome>>> {
        self.queue.set(pattern.max_kib, pattern.io_kib)?;
        let path = self.make_file(pattern)?;
        let first = File::open(&path).context("open", &path)?;
        let metadata = first.metadata().context("stat", &path)?;
        if metadata.len() != pattern.file_bytes {
            let size = metadata.len();
            return Err(Error::Inconsistent(format!(
                "{}: the file has {size} bytes, but must have {}",
                pattern.name, pattern.file_bytes
            )));
        }
        self.trace.watch(metadata.dev(), metadata.ino())?;
        advise(&first, Advice::DontNeed, 0, 0).context("evict", &path)?;
        self.trace.take()?;
        let mut session = Session {
            pattern,
            files: Vec::new(),
            mappings: vec![Advice::Normal; pattern.streams().into()],
            cached_pages: 0,
        };
        for _ in 0..pattern.streams() {
            session
                .files
                .push(File::open(&path).context("open", &path)?);
        }
        let mut outcomes = Vec::new();
        for operation in &pattern.operations {
            session
                .perform(operation)
                .context("run a pattern on", &path)?;
            let outcome = self.outcome(pattern)?;
            if outcome.dropped_pages > 0 && !operation.action.drops_pages() {
                return Ok(None);
            }
            session.account(operation, &outcome)?;
            outcomes.push(outcome);
        }
        Ok(Some(outcomes))
    }

    fn outcome(&self, pattern: &Pattern) -> Result<Outcome> {
        let mut outcome = self.trace.take()?;
        if self.folios == Folios::Single {
            if outcome.added.iter().any(|run| run.order > 0) {
                let name = &pattern.name;
                return Err(Error::Inconsistent(format!(
                    "{name}: the kernel used large folios on a file system without large folios"
                )));
            }
            // An event with an order reports the window before its cut at the end of the file; the other
            // event reports it after the cut.
            outcome.windows.retain(|window| window.order.is_none());
        }
        Ok(outcome)
    }

    fn make_file(&self, pattern: &Pattern) -> Result<PathBuf> {
        if pattern.content == Content::Blocks {
            return Ok(self.mount.path().join("blocks"));
        }
        let path = self.mount.path().join("hole");
        // Truncate first, so that no page of an earlier pattern is cached.
        let file = File::create(&path).context("create", &path)?;
        file.set_len(pattern.file_bytes)
            .and_then(|()| file.sync_all())
            .context("truncate", &path)?;
        Ok(path)
    }
}

/// Returns the release of the running kernel, as printed by `uname -r`.
fn kernel_release() -> String {
    let names = rustix::system::uname();
    names.release().to_string_lossy().into_owned()
}

/// The state of a running pattern.
struct Session<'a> {
    pattern: &'a Pattern,
    files: Vec<File>,
    mappings: Vec<Advice>,
    cached_pages: u64,
}

impl Session<'_> {
    fn perform(&mut self, operation: &Operation) -> std::io::Result<()> {
        let stream = usize::from(operation.stream);
        let file = &self.files[stream];
        match operation.action {
            Action::Read {
                offset_bytes,
                len_bytes,
            } => {
                let mut buf = vec![0; usize::try_from(len_bytes).unwrap_or(0)];
                file.read_at(&mut buf, offset_bytes).map(drop)
            }
            Action::Fault { page } if page < self.pattern.file_bytes.div_ceil(PAGE_BYTES) => {
                mapping::fault(file, page, self.mappings[stream])
            }
            Action::Fault { page } => Err(std::io::Error::other(format!(
                "the fault on page {page} is past the end of the file"
            ))),
            Action::Advise {
                advice,
                offset_bytes,
                len_bytes,
            } => advise(file, advice, offset_bytes, len_bytes),
            Action::AdviseMapping(advice) => {
                self.mappings[stream] = advice;
                Ok(())
            }
        }
    }

    /// Counts the cached pages, to detect that the kernel kept pages of a file after the request to drop
    /// them.
    fn account(&mut self, operation: &Operation, outcome: &Outcome) -> Result<()> {
        self.cached_pages += outcome.added_pages();
        self.cached_pages -= outcome.dropped_pages.min(self.cached_pages);
        let whole = Action::Advise {
            advice: Advice::DontNeed,
            offset_bytes: 0,
            len_bytes: 0,
        };
        if operation.action == whole && self.cached_pages > 0 {
            let (name, pages) = (&self.pattern.name, self.cached_pages);
            return Err(Error::Inconsistent(format!(
                "{name}: the kernel kept {pages} pages after a request to drop all pages"
            )));
        }
        Ok(())
    }
}

fn advise(file: &File, advice: Advice, offset_bytes: u64, len_bytes: u64) -> std::io::Result<()> {
    use rustix::fs::Advice as Kernel;
    let advice = match advice {
        Advice::Normal => Kernel::Normal,
        Advice::Sequential => Kernel::Sequential,
        Advice::Random => Kernel::Random,
        Advice::WillNeed => Kernel::WillNeed,
        Advice::DontNeed => Kernel::DontNeed,
    };
    let len = std::num::NonZeroU64::new(len_bytes);
    Ok(rustix::fs::fadvise(file, offset_bytes, len, advice)?)
}

/// Creates a file system that is empty except for the file `blocks`.
fn make_image(folder: &Path) -> Result<PathBuf> {
    let content = folder.join("content");
    std::fs::create_dir(&content).context("create", &content)?;
    let blocks = content.join("blocks");
    let len = usize::try_from(BLOCKS_FILE_BYTES).unwrap_or(0);
    std::fs::write(&blocks, vec![b'x'; len]).context("write", &blocks)?;
    let image = folder.join("image");
    make_image_of(&content, &image, "-t ext4 -b 4096 -N 64", "64M")?;
    Ok(image)
}
