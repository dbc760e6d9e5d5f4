//! The requests of a read-only mount, one method each.
//!
//! Model: the kernel's own caches do the work wherever it lets them. It is told
//! to keep names (also absent ones), attributes, link targets, pages and listings
//! for ever, and not to tell us of opening and closing at all: `open` and
//! `opendir` answer that they do not exist, whereupon it stops asking and keeps
//! pages and listings by itself. Only where it has to ask at each `open`, for
//! direct I/O or for `allow_root`, do readers of one file have handles of their own.

use super::attributes;
use crate::node::NodeId;
use crate::open_files::Handle;
use crate::operations::{Entry, FOREVER, Listed, Operations, Seek};
use fuser::{
    AccessFlags, BsdFileFlags, CopyFileRangeFlags, Errno, FileAttr, FileHandle, FileType,
    Filesystem, FopenFlags, Generation, INodeNo, InitFlags, IoctlFlags, KernelConfig, LockOwner,
    OpenFlags, PollEvents, PollFlags, PollNotifier, RenameFlags, ReplyAttr, ReplyBmap, ReplyCreate,
    ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek,
    ReplyOpen, ReplyPoll, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use std::cell::RefCell;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The most that the kernel asks for at once, in bytes.
const REQUEST_BYTES: u32 = 1 << 20;
/// Requests that nobody waits for, under way at once. Linux's default: 12.
const MAX_BACKGROUND: u16 = 128;
/// Of these, how many until the kernel takes the device for congested.
const CONGESTION_THRESHOLD: u16 = 96;
/// The longest name in bytes, as statfs(2) tells it.
const NAME_BYTES: u32 = 255;
/// `FS_IOC_GETFLAGS`, of 64-bit and of 32-bit programs.
const GET_FLAGS: [u32; 2] = [0x8008_6601, 0x8004_6601];
/// `SEEK_DATA` and `SEEK_HOLE` of lseek(2).
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// Asked for where the kernel has them.
const CAPABILITIES: [InitFlags; 13] = [
    InitFlags::FUSE_ASYNC_READ,
    InitFlags::FUSE_ASYNC_DIO,
    InitFlags::FUSE_MAX_PAGES,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_CACHE_SYMLINKS,
    InitFlags::FUSE_POSIX_ACL,
    InitFlags::FUSE_EXPORT_SUPPORT,
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    InitFlags::FUSE_HAS_IOCTL_DIR,
    InitFlags::FUSE_NO_OPEN_SUPPORT,
    InitFlags::FUSE_NO_OPENDIR_SUPPORT,
    // What never changes cannot differ between a mapping and a read.
    InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP,
];

thread_local! {
    /// What a read is gathered in: one a thread, as large as its largest request.
    static READ_BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A volume that cannot be written, as the kernel sees it.
#[derive(Debug)]
pub(super) struct ReadOnly {
    operations: Operations,
    /// How long the kernel may keep answers.
    ttl: Duration,
    /// Whether the kernel can do without `open`, and without `opendir`.
    skips_open: bool,
    skips_opendir: bool,
    /// How the kernel is to treat a file that it opened.
    open_flags: FopenFlags,
}

impl ReadOnly {
    /// With `checks_each_request`, who may see what is decided request by
    /// request, so that the kernel may not answer from its caches or open a
    /// file without asking. With `direct_io`, every read comes here.
    pub(super) fn new(operations: Operations, checks_each_request: bool, direct_io: bool) -> Self {
        Self {
            operations,
            ttl: if checks_each_request {
                Duration::ZERO
            } else {
                FOREVER
            },
            skips_open: !checks_each_request && !direct_io,
            skips_opendir: !checks_each_request,
            open_flags: if direct_io {
                FopenFlags::FOPEN_DIRECT_IO
            } else {
                FopenFlags::FOPEN_KEEP_CACHE
            },
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

    fn add_plus(&self, reply: &mut ReplyDirectoryPlus, entry: &larder::DirEntry<'_>) -> bool {
        let (attr, generation, ttl) = match self.operations.listed(entry) {
            Listed::Known(known) => {
                let (attr, generation) = attr(&known);
                (attr, generation, self.ttl)
            }
            Listed::Dot => (
                attributes::unknown(NodeId(entry.ino.0.into()), FileType::Directory),
                Generation(0),
                Duration::ZERO,
            ),
            // Kept for no time: the kernel asks again, and is told what is wrong.
            Listed::Unreadable(node) => (
                attributes::unknown(node, self.listed_type(entry)),
                Generation(0),
                Duration::ZERO,
            ),
        };
        let name = OsStr::from_bytes(entry.name);
        reply.add(attr.ino, entry.next_cookie, name, &ttl, &attr, generation)
    }
}

fn attr(entry: &Entry) -> (FileAttr, Generation) {
    let generation = Generation(u64::from(entry.metadata.generation));
    (attributes::of_entry(entry), generation)
}

fn node(ino: INodeNo) -> NodeId {
    NodeId(ino.0)
}

fn errno(errno: rustix::io::Errno) -> Errno {
    Errno::from_i32(errno.raw_os_error())
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

impl Filesystem for ReadOnly {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        for capability in CAPABILITIES {
            if let Err(missing) = config.add_capabilities(capability) {
                tracing::debug!(?missing, "the kernel lacks a capability");
            }
        }
        let offered = config.capabilities();
        self.skips_open &= offered.contains(InitFlags::FUSE_NO_OPEN_SUPPORT);
        self.skips_opendir &= offered.contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        // Each of these says what it would take instead, if ours is too much.
        let _ = config.set_max_write(REQUEST_BYTES);
        if let Err(most) = config.set_max_readahead(REQUEST_BYTES) {
            let _ = config.set_max_readahead(most);
        }
        let _ = config.set_max_background(MAX_BACKGROUND);
        let _ = config.set_congestion_threshold(CONGESTION_THRESHOLD);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        match self.operations.lookup(node(parent), name.as_bytes()) {
            Ok(Some(entry)) => {
                let (attr, generation) = attr(&entry);
                reply.entry(&self.ttl, &attr, generation);
            }
            // Node 0: no such name, and the kernel may remember that.
            Ok(None) => reply.entry(
                &self.ttl,
                &attributes::unknown(NodeId(0), FileType::RegularFile),
                Generation(0),
            ),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.operations.metadata(node(ino)) {
            Ok(metadata) => {
                // Here the inode's own number is told: the root is 2, as on disk.
                let attr = attributes::of_metadata(metadata.ino.0.into(), &metadata);
                reply.attr(&self.ttl, &attr);
            }
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        match self.operations.read_link(node(ino)) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        if self.skips_open {
            return reply.error(Errno::ENOSYS);
        }
        match self.operations.open(node(ino)) {
            Ok(handle) => reply.opened(FileHandle(handle.0), self.open_flags),
            Err(error) => reply.error(errno(error)),
        }
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
        READ_BUFFER.with_borrow_mut(|buffer| {
            if buffer.len() < size {
                buffer.resize(size, 0);
            }
            let buf = &mut buffer[..size];
            match self.operations.read(node(ino), Handle(fh.0), buf, offset) {
                Ok(len) => reply.data(&buf[..len.min(size)]),
                Err(error) => reply.error(errno(error)),
            }
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn opendir(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
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
        let listed = self.operations.read_dir(node(ino), offset, &mut |entry| {
            let name = OsStr::from_bytes(entry.name);
            let number = INodeNo(entry.ino.0.into());
            flow(reply.add(number, entry.next_cookie, self.listed_type(&entry), name))
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.operations.read_dir(node(ino), offset, &mut |entry| {
            flow(self.add_plus(&mut reply, &entry))
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let stat = self.operations.statfs();
        reply.statfs(
            stat.blocks,
            stat.free_blocks,
            stat.available_blocks,
            stat.files,
            stat.free_files,
            stat.block_size_bytes,
            NAME_BYTES,
            stat.block_size_bytes,
        );
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        match self.operations.xattr(node(ino), name.as_bytes()) {
            Ok(Some(value)) => reply_xattr(reply, &value, size),
            Ok(None) => reply.error(Errno::ENODATA),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn listxattr(&self, request: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        match self.operations.xattrs(node(ino), request.uid() == 0) {
            Ok(names) => reply_xattr(reply, &names, size),
            Err(error) => reply.error(errno(error)),
        }
    }

    fn access(&self, _: &Request, _: INodeNo, _: AccessFlags, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn bmap(&self, _: &Request, _: INodeNo, _: u32, _: u64, reply: ReplyBmap) {
        reply.error(Errno::ENOSYS);
    }

    fn ioctl(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: IoctlFlags,
        cmd: u32,
        _: &[u8],
        out_size: u32,
        reply: ReplyIoctl,
    ) {
        if !GET_FLAGS.contains(&cmd) {
            return reply.error(Errno::ENOTTY);
        }
        match self.operations.metadata(node(ino)) {
            Ok(metadata) if out_size == 8 => {
                reply.ioctl(0, &u64::from(metadata.flags).to_ne_bytes());
            }
            Ok(metadata) => reply.ioctl(0, &metadata.flags.to_ne_bytes()),
            Err(error) => reply.error(errno(error)),
        }
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
        let what = match whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return reply.error(Errno::EINVAL),
        };
        let Ok(offset) = u64::try_from(offset) else {
            return reply.error(Errno::ENXIO);
        };
        match self.operations.seek(node(ino), what, offset) {
            Ok(found) => match i64::try_from(found) {
                Ok(found) => reply.offset(found),
                Err(_) => reply.error(Errno::EOVERFLOW),
            },
            Err(error) => reply.error(errno(error)),
        }
    }

    // What follows writes. The mount is read-only, so that the kernel refuses
    // first; these answer in case it does not.

    fn setattr(
        &self,
        _: &Request,
        _: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        reply.error(Errno::EROFS);
    }

    fn mknod(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn mkdir(&self, _: &Request, _: INodeNo, _: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn unlink(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn rmdir(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn symlink(&self, _: &Request, _: INodeNo, _: &OsStr, _: &Path, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn rename(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: INodeNo,
        _: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EROFS);
    }

    fn link(&self, _: &Request, _: INodeNo, _: INodeNo, _: &OsStr, reply: ReplyEntry) {
        reply.error(Errno::EROFS);
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::EROFS);
    }

    fn create(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        reply.error(Errno::EROFS);
    }

    fn setxattr(
        &self,
        _: &Request,
        _: INodeNo,
        _: &OsStr,
        _: &[u8],
        _: i32,
        _: u32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EROFS);
    }

    fn removexattr(&self, _: &Request, _: INodeNo, _: &OsStr, reply: ReplyEmpty) {
        reply.error(Errno::EROFS);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: i32,
        reply: ReplyEmpty,
    ) {
        reply.error(Errno::EROFS);
    }

    fn copy_file_range(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: INodeNo,
        _: FileHandle,
        _: u64,
        _: u64,
        _: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        reply.error(Errno::EROFS);
    }
}
