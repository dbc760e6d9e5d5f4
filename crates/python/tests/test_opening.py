"""Images of all kinds: partitions, other formats, URLs."""

import errno
import hashlib
import os
import pickle
import shutil
import subprocess
from pathlib import Path

import fsspec
import pytest

import larder


def test_options_are_checked(sample: Path) -> None:
    with pytest.raises(TypeError, match="unknown options: cache"):
        larder.open(sample, cache=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        larder.open(sample, cache_size="big")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="together"):
        larder.open(sample, offset=512, partition=1)
    with pytest.raises(ValueError, match="must be raw, qcow2, vmdk or zstd"):
        larder.open(sample, format="vdi")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        larder.open(sample, sha256="x")
    with pytest.raises(ValueError, match="it names no object"):
        larder.open("https:///x?secret")
    with larder.open(sample, cache_size=16 << 20, noload=True, partition=0) as fs:
        assert fs.exists("/etc")


def test_errors_of_images_name_them(tmp_path: Path, sample: Path) -> None:
    def raised(path: Path, **options) -> OSError:
        with pytest.raises(OSError) as raised:
            larder.open(path, **options)
        assert raised.value.filename == str(path)
        return raised.value

    assert isinstance(raised(tmp_path / "missing.img"), FileNotFoundError)
    assert isinstance(raised(tmp_path), IsADirectoryError)
    empty = tmp_path / "empty.img"
    empty.write_bytes(bytes(1 << 20))
    assert raised(empty).errno == errno.EINVAL
    archive = tmp_path / "disk.zip"
    archive.write_bytes(b"PK\3\4" + bytes(100_000))
    assert "it is a ZIP archive" in str(raised(archive))
    assert "it has no partition table" in str(raised(sample, partition=2))


def test_parent_of_a_link_is_that_of_its_target(tmp_path: Path, sample: Path, monkeypatch) -> None:
    (tmp_path / "target" / "dir").mkdir(parents=True)
    shutil.copyfile(sample, tmp_path / "target" / "disk.img")
    (tmp_path / "link").symlink_to("target/dir")
    monkeypatch.chdir(tmp_path)
    for path in ["link/../disk.img", tmp_path / "link" / ".." / "disk.img"]:
        with larder.open(path) as fs:
            assert fs.exists("/etc")


def partitioned(path: Path, sample: Path) -> Path:
    """Makes a disk with two partitions at `path`, of which the second is `sample`."""
    size = sample.stat().st_size
    with path.open("wb") as disk:
        disk.truncate((2 << 20) + size + (1 << 20))
        disk.seek(2 << 20)
        disk.write(sample.read_bytes())
    table = f"label: gpt\nstart=2048, size=2048, name=first\nstart=4096, size={size // 512}, name=second\n"
    search = os.environ["PATH"] + ":/usr/sbin:/sbin"
    subprocess.run([shutil.which("sfdisk", path=search), "-q", str(path)], input=table, text=True, check=True)
    return path


def test_partition_is_found_or_selected(tmp_path: Path, sample: Path) -> None:
    disk = partitioned(tmp_path / "disk.img", sample)
    for options in [{}, {"partition": 2}, {"offset": 2 << 20}]:
        with larder.open(disk, **options) as fs:
            assert fs.read_text("/etc/hostname") == "example\n"
    for partition, text in [(3, "there is no partition 3"), (1, "not an ext")]:
        with pytest.raises(OSError, match=text):
            larder.open(disk, partition=partition)
    with larder.open(disk, read_write=True) as fs:
        fs.write_text("/new", "x")
    with larder.open(disk) as fs:
        assert fs.read_text("/new") == "x"


@pytest.mark.parametrize("format", ["qcow2", "vmdk"])
def test_disk_image_is_read_and_not_written(tmp_path: Path, sample: Path, format: str) -> None:
    disk = partitioned(tmp_path / "disk.img", sample)
    image = tmp_path / f"disk.{format}"
    options = ["-c"] if format == "qcow2" else []
    subprocess.run(["qemu-img", "convert", *options, "-O", format, str(disk), str(image)], check=True)
    with larder.open(image) as fs:
        assert hashlib.sha256(fs.read_bytes("/big")).digest() == hashlib.sha256(bytes(range(256)) * 32768).digest()
    with pytest.raises(OSError) as raised:
        larder.open(image, read_write=True)
    assert raised.value.errno == errno.EROFS


# No multiple of the size of a block group, so that the superblock there is not found as a backup.
RAW_OFFSET = 66 << 20


