//! Random operations on an [`Fs`], compared with the same operations of `std::fs` on a kernel mount of
//! the same image: the results, the kinds of errors, and all files at the end. Then e2fsck checks the
//! image.

mod image;
mod kernel;
mod listing;
mod side;

use kernel::Kernel;
use larder::{Errno, FileKind, Fs, OpenOptions, XattrMode};
use larder_testkit::{
    Access, Comparison, DirectorySource, Fields, LoopMount, Requirement, VolumeSource, compare,
    e2fsprogs, proptest_config, skip,
};
use listing::Listing;
use proptest::prelude::*;
use rustix::fs::Mode;
use side::Side;
use std::fmt::Debug;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

/// The paths on which operations work. The last ones are unusual.
const PATHS: &[&str] = &[
    "a",
    "b",
    "c",
    "a/b",
    "a/c",
    "b/a",
    "b/c",
    "c/a",
    "c/b",
    "a/b/c",
    "a/c/b",
    "b/a/c",
    "c/a/b",
    "a/b/c/a",
    "d",
    "d/a",
    "a/",
    "b/",
    "c/a/",
    "./a",
    "a/.",
    "b/..",
    "a/../b",
    "../a",
    "a//b",
    ".",
    "..",
    "a/b/../c/",
    LONG,
];

/// A name of 256 bytes, which is too long by one byte.
const LONG: &str = "LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL\
    LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL\
    LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL\
    LLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLLL";

/// The targets of symbolic links. They are relative: on the kernel's mount, an absolute target would
/// lead to the files of the host.
const TARGETS: &[&str] = &[
    "a", "b", "../a", "../b/c", "c", "c/", "a/b/", "missing", ".", "d/a",
];

const MODES: &[u16] = &[0o644, 0o600, 0o4755, 0o2755, 0o1777, 0];

/// The names of extended attributes.
const NAMES: &[&str] = &[
    "user.a",
    "user.b",
    "user.",
    "trusted.c",
    "security.d",
    "gnu.e",
    "system.f",
    "unknown.g",
];

const XATTR_MODES: [XattrMode; 4] = [
    XattrMode::Any,
    XattrMode::Any,
    XattrMode::Create,
    XattrMode::Replace,
];

/// The number of open files.
const FILES: usize = 3;

/// The number of open listings.
const LISTINGS: usize = 2;

/// The number of names in the directory [`MANY`] at the start of a test with many names. It exceeds the number of names
/// that a listing reads at a time.
const MANY_NAMES: u16 = 300;
const MANY: &str = "d";

/// The number of kinds of operations.
const KINDS: u8 = 48;

/// An operation, as random bytes: the kind, and numbers that select its arguments.
type Operation = [u8; 6];

/// Returns a result in the form in which both sides are compared.
fn shown<T: Debug>(result: io::Result<T>) -> String {
    match result {
        Ok(value) => format!("{value:?}"),
        Err(error) => format!("error {:?}", error.kind()),
    }
}

/// Returns a result like [`shown`], but with the errno of an error instead of its kind.
fn shown_with_errno<T: Debug>(result: io::Result<T>) -> String {
    let Err(error) = &result else {
        return shown(result);
    };
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
    let errno = inner.map(larder::Error::errno);
    format!("error {:?}", errno.or_else(|| Errno::from_io_error(error)))
}

fn sorted<T: Ord>(result: io::Result<Vec<T>>) -> io::Result<Vec<T>> {
    let mut items = result?;
    items.sort_unstable();
    Ok(items)
}

fn chosen<T: Copy>(items: &[T], number: u8) -> T {
    items[usize::from(number) % items.len()]
}

/// The open files of a side.
type Files<S> = [Option<<S as Side>::File>; FILES];

