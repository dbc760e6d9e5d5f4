"""The methods of `Fs`, and their errors."""

import errno
import gc
import inspect
import os
import shutil
import stat
import struct
import subprocess
import sys
import textwrap
import threading
import warnings
from pathlib import Path

import pytest
from conftest import fsck, make_image

import larder


def test_image_is_opened_read_only_by_default(sample: Path) -> None:
    with larder.open(sample) as fs:
        assert repr(fs) == f"<larder.Fs {str(sample)!r} read-only>"
        assert fs.image == str(sample)
        with pytest.raises(OSError, match="read-only") as raised:
            fs.write_text("/new", "x")
        assert raised.value.errno == errno.EROFS
        assert raised.value.filename == "/new"
    assert fs.closed
    assert repr(fs).endswith("closed>")
    with pytest.raises(ValueError, match="closed image"):
        fs.listdir("/")


def test_paths_are_str_bytes_or_path_like(sample: Path) -> None:
    with larder.open(os.fsencode(sample)) as fs:
        for path in ["/etc/hostname", "etc/hostname", b"/etc/hostname", Path("/etc/hostname")]:
            assert fs.read_text(path) == "example\n"
        with pytest.raises(ValueError, match="null byte"):
            fs.stat("/a\0b")
        with pytest.raises(TypeError):
            fs.stat(3)  # type: ignore[arg-type]


def test_name_that_is_not_utf_8_has_surrogates(writable: larder.Fs) -> None:
    writable.write_bytes(b"/\xff", b"x")
    names = [name for name in writable.listdir() if name != "lost+found"]
    assert names == [os.fsdecode(b"\xff")]
    assert writable.read_bytes("/" + names[0]) == b"x"
    assert [entry.path for entry in writable.scandir("/") if entry.is_file()] == ["/\udcff"]


def test_names_have_the_type_of_the_path(writable: larder.Fs, tmp_path: Path) -> None:
    host = os.fsencode(tmp_path / "tree")
    os.makedirs(host + b"/sub")
    for name in [b"file", b"\xff", b"sub/below"]:
        Path(os.fsdecode(host + b"/" + name)).write_bytes(b"x")
    os.symlink(b"\xff", host + b"/link")
    os.symlink(b"sub", host + b"/folder")
    writable.copy_in(host, "/tree")

    class BytesPath:
        def __init__(self, path: bytes) -> None:
            self.path = path

        def __fspath__(self) -> bytes:
            return self.path

    def seen(fs, root):
        return {
            "listdir": sorted(fs.listdir(root)),
            "path-like": sorted(fs.listdir(BytesPath(root))),
            "scandir": sorted((entry.name, entry.path.removeprefix(root)) for entry in fs.scandir(root)),
            "sizes": sorted(fs.stat(entry).st_size for entry in fs.scandir(root) if entry.is_file()),
            "followed": sorted(entry.name for entry in fs.scandir(root) if entry.is_dir()),
            "walk": sorted((top.removeprefix(root), sorted(dirs + files)) for top, dirs, files in fs.walk(root)),
            "readlink": fs.readlink(root + b"/link"),
        }

    assert seen(writable, b"/tree") == seen(os, host)
    entry = next(entry for entry in writable.scandir(b"/tree") if entry.name == b"\xff")
    assert repr(entry) == "<larder.DirEntry b'/tree/\\xff'>"
    assert larder.DirEntry[bytes].__origin__ is larder.DirEntry


def test_parameters_are_those_of_os() -> None:
    # No method has these. They are for directory descriptors, and for Windows.
    absent = {"dir_fd", "src_dir_fd", "dst_dir_fd", "target_is_directory"}
    names = (
        "chown getxattr listdir listxattr lstat makedirs mkdir readlink remove removexattr rename replace rmdir "
        "scandir setxattr stat statvfs symlink truncate unlink walk"
    )
    for name in names.split():
        expected = [key for key in inspect.signature(getattr(os, name)).parameters if key not in absent]
        own = list(inspect.signature(getattr(larder.Fs, name)).parameters)
        assert (name, own) == (name, ["self", *expected])


