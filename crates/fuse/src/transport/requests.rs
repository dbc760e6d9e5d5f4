//! Answers the requests of the kernel, for both transports.
//!
//! Model: the kernel's caches avoid requests where possible. The replies permit the kernel to cache names
//! (including names that do not exist), attributes, link targets, pages and listings without a time limit. The
//! reply to `OPEN` and `OPENDIR` is that they are not implemented. The kernel then stops sending these requests,
//! and keeps pages and listings in its caches. With direct I/O or `allow_root`, `OPEN` is implemented. In this
//! case, each reader of a file on a read-only mount has a handle of its own.
//!
//! On a writable mount, the kernel may also collect writes ([`crate::write_back`]). It then
//! maintains the sizes and times of files until it writes them back. `OPENDIR` is then implemented: by
//! its reply, the server makes the kernel read a directory again if the kernel may have discarded attributes of files
//! in it ([`super::listings`]). If `OPEN` is not implemented, `CREATE`, which creates and opens a file in one request,
//! is not implemented either. The kernel then sends `MKNOD` instead, and sends no `RELEASE`. Each reply that contains
//! a node counts as a lookup ([`Operations::count_lookup`]).

use super::attributes::{self, ShownOwner};
use super::device::Connection;
use super::handler::{Arrival, Ending, Handler, Outcome, Waiting};
use super::ioctl::{self, Effect};
use super::listings::Listings;
use crate::MountOptions;
use crate::activity::Activity;
use crate::changes::{Caller, Count, Name};
use crate::node::NodeId;
use crate::open_files::Handle;
use crate::operations::{Answer, Entry, FOREVER, NAME_BYTES, Operations, Seek};
use crate::protocol::abi::{
    self, CopyFileRangeIn, CreateIn, EntryOut, FallocateIn, GetXattrOut, IoctlIn, IoctlOut,
    LseekIn, LseekOut, OpenOut, ReadIn, StatfsOut, WriteIn, WriteOut,
};
use crate::protocol::handshake::Agreement;
use crate::protocol::{Body, Header, Malformed, Operation, Request, nodes_in_reply};
use larder::block::timing::Measured;
use larder::{CallerScope, FileKind, Make, MemoryOnly, Metadata, NewFile};
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// `SEEK_DATA` and `SEEK_HOLE` of lseek(2).
const SEEK_DATA: i32 = 3;
const SEEK_HOLE: i32 = 4;

/// The size of a page in the page caches of the kernel and of Larder, in bytes.
const PAGE_BYTES: u64 = 4096;

/// The maximum length of a copy that is not passed to a worker, in bytes. A copy of this length takes less time
/// than waking a worker.
const SMALL_COPY_BYTES: usize = 128 << 10;

/// The handler of the kernel's requests for one mounted volume.
#[derive(Debug)]
pub(super) struct Requests {
    operations: Operations,
    activity: Arc<Activity>,
    /// Whether only root and the user who mounted the volume have access. The server checks this, not the
    /// kernel.
    is_for_root_and_owner: bool,
    /// The owner that replies contain.
    shown: ShownOwner,
    /// The time for which the kernel may cache replies.
    ttl: Duration,
    /// Whether the kernel may use files without `OPEN`.
    skips_open: bool,
    /// Whether the kernel may use directories without `OPENDIR`.
    skips_opendir: bool,
    /// The directories that the kernel has listed, if it collects writes and may cache attributes.
    listings: Option<Listings>,
    /// The flags in replies to `OPEN`.
    open_flags: u32,
    /// The connection on which notifications are sent.
    connection: Arc<Connection>,
}

/// What the answer to a request needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    /// Only memory. This includes `FORGET`: a deletion that has to wait is left to another thread.
    Memory,
    /// Locks, and metadata that may or may not be in memory. The request is tried in a [`MemoryOnly`] part.
    Metadata,
    /// The device, or answers to other requests.
    Wait,
}

