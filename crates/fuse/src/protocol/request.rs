//! Parses requests.

use super::abi::{
    BatchForgetIn, CopyFileRangeIn, CreateIn, FallocateIn, ForgetIn, ForgetOne, FsyncIn,
    GetXattrIn, InHeader, IoctlIn, LinkIn, LseekIn, MkdirIn, MknodIn, ReadIn, ReleaseIn, Rename2In,
    RenameIn, SetAttrIn, SetXattrIn, WriteIn, opcode,
};
use crate::changes::{Caller, Name};
use crate::node::NodeId;
use zerocopy::FromBytes;

/// The size of a [`ForgetOne`] in bytes.
const FORGET_BYTES: u32 = 16;

/// The request does not have the format of its operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a request of the kernel is malformed")]
pub(crate) struct Malformed;

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The number of the operation ([`opcode`]).
    pub opcode: u32,
    /// The number of the request, which the reply repeats.
    pub unique: u64,
    /// The file of the request.
    pub node: NodeId,
    /// The process on whose behalf the kernel sends the request.
    pub caller: Caller,
}

/// A request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub header: Header,
    pub operation: Operation<'a>,
}

/// The operation that a request names, and its arguments. Names contain no NUL.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation<'a> {
    Lookup(&'a [u8]),
    /// Subtracts from the lookup count of the node. The request has no reply.
    Forget(ForgetIn),
    /// Subtracts from the lookup counts of several nodes. The request has no reply.
    BatchForget(ForgetList<'a>),
    GetAttr,
    Statx,
    SetAttr(SetAttrIn),
    ReadLink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod(MknodIn, &'a [u8]),
    Mkdir(MkdirIn, &'a [u8]),
    Unlink(&'a [u8]),
    Rmdir(&'a [u8]),
    Rename {
        old_name: &'a [u8],
        new: Name<'a>,
        flags: u32,
    },
    Link(LinkIn, &'a [u8]),
    Open,
    Create(CreateIn, &'a [u8]),
    /// Creates and opens a file without a name.
    Tmpfile(CreateIn),
    Release(ReleaseIn),
    Read(ReadIn),
    Write(WriteIn, &'a [u8]),
    Statfs,
    Fsync(FsyncIn),
    SetXattr {
        mode: SetXattrIn,
        name: &'a [u8],
        value: &'a [u8],
    },
    GetXattr(GetXattrIn, &'a [u8]),
    ListXattr(GetXattrIn),
    RemoveXattr(&'a [u8]),
    OpenDir,
    ReadDir(ReadIn),
    ReadDirPlus(ReadIn),
    ReleaseDir,
    Ioctl(IoctlIn, &'a [u8]),
    Fallocate(FallocateIn),
    Lseek(LseekIn),
    CopyFileRange(CopyFileRangeIn),
    /// The kernel ends the connection.
    Destroy,
    /// An operation that this server does not implement.
    Unknown,
}

/// The nodes of a `BATCH_FORGET`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ForgetList<'a>(&'a [u8]);

impl ForgetList<'_> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = ForgetOne> {
        let chunks = self.0.chunks_exact(size_of::<ForgetOne>());
        chunks.filter_map(|bytes| ForgetOne::read_from_bytes(bytes).ok())
    }
}

/// The argument of a request: a structure, then names and data.
#[derive(Clone, Copy, Debug)]
struct Argument<'a> {
    /// The structure, if it is not at the start of `rest`.
    structure: Option<&'a [u8]>,
    rest: &'a [u8],
}

impl Header {
    /// Parses the header at the start of `bytes`, and returns it with the bytes after it.
    pub(crate) fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (header, rest) = InHeader::read_from_prefix(bytes).map_err(|_| Malformed)?;
        let parsed = Self {
            opcode: header.opcode,
            unique: header.unique,
            node: NodeId(header.node),
            caller: Caller {
                uid: header.uid,
                gid: header.gid,
                thread: header.pid,
            },
        };
        Ok((parsed, rest))
    }

    /// Returns the file whose content the request reads or changes. `structure` begins with the structure of the operation.
    pub(crate) fn target(&self, structure: &[u8]) -> NodeId {
        match self.opcode {
            opcode::COPY_FILE_RANGE => CopyFileRangeIn::read_from_prefix(structure)
                .map_or(self.node, |(range, _)| NodeId(range.node_out)),
            _ => self.node,
        }
    }

    /// Returns whether the reply may contain much data and the request contains none. Both can then use the
    /// same memory.
    pub(crate) fn wants_data(&self) -> bool {
        matches!(
            self.opcode,
            opcode::READ | opcode::READDIR | opcode::READDIRPLUS
        )
    }

    /// Returns whether the request is for a file that a program opened before, or is sent by the kernel
    /// itself. The caller in the header may then be a process that did not open the file.
    pub(crate) fn uses_open_file(&self) -> bool {
        matches!(
            self.opcode,
            opcode::FORGET
                | opcode::BATCH_FORGET
                | opcode::READ
                | opcode::WRITE
                | opcode::READDIR
                | opcode::READDIRPLUS
                | opcode::FSYNC
                | opcode::FSYNCDIR
                | opcode::RELEASE
                | opcode::RELEASEDIR
                | opcode::DESTROY
        )
    }
}

impl<'a> Request<'a> {
    /// Returns the maximum length of the body of the reply, in bytes, if the request reads a file or a directory.
    pub(crate) fn reply_bytes(&self) -> Option<usize> {
        match self.operation {
            Operation::Read(read) | Operation::ReadDir(read) | Operation::ReadDirPlus(read) => {
                Some(read.size_bytes as usize)
            }
            _ => None,
        }
    }

    /// Parses a request in one piece, as /dev/fuse returns it. `argument` is what follows the header.
    pub(crate) fn parse(header: Header, argument: &'a [u8]) -> Result<Self, Malformed> {
        Self::parse_argument(
            header,
            Argument {
                structure: None,
                rest: argument,
            },
        )
    }

    /// Parses a request in two pieces, as a ring contains it: the structure of the operation, and what follows.
    pub(crate) fn parse_split(
        header: Header,
        structure: &'a [u8],
        rest: &'a [u8],
    ) -> Result<Self, Malformed> {
        Self::parse_argument(
            header,
            Argument {
                structure: Some(structure),
                rest,
            },
        )
    }

    fn parse_argument(header: Header, mut argument: Argument<'a>) -> Result<Self, Malformed> {
        let rest = &mut argument;
        let operation = match header.opcode {
            opcode::LOOKUP => Operation::Lookup(rest.name()?),
            opcode::FORGET => Operation::Forget(rest.structure()?),
            opcode::BATCH_FORGET => {
                let list: BatchForgetIn = rest.structure()?;
                let list_bytes = list.count.checked_mul(FORGET_BYTES).ok_or(Malformed)?;
                Operation::BatchForget(ForgetList(rest.data(list_bytes)?))
            }
            opcode::GETATTR => Operation::GetAttr,
            opcode::STATX => Operation::Statx,
            opcode::SETATTR => Operation::SetAttr(rest.structure()?),
            opcode::READLINK => Operation::ReadLink,
            opcode::SYMLINK => Operation::Symlink {
                name: rest.name()?,
                target: rest.name()?,
            },
            opcode::MKNOD => Operation::Mknod(rest.structure()?, rest.name()?),
            opcode::MKDIR => Operation::Mkdir(rest.structure()?, rest.name()?),
            opcode::UNLINK => Operation::Unlink(rest.name()?),
            opcode::RMDIR => Operation::Rmdir(rest.name()?),
            opcode::RENAME => {
                let RenameIn { new_parent } = rest.structure()?;
                rest.rename(new_parent, 0)?
            }
            opcode::RENAME2 => {
                let to: Rename2In = rest.structure()?;
                rest.rename(to.new_parent, to.flags)?
            }
            opcode::LINK => Operation::Link(rest.structure()?, rest.name()?),
            opcode::OPEN => Operation::Open,
            opcode::CREATE => Operation::Create(rest.structure()?, rest.name()?),
            opcode::TMPFILE => Operation::Tmpfile(rest.structure()?),
            opcode::RELEASE => Operation::Release(rest.structure()?),
            opcode::READ => Operation::Read(rest.structure()?),
            opcode::WRITE => {
                let write: WriteIn = rest.structure()?;
                Operation::Write(write, rest.data(write.size_bytes)?)
            }
            opcode::STATFS => Operation::Statfs,
            opcode::FSYNC | opcode::FSYNCDIR => Operation::Fsync(rest.structure()?),
            opcode::SETXATTR => {
                let mode: SetXattrIn = rest.structure()?;
                Operation::SetXattr {
                    mode,
                    name: rest.name()?,
                    value: rest.data(mode.size_bytes)?,
                }
            }
            opcode::GETXATTR => Operation::GetXattr(rest.structure()?, rest.name()?),
            opcode::LISTXATTR => Operation::ListXattr(rest.structure()?),
            opcode::REMOVEXATTR => Operation::RemoveXattr(rest.name()?),
            opcode::OPENDIR => Operation::OpenDir,
            opcode::READDIR => Operation::ReadDir(rest.structure()?),
            opcode::READDIRPLUS => Operation::ReadDirPlus(rest.structure()?),
            opcode::RELEASEDIR => Operation::ReleaseDir,
            opcode::IOCTL => {
                let ioctl: IoctlIn = rest.structure()?;
                Operation::Ioctl(ioctl, rest.data(ioctl.in_bytes)?)
            }
            opcode::FALLOCATE => Operation::Fallocate(rest.structure()?),
            opcode::LSEEK => Operation::Lseek(rest.structure()?),
            opcode::COPY_FILE_RANGE => Operation::CopyFileRange(rest.structure()?),
            opcode::DESTROY => Operation::Destroy,
            _ => Operation::Unknown,
        };
        Ok(Self { header, operation })
    }
}

impl<'a> Argument<'a> {
    /// Takes the structure of the operation, which precedes all names and data.
    fn structure<T: FromBytes>(&mut self) -> Result<T, Malformed> {
        if let Some(structure) = self.structure {
            let (value, _) = T::read_from_prefix(structure).map_err(|_| Malformed)?;
            return Ok(value);
        }
        let (value, rest) = T::read_from_prefix(self.rest).map_err(|_| Malformed)?;
        self.rest = rest;
        Ok(value)
    }

    /// Takes a name and the NUL that ends it. Returns the name without the NUL.
    fn name(&mut self) -> Result<&'a [u8], Malformed> {
        let end = self
            .rest
            .iter()
            .position(|&byte| byte == 0)
            .ok_or(Malformed)?;
        let (name, rest) = self.rest.split_at(end);
        self.rest = &rest[1..];
        Ok(name)
    }

    /// Takes `len` bytes of data.
    fn data(&mut self, len: u32) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(len).map_err(|_| Malformed)?;
        let (data, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(data)
    }

    fn rename(&mut self, new_parent: u64, flags: u32) -> Result<Operation<'a>, Malformed> {
        Ok(Operation::Rename {
            old_name: self.name()?,
            new: Name {
                parent: NodeId(new_parent),
                name: self.name()?,
            },
            flags,
        })
    }
}

#[cfg(test)]
impl Header {
    /// Returns the header of a request for the root directory. The caller is root, in a process that is not
    /// visible in this PID namespace.
    pub(crate) fn of_root(opcode: u32) -> Self {
        Self {
            opcode,
            unique: 1,
            node: NodeId::ROOT,
            caller: Caller {
                uid: 0,
                gid: 0,
                thread: 0,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use zerocopy::IntoBytes;

    fn header(opcode: u32) -> Header {
        let bytes = InHeader {
            opcode,
            unique: 7,
            node: 1,
            uid: 1000,
            gid: 100,
            pid: 42,
            ..InHeader::default()
        };
        Header::parse(bytes.as_bytes()).unwrap().0
    }

    #[test]
    fn header_has_the_caller_and_the_node() {
        let header = header(opcode::GETATTR);
        assert_eq!((header.unique, header.node), (7, NodeId::ROOT));
        let caller = Caller {
            uid: 1000,
            gid: 100,
            thread: 42,
        };
        assert_eq!(header.caller, caller);
        assert_eq!(Header::parse(&[0; 39]).unwrap_err(), Malformed);
    }

    #[test]
    fn target_of_a_copy_is_the_file_that_it_changes() {
        let range = CopyFileRangeIn {
            node_out: 12,
            ..CopyFileRangeIn::default()
        };
        let copy = header(opcode::COPY_FILE_RANGE);
        assert_eq!(copy.target(range.as_bytes()), NodeId(12));
        assert_eq!(copy.target(&[0; 55]), NodeId::ROOT);
        assert_eq!(header(opcode::WRITE).target(range.as_bytes()), NodeId::ROOT);
    }

    #[test]
    fn both_forms_of_a_request_are_parsed_alike() {
        let structure = MknodIn {
            mode: 0o100_644,
            umask: 0o22,
            ..MknodIn::default()
        };
        let whole = [structure.as_bytes(), b"name\0"].concat();
        let mut padded = structure.as_bytes().to_vec();
        padded.resize(128, 0);
        let header = header(opcode::MKNOD);
        for request in [
            Request::parse(header, &whole),
            Request::parse_split(header, &padded, b"name\0"),
        ] {
            let Operation::Mknod(made, name) = request.unwrap().operation else {
                panic!("not a mknod");
            };
            assert_eq!(
                (made.mode, made.umask, name),
                (0o100_644, 0o22, &b"name"[..])
            );
        }
    }

    #[test]
    fn rename_has_two_names() {
        let to = Rename2In {
            new_parent: 12,
            flags: 1,
            unused: 0,
        };
        let bytes = [to.as_bytes(), b"old\0new\0"].concat();
        let request = Request::parse(header(opcode::RENAME2), &bytes).unwrap();
        let Operation::Rename {
            old_name,
            new,
            flags,
        } = request.operation
        else {
            panic!("not a rename");
        };
        assert_eq!((old_name, new.name, flags), (&b"old"[..], &b"new"[..], 1));
        assert_eq!(new.parent, NodeId(12));
    }

    #[test]
    fn forgotten_nodes_are_listed() {
        let list = BatchForgetIn {
            count: 2,
            unused: 0,
        };
        let one = |node, lookups| ForgetOne { node, lookups };
        let bytes = [list.as_bytes(), [one(12, 3), one(13, 1)].as_bytes()].concat();
        let request = Request::parse(header(opcode::BATCH_FORGET), &bytes).unwrap();
        let Operation::BatchForget(forgotten) = request.operation else {
            panic!("not a list");
        };
        let forgotten: Vec<_> = forgotten
            .iter()
            .map(|one| (one.node, one.lookups))
            .collect();
        assert_eq!(forgotten, [(12, 3), (13, 1)]);
    }

    /// Parses each operation from arguments of every length up to 255 bytes. They contain no NUL.
    #[test]
    fn short_arguments_are_errors_and_never_panic() {
        let whole = [0xff; 256];
        for opcode in 0..64 {
            for len in 0..whole.len() {
                let _ = Request::parse(header(opcode), &whole[..len]);
                let _ = Request::parse_split(header(opcode), &whole[..len], &whole[len..]);
            }
        }
        for opcode in [opcode::LOOKUP, opcode::MKNOD, opcode::RENAME, opcode::WRITE] {
            assert!(Request::parse(header(opcode), &whole).is_err(), "{opcode}");
        }
    }

    #[test]
    fn unknown_operation_is_not_an_error() {
        let request = Request::parse(header(4000), &[]).unwrap();
        assert!(matches!(request.operation, Operation::Unknown));
    }
}
