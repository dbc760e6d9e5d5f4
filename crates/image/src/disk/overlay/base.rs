//! The base of an overlay.

/// What an overlay records about its base.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// The path or the URL, without secrets, for other programs.
    pub name: Vec<u8>,
    /// The format in the terms of qemu, for example `raw`, for other programs.
    pub format: String,
    /// A text that differs for bases with different content.
    pub version: String,
}
