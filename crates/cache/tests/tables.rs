//! Tests of caches with any tables: they return the same results, have the requested sizes, and give
//! memory back.

use larder_block::MemoryDevice;
use larder_cache::budget::{BudgetConfig, Division};
use larder_cache::dentry::Dentry;
use larder_cache::inode::InodeCache;
use larder_cache::page::{Entry, PageKey};
use larder_cache::tables::{
    Finder, Function, InodeLookups, Pages, Shrinking, TableChoice, TableSize, Tables,
};
use larder_cache::tape::CacheKind;
use larder_cache::{Caches, Error};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::collections::BTreeMap;
use std::sync::Arc;

const BLOCK_BYTES: usize = 4096;
const DEVICE_BLOCKS: u64 = 64;

fn config(budget_bytes: u64, tables: Tables) -> BudgetConfig {
    BudgetConfig {
        name_seed: [1, 2],
        tables,
        ..BudgetConfig::new(budget_bytes, BLOCK_BYTES)
    }
}

fn caches(budget_bytes: u64, tables: Tables) -> Caches {
    let blocks = (0..DEVICE_BLOCKS).flat_map(|block| [byte(block); BLOCK_BYTES]);
    let device = Arc::new(MemoryDevice::new(blocks.collect::<Vec<u8>>()));
    Caches::new(&config(budget_bytes, tables), device).unwrap()
}

fn byte(number: u64) -> u8 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()[0]
}

/// An operation on the caches.
#[derive(Clone, Debug)]
enum Action {
    Page(PageKey),
    RemovePage(PageKey),
    Block(u64),
    Name(u32, String),
    InsertName(u32, String, u32),
    RemoveName(u32, String),
    Inode(u32),
    InsertInode(u32, u64),
    RemoveInode(u32),
}

fn action() -> impl Strategy<Value = Action> {
    use Action::{
        Block, Inode, InsertInode, InsertName, Name, Page, RemoveInode, RemoveName, RemovePage,
    };
    // This includes indexes that differ only in upper bits.
    let index = prop_oneof![0u64..40, (0u64..40).prop_map(|index| index << 20)];
    let page = || {
        let key = (11u64..15, index.clone());
        key.prop_map(|(ino, index)| PageKey { ino, index })
    };
    // This includes names that end at the end of a word or of a slot.
    let name = || {
        prop_oneof![
            "[ab]{1,3}",
            "[a]{7,9}",
            "[ab]a{37,39}",
            "a{38,42}",
            "a{250,255}"
        ]
    };
    let parent = || 2u32..5;
    prop_oneof![
        6 => page().prop_map(Page),
        1 => page().prop_map(RemovePage),
        3 => (0..DEVICE_BLOCKS).prop_map(Block),
        3 => (parent(), name()).prop_map(|(parent, name)| Name(parent, name)),
        3 => (parent(), name(), 0u32..9).prop_map(|(parent, name, ino)| InsertName(parent, name, ino)),
        1 => (parent(), name()).prop_map(|(parent, name)| RemoveName(parent, name)),
        3 => (1u32..40).prop_map(Inode),
        3 => (1u32..40, any::<u64>()).prop_map(|(ino, value)| InsertInode(ino, value)),
        1 => (1u32..40).prop_map(RemoveInode),
    ]
}

/// The entries that the caches may have.
#[derive(Debug, Default)]
struct Model {
    names: BTreeMap<(u32, String), u32>,
    inodes: BTreeMap<u32, u64>,
}

fn dentry(ino: u32) -> Dentry {
    match ino {
        0 => Dentry::Negative,
        ino => Dentry::Positive {
            ino,
            file_type: 0xf0 | u8::try_from(ino).unwrap(),
        },
    }
}

