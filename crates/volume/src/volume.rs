//! An open image: lookups of names, metadata, extended attributes and statistics.
//!
//! Model: the kernel's VFS with ext4. A lookup of a dentry or inode searches the cache first and,
//! after a miss, the file system. [`crate::read`] reads content.
//!
//! Locking: this module has no locks of its own. A lookup that hits the cache takes no lock.

use crate::live::{Inodes, Live, key};
use crate::lookup::MAX_NAME_BYTES;
use crate::mmp::MmpKeeper;
use crate::open::{self, Opened, Origin};
use crate::read::{Keep, Reader, check_content};
use crate::tree_ahead::TreeReadahead;
use crate::write::Writer;
use crate::write_back::flusher::Flusher;
use crate::{
    Advice, AttributeStats, CacheKind, DeviceStats, DirEntry, Error, FileKind, HistogramReport,
    Info, Metadata, OpenFile, OpenOptions, Result, Statfs, Stats, WritingStats, access_list,
};
use larder_block::BlockDevice;
use larder_ext4::{Filesystem, Ino, Inode, XattrOffer, check_xattr_name_length};
use parking_lot::Mutex;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The maximum number of symbolic links followed in one path, as in Linux.
const MAX_LINKS: u32 = 40;

/// The size of inodes that have no room for fractions of a second, in bytes.
const SMALL_INODE_BYTES: u16 = 128;

/// On a volume that is open for writing: the maximum number of directory entries that are read each
/// time the directory is locked.
const PART_ENTRIES: usize = 256;

/// An open ext2, ext3 or ext4 image. A drop [closes](Volume::close) the volume.
#[derive(Debug)]
pub struct Volume {
    pub(crate) inodes: Arc<Inodes>,
    /// Shared with the open files. Dropped when the volume and all open files are dropped. The drop
    /// waits until readahead is complete or cancelled, at most for the timeout of the device.
    reader: Arc<Reader>,
    pub(crate) writer: Arc<Writer>,
    /// The readahead of directory trees, if it is enabled.
    tree: Option<TreeReadahead>,
    origin: Origin,
    /// The thread that writes back and commits in the background.
    pub(crate) flusher: Mutex<Option<Flusher>>,
    /// The thread that renews the multiple-mount protection.
    pub(crate) keeper: Mutex<Option<MmpKeeper>>,
    pub(crate) is_closed: AtomicBool,
}

impl Volume {
    /// Opens the image at `path`, which is a regular file or a block device. By default, opens the
    /// image read-only with a shared lock, and never writes to it. A journal that needs recovery is
    /// then replayed in memory. With `options.read_write`, takes an exclusive lock, and replays the
    /// journal on the image.
    ///
    /// # Errors
    /// An error if the file cannot be opened or locked, or if the image or an option is invalid.
    pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Self> {
        Self::open_device(open::file(path.as_ref(), options)?, options)
    }

    /// Opens the image on `device` like [`Volume::open`], but does not lock the device. Ignores
    /// `options.offset_bytes`, `options.size_bytes` and `options.direct_device`.
    ///
    /// Two volumes on one device are not protected from each other: neither detects the writes of the other one, in
    /// particular those that timed out and are performed late.
    ///
    /// # Errors
    /// The same as for [`Volume::open`].
    pub fn open_device(device: Arc<dyn BlockDevice>, options: &OpenOptions) -> Result<Self> {
        let Opened {
            inodes,
            reader,
            writer,
            origin,
            held,
        } = open::device(device, options)?;
        let keeper = held
            .map(|held| MmpKeeper::start(&inodes, held))
            .transpose()?;
        let flusher = if options.read_write && options.background {
            Some(Flusher::start(writer.write_back(), options.commit_seconds)?)
        } else {
            None
        };
        let tree = if inodes.reads_trees_ahead {
            Some(TreeReadahead::start(&inodes, origin.image.clone())?)
        } else {
            None
        };
        let volume = Self {
            tree,
            inodes,
            reader: Arc::new(reader),
            writer: Arc::new(writer),
            origin,
            flusher: Mutex::new(flusher),
            keeper: Mutex::new(keeper),
            is_closed: AtomicBool::new(false),
        };
        if options.read_write {
            volume.writer.finish_orphans()?;
        }
        Ok(volume)
    }

