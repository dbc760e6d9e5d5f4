//! Operations on a volume, each also applied to the model.

use super::{NewNode, NodePath, Operation, Owned, Target, UMASK, fill_content};
use crate::model::acl::{ACCESS, DEFAULT};
use crate::model::{
    Clock, Model, NodeId, NodeInodes, Outcome, SETTABLE_FLAGS, compare_all, compare_nodes,
};
use larder::{
    DeviceNumber, Ino, Make, Metadata, NewFile, Result, SetAttributes, SetTime, Timestamp, Volume,
    XattrMode,
};
use rustix::io::Errno;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

/// Performs operations on a volume and on a model, and reports differences.
#[derive(Debug)]
pub struct Performer {
    /// The expected state.
    pub model: Model,
    /// The inode of each node.
    pub inodes: NodeInodes,
    /// The times of the operations.
    pub clock: Clock,
    number: u32,
}

impl Performer {
    /// Creates a performer for an empty volume with this model.
    #[must_use]
    pub fn new(model: Model) -> Self {
        Self {
            model,
            inodes: NodeInodes::default(),
            clock: Clock::default(),
            number: 0,
        }
    }

    /// Returns the number of the next operation.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Performs an operation on both the volume and the model. For [`Operation::Reopen`], the caller
    /// reopens the volume. An error that `excused` accepts leaves the model unchanged. If `excused`
    /// accepts `ENOSPC`, a short write or copy is applied to the model with fewer bytes.
    ///
    /// # Errors
    /// Returns the difference between the volume and the model: in whether the operation succeeds, or in
    /// the errno.
    pub fn perform(
        &mut self,
        volume: &Volume,
        operation: &Operation,
        excused: impl Fn(Errno) -> bool,
    ) -> std::result::Result<Outcome, String> {
        let begun = now();
        let before = self.model.clone();
        let number = self.number;
        self.number += 1;
        let predicted = self.model.apply(number, operation);
        let mut outcome = predicted;
        let mut verdict = Ok(());
        if predicted != Outcome::Skipped {
            let volume_operations = VolumeOperations {
                volume,
                model: &before,
                inodes: &self.inodes,
                number,
                short: Cell::new(None),
            };
            let performed = volume_operations.perform(operation);
            if let Some(shorter) = volume_operations.short.take() {
                if !excused(Errno::NOSPC) {
                    verdict = Err(format!(
                        "operation {number} {operation:?}: only {shorter:?} was performed"
                    ));
                }
                self.model = before.clone();
                outcome = self.model.apply(number, &shorter);
            }
            let result = performed.as_ref().map_err(larder::Error::errno);
            match (predicted, result) {
                (Outcome::Done { made, .. }, Ok(metadata)) => {
                    if let (Some(made), Some(metadata)) = (made, metadata) {
                        self.inodes.insert(made, metadata.ino);
                    }
                }
                (_, Err(errno)) if excused(errno) => {
                    // As with close(2), the file is closed even after an error.
                    if !matches!(operation, Operation::Close { .. }) {
                        self.model = before;
                    }
                    outcome = Outcome::Fails(errno);
                }
                (Outcome::Fails(expected), Err(errno)) if is_equivalent_errno(expected, errno) => {}
                (predicted, result) => {
                    let text = performed
                        .as_ref()
                        .err()
                        .map_or_else(String::new, |error| format!(": {error}"));
                    verdict = Err(format!(
                        "operation {number} {operation:?}: {:?}{text}; the model predicts {predicted:?}",
                        result.map(|_| "done")
                    ));
                }
            }
        }
        self.clock.0.push((begun, now()));
        verdict.map(|()| outcome)
    }

    /// Compares everything that the last operation changed. `before` is the model before it.
    #[must_use]
    pub fn compare_changed(&self, volume: &Volume, before: &Model) -> Vec<String> {
        let changed: BTreeSet<NodeId> = self
            .model
            .nodes()
            .filter(|(id, node)| {
                before
                    .node(*id)
                    .is_none_or(|before| !Arc::ptr_eq(before, node))
            })
            .map(|(id, _)| id)
            .collect();
        compare_nodes(&self.model, volume, &self.inodes, &self.clock, &changed)
    }

