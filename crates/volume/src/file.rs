//! An open file with its own readahead state, called a stream.
//!
//! Model: `struct file`. If several readers each open the file, the readahead of each reader
//! follows only the reads of that reader. Readers that use only the inode number share one stream.

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
/// The file stays readable through an `OpenFile` after all names of the file are removed, and after
/// the [`Volume`](crate::Volume) is dropped. The image stays open until the last `OpenFile` is
/// dropped. A file without names is deleted when its last `OpenFile` is dropped. If the volume is
/// closed first, the file is deleted when the image is next opened for writing. Threads that read
/// through one `OpenFile` share the readahead state.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let image = dir.path().join("disk.img");
/// # larder_testkit::e2fsprogs::make_image(&image, "-t ext4", "16M")?;
/// # let fs = larder::OpenOptions::new().read_write(true).open(&image)?;
/// # fs.create_dir("/data")?;
/// # fs.write("/data/shard-0.tar", "content")?;
/// # fs.close()?;
/// # drop(fs);
/// use larder::{Advice, OpenOptions, Volume};
///
/// let volume = Volume::open(&image, &OpenOptions::new())?;
/// let file = volume.open_file(volume.resolve(b"/data/shard-0.tar")?)?;
/// file.advise(0..file.size_bytes(), Advice::Sequential);
/// let mut buf = vec![0; 1 << 20];
/// let len = file.read_at(&mut buf, 0)?;
/// file.advise(0..len as u64, Advice::DontNeed);
/// assert_eq!(&buf[..len], b"content");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct OpenFile {
    /// The inode at the time of the open.
    inode: Inode,
    stream: Stream,
    inodes: Arc<Inodes>,
    reader: Arc<Reader>,
    _held: Held,
}

/// A hold, which prevents the deletion of the inode `ino`. Released on drop.
#[derive(Debug)]
pub(crate) struct Held {
    writer: Arc<Writer>,
    ino: Ino,
}

impl Held {
    pub(crate) fn new(writer: &Arc<Writer>, ino: Ino) -> Result<Self> {
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
            tracing::error!(%ino, %error, "cannot delete an unlinked file at close; it stays an orphan");
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

    /// Returns the present state of the inode. Fails with `ESTALE` if the inode number now belongs to
    /// another file.
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

    /// Returns the inode number.
    #[must_use]
    pub fn ino(&self) -> Ino {
        self.inode.ino()
    }

    /// Returns the size in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.inode().unwrap_or(self.inode).size_bytes()
    }

    /// Reads from the file like [`Volume::read_at`](crate::Volume::read_at).
    ///
    /// # Errors
    /// An error of the image. Part of `buf` may have been filled.
    pub fn read_at(&self, buf: &mut [u8], offset_bytes: u64) -> Result<usize> {
        self.read(buf, offset_bytes, Keep::All)
    }

    /// Reads from the file like [`Volume::read_once`](crate::Volume::read_once).
    ///
    /// # Errors
    /// The same as for [`OpenFile::read_at`].
    pub fn read_once(&self, buf: &mut [u8], offset_bytes: u64) -> Result<usize> {
        self.read(buf, offset_bytes, Keep::UsedAgain)
    }

    /// Reads from the file like [`Volume::read_past_cache`](crate::Volume::read_past_cache).
    ///
    /// # Errors
    /// The same as for [`OpenFile::read_at`].
    pub fn read_past_cache(&self, buf: &mut [u8], offset_bytes: u64) -> Result<usize> {
        self.read(buf, offset_bytes, Keep::Cached)
    }

    fn read(&self, buf: &mut [u8], offset_bytes: u64, keep: Keep) -> Result<usize> {
        let inode = self.inode()?;
        self.reader
            .read(&inode, self.stream(), buf, offset_bytes, keep)
    }

    /// Announces how the bytes of `range` will be used, like `posix_fadvise(2)`:
    ///
    /// | advice | effect |
    /// |---|---|
    /// | [`Advice::Normal`] | all further reads through this `OpenFile` use readahead windows of the configured size |
    /// | [`Advice::Sequential`] | all further reads through this `OpenFile` use windows of twice the configured size |
    /// | [`Advice::Random`] | all further reads through this `OpenFile` use no readahead |
    /// | [`Advice::WillNeed`] | the beginning of the range is read in the background, at most the largest window or 256 pages, whichever is more |
    /// | [`Advice::DontNeed`] | pages that are entirely inside the range are evicted, unless they are in use |
    ///
    /// Only `WillNeed` and `DontNeed` use `range`. They have no effect if `range` is empty or
    /// begins at or after the end of the file. `range` may extend past the end of the file.
    pub fn advise(&self, range: Range<u64>, advice: Advice) {
        self.reader.advise(
            &self.inode().unwrap_or(self.inode),
            self.stream(),
            range,
            advice,
        );
    }
}
