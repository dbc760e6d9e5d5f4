use super::*;
use crate::protocol::abi::{
    Dirent, IoctlIn, LinkIn, MkdirIn, MknodIn, ReadIn, Rename2In, SetAttrIn, SetXattrIn, opcode,
};
use crate::protocol::handshake::{Chosen, Offer};
use larder::{ErrorsMode, OpenOptions, Volume};
use larder_testkit::device::{GatedDevice, Stopped};
use larder_testkit::e2fsprogs::{make_image_of, new_image, on_file, superblock};
use larder_testkit::{Requirement, skip};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use zerocopy::{FromBytes, IntoBytes};

/// The number of files: enough for many directory blocks and inode blocks.
const FILES: usize = 2000;

fn name_of(file: usize) -> String {
    format!("{file:0>200}")
}

/// Makes an image with [`FILES`] empty files in `folder`.
fn image_of_files(folder: &Path) -> PathBuf {
    let (tree, image) = (folder.join("tree"), folder.join("image"));
    std::fs::create_dir(&tree).unwrap();
    for file in 0..FILES {
        std::fs::write(tree.join(name_of(file)), "").unwrap();
    }
    make_image_of(&tree, &image, "-t ext4 -b 1024", "16M").unwrap();
    image
}

/// Returns the image of [`image_of_files`], or `None` if this test is skipped.
fn bytes_of_image_of_files() -> Option<Vec<u8>> {
    if skip(&["mke2fs", "debugfs"].map(Requirement::Tool)) {
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    Some(std::fs::read(image_of_files(folder.path())).unwrap())
}

fn read_write() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.read_write = true;
    options
}

/// Opens an image with [`FILES`] files in its root, and returns the handler of its requests. Only the
/// metadata that opening reads is in memory.
fn requests(image: &Path) -> (Arc<Volume>, Requests) {
    let volume = Arc::new(Volume::open(image, &read_write()).unwrap());
    (Arc::clone(&volume), handler(volume))
}

/// Opens the image on `device` like [`requests`], without a flusher.
fn requests_on(device: Arc<GatedDevice>, cache_size_bytes: u64) -> (Arc<Volume>, Requests) {
    let mut options = read_write();
    options.background = false;
    options.cache_size_bytes = cache_size_bytes;
    let volume = Arc::new(Volume::open_device(device, &options).unwrap());
    (Arc::clone(&volume), handler(volume))
}

fn handler(volume: Arc<Volume>) -> Requests {
    handler_of_kernel(volume, 0)
}

/// Returns the handler of the requests of a kernel that offers `capabilities`, and collects writes if it can.
fn handler_of_kernel(volume: Arc<Volume>, capabilities: u32) -> Requests {
    let options = MountOptions {
        read_write: true,
        ..MountOptions::default()
    };
    let mut init = [7_u32, 45, 0, capabilities].as_bytes().to_vec();
    init.resize(64, 0);
    let chosen = Chosen {
        write_back: true,
        ..Chosen::default()
    };
    let offer = Offer::parse(&init).unwrap().unwrap();
    let agreement = offer.accept(&options, chosen);
    let null = std::fs::File::open("/dev/null").unwrap();
    let connection = Arc::new(Connection(null.into()));
    let operations = Operations::new(volume, &options);
    Requests::new(operations, Arc::default(), connection, &agreement, &options)
}

fn request(opcode: u32, argument: &[u8]) -> Request<'_> {
    Request::parse(Header::of_root(opcode), argument).unwrap()
}

fn outcome(requests: &Requests, request: &Request<'_>, waiting: Waiting) -> Outcome {
    let mut memory = vec![0; 1 << 20];
    let mut body = Body::new(&mut memory);
    requests.answer(&request.header, Ok(*request), waiting, &mut body)
}

/// Returns the argument of a `SETATTR` that sets the permissions.
fn permissions(mode: u32) -> Vec<u8> {
    let argument = SetAttrIn {
        valid: abi::set::MODE,
        mode,
        ..SetAttrIn::default()
    };
    argument.as_bytes().to_vec()
}

