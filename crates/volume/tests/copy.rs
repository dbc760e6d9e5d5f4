//! Copies of trees between an image and the host.

mod opened;

use larder::fs::copy::{CopyError, CopyIn, Observer, Rules};
use larder::{Errno, Error, FileKind, Fs, Ino, NewFile, OpenOptions};
use larder_testkit::{e2fsprogs, report_skipped};
use opened::{opened, opened_with, tools_are_missing};
use rustix::fs::{
    AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags, lgetxattr, llistxattr,
    lsetxattr, mknodat, utimensat,
};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const ACCESS_LIST: &str = "system.posix_acl_access";
const DEFAULT_LIST: &str = "system.posix_acl_default";

/// An access control list with an entry for user 1234.
const LIST: [u8; 44] = {
    let mut list = [0; 44];
    list[0] = 2;
    let entries = [(1, 7), (2, 7), (4, 5), (0x10, 7), (0x20, 5)];
    let mut number = 0;
    while number < entries.len() {
        let at = 4 + 8 * number;
        list[at] = entries[number].0;
        list[at + 2] = entries[number].1;
        list[at + 4] = 0xff;
        list[at + 5] = 0xff;
        list[at + 6] = 0xff;
        list[at + 7] = 0xff;
        number += 1;
    }
    [list[16], list[17], list[18], list[19]] = 1234_u32.to_le_bytes();
    list
};

/// Continues after errors, and records them.
#[derive(Debug, Default)]
struct Recorder {
    errors: Vec<String>,
    copied_bytes: u64,
}

impl Observer for Recorder {
    fn copied(&mut self, len_bytes: u64) {
        self.copied_bytes += len_bytes;
    }

    fn failed(&mut self, path: &Path, error: CopyError) -> ControlFlow<()> {
        self.errors.push(format!("{}: {error}", path.display()));
        ControlFlow::Continue(())
    }
}

/// Returns the paths of `root` and of all files below it, in order.
fn paths(root: &Path) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    let mut at = 0;
    while let Some(path) = found.get(at) {
        if path.symlink_metadata().unwrap().is_dir() {
            let entries = fs::read_dir(path).unwrap();
            found.extend(entries.map(|entry| entry.unwrap().path()));
        }
        at += 1;
    }
    found.sort();
    found
}

