//! The command `larder top`: shows the cache activity of a mount, since the last refresh and since the image
//! was mounted.
//!
//! # Model
//! top(1), for a mount. [`poller`] queries the mount's server. [`change`] compares two replies. [`screen`]
//! lays out the result, and [`view`] shows it on a terminal. If the output is not a terminal, the same
//! layout is printed as text.
//!
//! # Cost
//! A refresh queries all counts and the histogram of the chosen cache. The histogram dominates the cost,
//! because the server visits every bucket of that cache. At every tenth refresh, the histogram of one other
//! cache is queried too.

mod change;
mod count;
mod help;
mod histogram;
mod json_line;
mod poller;
mod screen;
#[cfg(test)]
mod tests;
mod view;

use crate::args::TopArgs;
use change::Change;
use larder_console::Result;
use poller::{Poller, Sample};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::widgets::Widget;
use screen::{SMALLEST, Screen};
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

pub(super) fn run(args: &TopArgs) -> Result<ExitCode> {
    let mut poller = Poller::new(&args.mountpoint);
    let first = poller.query(args.cache.into())?;
    let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    if is_terminal && !args.once && !args.json {
        return view::run(args, poller, first);
    }
    let count = args.count.or((!args.json).then_some(1));
    let mut before = None;
    let mut now = first;
    for written in 1.. {
        let change = Change::new(before.as_ref(), &now);
        if args.json {
            json_line::print(&change)?;
        } else {
            print(args, &change, written > 1)?;
        }
        if Some(written) == count {
            break;
        }
        std::thread::sleep(args.interval);
        let next = poller.query(args.cache.into())?;
        before = Some(std::mem::replace(&mut now, next));
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the layout of the screen as text.
fn print(args: &TopArgs, change: &Change<'_>, is_next: bool) -> Result<()> {
    let screen = Screen {
        mountpoint: &args.mountpoint,
        interval: args.interval,
        change,
        notice: None,
        shows_help: false,
        has_keys: false,
        has_colours: false,
    };
    let area = Rect::from(SMALLEST);
    let mut buffer = Buffer::empty(area);
    screen.render(area, &mut buffer);
    let mut out = io::stdout().lock();
    if is_next {
        writeln!(out)?;
    }
    for row in lines(&buffer) {
        writeln!(out, "{row}")?;
    }
    Ok(out.flush()?)
}

/// Returns each row of `buffer` as text, without trailing blanks.
fn lines(buffer: &Buffer) -> Vec<String> {
    let row = |y| {
        let cells = buffer
            .area
            .columns()
            .map(|column| buffer[(column.x, y)].symbol());
        cells.collect::<String>().trim_end().to_owned()
    };
    let mut rows: Vec<String> = buffer.area.rows().map(|area| row(area.y)).collect();
    while rows.pop_if(|row| row.is_empty()).is_some() {}
    rows
}
