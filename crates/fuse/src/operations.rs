//! The operations of a mount on its volume, independent of the protocol. Operations that change the
//! volume are in [`crate::changes`].
//!
//! Invariants:
//! 1. Only requests from this kernel change the image. Therefore the kernel may cache every reply forever
//!    ([`FOREVER`]), including replies that a name does not exist. There are two exceptions. A mount with
//!    `allow_root` must check the caller of each request. On a writable mount, a write can remove the set-id
//!    bits of a file without the kernel's knowledge.
//! 2. On a writable mount, each reply that contains a node number is counted before it is sent
//!    ([`Operations::count_lookup`]). On a read-only mount, nothing is counted, because node numbers
//!    stay valid ([`crate::node`]).

use crate::MountOptions;
use crate::error_log::ErrorLog;
use crate::lookups::Lookups;
use crate::node::NodeId;
use crate::open_files::{Handle, OpenFiles};
use crate::workers::Workers;
use larder::{DirEntry, Ino, MemoryOnly, Metadata, Volume};
use rustix::io::Errno;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// The time for which replies may be cached: 100 years, longer than any mount. The kernel converts it to
/// clock ticks, and limits the result.
pub(crate) const FOREVER: Duration = Duration::from_hours(100 * 365 * 24);

/// The maximum length of a name in bytes, as statfs(2) returns it.
pub(crate) const NAME_BYTES: usize = 255;

/// A file in a reply to the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// The node number of the file.
    pub node: NodeId,
    /// The attributes that stat(2) returns.
    pub metadata: Metadata,
}

/// What lseek(2) searches for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seek {
    /// A position with data.
    Data,
    /// A position in a hole.
    Hole,
}

/// A mounted volume, and the state that its operations need.
#[derive(Debug)]
pub(crate) struct Operations {
    volume: Arc<Volume>,
    open_files: OpenFiles,
    /// Whether the kernel caches no pages of files, so that Larder's page cache must keep them.
    pub(crate) direct_io: bool,
    /// Whether Larder reads ahead for large requests, too.
    reads_ahead_for_all: bool,
    /// Whether each change must be durable before the reply is sent.
    pub(crate) sync: bool,
    /// The lookup counts; `None` on a read-only mount.
    lookups: Option<Lookups>,
    log: Arc<ErrorLog>,
    /// The thread that deletes files which the kernel has forgotten, if the deletion has to wait.
    deletions: Workers,
}

/// The result of an operation: the requested value, or the errno for the reply.
pub(crate) type Answer<T> = Result<T, Errno>;

impl Operations {
    pub(crate) fn new(volume: Arc<Volume>, options: &MountOptions) -> Self {
        Self {
            volume,
            open_files: OpenFiles::default(),
            direct_io: options.direct_io,
            reads_ahead_for_all: options.reads_ahead_for_all,
            sync: options.sync,
            lookups: options.read_write.then(Lookups::default),
            log: Arc::default(),
            deletions: Workers::new(1),
        }
    }

    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Returns whether the mount is writable.
    pub(crate) fn can_write(&self) -> bool {
        self.lookups.is_some()
    }

    /// Logs a failure, and returns the errno for the reply.
    pub(crate) fn failed(
        &self,
        operation: &'static str,
        node: NodeId,
        error: &larder::Error,
    ) -> Errno {
        self.log.failed(operation, node.0, error)
    }

    /// Runs `run` on the inode of `node`. Logs a failure under the name `operation`.
    pub(crate) fn with_inode<T>(
        &self,
        operation: &'static str,
        node: NodeId,
        run: impl FnOnce(&Volume, Ino) -> larder::Result<T>,
    ) -> Answer<T> {
        run(&self.volume, inode_of(node)?).map_err(|error| self.failed(operation, node, &error))
    }