def image_in_two_formats(path: Path, sample: Path) -> Path:
    """Makes an image that begins with a qcow2 image of `sample`, and has `sample` itself at `RAW_OFFSET`."""
    subprocess.run(["qemu-img", "convert", "-f", "raw", "-O", "qcow2", str(sample), str(path)], check=True)
    assert path.stat().st_size <= RAW_OFFSET
    with path.open("r+b") as file:
        file.seek(RAW_OFFSET)
        file.write(sample.read_bytes())
    return path


def test_image_is_opened_in_the_given_format(tmp_path: Path, sample: Path) -> None:
    image = image_in_two_formats(tmp_path / "disk.img", sample)
    with larder.open(image, format="raw", offset=RAW_OFFSET, read_write=True) as fs:
        fs.write_text("/etc/hostname", "changed\n")
    for options, content in [
        ({}, "example\n"),
        ({"format": "qcow2"}, "example\n"),
        ({"format": "raw", "offset": RAW_OFFSET}, "changed\n"),
    ]:
        with larder.open(image, **options) as fs:
            assert (options, fs.read_text("/etc/hostname")) == (options, content)
            assert pickle.loads(pickle.dumps(fs)).read_text("/etc/hostname") == content
        with fsspec.open("ext4://etc/hostname", "rt", image=image, **options) as file:
            assert (options, file.read()) == (options, content)
    for format, text in [("vmdk", "it is not a VMDK image"), ("zstd", "it is not compressed with zstd")]:
        with pytest.raises(OSError, match=text) as raised:
            larder.open(image, format=format)
        assert raised.value.errno == errno.EINVAL
    for options in [{"format": "raw"}, {"offset": RAW_OFFSET}]:
        with pytest.raises(OSError):
            larder.open(image, **options)


def test_image_at_a_url_is_opened_in_the_given_format(server: str, sample: Path) -> None:
    image = image_in_two_formats(sample.parent / "two.img", sample)
    with larder.open(f"{server}/{image.name}") as fs:
        assert fs.read_text("/etc/hostname") == "example\n"
    with larder.open(f"{server}/{image.name}", format="raw", offset=RAW_OFFSET) as fs:
        assert fs.read_text("/etc/hostname") == "example\n"
    with pytest.raises(OSError, match="it is not a VMDK image"):
        larder.open(f"{server}/{image.name}", format="vmdk")


def test_image_at_a_url_is_read(server: str, sample: Path) -> None:
    url = f"{server}/sample.img"
    with larder.open(url, cache_size=64 << 20) as fs:
        assert fs.image == url
        assert fs.read_bytes("/big") == bytes(range(256)) * 32768
        assert fs.read_text("/etc/hostname") == "example\n"
        assert sum(1 for _ in fs.walk("/")) == 5
        assert fs.stats()["device"]["reads"] > 0
    # The disk cache has what was read.
    with larder.open(url, offline=True) as fs:
        assert fs.read_text("/etc/hostname") == "example\n"
    digest = hashlib.sha256(sample.read_bytes()).hexdigest()
    with larder.open(url, sha256=digest) as fs:
        assert fs.exists("/etc")
    with pytest.raises(OSError, match="has the SHA-256"):
        larder.open(url, sha256="0" * 64)


def test_errors_of_servers_are_those_of_files(server: str) -> None:
    with pytest.raises(FileNotFoundError) as raised:
        larder.open(f"{server}/missing.img?token=secret")
    assert raised.value.filename == f"{server}/missing.img"
    assert "secret" not in str(raised.value)
    with pytest.raises(OSError) as written:
        larder.open(f"{server}/sample.img", read_write=True)
    assert written.value.errno == errno.EROFS


def test_image_in_an_object_store_is_read(server: str, sample: Path) -> None:
    """The objects of a bucket are below the name of the bucket."""
    os.makedirs(sample.parent / "bucket", exist_ok=True)
    shutil.copyfile(sample, sample.parent / "bucket" / "disk.img")
    options = {"endpoint": server, "anonymous": True, "cache_disk_size": 0}
    with larder.open("s3://bucket/disk.img", **options) as fs:
        assert fs.read_text("/etc/hostname") == "example\n"


def test_unusable_default_cache_is_a_warning(server: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "larder").write_bytes(b"not a directory")
    with pytest.warns(RuntimeWarning, match="nothing is cached on disk"):
        fs = larder.open(f"{server}/sample.img")
    assert fs.exists("/etc")
    with pytest.raises(OSError):
        larder.open(f"{server}/sample.img", cache_dir=tmp_path / "larder")


def test_forked_child_reads_an_image_at_a_url(server: str) -> None:
    from test_processes import in_child

    with larder.open(f"{server}/sample.img", cache_disk_size=0) as fs, fs.open("/big", "rb", 0) as file:
        file.seek(10)
        in_child(lambda: file.read(5) == bytes(range(10, 15)) or os._exit(2))
        assert file.read(1) == b"\n"
