//! Extended attributes: their entries and names, and the header of a block of them.
//!
//! A region is a block, or the end of an inode after a magic number. Entries are added from the
//! start of a region, and values from its end. Four zero bytes follow the last entry. A value may
//! also be the content of another inode.
//!
//! ```text
//! entry: name_len, name_index, value_offs (2), value_inum (4), value_size (4),
//!        hash (4), name, padded to a multiple of 4
//! block: magic (4), refcount (4), blocks (4), hash (4), checksum (4), reserved (12)
//! ```

mod encode;
mod entry;
mod header;

pub use encode::{StoredValue, StoredXattr, fill_block, space_bytes, total_bytes};
pub(crate) use encode::{block_room_bytes, fill_inode, inode_room_bytes, inode_value_hash};
pub use entry::{NameIndex, ValuePlace, XattrEntries, XattrEntry, split_checksum};
pub use header::{BlockHeader, UserCount, has_same_contents, set_block_checksum};
