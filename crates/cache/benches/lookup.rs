//! Measures lookups per second, and compares reads of a cached page with pread(2) of a cached file.
//!
//! Run it with `cargo bench -p larder-cache --bench lookup`. The tests run a small version to check
//! that it works. Times are meaningful in the bench profile only.

mod rate;

use larder_block::MemoryDevice;
use larder_cache::Caches;
use larder_cache::budget::BudgetConfig;
use larder_cache::dentry::Dentry;
use larder_cache::page::{Entry, PageCache, PageKey, PageLayout};
use larder_cache::table::{Arena, Growth, Hash64, Inserted, Table};
use rate::{Random, rate};
use std::collections::HashMap;
use std::fs::File;
use std::hash::BuildHasherDefault;
use std::hint::black_box;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

/// Returns the key of page `i` in a sequence of files of 1000 pages each.
fn key(i: u64) -> PageKey {
    PageKey {
        ino: i / 1000,
        index: i % 1000,
    }
}

/// The hasher of the standard hash map, with which the table is compared. Like the table's hash
/// function, it multiplies by the golden ratio. The map has no lock, no pins and no eviction.
#[derive(Clone, Copy, Default)]
struct Golden(u64);

impl std::hash::Hasher for Golden {
    fn write(&mut self, _: &[u8]) {}
    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(26) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}

fn map(keys: u32, lookups: u64) {
    let map: HashMap<PageKey, u64, BuildHasherDefault<Golden>> =
        (0..u64::from(keys)).map(|i| (key(i), i)).collect();
    let rate = rate(1, lookups, |_| {
        let mut random = Random(0x1234_5678);
        let mut sum = 0u64;
        for _ in 0..lookups {
            sum = sum.wrapping_add(map[&key(random.below(u64::from(keys)))]);
        }
        black_box(sum);
    });
    println!("{keys} keys, 1 thread: std's map {rate:.1} M/s");
}

fn table(keys: u32, lookups: u64) {
    let arena = Arc::new(Arena::new(keys, Growth::Prepaid).expect("memory"));
    let table: Table<PageLayout, Hash64, 2> =
        Table::new(arena, keys.next_power_of_two().ilog2(), 0, Hash64).expect("memory");
    for i in 0..u64::from(keys) {
        let vacant = table.allocate().expect("a slot");
        let inserted = table.get_or_insert(&key(i), vacant, 0, |_| {});
        assert!(matches!(inserted, Inserted::New(_)));
    }
    for threads in [1, 2] {
        let copy = rate(threads, lookups, |thread| {
            let mut random = Random(0x1234_5678 + thread);
            let mut sum = 0;
            for _ in 0..lookups {
                let key = key(random.below(u64::from(keys)));
                sum += table.copy(&key, |slot| slot.word(1)).expect("a hit");
            }
            black_box(sum);
        });
        let pin = rate(threads, lookups, |thread| {
            let mut random = Random(0x8765_4321 + thread);
            for _ in 0..lookups {
                let key = key(random.below(u64::from(keys)));
                black_box(table.get(&key).expect("a hit"));
            }
        });
        println!("{keys} keys, {threads} threads: copy {copy:.1} M/s, pin {pin:.1} M/s");
    }
    let counts = table.counts();
    #[expect(clippy::cast_precision_loss, reason = "for display")]
    let links = counts.links_on_hits as f64 / counts.hits as f64;
    let chi = table.histogram().chi_square();
    println!("{links:.2} links a hit, chi-square {:.0}", chi.statistic);
}

fn fill(pages: &PageCache, key: PageKey) {
    if let Entry::New(mut page) = pages.get_or_insert(key) {
        page.fill(u8::try_from(key.index % 251).unwrap_or(0));
        page.complete();
    }
}

