//! Compares the trees with those of the standard library, and tests their balance.

use super::red_black::{Nodes, Side};
use super::*;
use crate::page::PageIndex as _;
use crate::table::Growth;
use proptest::prelude::*;
use std::collections::BTreeMap;

const NODES: u32 = 64;

/// A change of a tree whose nodes are in the order of their numbers.
#[derive(Clone, Copy, Debug)]
enum Change {
    Insert(u32),
    Remove(u32),
}

fn change() -> impl Strategy<Value = Change> {
    let node = 0..NODES;
    prop_oneof![
        3 => node.clone().prop_map(Change::Insert),
        2 => node.prop_map(Change::Remove),
    ]
}

fn place(nodes: &Nodes, root: Option<u32>, node: u32) -> Option<(u32, Side)> {
    let mut at = root;
    let mut under = None;
    while let Some(other) = at {
        let side = if node < other {
            Side::Left
        } else {
            Side::Right
        };
        under = Some((other, side));
        at = nodes.child(other, side);
    }
    under
}

fn in_order(nodes: &Nodes, root: Option<u32>) -> Vec<u32> {
    let mut found = Vec::new();
    nodes.check(root, &mut |node| found.push(node));
    found
}

proptest! {
    #[test]
    fn tree_stays_balanced_and_in_order_after_any_change(
        changes in proptest::collection::vec(change(), 1..400)
    ) {
        let nodes = Nodes::new(NODES).unwrap();
        let mut tree = nodes.tree(None);
        let mut model = std::collections::BTreeSet::new();
        for change in changes {
            match change {
                Change::Insert(node) if model.insert(node) => {
                    tree.insert(node, place(&nodes, tree.root, node));
                }
                Change::Remove(node) if model.remove(&node) => tree.remove(node),
                _ => {}
            }
            let expected: Vec<u32> = model.iter().copied().collect();
            prop_assert_eq!(in_order(&nodes, tree.root), expected);
            (0..NODES).for_each(|node| assert_eq!(nodes.is_linked(node), model.contains(&node)));
        }
    }
}

#[test]
fn node_that_replaces_another_takes_its_place() {
    // First the even numbers are inserted. Then each of them is replaced by the next odd number.
    for replaced in (0..NODES).step_by(2) {
        let nodes = Nodes::new(NODES).unwrap();
        let mut tree = nodes.tree(None);
        for node in (0..NODES).step_by(2) {
            tree.insert(node, place(&nodes, tree.root, node));
        }
        tree.replace(replaced, replaced + 1);
        let mut expected: Vec<u32> = (0..NODES).step_by(2).collect();
        expected[replaced as usize / 2] += 1;
        assert_eq!(in_order(&nodes, tree.root), expected);
        assert!(!nodes.is_linked(replaced));
    }
}

fn trees(frames: u32, bits: u32) -> PageTrees {
    let arena = Arc::new(Arena::new(frames, Growth::Prepaid).unwrap());
    PageTrees::new(arena, bits).unwrap()
}

fn insert(trees: &PageTrees, key: PageKey) {
    let vacant = trees.arena.take_free().expect("a free slot");
    let inserted = trees.get_or_insert(&key, vacant, 0, |_| {});
    assert!(matches!(inserted, Inserted::New(_)));
}

#[test]
fn pages_in_a_row_are_found_within_the_height_of_the_tree() {
    const PAGES: u32 = 4096;
    let trees = trees(PAGES, 4);
    let key = |index: u32| PageKey {
        ino: 12,
        index: index.into(),
    };
    (0..PAGES).for_each(|index| insert(&trees, key(index)));
    trees.check_invariants();
    (0..PAGES).for_each(|index| assert!(matches!(trees.get(&key(index)), Some(Found::Pinned(..)))));
    let counts = trees.counts();
    assert_eq!(counts.hits, PAGES.into());
    // In a perfect tree, a lookup takes 11 links on average. The height of a red-black tree is at most 2 * 12.
    let links = counts.links_on_hits / counts.hits;
    assert!((11..=14).contains(&links), "{links} links a hit");
}