impl Handler for Requests {
    /// If the request is malformed, the reply is `EINVAL`. If the operation panics, the panic is reported, and
    /// the reply is `EIO`.
    fn answer(
        &self,
        header: &Header,
        request: Result<Request<'_>, Malformed>,
        waiting: Waiting,
        body: &mut Body<'_>,
    ) -> Outcome {
        match request {
            Ok(request) => catch_unwind(AssertUnwindSafe(|| self.outcome(&request, waiting, body)))
                .unwrap_or(Outcome::Reply(Err(Errno::IO))),
            Err(error) => {
                tracing::warn!("operation {}: {error}", header.opcode);
                Outcome::Reply(Err(Errno::INVAL))
            }
        }
    }

    fn ending(&self, request: &Request<'_>) -> Ending {
        match request.operation {
            Operation::Lookup(_)
            | Operation::GetAttr
            | Operation::Statx
            | Operation::ReadLink
            | Operation::Statfs
            | Operation::Fsync(_)
            | Operation::GetXattr(..)
            | Operation::ListXattr(_)
            | Operation::ReadDir(_)
            | Operation::ReadDirPlus(_)
            | Operation::Lseek(_) => Ending::Always,
            Operation::Read(read) if self.is_direct(&read) => Ending::Always,
            Operation::Write(write, _) if write.flags & abi::WRITE_CACHE != 0 => Ending::Never,
            Operation::Read(_)
            | Operation::Forget(_)
            | Operation::BatchForget(_)
            | Operation::Release(_)
            | Operation::OpenDir
            | Operation::ReleaseDir
            | Operation::Destroy
            | Operation::Unknown => Ending::Never,
            _ => Ending::UntilBegun,
        }
    }

    fn waits_for_kernel(&self, request: &Request<'_>) -> bool {
        self.operations.can_write() && matches!(request.operation, Operation::Lseek(_))
    }

    /// Subtracts the lookups that the reply would have added in the kernel.
    fn discard(&self, header: &Header, body: &[u8]) {
        for node in nodes_in_reply(header.opcode, body) {
            self.operations.forget(node, 1);
        }
    }

    fn record(&self, arrival: &Arrival, measured: Option<Measured>, answer: Answer<&[u8]>) {
        let arrived_ns = arrival.timing.coarse_ns();
        let (header, target) = (&arrival.header, arrival.target);
        self.activity
            .record(header, target, arrived_ns, measured, answer);
    }

    /// Removes all lookup counts.
    fn end(&self) {
        self.operations.forget_all();
    }
}

impl Requests {
    /// Creates the handler of a connection, after the handshake.
    pub(super) fn new(
        operations: Operations,
        activity: Arc<Activity>,
        connection: Arc<Connection>,
        agreement: &Agreement,
        options: &MountOptions,
    ) -> Self {
        // If each caller is checked, the kernel must neither answer from its caches nor open files without a
        // request. With direct I/O, the reply to `OPEN` makes the kernel send every read.
        let checks_callers = options.allow_root && !options.allow_other;
        Self {
            operations,
            activity,
            is_for_root_and_owner: checks_callers,
            shown: ShownOwner {
                uid: options.shown_uid,
                gid: options.shown_gid,
            },
            ttl: if checks_callers {
                Duration::ZERO
            } else {
                FOREVER
            },
            skips_open: agreement.skips_open && !checks_callers && !options.direct_io,
            skips_opendir: agreement.skips_opendir && !checks_callers,
            listings: (agreement.write_back && !checks_callers).then(Listings::new),
            open_flags: if options.direct_io {
                abi::OPEN_DIRECT_IO
            } else {
                abi::OPEN_KEEP_CACHE
            },
            connection,
        }
    }