/// Reads 4 KiB of a cached page, from Larder's page cache and from the kernel's.
fn pages(count: u64, reads: u64) {
    let device = Arc::new(MemoryDevice::new(vec![0; 1 << 20]));
    let budget = BudgetConfig::new((count + 64) * 4096 * 2, 4096);
    let caches: Caches = Caches::new(&budget, device).expect("memory");
    for index in 0..count {
        fill(&caches.pages, PageKey { ino: 12, index });
    }
    let mut file = tempfile();
    for _ in 0..count {
        file.write_all(&[7; 4096]).expect("room for a file");
    }
    for threads in [1, 2] {
        let larder = rate(threads, reads, |thread| {
            let mut random = Random(0x1234_5678 + thread);
            let mut bytes = [0; 4096];
            for _ in 0..reads {
                let index = random.below(count);
                let page = caches.pages.get(PageKey { ino: 12, index });
                bytes.copy_from_slice(&page.expect("a hit"));
                black_box(&bytes);
            }
        });
        let kernel = rate(threads, reads, |thread| {
            let mut random = Random(0x1234_5678 + thread);
            let mut bytes = [0; 4096];
            for _ in 0..reads {
                let at = random.below(count) * 4096;
                file.read_exact_at(&mut bytes, at).expect("a read");
                black_box(&bytes);
            }
        });
        println!(
            "{count} pages of 4 KiB, {threads} threads: Larder {larder:.2} M/s, \
             pread {kernel:.2} M/s, {:.1} times",
            larder / kernel
        );
    }
}

/// Looks up names and inodes, as a walk of paths does.
fn names(count: u32, lookups: u64) {
    let device = Arc::new(MemoryDevice::new(vec![0; 1 << 20]));
    let caches: Caches = Caches::new(&BudgetConfig::new(256 << 20, 4096), device).expect("memory");
    let names: Vec<String> = (0..count).map(|i| format!("file-{i:05}.txt")).collect();
    for (ino, name) in (1..).zip(&names) {
        let dentry = Dentry::Positive { ino, file_type: 1 };
        caches.dentries.insert(2, name.as_bytes(), dentry);
        caches.inodes.insert(ino, &[u64::from(ino); 20]);
    }
    let dentry = rate(1, lookups, |_| {
        let mut random = Random(0x1234_5678);
        for _ in 0..lookups {
            let name = &names[usize::try_from(random.below(u64::from(count))).unwrap_or(0)];
            black_box(caches.dentries.get(2, name.as_bytes()).expect("a hit"));
        }
    });
    let inode = rate(1, lookups, |_| {
        let mut random = Random(0x1234_5678);
        for _ in 0..lookups {
            let ino = u32::try_from(random.below(u64::from(count))).unwrap_or(0) + 1;
            black_box(caches.inodes.get(ino).expect("a hit"));
        }
    });
    println!("{count} names: dentry {dentry:.1} M/s, inode {inode:.1} M/s");
}

/// Creates a file without a name.
fn tempfile() -> File {
    let path = std::env::temp_dir().join(format!("larder-lookup-{}", std::process::id()));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .expect("a temporary file");
    std::fs::remove_file(&path).expect("the file was just created");
    file
}

fn main() {
    // Cargo passes the argument `--bench` to benchmarks, but not to tests. The names of the
    // measurements to run may follow it.
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let full = arguments.iter().any(|argument| argument == "--bench");
    let chosen = |part: &str| {
        let parts = || {
            arguments
                .iter()
                .filter(|argument| !argument.starts_with('-'))
        };
        parts().count() == 0 || parts().any(|argument| argument == part)
    };
    let scale = if full { 1 } else { 1000 };
    if chosen("table") {
        table(
            1_000_000 / u32::try_from(scale).unwrap_or(1),
            20_000_000 / scale,
        );
        map(
            1_000_000 / u32::try_from(scale).unwrap_or(1),
            20_000_000 / scale,
        );
    }
    if chosen("pages") {
        pages(131_072 / scale, 4_000_000 / scale);
        pages(1024 / scale.min(8), 4_000_000 / scale);
    }
    if chosen("names") {
        names(10_000, 20_000_000 / scale);
    }
}