    /// Counts a lookup of the file of `entry`. The caller must do this before it sends a reply with `entry`,
    /// and must not send the reply if this fails. Fails with `ESTALE` if the file was deleted after it was
    /// found, and with `EAGAIN` if the thread is in a [`MemoryOnly`] part, and would have to wait to determine this.
    pub(crate) fn count_lookup(&self, entry: &Entry) -> Answer<()> {
        let (Some(lookups), Some(ino)) = (&self.lookups, entry.node.ino()) else {
            return Ok(());
        };
        let held = lookups.count_lookup(ino, |ino| self.volume.hold(ino));
        held.map_err(|error| self.failed("lookup", entry.node, &error))?;
        // The inode is now held, so its number cannot be reused. But it may have been reused between the lookup
        // and the hold: compare the generation.
        let error = match self.metadata(entry.node) {
            Ok(now) if now.generation == entry.metadata.generation => return Ok(()),
            _ if MemoryOnly::has_missed() => Errno::AGAIN,
            _ => Errno::STALE,
        };
        self.forget(entry.node, 1);
        Err(error)
    }

    /// Subtracts `count` from the lookup count of a node. Releases the inode if the count is then zero. Does not
    /// wait for the device: if the deletion of a file has to wait, another thread deletes it.
    pub(crate) fn forget(&self, node: NodeId, count: u64) {
        let (Some(lookups), Some(ino)) = (&self.lookups, node.ino()) else {
            return;
        };
        if !lookups.forget(ino, count) {
            return;
        }
        match self.volume.try_release(ino) {
            Ok(true) => {}
            Ok(false) => {
                let (volume, log) = (Arc::clone(&self.volume), Arc::clone(&self.log));
                self.deletions.run(move || release(&volume, &log, ino));
            }
            Err(error) => {
                self.failed("forget", node, &error);
            }
        }
    }

    /// Removes all lookup counts and releases their inodes. This is called when the connection to the kernel
    /// has ended.
    pub(crate) fn forget_all(&self) {
        for ino in self.lookups.iter().flat_map(Lookups::forget_all) {
            release(&self.volume, &self.log, ino);
        }
    }

    /// Returns the file `name` in the directory `parent`, or `None` if it does not exist.
    ///
    /// The names `.` and `..` are supported, because the kernel looks them up for an NFS server that exports
    /// the mount and has only a file handle.
    pub(crate) fn lookup(&self, parent: NodeId, name: &[u8]) -> Answer<Option<Entry>> {
        if name.len() > NAME_BYTES {
            return Err(Errno::NAMETOOLONG);
        }
        if name == b"." || (name == b".." && parent == NodeId::ROOT) {
            return self.entry("lookup", parent).map(Some);
        }
        let found = self.with_inode("lookup", parent, |volume, ino| {
            match volume.lookup(ino, name) {
                Err(error) if error.errno() == Errno::NOENT => Ok(None),
                found => found.map(Some),
            }
        })?;
        let entry = |ino| self.entry("lookup", child_node(name, ino));
        found.map(entry).transpose()
    }

    /// Returns the attributes that stat(2) returns.
    pub(crate) fn metadata(&self, node: NodeId) -> Answer<Metadata> {
        self.entry("getattr", node).map(|entry| entry.metadata)
    }

    /// Returns the target of a symbolic link.
    pub(crate) fn read_link(&self, node: NodeId) -> Answer<Vec<u8>> {
        self.with_inode("readlink", node, Volume::read_link)
    }

    /// Opens a file, and returns a handle with a readahead state of its own. On a writable mount, returns
    /// [`Handle::NONE`], and all readers of a file use the readahead state of the inode.
    pub(crate) fn open(&self, node: NodeId) -> Answer<Handle> {
        self.with_inode("open", node, |volume, ino| {
            if self.can_write() {
                return Ok(Handle::NONE);
            }
            Ok(self.open_files.add(volume.open_file(ino)?))
        })
    }

    /// Closes a file.
    pub(crate) fn release(&self, handle: Handle) {
        self.open_files.remove(handle);
    }

