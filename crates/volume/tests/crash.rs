//! Power cuts at every write of seeded workloads: see [`larder_testkit::crash`].
//!
//! Each layout has two runs. The wide run checks six states of each of sixty workloads. It finds defects that
//! need a rare operation, but show in most states after that operation. The deep run checks some hundred
//! states of one workload. It finds defects that show only in rare states. The device of these runs is in
//! memory. Some states of one more workload are also checked on files, with each back end, and in memory with requests
//! that complete out of order.
//!
//! With `LARDER_CRASH=full` (`make crash`), the deep run cuts the power at every write, with more
//! reorderings, and continues with further workloads until it has checked 12,500 states.
//!
//! A failure prints the seed and the smallest sequence that fails. If `LARDER_SEED` is set to that
//! seed, a test runs only this workload.

use larder::{FileKind, XattrMode};
use larder_testkit::crash::{Cuts, Layout, Plan, Start, Tally, layout, report};
use larder_testkit::model::Model;
use larder_testkit::operation::{
    Generator, Mix, NewNode, NodePath, Operation, Owned, Slot, Target,
};
use larder_testkit::{Medium, Random, Requirement, Seed, skip, test_layouts};

const OPERATIONS: usize = 500;
const MIX: Mix = Mix {
    max_nodes: 60,
    max_bytes: 1 << 20,
    syncs_one_in: 6,
    shares_one_in: 0,
    reopens: false,
    far: true,
};

const SHARING: Mix = Mix {
    max_nodes: 40,
    ..MIX.sharing()
};

/// A few states of many workloads.
const WIDE: Plan = Plan {
    cuts: Cuts::Spread(3),
    reorderings: 1,
    check_every: 1,
    replay_every: 0,
    again_every: 0,
};

/// The number of workloads of the wide run on each layout. A rare operation occurs in one of 10 to
/// 100 workloads.
const BREADTH: usize = 60;

/// Some hundred states of one workload.
const SHORT: Plan = Plan {
    cuts: Cuts::Every(2),
    reorderings: 2,
    check_every: 4,
    replay_every: 40,
    again_every: 40,
};

/// Cuts after every change of the device.
const FULL: Plan = Plan {
    cuts: Cuts::Every(1),
    reorderings: 3,
    check_every: 1,
    replay_every: 8,
    again_every: 8,
};

/// Cuts after every change of the device, with all checks in every state. For a short sequence.
const EVERYTHING: Plan = Plan {
    cuts: Cuts::Every(1),
    reorderings: 3,
    check_every: 1,
    replay_every: 1,
    again_every: 1,
};

/// The minimum number of states that the full run checks on each layout.
const FULL_STATES: usize = 12_500;

/// Checks the states after power cuts: a wide run of `breadth` workloads, then a deep run. `make`
/// creates the workloads from seeds, and `begin` creates the file system for the layout.
fn survive(
    name: &str,
    seed: u64,
    breadth: usize,
    begin: impl Fn(&Layout) -> Result<Start, String>,
    make: impl Fn(Seed, &Model) -> Vec<Operation>,
) {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let layout = layout(name).unwrap_or_else(|| panic!("no layout {name}"));
    let start = begin(layout).unwrap_or_else(|what| panic!("{name}: {what}"));
    let look = |start: &Start, plan: &Plan, seed: Seed, total: &mut Tally| match report(
        start,
        &make(seed, &start.model),
        plan,
        seed,
    ) {
        Ok(tally) => total.add(&tally),
        Err(what) => panic!("{what}"),
    };
    let mut total = Tally::default();
    for seed in Seed::parts_from_environment(seed).take(breadth) {
        look(&start, &WIDE, seed, &mut total);
    }
    println!("{name}: {breadth} workloads, {total:?}");

    let seed_of_media = Seed::from_environment(seed);
    for medium in Medium::others(seed_of_media) {
        let mut total = Tally::default();
        look(&start.on(medium), &WIDE, seed_of_media, &mut total);
        println!("{name}, {medium}: {total:?}");
        assert!(total.requests > 0, "the back end performed no request");
    }

    let is_full = std::env::var("LARDER_CRASH").is_ok_and(|value| value == "full");
    let plan = if is_full { FULL } else { SHORT };
    let mut total = Tally::default();
    let mut workloads = 0;
    for seed in Seed::parts_from_environment(seed) {
        look(&start, &plan, seed, &mut total);
        workloads += 1;
        if !is_full || total.states >= FULL_STATES {
            break;
        }
    }
    println!("{name}: {workloads} workloads, {total:?}");
    // A workload that writes very little proves nothing.
    assert!(total.states >= 100, "{name}, seed {seed:#x}: {total:?}");
}