/// Makes a tree with each kind of file that needs no privileges.
fn make_tree(root: &Path) {
    fs::create_dir_all(root.join("sub/deeper")).unwrap();
    fs::write(root.join("file"), "content").unwrap();
    fs::hard_link(root.join("file"), root.join("sub/same")).unwrap();
    symlink("../file", root.join("sub/link")).unwrap();
    let sparse = fs::File::create(root.join("sub/deeper/sparse")).unwrap();
    sparse.write_all_at(b"end", 3 << 20).unwrap();
    sparse.set_len(4 << 20).unwrap();
    for (name, kind) in [("fifo", FileType::Fifo), ("socket", FileType::Socket)] {
        let mode = Mode::from_raw_mode(0o600);
        mknodat(CWD, root.join(name), kind, mode, 0).unwrap();
    }
    for name in ["file", "sub"] {
        let flags = XattrFlags::empty();
        if lsetxattr(root.join(name), "user.tag", b"value", flags).is_err() {
            report_skipped("the host's file system has no user.* attributes");
        }
    }
    for (name, mode) in [("file", 0o4750), ("sub", 0o2750), ("fifo", 0o642)] {
        fs::set_permissions(root.join(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    for path in paths(root) {
        let times = Timestamps {
            // An access time in the future is not changed by reading.
            last_access: Timespec {
                tv_sec: 4_000_000_000,
                tv_nsec: 7,
            },
            last_modification: Timespec {
                tv_sec: 1_000_000,
                tv_nsec: 5,
            },
        };
        utimensat(CWD, &path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
    }
}

/// Returns a description of `root` and of each file below it.
fn described(root: &Path) -> Vec<String> {
    let describe = |path: &PathBuf| {
        let metadata = fs::symlink_metadata(path).unwrap();
        let kind = metadata.file_type();
        let content = if kind.is_symlink() {
            fs::read_link(path).unwrap().display().to_string()
        } else if kind.is_file() {
            let content = fs::read(path).unwrap();
            let nonzero: Vec<_> = content.iter().filter(|byte| **byte != 0).collect();
            format!("{} {nonzero:?}", content.len())
        } else {
            String::new()
        };
        format!(
            "{} {:o} {}:{} {} {:?} {:?} {:?} {content}",
            path.strip_prefix(root).unwrap().display(),
            metadata.mode(),
            metadata.uid(),
            metadata.gid(),
            if kind.is_dir() { 0 } else { metadata.nlink() },
            metadata.accessed().unwrap(),
            metadata.modified().unwrap(),
            attributes(path),
        )
    };
    paths(root).iter().map(describe).collect()
}

/// Returns the names and the values of the extended attributes of a file.
fn attributes(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut names = [0; 4096];
    let len = llistxattr(path, &mut names[..]).unwrap_or(0);
    let names = names[..len].split(|&byte| byte == 0);
    let mut found: Vec<_> = names
        .filter(|name| !name.is_empty())
        .map(|name| {
            let mut value = vec![0; 4096];
            let len = lgetxattr(path, OsStr::from_bytes(name), &mut value[..]).unwrap();
            value.truncate(len);
            (String::from_utf8(name.to_vec()).unwrap(), value)
        })
        .collect();
    found.sort();
    found
}

#[test]
fn tree_that_is_copied_in_and_out_is_the_same() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let (fs, dir) = (&opened.fs, opened.dir.path());
    let (source, copy) = (dir.join("source"), dir.join("copy"));
    make_tree(&source);
    let expected = described(&source);
    fs.copy_in(&source, "/tree").unwrap();
    let sparse = fs.metadata("/tree/sub/deeper/sparse").unwrap();
    assert_eq!(sparse.size_bytes, 4 << 20);
    assert!(sparse.blocks_512 <= 64, "{sparse:?}");
    assert_eq!(fs.metadata("/tree/file").unwrap().links, 2);

    fs.copy_out("/tree", &copy).unwrap();
    assert_eq!(described(&copy), expected);
    // A second copy replaces each file.
    fs.copy_in(&source, "/tree").unwrap();
    fs.copy_out("/tree", &copy).unwrap();
    assert_eq!(described(&copy), expected);

    // Single files, and links themselves.
    fs.copy_in(source.join("file"), "/one").unwrap();
    assert_eq!(fs.read("/one").unwrap(), b"content");
    fs.copy_out("/tree/sub/link", dir.join("link")).unwrap();
    assert_eq!(
        fs::read_link(dir.join("link")).unwrap(),
        Path::new("../file")
    );
    opened.check();
}

#[test]
fn copy_out_does_not_follow_links_below_the_destination() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let (fs, dir) = (&opened.fs, opened.dir.path());
    let (outside, target) = (dir.join("outside"), dir.join("target"));
    fs::create_dir_all(&outside).unwrap();
    fs::create_dir_all(&target).unwrap();
    fs::write(outside.join("file"), "unchanged").unwrap();
    symlink(&outside, target.join("dir")).unwrap();
    symlink(outside.join("file"), target.join("file")).unwrap();
    fs.create_dir_all("/with-dir/dir").unwrap();
    fs.write("/with-dir/dir/new", "").unwrap();
    let error = fs.copy_out("/with-dir", &target).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotADirectory);
    fs.create_dir("/with-file").unwrap();
    fs.write("/with-file/file", "new").unwrap();
    fs.copy_out("/with-file", &target).unwrap();
    assert_eq!(fs::read(target.join("file")).unwrap(), b"new");
    assert_eq!(fs::read(outside.join("file")).unwrap(), b"unchanged");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    opened.check();
}

#[test]
fn set_id_bits_are_dropped_if_an_owner_is_not_set() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let (fs, dir) = (&opened.fs, opened.dir.path());
    let here = fs::metadata(dir).unwrap();
    let (uid, gid) = (here.uid(), here.gid());
    // chown(2) does not set this ID, and succeeds.
    let none = u32::MAX;
    for (name, uid, gid, mode) in [
        ("both", uid, gid, 0o6755),
        ("user", none, gid, 0o755),
        ("group", uid, none, 0o755),
        ("neither", none, none, 0o755),
    ] {
        let path = Path::new("/").join(name);
        fs.write(&path, "").unwrap();
        fs.chown(&path, Some(uid), Some(gid)).unwrap();
        fs.set_permissions(&path, 0o6755).unwrap();
        fs.copy_out(&path, dir.join(name)).unwrap();
        let copy = fs::metadata(dir.join(name)).unwrap();
        assert_eq!(copy.mode() & 0o7777, mode, "{name}");
    }
    opened.check();
}

