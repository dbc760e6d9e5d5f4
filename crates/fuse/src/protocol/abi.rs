//! The structures and numbers that the kernel and a FUSE server exchange. Integers are in the byte order of the
//! machine.
//!
//! A structure is named as in the kernel's header file, without `fuse_`. Fields that this server neither reads
//! nor sets are named `unused`.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// The version of the protocol that this server implements. Both sides use the smaller of their minor
/// versions.
pub(crate) const VERSION: u32 = 7;
pub(crate) const MINOR_VERSION: u32 = 42;

/// Declares structures of the protocol.
macro_rules! structures {
    ($($(#[$doc:meta])* $name:ident { $($field:ident: $kind:ty),* $(,)? })*) => {$(
        $(#[$doc])*
        #[repr(C)]
        #[derive(Clone, Copy, Debug, Default, FromBytes, IntoBytes, KnownLayout, Immutable)]
        pub(crate) struct $name {
            $(pub $field: $kind,)*
        }
    )*};
}

structures! {
    /// The start of each request.
    InHeader {
        len: u32,
        opcode: u32,
        unique: u64,
        node: u64,
        uid: u32,
        gid: u32,
        pid: u32,
        unused: u32,
    }
    /// The start of each reply and of each notification. `error` is 0 or a negative errno. In a notification,
    /// `unique` is 0 and `error` is the kind of the notification.
    OutHeader {
        len: u32,
        error: i32,
        unique: u64,
    }
    /// The attributes of a file.
    Attr {
        ino: u64,
        size_bytes: u64,
        blocks_512: u64,
        atime: i64,
        mtime: i64,
        ctime: i64,
        atime_ns: u32,
        mtime_ns: u32,
        ctime_ns: u32,
        mode: u32,
        links: u32,
        uid: u32,
        gid: u32,
        device: u32,
        block_size_bytes: u32,
        unused: u32,
    }
    /// A file in a reply, and for how long the kernel may cache its name and its attributes.
    EntryOut {
        node: u64,
        generation: u64,
        name_ttl: u64,
        attr_ttl: u64,
        name_ttl_ns: u32,
        attr_ttl_ns: u32,
        attr: Attr,
    }
    /// The reply to `GETATTR` and `SETATTR`.
    AttrOut {
        ttl: u64,
        ttl_ns: u32,
        unused: u32,
        attr: Attr,
    }
    /// A time in a reply to `STATX`.
    StatxTime {
        seconds: i64,
        nanoseconds: u32,
        unused: u32,
    }
    /// The reply to `STATX`: the time for which the kernel may cache it, and a `struct statx` of statx(2).
    StatxOut {
        ttl: u64,
        ttl_ns: u32,
        flags: u32,
        unused_out: [u64; 2],
        mask: u32,
        block_size_bytes: u32,
        attributes: u64,
        links: u32,
        uid: u32,
        gid: u32,
        mode: u16,
        unused_mode: u16,
        ino: u64,
        size_bytes: u64,
        blocks_512: u64,
        attributes_mask: u64,
        atime: StatxTime,
        btime: StatxTime,
        ctime: StatxTime,
        mtime: StatxTime,
        device_major: u32,
        device_minor: u32,
        unused_device: u64,
        unused: [u64; 14],
    }
    ForgetIn { lookups: u64 }
    BatchForgetIn {
        count: u32,
        unused: u32,
    }
    ForgetOne {
        node: u64,
        lookups: u64,
    }
    MknodIn {
        mode: u32,
        device: u32,
        umask: u32,
        unused: u32,
    }
    MkdirIn {
        mode: u32,
        umask: u32,
    }
    RenameIn { new_parent: u64 }
    Rename2In {
        new_parent: u64,
        flags: u32,
        unused: u32,
    }
    LinkIn { node: u64 }
    /// `valid` says which attributes to set (bits of [`set`]).
    SetAttrIn {
        valid: u32,
        unused: u32,
        handle: u64,
        size_bytes: u64,
        unused_owner: u64,
        atime: i64,
        mtime: i64,
        ctime: i64,
        atime_ns: u32,
        mtime_ns: u32,
        ctime_ns: u32,
        mode: u32,
        unused_mode: u32,
        uid: u32,
        gid: u32,
        unused_gid: u32,
    }
    /// The argument of `CREATE` and of `TMPFILE`.
    CreateIn {
        flags: u32,
        mode: u32,
        umask: u32,
        unused: u32,
    }
    OpenOut {
        handle: u64,
        flags: u32,
        unused: u32,
    }
    /// The start of the argument of `RELEASE`.
    ReleaseIn { handle: u64 }
    /// The argument of `READ`, `READDIR` and `READDIRPLUS`.
    ReadIn {
        handle: u64,
        offset_bytes: u64,
        size_bytes: u32,
        unused: u32,
        unused_owner: u64,
        open_flags: u32,
        unused_padding: u32,
    }
    WriteIn {
        handle: u64,
        offset_bytes: u64,
        size_bytes: u32,
        flags: u32,
        unused_owner: u64,
        unused_flags: u64,
    }
    WriteOut {
        size_bytes: u32,
        unused: u32,
    }
    StatfsOut {
        blocks: u64,
        free_blocks: u64,
        available_blocks: u64,
        files: u64,
        free_files: u64,
        block_size_bytes: u32,
        name_bytes: u32,
        fragment_bytes: u32,
        unused: [u32; 7],
    }
    FsyncIn {
        handle: u64,
        flags: u32,
        unused: u32,
    }
    /// The argument of `SETXATTR` without the capability `SETXATTR_EXT`.
    SetXattrIn {
        size_bytes: u32,
        flags: u32,
    }
    /// The argument of `GETXATTR` and `LISTXATTR`. With size 0, the reply is the size of the value or list.
    GetXattrIn {
        size_bytes: u32,
        unused: u32,
    }
    GetXattrOut {
        size_bytes: u32,
        unused: u32,
    }
    /// The first 16 bytes of the argument of `INIT`. Every supported version has them.
    InitIn {
        major: u32,
        minor: u32,
        max_readahead_bytes: u32,
        flags: u32,
    }
    InitOut {
        major: u32,
        minor: u32,
        max_readahead_bytes: u32,
        flags: u32,
        max_background: u16,
        congestion_threshold: u16,
        max_write_bytes: u32,
        time_granularity_ns: u32,
        max_pages: u16,
        map_alignment: u16,
        flags2: u32,
        unused: [u32; 7],
    }
    IoctlIn {
        handle: u64,
        flags: u32,
        number: u32,
        argument: u64,
        in_bytes: u32,
        out_bytes: u32,
    }
    IoctlOut {
        result: i32,
        unused: [u32; 3],
    }
    FallocateIn {
        handle: u64,
        offset_bytes: u64,
        len_bytes: u64,
        mode: i32,
        unused: u32,
    }
    LseekIn {
        handle: u64,
        offset_bytes: i64,
        whence: i32,
        unused: u32,
    }
    LseekOut { offset_bytes: u64 }
    CopyFileRangeIn {
        handle_in: u64,
        offset_in_bytes: u64,
        node_out: u64,
        handle_out: u64,
        offset_out_bytes: u64,
        len_bytes: u64,
        flags: u64,
    }
    /// The start of a directory entry. The name follows, then zeros up to a multiple of 8 bytes.
    Dirent {
        ino: u64,
        next_cookie: u64,
        name_bytes: u32,
        file_type: u32,
    }
    /// The notification that cached attributes are invalid. If `offset_bytes` is not negative, cached pages
    /// are invalid too.
    InvalInodeOut {
        node: u64,
        offset_bytes: i64,
        len_bytes: i64,
    }
}

/// The operation codes ([`InHeader::opcode`]).
pub(crate) mod opcode {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const SETXATTR: u32 = 21;
    pub(crate) const GETXATTR: u32 = 22;
    pub(crate) const LISTXATTR: u32 = 23;
    pub(crate) const REMOVEXATTR: u32 = 24;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const IOCTL: u32 = 39;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const READDIRPLUS: u32 = 44;
    pub(crate) const RENAME2: u32 = 45;
    pub(crate) const LSEEK: u32 = 46;
    pub(crate) const COPY_FILE_RANGE: u32 = 47;
    pub(crate) const TMPFILE: u32 = 51;
    pub(crate) const STATX: u32 = 52;
}

/// The bits of [`SetAttrIn::valid`].
pub(crate) mod set {
    pub(crate) const MODE: u32 = 1 << 0;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const CTIME: u32 = 1 << 10;
}

/// The data comes from the kernel's page cache, not directly from a program ([`WriteIn::flags`]).
pub(crate) const WRITE_CACHE: u32 = 1 << 0;
/// The write must remove set-id bits ([`WriteIn::flags`]).
pub(crate) const WRITE_KILL_SUIDGID: u32 = 1 << 2;
/// Sync only what is needed to read the data ([`FsyncIn::flags`]).
pub(crate) const FSYNC_DATA_ONLY: u32 = 1 << 0;

/// The bits of [`OpenOut::flags`].
pub(crate) const OPEN_DIRECT_IO: u32 = 1 << 0;
pub(crate) const OPEN_KEEP_CACHE: u32 = 1 << 1;
pub(crate) const OPEN_CACHE_DIR: u32 = 1 << 3;

/// The kind of the notification whose body is an [`InvalInodeOut`].
pub(crate) const NOTIFY_INVAL_INODE: i32 = 2;

/// The header of a ring entry. In a request, `header` contains an [`InHeader`], and `structure` contains the
/// structure of the operation. In a reply, `header` contains an [`OutHeader`]. Names and data are stored
/// outside this header; `data_bytes` is their length.
#[repr(C)]
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
pub(crate) struct RingHeader {
    pub header: [u8; 128],
    pub structure: [u8; 128],
    pub flags: u64,
    /// Identifies the request in the command that commits its reply.
    pub commit_id: u64,
    pub data_bytes: u32,
    pub unused: u32,
    pub reserved: u64,
}

structures! {
    /// The argument of a ring command.
    RingCommand {
        flags: u64,
        commit_id: u64,
        queue: u16,
        unused: [u16; 3],
    }
}

/// The command that registers an entry and gives it to the kernel.
pub(crate) const RING_REGISTER: u32 = 1;
/// The command that commits the reply in an entry, and gives the entry back to the kernel.
pub(crate) const RING_COMMIT_AND_FETCH: u32 = 2;

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes are those of the kernel's header file.
    #[test]
    fn structures_have_the_sizes_of_the_protocol() {
        let sizes = [
            (size_of::<InHeader>(), 40),
            (size_of::<OutHeader>(), 16),
            (size_of::<Attr>(), 88),
            (size_of::<EntryOut>(), 128),
            (size_of::<AttrOut>(), 104),
            (size_of::<StatxOut>(), 288),
            (size_of::<SetAttrIn>(), 88),
            (size_of::<ReadIn>(), 40),
            (size_of::<WriteIn>(), 40),
            (size_of::<StatfsOut>(), 80),
            (size_of::<InitOut>(), 64),
            (size_of::<IoctlIn>(), 32),
            (size_of::<IoctlOut>(), 16),
            (size_of::<FallocateIn>(), 32),
            (size_of::<LseekIn>(), 24),
            (size_of::<CopyFileRangeIn>(), 56),
            (size_of::<Dirent>(), 24),
            (size_of::<RingHeader>(), 288),
            (size_of::<RingCommand>(), 24),
        ];
        for (index, (size, expected)) in sizes.into_iter().enumerate() {
            assert_eq!(size, expected, "structure {index} of the list");
        }
    }
}
