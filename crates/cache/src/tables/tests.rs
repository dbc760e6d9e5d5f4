//! Tests of the named sets of tables, and of the conversion of tables to text and back.

use super::*;
use crate::tape::CacheKind;
use proptest::prelude::*;

fn parsed(text: &str) -> Tables {
    text.parse()
        .unwrap_or_else(|error: UnknownTables| panic!("{text}: {error}"))
}

/// Compares the tables of each kernel with section 4 of Lever 2000, in the order of the paper: buffer, page,
/// inode, dentry.
#[test]
fn named_tables_match_the_paper() {
    let kernels = [
        (
            "reference",
            [
                "buffer-reference 32768",
                "page-reference 2048",
                "inode-reference 256",
                "dentry-reference 1024",
            ],
        ),
        (
            "A",
            [
                "buffer-mult-11 16384",
                "page-mult 8192",
                "inode-modified 2048",
                "dentry-add 8192",
            ],
        ),
        (
            "B",
            [
                "buffer-steiner 16384",
                "page-mult 8192",
                "inode-modified 2048",
                "dentry-add 8192",
            ],
        ),
        (
            "C",
            [
                "buffer-mult-11 16384",
                "page-reference 8192",
                "inode-modified 2048",
                "dentry-add 8192",
            ],
        ),
        (
            "D",
            [
                "buffer-mult-11 16384",
                "page-offset 8192",
                "inode-modified 2048",
                "dentry-add 8192",
            ],
        ),
    ];
    for (name, expected) in kernels {
        let tables = parsed(name);
        let order = [
            CacheKind::Buffer,
            CacheKind::Page,
            CacheKind::Inode,
            CacheKind::Dentry,
        ];
        let found = order.map(|cache| {
            let TableChoice { function, size } = tables.table(cache).unwrap();
            let TableSize::Bits(bits) = size else {
                panic!("{size}")
            };
            format!("{} {}", function.unwrap(), 1 << bits)
        });
        assert_eq!(found, expected, "{name}");
        assert_eq!(tables.shrinking, Shrinking::Normal, "{name}");
    }
}

#[test]
fn part_changes_only_its_setting() {
    for (text, expected) in [
        ("", "unknown tables ''"),
        ("larder", "larder"),
        ("shrink=normal", "larder"),
        ("iget=misses", "larder"),
        ("D+iget=all", "D+iget=all"),
        (
            "iget=none",
            "unknown iget value 'none'; available: misses, all",
        ),
        (
            "reference+page=reference/11+buffer=reference/15+dentry=reference/10+inode=reference/8",
            "reference",
        ),
        ("A+buffer=steiner", "A+buffer=buffer-steiner/14"),
        ("D+page=rbtree", "D+page=rbtree"),
        ("+page=rbtree", "larder+page=rbtree"),
        ("D+dentry=larder/larder", "D+dentry=larder/larder"),
        (
            "page=rbtree+shrink=eager",
            "larder+page=rbtree+shrink=eager",
        ),
        ("A+page=rbtree+page=mult/13", "A"),
        ("dentry=mult-17", "larder+dentry=dentry-mult-17/larder"),
        ("dentry=larder/12", "larder+dentry=larder/12"),
        (
            "sizes=today",
            "larder+page=larder/today+buffer=larder/today+dentry=larder/today+inode=larder/today",
        ),
        (
            "page=rbtree+sizes=2.2.16+inode=larder/larder",
            "larder+page=rbtree+buffer=larder/2.2.16+dentry=larder/2.2.16",
        ),
    ] {
        let shown = match text.parse::<Tables>() {
            Ok(tables) => tables.to_string(),
            Err(error) => error.to_string(),
        };
        assert!(
            shown == expected || text.is_empty() && shown.starts_with(expected),
            "{text}: {shown}"
        );
    }
}

#[test]
fn unknown_function_lists_those_of_its_cache_and_suggests_the_nearest() {
    let error = "dentry=mlt-11".parse::<Tables>().unwrap_err().to_string();
    let expected = "\
dentry: unknown hash function 'mlt-11'; did you mean dentry-mult-11? Available:
  dentry dentry-reference[-64], dentry-add[-64], dentry-mult-11[-64],
         dentry-mult-17[-64]
  any    golden, hash-32, hash-64, murmur3-32, murmur3-64, xxh3-avalanche,
         xxh3-rrmxmx, lowbias32, splitmix64, moremur, table-driven[-64],
         crc32c, tabulation
  or     larder, the default";
    assert_eq!(error, expected, "\n{error}");
}

