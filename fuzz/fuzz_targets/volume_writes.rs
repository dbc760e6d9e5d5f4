//! Writes to a complete image with damaged metadata. The input is the number of the image, the number of
//! patches, patches of eight bytes as in `volume`, and changes of eight bytes each.
#![no_main]

use larder::{Fallocate, Ino, NewFile, RenameFlags, Volume, XattrMode};
use larder_fuzz::{WritableImage, open_for_writing};
use libfuzzer_sys::fuzz_target;
use std::sync::LazyLock;

/// The largest number of changes in one input.
const MAX_CHANGES: usize = 32;

static BASES: LazyLock<Vec<WritableImage>> = LazyLock::new(|| {
    let names = ["ext2.img", "ext4.img", "journal.img"];
    names.into_iter().map(WritableImage::read).collect()
});

/// Names that exist in the images, and names that changes may create.
const NAMES: [&[u8]; 16] = [
    b"inline",
    b"large",
    b"sparse",
    b"names",
    b"few",
    b"short",
    b"long",
    b"lost+found",
    b"a",
    b"b",
    b"c",
    b"d",
    b"..",
    b"one",
    &[b'n'; 200],
    &[b'm'; 255],
];

const ATTRIBUTES: [&[u8]; 4] = [b"user.a", b"user.c", b"user.long", b"trusted.t"];

const NEW: NewFile = NewFile {
    permissions: 0o644,
    umask: 0,
    uid: 0,
    gid: 0,
};

fuzz_target!(|data: &[u8]| {
    let &[which, patches, ref rest @ ..] = data else {
        return;
    };
    let chunks = rest.as_chunks::<8>().0;
    let (patches, changes) = chunks.split_at(chunks.len().min(usize::from(patches % 16)));
    let device = BASES[usize::from(which) % BASES.len()].patched(patches);
    let Ok(volume) = open_for_writing(device) else {
        return;
    };
    let mut inodes = vec![Ino::ROOT];
    for name in NAMES {
        inodes.extend(volume.lookup(Ino::ROOT, name));
    }
    for change in changes.iter().take(MAX_CHANGES) {
        // Errors are ignored: damaged structures are refused.
        inodes.extend(make(&volume, &inodes, *change).ok().flatten());
    }
    let _ = volume.close();
});

/// Performs `change`. Returns the inode that it created.
fn make(volume: &Volume, inodes: &[Ino], change: [u8; 8]) -> larder::Result<Option<Ino>> {
    let [kind, which, name, other, low, high, size, more] = change;
    let inode = |number: u8| inodes[usize::from(number) % inodes.len()];
    let (ino, parent) = (inode(which), inode(other));
    let name = NAMES[usize::from(name) % NAMES.len()];
    let attribute = ATTRIBUTES[usize::from(more) % ATTRIBUTES.len()];
    let offset_bytes = u64::from(u16::from_le_bytes([low, high])) << (more % 16);
    let bytes = vec![more; usize::from(size) * 16];
    let made = match kind % 16 {
        0 => volume.create(parent, name, &NEW)?,
        1 => volume.make_dir(parent, name, &NEW)?,
        2 => volume.symlink(parent, name, &bytes, &NEW)?,
        3 => volume.link(ino, parent, name)?,
        kind => {
            match kind {
                4 => drop(volume.write_at(ino, &bytes, offset_bytes)?),
                5 => volume.truncate(ino, offset_bytes)?,
                6 => volume.fallocate(ino, Fallocate::PunchHole, offset_bytes, 4096)?,
                7 => volume.fallocate(ino, Fallocate::Collapse, offset_bytes & !1023, 1024)?,
                8 => volume.set_xattr(ino, attribute, &bytes, XattrMode::Any)?,
                9 => volume.remove_xattr(ino, attribute)?,
                10 => drop(volume.unlink(parent, name)?),
                11 => drop(volume.remove_dir(parent, name)?),
                12 => {
                    let new = NAMES[usize::from(low) % NAMES.len()];
                    let flags = RenameFlags::from_bits_truncate(u32::from(high % 4));
                    volume.rename(parent, name, ino, new, flags)?;
                }
                13 => volume.sync()?,
                14 => volume.sync_file(ino, size % 2 == 0)?,
                _ => drop(volume.read_at(ino, &mut [0; 4096], offset_bytes)?),
            }
            return Ok(None);
        }
    };
    Ok(Some(made.ino))
}