def test_directories_are_listed(sample: Path) -> None:
    with larder.open(sample) as fs:
        assert sorted(fs.listdir("/etc")) == ["app", "dangling", "hostname", "link"]
        assert len(fs.listdir("/many")) == 300
        with fs.scandir("/etc") as entries:
            found = {entry.name: entry for entry in entries}
        assert found["app"].is_dir() and not found["app"].is_file()
        assert found["hostname"].is_file() and found["hostname"].path == "/etc/hostname"
        assert os.fspath(found["hostname"]) == "/etc/hostname"
        assert found["hostname"].inode() == fs.stat("/etc/hostname").st_ino
        assert found["hostname"].stat().st_size == 8
        link = found["link"]
        assert link.is_symlink() and link.is_file() and not link.is_file(follow_symlinks=False)
        assert stat.S_ISLNK(link.stat(follow_symlinks=False).st_mode)
        dangling = found["dangling"]
        assert dangling.is_symlink() and not dangling.is_file() and not dangling.is_dir()
        with pytest.raises(FileNotFoundError):
            dangling.stat()
        assert repr(dangling) == "<larder.DirEntry '/etc/dangling'>"
        with fs.scandir("/etc") as entries:
            pass
        assert list(entries) == []


def test_walk_is_that_of_os(sample: Path, tmp_path: Path) -> None:
    with larder.open(sample) as fs:
        fs.copy_out("/etc", tmp_path / "etc")

        def walked(walk, top, **options):
            return [(root.removeprefix(top), sorted(dirs), sorted(files)) for root, dirs, files in walk(top, **options)]

        for topdown in [True, False]:
            assert walked(fs.walk, "/etc", topdown=topdown) == walked(os.walk, str(tmp_path / "etc"), topdown=topdown)
        for _, directories, _ in fs.walk("/etc"):
            directories.clear()
        errors: list[OSError] = []
        assert list(fs.walk("/missing", onerror=errors.append)) == []
        assert [error.errno for error in errors] == [errno.ENOENT]


def test_walk_that_follows_links_ends_in_a_loop(writable: larder.Fs) -> None:
    writable.makedirs("/a/b")
    writable.symlink("/a", "/a/b/loop")
    roots = [root for root, _, _ in writable.walk("/a")]
    assert roots == ["/a", "/a/b"]
    errors: list[OSError] = []
    roots = [root for root, _, _ in writable.walk("/a", followlinks=True, onerror=errors.append)]
    assert roots == ["/a", "/a/b"]
    assert [error.filename for error in errors] == ["/a/b/loop"]


@pytest.mark.parametrize("target", ["parent", "missing", "file"])
def test_makedirs_below_a_link_raises_the_error_of_os(writable: larder.Fs, tmp_path: Path, target: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "parent").symlink_to(target)
    writable.write_bytes("/file", b"")
    writable.symlink(target, "/parent")
    for name in ["parent/a", "parent/a/b"]:
        with pytest.raises(OSError) as expected:
            os.makedirs(tmp_path / name)
        with pytest.raises(OSError) as found:
            writable.makedirs(f"/{name}")
        assert found.value.errno == expected.value.errno


def test_names_are_made_changed_and_removed(writable: larder.Fs) -> None:
    fs = writable
    fs.mkdir("/dir", 0o700)
    assert stat.S_IMODE(fs.stat("/dir").st_mode) == 0o700
    fs.makedirs("/dir/a/b")
    fs.makedirs("/dir/a/b", exist_ok=True)
    fs.makedirs("relative/c")
    with pytest.raises(FileExistsError):
        fs.makedirs("/dir/a/b")
    assert fs.write_text("/dir/file", "content") == 7
    assert fs.write_bytes("/dir/bytes", memoryview(b"abc")) == 3
    fs.link("/dir/file", "/dir/hard")
    assert fs.stat("/dir/file").st_nlink == 2
    fs.symlink("file", "/dir/soft")
    assert fs.readlink("/dir/soft") == "file" and fs.is_symlink("/dir/soft")
    assert fs.exists("/dir/soft") and fs.lexists("/dir/soft")
    fs.rename("/dir/file", "/dir/renamed")
    assert not fs.exists("/dir/soft") and fs.lexists("/dir/soft")
    fs.replace("/dir/renamed", "/dir/hard")
    fs.copy("/dir/hard", "/dir/copy")
    assert fs.read_text("/dir/copy") == "content"
    fs.truncate("/dir/copy", 3)
    assert fs.read_bytes("/dir/copy") == b"con"
    fs.unlink("/dir/copy")
    fs.remove("/dir/soft")
    fs.rmdir("/relative/c")
    fs.rmtree("/dir")
    assert sorted(fs.listdir("/")) == ["lost+found", "relative"]