/// Performs `action`, and checks that each result is what was inserted. If `is_all` is true, also checks
/// that nothing is missing.
fn perform(caches: &Caches, model: &mut Model, action: Action, is_all: bool) {
    match action {
        Action::Page(key) => read_page(caches, key),
        Action::RemovePage(key) => {
            caches.pages.remove(key);
            assert!(caches.pages.get(key).is_none());
        }
        Action::Block(block) => {
            let read = caches
                .buffers
                .read(block, |_| Ok::<_, larder_block::Error>(()));
            assert_eq!(read.unwrap()[17], byte(block));
        }
        Action::Name(parent, name) => {
            let found = caches.dentries.get(parent, name.as_bytes());
            let expected = model.names.get(&(parent, name)).map(|ino| dentry(*ino));
            assert!(
                found == expected || !is_all && found.is_none(),
                "{found:?}, {expected:?}"
            );
        }
        Action::InsertName(parent, name, ino) => {
            caches.dentries.insert(parent, name.as_bytes(), dentry(ino));
            assert_eq!(
                caches.dentries.get(parent, name.as_bytes()),
                Some(dentry(ino))
            );
            model.names.insert((parent, name), ino);
        }
        Action::RemoveName(parent, name) => {
            caches.dentries.remove(parent, name.as_bytes());
            assert_eq!(caches.dentries.get(parent, name.as_bytes()), None);
            model.names.remove(&(parent, name));
        }
        Action::Inode(ino) => {
            let found = caches.inodes.get(ino).map(|words| words[3]);
            let expected = model.inodes.get(&ino).copied();
            assert!(
                found == expected || !is_all && found.is_none(),
                "{found:?}, {expected:?}"
            );
        }
        Action::InsertInode(ino, value) => {
            caches.inodes.insert(ino, &[value; 20]);
            assert_eq!(caches.inodes.get(ino), Some([value; 20]));
            model.inodes.insert(ino, value);
        }
        Action::RemoveInode(ino) => {
            caches.inodes.remove(ino);
            assert_eq!(caches.inodes.get(ino), None);
            model.inodes.remove(&ino);
        }
    }
}

fn read_page(caches: &Caches, key: PageKey) {
    let expected = byte(key.ino << 48 ^ key.index);
    if let Some(page) = caches.pages.get(key) {
        assert_eq!(page[5], expected, "{key:?}");
    } else if let Entry::New(mut page) = caches.pages.get_or_insert(key) {
        page.fill(expected);
        assert_eq!(caches.pages.complete(page)[5], expected);
    }
}

