//! The view of `larder top` on a terminal.
//!
//! # Model
//! One thread draws the screen. Three other threads send keys, replies of the server and signals to the
//! drawing thread, which can therefore handle keys while it waits for the server. [`RestoreOnDrop`] restores
//! the terminal when the view ends, even in a panic.

use super::change::Change;
use super::history::History;
use super::keys::action;
use super::pages;
use super::palette::Look;
use super::poller::{Poller, Sample, Wanted};
use super::scene::Scene;
use super::screen;
use super::state::{Action, Effect, State};
use crate::args::TopArgs;
use crate::args::top::Page;
use larder_console::{Failure, Result, print_note};
use larder_fuse::Error;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io;
use std::process::ExitCode;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// A message to the drawing thread.
#[derive(Debug)]
enum Message {
    Input(io::Result<Event>),
    /// The reply of the server. `ends_interval` is false if a key press caused the query.
    Answer {
        reply: Box<Result<Sample, Error>>,
        ends_interval: bool,
    },
    Signal(i32),
}

/// What the polling thread must know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Polling {
    wanted: Wanted,
    interval: Duration,
    is_paused: bool,
}

impl Polling {
    fn of(state: &State) -> Self {
        Self {
            wanted: Wanted {
                cache: state.cache,
                needs_chains: matches!(state.page, Page::Overview | Page::Cache(_)),
            },
            interval: state.interval,
            is_paused: state.is_paused,
        }
    }
}

/// Shows the view until the user leaves it, a signal arrives, or `--count` refreshes were shown for an interval
/// each.
pub(super) fn run(args: &TopArgs, state: State, poller: Poller, first: Sample) -> Result<ExitCode> {
    let (sender, receiver) = mpsc::channel();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT])?;
    let restored = RestoreOnDrop;
    let mut terminal = ratatui::try_init()?;
    start("larder-keys", &sender, |send| {
        while send(Message::Input(event::read())) {}
    })?;
    start("larder-signals", &sender, move |send| {
        signals.forever().map(Message::Signal).all(send);
    })?;
    let (settings, changed) = mpsc::channel();
    let polling = Polling::of(&state);
    start("larder-poller", &sender, move |send| {
        poll_server(poller, polling, &changed, |reply, ends_interval| {
            let reply = Box::new(reply);
            send(Message::Answer {
                reply,
                ends_interval,
            })
        });
    })?;
    let mut view = View::new(args, state, first);
    let mut intervals = 0;
    while args.count.is_none_or(|count| intervals < count) {
        terminal.draw(|frame| view.draw(frame))?;
        match receiver.recv() {
            Ok(Message::Input(event)) => {
                let action = event?.as_key_press_event().and_then(action);
                if action.is_some_and(|action| !view.perform(action, &settings)) {
                    break;
                }
            }
            Ok(Message::Answer {
                reply,
                ends_interval,
            }) => {
                intervals += u64::from(ends_interval);
                view.update(*reply, ends_interval);
            }
            Ok(Message::Signal(signal)) => {
                return Ok(ExitCode::from(128 | u8::try_from(signal).unwrap_or(0)));
            }
            // This cannot happen, because this thread keeps a sender of the channel.
            Err(_) => break,
        }
    }
    drop(restored);
    view.outcome()
}

/// Restores the terminal when it is dropped, even during a panic.
struct RestoreOnDrop;

