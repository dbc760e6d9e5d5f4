//! The pages of the view of `larder top`.

use clap::ValueEnum;
use clap::builder::PossibleValue;
use larder::CacheKind;

/// A page of the view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    Overview,
    Fuse,
    Files,
    Processes,
    Device,
    Journal,
    Cache(CacheKind),
}

impl Page {
    /// All pages, in the order of their tabs.
    pub(crate) const ALL: [Self; 10] = [
        Self::Overview,
        Self::Fuse,
        Self::Files,
        Self::Processes,
        Self::Device,
        Self::Journal,
        Self::Cache(CacheKind::Page),
        Self::Cache(CacheKind::Buffer),
        Self::Cache(CacheKind::Dentry),
        Self::Cache(CacheKind::Inode),
    ];

    /// The index of the first page of a cache in [`Self::ALL`].
    const FIRST_CACHE: usize = Self::ALL.len() - CacheKind::ALL.len();

    /// Returns the name of the page, as the tab shows it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Overview => "Overview",
            Self::Fuse => "FUSE",
            Self::Files => "Files",
            Self::Processes => "Processes",
            Self::Device => "Device",
            Self::Journal => "Journal",
            Self::Cache(kind) => kind.as_str(),
        }
    }

    /// Returns the key that shows the page.
    pub(crate) fn key(self) -> char {
        "1234567890".chars().nth(self.place()).unwrap_or(' ')
    }

    /// Returns the page that a digit shows.
    pub(crate) fn of_key(key: char) -> Option<Self> {
        Self::ALL.into_iter().find(|page| page.key() == key)
    }

    /// Returns the page that is `step` tabs to the right. The first page follows the last.
    pub(crate) fn after(self, step: usize) -> Self {
        Self::ALL[(self.place() + step) % Self::ALL.len()]
    }

    fn place(self) -> usize {
        Self::ALL.iter().position(|page| *page == self).unwrap_or(0)
    }
}

/// The values of `--page`. For the page of a cache, `--cache` chooses the cache.
impl ValueEnum for Page {
    fn value_variants<'a>() -> &'a [Self] {
        &Self::ALL[..=Self::FIRST_CACHE]
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let (name, help) = match self {
            Self::Overview => ("overview", "The most important numbers"),
            Self::Fuse => ("fuse", "The requests of the kernel, by operation"),
            Self::Files => ("files", "The files with the most requests"),
            Self::Processes => ("processes", "The processes with the most requests"),
            Self::Device => ("device", "The device, readahead and the network"),
            Self::Journal => ("journal", "The journal and dirty content"),
            Self::Cache(_) => ("cache", "The chains of a cache"),
        };
        Some(PossibleValue::new(name).help(help))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_and_steps_lead_to_pages() {
        assert_eq!(Page::of_key('1'), Some(Page::Overview));
        assert_eq!(Page::of_key('0'), Some(Page::Cache(CacheKind::Inode)));
        assert_eq!(Page::of_key('x'), None);
        assert_eq!(Page::Overview.after(1), Page::Fuse);
        assert_eq!(Page::Cache(CacheKind::Inode).after(1), Page::Overview);
        assert_eq!(
            Page::Overview.after(Page::ALL.len() - 1),
            Page::Cache(CacheKind::Inode)
        );
    }
}