    fn outcome(&self, request: &Request<'_>, waiting: Waiting, body: &mut Body<'_>) -> Outcome {
        if !self.may_access(request) {
            return Outcome::Reply(Err(Errno::ACCESS));
        }
        if let Some(listings) = &self.listings
            && is_for_content(&request.operation)
        {
            listings.request_content();
        }
        let mut memory_only = None;
        if waiting == Waiting::Refused {
            match self.need(&request.header, &request.operation) {
                Need::Memory => {}
                Need::Metadata => memory_only = Some(MemoryOnly::begin()),
                Need::Wait => return Outcome::WouldWait,
            }
        }
        match request.operation {
            Operation::Forget(forget) => {
                self.operations.forget(request.header.node, forget.lookups);
                Outcome::NoReply
            }
            Operation::BatchForget(list) => {
                for one in list.iter() {
                    self.operations.forget(NodeId(one.node), one.lookups);
                }
                Outcome::NoReply
            }
            _ => {
                let answer = self.reply(request, body);
                if MemoryOnly::has_missed() {
                    body.clear();
                    return Outcome::WouldWait;
                }
                drop(memory_only);
                Outcome::Reply(answer)
            }
        }
    }

    /// Returns whether the kernel reads for one program, not for its page cache.
    fn is_direct(&self, read: &ReadIn) -> bool {
        self.open_flags & abi::OPEN_DIRECT_IO != 0
            || OFlags::from_bits_retain(read.open_flags).contains(OFlags::DIRECT)
    }

    /// Returns whether the caller has access.
    fn may_access(&self, request: &Request<'_>) -> bool {
        let uid = request.header.caller.uid;
        !self.is_for_root_and_owner
            || request.header.uses_open_file()
            || uid == 0
            || uid == rustix::process::geteuid().as_raw()
    }

    /// Returns what the operation probably needs.
    fn need(&self, header: &Header, operation: &Operation<'_>) -> Need {
        match operation {
            Operation::Read(read) => {
                let size = read.size_bytes as usize;
                if self
                    .operations
                    .is_cached(header.node, read.offset_bytes, size)
                {
                    Need::Memory
                } else {
                    Need::Wait
                }
            }
            Operation::Forget(_)
            | Operation::BatchForget(_)
            | Operation::Release(_)
            | Operation::OpenDir
            | Operation::ReleaseDir
            | Operation::Destroy
            | Operation::Unknown => Need::Memory,
            Operation::CopyFileRange(range)
                if !self.operations.sync && self.is_small_copy(header.node, range) =>
            {
                Need::Metadata
            }
            Operation::Fsync(_) | Operation::Fallocate(_) | Operation::CopyFileRange(_) => {
                Need::Wait
            }
            Operation::Lseek(_) if self.operations.can_write() => Need::Wait,
            // With `-o sync`, a change waits for its commit. Writes do not: the kernel sends an fsync after
            // each.
            Operation::SetAttr(_)
            | Operation::Symlink { .. }
            | Operation::Mknod(..)
            | Operation::Mkdir(..)
            | Operation::Unlink(_)
            | Operation::Rmdir(_)
            | Operation::Rename { .. }
            | Operation::Link(..)
            | Operation::Create(..)
            | Operation::Tmpfile(_)
            | Operation::SetXattr { .. }
            | Operation::RemoveXattr(_)
                if self.operations.sync =>
            {
                Need::Wait
            }
            Operation::Ioctl(ioctl, _) => match ioctl::effect(ioctl.number) {
                Effect::Change if self.operations.sync => Need::Wait,
                Effect::None | Effect::Change => Need::Metadata,
                Effect::LongChange => Need::Wait,
            },
            Operation::Write(write, data)
                if self.reads_for_write(header.node, write.offset_bytes, data.len()) =>
            {
                Need::Wait
            }
            _ => Need::Metadata,
        }
    }

