//! Paths inside an image.

use std::fmt;

/// The names from the root to the file; empty for the root itself.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodePath(pub Vec<Vec<u8>>);

impl NodePath {
    /// Returns the path of the entry `name` of this directory.
    #[must_use]
    pub fn join(&self, name: &[u8]) -> Self {
        let mut names = self.0.clone();
        names.push(name.to_vec());
        Self(names)
    }

    /// Returns the directory and the name in it, or `None` for the root.
    #[must_use]
    pub fn split(&self) -> Option<(&[Vec<u8>], &[u8])> {
        let (name, parent) = self.0.split_last()?;
        Some((parent, name))
    }
}

impl fmt::Debug for NodePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("/");
        }
        for name in &self.0 {
            // Long names are shown by their length.
            if name.len() > 40 {
                let start = name[..8].escape_ascii();
                write!(f, "/{start}…({} bytes)", name.len())?;
            } else {
                write!(f, "/{}", name.escape_ascii())?;
            }
        }
        Ok(())
    }
}
