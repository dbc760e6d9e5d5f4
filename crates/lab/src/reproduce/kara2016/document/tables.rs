//! The figures: tables in the letter's layout, handovers, and CSV.

use std::fmt::Write as _;
use std::io;

use larder::MbCacheVariant::{self, Clock, ListLru, Lru, Off, Old, Referenced};

use super::super::costs::Costs;
use super::super::grid::{Gain, Grid, GridRow};
use super::super::measure::Committed;
use super::super::plan::{Cell, ORDER, REPEATED, Setting, Source};
use super::super::residual::Residual;
use super::super::simulate::Contended;
use super::super::{Kara2016, plots};
use crate::output::{Table, csv_text, significant, text_or};
use crate::published::kara2016::{FLAG_FILES, FLAG_GAINS, FLAG_VALUES, PROCESSORS};
use crate::statistics::{geometric_mean, mean};
use crate::xattr_bench::engine::MAX_USERS;
use crate::xattr_bench::{Case, MeanCommits};

impl Kara2016 {
    pub(super) fn contention_text(&self) -> String {
        let shown = [Old, Lru, ListLru, Referenced, Clock];
        let mut counts = Table::new("V: | P:").with_numbers(shown.map(MbCacheVariant::as_str));
        let cases = self.size.cases.iter();
        for case in cases.filter(|case| case.files == self.size.pictured_files) {
            let mut row = vec![case.values.to_string(), case.processes.to_string()];
            row.extend(shown.map(|variant| {
                let found = self.simulated_cell(Cell::letter(*case, variant));
                found.map(handovers).unwrap_or_default()
            }));
            counts.push(row);
        }
        let mut growths =
            Table::new("assumption | old: | referenced: | findings whose verdict it reverses");
        for assumption in &self.assumptions {
            let growth = |variant| {
                let growth = assumption.grid.growth(variant, 64, Case::VALUES[0]);
                text_or(growth.map(significant), "-")
            };
            growths.push([
                assumption.change.clone(),
                growth(Old),
                growth(Referenced),
                self.reversed_by(&assumption.change),
            ]);
        }
        let Costs {
            prices,
            work,
            journal,
        } = self.fit.costs;
        format!(
            "## Simulated contention\n\n\
             Operations of the variants' own code are recorded one after the other, with each lock, \
             cache line and entry that they use. They are then executed concurrently on {PROCESSORS} \
             processors in virtual time:\n\n\
             - A lock or line costs {} ns if another processor used it last, and {} ns more for each process \
             that waits for it; otherwise {} ns.\n\
             - The file system works {} ns before it calls the cache, and {} ns while it holds an entry. \
             Each of these times is multiplied by a random factor from 0.5 to 1.5.\n\
             - Each set writes {} lines that all sets share.\n\
             - A transaction has at most {} blocks. Its commit takes {} ns for each block.\n\
             - Waking a process takes {} ns, and switching to one takes {} ns.\n\n\
             {}\n{}\n\
             The table shows three counts per set, with F={}: handovers of **locks** from one processor to \
             another / handovers of **lines** / how often a process **parked**.\n\n{}\n\
             The letter's table was also simulated with other assumptions, one at a time, with {} seeds. The table shows \
             the time of 64 processes divided by the time of one process, with V=10, and the findings that the \
             simulation does not decide because of the assumption:\n\n{}\n",
            prices.transfer_ns,
            prices.waiter_ns,
            prices.own_ns,
            work.before_ns,
            work.held_ns,
            work.shared_lines,
            journal.limit_blocks,
            journal.block_ns,
            prices.wake_ns,
            prices.switch_ns,
            self.fit_text(),
            self.predicted_text(),
            self.size.pictured_files,
            counts.to_markdown(),
            self.size.assumed_seeds,
            growths.to_markdown(),
        )
    }

    /// Returns the names of the findings whose simulated verdict is the opposite with an assumption.
    fn reversed_by(&self, change: &str) -> String {
        let reversed = self.findings.iter().filter(|judged| {
            let mut depends_on = judged.ours.iter().flat_map(|answer| &answer.depends_on);
            depends_on.any(|of| of == change)
        });
        let names: Vec<&str> = reversed.map(|judged| judged.finding.name).collect();
        names.join("; ")
    }

    fn simulated_cell(&self, cell: Cell) -> Option<&Contended> {
        self.contended.iter().find(|of| of.cell == cell)
    }

