//! The states that a tree may have after a crash.

use super::Run;
use crate::model::{
    CHUNK_BYTES, Content, FileInodes, NodeId, Outcome, Shape, shape_of_model, shape_of_volume,
};
use crate::operation::{Operation, describe_content};
use larder::{Fallocate, Ino, Volume};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// A run, prepared for comparison with the states after crashes.
///
/// A state is identified by the number of operations before it.
#[derive(Debug)]
pub struct History {
    run: Run,
    /// The states by the digest of their shape.
    by_digest: HashMap<u64, Vec<usize>>,
    barriers: Vec<Barrier>,
    ordered: Vec<Ordered>,
}

/// What is durable once an operation has returned.
#[derive(Debug)]
struct Barrier {
    /// The number of changes of the device that had returned when the operation returned.
    returned: usize,
    /// The earliest state that the tree may have.
    tree: usize,
    /// The file whose content is durable, or `None` for all files, and the earliest state that this content
    /// may have.
    content: (Option<NodeId>, usize),
}

/// A change of content by metadata, which therefore takes effect in the order of the operations.
#[derive(Debug)]
struct Ordered {
    /// The state after the change.
    state: usize,
    node: NodeId,
    /// The bytes that must be those of that state or of a later one.
    bytes: Range<u64>,
    /// Whether the size must be at most the largest size since that state.
    limits_size: bool,
    /// Whether all content of the file was written back before the change.
    writes_back: bool,
}

/// A content, and the states in which the file had it.
struct Version<'a> {
    content: &'a Content,
    states: Range<usize>,
}

impl History {
    /// Prepares `run` for comparisons.
    #[must_use]
    pub fn new(run: Run) -> Self {
        let mut by_digest: HashMap<u64, Vec<usize>> = HashMap::new();
        for (state, model) in run.states.iter().enumerate() {
            let digest = shape_of_model(model).0.digest();
            by_digest.entry(digest).or_default().push(state);
        }
        let barriers = (0..run.operations.len())
            .filter_map(|number| barrier(&run, number))
            .collect();
        let ordered = (0..run.operations.len())
            .filter_map(|number| ordered(&run, number))
            .collect();
        Self {
            run,
            by_digest,
            barriers,
            ordered,
        }
    }

    /// Returns the run.
    #[must_use]
    pub fn run(&self) -> &Run {
        &self.run
    }

    /// Returns the states that the tree may have after a crash at which `position` changes of the device
    /// had returned.
    #[must_use]
    pub fn allowed(&self, position: usize) -> Range<usize> {
        let begun = self.run.spans.iter().filter(|span| span.start <= position);
        let returned = self.barriers.iter().filter(|b| b.returned <= position);
        let least = returned.map(|barrier| barrier.tree).max().unwrap_or(0);
        least..begun.count() + 1
    }

    /// Compares a volume after a crash with the states that it may have. Returns the state that it has.
    ///
    /// # Errors
    /// Returns the differences from the nearest state.
    pub fn check(&self, volume: &Volume, position: usize) -> Result<usize, String> {
        let allowed = self.allowed(position);
        let (shape, files) =
            shape_of_volume(volume).map_err(|error| format!("cannot walk the tree: {error}"))?;
        let candidates = self.by_digest.get(&shape.digest());
        let mut differences = None;
        for &state in candidates.into_iter().flatten().rev() {
            if !allowed.contains(&state) {
                continue;
            }
            match self.contents(volume, &files, state, position) {
                Ok(()) => return Ok(state),
                Err(found) => differences = Some(format!("in state {state}: {found}")),
            }
        }
        Err(differences.unwrap_or_else(|| self.nearest(&shape, &allowed)))
    }

    /// Describes how a tree differs from the nearest state.
    fn nearest(&self, shape: &Shape, allowed: &Range<usize>) -> String {
        if let Some(states) = self.by_digest.get(&shape.digest()) {
            return format!(
                "the tree is that of states {states:?}, but only {allowed:?} are allowed"
            );
        }
        let nearest = allowed
            .clone()
            .rev()
            .map(|state| {
                let model = shape_of_model(&self.run.states[state]).0;
                (shape.differences(&model), state)
            })
            .min_by_key(|(differences, _)| differences.len());
        match nearest {
            None => "no state is allowed".to_owned(),
            Some((differences, state)) => {
                format!("the tree is nearest to state {state} of {allowed:?}: {differences:#?}")
            }
        }
    }

    fn contents(
        &self,
        volume: &Volume,
        files: &FileInodes,
        state: usize,
        position: usize,
    ) -> Result<(), String> {
        let (_, nodes) = shape_of_model(&self.run.states[state]);
        let latest = self.allowed(position).end - 1;
        for (path, ino) in files {
            let Some(node) = nodes.get(path) else {
                continue;
            };
            let ordered: Vec<_> = self
                .ordered
                .iter()
                .filter(|change| change.node == *node && change.state <= state)
                .collect();
            let written = ordered.iter().filter(|change| change.writes_back);
            let written = written.map(|change| change.state).max().unwrap_or(0);
            let floor = self.content_floor(*node, position).max(written);
            let versions = self.versions(*node, floor..latest + 1);
            let file = File {
                volume,
                ino: *ino,
                versions,
                ordered,
                failed_zeros: failed_zeros(&self.run),
            };
            file.check(state.max(floor)).map_err(|what| {
                let path = crate::operation::NodePath(path.clone());
                format!("{path:?} ({node}), durable since state {floor}: {what}")
            })?;
        }
        Ok(())
    }