def test_new_directory_inherits_as_by_os(writable: larder.Fs, tmp_path: Path) -> None:
    fs = writable
    fs.mkdir("/group")
    fs.chown("/group", -1, 1234)
    fs.chmod("/group", 0o2775)
    fs.mkdir("/group/sub", 0o770)
    fs.makedirs("/group/a/b", 0o700)
    for path, mode in [("sub", 0o2750), ("a", 0o2755), ("a/b", 0o2700)]:
        found = fs.stat(f"/group/{path}")
        assert (path, stat.S_IMODE(found.st_mode), found.st_gid) == (path, mode, 1234)
    # With a default list, the umask has no effect.
    entries = [(1, 7, -1), (2, 7, 1234), (4, 5, -1), (0x10, 7, -1), (0x20, 5, -1)]
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHi", *entry) for entry in entries)
    fs.mkdir("/list")
    fs.setxattr("/list", "system.posix_acl_default", acl)
    fs.mkdir("/list/sub", 0o770)
    assert stat.S_IMODE(fs.stat("/list/sub").st_mode) == 0o770


def test_tree_is_removed_as_by_shutil(writable: larder.Fs, tmp_path: Path) -> None:
    host = tmp_path / "host"
    (host / "tree" / "sub").mkdir(parents=True)
    (host / "tree" / "file").write_bytes(b"x")
    (host / "tree" / "folder").symlink_to("../kept")
    (host / "kept" / "sub").mkdir(parents=True)
    (host / "link").symlink_to("kept")
    (host / "file").write_bytes(b"x")
    for number, options in enumerate([{}, {"ignore_errors": True}]):
        top = f"/{number}"
        writable.copy_in(host, top)
        copy = shutil.copytree(host, tmp_path / str(number), symlinks=True)
        for name in ["link", "file", "missing", "tree"]:
            for rmtree, path in [(shutil.rmtree, f"{copy}/{name}"), (writable.rmtree, f"{top}/{name}")]:
                if options or name == "tree":
                    rmtree(path, **options)
                else:
                    with pytest.raises(OSError):
                        rmtree(path)
            assert sorted(writable.listdir(top)) == sorted(os.listdir(copy))
        assert writable.listdir(f"{top}/kept") == ["sub"]


def test_rest_of_a_tree_is_removed_if_errors_are_ignored(image: Path) -> None:
    with larder.open(image, read_write=True) as fs:
        for name in ["/tree/a/file", "/tree/b/fixed", "/tree/b/file", "/tree/c/file"]:
            fs.makedirs(os.path.dirname(name), exist_ok=True)
            fs.write_bytes(name, b"x")
    subprocess.run(["debugfs", "-w", "-R", "set_inode_field /tree/b/fixed flags 0x80010", str(image)], check=True)
    with larder.open(image, read_write=True) as fs:
        with pytest.raises(PermissionError):
            fs.rmtree("/tree")
        fs.rmtree("/tree", ignore_errors=True)
        assert [root for root, _, _ in fs.walk("/tree")] == ["/tree", "/tree/b"]
        assert fs.listdir("/tree/b") == ["fixed"]
    fsck(image)


