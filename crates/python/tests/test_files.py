"""Open files: modes, positions, buffers and text."""

import array
import errno
import io
import random
import sys
import threading
import tracemalloc
from pathlib import Path

import pytest
from conftest import random_seed

import larder

SIZE = 256 * 4096 * 8


def test_types_are_those_of_the_builtin(writable: larder.Fs, tmp_path: Path) -> None:
    host = tmp_path / "file"
    for mode in ["w", "wb", "r", "rb", "r+b", "rb+", "w+b", "a", "ab", "a+b", "r+", "w+", "rt"]:
        for buffering in [-1, 0, 1, 512]:
            if buffering == 0 and "b" not in mode or buffering == 1 and "b" in mode:
                continue
            with open(host, mode, buffering) as expected, writable.open("/file", mode, buffering) as file:
                for kind in [io.RawIOBase, io.BufferedReader, io.BufferedWriter, io.BufferedRandom, io.TextIOWrapper]:
                    assert isinstance(file, kind) == isinstance(expected, kind), (mode, buffering, kind)
                assert file.name == "/file"
                assert file.mode == expected.mode
                for method in ["readable", "writable", "seekable", "tell"]:
                    assert getattr(file, method)() == getattr(expected, method)(), (mode, method)
                with pytest.raises(io.UnsupportedOperation):
                    file.fileno()
                assert not file.isatty()
            assert file.closed
            with pytest.raises(ValueError):
                file.read()


def test_invalid_modes_are_errors_as_of_the_builtin(writable: larder.Fs, tmp_path: Path) -> None:
    host = tmp_path / "file"
    host.write_bytes(b"x")
    for mode, options in [
        ("", {}), ("q", {}), ("rw", {}), ("rr", {}), ("r++", {}), ("b", {}), ("rbt", {}), ("U", {}),
        ("rb", {"encoding": "utf-8"}), ("rb", {"newline": "\n"}), ("rb", {"errors": "strict"}), ("r", {"buffering": 0}),
    ]:
        with pytest.raises(ValueError):
            open(host, mode, **options)
        with pytest.raises(ValueError):
            writable.open("/file", mode, **options)
    for path, mode, error in [
        ("/missing", "r", FileNotFoundError), ("/missing/x", "w", FileNotFoundError),
        ("/lost+found", "r", IsADirectoryError), ("/lost+found", "w", IsADirectoryError),
    ]:
        with pytest.raises(error) as raised:
            writable.open(path, mode)
        assert raised.value.filename == path
    writable.write_bytes("/file", b"x")
    with pytest.raises(FileExistsError):
        writable.open("/file", "x")


def test_operations_equal_those_on_the_host(writable: larder.Fs, tmp_path: Path) -> None:
    """Random operations return the same on a file of the image and on one of the host."""
    seed = random_seed()
    for round in range(30):
        rng = random.Random(f"{seed} {round}")
        mode = rng.choice(["r+b", "w+b", "a+b", "rb", "wb", "ab"])
        # The default size differs: the builtin takes it from the host.
        buffering = rng.choice([8192, 0, 10])
        start = rng.randbytes(rng.randrange(20_000))
        host = tmp_path / "file"
        host.write_bytes(start)
        writable.write_bytes("/file", start)
        with open(host, mode, buffering) as expected, writable.open("/file", mode, buffering) as file:
            for step in range(40):
                operation = rng.choice(["read", "readinto", "readline", "write", "seek", "tell", "truncate", "readall"])
                args: list[object] = []
                if operation == "read":
                    args = [rng.randrange(-1, 9000)]
                elif operation == "readinto":
                    args = [bytearray(rng.randrange(9000))]
                elif operation == "write":
                    args = [rng.randbytes(rng.randrange(9000))]
                elif operation == "seek":
                    args = [rng.randrange(-100, 30_000), rng.choice([0, 1, 2])]
                elif operation == "truncate":
                    args = [rng.choice([None, rng.randrange(30_000)])]
                elif operation == "readall":
                    operation = "read"
                outcomes = []
                for one in [expected, file]:
                    own = [bytearray(arg) if isinstance(arg, bytearray) else arg for arg in args]
                    try:
                        outcomes.append((getattr(one, operation)(*own), own))
                    except (OSError, ValueError) as error:
                        outcomes.append((type(error), getattr(error, "errno", None)))
                case = (seed, round, mode, buffering, step, operation)
                assert (case, outcomes[1]) == (case, outcomes[0])
        assert writable.read_bytes("/file") == host.read_bytes()