    /// Returns the earliest state that the content of `node` may have.
    fn content_floor(&self, node: NodeId, position: usize) -> usize {
        let returned = self.barriers.iter().filter(|b| b.returned <= position);
        returned
            .filter(|barrier| barrier.content.0.is_none_or(|only| only == node))
            .map(|barrier| barrier.content.1)
            .max()
            .unwrap_or(0)
    }

    fn versions(&self, node: NodeId, states: Range<usize>) -> Vec<Version<'_>> {
        let mut versions: Vec<Version<'_>> = Vec::new();
        let mut last = None;
        for state in states {
            let Some(found) = self.run.states[state].node(node) else {
                continue;
            };
            let Some(content) = found.content() else {
                continue;
            };
            match versions.last_mut() {
                Some(version) if last.is_some_and(|last| Arc::ptr_eq(last, found)) => {
                    version.states.end = state + 1;
                }
                _ => versions.push(Version {
                    content,
                    states: state..state + 1,
                }),
            }
            last = Some(found);
        }
        versions
    }
}

/// A file after a crash, and the contents that it may have.
struct File<'a> {
    volume: &'a Volume,
    ino: Ino,
    versions: Vec<Version<'a>>,
    ordered: Vec<&'a Ordered>,
    /// Ranges that failed operations on any file may have zeroed.
    failed_zeros: Vec<Range<u64>>,
}

/// Returns the ranges that failed operations may have zeroed: the rest of the last block of each failed
/// truncation, which is zeroed before the truncation, and the range of a punch or zeroing that failed
/// halfway.
fn failed_zeros(run: &Run) -> Vec<Range<u64>> {
    let failed = |(number, operation): (usize, &Operation)| {
        let Outcome::Fails(_) = run.outcomes[number] else {
            return None;
        };
        match *operation {
            Operation::Truncate { size_bytes, .. } => {
                let cluster = run.states[number].rules().cluster_bytes;
                Some(size_bytes..size_bytes.next_multiple_of(cluster))
            }
            Operation::Allocate {
                mode: Fallocate::PunchHole | Fallocate::ZeroRange { .. },
                offset_bytes,
                len_bytes,
                ..
            } => Some(offset_bytes..offset_bytes + len_bytes),
            _ => None,
        }
    };
    run.operations
        .iter()
        .enumerate()
        .filter_map(failed)
        .collect()
}

impl File<'_> {
    fn check(&self, state: usize) -> Result<(), String> {
        let read = |error: larder::Error| format!("cannot be read: {error}");
        let size_bytes = self.volume.metadata(self.ino).map_err(read)?.size_bytes;
        let limits = self.ordered.iter().filter(|change| change.limits_size);
        let limit = limits.map(|change| change.state).max().unwrap_or(0);
        let sizes = |since: usize| {
            self.versions
                .iter()
                .filter(move |version| version.states.end > since && version.states.start <= state)
                .map(|version| version.content.size_bytes())
        };
        // Content that was never written back may be missing, even if the file was truncated since.
        let (Some(least), Some(most)) = (sizes(0).min(), sizes(limit).max()) else {
            return Err("no version is allowed".to_owned());
        };
        if !(least..=most).contains(&size_bytes) {
            return Err(format!(
                "the size is {size_bytes} bytes, but must be {least} to {most}"
            ));
        }
        let chunk = CHUNK_BYTES as u64;
        for number in 0..size_bytes.div_ceil(chunk) {
            let start = number * chunk;
            let is_hole = || {
                let data = self.volume.seek_data(self.ino, start);
                data.map_or(true, |data| data >= start + chunk)
            };
            // In a large file, a chunk that is a hole is read only if a version has data there.
            if size_bytes > 1 << 20 && !self.expects_data(number) && is_hole() {
                continue;
            }
            let mut found = vec![0; CHUNK_BYTES];
            let len = self
                .volume
                .read_at(self.ino, &mut found, start)
                .map_err(read)?;
            self.check_chunk(start, &found[..len])?;
        }
        Ok(())
    }

    fn expects_data(&self, chunk: u64) -> bool {
        let mut versions = self.versions.iter();
        versions.any(|version| version.content.has_chunk(chunk))
    }

    fn check_chunk(&self, start: u64, found: &[u8]) -> Result<(), String> {
        let end = start + found.len() as u64;
        let floors: Vec<_> = self
            .ordered
            .iter()
            .filter(|change| change.bytes.start < end && start < change.bytes.end)
            .collect();
        let floor = |at: u64| {
            let covering = floors.iter().filter(|change| change.bytes.contains(&at));
            covering.map(|change| change.state).max().unwrap_or(0)
        };
        let highest = floors.iter().map(|change| change.state).max().unwrap_or(0);
        let mut contents = Vec::with_capacity(self.versions.len());
        for version in self.versions.iter().rev() {
            let bytes = version.content.bytes(start..end);
            if bytes == found && version.states.end > highest {
                return Ok(());
            }
            contents.push((version, bytes));
        }
        for (index, byte) in found.iter().enumerate() {
            let at = start + index as u64;
            let least = floor(at);
            let allowed = contents
                .iter()
                .any(|(version, bytes)| version.states.end > least && bytes[index] == *byte);
            let is_zeroed = *byte == 0 && self.failed_zeros.iter().any(|zeros| zeros.contains(&at));
            if !allowed && !is_zeroed {
                let word = index / 8 * 8;
                let model: Vec<_> = contents
                    .iter()
                    .filter(|(version, _)| version.states.end > least)
                    .map(|(version, bytes)| {
                        let states = &version.states;
                        format!("{states:?} {}", describe_content(&bytes[word..]))
                    })
                    .collect();
                return Err(format!(
                    "byte {at} is {}, but must be one of {model:?}",
                    describe_content(&found[word..])
                ));
            }
        }
        Ok(())
    }
}

