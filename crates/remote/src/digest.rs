//! The digest of an image's content, as the user gives it and as errors show it.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The SHA-256 of the content of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentDigest(pub(crate) [u8; 32]);

impl FromStr for ContentDigest {
    type Err = &'static str;

    /// Parses 64 hexadecimal digits.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = "a SHA-256 has 64 hexadecimal digits";
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(invalid);
        }
        let mut digest = [0; 32];
        for (at, byte) in digest.iter_mut().enumerate() {
            let digits = text.get(2 * at..2 * at + 2).ok_or(invalid)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| invalid)?;
        }
        Ok(Self(digest))
    }
}

impl Display for ContentDigest {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}
