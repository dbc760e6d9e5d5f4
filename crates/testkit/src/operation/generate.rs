//! Operations from a seed: most succeed, and some must fail.

use super::choice::Choice;
use super::{NewNode, NodePath, Operation, Owned, Slot, Target, shared};
use crate::model::acl::Acl;
use crate::model::{Model, SETTABLE_FLAGS};
use crate::seed::{Random, Seed};
use larder::{Fallocate, FileKind, RenameFlags, Timestamp, XattrMode};
use std::collections::BTreeMap;

/// The number of slots for open files.
const SLOTS: u64 = 4;
/// The maximum depth of directories.
const MAX_DEPTH: usize = 4;

/// The composition of a sequence.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// The approximate maximum number of files of all types that exist at once.
    pub max_nodes: usize,
    /// The approximate maximum of the content that all files hold at once.
    pub max_bytes: u64,
    /// One operation in this many makes something durable, in addition to operations that always do; 0
    /// means never.
    pub syncs_one_in: u64,
    /// One operation in this many gives files attributes that others have, or removes one; 0 means
    /// never.
    pub shares_one_in: u64,
    /// Whether the volume is closed and opened again in the middle.
    pub reopens: bool,
    /// Whether files may have content at large offsets, with little data.
    pub far: bool,
}

impl Mix {
    /// Returns the same mix, but about half of the operations change attributes that files share.
    #[must_use]
    pub const fn sharing(self) -> Self {
        Self {
            max_bytes: 1 << 18,
            shares_one_in: 2,
            ..self
        }
    }
}

/// Generates operations.
#[derive(Debug)]
pub struct Generator {
    random: Random,
    mix: Mix,
    /// Operations that must be performed before new ones are generated, in reverse order.
    planned: Vec<Operation>,
}

impl Generator {
    /// Creates a generator for the operations of `seed`.
    #[must_use]
    pub fn new(seed: Seed, mix: Mix) -> Self {
        Self {
            random: Random::new(seed),
            mix,
            planned: Vec::new(),
        }
    }

    /// Returns the first `count` operations, for a file system in the state of `model`.
    #[must_use]
    pub fn sequence(mut self, model: &Model, count: usize) -> Vec<Operation> {
        let mut model = model.clone();
        let numbers = 0..u32::try_from(count).unwrap_or(u32::MAX);
        numbers
            .map(|number| {
                let operation = self.next(&model);
                let _ = model.apply(number, &operation);
                operation
            })
            .collect()
    }

    /// Returns an operation on the contents of `model`.
    pub fn next(&mut self, model: &Model) -> Operation {
        if let Some(planned) = self.planned.pop() {
            return planned;
        }
        let choice = Choice::new(model);
        let crowded = choice.all.len() > self.mix.max_nodes;
        let full = model.stored_bytes() > self.mix.max_bytes;
        if (crowded || full) && self.random.below(2) == 0 {
            return self.removal(&choice, full);
        }
        let syncs = self.mix.syncs_one_in;
        if syncs != 0 && self.random.below(syncs) == 0 {
            return Operation::SyncFile {
                file: self.target(&choice),
                data_only: self.bit() == 1,
            };
        }
        let shares = self.mix.shares_one_in;
        if shares != 0 && self.random.below(shares) == 0 {
            return self.share(&choice);
        }
        match self.random.below(128) {
            0..=13 => self.make(&choice, NewNode::File),
            14..=20 => self.make(&choice, NewNode::Directory),
            21..=23 => self.symlink(&choice),
            24..=25 => self.special(&choice),
            26..=27 => self.make_unnamed(&choice),
            28..=30 => Operation::Open {
                at: self.any(&choice),
                slot: self.slot(),
            },
            31..=33 => Operation::Close { slot: self.slot() },
            34..=37 => Operation::Link {
                from: self.target(&choice),
                to: self.new_path(&choice),
            },
            38..=49 => self.removal(&choice, false),
            50..=59 => self.rename(&choice),
            60..=84 => self.write(model, &choice),
            85..=91 => self.truncate(model, &choice),
            92..=98 => self.allocate(model, &choice),
            99..=101 => self.copy(model, &choice),
            102..=107 => self.set_xattr(&choice),
            108..=109 => Operation::RemoveXattr {
                file: self.target_of_any_type(&choice),
                name: self.xattr_name(),
            },
            110..=112 => self.set_acl(&choice),
            113..=115 => Operation::SetPermissions {
                file: self.target_of_any_type(&choice),
                permissions: self.permissions() | (self.bit() << 9),
            },
            116 => Operation::SetOwner {
                file: self.target_of_any_type(&choice),
                uid: Some(self.id()),
                gid: (self.bit() == 1).then(|| self.id()),
            },
            117..=118 => self.set_times(model, &choice),
            119 => self.set_flags(&choice),
            120..=124 => Operation::SyncFile {
                file: self.target(&choice),
                data_only: self.bit() == 1,
            },
            125 => Operation::Sync,
            126 if self.mix.reopens => Operation::Reopen,
            _ => self.burst(&choice),
        }
    }