/// Answers a request without waiting. If it would wait, answers it again with waiting allowed. Returns
/// the body, and whether the request would wait.
fn answer(requests: &Requests, request: &Request<'_>) -> (Vec<u8>, bool) {
    let mut memory = vec![0; 1 << 20];
    let mut body = Body::new(&mut memory);
    let mut outcome = requests.answer(&request.header, Ok(*request), Waiting::Refused, &mut body);
    let would_wait = outcome == Outcome::WouldWait;
    if would_wait {
        assert_eq!(body.len(), 0);
        outcome = requests.answer(&request.header, Ok(*request), Waiting::Allowed, &mut body);
    }
    assert_eq!(outcome, Outcome::Reply(Ok(())));
    let len = body.len();
    memory.truncate(len);
    (memory, would_wait)
}

/// Lists the root with `opcode`. Returns the names, and the number of requests that would wait.
fn list(requests: &Requests, opcode: u32, size_bytes: u32) -> (BTreeSet<Vec<u8>>, usize) {
    let (mut names, mut waits) = (BTreeSet::new(), 0);
    let mut offset_bytes = 0;
    loop {
        let read = ReadIn {
            offset_bytes,
            size_bytes,
            ..ReadIn::default()
        };
        let (body, would_wait) = answer(requests, &request(opcode, read.as_bytes()));
        waits += usize::from(would_wait);
        if body.is_empty() {
            return (names, waits);
        }
        let mut rest = &body[..];
        while !rest.is_empty() {
            if opcode == opcode::READDIRPLUS {
                rest = &rest[size_of::<EntryOut>()..];
            }
            let (entry, after) = Dirent::read_from_prefix(rest).unwrap();
            let (name, after) = after.split_at(entry.name_bytes as usize);
            names.insert(name.to_vec());
            offset_bytes = entry.next_cookie;
            rest = &after[name.len().next_multiple_of(8) - name.len()..];
        }
    }
}