    /// Returns whether a write that changes only a part of a page must read from the device first: the inode, if
    /// it is not in memory, or a page of the file that is not cached. Returns false for a write of whole pages: it
    /// is tried in a [`MemoryOnly`] part, which fails if the inode is not in memory ([`Need::Metadata`]).
    fn reads_for_write(&self, node: NodeId, start_bytes: u64, len: usize) -> bool {
        let end_bytes = start_bytes.saturating_add(len as u64);
        if start_bytes.is_multiple_of(PAGE_BYTES) && end_bytes.is_multiple_of(PAGE_BYTES)
            || self.operations.is_cached(node, start_bytes, len)
        {
            return false;
        }
        let _memory_only = MemoryOnly::begin();
        let first_page_bytes = start_bytes - start_bytes % PAGE_BYTES;
        let metadata = self.operations.metadata(node);
        MemoryOnly::has_missed() || metadata.is_ok_and(|file| first_page_bytes < file.size_bytes)
    }

    /// Returns whether a copy from `node` is at most [`SMALL_COPY_BYTES`] long and reads only what is in memory.
    fn is_small_copy(&self, node: NodeId, range: &CopyFileRangeIn) -> bool {
        let _memory_only = MemoryOnly::begin();
        let Ok(source) = self.operations.metadata(node) else {
            return false;
        };
        let left_bytes = source.size_bytes.saturating_sub(range.offset_in_bytes);
        let len = usize::try_from(range.len_bytes.min(left_bytes)).unwrap_or(usize::MAX);
        let target = NodeId(range.node_out);
        len <= SMALL_COPY_BYTES
            && self.operations.is_cached(node, range.offset_in_bytes, len)
            && !self.reads_for_write(target, range.offset_out_bytes, len)
    }

    /// Answers a request that has a reply.
    fn reply(&self, request: &Request<'_>, body: &mut Body<'_>) -> Answer<()> {
        let (node, caller) = (request.header.node, request.header.caller);
        let operations = &self.operations;
        let in_node = |name| Name { parent: node, name };
        match request.operation {
            Operation::Lookup(name) => match operations.lookup(node, name)? {
                _ if MemoryOnly::has_missed() => Err(Errno::AGAIN),
                Some(entry) => self.add_entry(body, &entry),
                // Node number 0 means that the name does not exist. The kernel may cache this reply.
                None => body.add_structure(&attributes::no_entry(self.ttl)),
            },
            Operation::GetAttr => self.add_attributes(body, &operations.metadata(node)?),
            Operation::Statx => {
                let metadata = operations.metadata(node)?;
                let ttl = self.ttl_of(&metadata);
                body.add_structure(&attributes::statx_out(&metadata, self.shown, ttl))
            }
            Operation::SetAttr(set) => {
                let set = attributes::attributes_to_set(&set);
                self.add_attributes(body, &operations.set_attributes(caller, node, &set)?)
            }
            Operation::ReadLink => body.add(&operations.read_link(node)?),
            Operation::Symlink { name, target } => {
                let new = new_file(caller, 0o777, 0);
                self.make(body, in_node(name), Make::Symlink { target }, &new)
            }
            Operation::Mknod(node, name) => {
                let make = attributes::node_to_make(node.mode, node.device).ok_or(Errno::INVAL)?;
                let new = new_file(caller, node.mode, node.umask);
                self.make(body, in_node(name), make, &new)
            }
            Operation::Mkdir(directory, name) => {
                let new = new_file(caller, directory.mode, directory.umask);
                self.make(body, in_node(name), Make::Directory, &new)
            }
            Operation::Unlink(name) => operations.unlink(in_node(name)),
            Operation::Rmdir(name) => operations.remove_dir(in_node(name)),
            Operation::Rename {
                old_name,
                new,
                flags,
            } => operations.rename(caller, in_node(old_name), new, flags),
            Operation::Link(link, name) => {
                let entry = operations.link(NodeId(link.node), in_node(name))?;
                self.add_entry(body, &entry)
            }
            Operation::Open if self.skips_open => Err(Errno::NOSYS),
            Operation::Open => {
                let Handle(handle) = operations.open(node)?;
                add_open(body, handle, self.open_flags)
            }
            Operation::Create(create, name) => self.create(body, caller, in_node(name), create),
            Operation::Tmpfile(create) => {
                let new = new_file(caller, create.mode, create.umask);
                self.add_entry(body, &operations.make_unnamed(node, &new)?)?;
                add_open(body, Handle::NONE.0, self.open_flags)
            }
            Operation::Release(release) => {
                operations.release(Handle(release.handle));
                Ok(())
            }
            Operation::Read(read) => body.fill(read.size_bytes as usize, |memory| {
                let _caller = CallerScope::begin(caller.thread);
                operations.read(node, Handle(read.handle), memory, read.offset_bytes)
            }),
            Operation::Write(write, data) => self.write(body, request, write, data),
            Operation::Statfs => self.statfs(body),
            Operation::Fsync(sync) => operations.sync(node, sync.flags & abi::FSYNC_DATA_ONLY != 0),
            Operation::SetXattr { mode, name, value } => {
                let mode = attributes::xattr_mode(mode.flags).ok_or(Errno::INVAL)?;
                operations.set_xattr(caller, node, name, value, mode)
            }
            Operation::GetXattr(get, name) => {
                let value = operations.xattr(node, name)?.ok_or(Errno::NODATA)?;
                add_xattr(body, &value, get.size_bytes)
            }
            Operation::ListXattr(list) => {
                let names = operations.xattrs(node, caller.uid == 0)?;
                add_xattr(body, &names, list.size_bytes)
            }
            Operation::RemoveXattr(name) => operations.remove_xattr(node, name),
            Operation::OpenDir => self.open_dir(body, node),
            Operation::ReadDir(read) => self.list(body, node, read),
            Operation::ReadDirPlus(read) => self.list_plus(body, node, read),
            Operation::ReleaseDir | Operation::Destroy => Ok(()),
            Operation::Ioctl(ioctl, input) => self.ioctl(body, request, ioctl, input),
            Operation::Fallocate(range) => self.fallocate(caller, node, range),
            Operation::Lseek(seek) => self.seek(body, node, seek),
            Operation::CopyFileRange(range) => {
                let copied = self.copy_range(caller, node, range)?;
                add_written(body, copied)
            }
            Operation::Forget(_) | Operation::BatchForget(_) | Operation::Unknown => {
                Err(Errno::NOSYS)
            }
        }
    }