#[test]
fn depths_equal_the_links_that_lookups_walk() {
    // There are more pages than one part of a measurement examines, gaps between indexes, and several trees
    // in a chain.
    let trees = trees(4000, 1);
    let sizes = [1u64, 2, 513, 2049];
    for (ino, pages) in (1..).zip(sizes) {
        (0..pages).for_each(|page| {
            let index = page * 3 + ino;
            insert(&trees, PageKey { ino, index });
        });
    }
    let mut expected = Vec::new();
    for (ino, pages) in (1..).zip(sizes) {
        for index in (0..pages).map(|page| page * 3 + ino) {
            let (found, links) = trees.walk(&PageKey { ino, index }, |_, _| Visit::Found(()));
            assert!(found.is_some());
            expected.resize(expected.len().max(usize::try_from(links).unwrap()), 0);
            expected[usize::try_from(links).unwrap() - 1] += 1;
        }
    }
    let depths = trees.depths();
    assert_eq!(depths.pages, expected);
    assert_eq!((depths.trees, depths.largest), (4, 2049));
    assert_eq!(depths.objects(), sizes.iter().sum());
    assert_eq!(depths.deepest(), expected.len() as u64);
}

#[test]
fn evicted_page_not_yet_unlinked_is_replaced() {
    let trees = trees(8, 0);
    let key = PageKey { ino: 12, index: 7 };
    insert(&trees, PageKey { index: 8, ..key });
    insert(&trees, key);
    // The hand evicts both pages. The page of `key` is inserted again after the hand has claimed it, and before
    // the hand unlinks it.
    trees.arena.scan(2, |index, _| {
        let slot_key = PageLayout::hash_input_in(trees.arena.slot(index));
        if slot_key == key {
            assert!(trees.get(&key).is_none(), "an evicted page is not found");
            insert(&trees, key);
        }
        trees.unlink(index);
    });
    trees.check_invariants();
    assert_eq!(trees.objects(), 1);
    assert!(matches!(trees.get(&key), Some(Found::Pinned(..))));
}

#[derive(Clone, Copy, Debug)]
enum Use {
    Insert(PageKey),
    Get(PageKey),
    Remove(PageKey),
    Evict(u32),
}

fn any_use() -> impl Strategy<Value = Use> {
    // There are few inodes, and fewer chains, so that chains have several trees.
    let key = || (1u64..6, 0u64..12).prop_map(|(ino, index)| PageKey { ino, index });
    prop_oneof![
        4 => key().prop_map(Use::Insert),
        3 => key().prop_map(Use::Get),
        2 => key().prop_map(Use::Remove),
        1 => (1u32..5).prop_map(Use::Evict),
    ]
}

proptest! {
    #[test]
    fn trees_agree_with_map(uses in proptest::collection::vec(any_use(), 1..300)) {
        let trees = trees(60, 1);
        let mut model: BTreeMap<PageKey, u64> = BTreeMap::new();
        for (number, action) in (1..).zip(uses) {
            match action {
                Use::Insert(key) => {
                    let Some(vacant) = trees.arena.take_free() else { continue };
                    // The half word of the slot has the number of the insertion.
                    let fill = |slot: &Slot<PAGE_WORDS>| slot.set_aux(number);
                    match trees.get_or_insert(&key, vacant, 0, fill) {
                        Inserted::New(_) => {
                            prop_assert_eq!(model.insert(key, number.into()), None);
                        }
                        Inserted::Existing(_) => prop_assert!(model.contains_key(&key)),
                    }
                }
                Use::Get(key) => {
                    let found = trees.get(&key).map(|found| match found {
                        Found::Pinned(pin, _) => u64::from(pin.slot().aux()),
                        other => panic!("{other:?}"),
                    });
                    prop_assert_eq!(found, model.get(&key).copied());
                    prop_assert_eq!(trees.contains(&key), found.is_some());
                }
                Use::Remove(key) => {
                    prop_assert_eq!(trees.remove_entry(&key).is_some(), model.remove(&key).is_some());
                }
                Use::Evict(count) => {
                    trees.arena.scan(count, |index, _| {
                        let key = PageLayout::hash_input_in(trees.arena.slot(index));
                        assert!(model.remove(&key).is_some(), "{key:?} was not in the model");
                        trees.unlink(index);
                    });
                }
            }
            trees.check_invariants();
            prop_assert_eq!(trees.objects(), model.len() as u64);
        }
    }
}