    fn bit(&mut self) -> u16 {
        u16::from(self.random.byte() & 1)
    }

    fn slot(&mut self) -> Slot {
        Slot(u8::try_from(self.random.below(SLOTS)).unwrap_or(0))
    }

    /// Returns the ID of a user or group, which may be small or large.
    fn id(&mut self) -> u32 {
        let ids = [0, 1, 1000, 65_535, 65_536, 4_000_000_000];
        self.random.choose(&ids).copied().unwrap_or(0)
    }

    fn permissions(&mut self) -> u16 {
        u16::from_le_bytes([self.random.byte(), self.random.byte()]) & 0o777
    }

    fn owned(&mut self, is_directory: bool) -> Owned {
        let inherits_group = is_directory && self.random.below(4) == 0;
        Owned {
            permissions: self.permissions() | if inherits_group { 0o2000 } else { 0 },
            uid: self.id(),
            gid: self.id(),
        }
    }

    fn name(&mut self) -> Vec<u8> {
        let letter = b'a' + u8::try_from(self.random.below(20)).unwrap_or(0);
        match self.random.below(40) {
            0 => vec![letter; 255],
            1 => vec![letter; 256],
            2..=6 => vec![letter; 20 + usize::from(self.random.byte() % 100)],
            7 => vec![letter, 0xff, b' ', b'\n'],
            _ => vec![letter],
        }
    }

    fn directory(&mut self, choice: &Choice) -> NodePath {
        self.random
            .choose(&choice.directories)
            .cloned()
            .unwrap_or_default()
    }

    fn new_path(&mut self, choice: &Choice) -> NodePath {
        let mut parent = self.directory(choice);
        while parent.0.len() >= MAX_DEPTH {
            parent.0.pop();
        }
        if self.random.below(50) == 0 {
            // The parent may not be a directory.
            parent = self.any(choice);
        }
        parent.join(&self.name())
    }

    /// Returns the path of an existing file, rarely of a missing one.
    fn any(&mut self, choice: &Choice) -> NodePath {
        if self.random.below(25) == 0 {
            return NodePath::default().join(b"absent");
        }
        self.random
            .choose(&choice.all)
            .cloned()
            .unwrap_or_else(|| NodePath::default().join(b"absent"))
    }

    /// Returns a regular file, rarely something else.
    fn target(&mut self, choice: &Choice) -> Target {
        match self.random.below(20) {
            0..=3 => Target::Open(self.slot()),
            4 => Target::Path(self.any(choice)),
            _ => match self.random.choose(&choice.files) {
                Some(path) => Target::Path(path.clone()),
                None => Target::Open(self.slot()),
            },
        }
    }

    fn target_of_any_type(&mut self, choice: &Choice) -> Target {
        if self.random.below(8) == 0 {
            return Target::Open(self.slot());
        }
        Target::Path(self.any(choice))
    }