#[test]
fn write_to_an_inode_that_is_not_in_memory_would_wait() {
    if skip(&["mke2fs", "debugfs"].map(Requirement::Tool)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = image_of_files(folder.path());
    let (volume, first) = requests(&image);
    let last = volume.lookup(larder::Ino::ROOT, name_of(FILES - 1).as_bytes());
    let node = NodeId::of(last.unwrap());
    first.end();
    drop((volume, first));

    let (_volume, requests) = requests(&image);
    let argument = WriteIn {
        size_bytes: 3,
        ..WriteIn::default()
    };
    let argument = [argument.as_bytes(), b"abc"].concat();
    let mut write = request(opcode::WRITE, &argument);
    write.header.node = node;
    let outcome = |waiting| outcome(&requests, &write, waiting);
    assert_eq!(outcome(Waiting::Refused), Outcome::WouldWait);
    assert_eq!(outcome(Waiting::Allowed), Outcome::Reply(Ok(())));
    assert_eq!(outcome(Waiting::Refused), Outcome::Reply(Ok(())));
    requests.end();
}

#[test]
fn directory_of_which_a_part_is_in_memory_is_listed_completely() {
    if skip(&["mke2fs", "debugfs"].map(Requirement::Tool)) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let image = image_of_files(folder.path());
    for opcode in [opcode::READDIR, opcode::READDIRPLUS] {
        let (volume, requests) = requests(&image);
        // The search reads the blocks of the directory up to this name.
        let name = name_of(FILES / 4) + "\0";
        answer(&requests, &request(opcode::LOOKUP, name.as_bytes()));
        let (names, waits) = list(&requests, opcode, 128 << 10);
        let files = (0..FILES).map(|file| name_of(file).into_bytes());
        let all: BTreeSet<_> = [&b"."[..], b"..", b"lost+found"]
            .map(<[u8]>::to_vec)
            .into_iter()
            .chain(files)
            .collect();
        let missing: Vec<_> = all
            .difference(&names)
            .map(|name| name.escape_ascii().to_string())
            .collect();
        assert!(missing.is_empty(), "{opcode}: {missing:?}");
        assert!(waits > 0);
        let (again, waits) = list(&requests, opcode, 4096);
        assert_eq!((again, waits), (names, 0), "everything is in memory now");

        let mut deleted = Vec::new();
        if opcode == opcode::READDIRPLUS {
            // Each of the two listings has counted one lookup of each file, and nothing else has.
            for file in (0..FILES).filter(|&file| file != FILES / 4) {
                let name = name_of(file).into_bytes();
                let entry = requests.operations.lookup(NodeId::ROOT, &name).unwrap();
                let node = entry.unwrap().node;
                volume.unlink(larder::Ino::ROOT, &name).unwrap();
                requests.operations.forget(node, 1);
                assert!(requests.operations.metadata(node).is_ok(), "{file} in use");
                requests.operations.forget(node, 1);
                deleted.push(node.ino().unwrap());
            }
        }
        // A deletion that would wait is passed to another thread. The drop waits for this thread.
        drop(requests);
        for ino in deleted {
            assert!(volume.metadata(ino).is_err(), "{ino:?} exists");
        }
    }
}

/// Returns the arguments of changes to the root and to the file `node`, whose name is `old`, each with the
/// number of the operation and the node.
fn changes(node: NodeId, old: &str) -> Vec<(u32, NodeId, Vec<u8>)> {
    let mode = 0o100_644;
    let make = MknodIn {
        mode,
        ..MknodIn::default()
    };
    let link = LinkIn { node: node.0 };
    let rename = Rename2In {
        new_parent: NodeId::ROOT.0,
        ..Rename2In::default()
    };
    let xattr = SetXattrIn {
        size_bytes: 1,
        flags: 0,
    };
    // FS_IOC_SETFLAGS, with the flags FS_EXTENT_FL and FS_NODUMP_FL.
    let flags = IoctlIn {
        number: 0x4008_6602,
        in_bytes: 8,
        ..IoctlIn::default()
    };
    let truncation = SetAttrIn {
        valid: abi::set::SIZE,
        size_bytes: 4096,
        ..SetAttrIn::default()
    };
    let root = NodeId::ROOT;
    let old = old.as_bytes();
    vec![
        (opcode::MKNOD, root, [make.as_bytes(), b"new\0"].concat()),
        (
            opcode::MKDIR,
            root,
            [MkdirIn::default().as_bytes(), b"new\0"].concat(),
        ),
        (opcode::SYMLINK, root, b"new\0target\0".to_vec()),
        (opcode::LINK, root, [link.as_bytes(), b"new\0"].concat()),
        (
            opcode::RENAME2,
            root,
            [rename.as_bytes(), old, b"\0new\0"].concat(),
        ),
        (opcode::UNLINK, root, [old, b"\0"].concat()),
        (opcode::RMDIR, root, b"lost+found\0".to_vec()),
        (opcode::SETATTR, node, permissions(mode)),
        (opcode::SETATTR, node, truncation.as_bytes().to_vec()),
        (
            opcode::SETXATTR,
            node,
            [xattr.as_bytes(), b"user.name\0v"].concat(),
        ),
        (
            opcode::IOCTL,
            node,
            [flags.as_bytes(), &0x8_0040_u64.to_ne_bytes()].concat(),
        ),
    ]
}

#[test]
fn change_that_needs_a_block_that_is_not_in_memory_would_wait() {
    let Some(image) = bytes_of_image_of_files() else {
        return;
    };
    let old = name_of(FILES - 1);
    let open = || requests_on(GatedDevice::new(image.clone()), 16 << 20);
    let (volume, requests) = open();
    let node = NodeId::of(volume.lookup(larder::Ino::ROOT, old.as_bytes()).unwrap());
    drop((volume, requests));
    for (opcode, changed, argument) in changes(node, &old) {
        let (volume, requests) = open();
        let mut change = request(opcode, &argument);
        change.header.node = changed;
        let before = volume.statfs();
        let outcome = |waiting| outcome(&requests, &change, waiting);
        assert_eq!(outcome(Waiting::Refused), Outcome::WouldWait, "{opcode}");
        assert_eq!(volume.statfs(), before, "{opcode}");
        assert_eq!(
            outcome(Waiting::Allowed),
            Outcome::Reply(Ok(())),
            "{opcode}"
        );
        // A change of a name fails when it is repeated. The blocks that this reply needs are also in memory.
        let again = outcome(Waiting::Refused);
        assert!(matches!(again, Outcome::Reply(_)), "{opcode}: {again:?}");
        requests.end();
        volume.close().unwrap();
    }
}

#[test]
fn change_of_a_directory_that_a_waiting_change_has_locked_would_wait() {
    let Some(image) = bytes_of_image_of_files() else {
        return;
    };
    let device = GatedDevice::new(image);
    let (volume, requests) = requests_on(Arc::clone(&device), 16 << 20);
    let argument = permissions(0o755);
    let change = request(opcode::SETATTR, &argument);
    let refused = || outcome(&requests, &change, Waiting::Refused);
    answer(&requests, &change);
    assert_eq!(refused(), Outcome::Reply(Ok(())));
    std::thread::scope(|scope| {
        let stopped = device.stop(Stopped::Reads);
        let other = scope.spawn(|| {
            let argument = [MkdirIn::default().as_bytes(), b"new\0"].concat();
            let mkdir = request(opcode::MKDIR, &argument);
            outcome(&requests, &mkdir, Waiting::Allowed)
        });
        stopped.wait_for(1);
        let locked = refused();
        drop(stopped);
        assert_eq!(locked, Outcome::WouldWait);
        assert_eq!(other.join().unwrap(), Outcome::Reply(Ok(())));
    });
    assert_eq!(refused(), Outcome::Reply(Ok(())));
    requests.end();
    volume.close().unwrap();
}

#[test]
fn change_that_does_not_fit_into_the_transaction_would_wait() {
    let Some(image) = bytes_of_image_of_files() else {
        return;
    };
    let device = GatedDevice::new(image);
    let (volume, requests) = requests_on(Arc::clone(&device), 16 << 20);
    let argument = permissions(0o600);
    let changes: Vec<_> = (0..FILES)
        .map(|file| {
            let ino = volume.lookup(larder::Ino::ROOT, name_of(file).as_bytes());
            let mut change = request(opcode::SETATTR, &argument);
            change.header.node = NodeId::of(ino.unwrap());
            requests.operations.metadata(change.header.node).unwrap();
            change
        })
        .collect();
    let stopped = device.stop(Stopped::Writes);
    let refused = |change| outcome(&requests, change, Waiting::Refused);
    assert_eq!(refused(&changes[0]), Outcome::Reply(Ok(())));
    let late = changes
        .iter()
        .find(|change| refused(change) == Outcome::WouldWait);
    drop(stopped);
    let late = late.expect("a transaction has less blocks than the files have");
    assert_eq!(
        outcome(&requests, late, Waiting::Allowed),
        Outcome::Reply(Ok(()))
    );
    assert_eq!(refused(late), Outcome::Reply(Ok(())));
    requests.end();
    volume.close().unwrap();
}

#[test]
fn write_when_too_much_is_dirty_would_wait() {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return;
    }
    let device = GatedDevice::new(new_image("-t ext4", "64M").unwrap());
    let (volume, requests) = requests_on(Arc::clone(&device), 8 << 20);
    let argument = MknodIn {
        mode: 0o100_644,
        ..MknodIn::default()
    };
    let argument = [argument.as_bytes(), b"file\0"].concat();
    answer(&requests, &request(opcode::MKNOD, &argument));
    let node = NodeId::of(volume.lookup(larder::Ino::ROOT, b"file").unwrap());
    let data = vec![7; 64 << 10];
    let write = |number: usize| {
        let argument = WriteIn {
            offset_bytes: (number * data.len()) as u64,
            size_bytes: 64 << 10,
            ..WriteIn::default()
        };
        [argument.as_bytes(), &data].concat()
    };
    let outcome = |number: usize, waiting| {
        let argument = write(number);
        let mut write = request(opcode::WRITE, &argument);
        write.header.node = node;
        outcome(&requests, &write, waiting)
    };
    assert_eq!(outcome(0, Waiting::Allowed), Outcome::Reply(Ok(())));
    let stopped = device.stop(Stopped::Writes);
    assert_eq!(outcome(1, Waiting::Refused), Outcome::Reply(Ok(())));
    let late = (2..500).find(|&number| outcome(number, Waiting::Refused) == Outcome::WouldWait);
    drop(stopped);
    let late = late.expect("the cache has less pages than the file");
    let size = |pages: usize| (pages * data.len()) as u64;
    assert_eq!(
        requests.operations.metadata(node).unwrap().size_bytes,
        size(late)
    );
    assert_eq!(outcome(late, Waiting::Allowed), Outcome::Reply(Ok(())));
    assert_eq!(
        requests.operations.metadata(node).unwrap().size_bytes,
        size(late + 1)
    );
    requests.end();
    volume.close().unwrap();
}

