//! What can be inserted at the cursor.

/// A text that can be inserted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The text, which replaces the text at the cursor.
    pub text: Vec<u8>,
    /// What the text means, or an empty string.
    pub description: String,
}

impl Candidate {
    /// Returns a candidate without a description.
    #[must_use]
    pub fn new(text: impl Into<Vec<u8>>) -> Self {
        Self {
            text: text.into(),
            description: String::new(),
        }
    }
}

/// What can be inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The files and directories of the machine, which the shell lists.
    Files,
    /// The directories of the machine, which the shell lists.
    Directories,
    /// The candidates, such as names of options.
    Values,
    /// The candidates, which are paths inside an image.
    Paths,
}

impl Kind {
    /// Returns the name of the kind in the output.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Directories => "directories",
            Self::Values => "values",
            Self::Paths => "paths",
        }
    }
}

/// What can be inserted at the cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// What can be inserted.
    pub kind: Kind,
    /// The number of bytes at the beginning of the text at the cursor that stay as they are.
    pub kept_bytes: usize,
    /// The texts that can follow.
    pub candidates: Vec<Candidate>,
}

impl Completion {
    /// Returns a completion that the shell makes.
    #[must_use]
    pub fn files(kind: Kind) -> Self {
        Self {
            kind,
            kept_bytes: 0,
            candidates: Vec::new(),
        }
    }

    /// Returns a completion of the text after its last comma. Candidates that do not begin with this text are removed.
    #[must_use]
    pub fn of_list(text: &[u8], candidates: impl IntoIterator<Item = Candidate>) -> Self {
        let kept_bytes = text.iter().rposition(|&byte| byte == b',');
        Self::after(text, kept_bytes.map_or(0, |at| at + 1), candidates)
    }

    /// Returns a completion of `text` after its first `kept_bytes` bytes. Candidates that do not begin with this part
    /// are removed.
    #[must_use]
    pub fn after(
        text: &[u8],
        kept_bytes: usize,
        candidates: impl IntoIterator<Item = Candidate>,
    ) -> Self {
        let typed = text.get(kept_bytes..).unwrap_or_default();
        let candidates = candidates.into_iter();
        Self {
            kind: Kind::Values,
            kept_bytes,
            candidates: candidates
                .filter(|candidate| candidate.text.starts_with(typed))
                .collect(),
        }
    }
}
