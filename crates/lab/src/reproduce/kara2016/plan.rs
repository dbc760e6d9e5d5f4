//! What is measured and simulated: the sources of figures, and what each of them compares.

use larder::MbCacheVariant::{self, Clock, ListLru, Lru, Off, Old, Referenced};
use serde::{Deserialize, Serialize};

use crate::xattr_bench::Case;

/// The variants in the order of the columns: those of the letter, then Larder's own.
pub const ORDER: [MbCacheVariant; 6] = [Old, Lru, ListLru, Referenced, Off, Clock];

/// The variants of the letter.
pub const PUBLISHED: [MbCacheVariant; 5] = [Old, Lru, ListLru, Referenced, Off];

/// The case in which the cost of additional blocks is judged: the most processes and files, and the fewest values.
pub const REPEATED: Case = Case {
    processes: 64,
    files: 1000,
    values: 10,
};

/// The source of a measured or simulated table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The file system in one process, on an in-memory device.
    Volume,
    /// Only the cache.
    Engine,
    /// The kernel's ext4 on an image in memory.
    Kernel,
    /// The cache with a model of the file system, on as many processors as the letter's machine had, in virtual
    /// time.
    Simulated,
}

impl Source {
    /// All sources.
    pub const ALL: [Self; 4] = [Self::Volume, Self::Engine, Self::Kernel, Self::Simulated];
    /// The sources that are measured, in the order of their measurement.
    pub const MEASURED: [Self; 3] = [Self::Volume, Self::Engine, Self::Kernel];

    /// Returns the name used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Engine => "engine",
            Self::Kernel => "kernel",
            Self::Simulated => "simulated",
        }
    }
}

/// What runs compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Comparison {
    /// The variants, as in the letter's table.
    Variants,
    /// `referenced` with and without the reusable flag.
    Flag,
    /// `referenced` and `off`, with and without a journal.
    Journal,
    /// The variants of the letter, simulated with other assumptions.
    Assumptions,
}

/// How a run differs from the runs of the letter's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Setting {
    /// It does not differ.
    Letter,
    /// Many files with few values, with the reusable flag.
    Flag,
    /// As [`Self::Flag`], but searches also examine full blocks.
    NoFlag,
    /// Each file is set once before the measured time.
    Journal,
    /// As [`Self::Journal`], on a file system without a journal.
    NoJournal,
}

impl Setting {
    /// Returns the name used in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Letter => "letter",
            Self::Flag => "flag",
            Self::NoFlag => "no-flag",
            Self::Journal => "journal",
            Self::NoJournal => "no-journal",
        }
    }
}

/// What is timed: a case under a variant, in a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cell {
    #[serde(flatten)]
    pub case: Case,
    pub setting: Setting,
    pub variant: MbCacheVariant,
}

impl Cell {
    /// Returns a cell of the letter's table.
    pub fn letter(case: Case, variant: MbCacheVariant) -> Self {
        Self {
            case,
            setting: Setting::Letter,
            variant,
        }
    }
}

/// All runs of a comparison from one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    pub source: Source,
    pub comparison: Comparison,
}

impl Batch {
    /// All batches, in the order in which they run.
    pub const ALL: [Self; 10] = [
        Self::new(Source::Volume, Comparison::Flag),
        Self::new(Source::Volume, Comparison::Variants),
        Self::new(Source::Volume, Comparison::Journal),
        Self::new(Source::Engine, Comparison::Flag),
        Self::new(Source::Engine, Comparison::Variants),
        Self::new(Source::Kernel, Comparison::Variants),
        Self::new(Source::Kernel, Comparison::Journal),
        Self::new(Source::Simulated, Comparison::Flag),
        Self::new(Source::Simulated, Comparison::Variants),
        Self::new(Source::Simulated, Comparison::Assumptions),
    ];

    pub const fn new(source: Source, comparison: Comparison) -> Self {
        Self { source, comparison }
    }

    /// Returns the settings and variants that are compared in each case. Measured ones take turns in this order.
    pub fn compared(self) -> Vec<(Setting, MbCacheVariant)> {
        let letter = |variants: &[MbCacheVariant]| -> Vec<(Setting, MbCacheVariant)> {
            let variants = variants.iter();
            variants
                .map(|variant| (Setting::Letter, *variant))
                .collect()
        };
        match (self.comparison, self.source) {
            // The kernel supports only these.
            (Comparison::Variants, Source::Kernel) => letter(&[Referenced, Off]),
            (Comparison::Variants, _) => letter(&ORDER),
            (Comparison::Assumptions, _) => letter(&PUBLISHED),
            (Comparison::Flag, _) => {
                vec![(Setting::Flag, Referenced), (Setting::NoFlag, Referenced)]
            }
            (Comparison::Journal, _) => vec![
                (Setting::Journal, Referenced),
                (Setting::Journal, Off),
                (Setting::NoJournal, Referenced),
                (Setting::NoJournal, Off),
            ],
        }
    }
}