#[test]
fn existing_file_is_kept_if_the_copy_fails() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let (image, target) = (opened.image(), opened.dir.path().join("target"));
    fs::create_dir(&target).unwrap();
    opened.fs.write("/file", "new").unwrap();
    opened.fs.close().unwrap();
    drop(opened.fs);
    // The content has no valid map of extents.
    e2fsprogs::debugfs_write(&image, &["set_inode_field /file block[0] 0"]).unwrap();
    let fs = larder::open(&image).unwrap();
    for existing in ["old", ""] {
        let file = target.join("file");
        if !existing.is_empty() {
            fs::write(&file, existing).unwrap();
        }
        let error = fs.copy_out("/file", &file).unwrap_err();
        assert!(error.to_string().starts_with("/file: "), "{error}");
        assert_eq!(fs::read(&file).unwrap(), b"old");
        assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
    }
}

#[test]
fn special_file_is_replaced_only_by_one_of_its_type() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let (fs, dir) = (&opened.fs, opened.dir.path());
    fs.create_dir("/tree").unwrap();
    fs.write("/tree/name", "content").unwrap();
    let target = dir.join("target");
    fs::create_dir(&target).unwrap();
    let (name, mode) = (target.join("name"), Mode::from_raw_mode(0o600));
    mknodat(CWD, &name, FileType::Fifo, mode, 0).unwrap();
    for (from, to) in [("/tree", &target), ("/tree/name", &name)] {
        let error = fs.copy_out(from, to).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
        assert!(error.to_string().starts_with("/tree/name: "), "{error}");
        assert!(name.symlink_metadata().unwrap().file_type().is_fifo());
        assert_eq!(fs::read_dir(&target).unwrap().count(), 1);
    }
    opened.check();
}

#[test]
fn refused_copy_has_an_errno() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let (fs, dir) = (&opened.fs, opened.dir.path());
    for name in ["file", "tree/name"] {
        fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        fs::write(dir.join(name), "").unwrap();
        fs.create_dir_all(Path::new("/image").join(name)).unwrap();
    }
    fs.write("/file", "").unwrap();
    fs.create_dir_all("/tree/name").unwrap();
    let image = opened.image();
    for (copied, expected) in [
        (fs.copy_in(dir.join("file"), "/image/file"), Errno::ISDIR),
        (fs.copy_in(dir.join("tree"), "/image/tree"), Errno::ISDIR),
        (fs.copy_out("/tree", dir.join("tree")), Errno::NOTDIR),
        (fs.copy_out("/file", dir.join("tree")), Errno::ISDIR),
        (fs.copy_in(&image, "/new"), Errno::INVAL),
        (fs.copy_out("/file", &image), Errno::INVAL),
    ] {
        let error = copied.unwrap_err();
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        assert_eq!(inner.map(Error::errno), Some(expected), "{error}");
    }
    opened.check();
}