#[test]
fn errors_list_alternatives() {
    for (text, named) in [
        (
            "E",
            vec!["unknown tables 'E'", "larder", "reference", "A", "D"],
        ),
        (
            "A+pages=mult",
            vec!["'pages=mult'", "page=", "inode=", "sizes=", "shrink="],
        ),
        ("A+eager", vec!["'eager'", "shrink="]),
        (
            "page=steiner",
            vec![
                "page",
                "'steiner'",
                "page-mult",
                "golden",
                "rbtree",
                "larder",
            ],
        ),
        ("inode=rbtree", vec!["inode", "'rbtree'", "inode-modified"]),
        ("page=rbtree/14", vec!["rbtree", "no size"]),
        ("inode=mult/25", vec!["'25'", "24", "2.2.16", "today"]),
        ("inode=mult/", vec!["''", "2.2.16"]),
        (
            "sizes=14",
            vec!["unknown size rule '14'", "2.2.16", "today"],
        ),
        (
            "shrink=gently",
            vec!["unknown shrink mode 'gently'", "normal", "eager"],
        ),
    ] {
        let error = text.parse::<Tables>().unwrap_err().to_string();
        for part in named {
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}

fn choice(cache: CacheKind) -> impl Strategy<Value = TableChoice> {
    let of_cache = Function::ALL
        .iter()
        .copied()
        .filter(move |one| one.caches().contains(&cache));
    let functions: Vec<Option<Function>> = of_cache.map(Some).chain([None]).collect();
    let size = prop_oneof![
        (0..=TableSize::MAX_BITS).prop_map(TableSize::Bits),
        proptest::sample::select(TableSize::RULES.map(|(_, rule)| rule).to_vec()),
    ];
    (proptest::sample::select(functions), size)
        .prop_map(|(function, size)| TableChoice { function, size })
}

proptest! {
    #[test]
    fn tables_printed_and_parsed_are_unchanged(
        (_, named) in proptest::sample::select(Tables::NAMED.to_vec()),
        page in prop_oneof![
            choice(CacheKind::Page).prop_map(Pages::Hashed),
            Just(Pages::RedBlackTrees),
        ],
        buffer in choice(CacheKind::Buffer),
        dentry in choice(CacheKind::Dentry),
        inode in choice(CacheKind::Inode),
        shrinking in proptest::sample::select(vec![Shrinking::Normal, Shrinking::Eager]),
    ) {
        let tables = Tables { page, buffer, dentry, inode, shrinking, ..named };
        prop_assert_eq!(tables.to_string().parse(), Ok(tables));
        prop_assert_eq!(Tables::try_from(String::from(tables)), Ok(tables));
    }
}

#[test]
fn size_rules_match_the_kernels_boot_messages() {
    let bits = |rule: TableSize, cache, mebibytes: u64| {
        rule.bits(
            cache,
            Memory {
                bytes: mebibytes << 20,
                own_bits: 3,
            },
        )
    };
    // "64 megabytes of RAM translate to 16384 buckets".
    assert_eq!(bits(TableSize::Linux2_2_16, CacheKind::Page, 64), 14);
    assert_eq!(bits(TableSize::Linux2_2_16, CacheKind::Inode, 64), 8);
    // With 2 GiB: "Dentry cache hash table entries: 262144", "Inode-cache hash table entries:
    // 131072".
    assert_eq!(bits(TableSize::LinuxToday, CacheKind::Dentry, 2048), 18);
    assert_eq!(bits(TableSize::LinuxToday, CacheKind::Inode, 2048), 17);
    // The number of buckets is rounded up to a power of two.
    assert_eq!(bits(TableSize::LinuxToday, CacheKind::Inode, 2049), 18);
    assert_eq!(bits(TableSize::Larder, CacheKind::Inode, 2048), 3);
    assert_eq!(bits(TableSize::LinuxToday, CacheKind::Page, 0), 0);
    assert_eq!(
        bits(TableSize::LinuxToday, CacheKind::Page, u64::MAX >> 20),
        TableSize::MAX_BITS
    );
}