    fn make(&mut self, choice: &Choice, node: NewNode) -> Operation {
        let is_directory = node == NewNode::Directory;
        Operation::Make {
            at: self.new_path(choice),
            node,
            owned: self.owned(is_directory),
        }
    }

    fn symlink(&mut self, choice: &Choice) -> Operation {
        // Up to 59 bytes are stored in the inode, longer targets in a block.
        let lengths = [1, 59, 60, 61, 150, 900];
        let len = self.random.choose(&lengths).copied().unwrap_or(1);
        let target = vec![b'a' + self.random.byte() % 26; len];
        self.make(choice, NewNode::Symlink(target))
    }

    fn special(&mut self, choice: &Choice) -> Operation {
        let node = match self.random.below(4) {
            0 => NewNode::Special(FileKind::Fifo),
            1 => NewNode::Special(FileKind::Socket),
            2 => NewNode::Device(FileKind::CharDevice, 1, 3),
            _ => NewNode::Device(FileKind::BlockDevice, 300, 70_000),
        };
        self.make(choice, node)
    }

    fn make_unnamed(&mut self, choice: &Choice) -> Operation {
        let slot = self.slot();
        // Half of them get a name later.
        if self.bit() == 1 {
            let to = self.new_path(choice);
            let from = Target::Open(slot);
            self.planned.push(Operation::Link { from, to });
            self.planned.push(Operation::Write {
                file: Target::Open(slot),
                offset_bytes: 0,
                len_bytes: 5000,
            });
        }
        Operation::MakeUnnamed {
            parent: self.directory(choice),
            slot,
            owned: self.owned(false),
        }
    }

    /// Returns the removal of a name: that of a regular file if there is too much content (`full`).
    fn removal(&mut self, choice: &Choice, full: bool) -> Operation {
        let file = self.random.choose(&choice.files).cloned();
        if let Some(file) = file.filter(|_| full || self.random.below(2) == 0) {
            return Operation::Unlink { at: file };
        }
        let at = self.any(choice);
        let as_other_kind = self.random.below(10) == 0;
        if choice.directories.contains(&at) ^ as_other_kind {
            Operation::RemoveDir { at }
        } else {
            Operation::Unlink { at }
        }
    }

    fn rename(&mut self, choice: &Choice) -> Operation {
        let from = self.any(choice);
        let replaces = self.bit() == 1;
        let to = if replaces {
            self.any(choice)
        } else {
            self.new_path(choice)
        };
        let flags = match self.random.below(12) {
            0..=1 => RenameFlags::NOREPLACE,
            2..=4 => RenameFlags::EXCHANGE,
            5 => RenameFlags::WHITEOUT,
            6 => RenameFlags::WHITEOUT | RenameFlags::NOREPLACE,
            7 if self.random.below(5) == 0 => RenameFlags::EXCHANGE | RenameFlags::NOREPLACE,
            _ => RenameFlags::empty(),
        };
        Operation::Rename { from, to, flags }
    }

    fn size_of(model: &Model, target: &Target) -> u64 {
        model
            .find(target)
            .and_then(|id| model.node(id)?.content())
            .map_or(0, crate::model::Content::size_bytes)
    }

    fn len(&mut self) -> u32 {
        let most = match self.random.below(20) {
            0..=6 => 100,
            7..=14 => 6_000,
            15..=18 => 40_000,
            _ => 150_000,
        };
        1 + u32::try_from(self.random.below(most)).unwrap_or(0)
    }

    /// Returns an offset in a file of this size, or past its end.
    fn offset(&mut self, size_bytes: u64) -> u64 {
        let at = match self.random.below(20) {
            0..=5 => size_bytes,
            6..=13 => self.random.below(size_bytes + 1),
            14..=17 => size_bytes + self.random.below(70_000),
            18 if self.mix.far => self.random.below(90 << 20),
            _ => 0,
        };
        if self.bit() == 1 { at } else { at & !1023 }
    }

