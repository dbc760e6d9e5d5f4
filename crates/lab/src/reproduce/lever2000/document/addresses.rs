//! The chains of pages with other addresses of inodes.

use crate::output::{Table, text_or};
use crate::reproduce::lever2000::addresses::SEEDS;
use crate::reproduce::lever2000::results::Lever2000;
use larder::CacheKind;

const ABOUT: &str = "\
## Addresses of inodes

The functions of the page cache hash the address of an inode. A kernel's addresses depend on the size of `struct inode`, \
and on where the structures are allocated. The document states neither. In the measured tables, an address is the \
number of the inode times 336. The numbers of files in one directory are adjacent; those of different directories are in \
different block groups, far apart. In Linux 2.2, inodes are in pages of 4096 bytes, in the order of their first use, \
whatever their numbers (`grow_inodes` in `fs/inode.c`). By a count of its fields on i386, the structure has 268 bytes in \
Linux 2.2.5, and 272 with `i_generation`, a field that later versions of Linux 2.2 have. The functions divide the \
address by the lowest bit that is set in the size: by 4 for 268 bytes, and by 16 for all other sizes in the table.

";

impl Lever2000 {
    pub(super) fn addresses_text(&self) -> String {
        let Some(first) = self.layouts.first() else {
            return String::new();
        };
        let chains = first.chains.iter();
        let heads = chains.map(|chains| format!("Table {}, {}:", chains.table, chains.kernel));
        let heads = heads.collect::<Vec<_>>().join(" | ");
        let mut table = Table::new(&format!("bytes: | addresses | {heads}"));
        for layout in &self.layouts {
            let links = layout
                .chains
                .iter()
                .map(|chains| format!("{:.2}", chains.links));
            let names = [
                layout.inode_bytes.to_string(),
                layout.allocation.as_str().to_owned(),
            ];
            table.push(names.into_iter().chain(links));
        }
        let measured = first.chains.iter().map(|chains| {
            let load = self.row(chains.table, chains.kernel)?.loads.first()?;
            let links = load.cache(CacheKind::Page).links_per_lookup();
            Some(format!("{links:.2}"))
        });
        let names = ["336", "by number, measured"].map(str::to_owned);
        table.push(
            names
                .into_iter()
                .chain(measured.map(|links| text_or(links, "-"))),
        );
        format!(
            "{ABOUT}The table shows links per lookup in the tables of pages in Table 1 (with 16 scripts) and Table 6. They are \
             computed, not measured: the pages of the programs are distributed by the functions themselves, and each \
             page is looked up once. `by number`: the address is the number of the inode times the size. `adjacent`: \
             inodes are adjacent, in the order of their creation. `adjacent pages`: they are in this order in adjacent \
             pages of 4096 bytes, which none of them crosses. `random pages`: these pages are at random addresses in the \
             128 MB or 512 MB of the document's machine (medians of {SEEDS} seeds). The last row contains the measured \
             links of all pages. B has the same table of pages as A.\n\n{}\n\
             So the order of these functions depends on the addresses, and the throughputs of A to D in Table 6, and \
             of offset and mult in Table 1, are those for the assumed ones. In adjacent pages, `page-mult` has long chains: \
             it adds the address to the offset, and both differ by multiples of 4096. A finding about these functions is \
             undecided if its verdict depends on the addresses.\n\n",
            table.to_markdown()
        )
    }
}
