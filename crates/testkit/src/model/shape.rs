//! A tree without the content of its files and without times. After a crash, this part must match the state
//! after one of the operations.

use super::Model;
use super::compare::LOST_AND_FOUND;
use super::node::{Body, Node, NodeId, SETTABLE_FLAGS};
use larder::{FileKind, Ino, Volume};
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;

/// Files by their paths from the root.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape(pub BTreeMap<Vec<Vec<u8>>, ShapeNode>);

/// The compared properties of a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShapeNode {
    /// The type.
    pub kind: FileKind,
    /// The lower 12 bits of the mode.
    pub permissions: u16,
    /// Owner and group.
    pub owners: (u32, u32),
    /// Hard links.
    pub links: u32,
    /// Flags.
    pub flags: u32,
    /// The numbers of a device special file.
    pub device: (u32, u32),
    /// The target of a symbolic link.
    pub target: Vec<u8>,
    /// Attributes.
    pub attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    /// The first of its names, which identifies hard links to the same file.
    pub first_name: Vec<Vec<u8>>,
}

impl Shape {
    /// Returns a hash of the shape. Different shapes have different hashes with near certainty.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the differences of `self` from the model.
    #[must_use]
    pub fn differences(&self, model: &Self) -> Vec<String> {
        let mut differences = Vec::new();
        for (path, found) in &self.0 {
            match model.0.get(path) {
                None => differences.push(format!("{}: not in the model", Shown(path))),
                Some(node) if node != found => {
                    differences.push(format!(
                        "{}: {found:?}, the model has {node:?}",
                        Shown(path)
                    ));
                }
                Some(_) => {}
            }
        }
        let missing = model.0.keys().filter(|path| !self.0.contains_key(*path));
        differences.extend(missing.map(|path| format!("{}: missing", Shown(path))));
        differences
    }
}

/// A path in a message.
struct Shown<'a>(&'a [Vec<u8>]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = crate::operation::NodePath(self.0.to_vec());
        write!(f, "{path:?}")
    }
}

/// Returns the model's tree, and the node of each regular file.
#[must_use]
pub fn shape_of_model(model: &Model) -> (Shape, BTreeMap<Vec<Vec<u8>>, NodeId>) {
    let mut shape = Shape::default();
    let mut files = BTreeMap::new();
    let mut first_names = HashMap::new();
    let mut pending = vec![(Vec::new(), NodeId::ROOT)];
    while let Some((path, id)) = pending.pop() {
        let Some(node) = model.node(id) else { continue };
        if let Some(entries) = node.entries() {
            // The path pushed last is visited first, so push in reverse order of the names.
            for (name, child) in entries.iter().rev() {
                pending.push((
                    [path.as_slice(), std::slice::from_ref(name)].concat(),
                    *child,
                ));
            }
        }
        if node.content().is_some() {
            files.insert(path.clone(), id);
        }
        let first_name = first_names.entry(id).or_insert_with(|| path.clone());
        shape.0.insert(path, shape_node(node, first_name.clone()));
    }
    (shape, files)
}

fn shape_node(node: &Node, first_name: Vec<Vec<u8>>) -> ShapeNode {
    ShapeNode {
        kind: node.kind(),
        permissions: node.permissions,
        owners: (node.uid, node.gid),
        links: node.links,
        flags: node.flags,
        device: match node.body {
            Body::Device(_, major, minor) => (major, minor),
            _ => (0, 0),
        },
        target: match &node.body {
            Body::Symlink(target) => target.clone(),
            _ => Vec::new(),
        },
        attributes: node.attributes(),
        first_name,
    }
}

/// The inodes of regular files by their paths from the root.
pub type FileInodes = BTreeMap<Vec<Vec<u8>>, Ino>;

/// Returns the volume's tree, and the inode of each regular file.
///
/// # Errors
/// Fails if something cannot be read.
pub fn shape_of_volume(volume: &Volume) -> larder::Result<(Shape, FileInodes)> {
    let mut shape = Shape::default();
    let mut files = BTreeMap::new();
    let mut first_names = HashMap::new();
    let mut pending = vec![(Vec::new(), Ino::ROOT)];
    while let Some((path, ino)) = pending.pop() {
        let found = volume.metadata(ino)?;
        if found.kind == FileKind::Directory {
            let mut names: BTreeMap<Vec<u8>, Ino> = BTreeMap::new();
            volume.read_dir(ino, 0, &mut |entry| {
                names.insert(entry.name.to_vec(), entry.ino);
                ControlFlow::Continue(())
            })?;
            for (name, child) in names.into_iter().rev() {
                let skipped = path.is_empty() && name == LOST_AND_FOUND;
                if !skipped && name != b"." && name != b".." {
                    pending.push(([path.as_slice(), &[name]].concat(), child));
                }
            }
        }
        if found.kind == FileKind::Regular {
            files.insert(path.clone(), ino);
        }
        let mut attributes = BTreeMap::new();
        for name in volume.xattrs(ino)? {
            let value = volume.xattr(ino, &name)?.unwrap_or_default();
            attributes.insert(name, value);
        }
        let is_device = matches!(found.kind, FileKind::CharDevice | FileKind::BlockDevice);
        let node = ShapeNode {
            kind: found.kind,
            permissions: found.permissions,
            owners: (found.uid, found.gid),
            links: found.links,
            flags: found.flags & SETTABLE_FLAGS,
            device: if is_device {
                (found.rdev_major, found.rdev_minor)
            } else {
                (0, 0)
            },
            target: if found.kind == FileKind::Symlink {
                volume.read_link(ino)?
            } else {
                Vec::new()
            },
            attributes,
            first_name: first_names
                .entry(ino)
                .or_insert_with(|| path.clone())
                .clone(),
        };
        shape.0.insert(path, node);
    }
    Ok((shape, files))
}