    /// Returns whether the volume was opened for writing.
    pub(crate) fn is_read_write(&self) -> bool {
        self.inodes.live.is_some()
    }

    /// Returns whether the image is stored in the file of the host with this device and inode number.
    pub(crate) fn is_stored_in(&self, device: u64, ino: u64) -> bool {
        self.origin.image.is_stored_in(device, ino)
    }

    /// Returns the offset on the disk of the byte at `offset_bytes` of the file system. Also returns the number of
    /// bytes, starting at this byte and at most `len_bytes`, that are known to be unchanged by an overlay.
    pub(crate) fn origin_of(&self, offset_bytes: u64, len_bytes: u64) -> (u64, u64) {
        let unchanged_bytes = self
            .origin
            .replayed
            .unchanged_bytes(offset_bytes, len_bytes);
        let disk_bytes = self.origin.offset_bytes.saturating_add(offset_bytes);
        (disk_bytes, unchanged_bytes)
    }

    pub(crate) fn fs(&self) -> &Filesystem {
        &self.inodes.fs
    }

    /// Returns the live inode `ino`, for a change.
    pub(crate) fn live(&self, ino: Ino) -> Result<Live<'_>> {
        self.inodes.live(ino)
    }

    /// Returns information from the superblock.
    #[must_use]
    pub fn info(&self) -> Info {
        let mut info = Info::new(
            self.fs().superblock(),
            &self.statfs(),
            self.origin.journal,
            self.origin.image.size_bytes(),
        );
        info.superblock_repair
            .clone_from(&self.origin.superblock_repair);
        // The superblock of `fs` has the values from when the volume was opened, but the label can change
        // later.
        if let Ok(label) = self.fs().label() {
            info.label = String::from_utf8_lossy(&label).into_owned();
        }
        info
    }

    /// Returns the granularity of the times of files, in nanoseconds. Inodes of 128 bytes have no room for fractions of a
    /// second.
    #[must_use]
    pub fn time_granularity_ns(&self) -> u32 {
        if self.fs().superblock().inode_size_bytes <= SMALL_INODE_BYTES {
            1_000_000_000
        } else {
            1
        }
    }

    /// Returns the block size in bytes. Unlike [`Volume::statfs`], reads nothing from the image.
    #[must_use]
    pub fn block_size_bytes(&self) -> u32 {
        self.fs().superblock().block_size_bytes()
    }

    /// Returns the free and used space.
    #[must_use]
    pub fn statfs(&self) -> Statfs {
        self.fs().statfs()
    }

    /// Returns the free space, in bytes, that ordinary users may use. Unlike [`Volume::statfs`], reads
    /// nothing from the image. The result may therefore be inexact: it may be based on the free count in the
    /// superblock. Returns 0 if the volume was not opened for writing.
    #[must_use]
    pub fn available_bytes(&self) -> u64 {
        self.fs().available_blocks() * self.inodes.block_bytes()
    }

    /// Returns the inode at `path`, which is always relative to the root directory. Follows all
    /// symbolic links, including a link at the end. Leading, doubled and trailing slashes are
    /// ignored.
    ///
    /// # Errors
    /// [`Error::NotFound`], [`Error::TooManyLinks`], `ENOTDIR`, `ENAMETOOLONG`, or an error of the
    /// image.
    pub fn resolve(&self, path: &[u8]) -> Result<Ino> {
        self.walk(path, true)
    }

    /// Returns the inode at `path` like [`Volume::resolve`], but does not follow a symbolic link at
    /// the end.
    ///
    /// # Errors
    /// The same as for [`Volume::resolve`].
    pub fn resolve_no_follow(&self, path: &[u8]) -> Result<Ino> {
        self.walk(path, false)
    }

    fn walk(&self, path: &[u8], follow_last: bool) -> Result<Ino> {
        // The names in link targets that remain to be looked up, in reverse order. They precede the
        // rest of `path`.
        let mut rest: Vec<Vec<u8>> = Vec::new();
        let mut names = components(path).peekable();
        let mut at = Ino::ROOT;
        let mut at_kind = FileKind::Directory;
        let mut links = 0;
        loop {
            let from_link = rest.pop();
            let name = match &from_link {
                Some(name) => name.as_slice(),
                None => match names.next() {
                    Some(name) => name,
                    None => return Ok(at),
                },
            };
            let (ino, kind) = match self.lookup_in(at, at_kind, name) {
                Err(Error::NotFound(_)) => return Err(Error::not_found(path)),
                other => other?,
            };
            let is_last = rest.is_empty() && names.peek().is_none();
            if kind != FileKind::Symlink || (is_last && !follow_last) {
                (at, at_kind) = (ino, kind);
                continue;
            }
            links += 1;
            if links > MAX_LINKS {
                let path = String::from_utf8_lossy(path).into_owned();
                return Err(Error::TooManyLinks(path));
            }
            let target = self.read_link(ino)?;
            if target.first() == Some(&b'/') {
                (at, at_kind) = (Ino::ROOT, FileKind::Directory);
            }
            // A slash at the end requires a directory.
            if target.ends_with(b"/") {
                rest.push(b".".to_vec());
            }
            rest.extend(components(&target).rev().map(<[u8]>::to_vec));
        }
    }

    /// Returns the number of the inode to which `name` in the directory `parent` refers.
    ///
    /// # Errors
    /// [`Error::NotFound`], or an error of the image.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Ino> {
        let found = self.inodes.lookup(parent, name)?;
        Ok(found.ok_or_else(|| Error::not_found(name))?.0)
    }

    /// Looks up `name` in the file `at`, whose directory entry has the type `at_kind`. Returns the
    /// inode number and the type of the file.
    fn lookup_in(&self, at: Ino, at_kind: FileKind, name: &[u8]) -> Result<(Ino, FileKind)> {
        // If the inode number belonged to a directory before, the dentry cache can contain negative
        // dentries of that directory. The type in a directory entry can be damaged, so the inode
        // decides.
        if at_kind != FileKind::Directory && !self.inode(at)?.is_directory() {
            return Err(larder_ext4::Error::NotDirectory(at).into());
        }
        // Not the entry in the directory, which can be damaged.
        if name == b"." {
            return Ok((at, FileKind::Directory));
        }
        if name.len() > MAX_NAME_BYTES {
            return Err(larder_ext4::Error::NameTooLong(at).into());
        }
        self.lookup_kind(at, name)
    }

    fn lookup_kind(&self, parent: Ino, name: &[u8]) -> Result<(Ino, FileKind)> {
        let found = self.inodes.lookup(parent, name)?;
        let (ino, file_type) = found.ok_or_else(|| Error::not_found(name))?;
        // Directories without the `filetype` feature do not record the type.
        match file_type.kind() {
            Some(kind) => Ok((ino, kind)),
            None => Ok((ino, self.inode(ino)?.kind())),
        }
    }

    pub(crate) fn inode(&self, ino: Ino) -> Result<Inode> {
        self.inodes.inode(ino)
    }

    /// Returns the attributes that stat(2) reports.
    ///
    /// # Errors
    /// An error of the image.
    pub fn metadata(&self, ino: Ino) -> Result<Metadata> {
        Ok(self.metadata_of(&self.inode(ino)?))
    }

    pub(crate) fn metadata_of(&self, inode: &Inode) -> Metadata {
        Metadata::of_inode(inode, self.block_size_bytes())
    }

    /// Opens a regular file with its own readahead state. The open file [holds](Volume::hold) the
    /// inode, which prevents its deletion.
    ///
    /// # Errors
    /// [`Error::IsDirectory`], [`Error::NotRegular`], `ESTALE`, or an error of the image.
    pub fn open_file(&self, ino: Ino) -> Result<OpenFile> {
        OpenFile::new(&self.inodes, &self.reader, &self.writer, ino)
    }

    /// Returns whether all pages of `bytes` of a file are cached, so that a read of them does not wait for
    /// the device. The pages may be evicted at any time. The call does not count as a lookup in the
    /// statistics.
    #[must_use]
    pub fn is_cached(&self, ino: Ino, bytes: Range<u64>) -> bool {
        let page_bytes = self.inodes.page_bytes();
        let mut pages = bytes.start / page_bytes..bytes.end.div_ceil(page_bytes);
        let cache = &self.inodes.caches.pages;
        pages.all(|index| cache.is_uptodate(key(ino, index)))
    }

    /// Reads from `offset_bytes` of a regular file into `buf`. Returns the number of bytes read,
    /// which is less than the length of `buf` only at the end of the file.
    ///
    /// All callers that read a file by its inode number share one readahead state. A caller that
    /// needs its own readahead state must [open](Volume::open_file) the file.
    ///
    /// # Errors
    /// [`Error::IsDirectory`], [`Error::NotRegular`], or an error of the image. Part of `buf` may
    /// have been filled.
    pub fn read_at(&self, ino: Ino, buf: &mut [u8], offset_bytes: u64) -> Result<usize> {
        self.read(ino, buf, offset_bytes, Keep::All)
    }

    /// Reads like [`Volume::read_at`], for callers that cache the data themselves. If the read
    /// returns all of a page, and the page was not used before, evicts the page from the page cache.
    ///
    /// # Errors
    /// The same as for [`Volume::read_at`].
    pub fn read_once(&self, ino: Ino, buf: &mut [u8], offset_bytes: u64) -> Result<usize> {
        self.read(ino, buf, offset_bytes, Keep::UsedAgain)
    }

    /// Reads like [`Volume::read_once`], for callers that also read ahead themselves. Starting with
    /// the first page that is not cached, reads into `buf` directly, without caching and without
    /// readahead. Reads the remaining bytes like `read_once` if the direct read fails, would not
    /// start at a block boundary, or would miss dirty content.
    ///
    /// # Errors
    /// The same as for [`Volume::read_at`].
    pub fn read_past_cache(&self, ino: Ino, buf: &mut [u8], offset_bytes: u64) -> Result<usize> {
        self.read(ino, buf, offset_bytes, Keep::Cached)
    }

    fn read(&self, ino: Ino, buf: &mut [u8], offset_bytes: u64, keep: Keep) -> Result<usize> {
        let stream = self.reader.streams().by_ino(ino);
        let inode = self.inode(ino)?;
        self.reader.read(&inode, stream, buf, offset_bytes, keep)
    }

    /// Announces how `range` will be used, like [`OpenFile::advise`], for all reads of the file by
    /// its inode number. All files that are read by inode number share 1,024 readahead states. The
    /// advice and the detected access pattern are lost when another file with the same state is
    /// read.
    ///
    /// # Errors
    /// The same as for [`Volume::open_file`].
    pub fn advise(&self, ino: Ino, range: Range<u64>, advice: Advice) -> Result<()> {
        let inode = self.inode(ino)?;
        check_content(&inode)?;
        let stream = self.reader.streams().by_ino(ino);
        self.reader.advise(&inode, stream, range, advice);
        Ok(())
    }

    /// Calls `emit` for each entry of the directory, starting at `cookie`, until `emit` returns
    /// `Break` or the directory ends. Cookie 0 is the start of the directory.
    ///
    /// # Errors
    /// An error of the image. A damaged block does not end the listing: the entries in the
    /// following blocks are emitted, and the error is returned at the end.
    pub fn read_dir(
        &self,
        ino: Ino,
        cookie: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        if let Some(tree) = &self.tree
            && cookie == 0
            && self.inode(ino)?.is_directory()
        {
            tree.listing(ino);
        }
        let mut emit = |entry: DirEntry<'_>| {
            // Record the name here, because the kernel does not look up a name that it has listed.
            self.inodes.record_name(ino, entry.name, entry.ino);
            emit(entry)
        };
        self.list_from(ino, cookie, &mut emit)
    }

    /// Lists the directory like [`Volume::read_dir`], but does not read ahead the tree below it.
    pub(crate) fn list_from(
        &self,
        ino: Ino,
        cookie: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        if self.inodes.live.is_some() {
            return self.read_changing_dir(ino, cookie, emit);
        }
        let directory = self.inode(ino)?;
        self.fs().read_dir(&directory, cookie, &mut |entry| {
            emit(DirEntry {
                name: entry.name,
                ino: entry.ino,
                kind: entry.file_type.kind(),
                next_cookie: entry.next_cookie,
            })
        })?;
        Ok(())
    }

    /// Lists the directory like [`Volume::read_dir`], on a volume that is open for writing. Reads
    /// the entries in parts. Calls `emit` only while the directory is not locked, so that `emit`
    /// may take locks.
    fn read_changing_dir(
        &self,
        ino: Ino,
        mut cookie: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        loop {
            let mut part = Vec::new();
            let read = self.inodes.with_inode(ino, |directory| {
                Ok(self.fs().read_dir(directory, cookie, &mut |entry| {
                    let kind = entry.file_type.kind();
                    part.push((entry.name.to_vec(), entry.ino, kind, entry.next_cookie));
                    if part.len() < PART_ENTRIES {
                        ControlFlow::Continue(())
                    } else {
                        ControlFlow::Break(())
                    }
                })?)
            });
            for (name, ino, kind, next_cookie) in &part {
                let entry = DirEntry {
                    name,
                    ino: *ino,
                    kind: *kind,
                    next_cookie: *next_cookie,
                };
                if emit(entry).is_break() {
                    return Ok(());
                }
            }
            read?;
            match part.last() {
                Some((.., next_cookie)) if part.len() == PART_ENTRIES => cookie = *next_cookie,
                _ => return Ok(()),
            }
        }
    }

    /// Returns the target of a symbolic link.
    ///
    /// # Errors
    /// An error if the inode is not a symbolic link, or an error of the image.
    pub fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        self.inodes
            .with_inode(ino, |inode| Ok(self.fs().read_link(inode)?))
    }

    /// Returns the value of the extended attribute `name`, or `None` if the inode has no such
    /// attribute. `name` includes the prefix, as in `user.tag`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` if no file of this type can have the attribute, for example because its prefix
    /// is unknown; `EINVAL` if the name consists of the prefix alone; `ERANGE` if it is empty or
    /// longer than 255 bytes; or an error of the image.
    pub fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Option<Vec<u8>>> {
        check_xattr_name_length(ino, name)?;
        self.inodes.with_inode(ino, |inode| {
            if !permits_xattr(inode, name) {
                return Ok(None);
            }
            access_list::check(inode, name)?;
            Ok(self.fs().xattr(inode, name, XattrOffer::UnderLock)?)
        })
    }

    /// Returns the names of all extended attributes of the inode.
    ///
    /// # Errors
    /// An error of the image.
    pub fn xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.inodes.with_inode(ino, |inode| {
            Ok(self.fs().xattrs(inode, XattrOffer::UnderLock)?)
        })
    }

    /// Returns the offset of the first byte of data at or after `offset_bytes`, like lseek(2) with
    /// `SEEK_DATA`.
    ///
    /// # Errors
    /// [`Error::NoMoreData`] if only a hole follows, or an error of the image.
    pub fn seek_data(&self, ino: Ino, offset_bytes: u64) -> Result<u64> {
        let found = self.inodes.seek_data(&self.inode(ino)?, offset_bytes)?;
        found.ok_or(Error::NoMoreData(ino))
    }

    /// Returns the offset of the first byte of a hole at or after `offset_bytes`, like lseek(2)
    /// with `SEEK_HOLE`. The end of the file counts as a hole.
    ///
    /// # Errors
    /// [`Error::NoMoreData`] if `offset_bytes` is at or past the end of the file, or an error of
    /// the image.
    pub fn seek_hole(&self, ino: Ino, offset_bytes: u64) -> Result<u64> {
        let found = self.inodes.seek_hole(&self.inode(ino)?, offset_bytes)?;
        found.ok_or(Error::NoMoreData(ino))
    }

    /// Returns the statistics since the volume was opened. To find the longest chains, visits every
    /// bucket of the caches, or every page if the page cache consists of trees.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut stats = self.counts();
        let longest_chain = |cache| Some(self.histogram(cache).longest_walk());
        stats.page.longest_chain = longest_chain(CacheKind::Page);
        stats.buffer.longest_chain = longest_chain(CacheKind::Buffer);
        stats.dentry.longest_chain = longest_chain(CacheKind::Dentry);
        stats.inode.longest_chain = longest_chain(CacheKind::Inode);
        stats
    }

    /// Returns the same statistics as [`Volume::stats`], without the longest chains. Visits no
    /// buckets, so the time does not depend on the sizes of the caches.
    #[must_use]
    pub fn counts(&self) -> Stats {
        let (caches, fs) = (&self.inodes.caches, self.fs());
        let block_bytes = self.inodes.block_bytes();
        let device = self.origin.image.counts();
        let latencies = self.origin.image.latencies();
        let is_writable = self.inodes.live.is_some();
        Stats {
            cache_size_bytes: self.origin.cache_size_bytes,
            tables: self.origin.tables,
            page: caches.pages.stats(),
            buffer: caches.buffers.stats(),
            dentry: caches.dentries.stats(),
            inode: caches.inodes.stats(),
            readahead: self.reader.stats(),
            tree_readahead: self.tree.as_ref().map(TreeReadahead::stats),
            device: DeviceStats {
                back_end: self.origin.image.back_end(),
                reads: device.reads,
                bytes: device.bytes,
                writes: device.writes,
                written_bytes: device.written_bytes,
                flushes: device.flushes,
                read_latency: latencies.reads,
                write_latency: latencies.writes,
                flush_latency: latencies.flushes,
            },
            server: self.origin.image.server_counts(),
            attributes: is_writable.then(|| {
                let counts = fs.share_counts();
                AttributeStats {
                    variant: caches.attributes.blocks.variant(),
                    blocks: caches.attributes.blocks.stats(),
                    inodes: caches.attributes.inodes.stats(),
                    shares: counts.shares,
                    saved_bytes: counts.saved_bytes,
                }
            }),
            writing: is_writable.then(|| {
                let journal = fs.journal_counts();
                WritingStats {
                    dirty_bytes: self.inodes.dirty_files.blocks() * block_bytes,
                    dirty_metadata_bytes: caches.buffers.dirty_count() * block_bytes,
                    commits: journal.commit_latency.count,
                    committed_blocks: journal.blocks,
                    commit_ns: journal.commit_latency.total_ns,
                    commit_latency: journal.commit_latency,
                    sync_commits: journal.sync_commits,
                    timed_commits: journal.timed_commits,
                    space_commits: journal.space_commits,
                    logged_blocks: journal.logged_blocks,
                    checkpoints: journal.checkpoint_latency.count,
                    checkpoint_latency: journal.checkpoint_latency,
                    waiting_handles: journal.waiting_handles,
                    handle_wait_latency: journal.handle_wait_latency,
                    read_only_because: fs.failure().map(|why| why.to_string()),
                }
            }),
            recording: self.origin.tape.as_ref().and_then(|tape| tape.stats()),
            // The server of a mount sets these fields.
            transport: None,
            collects_writes: None,
            requests: None,
            hot: None,
        }
    }

    /// Returns the histogram of the chain lengths in the buckets of a cache. If the page cache
    /// consists of trees instead, returns the histogram of the depths of its pages. The report is
    /// displayed in the form of the histograms in Lever, "Linux Kernel Hash Table Behavior" (2000).
    /// Visits every bucket, and briefly locks each bucket that is in use. In trees, visits every
    /// page.
    #[must_use]
    pub fn histogram(&self, cache: CacheKind) -> HistogramReport {
        let caches = &self.inodes.caches;
        match cache {
            CacheKind::Page => caches.pages.report(),
            CacheKind::Buffer => caches.buffers.report(),
            CacheKind::Dentry => caches.dentries.report(),
            CacheKind::Inode => caches.inodes.report(),
        }
    }
}

/// Returns whether the type of the file permits the extended attribute `name`. Only regular files and
/// directories can have `user.` attributes.
pub(crate) fn permits_xattr(inode: &Inode, name: &[u8]) -> bool {
    !name.starts_with(b"user.") || matches!(inode.kind(), FileKind::Regular | FileKind::Directory)
}

/// Returns the names in `path`, without slashes and empty names.
fn components(path: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    path.split(|&byte| byte == b'/')
        .filter(|name| !name.is_empty())
}
