//! Inline data: content that is stored in the inode.
//!
//! Model: the first 60 bytes of the content are in `i_block`. All further bytes are the value of
//! the attribute `system.data`, which is always stored in the inode.
//!
//! An inline directory starts with the inode number of its parent. It stores no entries for "." and
//! "..", which a listing generates. Two chains of entries follow: one up to the end of `i_block`,
//! and one in the attribute. The position in a cookie is 0 for ".", 1 for "..", and at least 4 for
//! any other entry: the offset of the entry in the content.

mod write;

use crate::dir::{Listing, Target, first_found};
use crate::ondisk::dir::FileTypeByte;
use crate::{Filesystem, Ino, Inode, Result};
use std::ops::ControlFlow;

/// The length in bytes of the parent's inode number.
const PARENT_BYTES: usize = 4;

/// The content of an inode with inline data.
struct InlineParts<'i> {
    i_block: &'i [u8; 60],
    attribute: Vec<u8>,
}

impl InlineParts<'_> {
    /// Returns a directory's parent.
    fn parent(&self) -> Ino {
        let [a, b, c, d, ..] = *self.i_block;
        Ino(u32::from_le_bytes([a, b, c, d]))
    }

    /// Returns a directory's two chains of entries, each with its position.
    fn chains(&self) -> [(u64, &[u8]); 2] {
        let first = &self.i_block[PARENT_BYTES..];
        [
            (PARENT_BYTES as u64, first),
            (self.i_block.len() as u64, &self.attribute),
        ]
    }
}

impl Filesystem {
    /// Returns the stored content of `inode`, which must have inline data. If the file is larger
    /// than the stored content, its further bytes are read as zeros. The content is shorter than an
    /// inode.
    ///
    /// # Errors
    /// [`crate::Error::Corrupt`] if the inode's attributes are damaged or the inode has no inline
    /// data; the device's error.
    pub fn inline_data(&self, inode: &Inode) -> Result<Vec<u8>> {
        let parts = self.inline_parts(inode)?;
        let mut data = [parts.i_block, parts.attribute.as_slice()].concat();
        data.truncate(usize::try_from(inode.size_bytes()).unwrap_or(usize::MAX));
        Ok(data)
    }

    fn inline_parts<'i>(&self, inode: &'i Inode) -> Result<InlineParts<'i>> {
        inode
            .place()
            .ensure(inode.has_inline_data(), "inode has no inline data")?;
        Ok(InlineParts {
            i_block: inode.i_block(),
            attribute: self.inline_attribute(inode)?.unwrap_or_default(),
        })
    }

    pub(crate) fn lookup_inline(&self, dir: &Inode, name: &[u8]) -> Result<Option<Target>> {
        let parts = self.inline_parts(dir)?;
        match name {
            b"." => return Ok(Some((dir.ino(), FileTypeByte::DIRECTORY))),
            b".." => return self.inline_parent(dir, &parts).map(Some),
            _ => {}
        }
        let place = dir.place();
        let chains = parts.chains().into_iter();
        first_found(chains.map(|(_, chain)| self.search_block(chain, name, place)))
    }

    fn inline_parent(&self, dir: &Inode, parts: &InlineParts<'_>) -> Result<Target> {
        let parent = parts.parent();
        if parent.0 == 0 || parent.0 > self.superblock().inodes_count {
            return Err(dir
                .place()
                .corrupt("inline directory has an invalid parent inode number"));
        }
        Ok((parent, FileTypeByte::DIRECTORY))
    }

    pub(crate) fn list_inline(
        &self,
        dir: &Inode,
        at: u64,
        listing: &mut Listing<'_>,
    ) -> Result<ControlFlow<()>> {
        let parts = self.inline_parts(dir)?;
        let place = dir.place();
        let mut flow = ControlFlow::Continue(());
        if at == 0 {
            flow = listing.offer(b".", (dir.ino(), FileTypeByte::DIRECTORY), 1);
        }
        if at <= 1 && flow.is_continue() {
            match self.inline_parent(dir, &parts) {
                Ok(parent) => flow = listing.offer(b"..", parent, PARENT_BYTES as u64),
                Err(error) => listing.note_damage(error),
            }
        }
        for (start, chain) in parts.chains() {
            if flow.is_continue() {
                flow = listing.offer_part(chain, start, at, place);
            }
        }
        Ok(flow)
    }
}
