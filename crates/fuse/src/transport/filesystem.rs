//! Answers the requests of the kernel. The file is long because each kind of request has a method.
//!
//! Model: requests are avoided by the caches of the kernel where possible. The replies permit the kernel to
//! cache names, also of files that do not exist, and attributes, link targets, pages and listings forever.
//! `open` and `opendir` reply that they are not implemented. The kernel then stops sending these requests,
//! and keeps pages and listings in its caches. With direct I/O or `allow_root`, `open` is implemented. On a
//! read-only mount, each reader of a file then has a handle of its own.
//!
//! On a writable mount with `writeback_cache`, the kernel also collects writes (`FUSE_WRITEBACK_CACHE`). It
//! then maintains the sizes and times of files until it writes them back. If `open` is not implemented,
//! `create`, which creates and opens a file in one request, is not implemented either. The kernel then sends
//! `mknod` instead, and sends no `release`. Each reply that contains a node number is counted
//! ([`Operations::count_lookup`]).

use super::parking::Parking;
use super::workers::Workers;
use super::{attributes, capabilities, ioctl};
use crate::MountOptions;
use crate::changes::{Caller, Count, Name};
use crate::node::NodeId;
use crate::open_files::Handle;
use crate::operations::{Answer, Entry, FOREVER, Listed, NAME_BYTES, Operations, Seek};
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType,
    Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner,
    Notifier, OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyBmap,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl,
    ReplyLseek, ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow,
    WriteFlags,
};
use larder::{FileKind, Make, Metadata, NewFile, SetAttributes};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

/// `SEEK_DATA` and `SEEK_HOLE` of lseek(2).
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// The alignment of the buffer for reads, which direct I/O requires.
const READ_ALIGN_BYTES: usize = 4096;

