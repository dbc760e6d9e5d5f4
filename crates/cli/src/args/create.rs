//! The arguments and the help of `larder create`.

use clap::{Args, ValueEnum, ValueHint};
use larder_console::size;
use std::path::PathBuf;

/// Make an image from directories and tar archives
///
/// IMAGE must not exist. It gets its name when it is complete, so a command that fails or is interrupted leaves no file
/// with this name. After SIGKILL, the unfinished file is left as .larder-create-*, and can be removed.
///
/// The image has the owners, permissions, times, extended attributes, access control lists, hard links and devices of the
/// source. Each block of zeros becomes a hole. Root is not needed.
///
/// No path or link of an archive can lead out of the image: symbolic links are followed inside the image. Archives can be in the
/// formats of ustar, GNU tar and pax. A compressed archive must be decompressed first, as in
/// zcat layer.tar.gz | larder create disk.img --from -
///
/// The programs mke2fs and tune2fs (package e2fsprogs) make the file system, and with --size auto, e2fsck and resize2fs
/// shrink it.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  larder create empty.img --size 2G
  larder create disk.img --from tree
  larder create disk.img --size 2G --from root.tar
  docker export CONTAINER | larder create disk.img --from -
  larder create disk.img --from base.tar --from layer.tar
  larder create root.img --from rootfs --owner 0:0
  SOURCE_DATE_EPOCH=1700000000 larder create disk.img --from tree

Several sources are applied in order, like the layers of an OCI image. A file replaces the file
with the same path in an earlier layer. Files with the names .wh.NAME and
.wh..wh..opq are whiteouts, and are not copied. .wh.NAME removes NAME of earlier
layers. .wh..wh..opq removes all that earlier layers have in its directory.

If the environment variable SOURCE_DATE_EPOCH is set, it is the creation and
change time (ctime) of all files; modification times are those of the source.
The same sources and options then make the same image, byte for byte, with the
same version of e2fsprogs. The UUID and the hash seed are then not random: they
are derived from SOURCE_DATE_EPOCH, --type and --label, unless --uuid and
--hash-seed are given. So two images can have the same UUID.

The access time of a file is its modification time, unless an archive contains an access time.")]
pub(crate) struct CreateArgs {
    /// Size (suffixes K, M, G, T), or auto
    ///
    /// auto fits the image to its content, and is the default with --from. If a size is given,
    /// mke2fs reserves 5 % of it for root, and the copied files can use 95 %.
    #[arg(long, value_name = "SIZE", value_parser = parse_size, required_unless_present = "from")]
    pub size: Option<ImageSize>,
    /// Directory or tar archive; - is standard input
    ///
    /// The option can be given several times.
    #[arg(long, value_name = "SOURCE", value_hint = ValueHint::AnyPath)]
    pub from: Vec<PathBuf>,
    /// Type of the file system
    #[arg(long = "type", value_enum, value_name = "TYPE", default_value_t = FsType::Ext4)]
    pub fs_type: FsType,
    /// Label, of at most 16 bytes
    #[arg(long, value_parser = parse_label)]
    pub label: Option<String>,
    /// UUID of the file system [default: random]
    #[arg(long, value_parser = parse_uuid)]
    pub uuid: Option<String>,
    /// Seed for the hashes of file names [default: random]
    #[arg(long, value_name = "UUID", value_parser = parse_uuid)]
    pub hash_seed: Option<String>,
    /// Owner of all files
    ///
    /// Access control lists keep their IDs.
    #[arg(long, value_name = "UID:GID", value_parser = parse_owner, conflicts_with_all = ["uid_map", "gid_map"])]
    pub owner: Option<(u32, u32)>,
    /// Map a range of user IDs to another range
    ///
    /// The COUNT user IDs that start at FROM are replaced by those that start at TO. The default of COUNT is 1. Other IDs
    /// stay as they are. If several maps contain an ID, the first one applies. The IDs in access control lists are replaced,
    /// too.
    #[arg(long, value_name = "FROM:TO[:COUNT]", value_parser = IdMap::parse)]
    pub uid_map: Vec<IdMap>,
    /// Map a range of group IDs, like --uid-map
    #[arg(long, value_name = "FROM:TO[:COUNT]", value_parser = IdMap::parse)]
    pub gid_map: Vec<IdMap>,
    /// Image file to make
    #[arg(value_hint = ValueHint::FilePath)]
    pub image: PathBuf,
}