    /// Fills `buf` from a file, and returns the number of bytes read. This is less than the size of `buf`
    /// only at the end of the file.
    ///
    /// Without direct I/O, the kernel caches the pages that it reads, so Larder does not keep them. If a
    /// request is larger than the default readahead of Linux, either the kernel's limit was raised, or the
    /// program reads with `O_DIRECT`. Larder does not read ahead for such a request, except with
    /// [`MountOptions::reads_ahead_for_all`].
    pub(crate) fn read(
        &self,
        node: NodeId,
        handle: Handle,
        buf: &mut [u8],
        offset_bytes: u64,
    ) -> Answer<usize> {
        let reads_ahead_itself =
            !self.reads_ahead_for_all && buf.len() as u64 > MountOptions::KERNEL_READAHEAD_BYTES;
        self.with_inode("read", node, |volume, ino| {
            match self.open_files.get(handle) {
                Some(file) if self.direct_io => file.read_at(buf, offset_bytes),
                Some(file) if reads_ahead_itself => file.read_past_cache(buf, offset_bytes),
                Some(file) => file.read_once(buf, offset_bytes),
                None if self.direct_io => volume.read_at(ino, buf, offset_bytes),
                None if reads_ahead_itself => volume.read_past_cache(ino, buf, offset_bytes),
                None => volume.read_once(ino, buf, offset_bytes),
            }
        })
    }

    /// Returns whether a read of `len` bytes at `offset_bytes` would be answered from Larder's page cache.
    pub(crate) fn is_cached(&self, node: NodeId, offset_bytes: u64, len: usize) -> bool {
        let end_bytes = offset_bytes.saturating_add(len as u64);
        inode_of(node).is_ok_and(|ino| self.volume.is_cached(ino, offset_bytes..end_bytes))
    }

