//! The kernels of the document, as table configurations of a volume.

use crate::published::lever2000::{SCRIPTS, TABLE_1_SCRIPTS};
use larder::CacheKind;
use larder_cache::tables::Tables;
use serde::Serialize;

/// A kernel in one of the document's tables.
#[derive(Clone, Copy, Debug)]
pub struct Kernel {
    /// The name of the kernel in the document. The size of its table is appended if several kernels have this
    /// name.
    pub name: &'static str,
    /// The hash tables of the kernel, in the syntax of [`Tables`].
    pub tables: &'static str,
    /// Whether the document has a row for this kernel. Other kernels were added here.
    pub is_published: bool,
}

impl Kernel {
    /// Returns the hash tables of the kernel.
    ///
    /// # Panics
    /// Never: a test parses all of them.
    pub fn tables(&self) -> Tables {
        self.tables.parse().expect("the built-in tables are valid")
    }
}

/// A published table.
#[derive(Clone, Copy, Debug)]
pub struct PublishedTable {
    /// Number of the table, from 1.
    pub number: u32,
    /// The table's subject.
    pub title: &'static str,
    /// The cache whose table is changed; `None` if all are.
    pub cache: Option<CacheKind>,
    /// Numbers of concurrent scripts.
    pub loads: &'static [u32],
    pub machine: Machine,
    /// The document's number of runs of each kernel under each load.
    pub runs: u32,
    /// The number of rounds of a run here. Three are enough for the minimum duration of a run. The tables with the
    /// widest intervals in the report of 29 November 2026 have more. Table 5 has the widest ones, but its rounds also
    /// take longest.
    pub run_rounds: u32,
    /// The typical duration of a round of all kernels on two processors in seconds, with the passes that fill the
    /// caches, and the creation and removal of homes.
    pub round_s: u32,
    /// The runs of which the document prints the average.
    pub average: Average,
    /// The kernels of the document's rows, followed by the kernels that were added here.
    pub kernels: &'static [Kernel],
}

/// The runs of which a table prints the average.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Average {
    /// All runs.
    All,
    /// All runs except the fastest and the slowest one: in the document, the middle five of seven.
    Middle,
}

/// A machine in the document, represented by the memory of a volume, and by the files that users read in addition to
/// the files of their scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The memory of all caches in MiB. The pages of 16 scripts take 5 MiB, and those of 128 scripts 40 MiB.
    pub memory_mib: u32,
    /// Number of [programs](super::programs) of 256 KiB.
    pub programs: u32,
    /// Whether each user lists its [spool](super::spool). The buffers of 128 users take 146 MiB.
    pub has_spool: bool,
    /// Whether the users together examine a [tree](super::tree) of 40,960 files.
    pub has_tree: bool,
}

impl Machine {
    /// The machine with 128 MB. With 16 scripts, its page cache contains 30,000 pages; 64 scripts do not fit.
    const SMALL: Self = Self {
        memory_mib: 129,
        programs: 448,
        has_spool: false,
        has_tree: false,
    };
    /// The machine with 512 MB. Its page cache contains 130,000 pages.
    const LARGE: Self = Self {
        memory_mib: 720,
        programs: 1872,
        has_spool: true,
        has_tree: false,
    };
    /// The machine with 512 MB, without the programs. It is used where the page cache is not examined, because
    /// long chains of pages would hide the effects of another cache.
    pub const WITHOUT_PROGRAMS: Self = Self {
        memory_mib: 256,
        programs: 0,
        has_spool: true,
        has_tree: false,
    };
    /// A machine with less memory than programs and spool need. Therefore memory is reclaimed all the time.
    const SHORT_OF_MEMORY: Self = Self {
        memory_mib: 256,
        programs: 384,
        has_spool: true,
        has_tree: false,
    };
    /// A machine whose inode cache has room for 10,000 inodes, about as many as in Histogram 5 of the document, and
    /// a tree with four times as many files. The pages of the scripts do not fit either.
    const FEW_INODES: Self = Self {
        memory_mib: 14,
        programs: 0,
        has_spool: false,
        has_tree: true,
    };
}

const fn published(name: &'static str, tables: &'static str) -> Kernel {
    Kernel {
        name,
        tables,
        is_published: true,
    }
}

const fn added(name: &'static str, tables: &'static str) -> Kernel {
    Kernel {
        name,
        tables,
        is_published: false,
    }
}

