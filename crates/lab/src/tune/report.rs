//! Formats the recommendations as a table.

use super::{Advice, SecondHalfResult};
use crate::output::Table;

impl Advice {
    /// Returns a table with one or two rows for each cache: the current table, and the selected table if it differs.
    #[must_use]
    pub fn table(&self) -> Table {
        let mut table =
            Table::new("cache | choice | table | ns/lookup: | links/lookup: | links by chance:");
        for advice in &self.caches {
            let cache = advice.cache.as_str();
            table.push(row(cache, "current", &advice.current));
            if advice.differs_from_current() {
                table.push(row(cache, "selected", &advice.selected));
            }
        }
        table
    }
}

/// Returns a row of the table: the result of `table`, which is the `choice` for `cache`.
fn row(cache: &str, choice: &str, table: &SecondHalfResult) -> [String; 6] {
    let time = table.lookup_ns.zip(table.mad_ns);
    [
        cache.to_owned(),
        choice.to_owned(),
        format!("{}/{}", table.function, table.bits),
        time.map_or_else(|| "-".to_owned(), |(ns, mad)| format!("{ns:.1} ±{mad:.1}")),
        format!("{:.3}", table.links),
        format!("{:.3}", table.chance_links),
    ]
}