    fn make(
        &self,
        body: &mut Body<'_>,
        name: Name<'_>,
        make: Make<'_>,
        new: &NewFile,
    ) -> Answer<()> {
        self.add_entry(body, &self.operations.make(name, make, new)?)
    }

    fn create(
        &self,
        body: &mut Body<'_>,
        caller: Caller,
        name: Name<'_>,
        create: CreateIn,
    ) -> Answer<()> {
        if self.skips_open {
            return Err(Errno::NOSYS);
        }
        let new = new_file(caller, create.mode, create.umask);
        let make = Make::Node {
            kind: FileKind::Regular,
            device: None,
        };
        self.make(body, name, make, &new)?;
        add_open(body, Handle::NONE.0, self.open_flags)
    }

    fn write(
        &self,
        body: &mut Body<'_>,
        request: &Request<'_>,
        write: WriteIn,
        data: &[u8],
    ) -> Answer<()> {
        let is_unprivileged = write.flags & abi::WRITE_KILL_SUIDGID != 0;
        let unprivileged = is_unprivileged.then_some(request.header.caller);
        let count = if write.flags & abi::WRITE_CACHE == 0 {
            Count::Short
        } else {
            Count::All
        };
        let (node, data) = (request.header.node, (data, write.offset_bytes));
        let written = self.operations.write(unprivileged, node, data, count)?;
        add_written(body, written)
    }

    fn statfs(&self, body: &mut Body<'_>) -> Answer<()> {
        let stat = self.operations.volume().statfs();
        body.add_structure(&StatfsOut {
            blocks: stat.blocks,
            free_blocks: stat.free_blocks,
            available_blocks: stat.available_blocks,
            files: stat.files,
            free_files: stat.free_files,
            block_size_bytes: stat.block_size_bytes,
            name_bytes: u32::try_from(NAME_BYTES).unwrap_or(u32::MAX),
            fragment_bytes: stat.block_size_bytes,
            ..StatfsOut::default()
        })
    }