/// Performs an operation and returns its result.
fn perform<S: Side>(side: &S, files: &mut Files<S>, operation: Operation) -> String {
    let [what, one, two, number, amount, follow] = operation;
    let (path, other) = (chosen(PATHS, one), chosen(PATHS, two));
    let content = vec![number; usize::from(amount) * 37];
    let slot = usize::from(number) % FILES;
    let name = chosen(NAMES, number);
    let follow = follow % 2 == 0;
    match what % KINDS {
        0..=2 => shown(side.create_dir(path)),
        3 => shown(side.create_dir_all(path)),
        4..=6 => shown(side.write(path, &content)),
        7 => shown(side.read(path)),
        8 => shown(side.read_to_string(path)),
        9 => shown(side.facts(path, true)),
        10 => shown(side.facts(path, false)),
        11 => shown(side.exists(path)),
        12 => shown(side.entries(path).map(|mut entries| {
            entries.sort_by(|a, b| a.0.cmp(&b.0));
            entries
        })),
        13 => shown(sorted(side.walk(path))),
        14 => shown(side.remove_file(path)),
        15 => shown(side.remove_dir(path)),
        // If the path of a directory does not end in a name, the standard library empties the directory before it
        // fails.
        16 if !path.contains('.') && !path.ends_with('/') => shown(side.remove_dir_all(path)),
        17 | 18 => shown(side.rename(path, other)),
        19 | 20 => shown(side.hard_link(path, other)),
        21 | 22 => shown(side.symlink(chosen(TARGETS, two), path)),
        23 => shown(side.read_link(path)),
        24 => shown(side.set_permissions(path, chosen(MODES, number))),
        25 => shown(side.chown(path, amount.into(), number % 2 == 0)),
        26 => shown(side.copy(path, other)),
        27 => shown(side.set_modified(path, amount.into(), follow)),
        28 if two % 2 == 0 => shown_with_errno(sorted(side.xattrs(path, follow))),
        28 => shown_with_errno(side.xattr(path, name, follow)),
        29 => {
            let value = &content[..content.len().min(900)];
            let mode = chosen(&XATTR_MODES, two);
            shown_with_errno(side.set_xattr(path, name, value, mode, follow))
        }
        30 => shown_with_errno(side.remove_xattr(path, name, follow)),
        31 | 32 => open_file(side, &mut files[slot], path, amount),
        used @ 33..=42 => match &mut files[slot] {
            Some(file) => use_file(side, file, used, [one, two], &content),
            None => String::new(),
        },
        43 => shown(side.write(&one_of_many(one), &content)),
        44 => shown(side.remove_file(&one_of_many(one))),
        45 => shown(side.rename(&one_of_many(one), &one_of_many(two))),
        // These are performed on both sides at once.
        _ => String::new(),
    }
}

/// Opens the file at `path`, and replaces the open file in `slot`.
fn open_file<S: Side>(side: &S, slot: &mut Option<S::File>, path: &str, options: u8) -> String {
    let opened = side.open(path, options);
    let is_directory = (opened.as_ref())
        .is_ok_and(|file| side.file_facts(file).unwrap().kind == FileKind::Directory);
    if is_directory {
        // Only the kernel opens directories as files.
        return shown::<()>(Err(io::ErrorKind::IsADirectory.into()));
    }
    match opened {
        Ok(file) => {
            *slot = Some(file);
            "opened".to_owned()
        }
        Err(error) => shown::<()>(Err(error)),
    }
}

/// Returns the path of a file in [`MANY`], which may exist or not. The names are so long that the directory has many
/// blocks.
fn one_of_many(number: impl Into<u16>) -> String {
    let number: u16 = number.into();
    format!("{MANY}/{number:0>60}")
}

/// Performs an operation on an open file.
fn use_file<S: Side>(
    side: &S,
    file: &mut S::File,
    what: u8,
    numbers: [u8; 2],
    content: &[u8],
) -> String {
    let mut buf = vec![0; content.len()];
    let at = content.len() as u64 / 2;
    match what {
        33 => shown(file.write_all(content)),
        34 => {
            let read = file.read(&mut buf);
            shown(read.map(|len| (len, buf)))
        }
        35 => {
            let read = file.read_at(&mut buf, at);
            shown(read.map(|len| (len, buf)))
        }
        36 => shown(file.write_all_at(content, at)),
        37 => shown(side.set_len(file, at)),
        38 => {
            let back = -i64::try_from(at).unwrap();
            let seek = match content.len() % 3 {
                0 => SeekFrom::Start(at),
                1 => SeekFrom::End(back),
                _ => SeekFrom::Current(back / 2),
            };
            shown(file.seek(seek))
        }
        39 => {
            let changed = side.set_file_permissions(file, chosen(MODES, numbers[0]));
            shown(changed.and_then(|()| side.file_facts(file)))
        }
        40 => {
            // A time that is not set stays as it is.
            let [accessed, modified] =
                numbers.map(|number| (number % 4 > 0).then_some(u64::from(number)));
            let changed = side.set_file_times(file, accessed, modified);
            shown(changed.and_then(|times| Ok((times, side.file_facts(file)?))))
        }
        _ => {
            let synced = side.sync(file, what == 41);
            shown(synced.and_then(|()| side.file_facts(file)))
        }
    }
}

/// The open listings of both sides.
type Listings = [Option<Listing>; LISTINGS];

