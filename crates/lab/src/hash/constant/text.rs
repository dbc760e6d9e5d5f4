//! Terminal output of the study.

use super::Study;
use crate::output::Table;
use std::fmt;

impl fmt::Display for Study {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "2^{} / golden ratio = {}", self.bits, self.golden_ratio)?;
        write!(f, "\n{}", self.primes().to_text())?;
        write!(f, "\n{}", self.qualities().to_text())?;
        if !self.key_sets.is_empty() {
            writeln!(
                f,
                "\nLinks per hit and, in parentheses, chi-square divided by its degrees of freedom; tables of \
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
        let mut table = Table::new("nearest prime: | hexadecimal: | difference:");
        for near in &self.nearest_primes {
            table.push([
                near.prime.to_string(),
                format!("{:#x}", near.prime),
                format!("{:+.2}", near.difference),
            ]);
        }
        table
    }

    fn qualities(&self) -> Table {
        let mut table = Table::new(
            "name | multiplier: | shift: | prime | spectral: | worst gap: | description",
        );
        for one in &self.multiplications {
            let shift = one.shift.map_or_else(
                || format!("{} - bits", self.bits),
                |shift| shift.to_string(),
            );
            let prime = if one.quality.prime { "yes" } else { "no" };
            table.push([
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
        let mut table = Table::new("keys | objects: | chance:").with_numbers(names);
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
            table.push(fixed.into_iter().chain(measured));
        }
        table
    }
}