def test_attributes_are_changed(writable: larder.Fs) -> None:
    fs = writable
    fs.write_bytes("/file", b"x" * 5000)
    fs.chown("/file", 12, -1)
    fs.chown("/file", -1, 34)
    fs.chmod("/file", 0o4755)
    fs.utime("/file", (1.5, 2))
    found = fs.stat("/file")
    assert isinstance(found, os.stat_result)
    assert found.st_mode == stat.S_IFREG | 0o4755
    assert (found.st_uid, found.st_gid, found.st_size, found.st_nlink) == (12, 34, 5000, 1)
    assert (found.st_atime_ns, found.st_mtime, found[8]) == (1_500_000_000, 2.0, 2)
    assert (found.st_blksize, found.st_blocks) == (4096, 16)
    fs.utime("/file", ns=(-1, 2**31 * 10**9))
    assert fs.stat("/file").st_atime_ns == -1
    assert fs.stat("/file").st_mtime_ns == 2**31 * 10**9
    fs.utime("/file")
    assert fs.stat("/file").st_mtime > 1e9
    with pytest.raises(ValueError, match="not both"):
        fs.utime("/file", (1, 1), ns=(1, 1))
    with pytest.raises(OverflowError):
        fs.utime("/file", ns=(2**100, 0))
    fs.setxattr("/file", "user.tag", b"value")
    assert fs.listxattr("/file") == ["user.tag"]
    assert fs.getxattr("/file", b"user.tag") == b"value"
    for flags, attribute, code in [
        (os.XATTR_CREATE, "user.tag", errno.EEXIST),
        (os.XATTR_REPLACE, "user.new", errno.ENODATA),
        (8, "user.tag", errno.EINVAL),
    ]:
        with pytest.raises(OSError) as raised:
            fs.setxattr("/file", attribute, b"other", flags)
        assert raised.value.errno == code
    fs.setxattr("/file", "user.new", b"x", os.XATTR_CREATE)
    fs.setxattr("/file", "user.new", b"new", flags=os.XATTR_REPLACE)
    assert (fs.getxattr("/file", "user.tag"), fs.getxattr("/file", "user.new")) == (b"value", b"new")
    fs.removexattr("/file", "user.new")
    fs.removexattr("/file", "user.tag")
    with pytest.raises(OSError) as raised:
        fs.getxattr("/file", "user.tag")
    assert raised.value.errno == errno.ENODATA
    free = fs.statvfs()
    assert isinstance(free, os.statvfs_result)
    assert free.f_bsize == 4096 and 0 < free.f_bavail <= free.f_bfree < free.f_blocks


def test_attributes_of_a_link_are_accessed_without_following_it(writable: larder.Fs) -> None:
    fs = writable
    fs.write_bytes("/file", b"x")
    fs.symlink("file", "/link")
    fs.utime("/file", (1, 2))
    fs.utime("/link", (3, 4), follow_symlinks=False)
    fs.utime("/link", ns=(5, 6), follow_symlinks=True)
    found = [fs.lstat(path) for path in ("/file", "/link")]
    assert [status.st_atime_ns for status in found] == [5, 3 * 10**9]
    assert [status.st_mtime_ns for status in found] == [6, 4 * 10**9]
    fs.utime("/link", follow_symlinks=False)
    assert fs.stat("/link").st_mtime_ns == 6 and fs.lstat("/link").st_mtime > 1e9

    fs.setxattr("/link", "trusted.of", b"file")
    fs.setxattr("/link", "trusted.of", b"link", follow_symlinks=False)
    assert fs.getxattr("/link", "trusted.of") == fs.getxattr("/file", "trusted.of") == b"file"
    assert fs.getxattr("/link", "trusted.of", follow_symlinks=False) == b"link"
    fs.setxattr("/file", "user.tag", b"value")
    assert sorted(fs.listxattr("/link")) == ["trusted.of", "user.tag"]
    assert fs.listxattr("/link", follow_symlinks=False) == ["trusted.of"]
    fs.removexattr("/link", "trusted.of", follow_symlinks=False)
    assert fs.listxattr("/link", follow_symlinks=False) == []
    fs.removexattr("/link", "trusted.of")
    assert fs.listxattr("/file") == ["user.tag"]
    with pytest.raises(OSError) as raised:
        fs.setxattr("/link", "user.tag", b"value", follow_symlinks=False)
    assert raised.value.errno == errno.EPERM and raised.value.filename == "/link"