/// Runs random actions on caches with `tables`: with room for all entries, and with room for few.
fn check_model(tables: Tables) {
    let mut runner = TestRunner::new(Config {
        cases: 6,
        failure_persistence: None,
        ..Config::default()
    });
    let actions = proptest::collection::vec(action(), 1..250);
    let outcome = runner.run(&actions, |actions| {
        for (budget_bytes, is_all) in [(8 << 20, true), (400 << 10, false)] {
            let caches = caches(budget_bytes, tables);
            let mut model = Model::default();
            for action in actions.clone() {
                perform(&caches, &mut model, action, is_all);
            }
            caches.check_invariants();
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{tables}: {error}"));
}

/// With the smallest sizes, the table of long names has one or two buckets.
const SIZES: [u32; 4] = [0, 1, 8, 13];

#[test]
fn every_function_of_every_size_finds_its_entries() {
    for (at, function) in Function::ALL.iter().enumerate() {
        let size = |cache: usize| TableSize::Bits(SIZES[(at + cache) % SIZES.len()]);
        for (number, cache) in CacheKind::ALL.into_iter().enumerate() {
            if !function.caches().contains(&cache) {
                continue;
            }
            let choice = TableChoice {
                function: Some(*function),
                size: size(number),
            };
            let mut tables = Tables::LARDER;
            match cache {
                CacheKind::Page => tables.page = Pages::Hashed(choice),
                CacheKind::Buffer => tables.buffer = choice,
                CacheKind::Dentry => tables.dentry = choice,
                CacheKind::Inode => tables.inode = choice,
            }
            check_model(tables);
        }
    }
}

#[test]
fn every_combination_of_tables_finds_its_entries() {
    for (_, tables) in Tables::NAMED {
        for shrinking in [Shrinking::Normal, Shrinking::Eager] {
            check_model(Tables {
                shrinking,
                ..tables
            });
        }
    }
    for text in [
        "page=rbtree",
        "page=rbtree+shrink=eager",
        "A+sizes=2.2.16",
        "D+sizes=today",
        "larder+iget=all",
        "reference+iget=all+shrink=eager",
    ] {
        check_model(text.parse().unwrap());
    }
}

#[test]
fn tables_have_the_requested_sizes_and_functions() {
    let buckets = |caches: &Caches| {
        [
            caches.pages.stats().buckets,
            caches.buffers.stats().buckets,
            caches.dentries.stats().buckets,
            caches.inodes.stats().buckets,
        ]
    };
    // The table of names of 40 bytes or more has an eighth as many buckets.
    let dentry = |buckets: u64| buckets + buckets / 8;
    for (text, expected) in [
        ("reference", [2048, 32768, dentry(1024), 256]),
        ("A", [8192, 16384, dentry(8192), 2048]),
        (
            "D+page=page-offset/16+inode=mult/14",
            [65536, 16384, dentry(8192), 16384],
        ),
        ("A+page=rbtree", [0, 16384, dentry(8192), 2048]),
        ("D+sizes=2.2.16", [16384, 32768, dentry(1024), 256]),
        ("D+sizes=today", [16384, 16384, dentry(8192), 4096]),
    ] {
        let caches = caches(64 << 20, text.parse().unwrap());
        assert_eq!(buckets(&caches), expected, "{text}");
    }
    let chosen = caches(8 << 20, "B+page=rbtree".parse().unwrap());
    assert_eq!(chosen.pages.stats().finder, Finder::RedBlackTrees);
    assert_eq!(
        chosen.buffers.stats().finder,
        Finder::Function(Function::BufferSteiner)
    );
    assert_eq!(
        chosen.dentries.stats().finder,
        Finder::Function(Function::DentryAdd)
    );
    assert_eq!(
        chosen.inodes.stats().finder,
        Finder::Function(Function::InodeModified)
    );
    let larder = caches(8 << 20, Tables::LARDER);
    assert_eq!(larder.dentries.stats().finder, Finder::Larder);
}

#[test]
fn names_are_in_the_buckets_of_the_published_function() {
    use larder_cache::hash::HashKey;
    use larder_cache::table::HashFunction as _;
    const BITS: u32 = 10;
    let caches = caches(8 << 20, Tables::REFERENCE);
    let mut lengths = vec![0; 1 << BITS];
    for number in 0..3000u32 {
        let (parent, name) = (2 + number % 7, format!("file{number}.c"));
        caches
            .dentries
            .insert(parent, name.as_bytes(), Dentry::Negative);
        let key = HashKey {
            object: parent.into(),
            index: larder_cache::dentry::name_hash(name.as_bytes()).into(),
        };
        lengths[Function::DentryReference.bucket(key, BITS) as usize] += 1;
    }
    let histogram = caches.dentries.report().histogram;
    assert_eq!(
        histogram.longest_chain(),
        lengths.iter().copied().max().unwrap()
    );
    let empty = lengths.iter().filter(|length| **length == 0).count() as u64;
    // All buckets of the table of long names are empty.
    assert_eq!(histogram.rows().next().unwrap().1, empty + (1 << BITS) / 8);
}

#[test]
fn tables_of_more_than_half_the_budget_are_refused() {
    let device = Arc::new(MemoryDevice::new(vec![0; 1 << 20]));
    let tables = "A+page=mult/20".parse().unwrap();
    let refused = Caches::<20>::new(&config(4 << 20, tables), device).map(|_| ());
    let Err(error @ Error::Tables { .. }) = refused else {
        panic!("{refused:?}")
    };
    assert!(error.to_string().contains("fewer buckets"), "{error}");
}

fn size() -> impl Strategy<Value = TableSize> {
    prop_oneof![
        Just(TableSize::Larder),
        Just(TableSize::Linux2_2_16),
        Just(TableSize::LinuxToday),
        (0..=16u32).prop_map(TableSize::Bits),
    ]
}

proptest! {
    #[test]
    fn budget_includes_tables_of_any_size(
        budget_bytes in (2u64 << 20)..(1 << 36), page in size(), buffer in size(),
        dentry in size(), inode in size(), is_tree in any::<bool>(),
        inode_lookups in prop::sample::select(vec![InodeLookups::All, InodeLookups::AfterDentryMisses])
    ) {
        let of_size = |size| TableChoice { function: None, size };
        let page = if is_tree { Pages::RedBlackTrees } else { Pages::Hashed(of_size(page)) };
        let tables = Tables {
            page,
            buffer: of_size(buffer),
            dentry: of_size(dentry),
            inode: of_size(inode),
            inode_lookups,
            ..Tables::LARDER
        };
        let division = Division::new(&config(budget_bytes, tables), InodeCache::<20>::SLOT_BYTES);
        let frames = u64::from(division.frames.frames);
        let frame_bytes = division.frames.frame_bytes as u64;
        let node_bytes = if is_tree { 12 } else { 0 };
        let first_chunks = 3 * frame_bytes;
        // References to inodes take 4 bytes for each slot, whose number is rounded down to a power of two.
        let references = match inode_lookups {
            InodeLookups::All => 0,
            InodeLookups::AfterDentryMisses => 4 << division.inodes.slots.ilog2(),
        };
        let total = frames * (frame_bytes + 32 + node_bytes)
            + division.heads_bytes()
            + first_chunks
            + references;
        prop_assert!(total <= budget_bytes, "{total} bytes of {budget_bytes}");
        prop_assert!(total * 10 > budget_bytes * 9, "only {total} bytes of {budget_bytes}");
    }
}

/// The reads after the caches were filled by a walk of a directory tree.
#[derive(Clone, Copy)]
enum Reading {
    /// Each page once.
    Once,
    /// Each page twice.
    Again,
}

/// Fills the dentry and inode caches, and then reads more pages than there is room for. Returns the
/// numbers of dentries, inodes and frames, before the reads and after.
fn read_after_a_walk(tables: Tables, reading: Reading) -> [[u64; 3]; 2] {
    let caches = caches(4 << 20, tables);
    let held = || {
        [
            caches.dentries.stats().objects,
            caches.inodes.stats().objects,
            u64::from(caches.pages.frames().capacity()),
        ]
    };
    for ino in 1..=20_000 {
        let name = format!("{ino}");
        caches.dentries.insert(2, name.as_bytes(), dentry(1));
        caches.inodes.insert(ino, &[7; 20]);
    }
    caches.dentries.insert(2, b"in use", dentry(1));
    let before = held();
    for index in 0..3000 {
        read_page(&caches, PageKey { ino: 12, index });
        if matches!(reading, Reading::Again) {
            read_page(&caches, PageKey { ino: 12, index });
            let in_use = caches.dentries.get(2, b"in use");
            assert_eq!(in_use, Some(dentry(1)), "at page {index}");
        }
    }
    caches.check_invariants();
    [before, held()]
}

#[test]
fn memory_of_names_and_inodes_is_returned_for_pages_in_use() {
    let [before, after] = read_after_a_walk(Tables::LARDER, Reading::Again);
    assert!(
        after[0] < before[0] && after[1] < before[1],
        "{before:?}, {after:?}"
    );
    assert!(after[2] > before[2], "frames: {before:?}, {after:?}");
    // The number of frames grows at most by what the other caches gave back: a frame for 64 dentries or
    // 23 inodes, with a partial frame rounded up.
    let given = (before[0] - after[0]).div_ceil(64) + (before[1] - after[1]).div_ceil(23);
    assert!(after[2] - before[2] <= given, "{before:?}, {after:?}");
}

#[test]
fn inodes_are_looked_up_in_the_table_only_after_dentry_misses() {
    let caches = caches(8 << 20, Tables::REFERENCE);
    let inodes = &caches.inodes;
    // The lookups in the table, those of them that hit, and the hits by a reference.
    let lookups = || {
        let (stats, of_table) = (inodes.stats(), inodes.report().counts);
        assert_eq!(stats.searches(), of_table);
        assert_eq!(stats.lookups, of_table.lookups() + stats.by_reference);
        assert_eq!(stats.hits, of_table.hits + stats.by_reference);
        (of_table.lookups(), of_table.hits, stats.by_reference)
    };
    let words = [7; 20];
    inodes.insert(12, &words);
    assert_eq!(inodes.get(12), Some(words));
    assert_eq!(lookups(), (0, 0, 1));
    inodes.dentry_missed(12);
    for by_reference in [1, 2] {
        assert_eq!(inodes.get(12), Some(words));
        assert_eq!(lookups(), (1, 1, by_reference));
    }
    inodes.insert(12, &[8; 20]);
    assert_eq!(inodes.get(12), Some([8; 20]));
    assert_eq!(lookups(), (1, 1, 3));
    // The reference is stale when the slot has another inode.
    inodes.remove(12);
    inodes.insert(13, &words);
    assert_eq!(inodes.get(12), None);
    assert_eq!(lookups(), (2, 1, 3));
    assert_eq!(inodes.get(13), Some(words));
}

#[test]
fn inodes_that_share_a_reference_are_found() {
    let caches = caches(8 << 20, Tables::LARDER);
    let numbers = [5, 5 + (1 << 30)];
    for ino in numbers {
        caches.inodes.insert(ino, &[ino.into(); 20]);
    }
    for ino in numbers.into_iter().cycle().take(6) {
        assert_eq!(caches.inodes.get(ino), Some([ino.into(); 20]));
    }
}

#[test]
fn eager_shrinking_leaves_fewer_dentries_than_normal() {
    let [normal, eager] = [Shrinking::Normal, Shrinking::Eager].map(|shrinking| {
        let tables = Tables {
            shrinking,
            ..Tables::REFERENCE
        };
        read_after_a_walk(tables, Reading::Once)
    });
    assert_eq!(normal[0], eager[0], "the walk is the same");
    assert_eq!(
        normal[0], normal[1],
        "pages that are read once evict no dentries"
    );
    assert!(eager[1][0] * 2 < eager[0][0], "{eager:?}");
    assert!(eager[1][2] > normal[1][2], "{eager:?}, {normal:?}");
}
