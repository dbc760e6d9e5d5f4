//! The operations of a mount on its volume, independent of the protocol. Operations that change the
//! volume are in [`crate::changes`].
//!
//! Invariants:
//! 1. Only requests of this kernel change the image. Therefore the kernel may cache every reply forever
//!    ([`FOREVER`]), including negative lookups. The exception is a mount that checks the caller of
//!    each request (`allow_root`).
//! 2. On a read-only mount, nodes are not counted and never forgotten: see [`crate::node`]. On a
//!    writable mount, every node that a reply names is counted before the reply is sent
//!    ([`Operations::count_node_lookup`]).

use crate::MountOptions;
use crate::error_log::ErrorLog;
use crate::lookups::Lookups;
use crate::node::NodeId;
use crate::open_files::{Handle, OpenFiles};
use larder::{DirEntry, Ino, Metadata, Volume};
use rustix::io::Errno;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// 100 years, longer than any mount. The kernel converts it to clock ticks and limits it to the
/// maximum.
pub(crate) const FOREVER: Duration = Duration::from_hours(100 * 365 * 24);

/// Linux's default readahead.
const DEFAULT_READAHEAD_BYTES: usize = 128 << 10;

/// The maximum length of a name in bytes, as statfs(2) returns it.
pub(crate) const NAME_BYTES: usize = 255;

/// A file in a reply to the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Its node.
    pub node: NodeId,
    /// The attributes that stat(2) returns.
    pub metadata: Metadata,
}

/// An entry of a listing, with the attributes of its file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Listed {
    /// `.` or `..`: the kernel needs only the number.
    Dot,
    /// The file can be read.
    Known(Entry),
    /// The file cannot be read. It is listed; a request for it returns the error.
    Unreadable(NodeId),
}

/// What lseek(2) searches for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seek {
    /// Data.
    Data,
    /// A hole.
    Hole,
}

/// The volume of a mount.
#[derive(Debug)]
pub(crate) struct Operations {
    volume: Arc<Volume>,
    open_files: OpenFiles,
    /// The kernel caches no pages of files, so Larder's page cache must.
    pub(crate) direct_io: bool,
    /// Changes are durable before the reply is sent.
    pub(crate) sync: bool,
    /// The lookup counts; `None` on a read-only mount.
    lookups: Option<Lookups>,
    log: ErrorLog,
}

/// The requested value, or the errno for the reply.
pub(crate) type Answer<T> = Result<T, Errno>;

