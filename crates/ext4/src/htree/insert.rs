//! Insertion of names into a hash tree, which splits full leaves and nodes.
//!
//! Model: the kernel's `ext4_dx_add_entry`, `do_split` and `make_indexed_dir`. One difference: a
//! leaf without contiguous space for the new name is compacted instead of split, if at least a
//! quarter of the leaf is still free after the insertion.
//!
//! ```text
//! leaf full                      -> split by hash at the middle of its bytes
//!   and its node full            -> first, the upper half of the node moves to a new node
//!     and all nodes above full   -> first, the entries of the root move to a new node below it
//!       and no more levels       -> no space
//! ```
//!
//! A leaf whose names all have the same hash is also split. In the index entry of the second leaf,
//! the lowest bit of the hash is set, which marks that the first leaf contains names with the same
//! hash.

use super::Search;
use crate::dir::DirChange;
use crate::error::{DamageAt, Place};
use crate::ondisk::Damage;
use crate::ondisk::dir::Dirents;
use crate::ondisk::dir::record_len_bytes;
use crate::ondisk::dir_edit::{self, NewDirent};
use crate::ondisk::dx::{DxInfo, DxKind};
use crate::ondisk::dx_edit::{self, DxEntry};
use crate::ondisk::hash::{HashFunction, HashVersion};
use crate::ondisk::inode::InodeFlags;
use crate::{Error, Filesystem, FsBlock, Inode, Result};

/// The number of the hash version half MD4, which new trees use if the superblock contains an
/// unknown hash version.
const HALF_MD4: u8 = 1;

/// The number of bytes at the start of the root that hold the headers and names of "." and "..".
const DOTS_BYTES: usize = 24;

/// One level of a path that is to be changed. Unlike a frame of [`Search`], it holds no buffer.
#[derive(Clone, Copy, Debug)]
struct Step {
    block: FsBlock,
    kind: DxKind,
    /// The index of the node's entry on the path.
    index: usize,
    count: usize,
    is_full: bool,
}

impl Step {
    /// Returns the step for the root in `block` of a tree with one entry.
    fn root(block: FsBlock) -> Self {
        Self {
            block,
            kind: DxKind::Root,
            index: 0,
            count: 1,
            is_full: false,
        }
    }
}

/// The path to the leaf to which a name must be added.
struct Path {
    hash: u32,
    version: HashVersion,
    /// The steps, starting at the root.
    steps: Vec<Step>,
    /// The number of the leaf's block in the directory.
    leaf: u32,
}

/// A name in a leaf that is to be split.
struct Hashed<'b> {
    hash: u32,
    entry: NewDirent<'b>,
}

impl Filesystem {
    fn index_path(&self, dir: &Inode, name: &[u8]) -> Result<Path> {
        let Some(mut search) = self.search_index(dir, name)? else {
            return Err(Error::NotSupported(
                dir.ino(),
                "adding a name to a directory with this kind of index",
            ));
        };
        let leaf = search.leaf()?;
        Ok(Path {
            hash: search.hash,
            version: search.version,
            steps: search.steps()?,
            leaf,
        })
    }

    /// Returns the names of `chain` with their hashes.
    fn hashed_names<'b>(
        &self,
        version: HashVersion,
        chain: &'b [u8],
    ) -> Result<Vec<Hashed<'b>>, Damage> {
        let seed = self.superblock().hash_seed;
        Dirents::new(chain)
            .map(|dirent| {
                let dirent = dirent?;
                Ok(Hashed {
                    hash: version.hash(seed, dirent.name),
                    entry: dirent.into(),
                })
            })
            .collect()
    }

    /// Returns the hash version of new trees: the number in the root, and the decoded version.
    pub(super) fn new_hash_version(&self) -> (u8, HashVersion) {
        let unsigned = self.superblock().hash_unsigned;
        let number = self.superblock().default_hash_version;
        match HashVersion::from_disk(number, unsigned) {
            Some(version) => (number, version),
            None => (
                HALF_MD4,
                HashVersion {
                    function: HashFunction::HalfMd4,
                    signed: !unsigned,
                },
            ),
        }
    }

    fn node_entries(&self, dir: &Inode, step: Step) -> Result<Vec<DxEntry>> {
        let block = self.metadata_block(step.block, dir.ino(), |_| Ok(()))?;
        let place = Place::Block(step.block, dir.ino());
        let node = self.dx_node(&block, step.kind, place)?;
        Ok(dx_edit::entries(&node))
    }

    fn write_node(&self, bytes: &mut [u8], kind: DxKind, entries: &[DxEntry]) -> Result<()> {
        let has_tail = self.superblock().has_metadata_checksums();
        if dx_edit::write_entries(bytes, kind, has_tail, entries) {
            Ok(())
        } else {
            Err(Error::NoSpace)
        }
    }

    fn set_node_checksum(
        &self,
        dir: &Inode,
        block: FsBlock,
        kind: DxKind,
        bytes: &mut [u8],
    ) -> Result<()> {
        let Some(seed) = self.inode_seed(dir) else {
            return Ok(());
        };
        dx_edit::set_checksum(bytes, kind, seed).at(Place::Block(block, dir.ino()))
    }
}