    /// Describes how well the costs explain the published times with `off`.
    fn fit_text(&self) -> String {
        let mut table = Table::new("F:");
        let residuals = &self.fit.residuals;
        let mut processes: Vec<u32> = residuals.iter().map(|of| of.processes).collect();
        let mut files: Vec<u32> = residuals.iter().map(|of| of.files).collect();
        files.dedup();
        processes.sort_unstable();
        processes.dedup();
        table = table.with_numbers(processes.iter().map(|count| format!("P={count}")));
        for files in files {
            let mut row = vec![files.to_string()];
            row.extend(processes.iter().map(|&processes| {
                let mut residuals = residuals.iter();
                let found = residuals.find(|of| (of.processes, of.files) == (processes, files));
                text_or(found.map(Residual::ratio).map(significant), "-")
            }));
            table.push(row);
        }
        format!(
            "The work, the number of shared lines, the cost of a waiting process and the cost of a committed \
             block are fitted to the 21 published times with `off` (medians over V). No other column \
             influenced a cost, and no cost was changed afterwards. The table shows simulated / published with \
             `off`. The root mean square of the logarithms is {}.\n\n{}",
            significant(self.fit.error),
            table.to_markdown(),
        )
    }

    /// Compares the simulated times with the published times that had no influence on the costs.
    fn predicted_text(&self) -> String {
        let mut table = Table::new("variant");
        let mut processes: Vec<u32> = self.size.cases.iter().map(|case| case.processes).collect();
        processes.sort_unstable();
        processes.dedup();
        table = table
            .with_numbers(processes.iter().map(|count| format!("P={count}")))
            .with_numbers(["root mean square of the logarithms"]);
        for variant in [Old, Lru, ListLru, Referenced] {
            let rows = || {
                let simulated = self.table(Source::Simulated).into_iter();
                simulated.flat_map(|grid| &grid.rows)
            };
            let ratio = |row: &GridRow| {
                let published = self.published.row(row.case)?.of(variant)?;
                Some((row.case.processes, row.of(variant)? / published))
            };
            let ratios: Vec<(u32, f64)> = rows().filter_map(ratio).collect();
            let mut row = vec![variant.to_string()];
            row.extend(processes.iter().map(|count| {
                let of = ratios.iter().filter(|(processes, _)| processes == count);
                let of: Vec<f64> = of.map(|(_, ratio)| *ratio).collect();
                text_or(geometric_mean(&of).map(significant), "-")
            }));
            let squares = ratios.iter().map(|(_, ratio)| ratio.ln().powi(2));
            row.push(significant(mean(&squares.collect::<Vec<_>>()).sqrt()));
            table.push(row);
        }
        format!(
            "The table shows simulated / published under the other variants, as means over V and F. No cost was \
             fitted to these times.\n\n{}",
            table.to_markdown()
        )
    }

    /// Describes the gain of the reusable flag.
    pub(super) fn flag_text(&self) -> String {
        let mut table = Table::new("P: | F: | V: | table | gain").with_numbers([
            "with, s",
            "without, s",
            "lock handovers per set: with",
            "without",
        ]);
        let all = self.grids().flat_map(|(name, grid)| {
            let gains = grid.gains.iter();
            gains.map(move |gain| (name, grid, gain))
        });
        let mut all: Vec<(&str, &Grid, &Gain)> = all.collect();
        all.sort_by_key(|(.., gain)| gain.case.processes);
        for (name, grid, gain) in all {
            let handovers = [Setting::Flag, Setting::NoFlag].map(|setting| {
                let is_simulated = name == Source::Simulated.as_str();
                let contended = self.simulated_cell(Cell {
                    case: gain.case,
                    setting,
                    variant: Referenced,
                });
                let contended = contended.filter(|_| is_simulated);
                contended.map(|of| of.per_set(|outcome| outcome.lock_handovers))
            });
            // A published gain has no interval.
            let interval = grid
                .gain(gain.case.processes)
                .filter(|_| !grid.is_averages());
            let case = [gain.case.processes, gain.case.files, gain.case.values];
            let figures = gain.seconds.map_or([None; 2], |seconds| seconds.map(Some));
            let figures = figures.into_iter().chain(handovers);
            let mut row: Vec<String> = case.iter().map(u32::to_string).collect();
            row.push(name.to_owned());
            row.push(interval.map_or_else(|| significant(gain.ratio), |gain| gain.to_string()));
            row.extend(figures.map(|figure| text_or(figure.map(significant), "-")));
            table.push(row);
        }
        let full = FLAG_GAINS.map(|(processes, _)| {
            let files = processes * FLAG_FILES;
            let blocks = files / (FLAG_VALUES * MAX_USERS);
            format!("{blocks} with {processes} processes")
        });
        format!(
            "## The reusable flag\n\nThe last patch of the rewrite, \"mbcache: add reusable flag to cache \
             entries\", marks the entry of a block with the maximum number of users, so that searches pass over \
             it. Its description reports the gain: with 5 values and 20,000 files of each process, 64 processes \
             are 25 times as fast, and 8 processes almost 3 times as fast. The gain is the time without the flag divided \
             by the time with it, under `referenced`. In the volume, a search finds a full block in the buffer cache, as \
             in ext4. In the engine and in the simulation, a full block costs only the accesses to the cache and to \
             the block's count of users. With 20,000 files of each process, the number of full blocks of each value is about \
             {}. A chain in the volume and in the engine has at most 128 entries, and the chains of Linux have no limit. So \
             the volume and the engine decide nothing about 64 processes; the simulated cache has longer chains. Measured \
             processes set each file two and a half times, as in the description of the patch; simulated ones set each file \
             once before the simulation starts. The kernel always uses the flag, so the gain cannot be measured there.\n\n{}\n",
            full.join(" and "),
            table.to_markdown(),
        )
    }