    fn ioctl(
        &self,
        body: &mut Body<'_>,
        request: &Request<'_>,
        ioctl: IoctlIn,
        input: &[u8],
    ) -> Answer<()> {
        let (node, caller) = (request.header.node, request.header.caller);
        let output = ioctl::answer(
            &self.operations,
            caller,
            node,
            ioctl.number,
            input,
            ioctl.out_bytes,
        )?;
        if ioctl::changes_file(ioctl.number) {
            // The notification precedes the reply: the request keeps the node in use until the reply.
            self.connection.invalidate_attributes(node);
        }
        body.add_structure(&IoctlOut::default())?;
        body.add(&output)
    }

    fn fallocate(&self, caller: Caller, node: NodeId, range: FallocateIn) -> Answer<()> {
        let mode = attributes::fallocate_mode(range.mode).ok_or(Errno::OPNOTSUPP)?;
        self.operations
            .fallocate(caller, node, mode, range.offset_bytes, range.len_bytes)
    }

    fn seek(&self, body: &mut Body<'_>, node: NodeId, seek: LseekIn) -> Answer<()> {
        let what = match seek.whence {
            SEEK_DATA => Seek::Data,
            SEEK_HOLE => Seek::Hole,
            _ => return Err(Errno::INVAL),
        };
        let offset = u64::try_from(seek.offset_bytes).map_err(|_| Errno::NXIO)?;
        if self.operations.can_write() {
            // The kernel can have dirty pages in holes, or past the end of the file.
            self.connection.write_back_pages(node, offset);
        }
        let found = self.operations.seek(node, what, offset)?;
        i64::try_from(found).map_err(|_| Errno::OVERFLOW)?;
        body.add_structure(&LseekOut {
            offset_bytes: found,
        })
    }

    fn copy_range(&self, caller: Caller, node: NodeId, range: CopyFileRangeIn) -> Answer<u64> {
        let from = (node, range.offset_in_bytes);
        let to = (NodeId(range.node_out), range.offset_out_bytes);
        self.operations
            .copy_range(caller, from, to, range.len_bytes)
    }

    fn open_dir(&self, body: &mut Body<'_>, node: NodeId) -> Answer<()> {
        let (handle, flags) = match &self.listings {
            Some(listings) => listings.open(node),
            None if self.skips_opendir => return Err(Errno::NOSYS),
            None => (Handle::NONE.0, abi::OPEN_KEEP_CACHE | abi::OPEN_CACHE_DIR),
        };
        add_open(body, handle, flags)
    }

    /// Adds a listing for `READDIR`.
    fn list(&self, body: &mut Body<'_>, node: NodeId, read: ReadIn) -> Answer<()> {
        let limit_bytes = read.size_bytes as usize;
        self.operations
            .read_dir(node, read.offset_bytes, &mut |entry| {
                let kind = self.listed_kind(&entry);
                flow(!MemoryOnly::has_missed() && body.add_entry(limit_bytes, None, &entry, kind))
            })
    }

    /// Adds a listing for `READDIRPLUS`, which also contains the attributes of files.
    fn list_plus(&self, body: &mut Body<'_>, node: NodeId, read: ReadIn) -> Answer<()> {
        let limit_bytes = read.size_bytes as usize;
        let mut counted = Vec::new();
        let listed = self
            .operations
            .read_dir(node, read.offset_bytes, &mut |entry| {
                let known = self.operations.listed(&entry).ok().flatten();
                let (plus, kind) = match &known {
                    Some(known) => (self.entry_out(known), known.metadata.kind),
                    // With node number 0, the kernel lists the entry and caches nothing about the file.
                    None => (EntryOut::default(), self.listed_kind(&entry)),
                };
                counted.extend(known.map(|known| known.node));
                let is_added = !MemoryOnly::has_missed()
                    && body.add_entry(limit_bytes, Some(&plus), &entry, kind);
                if let (false, Some(known)) = (is_added, known) {
                    counted.pop();
                    self.operations.forget(known.node, 1);
                }
                flow(is_added)
            });
        if MemoryOnly::has_missed() {
            for node in counted {
                self.operations.forget(node, 1);
            }
        } else if let (Some(listings), Ok(())) = (&self.listings, &listed) {
            if read.offset_bytes == 0 {
                listings.begin(node);
            } else if body.len() == 0 {
                listings.end(node, read.handle);
            }
        }
        listed
    }

