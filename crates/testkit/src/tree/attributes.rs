//! Extended attributes: in the inode, in a block, and in their own inodes.

use super::Tree;
use super::builder::Builder;
use crate::error::Result;
use crate::model::acl::Acl;
use std::collections::BTreeMap;
use std::path::Path;

/// Values of every size.
pub(super) fn sizes(builder: &mut Builder) -> Result<()> {
    builder.folder("attributes")?;
    for len in [
        0, 1, 3, 4, 30, 60, 100, 400, 900, 3000, 3900, 4050, 9000, 60_000, 65_536,
    ] {
        let path = builder.path(format!("attributes/size-{len}"));
        builder.file(&path, 10)?;
        set(builder, &path, "user.value", len)?;
        set(builder, &path, "user.small", 5)?;
    }
    // Some are stored in the inode, the others in the block.
    let path = builder.path("attributes/mixed");
    builder.file(&path, 10)?;
    for number in 0..12 {
        set(builder, &path, &format!("user.mixed-{number}"), number * 9)?;
    }
    // If the content also fits in the inode, both compete for its room.
    let path = builder.path("attributes/with-inline-content");
    builder.file(&path, 70)?;
    set(builder, &path, "user.tag", 20)?;
    Ok(())
}

/// Every namespace, on every type of file; the longest name.
pub(super) fn namespaces(builder: &mut Builder) -> Result<()> {
    for name in ["attributes/folder", "attributes/folder/inside"] {
        let path = builder.folder(name)?;
        set(builder, &path, "user.folder", 50)?;
        set(builder, &path, "trusted.folder", 50)?;
    }
    let path = builder.path("attributes/names");
    builder.file(&path, 10)?;
    for name in [
        "user.".to_owned() + &"x".repeat(250),
        "user.a".to_owned(),
        "user.dots.and spaces\u{e9}".to_owned(),
        "trusted.overlay.opaque".to_owned(),
        "trusted.t".to_owned(),
        "security.larder".to_owned(),
        "security.selinux".to_owned(),
    ] {
        set(builder, &path, &name, 25)?;
    }
    let path = builder.path("attributes/capability");
    builder.file(&path, 10)?;
    // Revision 2, effective; permitted: CAP_NET_BIND_SERVICE and CAP_SYS_PTRACE.
    let words: [u32; 5] = [0x0200_0001, 0x0008_0400, 0, 0, 0];
    let value: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    builder.attribute(&path, "security.capability", &value)?;
    let path = builder.path("attributes/symlink");
    builder.symlink(b"names", &path)?;
    set(builder, &path, "trusted.on-symlink", 15)?;
    let path = builder.path("nodes/fifo");
    set(builder, &path, "trusted.on-fifo", 15)
}

/// Many files with the same attributes, which then share a block. Some files have one additional attribute,
/// which prevents sharing.
pub(super) fn repeated(builder: &mut Builder, tree: &Tree) -> Result<()> {
    builder.folder("attributes/repeated")?;
    let value = builder.random.bytes(300);
    for number in 0..tree.repeat {
        let path = builder.path(format!("attributes/repeated/{number}"));
        builder.create(&path)?;
        builder.attribute(&path, "user.same", &value)?;
        if number % 4 == 3 {
            set(builder, &path, "user.own", 200)?;
        }
    }
    Ok(())
}

/// Access control lists, and default lists that a directory's new files inherit.
pub(super) fn acls(builder: &mut Builder) -> Result<()> {
    let acl = Acl {
        owner: 7,
        users: BTreeMap::from([(1000, 5), (70_000, 4)]),
        group: 5,
        groups: BTreeMap::from([(2000, 6)]),
        mask: Some(7),
        other: 1,
    };
    let value = acl.encode();
    let folder = builder.folder("attributes/acl-folder")?;
    builder.attribute(&folder, "system.posix_acl_default", &value)?;
    builder.attribute(&folder, "system.posix_acl_access", &value)?;
    builder.create(&folder.join("inherits"))?;
    builder.folder(folder.join("inherits-too"))?;
    let path = builder.path("attributes/acl");
    builder.file(&path, 10)?;
    builder.attribute(&path, "system.posix_acl_access", &value)
}

fn set(builder: &mut Builder, path: &Path, name: &str, len: usize) -> Result<()> {
    let value = builder.random.bytes(len);
    builder.attribute(path, name, &value)
}