/// Performs an operation on a listing of both sides, and notes what another operation has changed.
fn use_listings(
    kernel: &Kernel,
    image: &Fs,
    listings: &mut Listings,
    operation: Operation,
) -> Result<(), TestCaseError> {
    let [what, one, two, number, amount, _] = operation;
    listings
        .iter_mut()
        .flatten()
        .for_each(Listing::note_changes);
    let slot = &mut listings[usize::from(number) % LISTINGS];
    match (what % KINDS, slot) {
        (46, slot) => {
            if let Some(listing) = slot.take() {
                listing.end()?;
            }
            let path = if two % 2 == 0 {
                MANY
            } else {
                chosen(PATHS, one)
            };
            *slot = Listing::begin(kernel, image, path)?;
        }
        (47, Some(listing)) => listing.read(amount.into())?,
        _ => {}
    }
    Ok(())
}

/// Performs the operations on both sides of an image that mke2fs makes with `arguments`. At the start, the directory
/// [`MANY`] has `names` names.
fn compare_sides(
    arguments: &str,
    names: u16,
    operations: &[Operation],
) -> Result<(), TestCaseError> {
    let failed = |error: &dyn std::fmt::Display| TestCaseError::fail(error.to_string());
    let dir = tempfile::tempdir().map_err(|error| failed(&error))?;
    let [ours, theirs] = ["larder.img", "kernel.img"].map(|name| dir.path().join(name));
    e2fsprogs::make_image(&ours, arguments, "16M").map_err(|error| failed(&error))?;
    fs::copy(&ours, &theirs).map_err(|error| failed(&error))?;
    let mount = LoopMount::new(&theirs, Access::ReadWrite, &[]).map_err(|error| failed(&error))?;
    let kernel = Kernel(mount.path());
    let options = OpenOptions::new()
        .read_write(true)
        .cache_size_bytes(4 << 20);
    let image = options.open(&ours).map_err(|error| failed(&error))?;
    if names > 0 {
        make_names(&kernel, names).map_err(|error| failed(&error))?;
        make_names(&image, names).map_err(|error| failed(&error))?;
    }
    let (mut kernel_files, mut image_files) = (<Files<Kernel>>::default(), <Files<Fs>>::default());
    let mut listings = Listings::default();
    for (number, &operation) in operations.iter().enumerate() {
        let expected = perform(&kernel, &mut kernel_files, operation);
        let result = perform(&image, &mut image_files, operation);
        let [what, one, two, ..] = operation;
        let (path, other) = (chosen(PATHS, one), chosen(PATHS, two));
        prop_assert_eq!(
            result,
            expected,
            "operation {}: kind {}, {:?} {:?}: {:?}",
            number,
            what % KINDS,
            path,
            other,
            operation
        );
        use_listings(&kernel, &image, &mut listings, operation)?;
    }
    for listing in listings.into_iter().flatten() {
        listing.end()?;
    }
    let comparison = Comparison {
        fields: Fields::ATTRIBUTES,
        closed: &[],
    };
    let directory = DirectorySource::new("kernel", &mount.path());
    let report = compare(&directory, &VolumeSource::new(image.volume()), &comparison);
    prop_assert_eq!(report.difference_count, 0, "{}", report);
    drop((kernel_files, image_files));
    image.close().map_err(|error| failed(&error))?;
    drop(image);
    e2fsprogs::check(&ours).map_err(|error| failed(&error))
}

fn make_names<S: Side>(side: &S, names: u16) -> io::Result<()> {
    side.create_dir(MANY)?;
    (0..names).try_for_each(|number| side.write(&one_of_many(number), b""))
}

fn cannot_mount() -> bool {
    // New files of the kernel have the umask of the process.
    rustix::process::umask(Mode::from_raw_mode(0o022));
    skip(&[
        Requirement::Tool("mke2fs"),
        Requirement::Tool("e2fsck"),
        Requirement::LoopMount,
    ])
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    prop::collection::vec(any::<Operation>(), 1..160)
}

proptest! {
    #![proptest_config(proptest_config!(0x4000, cases: 32))]

    #[test]
    fn ext4_equals_std_fs_on_a_mount(operations in operations()) {
        if !cannot_mount() {
            compare_sides("-t ext4 -b 4096 -N 2048", 0, &operations)?;
        }
    }

    #[test]
    fn ext2_equals_std_fs_on_a_mount(operations in operations()) {
        if !cannot_mount() {
            compare_sides("-t ext2 -b 1024 -I 128", 0, &operations)?;
        }
    }

    #[test]
    fn inline_data_equals_std_fs_on_a_mount(operations in operations()) {
        if !cannot_mount() {
            compare_sides("-t ext4 -b 4096 -N 2048 -O inline_data", 0, &operations)?;
        }
    }

    #[test]
    fn directory_of_many_names_equals_std_fs_on_a_mount(operations in operations()) {
        if !cannot_mount() {
            compare_sides("-t ext4 -b 1024 -N 2048", MANY_NAMES, &operations)?;
        }
    }
}
