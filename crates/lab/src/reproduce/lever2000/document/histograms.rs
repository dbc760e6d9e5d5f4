//! Histograms 1 to 5, beside the published ones.

use crate::output::{Align, Table};
use crate::published::lever2000::{self as published, Histogram};
use crate::reproduce::lever2000::Lever2000;
use crate::reproduce::lever2000::measure::CacheFigures;
use std::fmt::Write as _;

/// A row of ours as a histogram of the document: its number, the table, the kernel, and whether it is
/// taken after the run.
const HISTOGRAMS: [(u32, usize, &str, bool); 5] = [
    (1, 3, "reference, 16384", false),
    (2, 3, "reference, 16384", true),
    (3, 3, "mult shift 11, 16384", false),
    (4, 3, "mult shift 11, 16384", true),
    (5, 5, "reference", false),
];

impl Lever2000 {
    pub(super) fn write_histograms(&self, text: &mut String) {
        text.push_str("## Histograms 1 to 5\n\n");
        for (number, table, kernel, is_after) in HISTOGRAMS {
            let histograms = published::histograms();
            let published = histograms
                .iter()
                .find(|histogram| histogram.number == number);
            let load = self.row(table, kernel).and_then(|row| row.loads.last());
            let (Some(published), Some(load)) = (published, load) else {
                continue;
            };
            write_histogram(text, published, load.cache(published.cache), is_after);
        }
    }
}

fn write_histogram(
    text: &mut String,
    published: &Histogram,
    figures: &CacheFigures,
    is_after: bool,
) {
    let ours = if is_after {
        &figures.after
    } else {
        &figures.full
    };
    let histogram = &ours.histogram;
    // Writing to a string does not fail.
    let _ = writeln!(text, "### {}\n", published.label);
    let mut table = Table::new([
        ("", Align::Left),
        ("published", Align::Right),
        ("ours", Align::Right),
    ]);
    let rows = [
        ("lookups", published.lookups, figures.lookups),
        (
            "hit rate, %",
            published.hit_rate_pct,
            figures.hits * 100 / figures.lookups.max(1),
        ),
        ("buckets", published.buckets, histogram.buckets()),
        ("objects", published.objects, histogram.objects()),
        (
            "largest bucket",
            published.largest_bucket,
            histogram.longest_chain(),
        ),
        (
            "links of 1000 lookups",
            published.iterations_per_1000_lookups,
            figures.links * 1000 / figures.lookups.max(1),
        ),
    ];
    for (name, published, ours) in rows {
        table.push(vec![
            name.to_owned(),
            published.to_string(),
            ours.to_string(),
        ]);
    }
    let _ = writeln!(text, "{}", table.to_markdown());
    let titles = [
        "size",
        "buckets",
        "objects",
        "sum-pct",
        "our buckets",
        "objects",
        "sum-pct",
    ];
    let mut table = Table::new(titles.map(|title| (title, Align::Right)));
    let objects = histogram.objects().max(1);
    let mut so_far = 0;
    for (row, (length, buckets, own)) in published.chains.iter().zip(histogram.rows()) {
        so_far += own;
        let mut cells = vec![length.map_or(">15".to_owned(), |length| length.to_string())];
        let numbers = [
            row.buckets,
            row.objects,
            row.cumulative_pct,
            buckets,
            own,
            so_far * 100 / objects,
        ];
        cells.extend(numbers.map(|number| number.to_string()));
        table.push(cells);
    }
    let _ = writeln!(text, "{}", table.to_markdown());
}
