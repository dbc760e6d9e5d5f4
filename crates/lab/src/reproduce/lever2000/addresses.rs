//! Computes the chains of pages with other addresses of inodes.
//!
//! # Model
//! The published functions of the page cache hash the address of a file's inode. A volume has no such address, so the
//! measured tables use the number of the inode times 336. In a kernel, the address depends on the size of the
//! structure, and on where the kernel allocates it. Linux 2.2 allocates inodes in pages of 4096 bytes, in the order of
//! their first use (`grow_inodes` in `fs/inode.c`). Here the functions distribute the pages of the
//! [programs](super::programs), without a volume, for several sizes and [`Allocation`]s. Each page is looked up once.

use super::kernels::TABLES;
use super::programs::PAGES;
use super::size::Size;
use crate::run_report::quotient;
use crate::statistics::Interval;
use crate::workload::chance::generator;
use larder::{CacheKind, Ino};
use larder_cache::hash::{AddressedPage, Function};
use larder_cache::tables::TableSize;
use rand::Rng;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::iter::repeat_with;

/// Sizes of an inode. By a count of its fields, `struct inode` has 268 bytes on i386 in Linux 2.2.5, and 272 with
/// `i_generation`, a field that later versions of Linux 2.2 have. Larder's functions assume 336.
const INODE_BYTES: [u64; 6] = [268, 272, 304, 336, 368, 400];

/// The tables: the number of each, the pages of memory of the document's machine, and the kernels.
const KERNELS: [(usize, u64, &[&str]); 3] = [
    (
        1,
        1 << 15,
        &["reference", "13-bit", "14-bit", "15-bit", "offset", "mult"],
    ),
    (2, 1 << 17, &["2048", "8192", "32768"]),
    (6, 1 << 17, &["reference", "A", "B", "C", "D"]),
];

/// Number of seeds for random addresses.
pub(super) const SEEDS: u64 = 10;

const PAGE_BYTES: u64 = 4096;

/// Where inodes are in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Allocation {
    /// In the order of their numbers, with gaps for numbers without a file.
    Numbers,
    /// In the order of their creation, without gaps.
    Adjacent,
    /// In the order of their creation, in adjacent pages. An inode is within one page.
    AdjacentPages,
    /// In the order of their creation, in pages at random addresses.
    RandomPages,
}

impl Allocation {
    const ALL: [Self; 4] = [
        Self::Numbers,
        Self::Adjacent,
        Self::AdjacentPages,
        Self::RandomPages,
    ];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Numbers => "by number",
            Self::Adjacent => "adjacent",
            Self::AdjacentPages => "adjacent pages",
            Self::RandomPages => "random pages",
        }
    }

    /// Returns the addresses of `inodes`, which are in the order of their creation. Random addresses are drawn several
    /// times, in a memory of `frames` pages.
    fn draws(self, inodes: &[Ino], inode_bytes: u64, frames: u64) -> Vec<Vec<u64>> {
        let per_page = PAGE_BYTES / inode_bytes;
        let in_pages = |page: &dyn Fn(u64) -> u64| {
            let numbers = 0..inodes.len() as u64;
            let address = |at| page(at / per_page) * PAGE_BYTES + at % per_page * inode_bytes;
            numbers.map(address).collect()
        };
        match self {
            Self::Numbers => {
                let addresses = inodes.iter().map(|ino| u64::from(ino.0) * inode_bytes);
                vec![addresses.collect()]
            }
            Self::Adjacent => {
                vec![
                    (0..inodes.len() as u64)
                        .map(|at| at * inode_bytes)
                        .collect(),
                ]
            }
            Self::AdjacentPages => vec![in_pages(&|page| page)],
            Self::RandomPages => {
                let draw = |seed| {
                    let pages = random_pages(inodes.len(), frames, seed);
                    in_pages(&|page| usize::try_from(page).map_or(0, |page| pages[page]))
                };
                (0..SEEDS).map(draw).collect()
            }
        }
    }
}

/// Returns `count` different numbers below `frames`, in random order.
fn random_pages(count: usize, frames: u64, seed: u64) -> Vec<u64> {
    let mut random = generator(seed, frames);
    let mut drawn = BTreeSet::new();
    repeat_with(|| random.random_range(0..frames))
        .filter(|page| drawn.insert(*page))
        .take(count)
        .collect()
}

/// The chains of pages with one size and allocation of inodes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Layout {
    pub inode_bytes: u64,
    pub allocation: Allocation,
    /// The chains of several kernels.
    pub chains: Vec<PageChains>,
}

/// The chains of a kernel's table of pages.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PageChains {
    /// Number of the document's table, from 1.
    pub table: usize,
    pub kernel: &'static str,
    /// Mean links of a lookup. With random addresses, the median of several seeds.
    pub links: f64,
    /// The 95% confidence interval of this median; `None` with other addresses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<[f64; 2]>,
}

impl PageChains {
    /// Returns [`Self::links`] with their interval.
    pub(super) fn interval(&self) -> Interval {
        match self.range {
            Some(range) => Interval::new(self.links, range),
            None => Interval::unknown(self.links),
        }
    }
}