impl DirChange<'_, '_> {
    /// Adds `entry` to the directory `dir`, which has a hash tree.
    pub(crate) fn add_indexed(&mut self, entry: NewDirent<'_>) -> Result<()> {
        // Each iteration except the last makes space in one node of the path, so there are few
        // iterations.
        let turns = 2 * (usize::from(self.fs.max_indirect_levels()) + 2);
        for _ in 0..turns {
            let path = self.fs.index_path(self.dir, entry.name)?;
            let (at, leaf) = self.fs.index_leaf(self.dir, path.leaf)?;
            let place = Place::Block(at, self.dir.ino());
            let chain = self.fs.leaf_chain(&leaf, place)?;
            let room = dir_edit::find_room(chain, entry.name.len()).at(place)?;
            if let Some(offset) = room {
                drop(leaf);
                return self.edit_leaf(at, |chain| dir_edit::insert_at(chain, offset, entry));
            }
            let chain = chain.to_vec();
            drop(leaf);
            if !path.steps.last().is_some_and(|step| step.is_full) {
                return self.split_leaf(&path, (at, &chain), entry);
            }
            self.make_room(&path)?;
        }
        Err(self
            .dir
            .place()
            .corrupt("hash tree is still full after its nodes were split"))
    }

    /// Splits the leaf `at`: distributes its names, which are in `chain`, and the new name between
    /// this leaf and a new leaf after it. If all names fit into three quarters of the leaf, only
    /// compacts the leaf. The parent node must have space for an entry.
    fn split_leaf(
        &mut self,
        path: &Path,
        (at, chain): (FsBlock, &[u8]),
        entry: NewDirent<'_>,
    ) -> Result<()> {
        let place = Place::Block(at, self.dir.ino());
        let mut names = self.fs.hashed_names(path.version, chain).at(place)?;
        names.push(Hashed {
            hash: path.hash,
            entry,
        });
        let bytes_of = |name: &Hashed<'_>| record_len_bytes(name.entry.name.len());
        let total_bytes: usize = names.iter().map(bytes_of).sum();
        let fill = |chain: &mut [u8], names: &[Hashed<'_>]| {
            if dir_edit::fill(chain, names.iter().map(|name| name.entry)) {
                Ok(())
            } else {
                Err("half the names of a directory block do not fit into a block")
            }
        };
        if total_bytes <= chain.len() / 4 * 3 {
            return self.edit_leaf(at, |chain| fill(chain, &names));
        }
        names.sort_by_key(|name| name.hash);
        let middle = middle(names.iter().map(bytes_of), total_bytes);
        let (lower, upper) = names.split_at(middle);
        let (Some(last), Some(first)) = (lower.last(), upper.first()) else {
            return Err(place.corrupt("name does not fit into a directory block"));
        };
        let continues = u32::from(last.hash == first.hash);
        let hash = first.hash | continues;
        let block = self.append_leaf(|chain| fill(chain, upper))?;
        self.edit_leaf(at, |chain| fill(chain, lower))?;
        let Some(node) = path.steps.last() else {
            return Err(place.corrupt("leaf of the hash tree has no parent node"));
        };
        self.insert_into_node(*node, DxEntry { hash, block })
    }

    /// Finds the lowest node of the path that has space for an entry, and splits the full node
    /// below it. If all nodes are full, adds a level.
    fn make_room(&mut self, path: &Path) -> Result<()> {
        let above = path.steps.iter().rposition(|step| !step.is_full);
        let Some(above) = above else {
            return self.add_level(path);
        };
        let (Some(&parent), Some(&full)) = (path.steps.get(above), path.steps.get(above + 1))
        else {
            return Ok(());
        };
        let entries = self.fs.node_entries(self.dir, full)?;
        let (lower, upper) = entries.split_at(entries.len() / 2);
        let Some(&first) = upper.first() else {
            return Ok(());
        };
        let block = self.append_node(upper)?;
        self.edit_node(full, |fs, bytes| fs.write_node(bytes, full.kind, lower))?;
        let entry = DxEntry {
            hash: first.hash,
            block,
        };
        self.insert_into_node(parent, entry)
    }

    /// Adds a level: moves the entries of the root to a new node, which becomes the only child of
    /// the root.
    fn add_level(&mut self, path: &Path) -> Result<()> {
        let Some(&root) = path.steps.first() else {
            return Ok(());
        };
        let levels = u8::try_from(path.steps.len()).unwrap_or(u8::MAX);
        if levels > self.fs.max_indirect_levels() {
            return Err(Error::NoSpace);
        }
        let entries = self.fs.node_entries(self.dir, root)?;
        let block = self.append_node(&entries)?;
        let only = [DxEntry { hash: 0, block }];
        self.edit_node(root, |fs, bytes| {
            dx_edit::set_indirect_levels(bytes, levels);
            fs.write_node(bytes, root.kind, &only)
        })
    }