fn survive_mix(name: &str, seed: u64, mix: Mix) {
    survive(name, seed, BREADTH, Start::empty, |seed, model| {
        Generator::new(seed, mix).sequence(model, OPERATIONS)
    });
}

test_layouts! {
    survive_mix MIX 0x4000
    0 ext4_survives_power_cuts "ext4"
    1 ext3_1k_survives_power_cuts "ext3-1k"
    2 ext4_1k_no_checksums_survives_power_cuts "ext4-1k-no-checksums"
    3 inline_data_survives_power_cuts "inline-data"
    4 bigalloc_survives_power_cuts "bigalloc"
    5 meta_bg_1k_survives_power_cuts "meta-bg-1k"
    6 inode_128_2k_survives_power_cuts "inode-128-2k"
    7 orphan_file_survives_power_cuts "orphan-file"
    8 small_journal_1k_survives_power_cuts "small-journal-1k"
    9 ea_inode_1k_survives_power_cuts "ea-inode-1k"
}

test_layouts! {
    survive_mix SHARING 0x4100
    0 ext4_shared_attributes_survive_power_cuts "ext4"
    1 ext3_1k_shared_attributes_survive_power_cuts "ext3-1k"
    2 inline_data_shared_attributes_survive_power_cuts "inline-data"
    3 bigalloc_shared_attributes_survive_power_cuts "bigalloc"
    4 ea_inode_1k_shared_attributes_survive_power_cuts "ea-inode-1k"
}

/// Checks all states after power cuts in one sequence of operations.
fn survive_exactly(name: &str, operations: &[Operation]) {
    if skip(&["mke2fs", "e2fsck"].map(Requirement::Tool)) {
        return;
    }
    let layout = layout(name).unwrap_or_else(|| panic!("no layout {name}"));
    let start = Start::empty(layout).unwrap_or_else(|what| panic!("{name}: {what}"));
    let seed = Seed::from_environment(0x4300);
    if let Err(what) = report(&start, operations, &EVERYTHING, seed) {
        panic!("{what}");
    }
}

fn path(names: &str) -> NodePath {
    NodePath(
        names
            .split('/')
            .map(|name| name.as_bytes().to_vec())
            .collect(),
    )
}

fn make(at: &NodePath, node: NewNode) -> Operation {
    Operation::Make {
        at: at.clone(),
        node,
        owned: Owned {
            permissions: 0o755,
            uid: 0,
            gid: 0,
        },
    }
}

#[test]
fn copy_within_a_file_past_its_end_survives_power_cuts() {
    let at = path("a");
    let file = Target::Path(at.clone());
    let operations = [
        make(&at, NewNode::File),
        Operation::Write {
            file: file.clone(),
            offset_bytes: 0,
            len_bytes: 1630,
        },
        // At this offset, only 287 bytes remain in the file.
        Operation::Copy {
            from: file.clone(),
            from_bytes: 1343,
            to: file,
            to_bytes: 61_876,
            len_bytes: 1148,
        },
        Operation::Sync,
    ];
    for name in ["ext3-1k", "bigalloc", "inline-data", "ext4"] {
        survive_exactly(name, &operations);
    }
}

