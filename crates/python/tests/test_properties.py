"""Random operations on an image and, with `os`, on a directory of the host have the same results."""

import errno
import os
import random
import shutil
import stat
from pathlib import Path
from typing import Any

from conftest import fsck, make_image, random_seed
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import larder

# Both sides use paths in this directory, so that symbolic links to `..` resolve to directories with the same content.
BASE = "base"

NAMES = ["a", "b", "c", "long-" + "n" * 40, "ä"]
paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
contents = st.binary(max_size=10_000)
operations = st.one_of(
    st.tuples(st.just("mkdir"), paths),
    st.tuples(st.just("makedirs"), paths),
    st.tuples(st.just("rmdir"), paths),
    st.tuples(st.just("remove"), paths),
    st.tuples(st.just("rmtree"), paths),
    st.tuples(st.just("rename"), paths, paths),
    st.tuples(st.just("link"), paths, paths),
    st.tuples(st.just("symlink"), st.sampled_from([*NAMES, "a/b", "../a", "c/"]), paths),
    st.tuples(st.just("readlink"), paths),
    st.tuples(st.just("listdir"), paths),
    st.tuples(st.just("write"), paths, st.sampled_from(["wb", "ab", "xb", "r+b"]), contents),
    st.tuples(st.just("read"), paths),
    st.tuples(st.just("truncate"), paths, st.integers(0, 20_000)),
    st.tuples(st.just("chmod"), paths, st.integers(0, 0o777)),
    st.tuples(st.just("utime"), paths, st.integers(0, 2**33), st.integers(0, 2**33)),
    st.tuples(st.just("exists"), paths),
    st.tuples(st.just("stat"), paths),
)


def status(found: os.stat_result) -> tuple[int, ...]:
    size = 0 if stat.S_ISDIR(found.st_mode) else found.st_size
    return (found.st_mode, found.st_nlink, size)


class Host:
    """The operations on a directory of the host."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def path(self, path: str) -> str:
        return str(self.root / BASE / path)

    def run(self, name: str, *args: Any) -> Any:
        path = self.path(args[0])
        match name:
            case "rmtree":
                if os.path.islink(path):
                    # shutil.rmtree raises an error without an errno.
                    raise NotADirectoryError(errno.ENOTDIR, "")
                return shutil.rmtree(path)
            case "rename" | "link":
                return getattr(os, name)(path, self.path(args[1]))
            case "symlink":
                return os.symlink(args[0], self.path(args[1]))
            case "listdir":
                return sorted(os.listdir(path))
            case "write":
                with open(path, args[1]) as file:
                    return file.write(args[2])
            case "read":
                return Path(path).read_bytes()
            case "utime":
                return os.utime(path, ns=(args[1] * 10**9, args[2] * 10**9))
            case "exists":
                return os.path.exists(path)
            case "stat":
                return status(os.stat(path))
            case _:
                return getattr(os, name)(path, *args[1:])


class Image:
    """The operations on an image."""

    def __init__(self, fs: larder.Fs) -> None:
        self.fs = fs

    def run(self, name: str, *args: Any) -> Any:
        path = f"{BASE}/{args[0]}"
        match name:
            case "rename" | "link":
                return getattr(self.fs, name)(path, f"{BASE}/{args[1]}")
            case "symlink":
                return self.fs.symlink(args[0], f"{BASE}/{args[1]}")
            case "listdir":
                return sorted(self.fs.listdir(path))
            case "write":
                with self.fs.open(path, args[1]) as file:
                    return file.write(args[2])
            case "read":
                return self.fs.read_bytes(path)
            case "utime":
                return self.fs.utime(path, ns=(args[1] * 10**9, args[2] * 10**9))
            case "stat":
                return status(self.fs.stat(path))
            case _:
                return getattr(self.fs, name)(path, *args[1:])


def outcome(side: Host | Image, operation: tuple[Any, ...]) -> Any:
    try:
        return side.run(*operation)
    except OSError as error:
        return errno.errorcode[error.errno or 0]


def tree(walk: Any, lstat: Any, top: str) -> dict[str, Any]:
    found = {}
    for root, directories, files in walk(top):
        for name in [*directories, *files]:
            path = os.path.join(root, name)
            found[path.removeprefix(top).strip("/")] = status(lstat(path))
    return found


@settings(max_examples=100, deadline=None, database=None, suppress_health_check=list(HealthCheck), print_blob=True)
@given(sequence=st.lists(operations, max_size=30))
def test_operations_have_the_results_of_os(sequence: list[tuple[Any, ...]], tmp_path_factory: Any) -> None:
    directory = tmp_path_factory.mktemp("sequence")
    host = directory / "host"
    host.mkdir()
    image = make_image(directory / "disk.img", "8M")
    umask = os.umask(0o022)
    try:
        with larder.open(image, read_write=True, cache_size=16 << 20) as fs:
            fs.rmdir("/lost+found")
            (host / BASE).mkdir()
            fs.mkdir(f"/{BASE}")
            sides = (Host(host), Image(fs))
            for operation in sequence:
                expected, result = (outcome(side, operation) for side in sides)
                assert (operation, result) == (operation, expected)
            assert tree(fs.walk, fs.lstat, "/") == tree(os.walk, os.lstat, str(host))
    finally:
        os.umask(umask)
    fsck(image)
    shutil.rmtree(directory)


def test_tree_of_os_survives_the_way_in_and_out(tmp_path: Path, image: Path) -> None:
    rng = random.Random(random_seed())
    top = tmp_path / "top"
    directories = [top]
    top.mkdir()
    for number in range(200):
        parent = rng.choice(directories)
        path = parent / f"{number}-{rng.choice(NAMES)}"
        match rng.randrange(4):
            case 0:
                path.mkdir()
                directories.append(path)
            case 1:
                path.symlink_to(rng.choice(NAMES))
            case _:
                path.write_bytes(rng.randbytes(rng.randrange(30_000)))
                path.chmod(rng.choice([0o600, 0o644, 0o755]))
                os.utime(path, ns=(rng.randrange(2**33 * 10**9), rng.randrange(2**33 * 10**9)))
    with larder.open(image, read_write=True) as fs:
        fs.copy_in(top, "/top")
        expected = tree(os.walk, os.lstat, str(top))
        assert tree(fs.walk, fs.lstat, "/top") == expected
        for path, found in expected.items():
            if stat.S_ISREG(found[0]):
                assert fs.read_bytes(f"/top/{path}") == (top / path).read_bytes()
                assert fs.stat(f"/top/{path}").st_mtime_ns == (top / path).stat().st_mtime_ns
        fs.copy_out("/top", tmp_path / "out")
    assert tree(os.walk, os.lstat, str(tmp_path / "out")) == expected
    fsck(image)
