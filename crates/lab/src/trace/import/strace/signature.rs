//! The meaning of the arguments of calls on files.

/// The meaning of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The starting directory of the following path.
    At,
    Path,
    /// A descriptor.
    Fd,
    /// A number of bytes of a file.
    Length,
    /// An offset in a file.
    Offset,
    /// Names of bits, or the reference point of lseek.
    Flags,
    /// Irrelevant.
    Other,
}

use Role::{At, Fd, Flags, Length, Offset, Other, Path};

/// The calls, sorted by name.
const SIGNATURES: &[(&str, &[Role])] = &[
    ("access", &[Path, Flags]),
    ("chdir", &[Path]),
    ("chmod", &[Path, Other]),
    ("chown", &[Path, Other, Other]),
    ("clone", &[Flags, Flags, Flags, Flags]),
    ("clone3", &[Flags]),
    ("close", &[Fd]),
    ("close_range", &[Fd, Length, Flags]),
    ("copy_file_range", &[Fd, Other, Other, Other, Length]),
    ("creat", &[Path, Other]),
    ("dup", &[Fd]),
    ("dup2", &[Fd]),
    ("dup3", &[Fd, Other, Flags]),
    ("execve", &[Path]),
    ("execveat", &[At, Path]),
    ("faccessat", &[At, Path, Flags]),
    ("faccessat2", &[At, Path, Flags]),
    ("fadvise64", &[Fd, Offset, Length, Flags]),
    ("fallocate", &[Fd, Flags, Offset, Length]),
    ("fchdir", &[Fd]),
    ("fchmod", &[Fd, Other]),
    ("fchmodat", &[At, Path, Other]),
    ("fchown", &[Fd, Other, Other]),
    ("fchownat", &[At, Path, Other, Other, Flags]),
    ("fcntl", &[Fd, Flags, Flags]),
    ("fdatasync", &[Fd]),
    ("fstat", &[Fd]),
    ("fsync", &[Fd]),
    ("ftruncate", &[Fd, Length]),
    ("getdents", &[Fd]),
    ("getdents64", &[Fd]),
    ("lchown", &[Path, Other, Other]),
    ("lgetxattr", &[Path, Other]),
    ("link", &[Path, Path]),
    ("linkat", &[At, Path, At, Path, Flags]),
    ("lseek", &[Fd, Offset, Flags]),
    ("lstat", &[Path]),
    ("mkdir", &[Path, Other]),
    ("mkdirat", &[At, Path, Other]),
    ("mknod", &[Path, Other]),
    ("mknodat", &[At, Path, Other]),
    ("mmap", &[Other, Length, Other, Flags, Fd, Offset]),
    ("newfstatat", &[At, Path, Other, Flags]),
    ("open", &[Path, Flags]),
    ("openat", &[At, Path, Flags]),
    ("openat2", &[At, Path, Flags]),
    ("pread64", &[Fd, Other, Length, Offset]),
    ("preadv", &[Fd, Other, Other, Offset]),
    ("preadv2", &[Fd, Other, Other, Offset]),
    ("pwrite64", &[Fd, Other, Length, Offset]),
    ("pwritev", &[Fd, Other, Other, Offset]),
    ("pwritev2", &[Fd, Other, Other, Offset]),
    ("read", &[Fd, Other, Length]),
    ("readahead", &[Fd, Offset, Length]),
    ("readlink", &[Path]),
    ("readlinkat", &[At, Path]),
    ("readv", &[Fd]),
    ("rename", &[Path, Path]),
    ("renameat", &[At, Path, At, Path]),
    ("renameat2", &[At, Path, At, Path, Flags]),
    ("rmdir", &[Path]),
    ("sendfile", &[Other, Fd, Other, Length]),
    ("stat", &[Path]),
    ("statfs", &[Path]),
    ("statx", &[At, Path, Flags]),
    ("symlink", &[Other, Path]),
    ("symlinkat", &[Other, At, Path]),
    ("truncate", &[Path, Length]),
    ("unlink", &[Path]),
    ("unlinkat", &[At, Path, Flags]),
    ("utimensat", &[At, Path, Other, Flags]),
    ("write", &[Fd, Other, Length]),
    ("writev", &[Fd]),
];

/// Returns the meaning of the arguments of the call `name`; empty for calls that do not concern
/// files.
pub(super) fn of(name: &[u8]) -> &'static [Role] {
    SIGNATURES
        .binary_search_by_key(&name, |(name, _)| name.as_bytes())
        .map_or(&[], |at| SIGNATURES[at].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_is_found_by_its_name() {
        for (name, roles) in SIGNATURES {
            assert_eq!(of(name.as_bytes()), *roles, "{name}");
        }
        assert!(of(b"futex").is_empty());
    }
}
