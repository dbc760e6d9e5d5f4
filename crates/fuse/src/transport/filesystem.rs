//! The requests of a mount, one method each: hence the length of this file.
//!
//! Model: the kernel's own caches do the work wherever it lets them. It is told
//! to keep names (also absent ones), attributes, link targets, pages and listings
//! for ever, and not to tell us of opening and closing at all: `open` and
//! `opendir` answer that they do not exist, whereupon it stops asking and keeps
//! pages and listings by itself. Only where it has to ask at each `open`, for
//! direct I/O or for `allow_root`, do readers of one file have handles of their own.
//!
//! On a mount that can be written, the kernel collects writes too (`FUSE_WRITEBACK_CACHE`), and
//! keeps sizes and times of files itself until then. It would make and open a file by one request
//! (`create`); told that there is none, it makes it by `mknod` and need not tell us of its end.
//! Every answer that names a node is counted ([`Operations::remember`]).

use super::turns::Turns;
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

thread_local! {
    /// What a read is gathered in: one a thread, as large as its largest request.
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

/// A volume as the kernel sees it.
#[derive(Debug)]
pub(super) struct Requests {
    operations: Operations,
    /// Whose turn it is to wait for requests, on a mount that can be written.
    turns: Option<Turns>,
    /// What the kernel is asked for at the first handshake.
    options: MountOptions,
    /// How long the kernel may keep answers.
    ttl: Duration,
    /// Whether the kernel can do without `open`, and without `opendir`.
    skips_open: bool,
    skips_opendir: bool,
    /// How the kernel is to treat a file that it opened.
    open_flags: FopenFlags,
    /// Sends notifications to the kernel, from the end of the handshake on.
    notifier: Arc<OnceLock<Notifier>>,
}

impl Requests {
    /// With `checks_each_request`, who may see what is decided request by
    /// request, so that the kernel may not answer from its caches or open a
    /// file without asking. With `direct_io`, every read comes here.
    pub(super) fn new(
        operations: Operations,
        turns: Option<Turns>,
        checks_each_request: bool,
        options: &MountOptions,
    ) -> Self {
        Self {
            operations,
            turns,
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

    /// Where the session puts its notifier.
    pub(super) fn notifier(&self) -> Arc<OnceLock<Notifier>> {
        Arc::clone(&self.notifier)
    }

    /// Makes the kernel ask for the attributes of a file again.
    ///
    /// Called before the request that changed them is answered, which keeps the node in use.
    /// The kernel drops attributes without waiting for requests under way, unlike pages.
    fn invalidate_attributes(&self, ino: INodeNo) {
        // A negative offset: the pages stay.
        let invalidated = self
            .notifier
            .get()
            .map(|kernel| kernel.inval_inode(ino, -1, 0));
        if let Some(Err(error)) = invalidated {
            tracing::warn!("the kernel keeps attributes of node {ino} that have changed: {error}");
        }
    }

    /// The type of a listed file: from the directory, else from the inode.
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
        answered!(reply, self.operations.remember(&entry));
        let (attr, generation) = attr(&entry);
        reply.entry(&self.ttl_of(&entry.metadata), &attr, generation);
    }

    /// How long the kernel may keep what it is told of a file. Set-id bits go when somebody writes,
    /// and the kernel, which told us to take them off, does not ask whether we did.
    fn ttl_of(&self, metadata: &Metadata) -> Duration {
        let may_lose_bits =
            metadata.kind == FileKind::Regular && metadata.permissions & 0o6000 != 0;
        if may_lose_bits && self.operations.can_write() {
            Duration::ZERO
        } else {
            self.ttl
        }
    }

    /// Here the inode's own number is told: the root is 2, as on disk.
    fn reply_attributes(&self, reply: ReplyAttr, metadata: Answer<Metadata>) {
        let metadata = answered!(reply, metadata);
        let attr = attributes::of_metadata(metadata.ino.0.into(), &metadata);
        reply.attr(&self.ttl_of(&metadata), &attr);
    }

    /// Adds a name with what is known of its file to a listing; true if there is no room for it.
    fn add_plus(&self, reply: &mut ReplyDirectoryPlus, entry: &larder::DirEntry<'_>) -> bool {
        let (attr, generation, ttl, told) = match self.operations.listed(entry) {
            Listed::Known(known) => {
                let (attr, generation) = attr(&known);
                (
                    attr,
                    generation,
                    self.ttl_of(&known.metadata),
                    Some(known.node),
                )
            }
            // The kernel makes no node of it.
            Listed::Dot => (
                attributes::unknown(NodeId(entry.ino.0.into()), FileType::Directory),
                Generation(0),
                Duration::ZERO,
                None,
            ),
            // Kept for no time: the kernel asks again, and is told what is wrong.
            Listed::Unreadable(node) => (
                attributes::unknown(node, self.listed_type(entry)),
                Generation(0),
                Duration::ZERO,
                Some(node),
            ),
        };
        let name = OsStr::from_bytes(entry.name);
        let is_full = reply.add(attr.ino, entry.next_cookie, name, &ttl, &attr, generation);
        if let (true, Some(node)) = (is_full, told) {
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

/// What a new file starts with. The protocol's mode has the permissions in its low 12 bits.
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

/// Answers a question for an attribute: its size if that is what was asked.
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
        let _turn = self.turns.as_ref().map(Turns::begin);
        self.operations.forget(node(ino), nlookup);
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let _turn = self.turns.as_ref().map(Turns::begin);
        let found = self.operations.lookup(node(parent), name.as_bytes());
        if let Some(entry) = answered!(reply, found) {
            return self.reply_entry(reply, Ok(entry));
        }
        // Node 0: no such name, and the kernel may remember that.
        let none = attributes::unknown(NodeId(0), FileType::RegularFile);
        reply.entry(&self.ttl, &none, Generation(0));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        let _turn = self.turns.as_ref().map(Turns::begin);
        self.reply_attributes(reply, self.operations.metadata(node(ino)));
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let _turn = self.turns.as_ref().map(Turns::begin);
        let target = answered!(reply, self.operations.read_link(node(ino)));
        reply.data(&target);
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let _turn = self.turns.as_ref().map(Turns::begin);
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
        let _turn = self.turns.as_ref().map(Turns::begin);
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
        let _turn = self.turns.as_ref().map(Turns::begin_long);
        let Ok(size) = usize::try_from(size) else {
            return reply.error(Errno::EINVAL);
        };
        READ_BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let buf = &mut buffer[..size];
            let read = self.operations.read(node(ino), Handle(fh.0), buf, offset);
            let len = answered!(reply, read);
            reply.data(&buf[..len.min(size)]);
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, data_only: bool, reply: ReplyEmpty) {
        let _turn = self.turns.as_ref().map(Turns::begin_long);
        reply_done(reply, self.operations.sync(node(ino), data_only));
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let _turn = self.turns.as_ref().map(Turns::begin);
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
        let _turn = self.turns.as_ref().map(Turns::begin_long);
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
        let _turn = self.turns.as_ref().map(Turns::begin_long);
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
        let _turn = self.turns.as_ref().map(Turns::begin_long);
        reply_done(reply, self.operations.sync(node(ino), data_only));
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let _turn = self.turns.as_ref().map(Turns::begin);
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
        let _turn = self.turns.as_ref().map(Turns::begin);
        match answered!(reply, self.operations.xattr(node(ino), name.as_bytes())) {
            Some(value) => reply_xattr(reply, &value, size),
            None => reply.error(Errno::ENODATA),
        }
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        let _turn = self.turns.as_ref().map(Turns::begin);
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
        let _turn = self.turns.as_ref().map(Turns::begin);
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
        let _turn = self.turns.as_ref().map(Turns::begin);
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
        let _turn = self.turns.as_ref().map(Turns::begin);
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
        let _turn = self.turns.as_ref().map(Turns::begin);
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
        let _turn = self.turns.as_ref().map(Turns::begin);
        let new = new_file(request, mode, umask);
        let place = name(parent, file_name);
        let entry = self.operations.make(place, Make::Directory, &new);
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
        let _turn = self.turns.as_ref().map(Turns::begin);
        let target = target.as_os_str().as_bytes();
        let (place, new) = (name(parent, file_name), new_file(request, 0o777, 0));
        let entry = self.operations.make(place, Make::Symlink { target }, &new);
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
        let _turn = self.turns.as_ref().map(Turns::begin);
        let linked = self.operations.link(node(ino), name(new_parent, new_name));
        self.reply_entry(reply, linked);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, file_name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turns.as_ref().map(Turns::begin);
        reply_done(reply, self.operations.unlink(name(parent, file_name)));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, file_name: &OsStr, reply: ReplyEmpty) {
        let _turn = self.turns.as_ref().map(Turns::begin);
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
        let _turn = self.turns.as_ref().map(Turns::begin);
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
        let _turn = self.turns.as_ref().map(Turns::begin);
        if self.skips_open {
            return reply.error(Errno::ENOSYS);
        }
        let new = new_file(request, mode, umask);
        let make = Make::Node {
            kind: FileKind::Regular,
            device: None,
        };
        let place = name(parent, file_name);
        let entry = answered!(reply, self.operations.make(place, make, &new));
        answered!(reply, self.operations.remember(&entry));
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
        let _turn = self.turns.as_ref().map(Turns::begin);
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
        let _turn = self.turns.as_ref().map(Turns::begin_long);
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
        let _turn = self.turns.as_ref().map(Turns::begin_long);
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
        let _turn = self.turns.as_ref().map(Turns::begin);
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
        let _turn = self.turns.as_ref().map(Turns::begin);
        let removed = self.operations.remove_xattr(node(ino), xattr.as_bytes());
        reply_done(reply, removed);
    }
}
