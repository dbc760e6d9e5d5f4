//! The identity of the object to which a cache file belongs.

use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;

/// Returns a digest in hexadecimal.
pub(super) fn hexadecimal(digest: &Digest) -> String {
    digest.iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A digest of an identity and a size. Objects with different digests have different cache files.
pub(super) type Digest = [u8; 32];

/// One version of an object, as one user of the store may read it. Only a digest of it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity<'a> {
    /// The endpoint and the path of the object.
    pub location: &'a str,
    /// The `ETag` or version ID, which the store guarantees to be different for each version.
    pub version: &'a str,
    /// The owner of the credentials. Therefore a user who may not read the object does not get it from
    /// the cache. Empty for anonymous access.
    pub credentials: &'a str,
}

impl Identity<'_> {
    /// Returns the digest of this identity and the size of the object.
    pub(super) fn digest(&self, size_bytes: u64) -> Digest {
        let mut hash = Sha256::new();
        for field in [self.location, self.version, self.credentials] {
            // The length of each field is hashed, so that the end of a field cannot be mistaken for the start
            // of the next.
            hash.update((field.len() as u64).to_le_bytes());
            hash.update(field);
        }
        hash.update(size_bytes.to_le_bytes());
        hash.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn different_identities_have_different_digests() {
        let fields = [
            ("ab", "c", "d", 1),
            ("a", "bc", "d", 1),
            ("ab", "", "cd", 1),
            ("ab", "c", "", 1),
            ("ab", "c", "d", 2),
        ];
        let digests: HashSet<Digest> = fields
            .into_iter()
            .map(|(location, version, credentials, size_bytes)| {
                let identity = Identity {
                    location,
                    version,
                    credentials,
                };
                identity.digest(size_bytes)
            })
            .collect();
        assert_eq!(digests.len(), fields.len());
    }
}
