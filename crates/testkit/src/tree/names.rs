//! Directories and names: large directories, deep ones, and long or unusual names.

use super::builder::Builder;
use super::{NamesAre, Tree};
use crate::error::{Context, Result};

/// The number of names that share one inode. It is below the maximum link count of every file
/// system of the tests.
const LINKS_PER_FILE: u32 = 10_000;

/// A directory with very many names.
pub(super) fn many(builder: &mut Builder, tree: &Tree) -> Result<()> {
    let folder = builder.folder("many")?;
    let mut target = builder.path("many-0");
    for number in 0..tree.names {
        let name = match tree.names_are {
            NamesAre::Files => format!("file-{number:06}"),
            NamesAre::Links => format!("{number:06}-{:x}", builder.random.next_u64()),
            NamesAre::LongLinks => format!("{number:0250}"),
        };
        if tree.names_are == NamesAre::Files {
            builder.create(&folder.join(name))?;
            continue;
        }
        if number % LINKS_PER_FILE == 0 {
            target = builder.path(format!("many-{}", number / LINKS_PER_FILE));
            builder.file(&target, 10)?;
        }
        builder.hard_link(&target, &folder.join(name))?;
    }
    Ok(())
}

/// Nested directories.
pub(super) fn deep(builder: &mut Builder, tree: &Tree) -> Result<()> {
    let mut folder = builder.folder("deep")?;
    for level in 0..tree.depth {
        folder = builder.folder(folder.join(format!("level-{level}")))?;
        builder.file(&folder.join("here"), 30)?;
    }
    Ok(())
}

/// Names of every kind that a directory can hold.
pub(super) fn odd(builder: &mut Builder) -> Result<()> {
    builder.folder("odd-names")?;
    let mut names: Vec<Vec<u8>> = [
        &b"a"[..],
        b"...",
        b"..a",
        b"-rf",
        b" ",
        b"new\nline",
        b"tab\there",
        b"quote'\"`$(x)",
        b"back\\slash",
        b"\xff\xfe\xfd",
        b"\xc3\x28",
        "caf\u{e9}".as_bytes(),
        "cafe\u{301}".as_bytes(),
        "\u{65e5}\u{672c}\u{8a9e}".as_bytes(),
        b"CaSe",
        b"case",
    ]
    .iter()
    .map(|name| name.to_vec())
    .collect();
    names.push(vec![b'n'; 254]);
    names.push(vec![b'n'; 255]);
    names.push(
        (0..255)
            .map(|i| if i % 2 == 0 { 0x80 } else { 0xff })
            .collect(),
    );
    // Every byte that a name may contain.
    names.push((1..=255).filter(|&byte| byte != b'/').collect());
    names.extend(
        (1..=255)
            .filter(|&b| b != b'/' && b != b'.' && b != b'a' && b != b' ')
            .map(|b| vec![b]),
    );
    for name in names {
        let path = builder.path_bytes("odd-names", &name);
        builder.create(&path)?;
    }
    Ok(())
}

/// Directories with deleted entries at the start, in the middle, at the end and everywhere.
pub(super) fn deleted(builder: &mut Builder, tree: &Tree) -> Result<()> {
    let count = (tree.names / 20).clamp(40, 1000);
    for (name, keep) in [
        ("deleted-first", (count / 2)..count),
        ("deleted-last", 0..(count / 2)),
        ("deleted-all", 0..0),
    ] {
        let folder = builder.folder(name)?;
        for number in 0..count {
            builder.create(&folder.join(format!("entry-{number}")))?;
        }
        for number in (0..count).filter(|number| !keep.contains(number)) {
            let path = folder.join(format!("entry-{number}"));
            std::fs::remove_file(&path).context("remove", &path)?;
        }
    }
    let folder = builder.folder("deleted-some")?;
    for number in 0..count {
        builder.create(&folder.join(format!("{number}")))?;
        if number % 3 == 2 {
            let path = folder.join(format!("{}", number - 1));
            std::fs::remove_file(&path).context("remove", &path)?;
        }
    }
    Ok(())
}

/// Small directories: empty, and with few names, which inline data stores in the inode.
pub(super) fn folders(builder: &mut Builder) -> Result<()> {
    builder.folder("folders")?;
    for count in 0..14 {
        let folder = builder.folder(format!("folders/{count}"))?;
        for number in 0..count {
            builder.create(&folder.join(format!("n{number}")))?;
        }
    }
    // For features that mark a directory or a file. They are created here, and marked later.
    let folder = builder.folder("casefolded")?;
    builder.create(&folder.join("Name"))?;
    let folder = builder.folder("verity")?;
    builder.file(&folder.join("data"), 10_000)?;
    Ok(())
}

/// Hard links to one file from several directories, and to a symbolic link.
pub(super) fn links(builder: &mut Builder, tree: &Tree) -> Result<()> {
    builder.folder("links")?;
    let target = builder.path("links/target");
    builder.file(&target, 5000)?;
    for number in 0..tree.repeat {
        let folder = builder.folder(format!("links/{number}"))?;
        builder.hard_link(&target, &folder.join("target"))?;
    }
    let symlink = builder.path("links/symlink");
    std::os::unix::fs::symlink("target", &symlink).context("create the symbolic link", &symlink)?;
    if builder.limits.symlink_links {
        builder.hard_link(&symlink, &builder.path("links/symlink-too"))?;
    }
    Ok(())
}
