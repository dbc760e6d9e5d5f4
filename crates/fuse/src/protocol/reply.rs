//! Builds the bodies of replies.

use super::abi::{Dirent, EntryOut, opcode};
use crate::node::NodeId;
use larder::FileKind;
use rustix::io::Errno;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Directory entries are padded to a multiple of this number of bytes.
const DIRENT_ALIGN_BYTES: usize = 8;

/// The body of a reply, in memory of a fixed size. The bytes after the first [`Body::len`] are unspecified.
#[derive(Debug)]
pub(crate) struct Body<'a> {
    memory: &'a mut [u8],
    len: usize,
}

impl<'a> Body<'a> {
    /// Starts an empty body in `memory`.
    pub(crate) fn new(memory: &'a mut [u8]) -> Self {
        Self { memory, len: 0 }
    }

    /// Returns the length of the body in bytes.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Empties the body.
    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Appends `bytes`. Fails with `ERANGE` if the memory is too small.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<(), Errno> {
        let memory = self.memory.get_mut(self.len..self.len + bytes.len());
        memory.ok_or(Errno::RANGE)?.copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// Appends a structure.
    pub(crate) fn add_structure(
        &mut self,
        structure: &(impl IntoBytes + Immutable),
    ) -> Result<(), Errno> {
        self.add(structure.as_bytes())
    }

    /// Appends at most `limit_bytes` bytes, written by `fill`, which returns their number.
    pub(crate) fn fill(
        &mut self,
        limit_bytes: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
    ) -> Result<(), Errno> {
        let end = self.memory.len().min(self.len + limit_bytes);
        let memory = &mut self.memory[self.len..end];
        let room_bytes = memory.len();
        self.len += fill(memory)?.min(room_bytes);
        Ok(())
    }

    /// Appends a directory entry, if the body then has at most `limit_bytes` bytes and fits in its memory.
    /// Returns whether the entry was appended. For `READDIRPLUS`, `plus` describes the file of the entry.
    pub(crate) fn add_entry(
        &mut self,
        limit_bytes: usize,
        plus: Option<&EntryOut>,
        entry: &larder::DirEntry<'_>,
        kind: FileKind,
    ) -> bool {
        let plus_bytes = plus.map_or(0, |_| size_of::<EntryOut>());
        let whole = plus_bytes + size_of::<Dirent>() + entry.name.len();
        let padded = whole.next_multiple_of(DIRENT_ALIGN_BYTES);
        let end = self.len + padded;
        let Some(memory) = self.memory.get_mut(self.len..end) else {
            return false;
        };
        if end > limit_bytes {
            return false;
        }
        let dirent = Dirent {
            ino: entry.ino.0.into(),
            next_cookie: entry.next_cookie,
            name_bytes: u32::try_from(entry.name.len()).unwrap_or(0),
            file_type: type_bits(kind) >> 12,
        };
        let (plus_memory, rest) = memory.split_at_mut(plus_bytes);
        if let Some(plus) = plus {
            plus_memory.copy_from_slice(plus.as_bytes());
        }
        let (dirent_memory, rest) = rest.split_at_mut(size_of::<Dirent>());
        dirent_memory.copy_from_slice(dirent.as_bytes());
        let (name, padding) = rest.split_at_mut(entry.name.len());
        name.copy_from_slice(entry.name);
        padding.fill(0);
        self.len = end;
        true
    }
}

/// Returns the nodes in the body of a reply to `LOOKUP` or `READDIRPLUS`, except 0. The kernel increases the
/// lookup count of each of them when it receives the reply. For other operations, returns an empty list.
pub(crate) fn nodes_in_reply(opcode: u32, body: &[u8]) -> Vec<NodeId> {
    let mut nodes = Vec::new();
    let mut rest = match opcode {
        opcode::LOOKUP | opcode::READDIRPLUS => body,
        _ => &[],
    };
    while let Ok((entry, after)) = EntryOut::read_from_prefix(rest) {
        if entry.node != 0 {
            nodes.push(NodeId(entry.node));
        }
        let padded = Dirent::read_from_prefix(after).map_or(0, |(dirent, _)| {
            (size_of::<Dirent>() + dirent.name_bytes as usize).next_multiple_of(DIRENT_ALIGN_BYTES)
        });
        rest = after.get(padded..).unwrap_or_default();
    }
    nodes
}

/// Returns the type of a file as mode bits (`S_IFMT`).
pub(crate) fn type_bits(kind: FileKind) -> u32 {
    let kind = match kind {
        FileKind::Regular => rustix::fs::FileType::RegularFile,
        FileKind::Directory => rustix::fs::FileType::Directory,
        FileKind::Symlink => rustix::fs::FileType::Symlink,
        FileKind::CharDevice => rustix::fs::FileType::CharacterDevice,
        FileKind::BlockDevice => rustix::fs::FileType::BlockDevice,
        FileKind::Fifo => rustix::fs::FileType::Fifo,
        FileKind::Socket => rustix::fs::FileType::Socket,
    };
    kind.as_raw_mode()
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder::{DirEntry, Ino};

    fn entry(name: &[u8]) -> DirEntry<'_> {
        DirEntry {
            ino: Ino(12),
            name,
            kind: Some(FileKind::Regular),
            next_cookie: 5,
        }
    }

    #[test]
    fn entries_are_padded_and_stop_at_the_limit() {
        let mut memory = [0xff; 128];
        let mut body = Body::new(&mut memory);
        assert!(body.add_entry(64, None, &entry(b"abc"), FileKind::Regular));
        assert_eq!(body.len(), 32);
        assert!(body.add_entry(64, None, &entry(b"12345678"), FileKind::Directory));
        assert_eq!(body.len(), 64);
        assert!(!body.add_entry(64, None, &entry(b"x"), FileKind::Regular));
        assert_eq!(memory[16..32], *b"\x03\0\0\0\x08\0\0\0abc\0\0\0\0\0");
        assert_eq!(memory[52..56], 4u32.to_ne_bytes());
    }

    #[test]
    fn nodes_of_lookups_and_listings_are_found() {
        let of = |node| EntryOut {
            node,
            ..EntryOut::default()
        };
        let mut memory = [0; 1000];
        let mut body = Body::new(&mut memory);
        for (node, name) in [(0, &b"."[..]), (12, b"abc"), (0, b"12345678"), (13, b"x")] {
            body.add_entry(1000, Some(&of(node)), &entry(name), FileKind::Regular);
        }
        let len = body.len();
        let listed = [12, 13].map(NodeId).to_vec();
        assert_eq!(nodes_in_reply(opcode::READDIRPLUS, &memory[..len]), listed);
        let found = |node: u64| nodes_in_reply(opcode::LOOKUP, of(node).as_bytes());
        assert_eq!((found(7), found(0)), (vec![NodeId(7)], Vec::new()));
        assert_eq!(nodes_in_reply(opcode::READ, &memory[..len]), Vec::new());
    }

    #[test]
    fn body_never_exceeds_its_memory() {
        let mut memory = [0; 40];
        let mut body = Body::new(&mut memory);
        body.add(&[1; 30]).unwrap();
        assert_eq!(body.add(&[1; 11]), Err(Errno::RANGE));
        assert!(!body.add_entry(1000, None, &entry(b"x"), FileKind::Regular));
        body.fill(1000, |memory| Ok(memory.len())).unwrap();
        assert_eq!(body.len(), 40);
    }
}
