//! The library in process, compared with the equivalent system calls.
//!
//! The system calls use the kernel's own mount of the same image. Without root there is no such mount:
//! pread(2) then reads the image file, and stat(2) is omitted.

use std::cell::RefCell;
use std::ffi::{CString, OsStr};
use std::fs::File;
use std::hint::black_box;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use larder::{OpenOptions, Volume};
use larder_readahead::{
    DEFAULT_MAX_PAGES, FileState, PageIndex, PolicyName, Read, Residency, Trigger,
};
use larder_testkit::{Access, LoopMount};
use rustix::fs::{AtFlags, Mode, OFlags, statat};

use crate::measure::{Measure, as_f64};
use crate::peer::{Peer, Programs};
use crate::plan::Plan;
use crate::tree::{BIG_FILE, BIG_FILE_NUMBER, PAGE_BYTES, Tree, wrong_pages};
use crate::work::shuffled;

/// One value of one side.
pub type Sample = (Measure, Peer, f64);

/// Measures `measure` once. The order of the sides depends on `run`.
pub fn measure(
    measure: Measure,
    tree: &Tree,
    plan: &Plan,
    programs: &Programs,
    run: usize,
) -> Result<Vec<Sample>> {
    let mut samples = match measure {
        Measure::PageRead => page_reads(tree, plan, programs, run)?,
        Measure::Lookup => lookups(tree, plan, programs, run)?,
        Measure::Bookkeeping => vec![(Peer::Volume, bookkeeping_percent(tree)?)],
        Measure::Decision => vec![(Peer::Volume, decision_nanoseconds(plan))],
        _ => Vec::new(),
    };
    samples.sort_by_key(|(peer, _)| *peer);
    Ok(samples
        .into_iter()
        .map(|(peer, value)| (measure, peer, value))
        .collect())
}

/// The number of parts into which the calls of a side are divided: a multiple of the number of orders, which is 2 for
/// two sides and 6 for three.
const PARTS: usize = 18;

/// A side of a comparison: makes the calls with these numbers.
type Side<'s> = (Peer, Box<dyn FnMut(Range<usize>) -> Result<()> + 's>);

fn side<'s>(peer: Peer, mut call: impl FnMut(usize) -> Result<()> + 's) -> Side<'s> {
    (
        peer,
        Box::new(move |numbers| {
            for number in numbers {
                call(number)?;
            }
            Ok(())
        }),
    )
}

/// Makes `calls` calls of each side, and returns the average time of a call in nanoseconds. The sides take turns. All
/// orders of the sides occur equally often: a side is faster if the previous side has just loaded the same data into
/// the caches of the processor.
fn alternate(run: usize, calls: u32, mut sides: Vec<Side<'_>>) -> Result<Vec<(Peer, f64)>> {
    let mut times = vec![Duration::ZERO; sides.len()];
    let part = (calls as usize).div_ceil(PARTS).max(1);
    for turn in 0..PARTS {
        for at in order(sides.len(), run + turn) {
            let started = Instant::now();
            (sides[at].1)(turn * part..(turn + 1) * part)?;
            times[at] += started.elapsed();
        }
    }
    let made = as_f64((PARTS * part) as u64);
    let times = times
        .into_iter()
        .map(|time| time.as_secs_f64() * 1e9 / made);
    Ok(sides.iter().map(|(peer, _)| *peer).zip(times).collect())
}

/// Returns an order of `count` sides. Consecutive numbers select all orders before one is repeated.
fn order(count: usize, mut number: usize) -> Vec<usize> {
    let mut left: Vec<usize> = (0..count).collect();
    let mut order = Vec::with_capacity(count);
    while !left.is_empty() {
        let choices = left.len();
        order.push(left.remove(number % choices));
        number /= choices;
    }
    order
}

fn page_reads(
    tree: &Tree,
    plan: &Plan,
    programs: &Programs,
    run: usize,
) -> Result<Vec<(Peer, f64)>> {
    let fs = larder::open(&tree.image)?;
    let volume = fs.volume();
    let open = volume.open_file(volume.resolve(BIG_FILE.as_bytes())?)?;
    let by_path = fs.open(BIG_FILE)?;
    let mount = kernel_mount(tree, programs)?;
    let file = match &mount {
        Some(mount) => File::open(mount.path().join(BIG_FILE))?,
        None => File::open(&tree.image)?,
    };
    let pages = shuffled(u64::from(plan.cached_pages), run as u64);
    let mut buf = [0; PAGE_BYTES];
    for page in &pages {
        let offset = page * PAGE_BYTES as u64;
        file.read_exact_at(&mut buf, offset)?;
        let len = open.read_at(&mut buf, offset)?;
        ensure!(
            len == PAGE_BYTES && wrong_pages(&buf, BIG_FILE_NUMBER, *page) == 0,
            "the volume returned wrong content for page {page}"
        );
    }
    let offset = |number: usize| pages[number % pages.len()] * PAGE_BYTES as u64;
    // All sides read into the same buffer, because the time of a copy depends on the address.
    let buf = RefCell::new(buf);
    let sides = vec![
        side(Peer::Volume, |number| {
            black_box(open.read_at(black_box(&mut *buf.borrow_mut()), offset(number))?);
            Ok(())
        }),
        side(Peer::Fs, |number| {
            black_box(by_path.read_at(black_box(&mut *buf.borrow_mut()), offset(number))?);
            Ok(())
        }),
        side(Peer::Syscall, |number| {
            black_box(file.read_at(black_box(&mut *buf.borrow_mut()), offset(number))?);
            Ok(())
        }),
    ];
    alternate(run, plan.in_process_calls, sides)
}

