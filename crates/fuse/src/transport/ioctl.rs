//! Answers ioctl(2) requests for file flags, the project ID, the label of the volume, and discarding free
//! space.
//!
//! The kernel derives the direction and the size of the data from the request number. It has already checked
//! that the caller may set flags. This module permits only root, and the user who mounted, to set the label and
//! to discard free space.

use crate::changes::Caller;
use crate::node::NodeId;
use crate::operations::{Answer, Operations};
use larder::Metadata;
use rustix::io::Errno;

/// The request numbers of `FS_IOC_GETFLAGS` and `FS_IOC_SETFLAGS`, in 64-bit and in 32-bit programs.
const GET_FLAGS: [u32; 2] = [0x8008_6601, 0x8004_6601];
const SET_FLAGS: [u32; 2] = [0x4008_6602, 0x4004_6602];
/// The request numbers of `FS_IOC_FSGETXATTR` and `FS_IOC_FSSETXATTR`, which pass the project ID, and the flags
/// in another format.
const GET_EXTENDED: u32 = 0x801c_581f;
const SET_EXTENDED: u32 = 0x401c_5820;
/// The request numbers of `FS_IOC_GETFSLABEL` and `FS_IOC_SETFSLABEL`.
const GET_LABEL: u32 = 0x8100_9431;
const SET_LABEL: u32 = 0x4100_9432;
/// The request number of `FITRIM`.
const TRIM: u32 = 0xc018_5879;

/// The size of `struct fsxattr`, and the offset of the project ID in this struct, in bytes.
const EXTENDED_BYTES: usize = 28;
const PROJECT_OFFSET: usize = 12;
/// The size of a label in a request, in bytes. A shorter label is padded with zeros.
const LABEL_BYTES: usize = 256;

/// Pairs of a flag of `FS_IOC_GETFLAGS` and the corresponding flag in `struct fsxattr`, in this order:
/// synchronous, immutable, append-only, not dumped, no access time, project inherited.
const EXTENDED_FLAGS: [(u32, u32); 6] = [
    (0x8, 0x20),
    (0x10, 0x8),
    (0x20, 0x10),
    (0x40, 0x80),
    (0x80, 0x40),
    (0x2000_0000, 0x200),
];

/// Returns whether the request `number` changes attributes of the file if it succeeds. The kernel does not know
/// of this change, so the caller must invalidate the kernel's cached attributes.
pub(super) fn changes_file(number: u32) -> bool {
    SET_FLAGS.contains(&number) || number == SET_EXTENDED
}

/// What a request changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    None,
    Change,
    /// A change that may take a long time.
    LongChange,
}

/// Returns what the request `number` changes.
pub(super) fn effect(number: u32) -> Effect {
    match number {
        TRIM => Effect::LongChange,
        SET_EXTENDED | SET_LABEL => Effect::Change,
        _ if SET_FLAGS.contains(&number) => Effect::Change,
        _ => Effect::None,
    }
}

/// Executes a request, and returns the bytes of the reply.
pub(super) fn answer(
    operations: &Operations,
    caller: Caller,
    node: NodeId,
    number: u32,
    input: &[u8],
    output_bytes: u32,
) -> Answer<Vec<u8>> {
    match number {
        _ if GET_FLAGS.contains(&number) => {
            let flags = operations.metadata(node)?.flags;
            Ok(if output_bytes == 8 {
                u64::from(flags).to_ne_bytes().to_vec()
            } else {
                flags.to_ne_bytes().to_vec()
            })
        }
        _ if SET_FLAGS.contains(&number) => {
            operations.set_flags(node, u32::from_ne_bytes(bytes(input, 0)?))?;
            Ok(Vec::new())
        }
        GET_EXTENDED => Ok(extended(&operations.metadata(node)?).to_vec()),
        SET_EXTENDED => {
            set_extended(operations, node, input)?;
            Ok(Vec::new())
        }
        GET_LABEL => {
            let mut label = operations.volume().info().label.into_bytes();
            label.resize(LABEL_BYTES, 0);
            Ok(label)
        }
        SET_LABEL => {
            check_privilege(caller)?;
            let label = input.split(|&byte| byte == 0).next().unwrap_or_default();
            operations.set_label(label)?;
            Ok(Vec::new())
        }
        TRIM => {
            check_privilege(caller)?;
            trim(operations, input)
        }
        _ => Err(Errno::NOTTY),
    }
}

/// Fails if the caller is neither root nor the user who mounted.
fn check_privilege(caller: Caller) -> Answer<()> {
    if caller.uid == 0 || caller.uid == rustix::process::geteuid().as_raw() {
        Ok(())
    } else {
        Err(Errno::PERM)
    }
}

/// Returns the `struct fsxattr` of a file.
fn extended(metadata: &Metadata) -> [u8; EXTENDED_BYTES] {
    let set = EXTENDED_FLAGS
        .iter()
        .filter(|(plain, _)| metadata.flags & plain != 0);
    let flags = set.fold(0, |flags, (_, extended)| flags | extended);
    let mut bytes = [0; EXTENDED_BYTES];
    bytes[..4].copy_from_slice(&flags.to_ne_bytes());
    bytes[PROJECT_OFFSET..PROJECT_OFFSET + 4].copy_from_slice(&metadata.project_id.to_ne_bytes());
    bytes
}

/// Sets the flags that `struct fsxattr` contains. Fails if the request would change the project ID.
fn set_extended(operations: &Operations, node: NodeId, input: &[u8]) -> Answer<()> {
    let metadata = operations.metadata(node)?;
    if u32::from_ne_bytes(bytes(input, PROJECT_OFFSET)?) != metadata.project_id {
        return Err(Errno::OPNOTSUPP);
    }
    let wanted = u32::from_ne_bytes(bytes(input, 0)?);
    let known = EXTENDED_FLAGS
        .iter()
        .fold(0, |known, (_, flag)| known | flag);
    if wanted & !known != 0 {
        return Err(Errno::OPNOTSUPP);
    }
    let flags = EXTENDED_FLAGS
        .iter()
        .fold(metadata.flags, |flags, (plain, extended)| {
            if wanted & extended == 0 {
                flags & !plain
            } else {
                flags | plain
            }
        });
    operations.set_flags(node, flags)
}

/// Executes `FITRIM`. The input is a `struct fstrim_range` with the start, the length and the minimum length of
/// a free extent. In the reply, the length is the number of bytes discarded.
fn trim(operations: &Operations, input: &[u8]) -> Answer<Vec<u8>> {
    let start_bytes = u64::from_ne_bytes(bytes(input, 0)?);
    let end_bytes = start_bytes.saturating_add(u64::from_ne_bytes(bytes(input, 8)?));
    let min_bytes = u64::from_ne_bytes(bytes(input, 16)?);
    let discarded_bytes = operations.trim(start_bytes..end_bytes, min_bytes)?;
    let mut output = input[..24].to_vec();
    output[8..16].copy_from_slice(&discarded_bytes.to_ne_bytes());
    Ok(output)
}

/// Returns the `N` bytes of `input` at the offset `at`.
fn bytes<const N: usize>(input: &[u8], at: usize) -> Answer<[u8; N]> {
    let bytes = input.get(at..).and_then(<[u8]>::first_chunk);
    bytes.copied().ok_or(Errno::INVAL)
}
