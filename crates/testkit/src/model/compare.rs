//! The comparison of a volume with the model, object by object.

use super::node::{Body, Node, NodeId, SETTABLE_FLAGS, Stamp};
use super::{CHUNK_BYTES, Content, Model, NodeInodes};
use crate::operation::describe_content;
use larder::{FileKind, Ino, Timestamp, Volume};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// A directory that exists on every image.
pub(super) const LOST_AND_FOUND: &[u8] = b"lost+found";

/// The maximum time by which the kernel's coarse clock, which advances with the timer tick, can
/// lag.
const TICK_NANOSECONDS: i64 = 20_000_000;

/// The times at which each operation began and ended.
#[derive(Clone, Debug, Default)]
pub struct Clock(pub Vec<(Timestamp, Timestamp)>);

impl Clock {
    /// Returns whether a time matches `stamp`, on an image with or without room for nanoseconds.
    #[must_use]
    pub fn agrees(&self, stamp: Stamp, time: Timestamp, wide: bool) -> bool {
        match stamp {
            Stamp::Any => true,
            Stamp::Exact(exact) => time == exact,
            Stamp::During(number) => {
                let Some((begun, ended)) = self.0.get(number as usize) else {
                    return false;
                };
                let begun = nanoseconds(*begun) - i128::from(TICK_NANOSECONDS);
                let begun = if wide { begun } else { begun - 1_000_000_000 };
                (begun..=nanoseconds(*ended)).contains(&nanoseconds(time))
            }
        }
    }
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}

/// Compares everything in the model with the volume. Returns the differences.
#[must_use]
pub fn compare_all(
    model: &Model,
    volume: &Volume,
    inodes: &NodeInodes,
    clock: &Clock,
) -> Vec<String> {
    let all: BTreeSet<NodeId> = model.nodes().map(|(id, _)| id).collect();
    compare_nodes(model, volume, inodes, clock, &all)
}

/// Compares these nodes with the volume. Returns the differences.
#[must_use]
pub fn compare_nodes(
    model: &Model,
    volume: &Volume,
    inodes: &NodeInodes,
    clock: &Clock,
    ids: &BTreeSet<NodeId>,
) -> Vec<String> {
    let mut comparison = Side {
        model,
        volume,
        inodes,
        clock,
        differences: Vec::new(),
    };
    for id in ids {
        if let Some(node) = model.node(*id) {
            comparison.node(*id, node);
        }
    }
    comparison.differences
}

struct Side<'a> {
    model: &'a Model,
    volume: &'a Volume,
    inodes: &'a NodeInodes,
    clock: &'a Clock,
    differences: Vec<String>,
}

