//! What a mount can be asked, answered from the volume, in no protocol's terms.
//! What changes the volume is in [`crate::changes`].
//!
//! Invariants:
//! 1. Nobody changes the image but the kernel that asks, so every answer, also that a name does
//!    not exist, may be kept by it for ever ([`FOREVER`]), unless who may see it is
//!    decided here, request by request (`allow_root`).
//! 2. On a read-only mount no node is ever forgotten, since nothing is remembered: see
//!    [`crate::node`]. On one that can be written, every node that an answer names is counted
//!    before the answer goes out ([`Operations::remember_node`]).

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

/// Longer than any mount: 100 years. The kernel turns it into clock
/// ticks and caps what does not fit.
pub(crate) const FOREVER: Duration = Duration::from_hours(100 * 365 * 24);

/// What Linux reads ahead, unless told otherwise.
const DEFAULT_READAHEAD_BYTES: usize = 128 << 10;

/// The longest name in bytes, as statfs(2) tells it.
pub(crate) const NAME_BYTES: usize = 255;

/// A file as an answer to the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    /// Its node.
    pub node: NodeId,
    /// What stat(2) tells.
    pub metadata: Metadata,
}

/// An entry of a listing with what is known of its file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Listed {
    /// `.` or `..`: the kernel wants no more than the number.
    Dot,
    /// The file can be read.
    Known(Entry),
    /// The file cannot be read: it is listed, and asking for it tells why.
    Unreadable(NodeId),
}

/// Where lseek(2) looks for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Seek {
    /// Data.
    Data,
    /// A hole.
    Hole,
}

/// The volume behind a mount.
#[derive(Debug)]
pub(crate) struct Operations {
    volume: Arc<Volume>,
    open_files: OpenFiles,
    /// The kernel keeps no pages of what it reads, so that ours have to.
    pub(crate) direct_io: bool,
    /// Changes are durable when they are answered.
    pub(crate) sync: bool,
    /// What the kernel knows; on a read-only mount nobody counts.
    lookups: Option<Lookups>,
    log: ErrorLog,
}

/// What was asked for, or the errno to answer with.
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

    /// Whether the mount can be written.
    pub(crate) fn can_write(&self) -> bool {
        self.lookups.is_some()
    }

    /// Logs a failure, and returns the errno to answer with.
    pub(crate) fn failed(
        &self,
        operation: &'static str,
        node: NodeId,
        error: &larder::Error,
    ) -> Errno {
        self.log.failed(operation, node.0, error)
    }

    /// Runs `run` on a node's inode; a failure is logged as one of `operation`.
    pub(crate) fn with_inode<T>(
        &self,
        operation: &'static str,
        node: NodeId,
        run: impl FnOnce(&Volume, Ino) -> larder::Result<T>,
    ) -> Answer<T> {
        run(&self.volume, inode_of(node)?).map_err(|error| self.failed(operation, node, &error))
    }

    /// Counts the lookup of a file that the kernel is about to be answered with. `ESTALE` if it was
    /// deleted since, and the answer must not name it.
    pub(crate) fn remember(&self, entry: &Entry) -> Answer<()> {
        self.remember_node(entry.node)?;
        if !self.can_write() {
            return Ok(());
        }
        // From here on the number cannot become another file's.
        let metadata = self.metadata(entry.node);
        if metadata.is_ok_and(|now| now.generation == entry.metadata.generation) {
            return Ok(());
        }
        self.forget(entry.node, 1);
        Err(Errno::STALE)
    }

    /// As [`Operations::remember`], whichever file has the node now.
    fn remember_node(&self, node: NodeId) -> Answer<()> {
        let (Some(lookups), Some(ino)) = (&self.lookups, node.ino()) else {
            return Ok(());
        };
        let held = lookups.remember(ino, |ino| self.volume.hold(ino));
        held.map_err(|error| self.failed("lookup", node, &error))
    }

    /// Takes `count` lookups of a node back.
    pub(crate) fn forget(&self, node: NodeId, count: u64) {
        if let (Some(lookups), Some(ino)) = (&self.lookups, node.ino())
            && lookups.forget(ino, count)
        {
            self.release_inode(ino);
        }
    }

    /// Takes all lookups back, once the kernel is gone.
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

    /// The file that `name` names in `parent`; `None` if there is none.
    ///
    /// `.` and `..` are asked for by a server that exports the mount and holds
    /// only a file's handle.
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

    /// What stat(2) tells of a node.
    pub(crate) fn metadata(&self, node: NodeId) -> Answer<Metadata> {
        self.entry("getattr", node).map(|entry| entry.metadata)
    }

    /// The target of a symbolic link.
    pub(crate) fn read_link(&self, node: NodeId) -> Answer<Vec<u8>> {
        self.with_inode("readlink", node, Volume::read_link)
    }

    /// Opens a file for a reader of its own; on a mount that can be written, readers of a file
    /// share what it is.
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

    /// Fills `buf` from a file; less only at its end.
    ///
    /// Without direct I/O, the kernel keeps what it asks for, so that we need not. Where it asks
    /// for more than it reads ahead by default, it was allowed to read ahead further, and does
    /// without our readahead too.
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
    /// A failure after the first entry ends the listing there; the kernel asks
    /// again behind the last entry, and then gets the error.
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

    /// What is known of the file behind an entry of a listing, of which the kernel is about to be
    /// told.
    pub(crate) fn listed(&self, entry: &DirEntry<'_>) -> Listed {
        if matches!(entry.name, b"." | b"..") {
            return Listed::Dot;
        }
        let node = child_node(entry.name, entry.ino);
        match self.entry("readdirplus", node) {
            Ok(entry) if self.remember(&entry).is_ok() => Listed::Known(entry),
            _ if self.remember_node(node).is_ok() => Listed::Unreadable(node),
            _ => Listed::Unreadable(NodeId::INVALID),
        }
    }

    /// The value of an attribute, if it is set.
    pub(crate) fn xattr(&self, node: NodeId, name: &[u8]) -> Answer<Option<Vec<u8>>> {
        self.with_inode("getxattr", node, |volume, ino| volume.xattr(ino, name))
    }

    /// The names of all attributes, each ended by a NUL. Those of the
    /// administrator (`trusted.`) are for root's eyes only.
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

    /// The next data or hole at or behind an offset.
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

/// The inode of a node; a node that cannot have one is damage in the image,
/// since the kernel only names nodes that it was told of.
pub(crate) fn inode_of(node: NodeId) -> Answer<Ino> {
    node.ino().ok_or(Errno::UCLEAN)
}

/// The node of a directory's entry. Only `..` may name the root: the kernel
/// refuses a root that is its own child.
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
        assert_eq!(operations.remember(&entry), Err(Errno::STALE), "deleted");
        let other = volume.create(Ino::ROOT, b"b", &new).unwrap();
        assert_eq!(other.ino, ino);
        assert_eq!(
            operations.remember(&entry),
            Err(Errno::STALE),
            "another file"
        );
        volume.unlink(Ino::ROOT, b"b").unwrap();
        assert!(volume.metadata(ino).is_err(), "nobody holds it");

        volume.create(Ino::ROOT, b"c", &new).unwrap();
        let entry = operations.lookup(NodeId::ROOT, b"c").unwrap().unwrap();
        assert_eq!(operations.remember(&entry), Ok(()));
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