impl Operations {
    pub(crate) fn new(volume: Arc<Volume>, options: &MountOptions) -> Self {
        Self {
            volume,
            open_files: OpenFiles::default(),
            direct_io: options.direct_io,
            sync: options.sync,
            lookups: options.read_write.then(Lookups::default),
            log: ErrorLog::default(),
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

    /// Runs `run` on a node's inode, and logs a failure under the name `operation`.
    pub(crate) fn with_inode<T>(
        &self,
        operation: &'static str,
        node: NodeId,
        run: impl FnOnce(&Volume, Ino) -> larder::Result<T>,
    ) -> Answer<T> {
        run(&self.volume, inode_of(node)?).map_err(|error| self.failed(operation, node, &error))
    }

    /// Counts a lookup whose reply is about to be sent. Fails with `ESTALE` if the file was deleted in
    /// the meantime; then the reply must not name it.
    pub(crate) fn count_lookup(&self, entry: &Entry) -> Answer<()> {
        self.count_node_lookup(entry.node)?;
        if !self.can_write() {
            return Ok(());
        }
        // From here on, the number cannot be reused for another file.
        let metadata = self.metadata(entry.node);
        if metadata.is_ok_and(|now| now.generation == entry.metadata.generation) {
            return Ok(());
        }
        self.forget(entry.node, 1);
        Err(Errno::STALE)
    }

    /// Counts a lookup as [`Operations::count_lookup`] does, for whichever file has the node now.
    fn count_node_lookup(&self, node: NodeId) -> Answer<()> {
        let (Some(lookups), Some(ino)) = (&self.lookups, node.ino()) else {
            return Ok(());
        };
        let held = lookups.count_lookup(ino, |ino| self.volume.hold(ino));
        held.map_err(|error| self.failed("lookup", node, &error))
    }

    /// Subtracts `count` lookups of a node.
    pub(crate) fn forget(&self, node: NodeId, count: u64) {
        if let (Some(lookups), Some(ino)) = (&self.lookups, node.ino())
            && lookups.forget(ino, count)
        {
            self.release_inode(ino);
        }
    }

    /// Removes all lookup counts, when the connection to the kernel has ended.
    pub(crate) fn forget_all(&self) {
        for ino in self.lookups.iter().flat_map(Lookups::forget_all) {
            self.release_inode(ino);
        }
    }

    fn release_inode(&self, ino: Ino) {
        if let Err(error) = self.volume.release(ino, 1) {
            self.failed("forget", NodeId::of(ino), &error);
        }
    }

    /// Returns the file named `name` in `parent`; `None` if it does not exist.
    ///
    /// An NFS server that exports the mount and has only a file handle looks up `.` and `..`.
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

    /// Opens a file with readahead state of its own. On a writable mount, all readers of a file share
    /// the state of the inode.
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

    /// Fills `buf` from a file. The count is short only at the end of the file.
    ///
    /// Without direct I/O, the kernel caches what it reads, so Larder does not keep the pages. A
    /// request larger than the kernel's default readahead shows that the limit was raised: then the
    /// kernel reads ahead far enough without Larder's readahead.
    pub(crate) fn read(
        &self,
        node: NodeId,
        handle: Handle,
        buf: &mut [u8],
        offset_bytes: u64,
    ) -> Answer<usize> {
        let reads_ahead_itself = buf.len() > DEFAULT_READAHEAD_BYTES;
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

    /// Lists a directory from `cookie` on, until `emit` breaks.
    ///
    /// A failure after the first entry ends the listing there. The kernel continues after the last
    /// entry, and then gets the error.
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

    /// Returns the file of a directory entry that is about to be sent to the kernel, and counts the
    /// lookup.
    pub(crate) fn listed(&self, entry: &DirEntry<'_>) -> Listed {
        if matches!(entry.name, b"." | b"..") {
            return Listed::Dot;
        }
        let node = child_node(entry.name, entry.ino);
        match self.entry("readdirplus", node) {
            Ok(entry) if self.count_lookup(&entry).is_ok() => Listed::Known(entry),
            _ if self.count_node_lookup(node).is_ok() => Listed::Unreadable(node),
            _ => Listed::Unreadable(NodeId::INVALID),
        }
    }

    /// Returns the value of an extended attribute, if it is set.
    pub(crate) fn xattr(&self, node: NodeId, name: &[u8]) -> Answer<Option<Vec<u8>>> {
        self.with_inode("getxattr", node, |volume, ino| volume.xattr(ino, name))
    }

    /// Returns the names of all extended attributes, each followed by a NUL. Only root sees those of
    /// the administrator (`trusted.`).
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

    /// Returns the offset of the next data or hole at or after an offset.
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

/// Returns the inode of a node. A node without an inode means damage in the image, since the kernel
/// only sends nodes that a reply named.
pub(crate) fn inode_of(node: NodeId) -> Answer<Ino> {
    node.ino().ok_or(Errno::UCLEAN)
}

/// Returns the node of a directory entry. Only `..` may refer to the root: the kernel rejects a root
/// that is its own child.
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

    #[test]
    fn file_deleted_after_its_lookup_is_stale_and_not_counted() {
        if skip(&[Requirement::Tool("mke2fs")]) {
            return;
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
        let new = NewFile {
            permissions: 0o644,
            umask: 0,
            uid: 0,
            gid: 0,
        };
        let ino = volume.create(Ino::ROOT, b"a", &new).unwrap().ino;
        let entry = operations.lookup(NodeId::ROOT, b"a").unwrap().unwrap();
        volume.unlink(Ino::ROOT, b"a").unwrap();
        assert_eq!(
            operations.count_lookup(&entry),
            Err(Errno::STALE),
            "deleted"
        );
        let other = volume.create(Ino::ROOT, b"b", &new).unwrap();
        assert_eq!(other.ino, ino);
        assert_eq!(
            operations.count_lookup(&entry),
            Err(Errno::STALE),
            "another file"
        );
        volume.unlink(Ino::ROOT, b"b").unwrap();
        assert!(volume.metadata(ino).is_err(), "no holds");

        volume.create(Ino::ROOT, b"c", &new).unwrap();
        let entry = operations.lookup(NodeId::ROOT, b"c").unwrap().unwrap();
        assert_eq!(operations.count_lookup(&entry), Ok(()));
        volume.unlink(Ino::ROOT, b"c").unwrap();
        assert_eq!(operations.metadata(entry.node).unwrap().links, 0);
        operations.forget(entry.node, 1);
        assert!(operations.metadata(entry.node).is_err());
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