/// The size of a new image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ImageSize {
    /// As small as the content permits.
    Auto,
    /// A number of bytes.
    Bytes(u64),
}

/// The type of a new file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FsType {
    Ext2,
    Ext3,
    Ext4,
}

impl FsType {
    /// Returns the name, as mke2fs spells it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Ext2 => "ext2",
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
        }
    }

    /// Returns whether file systems of this type have a journal.
    pub(crate) fn has_journal(self) -> bool {
        self != Self::Ext2
    }
}

/// A range of user or group IDs, and the range that replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IdMap {
    from: u32,
    to: u32,
    count: u32,
}

impl IdMap {
    fn parse(text: &str) -> Result<Self, String> {
        let numbers: Option<Vec<u32>> = text.split(':').map(|part| part.parse().ok()).collect();
        let (from, to, count) = match numbers.as_deref() {
            Some(&[from, to]) => (from, to, 1),
            Some(&[from, to, count]) => (from, to, count),
            _ => return Err("write FROM:TO or FROM:TO:COUNT, as in 1000:0".to_owned()),
        };
        let fits = |start: u32| start.checked_add(count.saturating_sub(1)).is_some();
        if count == 0 || !fits(from) || !fits(to) {
            return Err("the IDs must be less than 4294967296, and COUNT at least 1".to_owned());
        }
        Ok(Self { from, to, count })
    }

    /// Returns the ID that replaces `id`, or `None` if the map does not contain `id`.
    pub(crate) fn apply(self, id: u32) -> Option<u32> {
        let offset = id.checked_sub(self.from)?;
        (offset < self.count).then(|| self.to.saturating_add(offset))
    }
}

fn parse_size(text: &str) -> Result<ImageSize, String> {
    if text == "auto" {
        return Ok(ImageSize::Auto);
    }
    size::parse(text).map(ImageSize::Bytes)
}

fn parse_label(text: &str) -> Result<String, String> {
    if text.len() > 16 {
        return Err("a label has at most 16 bytes".to_owned());
    }
    Ok(text.to_owned())
}

fn parse_uuid(text: &str) -> Result<String, String> {
    let lengths = text.split('-').map(str::len);
    let has_form = lengths.eq([8, 4, 4, 4, 12])
        && text
            .bytes()
            .all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    if !has_form {
        return Err("write a UUID, as in 6c617264-6572-4000-8000-746573746b69".to_owned());
    }
    Ok(text.to_ascii_lowercase())
}

fn parse_owner(text: &str) -> Result<(u32, u32), String> {
    let owner = text
        .split_once(':')
        .and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    owner.ok_or_else(|| "write UID:GID, as in 0:0".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn map_replaces_the_ids_of_its_range() {
        let map = IdMap::parse("1000:0:10").unwrap();
        assert_eq!(map.apply(1000), Some(0));
        assert_eq!(map.apply(1009), Some(9));
        assert_eq!(map.apply(999), None);
        assert_eq!(map.apply(1010), None);
        assert_eq!(IdMap::parse("5:7").unwrap().apply(5), Some(7));
        for text in ["", "1", "1:2:0", "1:2:3:4", "4294967295:0:2", "-1:0", "a:b"] {
            assert!(IdMap::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn uuid_has_five_groups_of_digits() {
        let uuid = "6C617264-6572-4000-8000-746573746b69";
        assert_eq!(parse_uuid(uuid), Ok(uuid.to_ascii_lowercase()));
        for text in ["", "random", "clear", "6c6172646572400080007465", "g-"] {
            assert!(parse_uuid(text).is_err(), "{text:?}");
        }
    }
}