/// Measures lookups of a path. All sides also read the metadata, because stat(2) does.
fn lookups(tree: &Tree, plan: &Plan, programs: &Programs, run: usize) -> Result<Vec<(Peer, f64)>> {
    let fs = larder::open(&tree.image)?;
    let paths: Vec<CString> = tree
        .deep_paths
        .iter()
        .map(|path| CString::new(path.as_str()))
        .collect::<Result<_, _>>()?;
    let path = |number: usize| black_box(paths[number % paths.len()].as_c_str());
    let mount = kernel_mount(tree, programs)?;
    let root = match &mount {
        Some(mount) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            Some(rustix::fs::open(mount.path(), flags, Mode::empty())?)
        }
        None => None,
    };
    let mut sides = vec![
        side(Peer::Volume, |number| {
            let ino = fs.volume().resolve(path(number).to_bytes())?;
            black_box(fs.volume().metadata(ino)?);
            Ok(())
        }),
        side(Peer::Fs, |number| {
            black_box(fs.metadata(OsStr::from_bytes(path(number).to_bytes()))?);
            Ok(())
        }),
    ];
    if let Some(root) = &root {
        sides.push(side(Peer::Syscall, move |number| {
            black_box(statat(root, path(number), AtFlags::empty())?);
            Ok(())
        }));
    }
    for (_, calls) in &mut sides {
        calls(0..paths.len())?;
    }
    alternate(run, plan.in_process_calls, sides)
}

fn kernel_mount(tree: &Tree, programs: &Programs) -> Result<Option<LoopMount>> {
    if programs.missing(Peer::Kernel).is_some() {
        return Ok(None);
    }
    Ok(Some(LoopMount::new(&tree.image, Access::ReadOnly, &[])?))
}

/// Returns the share of a full page cache's memory that does not hold the content of pages, in percent.
fn bookkeeping_percent(tree: &Tree) -> Result<f64> {
    let mut options = OpenOptions::default();
    options.cache_size_bytes = (tree.big_file_bytes / 2).clamp(1 << 20, 64 << 20);
    let volume = Volume::open(&tree.image, &options)?;
    let ino = volume.resolve(BIG_FILE.as_bytes())?;
    let mut buf = vec![0; 1 << 20];
    let mut offset = 0;
    loop {
        match volume.read_at(ino, &mut buf, offset)? {
            0 => break,
            len => offset += len as u64,
        }
    }
    let page = volume.stats().page;
    ensure!(
        page.objects > 0 && page.bytes > 0,
        "the page cache is empty after a read"
    );
    let content_bytes = page.objects * PAGE_BYTES as u64;
    let other_bytes = page.bytes.saturating_sub(content_bytes);
    Ok(as_f64(other_bytes) / as_f64(page.bytes) * 100.0)
}

/// Measures readahead decisions for a sequential reader, each at the marker of the previous window.
/// Returns the mean time of a decision in nanoseconds.
fn decision_nanoseconds(plan: &Plan) -> f64 {
    struct NothingResident;
    impl Residency for NothingResident {
        fn is_resident(&self, _: PageIndex) -> bool {
            false
        }
    }
    let policy = black_box(PolicyName::OnDemand).policy();
    let mut state = FileState::new(DEFAULT_MAX_PAGES);
    let mut index = PageIndex(1);
    let started = Instant::now();
    for _ in 0..plan.in_process_calls {
        let read = Read {
            trigger: Trigger::Marker,
            index,
            request_start: index,
            request_pages: 1,
            file_pages: u64::MAX,
            ends_inside_page: false,
            by_fault: false,
            congested: false,
        };
        let window = policy.decide(&mut state, black_box(&read), &NothingResident);
        index = window
            .first()
            .and_then(|window| window.marker())
            .unwrap_or(PageIndex(1));
    }
    started.elapsed().as_secs_f64() * 1e9 / f64::from(plan.in_process_calls.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn each_side_follows_each_other_side_equally_often() {
        let peers = [Peer::Volume, Peer::Fs, Peer::Syscall];
        for (count, orders) in [(2, 2), (3, 6)] {
            for run in 0..3 {
                let turns = RefCell::new(Vec::new());
                let sides = peers[..count].iter().map(|&peer| {
                    let turns = &turns;
                    side(peer, move |number| {
                        turns.borrow_mut().push((number, peer));
                        Ok(())
                    })
                });
                let calls = u32::try_from(PARTS).unwrap();
                alternate(run, calls, sides.collect()).unwrap();
                let turns = turns.into_inner();
                let mut seen = BTreeMap::new();
                for turn in turns.chunks(count) {
                    assert!(turn.iter().all(|(number, _)| *number == turn[0].0));
                    let peers: Vec<_> = turn.iter().map(|(_, peer)| *peer).collect();
                    *seen.entry(peers).or_insert(0) += 1;
                }
                let expected = vec![PARTS / orders; orders];
                assert_eq!(seen.into_values().collect::<Vec<_>>(), expected);
            }
        }
    }
}