#[test]
fn file_is_not_copied_to_a_path_that_ends_in_a_slash() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let (fs, dir) = (&opened.fs, opened.dir.path());
    fs::write(dir.join("file"), "").unwrap();
    fs.write("/file", "").unwrap();
    for copied in [
        fs.copy_in(dir.join("file"), "/new/"),
        fs.copy_out("/file", dir.join("new/")),
    ] {
        assert_eq!(copied.unwrap_err().kind(), ErrorKind::IsADirectory);
    }
    assert!(!fs.exists("/new").unwrap());
    assert!(!dir.join("new").exists());
    opened.check();
}

#[test]
fn copy_of_a_directory_is_private_until_it_is_complete() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let (image, out) = (opened.image(), opened.dir.path().join("out"));
    opened.fs.create_dir("/tree").unwrap();
    opened.fs.write("/tree/file", "content").unwrap();
    opened.fs.close().unwrap();
    drop(opened.fs);
    // The content has no valid map of extents. So the copy ends before the directory gets its permissions.
    e2fsprogs::debugfs_write(&image, &["set_inode_field /tree/file block[0] 0"]).unwrap();
    let fs = larder::open(&image).unwrap();
    fs.copy_out("/tree", &out).unwrap_err();
    assert_eq!(fs.metadata("/tree").unwrap().permissions, 0o755);
    assert_eq!(fs::metadata(&out).unwrap().mode() & 0o7777, 0o700);
}

#[test]
fn access_control_lists_are_not_inherited() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let (fs, dir) = (&opened.fs, opened.dir.path());
    let (source, outside) = (dir.join("source"), dir.join("outside"));
    make_tree(&source);
    let expected = described(&source);
    fs::create_dir(&outside).unwrap();
    if lsetxattr(&outside, DEFAULT_LIST, &LIST, XattrFlags::empty()).is_err() {
        report_skipped("the host's file system has no access control lists");
        return;
    }
    fs.create_dir("/inside").unwrap();
    fs.set_xattr("/inside", DEFAULT_LIST, LIST).unwrap();
    fs.copy_in(&source, "/inside/tree").unwrap();
    for entry in fs.walk("/inside").unwrap() {
        let path = entry.unwrap().path();
        for list in [ACCESS_LIST, DEFAULT_LIST] {
            let names = fs.volume().xattrs(fs.symlink_metadata(&path).unwrap().ino);
            let names = names.unwrap();
            assert!(
                !names.iter().any(|name| name == list.as_bytes()),
                "{path:?}"
            );
        }
    }
    fs.copy_out("/inside/tree", outside.join("tree")).unwrap();
    assert_eq!(described(&outside.join("tree")), expected);
    // Lists that the source has are copied.
    fs.copy_out("/inside", dir.join("copy")).unwrap();
    fs.copy_in(dir.join("copy"), "/again").unwrap();
    let list = fs.xattr("/again", DEFAULT_LIST).unwrap();
    assert_eq!(list.as_deref(), Some(&LIST[..]));
    opened.check();
}

/// Replaces a directory of the source by a link when the first content was copied.
#[derive(Debug)]
struct Replacer {
    directory: PathBuf,
    link_to: PathBuf,
    errors: Vec<String>,
}

impl Observer for Replacer {
    fn copied(&mut self, _len_bytes: u64) {
        if !self.directory.is_symlink() {
            fs::rename(&self.directory, self.directory.with_extension("moved")).unwrap();
            symlink(&self.link_to, &self.directory).unwrap();
        }
    }

    fn failed(&mut self, path: &Path, error: CopyError) -> ControlFlow<()> {
        self.errors.push(format!("{}: {error}", path.display()));
        ControlFlow::Continue(())
    }
}

