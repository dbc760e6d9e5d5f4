//! The records of extended attributes and access control lists.

use super::records::Records;
use crate::commands::tar_attributes;
use crate::failure::without_inode;
use larder::{Ino, Volume};
use larder_console::name;

/// The beginnings of the names of the attributes that are stored, in addition to access control lists.
const PREFIXES: [&str; 3] = ["user.", "trusted.", "security."];

/// Returns the records of the attributes of the file `ino`, in the order of their names. If an attribute cannot be stored,
/// `report` is called with the reason.
pub(super) fn records(volume: &Volume, ino: Ino, mut report: impl FnMut(String)) -> Records {
    let mut records = Records::default();
    let mut names = volume.xattrs(ino).unwrap_or_else(|error| {
        let error = without_inode(&error);
        report(format!("cannot read the attributes: {error}"));
        Vec::new()
    });
    names.sort_unstable();
    for name in names {
        let list_key = tar_attributes::list_key(&name);
        let is_other = PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix.as_bytes()));
        if list_key.is_none() && !is_other {
            continue;
        }
        let shown = name::escaped(&name);
        let value = match volume.xattr(ino, &name) {
            Ok(Some(value)) => value,
            // A file of this type cannot have the attribute.
            Ok(None) => continue,
            Err(error) => {
                let error = without_inode(&error);
                report(format!("cannot read attribute {shown}: {error}"));
                continue;
            }
        };
        match list_key {
            Some(key) => match tar_attributes::list_text(&value) {
                Some(text) => records.add(key.as_bytes(), text.as_bytes()),
                None => report(format!(
                    "attribute {shown} is not a valid access control list"
                )),
            },
            None if name.contains(&0) => {
                report(format!("the name of attribute {shown} cannot be stored"));
            }
            None => records.add(&tar_attributes::key(&name), &value),
        }
    }
    records
}