thread_local! {
    /// The memory for reads. Each thread has its own, which is as large as the largest read of the thread.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Unwraps an [`Answer`], or replies with its error and returns.
macro_rules! answered {
    ($reply:ident, $answer:expr) => {
        match $answer {
            Ok(answer) => answer,
            Err(error) => return $reply.error(Errno::from_i32(error.raw_os_error())),
        }
    };
}

/// The handler of the kernel's requests for one mounted volume.
#[derive(Debug)]
pub(super) struct Requests {
    operations: Arc<Operations>,
    /// Threads for requests that wait for the device, if the mount has more than the threads that receive
    /// requests.
    workers: Option<Workers>,
    /// Decides which threads wait for requests. It is `None` on a read-only mount and with one thread.
    parking: Option<Parking>,
    /// The options, which are needed in the handshake.
    options: MountOptions,
    /// The time for which the kernel may cache replies.
    ttl: Duration,
    /// Whether the kernel may use files without `open`.
    skips_open: bool,
    /// Whether the kernel may use directories without `opendir`.
    skips_opendir: bool,
    /// The flags in replies to `open`.
    open_flags: FopenFlags,
    /// Sends notifications to the kernel. It is set after the handshake.
    notifier: Arc<OnceLock<Notifier>>,
}

/// Answers a read.
fn read(
    operations: &Operations,
    node: NodeId,
    handle: Handle,
    size: usize,
    offset: u64,
    reply: ReplyData,
) {
    READ_BUFFER.with_borrow_mut(|memory| {
        if memory.len() < size + READ_ALIGN_BYTES {
            memory.resize(size + READ_ALIGN_BYTES, 0);
        }
        let start = memory.as_ptr().align_offset(READ_ALIGN_BYTES);
        let buf = &mut memory[start..start + size];
        let len = answered!(reply, operations.read(node, handle, buf, offset));
        reply.data(&buf[..len.min(size)]);
    });
}

impl Requests {
    /// Creates the handler.
    ///
    /// If `checks_each_request`, the server checks the caller of each request. The kernel must then neither
    /// answer from its caches nor open files without a request. With the option `direct_io`, the kernel
    /// sends every read.
    pub(super) fn new(
        operations: Operations,
        parking: Option<Parking>,
        workers: Option<Workers>,
        checks_each_request: bool,
        options: &MountOptions,
    ) -> Self {
        Self {
            operations: Arc::new(operations),
            workers,
            parking,
            options: options.clone(),
            ttl: if checks_each_request {
                Duration::ZERO
            } else {
                FOREVER
            },
            skips_open: !checks_each_request && !options.direct_io,
            skips_opendir: !checks_each_request,
            open_flags: if options.direct_io {
                FopenFlags::FOPEN_DIRECT_IO
            } else {
                FopenFlags::FOPEN_KEEP_CACHE
            },
            notifier: Arc::default(),
        }
    }

    /// Returns the cell in which the session must store its notifier.
    pub(super) fn notifier(&self) -> Arc<OnceLock<Notifier>> {
        Arc::clone(&self.notifier)
    }

    /// Calls `answer`, which may wait for the device, on a worker.
    fn answer_later(&self, answer: impl FnOnce(&Operations) + Send + 'static) {
        if let Some(workers) = &self.workers {
            let _handling = self.parking.as_ref().map(Parking::begin);
            let operations = Arc::clone(&self.operations);
            workers.run(move || answer(&operations));
        } else {
            let _handling = self.parking.as_ref().map(Parking::begin_long);
            answer(&self.operations);
        }
    }

    /// Notifies the kernel to drop its cached attributes of a file.
    ///
    /// This must be called before the reply to the request that changed the attributes, because that request
    /// keeps the node in use. The kernel drops attributes without waiting for requests in progress. (For
    /// pages, it would wait.)
    fn invalidate_attributes(&self, ino: INodeNo) {
        // With a negative offset, the kernel drops only attributes and keeps the pages.
        let invalidated = self
            .notifier
            .get()
            .map(|kernel| kernel.inval_inode(ino, -1, 0));
        if let Some(Err(error)) = invalidated {
            tracing::warn!("cannot invalidate the kernel's attributes of node {ino}: {error}");
        }
    }

    /// Returns the type of a listed file, from the directory entry or, if that has no type, from the inode.
    fn listed_type(&self, entry: &larder::DirEntry<'_>) -> FileType {
        if matches!(entry.name, b"." | b"..") {
            return FileType::Directory;
        }
        let kind = entry.kind.or_else(|| {
            self.operations
                .metadata(NodeId::of(entry.ino))
                .ok()
                .map(|metadata| metadata.kind)
        });
        kind.map_or(FileType::RegularFile, attributes::file_type)
    }

    fn reply_entry(&self, reply: ReplyEntry, entry: Answer<Entry>) {
        let entry = answered!(reply, entry);
        answered!(reply, self.operations.count_lookup(&entry));
        let (attr, generation) = attr(&entry);
        reply.entry(&self.ttl_of(&entry.metadata), &attr, generation);
    }

    /// Returns the time for which the kernel may cache the attributes of a file. The attributes of a file
    /// with set-id bits are not cached on a writable mount: a write removes these bits on the server, but
    /// the kernel does not read the attributes again.
    fn ttl_of(&self, metadata: &Metadata) -> Duration {
        let may_lose_bits =
            metadata.kind == FileKind::Regular && metadata.permissions & 0o6000 != 0;
        if may_lose_bits && self.operations.can_write() {
            Duration::ZERO
        } else {
            self.ttl
        }
    }

    /// Replies with attributes that contain the inode number in the image, which is 2 for the root.
    fn reply_attributes(&self, reply: ReplyAttr, metadata: Answer<Metadata>) {
        let metadata = answered!(reply, metadata);
        let attr = attributes::of_metadata(metadata.ino.0.into(), &metadata);
        reply.attr(&self.ttl_of(&metadata), &attr);
    }

    /// Adds a directory entry and the attributes of its file to a listing. Returns true if the listing is
    /// full and does not contain the entry.
    fn add_plus(&self, reply: &mut ReplyDirectoryPlus, entry: &larder::DirEntry<'_>) -> bool {
        let (attr, generation, ttl, counted) = match self.operations.listed(entry) {
            Listed::Known(known) => {
                let (attr, generation) = attr(&known);
                (
                    attr,
                    generation,
                    self.ttl_of(&known.metadata),
                    Some(known.node),
                )
            }
            // The kernel creates no node for `.` and `..`.
            Listed::Dot => (
                attributes::unknown(NodeId(entry.ino.0.into()), FileType::Directory),
                Generation(0),
                Duration::ZERO,
                None,
            ),
            // The kernel must not cache this entry. It then looks up the file, and gets the error.
            Listed::Unreadable(node) => (
                attributes::unknown(node, self.listed_type(entry)),
                Generation(0),
                Duration::ZERO,
                Some(node),
            ),
        };
        let name = OsStr::from_bytes(entry.name);
        let is_full = reply.add(attr.ino, entry.next_cookie, name, &ttl, &attr, generation);
        if let (true, Some(node)) = (is_full, counted) {
            self.operations.forget(node, 1);
        }
        is_full
    }
}

fn attr(entry: &Entry) -> (FileAttr, Generation) {
    let generation = Generation(u64::from(entry.metadata.generation));
    (attributes::of_entry(entry), generation)
}

fn node(ino: INodeNo) -> NodeId {
    NodeId(ino.0)
}

fn caller(request: &Request) -> Caller {
    Caller {
        uid: request.uid(),
        gid: request.gid(),
        thread: request.pid(),
    }
}

fn name(parent: INodeNo, name: &OsStr) -> Name<'_> {
    Name {
        parent: node(parent),
        name: name.as_bytes(),
    }
}