    /// Describes the commits of the journals, with the most files.
    pub(super) fn commits_text(&self) -> String {
        let titles = [Referenced, Off].iter().flat_map(|variant| {
            ["commits", "blocks", "ms"].map(|count| format!("{variant}: {count}"))
        });
        let mut table = Table::new("table | V: | F: | P: | sets:").with_numbers(titles);
        let files = self.size.cases.iter().map(|case| case.files).max();
        let ends = [
            self.values().first().copied(),
            self.values().last().copied(),
        ];
        let is_shown = |of: &&Committed| {
            let Cell { case, .. } = of.cell;
            let is_first = of.cell == Cell::letter(case, Referenced);
            is_first && Some(case.files) == files && ends.contains(&Some(case.values))
        };
        for committed in self.commits.iter().filter(is_shown) {
            let case = committed.cell.case;
            let mut row = vec![committed.source.as_str().to_owned()];
            let numbers = [
                case.values,
                case.files,
                case.processes,
                committed.operations,
            ];
            row.extend(numbers.map(|count| count.to_string()));
            for variant in [Referenced, Off] {
                let mean = self.mean_commits(committed.source, Cell::letter(case, variant));
                row.extend(mean.map_or([const { String::new() }; 3], |mean| mean.cells()));
            }
            table.push(row);
        }
        format!(
            "## Commits\n\nA transaction has a maximum number of blocks. When the running transaction \
             reaches it, all processes wait for its commit. The journal has 16,384 blocks. In 2016, Linux \
             allowed a transaction a quarter of them, as Larder does; since 6.11, Linux allows a third. The \
             table shows the commits of a run, the blocks of a commit, and the duration of a commit, for the most files and \
             for the fewest and the most values. The number of sets is that of each process in a run. The kernel reports a \
             moving average of the duration.\n\n{}\n",
            table.to_markdown(),
        )
    }

    fn mean_commits(&self, source: Source, cell: Cell) -> Option<MeanCommits> {
        let mut all = self.commits.iter();
        let of = all.find(|of| (of.source, of.cell) == (source, cell))?;
        MeanCommits::of(&of.runs)
    }

    /// Describes the effect of the journal on the cost of additional blocks.
    pub(super) fn journal_text(&self) -> String {
        let heads = [
            "referenced, s",
            "off, s",
            "off / referenced",
            "commits with referenced",
            "commits with off",
        ];
        let [with, without] =
            ["with", "without"].map(|which| heads.map(|head| format!("{which} a journal: {head}")));
        let mut table = Table::new("table | V: | F: | P:")
            .with_numbers(with)
            .with_numbers(without);
        for (source, grid) in &self.ours {
            for (row, other) in grid.with_journal.iter().zip(&grid.without_journal) {
                let case = row.case;
                let mut cells = vec![source.as_str().to_owned()];
                cells.extend([case.values, case.files, case.processes].map(|of| of.to_string()));
                for (row, setting) in [(row, Setting::Journal), (other, Setting::NoJournal)] {
                    let variants = [Referenced, Off];
                    let [referenced, off] = variants.map(|variant| row.of(variant));
                    let ratio = off
                        .zip(referenced)
                        .map(|(off, referenced)| off / referenced);
                    let commits = variants.map(|variant| {
                        let cell = Cell {
                            case,
                            setting,
                            variant,
                        };
                        let mean = self.mean_commits(*source, cell)?;
                        Some(mean.transactions)
                    });
                    let figures = [referenced, off, ratio].into_iter().chain(commits);
                    cells.extend(figures.map(|figure| text_or(figure.map(significant), "-")));
                }
                table.push(cells);
            }
        }
        format!(
            "## The journal\n\nUnder `off`, a file shares no block, so that more blocks are in use. Whether their commits \
             make `off` slow is measured in cases in which values repeat most, with and without a journal. Each process \
             sets each of its files once before the measured time, and {} more sets are measured. Findings are judged with \
             F={}, and only if the journal commits at least once in a run under `off`, and at least twice as often as under \
             `referenced`. Without a journal, a commit of the volume writes blocks to their places; the kernel has no commits \
             then. Times are scaled as in the other tables.\n\n{}\n",
            self.size.journal_sets,
            REPEATED.files,
            table.to_markdown(),
        )
    }

