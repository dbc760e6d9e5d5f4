//! Histograms 1 to 5, each next to the published one.

use crate::output::{Table, text_or};
use crate::published::lever2000::{self as published, Histogram};
use crate::reproduce::lever2000::measure::CacheFigures;
use crate::reproduce::lever2000::results::Lever2000;

/// Sources of the histograms: number in the document, table, kernel, and whether it is taken after
/// the run.
const HISTOGRAMS: [(u32, usize, &str, bool); 5] = [
    (1, 3, "reference, 16384", false),
    (2, 3, "reference, 16384", true),
    (3, 3, "mult shift 11, 16384", false),
    (4, 3, "mult shift 11, 16384", true),
    (5, 5, "reference", false),
];

impl Lever2000 {
    pub(super) fn histograms(&self) -> String {
        let mut text = "## Histograms 1 to 5\n\nLookups are counted in the runs. Therefore Histograms 2 and 4, which are \
                        taken after them, have no measured figures of lookups.\n\n"
            .to_owned();
        let histograms = published::histograms();
        for (number, table, kernel, is_after) in HISTOGRAMS {
            let published = histograms
                .iter()
                .find(|histogram| histogram.number == number);
            let load = self.last_load(table, kernel);
            if let (Some(published), Some(load)) = (published, load) {
                text.push_str(&beside(published, load.cache(published.cache), is_after));
            }
        }
        text
    }
}

/// Formats the headers and rows of a published and a measured histogram side by side.
fn beside(published: &Histogram, figures: &CacheFigures, is_after: bool) -> String {
    let ours = if is_after {
        &figures.after
    } else {
        &figures.full
    };
    let histogram = &ours.histogram;
    // Lookups are counted in the runs, so a table after the run has none of its own.
    let of_run = |count: u64| (!is_after).then_some(count);
    let of_lookups = |count: u64| of_run(count / figures.lookups.max(1));
    let rows = [
        ("lookups", published.lookups, of_run(figures.lookups)),
        (
            "hit rate, %",
            published.hit_rate_pct,
            of_lookups(figures.hits * 100),
        ),
        ("buckets", published.buckets, Some(histogram.buckets())),
        ("objects", published.objects, Some(histogram.objects())),
        (
            "objects in the largest bucket",
            published.largest_bucket,
            Some(histogram.longest_chain()),
        ),
        (
            "links per 1000 lookups (published: iterations)",
            published.iterations_per_1000_lookups,
            of_lookups(figures.links * 1000),
        ),
    ];
    let mut head = Table::new("figure | published: | measured:");
    for (name, published, ours) in rows {
        head.push([name.to_owned(), published.to_string(), text_or(ours, "-")]);
    }
    let mut chains = Table::new(
        "chain length: | published buckets: | published objects: | cumulative %: | measured buckets: \
         | measured objects: | cumulative %:",
    );
    let objects = histogram.objects().max(1);
    let mut so_far = 0;
    for (row, (length, buckets, own)) in published.chains.iter().zip(histogram.rows()) {
        so_far += own;
        let numbers = [
            row.buckets,
            row.objects,
            row.cumulative_pct,
            buckets,
            own,
            so_far * 100 / objects,
        ];
        let numbers = numbers.map(|number| number.to_string());
        chains.push([text_or(length, ">15")].into_iter().chain(numbers));
    }
    format!(
        "### {}\n\n{}\n{}\n",
        published.label,
        head.to_markdown(),
        chains.to_markdown()
    )
}
