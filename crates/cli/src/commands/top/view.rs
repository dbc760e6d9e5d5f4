//! The view of `larder top` on a terminal.
//!
//! # Model
//! One thread draws the screen. Three other threads send keys, replies of the server and signals to the
//! drawing thread, which can therefore handle keys while it waits for the server. [`RestoreOnDrop`] restores
//! the terminal when the view ends, even in a panic.

use super::change::Change;
use super::poller::{Poller, Sample};
use super::screen::Screen;
use crate::args::TopArgs;
use larder::CacheKind;
use larder_console::{Failure, Result, print_note};
use larder_fuse::Error;
use ratatui::Frame;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
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

/// The action that a key requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Leave,
    Help,
    /// Choose the cache that is this number of rows below the chosen cache. The first row follows the last.
    Choose(usize),
}

/// Shows the view until the user leaves it, a signal arrives, or `--count` refreshes were shown for an interval
/// each.
pub(super) fn run(args: &TopArgs, poller: Poller, first: Sample) -> Result<ExitCode> {
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
    let (choose, chosen) = mpsc::channel();
    let (cache, interval) = (args.cache.into(), args.interval);
    start("larder-poller", &sender, move |send| {
        poll_server(poller, cache, &chosen, interval, |reply, ends_interval| {
            let reply = Box::new(reply);
            send(Message::Answer {
                reply,
                ends_interval,
            })
        });
    })?;
    let mut view = View::new(args, first);
    let mut intervals = 0;
    while args.count.is_none_or(|count| intervals < count) {
        terminal.draw(|frame| view.draw(frame))?;
        match receiver.recv() {
            Ok(Message::Input(event)) => match event?.as_key_press_event().and_then(action) {
                Some(Action::Leave) => break,
                Some(Action::Help) => view.shows_help = !view.shows_help,
                Some(Action::Choose(step)) => {
                    view.chosen = next_cache(view.chosen, step);
                    // Sending fails only if the receiver was dropped, but the polling thread keeps it until
                    // the process ends.
                    let _ = choose.send(view.chosen);
                }
                None => {}
            },
            Ok(Message::Answer {
                reply,
                ends_interval,
            }) => {
                intervals += u64::from(ends_interval);
                view.update(*reply);
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

/// Queries the server at the end of each interval, and immediately when another cache is chosen. Calls `send`
/// with each reply, and with true if the query was at the end of an interval.
fn poll_server(
    mut poller: Poller,
    mut cache: CacheKind,
    chosen: &Receiver<CacheKind>,
    interval: Duration,
    send: impl Fn(Result<Sample, Error>, bool) -> bool,
) {
    let mut next = Instant::now() + interval;
    loop {
        let choice = chosen.recv_timeout(next.saturating_duration_since(Instant::now()));
        match choice {
            Ok(kind) => cache = chosen.try_iter().last().unwrap_or(kind),
            Err(RecvTimeoutError::Timeout) => next = Instant::now() + interval,
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if !send(poller.query(cache), choice.is_err()) {
            return;
        }
    }
}

fn action(key: KeyEvent) -> Option<Action> {
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if is_control => Action::Leave,
        KeyCode::Char('q') | KeyCode::Esc => Action::Leave,
        KeyCode::Char('?') => Action::Help,
        KeyCode::Down | KeyCode::Right => Action::Choose(1),
        KeyCode::Up | KeyCode::Left => Action::Choose(CacheKind::ALL.len() - 1),
        _ => return None,
    })
}

fn next_cache(cache: CacheKind, step: usize) -> CacheKind {
    let mut from_here = CacheKind::ALL
        .into_iter()
        .cycle()
        .skip_while(|kind| *kind != cache);
    from_here.nth(step).unwrap_or(cache)
}

/// The current values and settings of the view.
#[derive(Debug)]
struct View<'a> {
    args: &'a TopArgs,
    /// The earlier reply with which `now` is compared.
    before: Option<Sample>,
    now: Sample,
    chosen: CacheKind,
    /// The error of the last query, if it failed.
    last_error: Option<Error>,
    shows_help: bool,
    has_colours: bool,
}

impl<'a> View<'a> {
    fn new(args: &'a TopArgs, first: Sample) -> Self {
        Self {
            args,
            before: None,
            now: first,
            chosen: args.cache.into(),
            last_error: None,
            shows_help: false,
            has_colours: std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()),
        }
    }

    fn update(&mut self, answer: Result<Sample, Error>) {
        match answer {
            Ok(sample) => {
                let last = std::mem::replace(&mut self.now, sample);
                // After a key press, the server is queried before the interval has passed. The time since
                // the last reply is then too short for rates per second, so `before` is kept.
                let is_regular = self.now.at.duration_since(last.at) > self.args.interval / 2;
                if is_regular || self.before.is_none() {
                    self.before = Some(last);
                }
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
        let screen = Screen {
            mountpoint: &self.args.mountpoint,
            interval: self.args.interval,
            change: &Change::new(self.before.as_ref(), &self.now),
            notice: notice.as_deref(),
            shows_help: self.shows_help,
            has_keys: true,
            has_colours: self.has_colours,
        };
        frame.render_widget(screen, frame.area());
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
    use std::path::Path;

    #[test]
    fn query_after_key_press_does_not_end_interval() {
        for (is_key, interval) in [(true, Duration::from_hours(1)), (false, Duration::ZERO)] {
            let (choose, chosen) = mpsc::channel();
            if is_key {
                choose.send(CacheKind::Inode).unwrap();
            }
            let poller = Poller::new(Path::new("/absent"));
            poll_server(
                poller,
                CacheKind::Page,
                &chosen,
                interval,
                |_, ends_interval| {
                    assert_eq!(ends_interval, !is_key);
                    false
                },
            );
        }
    }

    #[test]
    fn arrow_keys_cycle_through_caches() {
        let press = |code| action(KeyEvent::new(code, KeyModifiers::NONE));
        for (key, from, to) in [
            (KeyCode::Down, CacheKind::Page, CacheKind::Buffer),
            (KeyCode::Right, CacheKind::Inode, CacheKind::Page),
            (KeyCode::Up, CacheKind::Page, CacheKind::Inode),
            (KeyCode::Left, CacheKind::Inode, CacheKind::Dentry),
        ] {
            let Some(Action::Choose(step)) = press(key) else {
                panic!("{key:?}")
            };
            assert_eq!(next_cache(from, step), to, "{key:?}");
        }
        assert_eq!(press(KeyCode::Char('q')), Some(Action::Leave));
        assert_eq!(press(KeyCode::Char('c')), None);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(action(interrupt), Some(Action::Leave));
    }
}