def test_text_equals_that_of_the_builtin(writable: larder.Fs, tmp_path: Path) -> None:
    host = tmp_path / "file"
    for encoding, newline in [("utf-8", None), ("utf-16", ""), ("latin-1", "\r\n"), (None, "\n")]:
        text = "eins\nzwei\r\ndrei äöü\rvier"
        with open(host, "w", encoding=encoding or "utf-8", newline=newline) as file:
            file.write(text)
        with writable.open("/file", "w", encoding=encoding or "utf-8", newline=newline) as file:
            file.write(text)
        assert writable.read_bytes("/file") == host.read_bytes()
        with open(host, encoding=encoding or "utf-8", newline=newline) as expected:
            with writable.open("/file", encoding=encoding or "utf-8", newline=newline) as file:
                assert file.readlines() == expected.readlines()
                assert file.encoding == expected.encoding
    with writable.open("/line", "w", 1, encoding="utf-8") as file:
        file.write("flushed\n")
        assert writable.read_text("/line", encoding="utf-8") == "flushed\n"


@pytest.mark.parametrize("make", [bytearray, lambda n: memoryview(bytearray(n)), lambda n: array.array("d", bytes(n))])
def test_reads_fill_the_buffer_of_the_caller(sample: Path, make) -> None:
    with larder.open(sample) as fs, fs.open("/big", "rb", 0) as file:
        buffer = make(1 << 20)
        assert file.readinto(buffer) == 1 << 20
        assert bytes(buffer) == bytes(range(256)) * 4096
        part = memoryview(buffer).cast("B")[10:20]
        assert file.readinto(part) == 10
        assert bytes(part) == bytes(range(10))
        assert file.tell() == (1 << 20) + 10
        assert file.readinto(bytearray()) == 0


def test_reads_and_writes_do_not_copy(sample: Path, writable: larder.Fs) -> None:
    """Neither readinto nor write allocates memory of the size of the buffer."""
    buffer = bytearray(SIZE)
    with larder.open(sample) as fs, fs.open("/big", "rb", 0) as file, writable.open("/copy", "wb", 0) as copy:
        file.readinto(buffer)
        file.seek(0)
        high_water = Path("/proc/self/clear_refs")
        high_water.write_text("5")
        status = Path("/proc/self/status")

        def kib(field: str) -> int:
            return int(status.read_text().split(f"{field}:")[1].split()[0])

        resident, allocated = kib("VmRSS"), tracemalloc.start()
        assert file.readinto(buffer) == SIZE
        assert tracemalloc.get_traced_memory()[1] < SIZE // 8, allocated
        assert kib("VmHWM") - resident < SIZE // 2048
        # The page cache of the image grows by what is written, and by nothing else.
        high_water.write_text("5")
        tracemalloc.reset_peak()
        written = 0
        while written < SIZE:
            written += copy.write(memoryview(buffer)[written:])
        assert tracemalloc.get_traced_memory()[1] < SIZE // 8
        tracemalloc.stop()
    assert writable.read_bytes("/copy") == buffer


def test_unsuitable_buffers_are_errors(sample: Path) -> None:
    with larder.open(sample) as fs, fs.open("/big", "rb", 0) as file:
        with pytest.raises(TypeError, match="writable"):
            file.readinto(b"immutable")
        with pytest.raises(BufferError, match="contiguous"):
            file.readinto(memoryview(bytearray(10))[::2])
        with pytest.raises(TypeError):
            file.readinto("text")
        buffer = bytearray(16)
        file.readinto(buffer)
        # The buffer was released.
        buffer.append(0)
        with pytest.raises(io.UnsupportedOperation):
            file.write(b"x")
        with pytest.raises(io.UnsupportedOperation):
            file.truncate(0)


