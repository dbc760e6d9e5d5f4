//! The names of operations and of errors.

use crate::protocol::abi::opcode;
use rustix::io::Errno;

/// Returns the name of the operation `opcode`, or `None` if this server does not know the operation.
pub(super) fn operation_name(opcode: u32) -> Option<&'static str> {
    Some(match opcode {
        opcode::LOOKUP => "lookup",
        opcode::FORGET => "forget",
        opcode::GETATTR => "getattr",
        opcode::SETATTR => "setattr",
        opcode::READLINK => "readlink",
        opcode::SYMLINK => "symlink",
        opcode::MKNOD => "mknod",
        opcode::MKDIR => "mkdir",
        opcode::UNLINK => "unlink",
        opcode::RMDIR => "rmdir",
        opcode::RENAME => "rename",
        opcode::LINK => "link",
        opcode::OPEN => "open",
        opcode::READ => "read",
        opcode::WRITE => "write",
        opcode::STATFS => "statfs",
        opcode::RELEASE => "release",
        opcode::FSYNC => "fsync",
        opcode::SETXATTR => "setxattr",
        opcode::GETXATTR => "getxattr",
        opcode::LISTXATTR => "listxattr",
        opcode::REMOVEXATTR => "removexattr",
        opcode::OPENDIR => "opendir",
        opcode::READDIR => "readdir",
        opcode::RELEASEDIR => "releasedir",
        opcode::FSYNCDIR => "fsyncdir",
        opcode::CREATE => "create",
        opcode::DESTROY => "destroy",
        opcode::IOCTL => "ioctl",
        opcode::BATCH_FORGET => "batch_forget",
        opcode::FALLOCATE => "fallocate",
        opcode::READDIRPLUS => "readdirplus",
        opcode::RENAME2 => "rename2",
        opcode::LSEEK => "lseek",
        opcode::COPY_FILE_RANGE => "copy_file_range",
        opcode::TMPFILE => "tmpfile",
        opcode::STATX => "statx",
        // Operations that this server declines.
        25 => "flush",
        31 => "getlk",
        32 => "setlk",
        33 => "setlkw",
        34 => "access",
        36 => "interrupt",
        37 => "bmap",
        40 => "poll",
        50 => "syncfs",
        _ => return None,
    })
}

/// Returns the name of an error, or `None` if no operation of a file system is known to fail with it.
pub(super) fn errno_name(errno: Errno) -> Option<&'static str> {
    Some(match errno {
        Errno::PERM => "EPERM",
        Errno::NOENT => "ENOENT",
        Errno::INTR => "EINTR",
        Errno::IO => "EIO",
        Errno::NXIO => "ENXIO",
        Errno::TOOBIG => "E2BIG",
        Errno::NOEXEC => "ENOEXEC",
        Errno::BADF => "EBADF",
        Errno::AGAIN => "EAGAIN",
        Errno::NOMEM => "ENOMEM",
        Errno::ACCESS => "EACCES",
        Errno::BUSY => "EBUSY",
        Errno::EXIST => "EEXIST",
        Errno::XDEV => "EXDEV",
        Errno::NODEV => "ENODEV",
        Errno::NOTDIR => "ENOTDIR",
        Errno::ISDIR => "EISDIR",
        Errno::INVAL => "EINVAL",
        Errno::NOTTY => "ENOTTY",
        Errno::TXTBSY => "ETXTBSY",
        Errno::FBIG => "EFBIG",
        Errno::NOSPC => "ENOSPC",
        Errno::ROFS => "EROFS",
        Errno::MLINK => "EMLINK",
        Errno::RANGE => "ERANGE",
        Errno::NAMETOOLONG => "ENAMETOOLONG",
        Errno::NOSYS => "ENOSYS",
        Errno::NOTEMPTY => "ENOTEMPTY",
        Errno::LOOP => "ELOOP",
        Errno::NODATA => "ENODATA",
        Errno::TIME => "ETIME",
        Errno::OVERFLOW => "EOVERFLOW",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::TIMEDOUT => "ETIMEDOUT",
        Errno::STALE => "ESTALE",
        Errno::UCLEAN => "EUCLEAN",
        Errno::DQUOT => "EDQUOT",
        _ => return None,
    })
}

/// Returns whether the kernel sends the operation to release its memory, not because a program waits for the answer.
pub(super) fn is_housekeeping(opcode: u32) -> bool {
    matches!(
        opcode,
        opcode::FORGET
            | opcode::BATCH_FORGET
            | opcode::RELEASE
            | opcode::RELEASEDIR
            | opcode::DESTROY
    )
}