    /// Converts the linear directory `dir` of one block to a hash tree with a root and one leaf.
    pub(crate) fn make_index(&mut self) -> Result<()> {
        let place = self.dir.place();
        let read = self.fs.checked_dir_block(self.dir, 0)?;
        let (at, block) = read.ok_or_else(|| place.corrupt("directory has no first block"))?;
        let chain = self
            .fs
            .leaf_chain(&block, Place::Block(at, self.dir.ino()))?
            .to_vec();
        drop(block);
        let all: Result<Vec<_>, _> = Dirents::new(&chain).collect();
        let all = all.at(place)?;
        let starts_with_dots = matches!(all.as_slice(), [dot, dotdot, ..]
            if dot.name == b"." && dotdot.name == b".." && dotdot.offset == 12);
        place.ensure(
            starts_with_dots,
            "directory does not start with '.' and '..'",
        )?;
        let entries = all[2..].iter().copied().map(NewDirent::from);
        let leaf = self.append_leaf(|chain| {
            let fits = dir_edit::fill(chain, entries);
            fits.then_some(())
                .ok_or("names of a directory block do not fit into another block")
        })?;
        let (version, _) = self.fs.new_hash_version();
        let root = Step::root(at);
        let only = [DxEntry {
            hash: 0,
            block: leaf,
        }];
        self.edit_node(root, |fs, bytes| {
            bytes[DOTS_BYTES..].fill(0);
            dx_edit::describe_root(bytes, version, 0);
            fs.write_node(bytes, root.kind, &only)
        })?;
        self.dir.set_flags(self.dir.flags() | InodeFlags::INDEX);
        Ok(())
    }

    /// Changes the record of "." or ".." in the block `at`, which must be the root of `dir`'s hash
    /// tree.
    pub(crate) fn edit_root(&mut self, at: FsBlock, edit: impl FnOnce(&mut [u8])) -> Result<()> {
        let place = Place::Block(at, self.dir.ino());
        self.edit_node(Step::root(at), |_, bytes| {
            DxInfo::parse(bytes).at(place)?;
            edit(bytes);
            Ok(())
        })
    }

    /// Inserts `entry` into the node of `step`, after the entry on the path.
    fn insert_into_node(&mut self, step: Step, entry: DxEntry) -> Result<()> {
        let has_tail = self.fs.superblock().has_metadata_checksums();
        let at = (step.index + 1, step.count);
        let place = Place::Block(step.block, self.dir.ino());
        self.edit_node(step, |_, bytes| {
            if dx_edit::insert_entry(bytes, step.kind, has_tail, at, entry) {
                return Ok(());
            }
            Err(place.corrupt("node of the hash tree is full"))
        })
    }

    /// Appends a block to `dir` that is a node with `entries`.
    fn append_node(&mut self, entries: &[DxEntry]) -> Result<u32> {
        let (fs, owner) = (self.fs, *self.dir);
        self.append_block(|block, bytes| {
            dx_edit::init_inner(bytes);
            fs.write_node(bytes, DxKind::Inner, entries)?;
            fs.set_node_checksum(&owner, block, DxKind::Inner, bytes)
        })
    }

    /// Changes the node of `step` with `edit`, and then sets the checksum.
    fn edit_node(
        &mut self,
        step: Step,
        edit: impl FnOnce(&Filesystem, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        self.handle.update(step.block, self.dir.ino(), |bytes| {
            edit(self.fs, bytes)?;
            self.fs
                .set_node_checksum(self.dir, step.block, step.kind, bytes)
        })
    }
}

impl Search<'_> {
    /// Returns the path of this search without the buffers, so that the nodes on the path can be
    /// changed.
    fn steps(&self) -> Result<Vec<Step>> {
        let has_tail = self.fs.superblock().has_metadata_checksums();
        self.path
            .iter()
            .map(|frame| {
                let count = self.node(frame)?.count();
                Ok(Step {
                    block: frame.block,
                    kind: frame.kind,
                    index: frame.index,
                    count,
                    is_full: count >= frame.kind.limit(frame.buffer.len(), has_tail),
                })
            })
            .collect()
    }
}

/// Returns how many names with these `sizes`, counted from the first, take about half of
/// `total_bytes`: at least one and, if there are at least two, not all.
fn middle(sizes: impl ExactSizeIterator<Item = usize>, total_bytes: usize) -> usize {
    let count = sizes.len();
    let mut below_bytes = 0;
    let mut middle = 0;
    for size in sizes {
        if below_bytes + size / 2 > total_bytes / 2 {
            break;
        }
        below_bytes += size;
        middle += 1;
    }
    middle.clamp(1, count.saturating_sub(1).max(1)).min(count)
}
