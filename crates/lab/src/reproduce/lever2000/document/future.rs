//! The questions of section 6 that recorded keys and a simulated disk answer.

use crate::output::Table;
use crate::reproduce::lever2000::disk::DiskCosts;
use crate::reproduce::lever2000::recorded::{AreaSearch, RecordedKeys, RecordedRow};
use crate::reproduce::lever2000::results::Lever2000;
use std::fmt::Write as _;

/// The origin of the recordings.
const KEYS: &str = "\
## Keys of the future work

Section 6 leaves the keys of processes, users and memory areas to the future. They were recorded by `larder lab \
record --keys` on 24 November 2026 on a machine with two processors, while several Rust programs were compiled and \
tested in parallel. Each lookup is for a random entry at a random time, and hits. `random` is the range of the middle \
95% of 1000 random distributions of the same number of keys. `excess` compares the links with the mean of these \
distributions. Linux 2.2 has 128 buckets for processes and 32 for users, and uses the function `pid-reference` for \
both. The kernels of the document have 4000 process slots, and therefore 1000 buckets with the mask 999. Only eight \
bits of this mask are set, so at most 256 buckets are used. The tables list this function as `pid-4000-slots`, with \
1024 buckets. The key of a memory area consists of the number of its process, instead of the address of an inode, and \
of its first page.

";

const AREAS: &str = "\
Linux 2.2 has no table of memory areas. It searches a list in the order of addresses for the area that contains an \
address. When a process gets its 32nd area, the kernel builds an AVL tree, and searches it until the process has no \
areas. Areas that existed only between two scans are unknown. The AVL tree was not built: a search compares at least \
as many areas as in the best possible binary tree, and at most as many as the greatest height of an AVL tree. A hash \
table finds an area only by a known page, such as the first. To find it by any address, the table would need an entry \
for each page.

";

impl Lever2000 {
    pub(super) fn future_text(&self) -> String {
        let mut text = KEYS.to_owned();
        for recorded in &self.recorded_keys {
            text.push_str(&keys_text(recorded));
        }
        text.push_str(&self.disk_text());
        text
    }

    fn disk_text(&self) -> String {
        let misses = &self.disk_misses;
        let mut table = Table::new(
            "device | block groups | dentry miss, ms: | buffer miss, ms: | page fault, ms: | page fault / dentry miss:",
        );
        for costs in &misses.devices {
            table.push(disk_cells(costs));
        }
        format!(
            "## Misses with a disk\n\nThe time of the device in a miss, in virtual time: medians of {} seeds with 95% \
             confidence intervals. A process looks up {} names in random order with empty caches, and then reads the \
             first page of each file. A dentry miss needs the directory's block and the inode's block. Both blocks are \
             shared with other names, so not every miss reads the device: the share that does is {}, and the mean \
             number of reads for each miss is {}. A buffer miss is a read of one of these blocks, in another random \
             order. So a dentry miss costs less than a buffer miss almost by construction: it is a share of the same \
             reads. Lookups of absent names, whose directories are in the buffer cache by then and which need no inode, \
             make {} reads each. A page fault makes {} reads. `spread` means that the block groups of the image are spread over the whole device; `together` \
             means that they are at its start.\n\n{}\n",
            misses.seeds,
            misses.files,
            misses.dentry_misses_that_read,
            misses.reads_per_dentry_miss,
            misses.reads_per_cached_dentry_miss,
            misses.reads_per_page_fault,
            table.to_markdown(),
        )
    }
}

fn keys_text(recorded: &RecordedKeys) -> String {
    let mut table = Table::new(
        "function | buckets: | links per lookup: | random: | excess: | longest chain: | random:",
    );
    for row in &recorded.rows {
        table.push(key_cells(row));
    }
    let mut text = format!(
        "### {}\n\n{}: {} different keys, at most {} at once, {} lookups.\n\n{}\n",
        recorded.table,
        recorded.source,
        recorded.keys,
        recorded.peak,
        recorded.lookups,
        table.to_markdown()
    );
    if let Some(search) = &recorded.search {
        text.push_str(&search_text(search));
    }
    text
}

fn key_cells(row: &RecordedRow) -> [String; 7] {
    let [low, high] = row.random_links_range;
    let [shortest, longest] = row.random_longest_range;
    [
        row.function.to_string(),
        (1_u64 << row.bits).to_string(),
        format!("{:.3}", row.links),
        format!("{low:.3} to {high:.3}"),
        format!(
            "{:+.1}%",
            100.0 * (row.links - row.random_links) / row.random_links
        ),
        row.longest.to_string(),
        format!("{shortest} to {longest}"),
    ]
}

fn search_text(search: &AreaSearch) -> String {
    let mut table = Table::new("search by any address | areas compared per lookup:");
    let [least, most] = search.linux_2_2;
    let rows = [
        (
            "list in the order of addresses, for any number of areas",
            format!("{:.3}", search.list),
        ),
        (
            "list, or AVL tree of a process that has had 32 areas (Linux 2.2)",
            format!("{least:.3} to {most:.3}"),
        ),
        (
            "red-black tree (Linux 2.4)",
            format!("{:.3}", search.red_black),
        ),
        (
            "best possible binary tree",
            format!("{:.3}", search.balanced),
        ),
    ];
    for (name, compared) in rows {
        table.push([name.to_owned(), compared]);
    }
    let mut text = format!("{AREAS}{}\n", table.to_markdown());
    let _ = writeln!(
        text,
        "{} processes have {} areas, at most {} each. A table with an entry for each page would have {} entries, {} \
         times as many.\n",
        search.processes,
        search.areas,
        search.most_areas,
        search.pages,
        search.pages / search.areas.max(1),
    );
    text
}

fn disk_cells(costs: &DiskCosts) -> [String; 6] {
    [
        costs.device.to_owned(),
        costs.placement.as_str().to_owned(),
        costs.dentry_miss_ms.to_string(),
        costs.buffer_miss_ms.to_string(),
        costs.page_fault_ms.to_string(),
        costs.faults_per_dentry_miss.to_string(),
    ]
}