    fn write(&mut self, model: &Model, choice: &Choice) -> Operation {
        let file = self.target(choice);
        let offset_bytes = self.offset(Self::size_of(model, &file));
        Operation::Write {
            file,
            offset_bytes,
            len_bytes: self.len(),
        }
    }

    fn truncate(&mut self, model: &Model, choice: &Choice) -> Operation {
        let file = self.target(choice);
        let size_bytes = Self::size_of(model, &file);
        let size_bytes = match self.random.below(8) {
            0..=1 => 0,
            2..=5 => self.random.below(size_bytes + 1),
            _ => self.offset(size_bytes),
        };
        Operation::Truncate { file, size_bytes }
    }

    fn allocate(&mut self, model: &Model, choice: &Choice) -> Operation {
        let file = self.target(choice);
        let size_bytes = Self::size_of(model, &file);
        let keep_size = self.bit() == 1;
        let mode = match self.random.below(8) {
            0..=1 => Fallocate::Allocate { keep_size },
            2..=3 => Fallocate::PunchHole,
            4..=5 => Fallocate::ZeroRange { keep_size },
            6 => Fallocate::Collapse,
            _ => Fallocate::Insert,
        };
        let mut offset_bytes = self.offset(size_bytes);
        let mut len_bytes = u64::from(self.len());
        let moves = matches!(mode, Fallocate::Collapse | Fallocate::Insert);
        if moves && self.random.below(6) != 0 {
            let cluster = model.rules().cluster_bytes;
            let clusters = size_bytes / cluster;
            offset_bytes = self.random.below(clusters + 1) * cluster;
            len_bytes = (1 + self.random.below(3)) * cluster;
        }
        Operation::Allocate {
            file,
            mode,
            offset_bytes,
            len_bytes,
        }
    }

    fn copy(&mut self, model: &Model, choice: &Choice) -> Operation {
        let from = self.target(choice);
        let to = self.target(choice);
        let from_bytes = self.random.below(Self::size_of(model, &from) + 1);
        let to_bytes = self.offset(Self::size_of(model, &to));
        Operation::Copy {
            from,
            from_bytes,
            to,
            to_bytes,
            len_bytes: self.len().into(),
        }
    }

    fn xattr_name(&mut self) -> Vec<u8> {
        let names: [&[u8]; 6] = [
            b"user.a",
            b"user.longer-name",
            b"trusted.t",
            b"security.s",
            b"trusted.overlay.opaque",
            b"user.b",
        ];
        self.random
            .choose(&names)
            .map_or(Vec::new(), |n| n.to_vec())
    }

    fn set_xattr(&mut self, choice: &Choice) -> Operation {
        let len = match self.random.below(10) {
            0 => 0,
            1..=5 => self.random.below(24),
            6..=8 => self.random.below(200),
            _ => self.random.below(700),
        };
        let mode = match self.random.below(6) {
            0 => XattrMode::Create,
            1 => XattrMode::Replace,
            _ => XattrMode::Any,
        };
        Operation::SetXattr {
            file: self.target_of_any_type(choice),
            name: self.xattr_name(),
            value: self.random.bytes(usize::try_from(len).unwrap_or(0)),
            mode,
        }
    }

    /// Gives some files the same attribute, or removes one.
    fn share(&mut self, choice: &Choice) -> Operation {
        if self.random.below(3) == 0 {
            return Operation::RemoveXattr {
                file: self.target(choice),
                name: shared::name(&mut self.random).to_vec(),
            };
        }
        let (name, value) = shared::attribute(&mut self.random);
        let mut set = || Operation::SetXattr {
            file: self.target(choice),
            name: name.to_vec(),
            value: value.clone(),
            mode: XattrMode::Any,
        };
        let first = set();
        let others: Vec<_> = (0..3).map(|_| set()).collect();
        self.planned.extend(others);
        first
    }