impl Layout {
    /// Computes the chains of the pages of `programs`, whose inodes are in the order of their creation.
    fn of(inode_bytes: u64, allocation: Allocation, programs: &[Ino], size: &Size) -> Self {
        let mut chains = Vec::new();
        for (number, frames, kernels) in KERNELS {
            let table = &TABLES[number - 1];
            let count = size.programs(table.machine) as usize;
            let inodes = programs.get(..count).unwrap_or(programs);
            let draws = allocation.draws(inodes, inode_bytes, frames);
            for kernel in table
                .kernels
                .iter()
                .filter(|kernel| kernels.contains(&kernel.name))
            {
                let Some(choice) = kernel.tables().table(CacheKind::Page) else {
                    continue;
                };
                let (Some(function), TableSize::Bits(bits)) = (choice.function, choice.size) else {
                    continue;
                };
                let links = draws
                    .iter()
                    .filter_map(|addresses| mean_links(function, bits, addresses, inode_bytes));
                let links = Interval::of_median(&links.collect::<Vec<_>>());
                chains.push(PageChains {
                    table: number,
                    kernel: kernel.name,
                    links: links.value,
                    range: links.low.zip(links.high).map(<[f64; 2]>::from),
                });
            }
        }
        Self {
            inode_bytes,
            allocation,
            chains,
        }
    }

    /// Returns the chains of a kernel of a table, numbered from 1.
    pub(super) fn chains_of(&self, table: usize, kernel: &str) -> Option<&PageChains> {
        let mut chains = self.chains.iter();
        chains.find(|chains| (chains.table, chains.kernel) == (table, kernel))
    }

    /// Returns the mean links of a lookup of a page with a kernel of a table, numbered from 1.
    pub(super) fn links(&self, table: usize, kernel: &str) -> Option<f64> {
        Some(self.chains_of(table, kernel)?.links)
    }
}

/// Returns the mean links of a lookup of each page of programs whose inodes are at `addresses`. Returns `None` if
/// `function` does not hash addresses.
fn mean_links(function: Function, bits: u32, addresses: &[u64], inode_bytes: u64) -> Option<f64> {
    let mut lengths = vec![0_u64; 1 << bits];
    for &inode in addresses {
        for page in 0..u64::from(PAGES) {
            let page = AddressedPage {
                inode,
                inode_bytes,
                page,
            };
            lengths[function.page_bucket(page, bits)? as usize] += 1;
        }
    }
    let links = lengths.iter().map(|length| length * (length + 1) / 2);
    Some(quotient(links.sum(), lengths.iter().sum()))
}

/// Returns the size of an inode and the allocation of each layout.
pub(super) fn sizes_and_allocations() -> impl Iterator<Item = (u64, Allocation)> {
    INODE_BYTES
        .iter()
        .flat_map(|inode_bytes| Allocation::ALL.map(|allocation| (*inode_bytes, allocation)))
}

/// Returns the table, numbered from 1, and the name of each kernel of a layout.
pub(super) fn kernels() -> impl Iterator<Item = (usize, &'static str)> {
    let tables = KERNELS.iter();
    tables.flat_map(|(table, _, kernels)| kernels.iter().map(move |kernel| (*table, *kernel)))
}

/// Computes the chains with each size and allocation.
pub(super) fn compute(programs: &[Ino], size: &Size) -> Vec<Layout> {
    sizes_and_allocations()
        .map(|(inode_bytes, allocation)| Layout::of(inode_bytes, allocation, programs, size))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the inodes of programs, 64 of them in each block group of 2048 inodes.
    fn programs() -> Vec<Ino> {
        let number = |at: u32| Ino(at / 64 * 2048 + at % 64 + 12);
        (0..1872).map(number).collect()
    }

    fn links(inode_bytes: u64, allocation: Allocation) -> [f64; 3] {
        let layout = Layout::of(inode_bytes, allocation, &programs(), &Size::full(1));
        ["A", "C", "D"].map(|kernel| layout.links(6, kernel).unwrap())
    }

    #[test]
    fn random_addresses_have_a_range() {
        for (allocation, is_random) in [
            (Allocation::AdjacentPages, false),
            (Allocation::RandomPages, true),
        ] {
            let layout = Layout::of(336, allocation, &programs(), &Size::quick(1));
            for chains in layout.chains {
                assert_eq!(chains.range.is_some(), is_random, "{chains:?}");
            }
        }
    }

    /// Each of the 2^13 buckets has 14.6 pages on average, so a lookup in random chains walks 8.3 links.
    #[test]
    fn order_of_functions_depends_on_addresses() {
        let [mult, reference, offset] = links(336, Allocation::Numbers);
        assert!(
            2.0 * mult.max(reference) < offset,
            "{mult} {reference} {offset}"
        );
        let [mult, reference, offset] = links(336, Allocation::AdjacentPages);
        assert!(
            2.0 * offset.max(reference) < mult,
            "{mult} {reference} {offset}"
        );
        for links in links(268, Allocation::RandomPages) {
            assert!((7.5..9.5).contains(&links), "{links}");
        }
    }

    #[test]
    fn table_of_addresses_has_each_kernel() {
        let size = Size::quick(1);
        let layouts = compute(&programs(), &size);
        assert_eq!(layouts.len(), INODE_BYTES.len() * Allocation::ALL.len());
        for layout in layouts {
            let chains = layout.chains.iter();
            let of_layout = chains.map(|chains| (chains.table, chains.kernel));
            assert!(of_layout.eq(kernels()), "{layout:?}");
        }
    }

    #[test]
    fn inode_is_within_one_page_at_each_address() {
        let draws = Allocation::RandomPages.draws(&programs(), 268, 1 << 17);
        assert_eq!(draws.len() as u64, SEEDS);
        assert_ne!(draws[0], draws[1]);
        for address in draws.concat() {
            assert!(address % PAGE_BYTES + 268 <= PAGE_BYTES, "{address}");
        }
        for mut addresses in draws {
            addresses.sort_unstable();
            addresses.dedup();
            assert_eq!(addresses.len(), 1872);
        }
    }
}