/// Returns the attributes with which a file is created. The low 12 bits of `mode` are the permissions.
fn new_file(request: &Request, mode: u32, umask: u32) -> NewFile {
    let low_bits = |mode: u32| u16::try_from(mode & 0o7777).unwrap_or(0);
    NewFile {
        permissions: low_bits(mode),
        umask: low_bits(umask),
        uid: request.uid(),
        gid: request.gid(),
    }
}

fn reply_done(reply: ReplyEmpty, done: Answer<()>) {
    answered!(reply, done);
    reply.ok();
}

fn reply_written(reply: ReplyWrite, written: Answer<impl TryInto<u32>>) {
    match answered!(reply, written).try_into() {
        Ok(len) => reply.written(len),
        Err(_) => reply.error(Errno::EIO),
    }
}

fn flow(is_full: bool) -> ControlFlow<()> {
    if is_full {
        ControlFlow::Break(())
    } else {
        ControlFlow::Continue(())
    }
}

/// Replies with the value of an extended attribute. If `room_bytes` is 0, the request is for the size of the
/// value, and the reply is the size.
fn reply_xattr(reply: ReplyXattr, value: &[u8], room_bytes: u32) {
    match u32::try_from(value.len()) {
        Ok(len) if room_bytes == 0 => reply.size(len),
        Ok(len) if len <= room_bytes => reply.data(value),
        Ok(_) => reply.error(Errno::ERANGE),
        Err(_) => reply.error(Errno::E2BIG),
    }
}

