//! An open file: a reader with a stream of its own.
//!
//! Model: `struct file`. Several readers of one file each open it, so that each one's readahead
//! follows its own reads; by inode number alone, all readers of a file share one stream.

use crate::live::{Inodes, check_same_file};
use crate::read::{Keep, Reader, Stream, StreamRef, check_content};
use crate::write::Writer;
use crate::{Ino, Result};
use larder_ext4::Inode;
use larder_readahead::Advice;
use std::ops::Range;
use std::sync::Arc;

/// A regular file of a volume, opened by [`Volume::open_file`](crate::Volume::open_file).
///
/// It stays the same file, and readable, when it loses its names, and when the
/// [`Volume`](crate::Volume) is dropped, whose image then stays open. A file without names is deleted
/// with its last `OpenFile`; after the volume was closed, by the next one that opens the image for
/// writing.
/// Threads that read through one `OpenFile` are one reader to readahead.
///
/// ```no_run
/// # fn main() -> larder::Result<()> {
/// use larder::{Advice, OpenOptions, Volume};
///
/// let volume = Volume::open("disk.img", &OpenOptions::default())?;
/// let file = volume.open_file(volume.resolve(b"/data/shard-0.tar")?)?;
/// file.advise(0..file.size_bytes(), Advice::Sequential);
/// let mut buf = vec![0; 1 << 20];
/// let len = file.read_at(&mut buf, 0)?;
/// file.advise(0..len as u64, Advice::DontNeed);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OpenFile {
    /// As it was when it was opened.
    inode: Inode,
    stream: Stream,
    inodes: Arc<Inodes>,
    reader: Arc<Reader>,
    _held: Held,
}

/// An inode that is held.
#[derive(Debug)]
struct Held {
    writer: Arc<Writer>,
    ino: Ino,
}

impl Held {
    fn new(writer: &Arc<Writer>, ino: Ino) -> Result<Self> {
        writer.hold(ino)?;
        Ok(Self {
            writer: Arc::clone(writer),
            ino,
        })
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let ino = self.ino;
        if let Err(error) = self.writer.release(ino, 1) {
            tracing::error!(%ino, %error, "a closed file without names stays an orphan");
        }
    }
}

impl OpenFile {
    pub(crate) fn new(
        inodes: &Arc<Inodes>,
        reader: &Arc<Reader>,
        writer: &Arc<Writer>,
        ino: Ino,
    ) -> Result<Self> {
        let held = Held::new(writer, ino)?;
        let inode = inodes.inode(ino)?;
        check_content(&inode)?;
        Ok(Self {
            inode,
            stream: reader.streams().open(ino),
            inodes: Arc::clone(inodes),
            reader: Arc::clone(reader),
            _held: held,
        })
    }

    /// The inode: on a volume that is written to, as it is now.
    fn inode(&self) -> Result<Inode> {
        if self.inodes.live.is_none() {
            return Ok(self.inode);
        }
        let inode = self.inodes.inode(self.inode.ino())?;
        check_same_file(&self.inode, &inode)?;
        Ok(inode)
    }

    fn stream(&self) -> StreamRef<'_> {
        self.stream.of(self.inode.ino())
    }

    /// Inode number.
    #[must_use]
    pub fn ino(&self) -> Ino {
        self.inode.ino()
    }

    /// Size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.inode().unwrap_or(self.inode).size_bytes()
    }

    /// As [`Volume::read_at`](crate::Volume::read_at).
    ///
    /// # Errors
    /// What is wrong with the image. Some of `buf` may have been filled.
    pub fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<usize> {
        self.read(buf, offset_bytes, Keep::All)
    }

    /// As [`Volume::read_once`](crate::Volume::read_once).
    ///
    /// # Errors
    /// As [`OpenFile::read_at`].
    pub fn read_once(&self, buf: &mut [u8], offset_bytes: u64) -> Result<usize> {
        self.read(buf, offset_bytes, Keep::UsedAgain)
    }

    /// As [`Volume::read_past_cache`](crate::Volume::read_past_cache).
    ///
    /// # Errors
    /// As [`OpenFile::read_at`].
    pub fn read_past_cache(&self, buf: &mut [u8], offset_bytes: u64) -> Result<usize> {
        self.read(buf, offset_bytes, Keep::Cached)
    }

    fn read(&self, buf: &mut [u8], offset_bytes: u64, keep: Keep) -> Result<usize> {
        let inode = self.inode()?;
        self.reader
            .read(&inode, self.stream(), buf, offset_bytes, keep)
    }

    /// Tells how the bytes of `range` will be used, as `posix_fadvise(2)` does:
    ///
    /// | advice | effect |
    /// |---|---|
    /// | [`Advice::Normal`], [`Advice::Sequential`], [`Advice::Random`] | on all further reads through this `OpenFile`, wherever: windows of the set size, of twice that, none |
    /// | [`Advice::WillNeed`] | the readahead threads bring in the beginning of the range, as much as the largest window or 256 pages, whichever is more; nobody waits. Without such threads, nothing |
    /// | [`Advice::DontNeed`] | pages that lie wholly inside the range leave the cache, if nobody uses them just now |
    ///
    /// The range matters to the last two alone, which do nothing where it is empty or begins behind
    /// the end of the file. Its end may lie behind that.
    pub fn advise(&self, range: Range<u64>, advice: Advice) {
        self.reader.advise(
            &self.inode().unwrap_or(self.inode),
            self.stream(),
            range,
            advice,
        );
    }
}