def test_other_threads_run_during_an_operation(sample: Path) -> None:
    """The interpreter does not switch threads on its own here: another thread runs only if an operation lets it."""
    with larder.open(sample) as fs, fs.open("/big", "rb", 0) as file:
        operations = {
            "readinto": lambda: (file.seek(0), file.readinto(bytearray(1 << 20))),
            "read_bytes": lambda: fs.read_bytes("/big"),
            "stat": lambda: fs.stat("/etc/hostname"),
            "listdir": lambda: fs.listdir("/many"),
            "scandir": lambda: list(fs.scandir("/many")),
        }
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1000)
        try:
            for name, operation in operations.items():
                has_run: list[bool] = []
                thread = threading.Thread(target=has_run.append, args=[True])
                thread.start()
                for _ in range(10_000):
                    if has_run:
                        break
                    operation()
                assert has_run, name
                thread.join()
        finally:
            sys.setswitchinterval(interval)


def test_threads_read_and_write_concurrently(writable: larder.Fs) -> None:
    seed = random_seed()
    content = random.Random(seed).randbytes(1 << 20)
    writable.write_bytes("/shared", content)
    failures: list[object] = []

    def work(number: int) -> None:
        rng = random.Random(f"{seed} {number}")
        try:
            with writable.open("/shared", "rb") as file, writable.open(f"/own-{number}", "wb") as own:
                written = bytearray()
                for _ in range(200):
                    at = rng.randrange(len(content))
                    file.seek(at)
                    length = rng.randrange(20_000)
                    assert file.read(length) == content[at : at + length]
                    data = rng.randbytes(rng.randrange(3000))
                    own.write(data)
                    written += data
            assert writable.read_bytes(f"/own-{number}") == written
        except BaseException as error:
            failures.append((number, error))

    threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_threads_that_share_a_file_read_each_byte_once(sample: Path) -> None:
    with larder.open(sample) as fs, fs.open("/big", "rb", 0) as file:
        total = [0] * 4

        def work(number: int) -> None:
            buffer = bytearray(1000)
            while length := file.readinto(buffer):
                total[number] += length

        threads = [threading.Thread(target=work, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sum(total) == SIZE


def test_file_stays_readable_after_its_name_is_removed(writable: larder.Fs) -> None:
    writable.write_text("/file", "content")
    with writable.open("/file") as file:
        writable.remove("/file")
        assert file.read() == "content"


def test_wrapper_with_data_left_fails_if_its_image_is_closed_first(image: Path) -> None:
    fs = larder.open(image, read_write=True)
    buffered, updated = fs.open("/buffered", "wb"), fs.open("/updated", "w+b")
    buffered.write(b"content")
    updated.write(b"content")
    wrappers: list[io.IOBase] = [
        io.TextIOWrapper(fs.open("/text", "wb"), encoding="utf-8"),
        io.TextIOWrapper(fs.open("/text", "r+b"), encoding="utf-8"),
        io.BufferedWriter(fs.open("/raw", "wb", 0)),
    ]
    written = io.TextIOWrapper(fs.open("/written", "wb"), encoding="utf-8")
    for wrapper in wrappers[:2]:
        wrapper.write("content")
    wrappers[2].write(b"content")
    written.write("content")
    written.flush()
    fs.close()
    for wrapper in wrappers:
        with pytest.raises(ValueError, match="closed"):
            wrapper.close()
        assert wrapper.closed
        wrapper.close()
    # These have lost nothing.
    written.close()
    for file in [buffered, updated]:
        with pytest.raises(ValueError, match="closed"):
            file.write(b"x")
        file.close()
        assert file.closed
    with larder.open(image) as fs:
        for path in ["/buffered", "/updated", "/written"]:
            assert fs.read_bytes(path) == b"content"


def test_other_files_are_written_after_the_error_of_one(image: Path) -> None:
    fs = larder.open(image, read_write=True)
    files = [fs.open(f"/{number}", "wb") for number in range(3)]
    # A file of ext4 cannot be so large.
    files[1].seek(1 << 44)
    for file in files:
        file.write(b"content")
    with pytest.raises(OSError) as raised:
        fs.close()
    assert (raised.value.errno, raised.value.filename) == (errno.EFBIG, "/1")
    assert fs.closed
    with larder.open(image) as fs:
        assert [fs.read_text(f"/{number}") for number in range(3)] == ["content", "", "content"]


def test_errors_of_writes_are_raised(tmp_path: Path) -> None:
    from conftest import make_image

    small = make_image(tmp_path / "small.img", "2M")
    with larder.open(small, read_write=True) as fs:
        with pytest.raises(OSError) as raised:
            fs.write_bytes("/big", bytes(8 << 20))
        assert raised.value.errno == errno.ENOSPC
        assert raised.value.filename == "/big"
