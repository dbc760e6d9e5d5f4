"""Pickling, and other processes: forked, spawned, and those of Dask."""

import errno
import gc
import multiprocessing
import os
import pickle
import subprocess
import sys
import textwrap
import threading
import traceback
import weakref
from pathlib import Path

import fsspec
import pytest
from conftest import make_image

import larder


def in_child(work) -> None:
    """Runs `work` in a child after fork(2), and fails if it fails."""
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status == 0


def test_image_and_files_are_pickled(sample: Path) -> None:
    with larder.open(sample, cache_size=32 << 20) as fs:
        copy = pickle.loads(pickle.dumps(fs))
        assert copy is not fs and copy.read_text("/etc/hostname") == "example\n"
        # One image is open for all copies.
        lookups = copy.stats()["dentry"]["lookups"]
        pickle.loads(pickle.dumps(copy)).read_text("/etc/hostname")
        assert copy.stats()["dentry"]["lookups"] > lookups
        for mode, buffering in [("rb", 0), ("rb", -1), ("rb", 100)]:
            with fs.open("/big", mode, buffering) as file:
                file.seek(1000)
                file.read(10)
                again = pickle.loads(pickle.dumps(file))
                assert type(again) is type(file)
                assert again.tell() == 1010
                assert again.read(100) == file.read(100)
        with fs.open("/etc/app/config", newline="\n") as text:
            assert text.read(4) == "key "
            again = pickle.loads(pickle.dumps(text))
            assert (again.read(), again.mode, again.encoding) == ("= value\n", "r", text.encoding)


def test_close_of_an_unpickled_image_has_no_effect_on_others(image: Path) -> None:
    with larder.open(image) as fs:
        pickled = pickle.dumps(fs)
    others = pickle.loads(pickled), fsspec.filesystem("ext4", image=image)
    with pickle.loads(pickled) as fs:
        assert fs.exists("/lost+found")
    assert fs.closed
    for other in others:
        assert other.exists("/lost+found")
    others[1].close()
    assert others[0].exists("/lost+found")
    others[0].close()
    with larder.open(image, read_write=True) as fs:
        fs.write_bytes("/file", b"x")


def test_image_at_a_url_and_its_files_are_pickled(server: str) -> None:
    with larder.open(f"{server}/sample.img") as fs, fs.open("/big", "rb") as file:
        file.seek(1000)
        copies = pickle.loads(pickle.dumps([fs, file]))
        assert copies[0] is not fs and copies[0].image == fs.image
        assert copies[0].read_text("/etc/hostname") == "example\n"
        assert (copies[1].tell(), copies[1].read(100)) == (1000, file.read(100))


def test_what_is_open_for_writing_is_not_pickled(writable: larder.Fs) -> None:
    with pytest.raises(TypeError, match="only one process"):
        pickle.dumps(writable)
    for mode, buffering in [("w", -1), ("wb", -1), ("wb", 0), ("r+b", 0), ("r+b", -1)]:
        with writable.open("/file", mode, buffering) as file, pytest.raises(TypeError):
            pickle.dumps(file)


def test_relative_path_is_pickled_for_other_directories(sample: Path, monkeypatch, tmp_path: Path) -> None:
    monkeypatch.chdir(sample.parent)
    with larder.open(sample.name, noload=True) as fs:
        pickled = pickle.dumps(fs)
    monkeypatch.chdir(tmp_path)
    assert pickle.loads(pickled).exists("/etc")


