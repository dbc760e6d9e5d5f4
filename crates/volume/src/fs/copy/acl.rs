//! Access control lists, which a new file can inherit from its directory.

/// The names of the extended attributes.
pub(super) const LISTS: [&str; 2] = ["system.posix_acl_access", "system.posix_acl_default"];