impl Drop for RestoreOnDrop {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Starts a thread that runs `run`. The argument of `run` is a function that sends a message. This function
/// returns false after the receiver was dropped.
fn start(
    name: &str,
    sender: &Sender<Message>,
    run: impl FnOnce(&dyn Fn(Message) -> bool) + Send + 'static,
) -> io::Result<()> {
    let sender = sender.clone();
    let run = move || run(&|message| sender.send(message).is_ok());
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(run)
        .map(drop)
}

/// Queries the server at the end of each interval, and immediately when other figures become visible. Calls `send`
/// with each reply, and with true if the query was at the end of an interval. Does not query while the view is paused.
fn poll_server(
    mut poller: Poller,
    mut polling: Polling,
    changed: &Receiver<Polling>,
    send: impl Fn(Result<Sample, Error>, bool) -> bool,
) {
    let mut next = Instant::now() + polling.interval;
    loop {
        let received = if polling.is_paused {
            changed.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            changed.recv_timeout(next.saturating_duration_since(Instant::now()))
        };
        let ends_interval = match received {
            Ok(first) => {
                let new = changed.try_iter().last().unwrap_or(first);
                let old = std::mem::replace(&mut polling, new);
                let is_resumed = old.is_paused && !new.is_paused;
                if is_resumed || new.interval != old.interval {
                    next = Instant::now() + new.interval;
                }
                if !is_resumed && new.wanted == old.wanted {
                    continue;
                }
                is_resumed
            }
            Err(RecvTimeoutError::Timeout) => {
                next = Instant::now() + polling.interval;
                true
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if !send(poller.query(polling.wanted), ends_interval) {
            return;
        }
    }
}

/// The current values and settings of the view.
#[derive(Debug)]
struct View<'a> {
    args: &'a TopArgs,
    state: State,
    history: History,
    /// The reply at the end of the last interval but one, with which `now` is compared.
    before: Option<Sample>,
    /// The reply at the end of the last interval.
    last: Sample,
    /// The last reply. A key press may have caused it. The time since `last` is then too short for rates per second.
    now: Sample,
    /// The error of the last query, if it failed.
    last_error: Option<Error>,
    look: Look,
}

impl<'a> View<'a> {
    fn new(args: &'a TopArgs, state: State, first: Sample) -> Self {
        Self {
            args,
            state,
            history: History::default(),
            before: None,
            last: first.clone(),
            now: first,
            last_error: None,
            look: Look::of_environment(),
        }
    }

    /// Performs an action. Returns false if the user leaves the view.
    fn perform(&mut self, action: Action, settings: &Sender<Polling>) -> bool {
        let extent = pages::extent(&self.now.stats, self.state.page);
        match self.state.apply(action, extent) {
            Effect::None => {}
            Effect::Leave => return false,
            Effect::Poll => {
                // Sending fails only if the receiver was dropped, but the polling thread keeps it until the process
                // ends.
                let _ = settings.send(Polling::of(&self.state));
            }
            Effect::Reset => self.history.clear(),
        }
        true
    }

    fn update(&mut self, answer: Result<Sample, Error>, ends_interval: bool) {
        match answer {
            Ok(sample) => {
                if ends_interval {
                    let last = std::mem::replace(&mut self.last, sample.clone());
                    self.history.push(&Change::new(Some(&last), &sample));
                    self.before = Some(last);
                }
                self.now = sample;
                self.last_error = None;
            }
            Err(error) => self.last_error = Some(error),
        }
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let notice = self
            .last_error
            .as_ref()
            .map(|error| format!("not updated: {error}"));
        let scene = Scene {
            mountpoint: &self.args.mountpoint,
            state: &self.state,
            change: &Change::new(self.before.as_ref(), &self.now),
            history: &self.history,
            notice: notice.as_deref(),
            has_keys: true,
            look: self.look,
        };
        screen::draw(&scene, frame.area(), frame.buffer_mut());
    }

    /// Returns the result of the command after the view has ended. A failed query is a failure, unless it
    /// failed because the image was unmounted.
    fn outcome(self) -> Result<ExitCode> {
        match self.last_error {
            None => Ok(ExitCode::SUCCESS),
            Some(error @ (Error::NotMounted(_) | Error::Absent(_))) => {
                print_note(&error.to_string());
                Ok(ExitCode::SUCCESS)
            }
            Some(error) => Err(Failure::from(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder::CacheKind;
    use std::cell::Cell;
    use std::path::Path;

    fn polling(interval: Duration) -> Polling {
        Polling::of(&State::new(Page::Overview, CacheKind::Page, interval))
    }

    /// Returns whether the first query is at the end of an interval, after `changes` of the settings.
    fn first_query_ends_interval(first: Polling, changes: &[Polling]) -> Option<bool> {
        let (settings, received) = mpsc::channel();
        for change in changes {
            settings.send(*change).unwrap();
        }
        // If no interval ends, the thread ends when it has handled all changes, because the sender was dropped.
        let ends = first.interval.is_zero() && !first.is_paused;
        let _kept = ends.then_some(settings);
        let result = Cell::new(None);
        poll_server(
            Poller::new(Path::new("/absent")),
            first,
            &received,
            |_, ends_interval| {
                result.set(Some(ends_interval));
                false
            },
        );
        result.get()
    }

    #[test]
    fn only_visible_changes_cause_queries() {
        let hour = Duration::from_hours(1);
        let first = polling(hour);
        assert_eq!(
            first_query_ends_interval(polling(Duration::ZERO), &[]),
            Some(true)
        );
        assert_eq!(first_query_ends_interval(first, &[]), None);
        let mut other_cache = first;
        other_cache.wanted.cache = CacheKind::Inode;
        assert_eq!(
            first_query_ends_interval(first, &[other_cache]),
            Some(false)
        );
        let slower = polling(2 * hour);
        assert_eq!(first_query_ends_interval(first, &[slower]), None);
    }

    #[test]
    fn pause_stops_queries_until_it_ends() {
        let mut paused = polling(Duration::ZERO);
        paused.is_paused = true;
        assert_eq!(first_query_ends_interval(paused, &[]), None);
        let hour = polling(Duration::from_hours(1));
        assert_eq!(first_query_ends_interval(paused, &[hour]), Some(true));
    }

    #[test]
    fn query_after_key_press_does_not_end_interval_of_rates() {
        let args = TopArgs::for_tests();
        let state = State::new(Page::Overview, CacheKind::Page, Duration::from_secs(1));
        let sample = super::super::tests::sample;
        let mut view = View::new(&args, state, sample(0, "page"));
        view.update(Ok(sample(1, "page")), true);
        let refreshes = |view: &View<'_>| view.history.last(9, |point| point.reads_s).len();
        assert_eq!(refreshes(&view), 1);
        view.update(Ok(sample(2, "dentry")), false);
        assert_eq!(refreshes(&view), 1);
        assert_eq!(view.now.report.cache, CacheKind::Dentry);
        assert_eq!(
            view.before.as_ref().map(|it| it.stats.device.reads),
            Some(400)
        );
        view.update(Ok(sample(3, "dentry")), true);
        assert_eq!(
            view.before.as_ref().map(|it| it.stats.device.reads),
            Some(404)
        );
    }
}
