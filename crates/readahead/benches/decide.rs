//! Measures the cost of a readahead decision for each policy.
//!
//! Run it with `cargo bench -p larder-readahead --bench decide`. The tests run a small version to
//! check that it works. Times are meaningful in the bench profile only.
//!
//! Each decision starts from a copy of the same state. The cost of the copy is shown in a column of its own, and is
//! included in the other figures. There are two exceptions with `adaptive`. A copy of its state allocates memory, and
//! a hit does not change the state, so hits are measured without copies. The next window depends on whether earlier
//! streams were continued, so it is measured in one long stream. This figure also includes the calls of `window_read`
//! and `end_read` after each decision.
//!
//! No page is resident, so no policy finds a history in the page cache.

use std::hint::black_box;

use larder_readahead::{
    DEFAULT_MAX_PAGES, FileState, PageIndex, Policy, PolicyName, Read, Residency, Trigger, Window,
    Windows,
};

struct Nothing;

impl Residency for Nothing {
    fn is_resident(&self, _: PageIndex) -> bool {
        false
    }
}

/// Returns a read of one page in a large file.
fn read(trigger: Trigger, index: u64) -> Read {
    Read {
        trigger,
        index: PageIndex(index),
        request_start: PageIndex(index),
        request_pages: 1,
        ends_inside_page: false,
        by_fault: false,
        file_pages: 1 << 50,
        congested: false,
    }
}

/// Does what a caller does for a page that it finds without a marker.
fn hit(policy: &dyn Policy, state: &mut FileState, read: &Read) -> Windows {
    if policy.can_use_hits(false) && policy.wants_access(state, read) {
        return policy.decide(state, read, &Nothing);
    }
    Windows::NONE
}

fn decide(policy: &dyn Policy, state: &mut FileState, read: &Read) -> Windows {
    policy.decide(state, read, &Nothing)
}

/// Returns the mean processor time of `times` runs of `step`, in nanoseconds. Each run starts from a copy of `state`
/// if `copies` is true. Otherwise all runs use `state`, which `step` must not change. Each run must return windows if
/// `has_windows` is true, and none if it is false.
#[expect(clippy::cast_precision_loss, reason = "for display")]
fn time(
    name: PolicyName,
    (state, copies): (&FileState, bool),
    read: Read,
    has_windows: bool,
    times: u64,
    step: impl Fn(&dyn Policy, &mut FileState, &Read) -> Windows,
) -> f64 {
    let mut with_windows = 0;
    let mut reused = state.clone();
    let start = processor_seconds();
    for _ in 0..times {
        let mut copy = copies.then(|| black_box(state).clone());
        let state = copy.as_mut().unwrap_or(&mut reused);
        let windows = step(black_box(name.policy()), black_box(state), black_box(&read));
        with_windows += u64::from(!windows.is_empty());
        black_box(state);
    }
    let seconds = processor_seconds() - start;
    let expected = if has_windows { times } else { 0 };
    assert_eq!(with_windows, expected, "{name}: runs of {read:?}");
    seconds * 1e9 / times as f64
}

/// Returns the mean processor time for each of the next `times` windows of a stream, in nanoseconds. `state` is the
/// state of the file, and `window` is the first window of the stream.
#[expect(clippy::cast_precision_loss, reason = "for display")]
fn time_stream(policy: &dyn Policy, state: &mut FileState, window: Window, times: u64) -> f64 {
    let mut window = window;
    let start = processor_seconds();
    for _ in 0..times {
        let marker = window.marker().expect("each window has a marker");
        let windows = read_page(policy, state, &read(Trigger::Marker, marker.0));
        window = windows.first().expect("each marker opens a window");
    }
    (processor_seconds() - start) * 1e9 / times as f64
}

/// Returns the processor time of this thread. Wall time would include other processes of the
/// machine.
#[expect(clippy::cast_precision_loss, reason = "for display")]
fn processor_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Returns the state of a file after a read of its first page, and the window of four pages which this read opened.
fn after_first_read(policy: &dyn Policy) -> (FileState, Option<Window>) {
    let mut state = FileState::new(DEFAULT_MAX_PAGES);
    let first = if policy.can_use_hits(false) {
        Trigger::Access
    } else {
        Trigger::Miss
    };
    let windows = read_page(policy, &mut state, &read(first, 0));
    (state, windows.first())
}

fn read_page(policy: &dyn Policy, state: &mut FileState, read: &Read) -> Windows {
    let windows = policy.decide(state, read, &Nothing);
    for window in windows {
        policy.window_read(state, window, window.size);
    }
    policy.end_read(state, read);
    windows
}

fn main() {
    let full = std::env::args().any(|argument| argument == "--bench");
    let times = if full { 20_000_000 } else { 1000 };
    println!("{} bytes of state; ns for each:", size_of::<FileState>());
    println!("policy    copy   hit  miss  next window");
    for name in PolicyName::ALL.iter().copied() {
        let policy = name.policy();
        let (mut opened, window) = after_first_read(policy);
        // In the policy `legacy`, page 1 opens the ahead window. Page 2 is inside the first window.
        let mut reading = opened.clone();
        read_page(policy, &mut reading, &read(Trigger::Access, 1));
        let inside = read(Trigger::Access, 2);
        let nothing = |_: &dyn Policy, _: &mut FileState, _: &Read| Windows::NONE;
        let copy = time(name, (&reading, true), inside, false, times, nothing);
        let copies = name != PolicyName::Adaptive;
        let on_hit = time(name, (&reading, copies), inside, false, times, hit);
        let far = read(Trigger::Miss, 1 << 20);
        let on_miss = time(name, (&reading, true), far, true, times, decide);
        // The marker on page 1 requests the next window. Under `legacy`, which has no markers, any
        // access to page 1 does.
        let (trigger, has_windows) = match name {
            PolicyName::Off => (Trigger::Marker, false),
            PolicyName::Legacy => (Trigger::Access, true),
            _ => (Trigger::Marker, true),
        };
        let next = if name == PolicyName::Adaptive {
            let window = window.expect("the first read opens a window");
            time_stream(policy, &mut opened, window, times)
        } else {
            let next = read(trigger, 1);
            time(name, (&opened, true), next, has_windows, times, decide)
        };
        println!("{name:8} {copy:5.1} {on_hit:5.1} {on_miss:5.1}  {next:5.1}");
    }
}