const NEW: NewFile = NewFile {
    permissions: 0o755,
    umask: 0,
    uid: 0,
    gid: 0,
};

#[test]
fn write_that_reads_only_after_its_first_page_would_wait() {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return;
    }
    let device = GatedDevice::new(new_image("-t ext4", "64M").unwrap());
    let open = || requests_on(Arc::clone(&device), 16 << 20);
    let (volume, _) = open();
    let ino = volume.create(larder::Ino::ROOT, b"file", &NEW).unwrap().ino;
    volume.write_at(ino, &[1; 3 * 4096], 0).unwrap();
    volume.close().unwrap();
    drop(volume);

    let (volume, requests) = open();
    let outcome = |offset_bytes: u64, len: u32, waiting| {
        let argument = WriteIn {
            offset_bytes,
            size_bytes: len,
            ..WriteIn::default()
        };
        let argument = [argument.as_bytes(), &vec![2; len as usize]].concat();
        let mut write = request(opcode::WRITE, &argument);
        write.header.node = NodeId::of(ino);
        outcome(&requests, &write, waiting)
    };
    assert_eq!(outcome(0, 4096, Waiting::Allowed), Outcome::Reply(Ok(())));
    assert_eq!(outcome(96, 4000, Waiting::Refused), Outcome::Reply(Ok(())));
    assert_eq!(outcome(96, 8192, Waiting::Refused), Outcome::WouldWait);
    requests.end();
    volume.close().unwrap();
}