#[test]
fn copy_in_does_not_follow_a_link_that_replaced_a_directory() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let (fs, dir) = (&opened.fs, opened.dir.path());
    let (source, outside) = (dir.join("source"), dir.join("outside"));
    for (root, content) in [(&source.join("sub"), "public"), (&outside, "secret")] {
        fs::create_dir_all(root).unwrap();
        for name in ["one", "two"] {
            fs::write(root.join(name), content).unwrap();
        }
    }
    let mut replacer = Replacer {
        directory: source.join("sub"),
        link_to: outside,
        errors: Vec::new(),
    };
    let root = fs.metadata("/").unwrap().ino;
    CopyIn::new(fs.volume(), &mut replacer).copy(&source, false, root, b"copy");
    assert!(source.join("sub").is_symlink());
    assert_eq!(replacer.errors, Vec::<String>::new());
    for name in ["one", "two"] {
        let path = Path::new("/copy/sub").join(name);
        assert_eq!(fs.read_to_string(path).unwrap(), "public");
    }
    opened.check();
}

/// Gives all files to one user, and leaves out those with the name `omitted`.
#[derive(Debug)]
struct OneOwner;

impl Rules for OneOwner {
    fn owner(&self, _uid: u32, _gid: u32) -> (u32, u32) {
        (7, 8)
    }

    fn excludes(&self, name: &[u8]) -> bool {
        name == b"omitted"
    }
}

#[test]
fn copy_in_follows_rules_for_owners_names_and_times() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let (fs, source) = (&opened.fs, opened.dir.path().join("source"));
    make_tree(&source);
    fs::create_dir(source.join("sub/omitted")).unwrap();
    fs::write(source.join("omitted"), "").unwrap();
    let mut recorder = Recorder::default();
    let root = fs.metadata("/").unwrap().ino;
    CopyIn::new(fs.volume(), &mut recorder)
        .rules(&OneOwner)
        .without_access_times()
        .copy(&source, false, root, b"copy");
    assert_eq!(recorder.errors, Vec::<String>::new());
    for path in ["", "file", "sub", "sub/link", "fifo"] {
        let path = Path::new("/copy").join(path);
        let metadata = fs.symlink_metadata(&path).unwrap();
        assert_eq!((metadata.uid, metadata.gid), (7, 8), "{}", path.display());
        let is_same = metadata.accessed == metadata.modified;
        assert!(is_same, "{}", path.display());
    }
    for path in ["/copy/omitted", "/copy/sub/omitted"] {
        assert!(!fs.exists(path).unwrap(), "{path}");
    }
    opened.check();
}

#[test]
fn image_is_not_copied_into_itself_or_replaced() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let (fs, dir) = (&opened.fs, opened.dir.path());
    fs::write(dir.join("other"), "content").unwrap();
    let image = opened.image();
    let error = fs.copy_in(&image, "/image").unwrap_err();
    let expected = format!("{}: is the image itself", image.display());
    assert_eq!(error.to_string(), expected);
    let mut recorder = Recorder::default();
    let root = fs.metadata("/").unwrap().ino;
    CopyIn::new(fs.volume(), &mut recorder).copy_into(dir, root);
    assert_eq!(recorder.errors, [expected]);
    assert_eq!(recorder.copied_bytes, 7);
    assert_eq!(fs.read("/other").unwrap(), b"content");
    assert!(!fs.exists("/disk.img").unwrap());

    let before = fs::metadata(&image).unwrap().ino();
    let error = fs.copy_out("/other", &image).unwrap_err();
    assert_eq!(error.to_string(), "/other: is the image itself");
    assert_eq!(fs::metadata(&image).unwrap().ino(), before);
    opened.check();
}