    /// Compares everything.
    #[must_use]
    pub fn compare_all(&self, volume: &Volume) -> Vec<String> {
        compare_all(&self.model, volume, &self.inodes, &self.clock)
    }
}

/// Returns whether an operation that must fail with `expected` may also fail with `errno`: if two checks
/// fail, their order does not matter.
fn is_equivalent_errno(expected: Errno, errno: Errno) -> bool {
    let together = [
        (Errno::PERM, Errno::ISDIR),
        (Errno::PERM, Errno::NOTDIR),
        (Errno::PERM, Errno::EXIST),
        (Errno::NOTDIR, Errno::NAMETOOLONG),
    ];
    expected == errno
        || together.contains(&(expected, errno))
        || together.contains(&(errno, expected))
}

fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanoseconds: since.subsec_nanos(),
    }
}

/// Performs an operation on the volume.
struct VolumeOperations<'a> {
    volume: &'a Volume,
    model: &'a Model,
    inodes: &'a NodeInodes,
    number: u32,
    /// The operation that was performed, if it is shorter than the requested one.
    short: Cell<Option<Operation>>,
}

impl VolumeOperations<'_> {
    /// Returns the inode of a node in the model.
    fn ino(&self, id: Option<NodeId>) -> Ino {
        // The model skips what it does not find, so the node exists. Inode 0 fails in any case.
        id.and_then(|id| self.inodes.ino(id)).unwrap_or(Ino(0))
    }

    fn target(&self, target: &Target) -> Ino {
        self.ino(self.model.find(target))
    }

    fn place<'p>(&self, path: &'p NodePath) -> (Ino, &'p [u8]) {
        let (parent, name) = path.split().unwrap_or((&[], b""));
        (self.ino(self.model.walk(parent)), name)
    }

    fn perform(&self, operation: &Operation) -> Result<Option<Metadata>> {
        let volume = self.volume;
        match operation {
            Operation::Make { at, node, owned } => return self.make(at, node, *owned).map(Some),
            Operation::MakeUnnamed { parent, owned, .. } => {
                let parent = self.ino(self.model.resolve(parent));
                let made = volume.make_unnamed(parent, Make::FILE, &new_file(*owned))?;
                volume.hold(made.ino)?;
                return Ok(Some(made));
            }
            Operation::Open { at, .. } => volume.hold(self.ino(self.model.resolve(at)))?,
            Operation::Close { slot } => volume.release(self.target(&Target::Open(*slot)), 1)?,
            Operation::Link { from, to } => {
                let (parent, name) = self.place(to);
                volume.link(self.target(from), parent, name)?;
            }
            Operation::LinkReplacing { from, to } => {
                let (parent, name) = self.place(to);
                volume.link_replacing(self.target(from), parent, name)?;
            }
            Operation::Unlink { at } => {
                let (parent, name) = self.place(at);
                volume.unlink(parent, name)?;
            }
            Operation::RemoveDir { at } => {
                let (parent, name) = self.place(at);
                volume.remove_dir(parent, name)?;
            }
            Operation::Rename { from, to, flags } => {
                let (parent, name) = self.place(from);
                let (new_parent, new_name) = self.place(to);
                volume.rename(parent, name, new_parent, new_name, *flags)?;
                if flags.contains(larder::RenameFlags::WHITEOUT) {
                    // The whiteout is the only new node; a rename onto itself creates none. The lookup
                    // is repeated if a device fails once, because the rename is complete.
                    let found = || volume.metadata(volume.lookup(parent, name)?);
                    return found().or_else(|_| found()).map(Some);
                }
            }
            Operation::Sync => volume.sync()?,
            Operation::Reopen => {}
            Operation::SyncFile { file, data_only } => {
                volume.sync_file(self.target(file), *data_only)?;
            }
            _ => return self.change(operation).map(|()| None),
        }
        Ok(None)
    }

    fn make(&self, at: &NodePath, node: &NewNode, owned: Owned) -> Result<Metadata> {
        let (parent, name) = self.place(at);
        let new = new_file(owned);
        let what = match *node {
            NewNode::File => Make::FILE,
            NewNode::Directory => Make::Directory,
            NewNode::Symlink(ref target) => Make::Symlink { target },
            NewNode::Device(kind, major, minor) => Make::Node {
                kind,
                device: Some(DeviceNumber { major, minor }),
            },
            NewNode::Special(kind) => Make::Node { kind, device: None },
        };
        self.volume.make(parent, name, what, &new)
    }

    /// Performs changes of content and attributes.
    fn change(&self, operation: &Operation) -> Result<()> {
        let volume = self.volume;
        match operation {
            Operation::Write {
                file,
                offset_bytes,
                len_bytes,
            } => {
                let mut bytes = vec![0; *len_bytes as usize];
                fill_content(self.number, *offset_bytes, &mut bytes);
                let written = volume.write_at(self.target(file), &bytes, *offset_bytes)?;
                if written < bytes.len() {
                    self.short.set(Some(Operation::Write {
                        file: file.clone(),
                        offset_bytes: *offset_bytes,
                        len_bytes: u32::try_from(written).unwrap_or(u32::MAX),
                    }));
                }
                Ok(())
            }
            Operation::Truncate { file, size_bytes } => {
                volume.truncate(self.target(file), *size_bytes)
            }
            Operation::Allocate {
                file,
                mode,
                offset_bytes,
                len_bytes,
            } => volume.fallocate(self.target(file), *mode, *offset_bytes, *len_bytes),
            Operation::Copy {
                from,
                from_bytes,
                to,
                to_bytes,
                len_bytes,
            } => self.copy((from, *from_bytes), (to, *to_bytes), *len_bytes),
            Operation::SetXattr {
                file,
                name,
                value,
                mode,
            } => volume.set_xattr(self.target(file), name, value, *mode),
            Operation::RemoveXattr { file, name } => volume.remove_xattr(self.target(file), name),
            Operation::SetAcl {
                file,
                is_default,
                acl,
            } => {
                let name = if *is_default { DEFAULT } else { ACCESS };
                volume.set_xattr(self.target(file), name, &acl.encode(), XattrMode::Any)
            }
            Operation::SetFlags { file, flags } => {
                let ino = self.target(file);
                let others = volume.metadata(ino)?.flags & !SETTABLE_FLAGS;
                volume.set_flags(ino, others | flags)
            }
            _ => self.set(operation),
        }
    }

    /// Copies in as many calls as necessary, as programs do, but excludes what the copy itself appends
    /// to the source.
    fn copy(&self, from: (&Target, u64), to: (&Target, u64), len_bytes: u64) -> Result<()> {
        let (source, target) = (self.target(from.0), self.target(to.0));
        let len_bytes = self.model.copied_bytes(from.0, from.1, len_bytes);
        let mut done = 0;
        while done < len_bytes {
            let (from_bytes, to_bytes) = (from.1 + done, to.1 + done);
            let left = len_bytes - done;
            let copied = self
                .volume
                .copy_range(source, from_bytes, target, to_bytes, left);
            match copied {
                Ok(0) => break,
                Ok(copied) => done += copied,
                Err(error) if done == 0 => return Err(error),
                Err(_) => {
                    self.short.set(Some(Operation::Copy {
                        from: from.0.clone(),
                        from_bytes: from.1,
                        to: to.0.clone(),
                        to_bytes: to.1,
                        len_bytes: done,
                    }));
                    break;
                }
            }
        }
        Ok(())
    }

    fn set(&self, operation: &Operation) -> Result<()> {
        let mut set = SetAttributes::default();
        let file = match operation {
            Operation::SetPermissions { file, permissions } => {
                set.permissions = Some(*permissions);
                file
            }
            Operation::SetOwner { file, uid, gid } => {
                (set.uid, set.gid) = (*uid, *gid);
                file
            }
            Operation::SetTimes {
                file,
                accessed,
                modified,
            } => {
                set.atime = Some(SetTime::To(*accessed));
                set.mtime = Some(SetTime::To(*modified));
                file
            }
            _ => return Ok(()),
        };
        self.volume.set_attributes(self.target(file), &set)?;
        Ok(())
    }
}

fn new_file(owned: Owned) -> NewFile {
    NewFile {
        permissions: owned.permissions,
        umask: UMASK,
        uid: owned.uid,
        gid: owned.gid,
    }
}
