//! Names of extended attributes that a file system accepts or refuses, and operations on attributes with
//! these names. The results on two file systems can be compared.

use rustix::fs::{
    CWD, FileType, IFlags, Mode, XattrFlags, ioctl_getflags, ioctl_setflags, lgetxattr,
    lremovexattr, lsetxattr, mknodat,
};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

/// The name of an immutable directory.
const IMMUTABLE: &str = "immutable";

/// A file of each type, and an immutable directory.
const FILES: [&str; 6] = ["file", "directory", "link", "fifo", "socket", IMMUTABLE];

/// The largest value that Linux accepts, in bytes.
const LARGEST_BYTES: usize = 1 << 16;

/// Access to the attributes of files. A symbolic link is not followed.
pub trait Attributes {
    /// Returns the value of an attribute.
    ///
    /// # Errors
    /// That of lgetxattr(2).
    fn get(&self, file: &str, name: &str) -> Result<Vec<u8>, Errno>;

    /// Sets an attribute.
    ///
    /// # Errors
    /// That of lsetxattr(2).
    fn set(&self, file: &str, name: &str, value: &[u8], flags: XattrFlags) -> Result<(), Errno>;

    /// Removes an attribute.
    ///
    /// # Errors
    /// That of lremovexattr(2).
    fn remove(&self, file: &str, name: &str) -> Result<(), Errno>;
}

/// The files in a directory, whose attributes are accessed with system calls.
impl Attributes for &Path {
    fn get(&self, file: &str, name: &str) -> Result<Vec<u8>, Errno> {
        let mut value = [0; 64];
        let len = lgetxattr(self.join(file), name, &mut value[..])?;
        Ok(value[..len].to_vec())
    }

    fn set(&self, file: &str, name: &str, value: &[u8], flags: XattrFlags) -> Result<(), Errno> {
        lsetxattr(self.join(file), name, value, flags)
    }

    fn remove(&self, file: &str, name: &str) -> Result<(), Errno> {
        lremovexattr(self.join(file), name)
    }
}

/// Creates the files in the directory `root`.
pub fn make_files(root: &Path) -> io::Result<()> {
    for name in FILES {
        let path = root.join(name);
        let special = |kind| mknodat(CWD, &path, kind, Mode::from_raw_mode(0o644), 0);
        match name {
            "file" => fs::write(&path, "")?,
            "link" => symlink("target", &path)?,
            "fifo" => special(FileType::Fifo)?,
            "socket" => special(FileType::Socket)?,
            _ => fs::create_dir(&path)?,
        }
    }
    let immutable = File::open(root.join(IMMUTABLE))?;
    let flags = ioctl_getflags(&immutable)?;
    Ok(ioctl_setflags(&immutable, flags.union(IFlags::IMMUTABLE))?)
}

/// Gets, sets and removes attributes of each file. Returns a description and the result of each
/// operation: the value, which is empty if the operation returns none, or the errno.
#[must_use]
pub fn outcomes(attributes: &dyn Attributes) -> Vec<(String, Result<Vec<u8>, Errno>)> {
    let list = access_list();
    let too_large = vec![0; LARGEST_BYTES + 1];
    let (any, create, replace) = (XattrFlags::empty(), XattrFlags::CREATE, XattrFlags::REPLACE);
    let mut outcomes = Vec::new();
    for file in FILES {
        for name in &names() {
            let get = || attributes.get(file, name);
            let set = |value: &[u8], flags| {
                let set = attributes.set(file, name, value, flags);
                set.map(|()| Vec::new())
            };
            let remove = || attributes.remove(file, name).map(|()| Vec::new());
            let steps = [
                ("get", get()),
                ("remove", remove()),
                ("replace", set(&list, replace)),
                ("set", set(&list, any)),
                ("get", get()),
                ("create", set(&list, create)),
                ("set a value too large for", set(&too_large, any)),
                ("remove", remove()),
                ("get", get()),
            ];
            for (number, (step, outcome)) in steps.into_iter().enumerate() {
                let what = format!("{step} {name:?} of {file}, step {number}");
                outcomes.push((what, outcome));
            }
        }
    }
    outcomes
}

fn names() -> Vec<String> {
    let mut names: Vec<String> = [
        "user.a",
        "trusted.a",
        "security.a",
        "gnu.a",
        "unknown.a",
        "unknown",
        "",
        "system.a",
        "system.data",
        "system.richacl",
        "system.",
        "user",
        "user.",
        "trusted",
        "trusted.",
        "security.",
        "gnu.",
        "system.posix_acl_access",
        "system.posix_acl_default",
        "system.posix_acl_access.",
    ]
    .map(str::to_owned)
    .into();
    // The longest name that Linux accepts, and longer ones.
    for len in [255, 256, 300] {
        for prefix in ["user.", "trusted.", "unknown."] {
            names.push(format!("{prefix:n<len$}"));
        }
    }
    names
}

/// Returns a valid access control list, in the format of setxattr(2). It is also used as the value of
/// other attributes.
fn access_list() -> Vec<u8> {
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, permissions) in [(1_u16, 6_u16), (4, 5), (0x20, 1)] {
        bytes.extend(tag.to_le_bytes());
        bytes.extend(permissions.to_le_bytes());
        bytes.extend(u32::MAX.to_le_bytes());
    }
    bytes
}