def test_relative_directory_of_the_disk_cache_is_pickled_for_other_directories(
    server: str, monkeypatch, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    with larder.open(f"{server}/sample.img", cache_dir="cached") as fs:
        pickled = pickle.dumps(fs)
    monkeypatch.chdir("other")
    assert pickle.loads(pickled).exists("/etc")
    assert (tmp_path / "cached").is_dir() and not os.listdir()


def test_forked_child_opens_the_image_again(sample: Path) -> None:
    with larder.open(sample) as fs, fs.open("/big", "rb", 0) as raw, fs.open("/etc/app/config") as text:
        raw.seek(500)
        text.read(4)
        entry = next(entry for entry in fs.scandir("/etc") if entry.name == "link")
        iterator = fs.walk("/")
        next(iterator)

        def work() -> None:
            assert raw.tell() == 500
            assert raw.read(100) == (bytes(range(256)) * 4)[500:600]
            assert text.read() == "= value\n"
            assert fs.read_text("/etc/hostname") == "example\n"
            assert entry.is_file() and entry.stat().st_size == 8
            assert sum(1 for _ in iterator) == 4
            in_child(lambda: fs.listdir("/etc"))
            fs.close()
            assert fs.closed

        for _ in range(3):
            in_child(work)
        # The child has moved neither position.
        assert (raw.tell(), text.read()) == (500, "= value\n")


def test_fork_while_other_threads_read_does_not_deadlock(sample: Path) -> None:
    with larder.open(sample, cache_size=16 << 20) as fs, fs.open("/big", "rb", 0) as shared:
        stop = threading.Event()

        def work() -> None:
            buffer = bytearray(65536)
            while not stop.is_set():
                shared.seek(0)
                while shared.readinto(buffer):
                    fs.stat("/etc/hostname")

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()

        def child() -> None:
            assert shared.seek(0) == 0
            assert shared.read() == bytes(range(256)) * 4096 * 8
            assert fs.read_text("/etc/hostname") == "example\n"

        try:
            for _ in range(20):
                in_child(child)
        finally:
            stop.set()
            for thread in threads:
                thread.join()


def test_forked_child_of_a_writer_gets_an_error_and_changes_nothing(image: Path) -> None:
    from conftest import fsck

    with larder.open(image, read_write=True) as fs:
        fs.write_text("/before", "x")
        file = fs.open("/file", "w")
        file.write("from the parent")

        def work() -> None:
            for use in [lambda: fs.listdir("/"), lambda: fs.write_text("/new", "x"), lambda: file.flush()]:
                with pytest.raises(OSError, match="parent process") as raised:
                    use()
                assert raised.value.errno == errno.EBUSY
                assert raised.value.filename == str(image)
            # Neither changes the image.
            fs.close()
            gc.collect()

        in_child(work)
        fs.write_text("/after", "y")
    fsck(image)
    with larder.open(image) as fs:
        assert fs.read_text("/file") == "from the parent"
        assert fs.read_text("/after") == "y"


def test_objects_that_a_child_drops_are_left_alone(image: Path, sample: Path) -> None:
    from conftest import fsck

    holders = [larder.open(image, read_write=True), larder.open(sample)]
    holders[0].write_text("/file", "x")
    references = [weakref.ref(holder) for holder in holders]

    def work() -> None:
        holders.clear()
        gc.collect()
        assert [reference() for reference in references] == [None, None]

    in_child(work)
    holders[0].write_text("/after", "y")
    holders[0].close()
    fsck(image)
    assert holders[1].exists("/etc")


def test_image_is_unlocked_by_close_although_a_child_exists(image: Path) -> None:
    fs = larder.open(image, read_write=True)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    fs.close()
    del fs
    with larder.open(image, read_write=True) as again:
        again.write_text("/file", "x")
    os.close(writing)
    os.waitpid(child, 0)
    os.close(reading)


class Dataset:
    """What a data loader of PyTorch passes to its workers: an object with open images and an open file."""

    def __init__(self, image: Path | str) -> None:
        self.fs = larder.open(image)
        self.index = self.fs.open("/big", "rb")
        self.files = fsspec.filesystem("ext4", image=str(image))

    def __getitem__(self, number: int) -> tuple[str, int, int]:
        self.index.seek(number)
        text = self.fs.read_text(f"/many/{number}")
        assert self.files.cat_file(f"/many/{number}") == text.encode()
        return text, self.index.read(1)[0], os.getpid()


dataset: Dataset


def item_of_forked(number: int) -> tuple[str, int, int]:
    return dataset[number]


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_workers_read_a_dataset(sample: Path, method: str) -> None:
    read_by_workers(sample, method)


def test_workers_read_a_dataset_of_an_image_at_a_url(server: str) -> None:
    read_by_workers(f"{server}/sample.img", "spawn")


def read_by_workers(image: Path | str, method: str) -> None:
    global dataset
    dataset = Dataset(image)
    assert dataset[3][:2] == ("3", 3)
    context = multiprocessing.get_context(method)
    with context.Pool(2) as pool:
        # A forked worker uses the objects of the parent, and another worker gets a pickled copy.
        read = item_of_forked if method == "fork" else dataset.__getitem__
        items = pool.map(read, range(300), chunksize=10)
    assert [item[:2] for item in items] == [(str(number), number % 256) for number in range(300)]
    assert os.getpid() not in {item[2] for item in items}


def test_dask_reads_in_its_own_processes(sample: Path, tmp_path: Path) -> None:
    script = """
        import sys, larder
        from dask.distributed import Client

        def size(fs, path):
            return fs.stat(path).st_size

        if __name__ == "__main__":
            fs = larder.open(sys.argv[1])
            with Client(n_workers=2, threads_per_worker=2, dashboard_address=None) as client:
                futures = [client.submit(size, fs, f"/many/{number}") for number in range(20)]
                print(sum(client.gather(futures)))
                file = fs.open("/etc/hostname", "rb")
                print(client.submit(lambda file: file.read(), file).result())
    """
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(script))
    command = [sys.executable, str(path), str(sample)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n")[:2] == ["30", r"b'example\n'"]


def test_image_that_is_open_at_exit_is_closed(image: Path) -> None:
    script = f"""
        import larder
        fs = larder.open({str(image)!r}, read_write=True)
        file = fs.open("/file", "w")
        file.write("content")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)
    with larder.open(image) as fs:
        assert fs.read_text("/file") == "content"


def test_all_images_are_closed_at_exit_after_an_error(tmp_path: Path) -> None:
    paths = [str(make_image(tmp_path / f"{number}.img")) for number in range(2)]
    script = f"""
        import larder
        images = [larder.open(path, read_write=True) for path in {paths!r}]
        files = [(image.open("/text", "w"), image.open("/large", "wb")) for image in images]
        for text, large in files:
            text.write("content")
            large.seek(1 << 44)
            large.write(b"content")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True)
    assert f"[Errno {errno.EFBIG}]" in done.stderr, done.stderr
    for path in paths:
        with larder.open(path) as fs:
            assert fs.read_text("/text") == "content"


def test_image_of_another_process_is_locked(image: Path) -> None:
    with larder.open(image, read_write=True):
        script = f"import larder; larder.open({str(image)!r})"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert f"OSError: [Errno {errno.EBUSY}] {image} is locked by another process: {str(image)!r}" in done.stderr


def test_default_buffer_size_is_used(sample: Path) -> None:
    with larder.open(sample) as fs, fs.open("/big", "rb") as file:
        file.read(1)
        assert file.raw.seek(0, 1) == larder.BUFFER_SIZE