    fn set_acl(&mut self, choice: &Choice) -> Operation {
        let three = |random: &mut Random| u16::from(random.byte() & 7);
        let named = |random: &mut Random| -> BTreeMap<u32, u16> {
            let ids = [5_u32, 1000, 70_000];
            let count = random.index(4);
            ids[..count].iter().map(|id| (*id, three(random))).collect()
        };
        let users = named(&mut self.random);
        let groups = named(&mut self.random);
        let masked = !users.is_empty() || !groups.is_empty() || self.bit() == 1;
        let acl = Acl {
            owner: three(&mut self.random),
            users,
            group: three(&mut self.random),
            groups,
            mask: masked.then(|| three(&mut self.random)),
            other: three(&mut self.random),
        };
        let is_default = self.bit() == 1;
        Operation::SetAcl {
            file: if is_default {
                Target::Path(self.directory(choice))
            } else {
                self.target_of_any_type(choice)
            },
            is_default,
            acl,
        }
    }

    fn set_times(&mut self, model: &Model, choice: &Choice) -> Operation {
        let wide = model.rules().wide_times;
        let mut time = || Timestamp {
            seconds: {
                // Before 2310: e2fsck treats later times as wrongly encoded early ones.
                let seconds = self.random.below(if wide { 11 << 30 } else { 1 << 31 });
                let from = if wide { -(1 << 31) } else { 0 };
                from + i64::try_from(seconds).unwrap_or(0)
            },
            nanoseconds: u32::try_from(self.random.below(1_000_000_000)).unwrap_or(0),
        };
        let (accessed, modified) = (time(), time());
        Operation::SetTimes {
            file: self.target_of_any_type(choice),
            accessed,
            modified,
        }
    }

    /// Sets flags, and clears them soon after, so that few operations fail.
    fn set_flags(&mut self, choice: &Choice) -> Operation {
        let file = self.target_of_any_type(choice);
        let flags = u32::from(self.random.byte()) & SETTABLE_FLAGS;
        let inherited = crate::model::INHERITED_FLAGS;
        let clear = Operation::SetFlags {
            file: file.clone(),
            flags: flags & inherited,
        };
        // Add a few operations on the file before the flags are cleared.
        self.planned.push(clear);
        if let Target::Path(path) = &file {
            let mut refused = vec![
                Operation::Unlink { at: path.clone() },
                Operation::Make {
                    at: path.join(b"new"),
                    node: NewNode::File,
                    owned: self.owned(false),
                },
                Operation::SetPermissions {
                    file: file.clone(),
                    permissions: 0o600,
                },
                Operation::Truncate {
                    file: file.clone(),
                    size_bytes: 3,
                },
            ];
            let kept = self.random.index(5);
            refused.truncate(kept);
            self.planned.append(&mut refused);
        }
        Operation::SetFlags { file, flags }
    }

    /// Creates many names in one directory, so that it gets an index, or replaces a file as editors do.
    fn burst(&mut self, choice: &Choice) -> Operation {
        let parent = self.directory(choice);
        if self.bit() == 1 {
            let (temporary, path) = (parent.join(b"t~"), parent.join(&self.name()));
            self.planned.push(Operation::Rename {
                from: temporary.clone(),
                to: path,
                flags: RenameFlags::empty(),
            });
            let len_bytes = self.len();
            self.planned.push(Operation::Write {
                file: Target::Path(temporary.clone()),
                offset_bytes: 0,
                len_bytes,
            });
            return Operation::Make {
                at: temporary,
                node: NewNode::File,
                owned: self.owned(false),
            };
        }
        let count = 10 + self.random.below(30);
        let padding = usize::from(self.random.byte() % 120);
        for number in 0..count {
            let name = format!("{number:03}{}", "n".repeat(padding));
            let owned = self.owned(false);
            self.planned.push(Operation::Make {
                at: parent.join(name.as_bytes()),
                node: NewNode::File,
                owned,
            });
        }
        Operation::SyncFile {
            file: Target::Path(parent),
            data_only: false,
        }
    }
}
