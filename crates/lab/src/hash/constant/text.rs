//! The study for a terminal.

use super::Study;
use crate::output::{Align, Table};
use std::fmt;

impl fmt::Display for Study {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "2^{} / golden ratio = {}", self.bits, self.golden_ratio)?;
        write!(f, "\n{}", self.primes().to_text())?;
        write!(f, "\n{}", self.qualities().to_text())?;
        if !self.key_sets.is_empty() {
            writeln!(
                f,
                "\nLinks walked on a hit, and the chains' chi-square by its degrees of freedom; tables of \
                 {} bits",
                self.table_bits
            )?;
            write!(f, "{}", self.links().to_text())?;
        }
        writeln!(f)?;
        self.answer
            .iter()
            .try_for_each(|line| writeln!(f, "{line}"))
    }
}

impl Study {
    fn primes(&self) -> Table {
        let mut table = Table::new([
            ("nearest primes", Align::Right),
            ("hexadecimal", Align::Right),
            ("difference", Align::Right),
        ]);
        for near in &self.nearest_primes {
            table.push(vec![
                near.prime.to_string(),
                format!("{:#x}", near.prime),
                format!("{:+.2}", near.difference),
            ]);
        }
        table
    }

    fn qualities(&self) -> Table {
        let mut table = Table::new([
            ("name", Align::Left),
            ("multiplier", Align::Right),
            ("shift", Align::Right),
            ("prime", Align::Left),
            ("spectral", Align::Right),
            ("worst gap", Align::Right),
            ("what", Align::Left),
        ]);
        for one in &self.multiplications {
            let shift = one.shift.map_or_else(
                || format!("{} - bits", self.bits),
                |shift| shift.to_string(),
            );
            let prime = if one.quality.prime { "yes" } else { "no" };
            table.push(vec![
                one.name.to_owned(),
                one.multiplier.to_string(),
                shift,
                prime.to_owned(),
                format!("{:.3}", one.quality.spectral),
                format!("{:.2}", one.quality.worst_gap),
                one.about.to_owned(),
            ]);
        }
        table
    }

    fn links(&self) -> Table {
        let names = self.multiplications.iter().map(|one| one.name);
        let columns = ["keys", "objects", "chance"].into_iter().chain(names);
        let columns = columns.map(|title| match title {
            "keys" => (title, Align::Left),
            _ => (title, Align::Right),
        });
        let mut table = Table::new(columns);
        for set in &self.key_sets {
            let fixed = [
                set.keys.clone(),
                set.objects.to_string(),
                format!("{:.2}", set.chance_links),
            ];
            let measured = set.measured.iter().map(|row| {
                let chi_square = row.chi_square / f64::from(row.degrees_of_freedom.max(1));
                format!("{:.2} ({chi_square:.1})", row.links)
            });
            table.push(fixed.into_iter().chain(measured).collect());
        }
        table
    }
}
