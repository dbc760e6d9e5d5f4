//! The chains of pages with other addresses of inodes.

use crate::output::{Table, text_or};
use crate::reproduce::lever2000::addresses::{PageChains, SEEDS};
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
address by the lowest bit that is set in the size: by 4 for 268 bytes, and by 16 for all other sizes in the tables.

";

const CONCLUSION: &str = "\
So the order of these functions depends on the addresses, and the throughputs of Tables 1, 2 and 6 are those for the \
assumed ones. In adjacent pages, `page-mult` has long chains: it adds the address to the offset, and both differ by \
multiples of 4096. Throughputs with other addresses were not measured. Therefore each rule that compares throughputs \
of different tables of pages is also applied to the computed links: a kernel that must be faster than another must \
have shorter chains, by the same bound. With random addresses, the whole intervals of the links must be within it. The \
verdict depends on an assumption if the links meet the rule with some of the addresses, but not with others. A \
deviation cannot be computed from links, so the findings about variance are not checked.

";

impl Lever2000 {
    pub(super) fn addresses_text(&self) -> String {
        let Some(first) = self.layouts.first() else {
            return String::new();
        };
        let mut text = format!(
            "{ABOUT}The following tables show links per lookup of a page. They are computed, not measured: the pages of the \
             programs are distributed by the functions themselves, and each page is looked up once. `by number`: the \
             address is the number of the inode times the size. `adjacent`: inodes are adjacent, in the order of their \
             creation. `adjacent pages`: they are in this order in adjacent pages of 4096 bytes, which none of them crosses. \
             `random pages`: these pages are at random addresses in the 128 MB or 512 MB of the document's machine (medians \
             of {SEEDS} seeds, with 95% confidence intervals). The last row contains the measured links of all pages, in \
             Table 1 with 16 scripts.\n\n"
        );
        let tables = first
            .chains
            .chunk_by(|chains, next| chains.table == next.table);
        for kernels in tables {
            text.push_str(&self.chains_text(kernels));
        }
        text.push_str(CONCLUSION);
        text
    }

    /// Returns the chains of `kernels`, which are of one table, with all addresses.
    fn chains_text(&self, kernels: &[PageChains]) -> String {
        let names = kernels.iter().map(|chains| chains.kernel);
        let mut table = Table::new("bytes: | addresses").with_numbers(names);
        for layout in &self.layouts {
            let links = kernels.iter().map(|chains| {
                let links = layout.chains_of(chains.table, chains.kernel);
                text_or(links.map(PageChains::interval), "-")
            });
            let names = [
                layout.inode_bytes.to_string(),
                layout.allocation.as_str().to_owned(),
            ];
            table.push(names.into_iter().chain(links));
        }
        let measured = kernels.iter().map(|chains| {
            let load = self.row(chains.table, chains.kernel)?.loads.first()?;
            let links = load.cache(CacheKind::Page).links_per_lookup();
            Some(format!("{links:.3}"))
        });
        let names = ["336", "by number, measured"].map(str::to_owned);
        table.push(
            names
                .into_iter()
                .chain(measured.map(|links| text_or(links, "-"))),
        );
        format!("Table {}:\n\n{}\n", kernels[0].table, table.to_markdown())
    }
}
