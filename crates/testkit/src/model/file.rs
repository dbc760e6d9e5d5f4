//! The content of files in the model.

use super::node::{APPEND, Body, IMMUTABLE, Stamp};
use super::{Content, Model, NodeId, Outcome, Step, done};
use crate::operation::{Target, fill_content};
use larder::Fallocate;
use rustix::io::Errno;

/// The set-id bits. Whether a write clears them depends on the writer.
const SET_ID: u16 = 0o6000;

impl Model {
    /// Returns the content of a file for a change, and sets the times of the change. Returns the errno if the
    /// content cannot be changed. Returns `None` if the kernel would not call the file system, or if the result
    /// depends on the caller.
    fn content_mut(&mut self, id: NodeId) -> Result<Option<&mut Content>, Errno> {
        let now = self.now();
        let node = self.node_mut(id)?;
        match node.body {
            Body::Directory { .. } => return Err(Errno::ISDIR),
            Body::File(_) if node.has(IMMUTABLE) => return Err(Errno::PERM),
            Body::File(_) if !node.has(APPEND) && node.permissions & SET_ID == 0 => {}
            _ => return Ok(None),
        }
        node.times.modified = now;
        node.times.changed = now;
        match &mut node.body {
            Body::File(content) => Ok(Some(content)),
            _ => Ok(None),
        }
    }

    pub(super) fn write(&mut self, id: NodeId, offset_bytes: u64, len_bytes: u32) -> Step {
        let number = self.number;
        let Some(content) = self.content_mut(id)? else {
            return Ok(Outcome::Skipped);
        };
        let mut bytes = vec![0; len_bytes as usize];
        fill_content(number, offset_bytes, &mut bytes);
        content.write(&bytes, offset_bytes);
        done(id)
    }

    pub(super) fn truncate(&mut self, id: NodeId, size_bytes: u64) -> Step {
        let Some(content) = self.content_mut(id)? else {
            return Ok(Outcome::Skipped);
        };
        let same = content.size_bytes() == size_bytes;
        content.set_size(size_bytes);
        if same {
            self.any_times(id)?;
        }
        done(id)
    }

    fn any_times(&mut self, id: NodeId) -> Result<(), Errno> {
        let times = &mut self.node_mut(id)?.times;
        times.modified = Stamp::Any;
        times.changed = Stamp::Any;
        Ok(())
    }

    pub(super) fn allocate(
        &mut self,
        id: NodeId,
        mode: Fallocate,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> Step {
        if self.get(id)?.content().is_none() {
            return Ok(Outcome::Skipped);
        }
        if len_bytes == 0 {
            return Err(Errno::INVAL);
        }
        let rules = self.rules();
        let Some(content) = self.content_mut(id)? else {
            return Ok(Outcome::Skipped);
        };
        let needs_extents = !matches!(mode, Fallocate::PunchHole);
        if needs_extents && !rules.extents {
            return Err(Errno::OPNOTSUPP);
        }
        let size_bytes = content.size_bytes();
        let end_bytes = offset_bytes + len_bytes;
        let aligned = offset_bytes.is_multiple_of(rules.cluster_bytes)
            && len_bytes.is_multiple_of(rules.cluster_bytes);
        match mode {
            Fallocate::Allocate { keep_size } => grow(content, keep_size, end_bytes),
            Fallocate::PunchHole => content.zero(offset_bytes..end_bytes.min(size_bytes)),
            Fallocate::ZeroRange { keep_size } => {
                content.zero(offset_bytes..end_bytes.min(size_bytes));
                grow(content, keep_size, end_bytes);
            }
            Fallocate::Collapse if !aligned || end_bytes >= size_bytes => return Err(Errno::INVAL),
            Fallocate::Insert if !aligned || offset_bytes >= size_bytes => {
                return Err(Errno::INVAL);
            }
            Fallocate::Collapse => content.collapse(&(offset_bytes..end_bytes)),
            Fallocate::Insert => content.insert(&(offset_bytes..end_bytes)),
        }
        self.any_times(id)?;
        done(id)
    }

    /// Returns how many bytes a copy of `len_bytes` from offset `from_bytes` of `from` copies. Bytes past the
    /// end of the file are not copied. Call this before the copy, because a copy within one file may extend
    /// it.
    #[must_use]
    pub fn copied_bytes(&self, from: &Target, from_bytes: u64, len_bytes: u64) -> u64 {
        let content = self.find(from).and_then(|id| self.node(id)?.content());
        let size_bytes = content.map_or(0, Content::size_bytes);
        len_bytes.min(size_bytes.saturating_sub(from_bytes))
    }

    pub(super) fn copy(
        &mut self,
        (from, from_bytes): (NodeId, u64),
        (to, to_bytes): (NodeId, u64),
        len_bytes: u64,
    ) -> Step {
        let Some(source) = self.get(from)?.content() else {
            return Ok(Outcome::Skipped);
        };
        if self.get(to)?.content().is_none() {
            return Ok(Outcome::Skipped);
        }
        let end_bytes = source.size_bytes().min(from_bytes + len_bytes);
        let bytes = source.bytes(from_bytes..end_bytes);
        let overlaps = from_bytes < to_bytes + len_bytes && to_bytes < from_bytes + len_bytes;
        if bytes.is_empty() || (from == to && overlaps) {
            return Ok(Outcome::Skipped);
        }
        let Some(content) = self.content_mut(to)? else {
            return Ok(Outcome::Skipped);
        };
        content.write(&bytes, to_bytes);
        done(to)
    }
}

fn grow(content: &mut Content, keep_size: bool, end_bytes: u64) {
    if !keep_size && end_bytes > content.size_bytes() {
        content.set_size(end_bytes);
    }
}
