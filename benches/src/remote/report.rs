//! A run as Markdown.

use std::fmt::Write;

use crate::outcome::absent;
use crate::remote::measure::{Measure, Side};
use crate::remote::network::Network;
use crate::remote::results::Results;
use crate::remote::targets::verdicts;
use crate::report::{number, thousands};
use crate::verdict;

/// Returns the whole report.
#[must_use]
pub fn page(results: &Results) -> String {
    let mut text = String::new();
    if results.plan.is_trial {
        text.push_str("**A trial run. Its figures prove nothing.**\n\n");
    }
    let _ = write!(text, "{}\n\n{}", origin(results), table(results));
    let _ = write!(text, "\n{}", verdict::table(&verdicts(results)));
    text.push_str(&absent(&results.outcome.skipped, &results.outcome.failures));
    text
}

/// Returns a sentence on the sizes, the machine and the commit of the run.
#[must_use]
pub fn origin(results: &Results) -> String {
    let plan = &results.plan;
    format!(
        "An image with {} small files and one file of {} MiB; link `B`: 20 ms, 1 Gbit/s; link `A`: 30 ms, 10 Gbit/s; \
         medians of {} rounds on {}.",
        thousands(plan.files().into()),
        plan.big_file_bytes >> 20,
        plan.rounds,
        results.origin,
    )
}

/// Returns a table with a row for each measure and link, and a column for each side that was measured.
#[must_use]
pub fn table(results: &Results) -> String {
    let is_measured = |side: &Side| results.outcome.samples.iter().any(|one| one.side == *side);
    let sides: Vec<Side> = Side::ALL.into_iter().filter(is_measured).collect();
    let names: Vec<&str> = sides.iter().map(|side| side.name()).collect();
    let mut text = format!(
        "| measure | link | {} | unit |\n|---|---|{}---|\n",
        names.join(" | "),
        "---:|".repeat(names.len())
    );
    for measure in Measure::ALL {
        for network in Network::ALL {
            let values: Vec<Option<f64>> = sides
                .iter()
                .map(|&side| results.value(measure, network, side))
                .collect();
            if values.iter().all(Option::is_none) {
                continue;
            }
            let unit = measure.unit();
            let _ = write!(text, "| `{}` | {} |", measure.name(), network.name());
            for value in values {
                let cell = value.map(|value| number(value, unit));
                let _ = write!(text, " {} |", cell.as_deref().unwrap_or("-"));
            }
            let _ = writeln!(text, " {} |", unit.symbol());
        }
    }
    text
}