/// Sets an attribute that is allowed on a file of any type.
fn set_attribute(at: &NodePath, name: &[u8], len: usize) -> Operation {
    Operation::SetXattr {
        file: Target::Path(at.clone()),
        name: [b"trusted.", name].concat(),
        value: vec![b's'; len],
        mode: XattrMode::Any,
    }
}

fn remove_attribute(at: &NodePath, name: &[u8]) -> Operation {
    Operation::RemoveXattr {
        file: Target::Path(at.clone()),
        name: [b"trusted.", name].concat(),
    }
}

/// The blocks of a value inode count in the `i_blocks` of the symbolic link. Because of this count, e2fsck
/// reads a target in `i_block` as block numbers, unless the link has an attribute block.
#[test]
fn short_link_with_a_value_in_an_inode_survives_power_cuts() {
    for len in [1, 5, 59] {
        let at = path("link");
        let operations = [
            make(&at, NewNode::Symlink(vec![b'y'; len])),
            set_attribute(&at, b"in-an-inode", 900),
            Operation::Sync,
            // The first attribute fits in the inode. The second needs the attribute block.
            set_attribute(&at, b"small", 10),
            set_attribute(&at, b"in-the-block", 600),
            Operation::Sync,
            // Only the attribute with the value inode stays in the block.
            remove_attribute(&at, b"in-the-block"),
            Operation::Sync,
            set_attribute(&at, b"in-an-inode", 2000),
            Operation::Sync,
            remove_attribute(&at, b"in-an-inode"),
            remove_attribute(&at, b"small"),
            set_attribute(&at, b"in-an-inode", 900),
            Operation::Sync,
            Operation::Open {
                at: at.clone(),
                slot: Slot(0),
            },
            Operation::Unlink { at },
            Operation::Sync,
            Operation::Close { slot: Slot(0) },
            Operation::Sync,
        ];
        survive_exactly("ea-inode-1k", &operations);
    }
}

/// Files of all types, with attributes in each possible place. Space that attributes take must not be read as
/// content.
#[test]
fn files_of_all_types_with_attributes_survive_power_cuts() {
    let link = |len| NewNode::Symlink(vec![b'y'; len]);
    let nodes = [
        link(1),
        link(4),
        link(59),
        link(60),
        link(900),
        NewNode::File,
        NewNode::Directory,
        NewNode::Device(FileKind::CharDevice, 1, 3),
        NewNode::Device(FileKind::BlockDevice, 300, 70_000),
        NewNode::Special(FileKind::Fifo),
        NewNode::Special(FileKind::Socket),
    ];
    for name in ["ea-inode-1k", "ext3-1k", "inline-data", "bigalloc"] {
        let numbered = || {
            (0..)
                .map(|number: u32| path(&number.to_string()))
                .zip(&nodes)
        };
        let mut operations: Vec<_> = numbered()
            .map(|(at, node)| make(&at, node.clone()))
            .collect();
        // The values are stored in a value inode (if the layout has them), in the attribute block,
        // and in the inode.
        for len in [1100, 300, 10] {
            let name = format!("{len}");
            operations.extend(numbered().map(|(at, _)| set_attribute(&at, name.as_bytes(), len)));
            operations.push(Operation::Sync);
        }
        for len in [300, 10, 1100] {
            let name = format!("{len}");
            operations.extend(numbered().map(|(at, _)| remove_attribute(&at, name.as_bytes())));
            operations.push(Operation::Sync);
        }
        survive_exactly(name, &operations);
    }
}

/// The number of files that share an attribute block. Four more can share it.
const CROWD: u64 = 1020;

/// The number of operations on a crowd. It is small because more than a thousand files are compared
/// in each state.
const CROWD_OPERATIONS: u64 = 120;

fn member(number: u64) -> NodePath {
    path(&number.to_string())
}

/// Creates a file with the attributes of the crowd.
fn join(number: u64) -> [Operation; 2] {
    [make(&member(number), NewNode::File), set(number, b'v')]
}