impl Side<'_> {
    fn differ(&mut self, id: NodeId, what: impl std::fmt::Display) {
        let ino = self.inodes.ino(id).map_or(0, |ino| ino.0);
        self.differences.push(format!("{id} (inode {ino}): {what}"));
    }

    #[allow(
        clippy::needless_pass_by_value,
        reason = "so that both sides read the same"
    )]
    fn same<T: PartialEq + std::fmt::Debug>(&mut self, id: NodeId, what: &str, found: T, model: T) {
        if found != model {
            self.differ(id, format!("{what} {found:?}, the model has {model:?}"));
        }
    }

    fn node(&mut self, id: NodeId, node: &Node) {
        let Some(ino) = self.inodes.ino(id) else {
            return self.differ(id, "has no inode");
        };
        let found = match self.volume.metadata(ino) {
            Ok(found) => found,
            Err(error) => return self.differ(id, error),
        };
        self.same(id, "type", found.kind, node.kind());
        self.same(id, "permissions", found.permissions, node.permissions);
        self.same(id, "owner", (found.uid, found.gid), (node.uid, node.gid));
        self.same(id, "links", found.links, node.links);
        self.same(id, "flags", found.flags & SETTABLE_FLAGS, node.flags);
        let wide = self.model.rules().wide_times;
        for (what, time, stamp) in [
            ("access", found.accessed, node.times.accessed),
            ("change of content", found.modified, node.times.modified),
            ("change", found.changed, node.times.changed),
        ] {
            if !self.clock.agrees(stamp, time, wide) {
                let range = match stamp {
                    Stamp::During(number) => self.clock.0.get(number as usize),
                    _ => None,
                };
                self.differ(
                    id,
                    format!("time of {what} {time:?}, the model has {stamp:?} {range:?}"),
                );
            }
        }
        self.attributes(id, ino, node);
        match &node.body {
            Body::File(content) => {
                self.same(id, "size", found.size_bytes, content.size_bytes());
                self.content(id, ino, content);
            }
            Body::Directory { entries, parent } => self.directory(id, ino, entries, *parent),
            Body::Symlink(target) => match self.volume.read_link(ino) {
                Ok(found) => self.same(id, "target", &found, target),
                Err(error) => self.differ(id, error),
            },
            Body::Device(_, major, minor) => {
                let numbers = (found.rdev_major, found.rdev_minor);
                self.same(id, "device number", numbers, (*major, *minor));
            }
            Body::Special(_) => {}
        }
    }

    fn attributes(&mut self, id: NodeId, ino: Ino, node: &Node) {
        let mut expected = node.attributes();
        let names = match self.volume.xattrs(ino) {
            Ok(names) => names,
            Err(error) => return self.differ(id, format!("cannot list attributes: {error}")),
        };
        for name in names {
            let shown = name.escape_ascii().to_string();
            let value = self.volume.xattr(ino, &name);
            match (value, expected.remove(&name)) {
                (Ok(Some(value)), Some(model)) if value == model => {}
                (value, model) => {
                    let what = format!("attribute {shown} {value:?}, the model has {model:?}");
                    self.differ(id, what);
                }
            }
        }
        for name in expected.keys() {
            self.differ(id, format!("attribute {} is missing", name.escape_ascii()));
        }
    }

    fn directory(
        &mut self,
        id: NodeId,
        ino: Ino,
        entries: &BTreeMap<Vec<u8>, NodeId>,
        parent: NodeId,
    ) {
        let mut found: Vec<(Vec<u8>, Ino, Option<FileKind>)> = Vec::new();
        let listed = self.volume.read_dir(ino, 0, &mut |entry| {
            found.push((entry.name.to_vec(), entry.ino, entry.kind));
            ControlFlow::Continue(())
        });
        if let Err(error) = listed {
            self.differ(id, format!("cannot list the directory: {error}"));
        }
        let mut expected = entries.clone();
        for (name, entry_ino, kind) in found {
            let shown = name.escape_ascii().to_string();
            let node = match &*name {
                b"." => Some(id),
                b".." => Some(parent),
                LOST_AND_FOUND if id == NodeId::ROOT => continue,
                _ => expected.remove(&name),
            };
            let Some(node) = node else {
                self.differ(id, format!("entry {shown} is not in the model"));
                continue;
            };
            self.same(id, &shown, Some(entry_ino), self.inodes.ino(node));
            let model = self.model.node(node).map(|node| node.kind());
            if kind.is_some() && kind != model {
                self.same(id, &format!("type of entry {shown}"), kind, model);
            }
        }
        for (name, node) in &expected {
            let looked_up = self.volume.lookup(ino, name).ok();
            self.differ(
                id,
                format!(
                    "entry {} ({node}) is not listed; its lookup returns {looked_up:?}",
                    name.escape_ascii()
                ),
            );
        }
        for (name, node) in entries {
            let looked_up = self.volume.lookup(ino, name).ok();
            let what = format!("lookup of {}", name.escape_ascii());
            self.same(id, &what, looked_up, self.inodes.ino(*node));
        }
    }

    fn content(&mut self, id: NodeId, ino: Ino, content: &Content) {
        let mut starts: BTreeSet<u64> = content.chunk_starts().collect();
        // Also compare the ranges that the volume reports as data, and the end of the file.
        let size_bytes = content.size_bytes();
        let chunk = CHUNK_BYTES as u64;
        starts.insert(size_bytes / chunk * chunk);
        let mut at = 0;
        while let Ok(start) = self.volume.seek_data(ino, at) {
            let end = match self.volume.seek_hole(ino, start) {
                Ok(end) if end > start && start >= at => end,
                other => {
                    self.differ(
                        id,
                        format!("seek from {at}: data at {start}, a hole at {other:?}"),
                    );
                    break;
                }
            };
            starts.extend((start / chunk..end.div_ceil(chunk)).map(|number| number * chunk));
            at = end;
        }
        for start in starts {
            let expected = content.bytes(start..(start + chunk).min(size_bytes));
            let mut found = vec![0xa5; CHUNK_BYTES];
            match self.volume.read_at(ino, &mut found, start) {
                Ok(len) => found.truncate(len),
                Err(error) => return self.differ(id, format!("cannot read at {start}: {error}")),
            }
            self.same(
                id,
                &format!("bytes read at {start}"),
                found.len(),
                expected.len(),
            );
            let bad = found.iter().zip(&expected).position(|(a, b)| a != b);
            if let Some(bad) = bad {
                let word = bad / 8 * 8;
                let what = format!(
                    "content at {} is {}, the model has {}",
                    start + bad as u64,
                    describe_content(&found[word..]),
                    describe_content(&expected[word..])
                );
                return self.differ(id, what);
            }
        }
    }
}
