"""Images for the tests, and a web server that sends them."""

import hashlib
import http.server
import os
import shutil
import subprocess
import threading
from pathlib import Path

import pytest

import larder


def make_image(path: Path, size: str = "64M", *options: str) -> Path:
    """Makes an empty image at `path`."""
    mke2fs = shutil.which("mke2fs", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    assert mke2fs, "install e2fsprogs"
    subprocess.run([mke2fs, "-q", "-t", "ext4", "-b", "4096", *options, str(path), size], check=True)
    return path


def fsck(path: Path) -> None:
    """Checks that the file system of `path` is consistent."""
    e2fsck = shutil.which("e2fsck", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    checked = subprocess.run([e2fsck, "-fn", str(path)], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout


def random_seed() -> int:
    """Returns the seed of random operations, and prints it. `LARDER_SEED` selects others."""
    seed = int(os.environ.get("LARDER_SEED", 7))
    print(f"LARDER_SEED={seed}")
    return seed


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An image without files."""
    return make_image(tmp_path / "disk.img")


@pytest.fixture
def writable(image: Path):
    """An image that is open for writing, and checked after the test."""
    with larder.open(image, read_write=True) as fs:
        yield fs
    fsck(image)


@pytest.fixture(scope="session")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An image with a few files. It is not changed."""
    path = make_image(tmp_path_factory.mktemp("sample") / "sample.img")
    with larder.open(path, read_write=True) as fs:
        fs.makedirs("/etc/app")
        fs.write_text("/etc/hostname", "example\n")
        fs.write_text("/etc/app/config", "key = value\n")
        fs.symlink("hostname", "/etc/link")
        fs.symlink("missing", "/etc/dangling")
        fs.write_bytes("/big", bytes(range(256)) * 4096 * 8)
        fs.mkdir("/many")
        for number in range(300):
            fs.write_text(f"/many/{number}", str(number))
    return path


class Handler(http.server.BaseHTTPRequestHandler):
    """Sends files below `root` with ranges and strong ETags, as object stores do."""

    protocol_version = "HTTP/1.1"
    root: Path

    def do_HEAD(self) -> None:
        self.send(with_body=False)

    def do_GET(self) -> None:
        self.send(with_body=True)

    def send(self, with_body: bool) -> None:
        path = self.root / self.path.lstrip("/").split("?")[0]
        if not path.is_file():
            self.send_response(404)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        size, status = path.stat().st_size, 200
        first, last = 0, size - 1
        unit, _, wanted = self.headers.get("Range", "").partition("=")
        if unit == "bytes":
            start, _, end = wanted.partition("-")
            first, last, status = int(start), min(int(end or last), last), 206
        self.send_response(status)
        etag = hashlib.sha256(f"{path} {path.stat().st_mtime_ns}".encode()).hexdigest()
        self.send_header("ETag", f'"{etag}"')
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(last + 1 - first))
        self.send_header("Last-Modified", self.date_time_string(path.stat().st_mtime))
        if status == 206:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.end_headers()
        if with_body:
            with path.open("rb") as file:
                file.seek(first)
                self.wfile.write(file.read(last + 1 - first))

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(sample: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """The URL of a server with the directory of `sample`. Nothing is cached between tests."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    handler = type("SampleHandler", (Handler,), {"root": sample.parent})
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