/// Returns what operation `number` makes durable.
fn barrier(run: &Run, number: usize) -> Option<Barrier> {
    let Outcome::Done { subject, .. } = run.outcomes[number] else {
        return None;
    };
    let returned = run.spans[number].end;
    match &run.operations[number] {
        Operation::Sync | Operation::Reopen => Some(Barrier {
            returned,
            tree: number,
            content: (None, number),
        }),
        Operation::SyncFile { data_only, .. } => {
            let node = subject?;
            let is_directory = run.states[number].node(node)?.is_directory();
            Some(Barrier {
                returned,
                tree: last_change(run, number, node, *data_only && !is_directory),
                content: (Some(node), number),
            })
        }
        _ => None,
    }
}

/// Returns the state after the last change of the metadata of `node` before operation `number`, or after
/// its creation if `only_creation`.
fn last_change(run: &Run, number: usize, node: NodeId, only_creation: bool) -> usize {
    let mut changes = (0..number).rev().filter(|before| {
        let [old, new] = [*before, before + 1].map(|state| run.states[state].node(node));
        match (old, new) {
            (None, Some(_)) => true,
            (Some(old), Some(new)) => {
                let content_only = matches!(
                    run.operations[*before],
                    Operation::Write { .. } | Operation::Copy { .. }
                );
                !only_creation && !content_only && !Arc::ptr_eq(old, new)
            }
            _ => false,
        }
    });
    changes.next().map_or(0, |before| before + 1)
}

/// Returns the ordered change of content that operation `number` makes, if it makes one.
fn ordered(run: &Run, number: usize) -> Option<Ordered> {
    let Outcome::Done {
        subject: Some(node),
        ..
    } = run.outcomes[number]
    else {
        return None;
    };
    let state = number + 1;
    let change = |bytes: Range<u64>, limits_size| {
        Some(Ordered {
            state,
            node,
            bytes,
            limits_size,
            writes_back: false,
        })
    };
    match &run.operations[number] {
        Operation::Truncate { size_bytes, .. } => {
            let before = run.states[number].node(node)?.content()?.size_bytes();
            // As in Linux, the rest of the last block is zeroed on the device before the truncation is
            // committed. It is content, so it may be on the device early.
            let cut = if *size_bytes < before {
                size_bytes.next_multiple_of(run.states[number].rules().cluster_bytes)
            } else {
                u64::MAX
            };
            change(cut..u64::MAX, *size_bytes != before)
        }
        Operation::Allocate {
            mode,
            offset_bytes,
            len_bytes,
            ..
        } => match mode {
            Fallocate::Allocate { .. } => None,
            Fallocate::PunchHole | Fallocate::ZeroRange { .. } => {
                // The zeroed parts of blocks at the ends of the range are content, which is written back
                // later.
                let cluster = run.states[number].rules().cluster_bytes;
                let end_bytes = (offset_bytes + len_bytes) / cluster * cluster;
                change(offset_bytes.next_multiple_of(cluster)..end_bytes, false)
            }
            Fallocate::Collapse | Fallocate::Insert => change(*offset_bytes..u64::MAX, true),
        },
        Operation::LinkReplacing { .. } => Some(Ordered {
            state,
            node,
            bytes: 0..0,
            limits_size: false,
            writes_back: true,
        }),
        Operation::Rename { from, to, .. } => {
            // This applies only to a regular file that replaced another one.
            let before = &run.states[number];
            before.node(node)?.content()?;
            let replaced = before.resolve(to)?;
            before.node(replaced)?.content()?;
            let moved = before.resolve(from)?;
            let is_removed = run.states[state].resolve(from) != Some(replaced);
            (replaced != moved && is_removed).then_some(Ordered {
                state,
                node,
                bytes: 0..0,
                limits_size: false,
                writes_back: true,
            })
        }
        _ => None,
    }
}