/// Tables 1 to 6.
pub const TABLES: [PublishedTable; 6] = [
    PublishedTable {
        number: 1,
        title: "functions and sizes of the page cache's table, little memory",
        cache: Some(CacheKind::Page),
        loads: &TABLE_1_SCRIPTS,
        machine: Machine::SMALL,
        runs: 7,
        run_rounds: 3,
        round_s: 26,
        average: Average::Middle,
        kernels: &[
            published("reference", "reference"),
            published("13-bit", "reference+page=page-reference/13"),
            published("14-bit", "reference+page=page-reference/14"),
            published("15-bit", "reference+page=page-reference/15"),
            published("offset", "reference+page=page-offset/14"),
            published("mult", "reference+page=page-mult/14"),
            published("rbtree", "reference+page=rbtree"),
            added("larder's", "reference+page=larder/14"),
        ],
    },
    PublishedTable {
        number: 2,
        title: "sizes of the page cache's table, much memory",
        cache: Some(CacheKind::Page),
        loads: &[SCRIPTS],
        machine: Machine::LARGE,
        runs: 5,
        run_rounds: 7,
        round_s: 15,
        average: Average::All,
        kernels: &[
            published("2048", "reference"),
            published("8192", "reference+page=page-reference/13"),
            published("32768", "reference+page=page-reference/15"),
        ],
    },
    PublishedTable {
        number: 3,
        title: "functions and sizes of the buffer cache's table",
        cache: Some(CacheKind::Buffer),
        loads: &[SCRIPTS],
        machine: Machine::WITHOUT_PROGRAMS,
        runs: 5,
        run_rounds: 8,
        round_s: 33,
        average: Average::All,
        kernels: &[
            published("reference, 32768", "reference"),
            published("mult shift 16, 32768", "reference+buffer=buffer-mult-16/15"),
            published("mult shift 11, 32768", "reference+buffer=buffer-mult-11/15"),
            published("shift-add, 32768", "reference+buffer=buffer-steiner/15"),
            published("mult shift 11, 16384", "reference+buffer=buffer-mult-11/14"),
            published("mult shift 17, 16384", "reference+buffer=buffer-mult-17/14"),
            published("shift-add, 16384", "reference+buffer=buffer-steiner/14"),
            published("mult shift 18, 8192", "reference+buffer=buffer-mult-18/13"),
            published("shift-add, 8192", "reference+buffer=buffer-steiner/13"),
            added("reference, 16384", "reference+buffer=buffer-reference/14"),
            added("2.2.16, 32768", "reference+buffer=buffer-shift-xor/15"),
            added("2.2.16, 16384", "reference+buffer=buffer-shift-xor/14"),
            added("larder's, 16384", "reference+buffer=larder/14"),
        ],
    },
    PublishedTable {
        number: 4,
        title: "functions of the dentry cache's table, and eager shrinking",
        cache: Some(CacheKind::Dentry),
        loads: &[SCRIPTS],
        machine: Machine::SHORT_OF_MEMORY,
        runs: 5,
        run_rounds: 7,
        round_s: 25,
        average: Average::All,
        kernels: &[
            published("reference", "reference"),
            published("14 bit", "reference+dentry=dentry-add/14"),
            published("mult shift 11", "reference+dentry=dentry-mult-11/14"),
            published("mult shift 17", "reference+dentry=dentry-mult-17/14"),
            published("shrink", "reference+dentry=dentry-add/14+shrink=eager"),
            published(
                "shrink + mult 11",
                "reference+dentry=dentry-mult-11/14+shrink=eager",
            ),
            published(
                "shrink + mult 17",
                "reference+dentry=dentry-mult-17/14+shrink=eager",
            ),
            added("larder's", "reference+dentry=larder/14"),
        ],
    },
    PublishedTable {
        number: 5,
        title: "sizes and a function of the inode cache's table",
        cache: Some(CacheKind::Inode),
        loads: &[SCRIPTS],
        machine: Machine::FEW_INODES,
        runs: 5,
        run_rounds: 6,
        round_s: 38,
        average: Average::All,
        kernels: &[
            published("reference", "reference"),
            published("12 bit", "reference+inode=inode-reference/12"),
            published("mult", "reference+inode=inode-mult/12"),
            published("14 bit", "reference+inode=inode-reference/14"),
            added("larder's, 8 bit", "reference+inode=larder/8"),
            added("larder's, 12 bit", "reference+inode=larder/12"),
            added("larder's, 14 bit", "reference+inode=larder/14"),
        ],
    },
    PublishedTable {
        number: 6,
        title: "all four caches together",
        cache: None,
        loads: &[SCRIPTS],
        machine: Machine::LARGE,
        runs: 10,
        run_rounds: 6,
        round_s: 28,
        average: Average::All,
        kernels: &[
            published("reference", "reference"),
            published("A", "A"),
            published("B", "B"),
            published("C", "C"),
            published("D", "D"),
            added("D in 64 bits", D_64),
            added("larder", "larder"),
        ],
    },
];

/// The tables of kernel D, with functions that compute in words of 64 bits.
const D_64: &str = "larder+page=page-offset-64/13+buffer=buffer-mult-11-64/14\
                    +dentry=dentry-add-64/13+inode=inode-modified-64/11";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::published::lever2000 as published;

    #[test]
    fn every_published_row_has_its_kernel_with_as_many_buckets() {
        let of = |rows: Vec<published::KernelRow>| -> Vec<Option<u32>> {
            rows.into_iter().map(|row| row.buckets).collect()
        };
        let rows = [
            published::table_1()
                .into_iter()
                .map(|row| row.buckets)
                .collect(),
            of(published::table_2()),
            of(published::table_3()),
            of(published::table_4()),
            of(published::table_5()),
            of(published::table_6()),
        ];
        for (table, rows) in TABLES.iter().zip(rows) {
            let kernels: Vec<_> = table
                .kernels
                .iter()
                .filter(|kernel| kernel.is_published)
                .collect();
            assert_eq!(kernels.len(), rows.len(), "table {}", table.number);
            for (kernel, buckets) in kernels.iter().zip(rows) {
                let Some(buckets) = buckets else { continue };
                let choice = kernel.tables().table(table.cache.unwrap()).unwrap();
                let bits = buckets.trailing_zeros();
                assert_eq!(
                    choice.size,
                    larder_cache::tables::TableSize::Bits(bits),
                    "{kernel:?}"
                );
            }
        }
    }

    #[test]
    fn tables_of_every_kernel_are_well_formed() {
        for kernel in TABLES.iter().flat_map(|table| table.kernels) {
            let tables = kernel.tables();
            assert_eq!(tables.to_string().parse(), Ok(tables), "{kernel:?}");
        }
    }
}