fn set(number: u64, letter: u8) -> Operation {
    Operation::SetXattr {
        file: Target::Path(member(number)),
        name: b"user.crowd".to_vec(),
        value: vec![letter; 300],
        mode: XattrMode::Any,
    }
}

/// Returns operations in which files join a crowd and leave it. The crowd's block reaches the
/// maximum number of users, and a second block gains and loses users.
fn join_and_leave(seed: Seed) -> Vec<Operation> {
    let mut random = Random::new(seed);
    let mut made = CROWD;
    let mut operations = Vec::new();
    for step in 0..CROWD_OPERATIONS {
        let number = random.below(made);
        match random.below(8) {
            0..=2 => operations.push(set(number, b'v')),
            3 => operations.push(set(number, b'w')),
            4 => operations.push(Operation::RemoveXattr {
                file: Target::Path(member(number)),
                name: b"user.crowd".to_vec(),
            }),
            5 if step > 10 => operations.push(Operation::Unlink { at: member(number) }),
            6 => operations.push(Operation::Sync),
            _ => {
                operations.extend(join(made));
                made += 1;
            }
        }
    }
    operations
}

fn survive_crowd(name: &str, seed: u64) {
    let crowd: Vec<_> = (0..CROWD).flat_map(join).collect();
    let begin = |layout: &Layout| Start::after(layout, &crowd);
    survive(name, seed, 0, begin, |seed, _| join_and_leave(seed));
}

#[test]
fn ext4_block_with_all_its_users_survives_power_cuts() {
    survive_crowd("ext4", 0x4200);
}

#[test]
fn ea_inode_1k_block_with_all_its_users_survives_power_cuts() {
    survive_crowd("ea-inode-1k", 0x4201);
}

/// The slot of the open file that has no name.
const SLOT: Slot = Slot(0);

/// Returns operations in which files with much content are replaced by new ones. Some of the replaced files have
/// another name, and others do not.
fn replace_files(seed: Seed) -> Vec<Operation> {
    let mut random = Random::new(seed);
    let owned = Owned {
        permissions: 0o640,
        uid: 7,
        gid: 8,
    };
    let mut operations = Vec::new();
    for step in 0..60 {
        let to = member(random.below(4));
        operations.extend([
            Operation::MakeUnnamed {
                parent: NodePath::default(),
                slot: SLOT,
                owned,
            },
            Operation::Write {
                file: Target::Open(SLOT),
                offset_bytes: random.below(2) * 70_000,
                len_bytes: u32::try_from(random.below(200_000)).unwrap_or(0),
            },
            Operation::SetXattr {
                file: Target::Open(SLOT),
                name: b"user.step".to_vec(),
                value: vec![b'x'; usize::try_from(random.below(200)).unwrap_or(0)],
                mode: XattrMode::Any,
            },
            Operation::LinkReplacing {
                from: Target::Open(SLOT),
                to: to.clone(),
            },
            Operation::Close { slot: SLOT },
        ]);
        match random.below(4) {
            0 => operations.push(Operation::Sync),
            1 => operations.push(Operation::Link {
                from: Target::Path(to),
                to: NodePath::default().join(format!("also-{step}").as_bytes()),
            }),
            // Replaces a name of a file that also has other names.
            2 => operations.push(Operation::LinkReplacing {
                from: Target::Path(to),
                to: member(random.below(4)),
            }),
            _ => {}
        }
    }
    operations
}

fn survive_replacing(name: &str, seed: u64) {
    survive(name, seed, BREADTH, Start::empty, |seed, _| {
        replace_files(seed)
    });
}

#[test]
fn ext4_files_that_replace_others_survive_power_cuts() {
    survive_replacing("ext4", 0x4300);
}

#[test]
fn orphan_file_files_that_replace_others_survive_power_cuts() {
    survive_replacing("orphan-file", 0x4301);
}

#[test]
fn inline_data_files_that_replace_others_survive_power_cuts() {
    survive_replacing("inline-data", 0x4302);
}