    /// Returns the type of a listed file, from the directory entry or, if that has no type, from the inode.
    fn listed_kind(&self, entry: &larder::DirEntry<'_>) -> FileKind {
        if matches!(entry.name, b"." | b"..") {
            return FileKind::Directory;
        }
        let from_inode = || self.operations.metadata(NodeId::of(entry.ino)).ok();
        let kind = entry
            .kind
            .or_else(|| from_inode().map(|metadata| metadata.kind));
        kind.unwrap_or(FileKind::Regular)
    }

    /// Adds a file, and counts the lookup.
    fn add_entry(&self, body: &mut Body<'_>, entry: &Entry) -> Answer<()> {
        self.operations.count_lookup(entry)?;
        body.add_structure(&self.entry_out(entry))
    }

    fn entry_out(&self, entry: &Entry) -> EntryOut {
        let ttl = self.ttl_of(&entry.metadata);
        attributes::entry_out(entry, self.shown, ttl, ttl)
    }

    fn add_attributes(&self, body: &mut Body<'_>, metadata: &Metadata) -> Answer<()> {
        let ttl = self.ttl_of(metadata);
        body.add_structure(&attributes::attr_out(metadata, self.shown, ttl))
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
}

/// Returns whether an operation reads or changes the content of a file. With the write-back cache, the kernel discards
/// attributes of such a file when the file is closed, which [`super::listings`] takes into account.
fn is_for_content(operation: &Operation<'_>) -> bool {
    match operation {
        Operation::Read(_)
        | Operation::Write(..)
        | Operation::Fallocate(_)
        | Operation::CopyFileRange(_) => true,
        Operation::SetAttr(set) => set.valid & abi::set::SIZE != 0,
        _ => false,
    }
}

/// Returns the attributes with which a file is created.
fn new_file(caller: Caller, mode: u32, umask: u32) -> NewFile {
    NewFile {
        permissions: attributes::permissions(mode),
        umask: attributes::permissions(umask),
        uid: caller.uid,
        gid: caller.gid,
    }
}

fn add_open(body: &mut Body<'_>, handle: u64, flags: u32) -> Answer<()> {
    body.add_structure(&OpenOut {
        handle,
        flags,
        unused: 0,
    })
}

fn add_written(body: &mut Body<'_>, written: impl TryInto<u32>) -> Answer<()> {
    body.add_structure(&WriteOut {
        size_bytes: written.try_into().map_err(|_| Errno::IO)?,
        unused: 0,
    })
}

/// Adds the value of an extended attribute. If `room_bytes` is 0, the request is for the size of the value.
fn add_xattr(body: &mut Body<'_>, value: &[u8], room_bytes: u32) -> Answer<()> {
    match u32::try_from(value.len()) {
        Ok(size_bytes) if room_bytes == 0 => body.add_structure(&GetXattrOut {
            size_bytes,
            unused: 0,
        }),
        Ok(len) if len <= room_bytes => body.add(value),
        Ok(_) => Err(Errno::RANGE),
        Err(_) => Err(Errno::TOOBIG),
    }
}

fn flow(is_added: bool) -> ControlFlow<()> {
    if is_added {
        ControlFlow::Continue(())
    } else {
        ControlFlow::Break(())
    }
}

#[cfg(test)]
mod tests;