#[test]
fn write_past_the_end_that_changes_the_last_block_would_wait() {
    if skip(&[Requirement::Tool("mke2fs")]) {
        return;
    }
    let device = GatedDevice::new(new_image("-t ext4", "64M").unwrap());
    let (volume, requests) = requests_on(device, 16 << 20);
    let ino = volume.create(larder::Ino::ROOT, b"file", &NEW).unwrap().ino;
    volume.write_at(ino, &[1; 100], 0).unwrap();
    let outcome = |offset_bytes: u64, waiting| {
        let argument = WriteIn {
            offset_bytes,
            size_bytes: 4096,
            ..WriteIn::default()
        };
        let argument = [argument.as_bytes(), &[2; 4096]].concat();
        let mut write = request(opcode::WRITE, &argument);
        write.header.node = NodeId::of(ino);
        outcome(&requests, &write, waiting)
    };
    assert_eq!(outcome(8192, Waiting::Refused), Outcome::WouldWait);
    assert_eq!(volume.metadata(ino).unwrap().size_bytes, 100);
    assert_eq!(outcome(8192, Waiting::Allowed), Outcome::Reply(Ok(())));
    // Now the end is at the end of a block.
    assert_eq!(outcome(16384, Waiting::Refused), Outcome::Reply(Ok(())));
    requests.end();
    volume.close().unwrap();
}