    pub(super) fn tables_text(&self) -> String {
        let order = ORDER.map(MbCacheVariant::as_str).join(",");
        let mut text = format!(
            "## Tables\n\nSeconds, in the order {order}. `-` means that the figure is missing. The intervals of all \
             times are in [kara2016.csv](kara2016.csv), also of the times with and without a journal, and with and without \
             the reusable flag.\n\n"
        );
        for values in self.values() {
            let table = self.letter_table(values).to_markdown();
            let _ = writeln!(text, "### V={values}\n\n{table}");
            for (table, _) in plots::tables(self) {
                let _ = writeln!(text, "![{table}]({})", plots::name(table, values));
            }
            text.push('\n');
        }
        text
    }

    /// Returns the published and the measured tables, with their names.
    fn grids(&self) -> impl Iterator<Item = (&'static str, &Grid)> {
        let ours = self.ours.iter();
        [("published", &self.published)]
            .into_iter()
            .chain(ours.map(|(source, grid)| (source.as_str(), grid)))
    }

    /// Returns the letter's table for one number of values. The measured and simulated rows are below
    /// each published row.
    fn letter_table(&self, values: u32) -> Table {
        let cases = || self.size.cases.iter().filter(|case| case.values == values);
        let mut processes: Vec<u32> = cases().map(|case| case.processes).collect();
        processes.sort_unstable();
        processes.dedup();
        let mut files: Vec<u32> = cases().map(|case| case.files).collect();
        files.dedup();
        let titles = processes.iter().map(|count| format!("P={count}"));
        let mut table = Table::new("F | table").with_numbers(titles);
        for files in files {
            for (name, grid) in self.grids() {
                let mut row = vec![files.to_string(), name.to_owned()];
                let cases = processes.iter().map(|&processes| Case {
                    processes,
                    files,
                    values,
                });
                let rows: Vec<_> = cases.map(|case| grid.row(case)).collect();
                if rows.iter().all(Option::is_none) {
                    continue;
                }
                row.extend(rows.into_iter().map(|row| text_or(row.map(cell), "-")));
                table.push(row);
            }
        }
        table
    }

    pub(super) fn csv(&self) -> io::Result<String> {
        let head = "table,V,F,P,setting,variant,seconds,seconds_low,seconds_high,lock_handovers_per_set,\
                    line_handovers_per_set,parks_per_set";
        let lines = self.grids().flat_map(|(name, grid)| {
            let cells = grid.cells().into_iter();
            cells.map(move |cell| (name, grid, cell))
        });
        let lines = lines.filter_map(|(name, grid, cell)| {
            let seconds = grid.seconds(cell)?;
            let Cell {
                case,
                setting,
                variant,
            } = cell;
            let mut line = vec![name.to_owned()];
            line.extend([case.values, case.files, case.processes].map(|count| count.to_string()));
            line.extend([setting.as_str().to_owned(), variant.to_string()]);
            let seconds = [Some(seconds.value), seconds.low, seconds.high];
            line.extend(seconds.map(|figure| text_or(figure, "")));
            let contended = self.simulated_cell(cell);
            let contended = contended.filter(|_| name == Source::Simulated.as_str());
            line.extend(contended.map_or_else(Default::default, |of| {
                counts_of(of).map(|count| count.to_string())
            }));
            Some(line)
        });
        csv_text(head, lines)
    }
}

/// Formats seconds as the letter does.
fn cell(row: &GridRow) -> String {
    let seconds = |variant| text_or(row.of(variant).map(|seconds| format!("{seconds:.3}")), "-");
    ORDER.map(seconds).join(",")
}

/// Returns the handovers of locks and of lines, and the parks, per set.
fn counts_of(of: &Contended) -> [f64; 3] {
    [
        of.per_set(|outcome| outcome.lock_handovers),
        of.per_set(|outcome| outcome.line_handovers),
        of.per_set(|outcome| outcome.parks),
    ]
}

fn handovers(of: &Contended) -> String {
    let counts = counts_of(of).map(|count| format!("{count:.2}"));
    counts.join(" / ")
}