    /// Lists a directory from `cookie` on, until `emit` returns `Break`.
    ///
    /// If reading fails after the first entry, the listing ends without an error. The kernel then requests the
    /// remaining entries, and that request fails with the error.
    pub(crate) fn read_dir(
        &self,
        node: NodeId,
        cookie: u64,
        emit: &mut dyn FnMut(DirEntry<'_>) -> ControlFlow<()>,
    ) -> Answer<()> {
        let mut emitted = false;
        self.with_inode("readdir", node, |volume, ino| {
            let listed = volume.read_dir(ino, cookie, &mut |entry| {
                let flow = emit(entry);
                emitted |= flow.is_continue();
                flow
            });
            if emitted { Ok(()) } else { listed }
        })
    }

    /// Returns the file of a directory entry, and counts a lookup of the file. The caller must do this before
    /// it sends the entry to the kernel. Returns `None` for `.` and `..`, of which the kernel needs only the
    /// number.
    ///
    /// Fails if the inode cannot be read. The caller lists the entry nevertheless; the error is returned by the
    /// next request for the file.
    pub(crate) fn listed(&self, entry: &DirEntry<'_>) -> Answer<Option<Entry>> {
        if matches!(entry.name, b"." | b"..") {
            return Ok(None);
        }
        let listed = self.entry("readdirplus", child_node(entry.name, entry.ino))?;
        self.count_lookup(&listed)?;
        Ok(Some(listed))
    }

    /// Returns the value of an extended attribute, if it is set.
    pub(crate) fn xattr(&self, node: NodeId, name: &[u8]) -> Answer<Option<Vec<u8>>> {
        self.with_inode("getxattr", node, |volume, ino| volume.xattr(ino, name))
    }

    /// Returns the names of all extended attributes, each followed by a NUL. Names that begin with
    /// `trusted.` are included only for root.
    pub(crate) fn xattrs(&self, node: NodeId, is_root: bool) -> Answer<Vec<u8>> {
        let names = self.with_inode("listxattr", node, Volume::xattrs)?;
        let mut list = Vec::new();
        for name in names {
            if is_root || !name.starts_with(b"trusted.") {
                list.extend_from_slice(&name);
                list.push(0);
            }
        }
        Ok(list)
    }

    /// Returns the offset of the next data, or of the next hole, at or after `offset_bytes`.
    pub(crate) fn seek(&self, node: NodeId, what: Seek, offset_bytes: u64) -> Answer<u64> {
        self.with_inode("lseek", node, |volume, ino| match what {
            Seek::Data => volume.seek_data(ino, offset_bytes),
            Seek::Hole => volume.seek_hole(ino, offset_bytes),
        })
    }

    fn entry(&self, operation: &'static str, node: NodeId) -> Answer<Entry> {
        let metadata = self.with_inode(operation, node, Volume::metadata)?;
        Ok(Entry { node, metadata })
    }
}

/// Releases the hold of a node's inode. May wait for the device. A thread that must not wait calls this only if no
/// thread could be started for the deletion.
fn release(volume: &Volume, log: &ErrorLog, ino: Ino) {
    let _may_wait = MemoryOnly::suspend();
    if let Err(error) = volume.release(ino, 1) {
        log.failed("forget", NodeId::of(ino).0, &error);
    }
}

/// Returns the inode number of a node. Fails with `EUCLEAN` if no inode can have this number. The kernel sends
/// only node numbers that a reply contained, so the number comes from a damaged image.
pub(crate) fn inode_of(node: NodeId) -> Answer<Ino> {
    node.ino().ok_or(Errno::UCLEAN)
}

/// Returns the node number for a directory entry. Only `..` may refer to the root; the kernel rejects any other
/// entry that does. For such an entry, returns [`NodeId::INVALID`].
fn child_node(name: &[u8], ino: Ino) -> NodeId {
    if ino == Ino::ROOT && name != b".." {
        NodeId::INVALID
    } else {
        NodeId::of(ino)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder::{NewFile, OpenOptions};
    use larder_testkit::e2fsprogs::make_image;
    use larder_testkit::{Requirement, skip};

    /// Returns a new volume that is open for writing, and its operations, or `None` if this test is skipped.
    fn writable() -> Option<(Arc<Volume>, Operations)> {
        if skip(&[Requirement::Tool("mke2fs")]) {
            return None;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        make_image(file.path(), "-t ext4", "8M").unwrap();
        let mut options = OpenOptions::default();
        options.read_write = true;
        let volume = Arc::new(Volume::open(file.path(), &options).unwrap());
        let mount = MountOptions {
            read_write: true,
            ..MountOptions::default()
        };
        let operations = Operations::new(Arc::clone(&volume), &mount);
        Some((volume, operations))
    }

    const NEW: NewFile = NewFile {
        permissions: 0o644,
        umask: 0,
        uid: 0,
        gid: 0,
    };

    #[test]
    fn file_deleted_after_its_lookup_is_stale_and_not_counted() {
        let Some((volume, operations)) = writable() else {
            return;
        };
        let ino = volume.create(Ino::ROOT, b"a", &NEW).unwrap().ino;
        let entry = operations.lookup(NodeId::ROOT, b"a").unwrap().unwrap();
        volume.unlink(Ino::ROOT, b"a").unwrap();
        assert_eq!(
            operations.count_lookup(&entry),
            Err(Errno::STALE),
            "deleted"
        );
        let other = volume.create(Ino::ROOT, b"b", &NEW).unwrap();
        assert_eq!(other.ino, ino);
        assert_eq!(
            operations.count_lookup(&entry),
            Err(Errno::STALE),
            "another file"
        );
        volume.unlink(Ino::ROOT, b"b").unwrap();
        assert!(volume.metadata(ino).is_err(), "no holds");
    }

    #[test]
    fn removed_file_takes_space_until_the_kernel_forgets_it() {
        let Some((volume, operations)) = writable() else {
            return;
        };
        let ino = volume.create(Ino::ROOT, b"a", &NEW).unwrap().ino;
        assert_eq!(
            volume.write_at(ino, &vec![7; 64 << 10], 0).unwrap(),
            64 << 10
        );
        volume.sync().unwrap();
        let entry = operations.lookup(NodeId::ROOT, b"a").unwrap().unwrap();
        assert_eq!(operations.count_lookup(&entry), Ok(()));
        let before = volume.statfs().free_blocks;
        volume.unlink(Ino::ROOT, b"a").unwrap();
        assert_eq!(operations.metadata(entry.node).unwrap().links, 0);
        assert_eq!(volume.statfs().free_blocks, before);
        operations.forget(entry.node, 1);
        assert!(operations.metadata(entry.node).is_err());
        assert!(volume.statfs().free_blocks > before);
    }

    #[test]
    fn entry_that_names_the_root_is_invalid_unless_dot_dot() {
        assert_eq!(child_node(b"loop", Ino::ROOT), NodeId::INVALID);
        assert_eq!(child_node(b"..", Ino::ROOT), NodeId::ROOT);
        assert_eq!(child_node(b"file", Ino(12)), NodeId(12));
    }

    #[test]
    fn invalid_node_is_reported_as_damage() {
        assert_eq!(inode_of(NodeId::INVALID), Err(Errno::UCLEAN));
        assert_eq!(inode_of(NodeId::ROOT), Ok(Ino::ROOT));
    }
}