/// Each link of the file must be reported: a copy without the attribute is not complete.
#[test]
fn attribute_that_is_too_large_is_reported_for_each_hard_link() {
    if tools_are_missing() {
        return;
    }
    let opened = opened_with("-t ext4 -b 1024 -I 128");
    let (fs, source) = (&opened.fs, opened.dir.path().join("source"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("one"), "content").unwrap();
    let flags = XattrFlags::empty();
    if lsetxattr(source.join("one"), "user.large", &[1; 2000], flags).is_err() {
        report_skipped("the host's file system has no large user.* attributes");
        return;
    }
    fs::hard_link(source.join("one"), source.join("two")).unwrap();
    let root = fs.metadata("/").unwrap().ino;
    let mut unused = Recorder::default();
    CopyIn::new(fs.volume(), &mut unused)
        .into_unused()
        .unwrap()
        .copy_into(&source, root);
    let mut used = Recorder::default();
    CopyIn::new(fs.volume(), &mut used).copy(&source, false, root, b"copy");
    for errors in [unused.errors, used.errors] {
        assert_eq!(errors.len(), 2, "{errors:?}");
        assert!(
            errors.iter().all(|error| error.contains("user.large")),
            "{errors:?}"
        );
    }
    opened.check();
}

/// The maximum number of links of a file in ext4.
const MAX_LINKS: u32 = 65_000;

#[test]
fn file_with_too_many_hard_links_becomes_several_files() {
    if tools_are_missing() {
        return;
    }
    // Files of tmpfs can have more links.
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        report_skipped("/dev/shm is not writable");
        return;
    };
    let first = memory.path().join("0");
    fs::write(&first, "content").unwrap();
    let linked = (1..=MAX_LINKS)
        .try_for_each(|number| fs::hard_link(&first, memory.path().join(number.to_string())));
    if linked.is_err() {
        report_skipped("files in /dev/shm cannot have enough links");
        return;
    }
    let opened = opened();
    let fs = &opened.fs;
    fs.copy_in(memory.path(), "/links").unwrap();
    let mut counts: Vec<_> = fs
        .read_dir("/links")
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().links)
        .collect();
    counts.sort_unstable();
    assert_eq!(counts.len(), MAX_LINKS as usize + 1);
    assert_eq!((counts[0], counts[1]), (1, MAX_LINKS));
    opened.check();
}

#[test]
fn tree_with_paths_longer_than_the_limit_is_copied() {
    const LEVELS: usize = 20;
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let (fs, dir) = (&opened.fs, opened.dir.path());
    let volume = fs.volume();
    fs.create_dir("/deep").unwrap();
    let mut directory = fs.metadata("/deep").unwrap().ino;
    let name = [b'n'; 255];
    let new = NewFile::new().permissions(0o755);
    for _ in 0..LEVELS {
        directory = volume.make_dir(directory, &name, &new).unwrap().ino;
        let file = volume.create(directory, b"file", &new).unwrap().ino;
        volume.write_all_at(file, b"content", 0).unwrap();
        volume.link(file, directory, b"same").unwrap();
    }
    fs.copy_out("/deep", dir.join("deep")).unwrap();
    fs.copy_in(dir.join("deep"), "/again").unwrap();
    assert_eq!(files(fs, "/again"), 2 * LEVELS);
    opened.check();
}

/// Checks the content of all regular files below `root`. Returns their number.
fn files(fs: &Fs, root: &str) -> usize {
    let entries = fs.walk(root).unwrap().map(Result::unwrap);
    let files = entries.filter(|entry| entry.kind().unwrap() == FileKind::Regular);
    let read = |ino: Ino| {
        let mut content = [0; 16];
        let len = fs.volume().read_at(ino, &mut content, 0).unwrap();
        content[..len].to_vec()
    };
    files
        .inspect(|entry| assert_eq!(read(entry.ino()), b"content"))
        .count()
}

#[test]
fn image_opened_for_reading_is_copied_but_not_changed() {
    if tools_are_missing() {
        return;
    }
    let opened = opened();
    let (image, out) = (opened.image(), opened.dir.path().join("out"));
    opened.fs.write("/file", "content").unwrap();
    opened.fs.close().unwrap();
    drop(opened.fs);
    let fs = OpenOptions::new().open(&image).unwrap();
    fs.copy_out("/file", &out).unwrap();
    let error = fs.copy_in(&out, "/new").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ReadOnlyFilesystem);
    assert!(
        error.to_string().contains("cannot write the copy"),
        "{error}"
    );
}
