//! The library in process, compared with the equivalent system calls.
//!
//! The system calls use the kernel's own mount of the same image. Without root there is no such mount:
//! pread(2) then reads the image file, and stat(2) is omitted.

use std::ffi::CString;
use std::fs::File;
use std::hint::black_box;
use std::os::unix::fs::FileExt;
use std::time::Instant;

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

/// Measures `measure` once. The order of the sides alternates with `run`.
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

/// Calls `call` with 0, 1, 2, … and returns the average time of a call in nanoseconds.
fn nanoseconds_a_call(calls: u32, mut call: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    let started = Instant::now();
    for number in 0..calls as usize {
        call(number)?;
    }
    Ok(started.elapsed().as_secs_f64() * 1e9 / f64::from(calls.max(1)))
}

/// Measures both sides, in an order that alternates with `run`.
fn alternate(
    run: usize,
    volume_time: impl FnOnce() -> Result<f64>,
    syscall_time: impl FnOnce() -> Result<f64>,
) -> Result<Vec<(Peer, f64)>> {
    let (volume_time, syscall_time) = if run.is_multiple_of(2) {
        let volume_time = volume_time()?;
        (volume_time, syscall_time()?)
    } else {
        let syscall_time = syscall_time()?;
        (volume_time()?, syscall_time)
    };
    Ok(vec![
        (Peer::Volume, volume_time),
        (Peer::Syscall, syscall_time),
    ])
}

fn page_reads(
    tree: &Tree,
    plan: &Plan,
    programs: &Programs,
    run: usize,
) -> Result<Vec<(Peer, f64)>> {
    let volume = Volume::open(&tree.image, &OpenOptions::default())?;
    let ino = volume.resolve(BIG_FILE.as_bytes())?;
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
        let len = volume.read_at(ino, &mut buf, offset)?;
        ensure!(
            len == PAGE_BYTES && wrong_pages(&buf, BIG_FILE_NUMBER, *page) == 0,
            "the volume returned wrong content for page {page}"
        );
    }
    let offset = |number: usize| pages[number % pages.len()] * PAGE_BYTES as u64;
    let (mut one, mut other) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
    alternate(
        run,
        || {
            nanoseconds_a_call(plan.in_process_calls, |number| {
                black_box(volume.read_at(ino, black_box(&mut one), offset(number))?);
                Ok(())
            })
        },
        || {
            nanoseconds_a_call(plan.in_process_calls, |number| {
                black_box(file.read_at(black_box(&mut other), offset(number))?);
                Ok(())
            })
        },
    )
}

/// Measures lookups of a path. Both sides also read the metadata, because stat(2) does.
fn lookups(tree: &Tree, plan: &Plan, programs: &Programs, run: usize) -> Result<Vec<(Peer, f64)>> {
    let volume = Volume::open(&tree.image, &OpenOptions::default())?;
    let paths: Vec<CString> = tree
        .deep_paths
        .iter()
        .map(|path| CString::new(path.as_str()))
        .collect::<Result<_, _>>()?;
    let volume_lookup = |number: usize| {
        let ino = volume.resolve(black_box(paths[number % paths.len()].as_bytes()))?;
        black_box(volume.metadata(ino)?);
        Ok(())
    };
    for number in 0..paths.len() {
        volume_lookup(number)?;
    }
    let Some(mount) = kernel_mount(tree, programs)? else {
        return Ok(vec![(
            Peer::Volume,
            nanoseconds_a_call(plan.in_process_calls, volume_lookup)?,
        )]);
    };
    let root = rustix::fs::open(
        mount.path(),
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let syscall_lookup = |number: usize| {
        let path = black_box(paths[number % paths.len()].as_c_str());
        black_box(statat(&root, path, AtFlags::empty())?);
        Ok(())
    };
    for number in 0..paths.len() {
        syscall_lookup(number)?;
    }
    alternate(
        run,
        || nanoseconds_a_call(plan.in_process_calls, volume_lookup),
        || nanoseconds_a_call(plan.in_process_calls, syscall_lookup),
    )
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
    let decide = |_| {
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
        Ok(())
    };
    nanoseconds_a_call(plan.in_process_calls, decide).unwrap_or(f64::INFINITY)
}
