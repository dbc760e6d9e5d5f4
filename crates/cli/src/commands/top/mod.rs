//! The command `larder top`: shows the activity of a mount, since the last refresh and since the image was mounted.
//!
//! # Model
//! top(1), for a mount. [`poller`] queries the mount's server. [`change`] compares two replies, and [`history`] keeps
//! the figures of the last refreshes. [`view`] runs on a terminal: [`keys`] translates keys into actions, and [`state`]
//! performs them. [`screen`] draws the result from a [`scene`], which contains everything that is shown. A screen has
//! one of several [`pages`], which are made of [`panes`]. If the output is not a terminal, the same panes are printed as
//! text.
//!
//! # Cost
//! A refresh queries all counts. If the histogram of the chosen cache is visible, it is queried too; it dominates the
//! cost, because the server visits every bucket of that cache. At every tenth refresh, the histogram of one cache is
//! queried even if it is not visible. The history has a maximum length.

mod change;
mod figures;
mod format;
mod glyphs;
mod graph;
mod help;
mod histogram;
mod history;
mod json_line;
mod keys;
mod pages;
mod palette;
mod pane;
mod panes;
mod poller;
mod scene;
mod screen;
mod sort;
mod state;
mod table;
#[cfg(test)]
mod tests;
mod text;
mod view;

use crate::args::TopArgs;
use crate::args::top::Page;
use change::Change;
use history::History;
use larder::CacheKind;
use larder_console::Result;
use poller::{Poller, Wanted};
use state::State;
use std::io::{self, IsTerminal};
use std::process::ExitCode;

pub(super) fn run(args: &TopArgs) -> Result<ExitCode> {
    let mut poller = Poller::new(&args.mountpoint);
    let state = State::new(first_page(args), chosen_cache(args), args.interval);
    let wanted = Wanted {
        cache: state.cache,
        needs_chains: true,
    };
    let first = poller.query(wanted)?;
    let is_terminal = io::stdout().is_terminal() && io::stdin().is_terminal();
    if is_terminal && !args.once && !args.json {
        return view::run(args, state, poller, first);
    }
    let count = args.count.or((!args.json).then_some(1));
    let mut history = History::default();
    let mut before = None;
    let mut now = first;
    for written in 1.. {
        let change = Change::new(before.as_ref(), &now);
        history.push(&change);
        if args.json {
            json_line::print(&change)?;
        } else {
            text::print(args, &state, &change, &history, written > 1)?;
        }
        if Some(written) == count {
            break;
        }
        std::thread::sleep(args.interval);
        let next = poller.query(wanted)?;
        before = Some(std::mem::replace(&mut now, next));
    }
    Ok(ExitCode::SUCCESS)
}

fn chosen_cache(args: &TopArgs) -> CacheKind {
    args.cache.map_or(CacheKind::Page, CacheKind::from)
}

/// Returns the page that is shown first. If the user has chosen a cache and no page, this is the page of the cache.
fn first_page(args: &TopArgs) -> Page {
    let cache = Page::Cache(chosen_cache(args));
    match args.page {
        None if args.cache.is_none() => Page::Overview,
        None | Some(Page::Cache(_)) => cache,
        Some(page) => page,
    }
}