impl Filesystem for Requests {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        capabilities::negotiate(config, &self.options);
        let offered = config.capabilities();
        self.skips_open &= offered.contains(InitFlags::FUSE_NO_OPEN_SUPPORT);
        self.skips_opendir &= offered.contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        Ok(())
    }

    fn destroy(&mut self) {
        self.operations.forget_all();
    }

    fn forget(&self, _: &Request, ino: INodeNo, nlookup: u64) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        self.operations.forget(node(ino), nlookup);
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        let found = self.operations.lookup(node(parent), name.as_bytes());
        if let Some(entry) = answered!(reply, found) {
            return self.reply_entry(reply, Ok(entry));
        }
        // Node number 0 means that the name does not exist. The kernel may cache this reply.
        let none = attributes::unknown(NodeId(0), FileType::RegularFile);
        reply.entry(&self.ttl, &none, Generation(0));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        self.reply_attributes(reply, self.operations.metadata(node(ino)));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        let target = answered!(reply, self.operations.read_link(node(ino)));
        reply.data(&target);
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        if self.skips_open {
            return reply.error(Errno::ENOSYS);
        }
        let handle = answered!(reply, self.operations.open(node(ino)));
        reply.opened(FileHandle(handle.0), self.open_flags);
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        fh: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        self.operations.release(Handle(fh.0));
        reply.ok();
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        fh: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Ok(size) = usize::try_from(size) else {
            return reply.error(Errno::EINVAL);
        };
        let (node, handle) = (node(ino), Handle(fh.0));
        if self.operations.is_cached(node, offset, size) {
            let _handling = self.parking.as_ref().map(Parking::begin);
            return read(&self.operations, node, handle, size, offset, reply);
        }
        self.answer_later(move |operations| read(operations, node, handle, size, offset, reply));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        self.answer_later(move |operations| {
            reply_done(reply, operations.sync(node(ino), data_only));
        });
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        if self.skips_opendir {
            reply.error(Errno::ENOSYS);
        } else {
            let keep = FopenFlags::FOPEN_KEEP_CACHE | FopenFlags::FOPEN_CACHE_DIR;
            reply.opened(FileHandle(0), keep);
        }
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin_long);
        let listed = self.operations.read_dir(node(ino), offset, &mut |entry| {
            let name = OsStr::from_bytes(entry.name);
            let number = INodeNo(entry.ino.0.into());
            flow(reply.add(number, entry.next_cookie, self.listed_type(&entry), name))
        });
        answered!(reply, listed);
        reply.ok();
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin_long);
        let listed = self.operations.read_dir(node(ino), offset, &mut |entry| {
            flow(self.add_plus(&mut reply, &entry))
        });
        answered!(reply, listed);
        reply.ok();
    }

    fn fsyncdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.answer_later(move |operations| {
            reply_done(reply, operations.sync(node(ino), data_only));
        });
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        let stat = self.operations.volume().statfs();
        reply.statfs(
            stat.blocks,
            stat.free_blocks,
            stat.available_blocks,
            stat.files,
            stat.free_files,
            stat.block_size_bytes,
            u32::try_from(NAME_BYTES).unwrap_or(u32::MAX),
            stat.block_size_bytes,
        );
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        match answered!(reply, self.operations.xattr(node(ino), name.as_bytes())) {
            Some(value) => reply_xattr(reply, &value, size),
            None => reply.error(Errno::ENODATA),
        }
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        let names = self.operations.xattrs(node(ino), request.uid() == 0);
        let names = answered!(reply, names);
        reply_xattr(reply, &names, size);
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn bmap(&self, _: &Request, _: INodeNo, _: u32, _: u64, reply: ReplyBmap) {
        reply.error(Errno::ENOSYS);
    }

    fn ioctl(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        cmd: u32,
        in_data: &[u8],
        out_size: u32,
        reply: ReplyIoctl,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        let caller = caller(request);
        let data = ioctl::answer(&self.operations, caller, node(ino), cmd, in_data, out_size);
        let data = answered!(reply, data);
        if ioctl::changes_file(cmd) {
            self.invalidate_attributes(ino);
        }
        reply.ioctl(0, &data);
    }

    fn poll(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: PollNotifier,
        _: PollEvents,
        _: PollFlags,
        reply: ReplyPoll,
    ) {
        reply.error(Errno::ENOSYS);
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        let what = match whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else {
            return reply.error(Errno::ENXIO);
        };
        let found = answered!(reply, self.operations.seek(node(ino), what, offset));
        match i64::try_from(found) {
            Ok(found) => reply.offset(found),
            Err(_) => reply.error(Errno::EOVERFLOW),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        ctime: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        let set = SetAttributes {
            permissions: mode.and_then(|mode| u16::try_from(mode & 0o7777).ok()),
            uid,
            gid,
            size_bytes: size,
            atime: atime.map(attributes::set_time),
            mtime: mtime.map(attributes::set_time),
            ctime: ctime.map(attributes::timestamp),
            ..SetAttributes::default()
        };
        let caller = caller(request);
        let set = self.operations.set_attributes(caller, node(ino), &set);
        self.reply_attributes(reply, set);
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        file_name: &OsStr,
        mode: u32,
        umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        let Some(make) = attributes::node_to_make(mode, rdev) else {
            return reply.error(Errno::EINVAL);
        };
        let new = new_file(request, mode, umask);
        let entry = self.operations.make(name(parent, file_name), make, &new);
        self.reply_entry(reply, entry);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        file_name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        let new = new_file(request, mode, umask);
        let entry_name = name(parent, file_name);
        let entry = self.operations.make(entry_name, Make::Directory, &new);
        self.reply_entry(reply, entry);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        file_name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        let target = target.as_os_str().as_bytes();
        let (entry_name, new) = (name(parent, file_name), new_file(request, 0o777, 0));
        let entry = self
            .operations
            .make(entry_name, Make::Symlink { target }, &new);
        self.reply_entry(reply, entry);
    }

    fn link(
        &self,
        _: &Request,
        ino: INodeNo,
        new_parent: INodeNo,
        new_name: &OsStr,
        reply: ReplyEntry,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        let linked = self.operations.link(node(ino), name(new_parent, new_name));
        self.reply_entry(reply, linked);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, file_name: &OsStr, reply: ReplyEmpty) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        reply_done(reply, self.operations.unlink(name(parent, file_name)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, file_name: &OsStr, reply: ReplyEmpty) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        reply_done(reply, self.operations.remove_dir(name(parent, file_name)));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        old_name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        let (old, new) = (name(parent, old_name), name(new_parent, new_name));
        reply_done(reply, self.operations.rename(old, new, flags.bits()));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        file_name: &OsStr,
        mode: u32,
        umask: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        if self.skips_open {
            return reply.error(Errno::ENOSYS);
        }
        let new = new_file(request, mode, umask);
        let make = Make::Node {
            kind: FileKind::Regular,
            device: None,
        };
        let entry_name = name(parent, file_name);
        let entry = answered!(reply, self.operations.make(entry_name, make, &new));
        answered!(reply, self.operations.count_lookup(&entry));
        let (attr, generation) = attr(&entry);
        let handle = FileHandle(Handle::NONE.0);
        let ttl = self.ttl_of(&entry.metadata);
        reply.created(&ttl, &attr, generation, handle, self.open_flags);
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        let is_unprivileged = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let unprivileged = is_unprivileged.then(|| caller(request));
        let how = if write_flags.contains(WriteFlags::FUSE_WRITE_CACHE) {
            Count::All
        } else {
            Count::Short
        };
        let written = self
            .operations
            .write(unprivileged, node(ino), (data, offset), how);
        reply_written(reply, written);
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin_long);
        let Some(mode) = attributes::fallocate_mode(mode) else {
            return reply.error(Errno::EOPNOTSUPP);
        };
        let caller = caller(request);
        let done = self
            .operations
            .fallocate(caller, node(ino), mode, offset, length);
        reply_done(reply, done);
    }

    fn copy_file_range(
        &self,
        request: &Request,
        ino_in: INodeNo,
        _: FileHandle,
        offset_in: u64,
        ino_out: INodeNo,
        _: FileHandle,
        offset_out: u64,
        len: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin_long);
        let (from, to) = ((node(ino_in), offset_in), (node(ino_out), offset_out));
        let copied = self.operations.copy_range(caller(request), from, to, len);
        reply_written(reply, copied);
    }

    fn setxattr(
        &self,
        request: &Request,
        ino: INodeNo,
        xattr: &OsStr,
        value: &[u8],
        flags: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        let Some(mode) = attributes::xattr_mode(flags) else {
            return reply.error(Errno::EINVAL);
        };
        let (caller, xattr) = (caller(request), xattr.as_bytes());
        let set = self
            .operations
            .set_xattr(caller, node(ino), xattr, value, mode);
        reply_done(reply, set);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, xattr: &OsStr, reply: ReplyEmpty) {
        let _handling = self.parking.as_ref().map(Parking::begin);
        let removed = self.operations.remove_xattr(node(ino), xattr.as_bytes());
        reply_done(reply, removed);
    }
}