#[test]
fn damage_that_is_found_without_waiting_is_recorded_on_the_device() {
    if skip(&["mke2fs", "dumpe2fs"].map(Requirement::Tool)) {
        return;
    }
    let device = GatedDevice::new(new_image("-t ext4 -O ^metadata_csum", "64M").unwrap());
    let (volume, _) = requests_on(Arc::clone(&device), 16 << 20);
    let directory = volume.make_dir(larder::Ino::ROOT, b"directory", &NEW);
    let directory = directory.unwrap().ino;
    let name = b"name-in-the-damaged-directory";
    volume.create(directory, name, &NEW).unwrap();
    volume.close().unwrap();
    drop(volume);
    let mut image = device.to_bytes();
    let is_entry = |at: &usize| image[*at..].starts_with(name);
    let entries: Vec<_> = (0..image.len()).filter(is_entry).collect();
    for at in entries {
        // The length of the entry.
        image[at - 4..at - 2].copy_from_slice(&[3, 0]);
    }

    for errors in [ErrorsMode::Continue, ErrorsMode::RemountReadOnly] {
        let device = GatedDevice::new(image.clone());
        let mut options = read_write();
        options.background = false;
        options.errors = Some(errors);
        let volume = Volume::open_device(Arc::clone(&device) as _, &options).unwrap();
        let volume = Arc::new(volume);
        let requests = handler(Arc::clone(&volume));
        let make = MknodIn {
            mode: 0o100_644,
            ..MknodIn::default()
        };
        let make = [make.as_bytes(), b"new\0"].concat();
        let mut make = request(opcode::MKNOD, &make);
        answer(&requests, &make);
        make.header.node = NodeId::of(directory);
        let mut lookup = request(opcode::LOOKUP, b"new\0");
        lookup.header.node = make.header.node;
        let damaged = Outcome::Reply(Err(Errno::UCLEAN));
        // The lookup brings the directory into memory, and changes nothing.
        assert_eq!(outcome(&requests, &lookup, Waiting::Allowed), damaged);
        assert_eq!(outcome(&requests, &make, Waiting::Refused), damaged);
        requests.end();
        let _ = volume.close();
        let superblock = on_file(&device.to_bytes(), superblock).unwrap();
        let count = superblock
            .lines()
            .find(|line| line.starts_with("FS Error count"));
        assert!(
            count.is_some_and(|count| count.ends_with(" 1")),
            "{superblock}"
        );
        assert!(
            superblock.contains("Last error function:      change"),
            "{superblock}"
        );
    }
}

#[test]
fn directory_is_opened_without_waiting_and_read_again_after_a_write() {
    /// `FUSE_WRITEBACK_CACHE` and `FUSE_NO_OPENDIR_SUPPORT`.
    const CAPABILITIES: u32 = 1 << 16 | 1 << 24;
    let kept = abi::OPEN_CACHE_DIR | abi::OPEN_KEEP_CACHE;
    if skip(&[Requirement::Tool("mke2fs")]) {
        return;
    }
    let device = GatedDevice::new(new_image("-t ext4", "8M").unwrap());
    let (volume, _) = requests_on(device, 16 << 20);
    let requests = handler_of_kernel(Arc::clone(&volume), CAPABILITIES);
    let flags = || {
        let (body, would_wait) = answer(&requests, &request(opcode::OPENDIR, &[]));
        assert!(!would_wait);
        OpenOut::read_from_bytes(&body).unwrap().flags
    };
    assert_eq!(flags(), kept);
    list(&requests, opcode::READDIRPLUS, 4096);
    assert_eq!(flags(), kept);

    let file = volume.create(larder::Ino::ROOT, b"file", &NEW).unwrap();
    let argument = WriteIn {
        size_bytes: 3,
        ..WriteIn::default()
    };
    let argument = [argument.as_bytes(), b"abc"].concat();
    let mut write = request(opcode::WRITE, &argument);
    write.header.node = NodeId::of(file.ino);
    answer(&requests, &write);
    assert_eq!(flags(), abi::OPEN_CACHE_DIR);
    assert_eq!(flags(), kept);

    let without = handler_of_kernel(Arc::clone(&volume), 1 << 24);
    let open = request(opcode::OPENDIR, &[]);
    assert_eq!(
        outcome(&without, &open, Waiting::Refused),
        Outcome::Reply(Err(Errno::NOSYS))
    );
    requests.end();
    volume.close().unwrap();
}