def test_errors_are_those_of_os(writable: larder.Fs, tmp_path: Path) -> None:
    host = tmp_path / "host"
    host.mkdir()

    def prepare(make_dir, write, symlink) -> None:
        make_dir("dir")
        make_dir("dir/sub")
        write("file")
        symlink("loop", "loop")

    prepare(
        lambda path: (host / path).mkdir(),
        lambda path: (host / path).write_bytes(b"x"),
        lambda target, path: (host / path).symlink_to(target),
    )
    prepare(writable.mkdir, lambda path: writable.write_bytes(path, b"x"), writable.symlink)

    long = "n" * 256
    cases = [
        ("stat", "missing"),
        ("stat", "file/below"),
        ("stat", "loop"),
        ("stat", long),
        ("listdir", "file"),
        ("mkdir", "dir"),
        ("mkdir", "missing/dir"),
        ("remove", "dir"),
        ("rmdir", "dir"),
        ("rmdir", "file"),
        ("readlink", "file"),
        ("rename", "missing", "new"),
        ("rename", "dir", "dir/sub/new"),
        ("link", "file", "dir"),
        ("link", "dir", "new"),
        ("symlink", "x", "file"),
        ("getxattr", "missing", "user.x"),
        ("chmod", "missing", 0o600),
        ("truncate", "dir", 0),
    ]
    for name, *args in cases:
        paths = 2 if name in ("rename", "link") else 1
        on_host = [str(host / arg) if index < paths else arg for index, arg in enumerate(args)]
        if name == "symlink":
            on_host = [args[0], str(host / args[1])]
        with pytest.raises(OSError) as expected:
            getattr(os, name)(*on_host)
        with pytest.raises(OSError) as raised:
            getattr(writable, name)(*args)
        case = (name, *args)
        assert (case, raised.value.errno) == (case, expected.value.errno)
        assert (case, type(raised.value)) == (case, type(expected.value))
        assert raised.value.filename == args[0]
        assert raised.value.filename2 == (args[1] if expected.value.filename2 else None)
        if raised.value.errno not in (errno.EINVAL, errno.EPERM):
            assert raised.value.strerror == expected.value.strerror


def test_existence_is_false_and_damage_is_an_error(image: Path) -> None:
    with larder.open(image, read_write=True) as fs:
        fs.symlink("loop", "/loop")
        for path in ["/missing", "/loop", "/lost+found/x/y", "/" + "n" * 300]:
            assert not fs.exists(path) and not fs.is_file(path) and not fs.is_dir(path)
        fs.write_bytes("/file", b"x")
        ino = fs.stat("/file").st_ino
    # The mode of the inode becomes invalid.
    subprocess.run(["debugfs", "-w", "-R", f"set_inode_field <{ino}> mode 0", str(image)], check=True)
    with larder.open(image) as fs:
        with pytest.raises(OSError) as raised:
            fs.exists("/file")
        assert raised.value.errno == errno.EUCLEAN
        assert str(ino) in str(raised.value)


def test_trees_are_copied_in_and_out(writable: larder.Fs, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "sub").mkdir(parents=True)
    (tree / "sub" / "file").write_bytes(b"content")
    (tree / "link").symlink_to("sub/file")
    writable.copy_in(tree, "/tree")
    assert writable.read_bytes("/tree/link") == b"content"
    writable.copy_out("/tree", tmp_path / "out")
    assert (tmp_path / "out" / "sub" / "file").read_bytes() == b"content"
    with pytest.raises(FileNotFoundError) as raised:
        writable.copy_in(tmp_path / "missing", "/x")
    assert raised.value.filename == tmp_path / "missing" and raised.value.filename2 == "/x"
    # The error names the file in the tree.
    (tmp_path / "bad" / "sub" / "file").mkdir(parents=True)
    with pytest.raises(IsADirectoryError, match="/tree/sub/file: cannot replace a directory") as refused:
        writable.copy_out("/tree", tmp_path / "bad")
    assert refused.value.filename == "/tree"


