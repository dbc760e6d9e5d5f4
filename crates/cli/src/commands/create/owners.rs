//! The owners of the files of a new image, and the files that are left out.

use crate::args::{CreateArgs, IdMap};
use larder::fs::copy::Rules;

/// The beginning of the name of an unfinished image.
pub(super) const PREFIX: &str = ".larder-create-";

/// The beginning of the name of a whiteout of a layer. The name of the removed file follows.
pub(super) const WHITEOUT: &[u8] = b".wh.";

/// Chooses the owners of files by the options of the command.
#[derive(Debug)]
pub(super) struct Owners<'a> {
    args: &'a CreateArgs,
    /// The name of the unfinished image, which can be below a source.
    unfinished: Vec<u8>,
}

impl<'a> Owners<'a> {
    pub(super) fn new(args: &'a CreateArgs, unfinished: Vec<u8>) -> Self {
        Self { args, unfinished }
    }

    /// Returns whether a file with this name is a whiteout, which is not copied.
    pub(super) fn is_whiteout(&self, name: &[u8]) -> bool {
        self.has_layers() && name.starts_with(WHITEOUT)
    }

    /// Returns whether the sources are layers, so that some names are whiteouts.
    pub(super) fn has_layers(&self) -> bool {
        self.args.from.len() > 1
    }
}

impl Rules for Owners<'_> {
    fn owner(&self, uid: u32, gid: u32) -> (u32, u32) {
        let owner = self.args.owner;
        owner.unwrap_or_else(|| (self.user(uid), self.group(gid)))
    }

    fn user(&self, uid: u32) -> u32 {
        mapped(&self.args.uid_map, uid)
    }

    fn group(&self, gid: u32) -> u32 {
        mapped(&self.args.gid_map, gid)
    }

    fn excludes(&self, name: &[u8]) -> bool {
        name == self.unfinished || self.is_whiteout(name)
    }
}

fn mapped(maps: &[IdMap], id: u32) -> u32 {
    maps.iter().find_map(|map| map.apply(id)).unwrap_or(id)
}
