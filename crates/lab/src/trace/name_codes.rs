//! The codes of names in a trace, and the text of damage.

use std::fmt::Display;

/// Returns the index of `name` in `names`.
pub(super) fn code_of(names: &[&str], name: &[u8]) -> Result<u8, String> {
    let found = (0..).zip(names).find(|(_, one)| one.as_bytes() == name);
    found.map(|(code, _)| code).ok_or_else(|| {
        // Only the start of a damaged name is of interest.
        let start = &name[..name.len().min(32)];
        format!("unknown name `{}`", start.escape_ascii())
    })
}

/// Converts an error to the text that describes damage.
pub(super) fn text(error: impl Display) -> String {
    error.to_string()
}