def test_changes_are_written_by_close_and_by_exit(image: Path) -> None:
    fs = larder.open(image, read_write=True)
    file = fs.open("/buffered", "w")
    file.write("content")
    fs.sync()
    fs.close()
    assert file.closed
    fs.close()
    with larder.open(image) as again:
        assert again.read_text("/buffered") == "content"
    with pytest.raises(RuntimeError, match="stop"):
        with larder.open(image, read_write=True) as fs:
            fs.write_text("/before", "kept")
            raise RuntimeError("stop")
    with larder.open(image) as again:
        assert again.read_text("/before") == "kept"


@pytest.mark.parametrize("is_in_a_cycle", [False, True])
def test_dropped_image_is_closed_after_its_files_with_a_warning(image: Path, is_in_a_cycle: bool) -> None:
    fs = larder.open(image, read_write=True)
    file = fs.open("/file", "w")
    file.write("content")
    holders = [fs, file]
    if is_in_a_cycle:
        holders.append(holders)  # type: ignore[arg-type]
    del fs, file
    with pytest.warns(ResourceWarning, match=f"unclosed image <larder.Fs {str(image)!r} read-write>"):
        del holders
        gc.collect()
    with larder.open(image) as again:
        # Python finalizes the objects of a cycle in any order, so that buffers can be lost, as with the builtin `open`.
        assert is_in_a_cycle or again.read_text("/file") == "content"
    fsck(image)


def test_closed_image_and_image_that_is_only_read_are_dropped_without_a_warning(image: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fs = larder.open(image, read_write=True)
        fs.close()
        del fs
        larder.open(image).exists("/")
        gc.collect()


def test_other_threads_run_while_a_dropped_image_is_closed(image: Path) -> None:
    """The interpreter does not switch threads on its own here."""

    def work(gate: threading.Lock, has_run: list[bool]) -> None:
        gate.acquire()
        has_run.append(True)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    try:
        for _ in range(20):
            fs = larder.open(image, read_write=True)
            fs.write_bytes("/file", bytes(1 << 20))
            gate = threading.Lock()
            gate.acquire()
            has_run: list[bool] = []
            thread = threading.Thread(target=work, args=[gate, has_run])
            thread.start()
            gate.release()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)
                del fs
            was_able_to_run = bool(has_run)
            thread.join()
            if was_able_to_run:
                break
        assert was_able_to_run
    finally:
        sys.setswitchinterval(interval)


def test_error_of_closing_a_dropped_image_is_reported(image: Path) -> None:
    script = f"""
        import larder, resource
        images = [larder.open({str(image)!r}, read_write=True)]
        images[0].write_bytes("/file", bytes(1 << 20))
        # Writes to the image fail.
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        try:
            # The image is dropped while the exception is raised.
            [images.pop(), 1 // 0]
        except ZeroDivisionError:
            print("caught")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert done.stdout == "caught\n", done.stderr
    assert f"Exception ignored in: {str(image)!r}" in done.stderr, done.stderr
    assert "OSError: [Errno" in done.stderr, done.stderr


def test_stat_does_not_read_the_descriptors_of_all_groups(tmp_path: Path) -> None:
    image = make_image(tmp_path / "disk.img", "1G", "-b", "1024")
    with larder.open(image) as fs:
        assert fs.stat("/lost+found").st_blksize == 1024
        before = fs.stats()["device"]["reads"]
        assert fs.statvfs().f_bsize == 1024
        assert fs.stats()["device"]["reads"] > before


def test_statistics_are_those_of_the_command(sample: Path) -> None:
    with larder.open(sample) as fs:
        fs.read_bytes("/big")
        before = fs.stats()["page"]["hits"]
        fs.read_bytes("/big")
        assert fs.stats()["page"]["hits"] > before
