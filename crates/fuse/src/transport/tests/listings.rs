//! The requests that the kernel sends when a program lists a directory and calls stat(2) for its files.

use super::*;

/// The number of files in a directory.
const FILES: usize = 200;

/// The maximum number of `READDIRPLUS` for a listing. Older versions of Linux accept replies of one page, which has
/// room for 25 files.
const MAX_READS: usize = FILES / 10;

/// Writes the files of `directory`.
fn write_files(directory: &Path, content: &str) {
    for number in 0..FILES {
        fs::write(directory.join(number.to_string()), content).unwrap();
    }
}

/// Lists `directory`, and calls stat(2) for each of its files.
fn visit(directory: &Path) {
    let entries = fs::read_dir(directory).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), FILES);
    for name in names {
        stat(&directory.join(name)).unwrap();
    }
}

/// Returns the number of `requests` with this opcode.
fn count(requests: &[(u32, NodeId)], opcode: u32) -> usize {
    let with_opcode = requests.iter().filter(|request| request.0 == opcode);
    with_opcode.count()
}

#[test]
fn listing_after_changes_of_content_replaces_a_request_for_each_file() {
    let Some(folder) = folder() else {
        return;
    };
    let options = MountOptions {
        read_write: true,
        ..MountOptions::default()
    };
    let served = Served::start(folder.path(), &options, true, Queues::new).unwrap();
    let directory = served.path.join("directory");
    fs::create_dir(&directory).unwrap();
    for content in ["first", "second", "third"] {
        write_files(&directory, content);
        let mut first = served.requests_of(|| visit(&directory));
        // Linux 6.18 requests the attributes of a changed directory to check permissions.
        let ino = u32::try_from(stat(&directory).unwrap().st_ino).unwrap();
        first.retain(|request| *request != (opcode::GETATTR, NodeId::of(Ino(ino))));
        let reads = count(&first, opcode::READDIRPLUS);
        assert!((1..=MAX_READS).contains(&reads), "{content}: {first:?}");
        assert_eq!(count(&first, opcode::OPENDIR), 1);
        assert_eq!(first.len(), reads + 1, "{content}: {first:?}");

        for _ in 0..2 {
            let repeated = served.requests_of(|| visit(&directory));
            let opcodes: Vec<u32> = repeated.iter().map(|(opcode, _)| *opcode).collect();
            assert_eq!(opcodes, [opcode::OPENDIR], "{content}");
        }
    }
}

#[test]
fn listed_directory_is_opened_without_requests_unless_the_kernel_collects_writes() {
    let Some(folder) = folder() else {
        return;
    };
    for read_write in [false, true] {
        let options = MountOptions {
            read_write,
            ..MountOptions::default()
        };
        let served = Served::start(folder.path(), &options, false, Queues::new).unwrap();
        let list = || {
            // The names are `file` and `lost+found`.
            assert_eq!(fs::read_dir(&served.path).unwrap().count(), 2);
        };
        let first = served.requests_of(list);
        assert!(count(&first, opcode::OPENDIR) <= 1, "{first:?}");
        assert_eq!(fs::read(served.path.join("file")).unwrap(), b"content");
        let repeated = served.requests_of(list);
        // The listing has made the directory's access time stale. readdir(3) reads this time with the other attributes.
        let is_getattr = |request: &(u32, NodeId)| request.0 == opcode::GETATTR;
        assert!(
            repeated.len() <= 1 && repeated.iter().all(is_getattr),
            "{read_write}: {repeated:?}"
        );
    }
}
