"""The file system for fsspec: its abstract tests, chained URLs, and programs that use it."""

import os
import pickle
import shutil
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import fsspec
import pytest
from conftest import fsck, make_image
from fsspec.tests import abstract

import larder
from larder.fsspec import Ext4FileSystem

URL = "ext4://etc/hostname"


class Ext4Fixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class")
    @classmethod
    def fs(cls, tmp_path_factory: pytest.TempPathFactory):
        path = make_image(tmp_path_factory.mktemp("abstract") / "disk.img")
        fs = fsspec.filesystem("ext4", image=str(path), read_write=True, auto_mkdir=True)
        yield fs
        fs.close()
        fsck(path)

    @pytest.fixture
    def fs_path(self, fs: Ext4FileSystem):
        fs.mkdir("/test")
        yield "/test"
        fs.rm("/test", recursive=True)

    @pytest.fixture
    def fs_join(self):
        return lambda *parts: "/".join(parts)


class TestCopy(abstract.AbstractCopyTests, Ext4Fixtures):
    pass


class TestGet(abstract.AbstractGetTests, Ext4Fixtures):
    pass


class TestPut(abstract.AbstractPutTests, Ext4Fixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, Ext4Fixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, Ext4Fixtures):
    pass


@pytest.fixture
def writable_fs(image: Path):
    fs = fsspec.filesystem("ext4", image=str(image), read_write=True)
    yield fs
    fs.close()
    fsck(image)


def test_protocol_is_registered() -> None:
    assert fsspec.get_filesystem_class("ext4") is Ext4FileSystem
    with pytest.raises(ValueError, match="storage option image"):
        fsspec.filesystem("ext4")


def test_image_is_a_storage_option_or_part_of_a_chained_url(sample: Path, monkeypatch) -> None:
    monkeypatch.chdir(sample.parent)
    for url, options in [
        (URL, {"image": str(sample)}),
        (URL, {"image": sample, "cache_size": 32 << 20}),
        (URL, {"fo": str(sample)}),
        (f"{URL}::{sample}", {}),
        (f"{URL}::file://{sample}", {}),
        (f"{URL}::{sample.name}", {}),
        (f"ext4:///etc/link::{sample}", {"ext4": {"noload": True}}),
    ]:
        with fsspec.open(url, **options) as file:
            assert (url, file.read()) == (url, b"example\n")
        with fsspec.open(url, "rt", **options) as file:
            assert file.readline() == "example\n"


def test_image_of_a_file_system_without_local_files_needs_a_copy(sample: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe_file("/disk.img", sample.read_bytes())
    with pytest.raises(ValueError, match="simplecache"):
        fsspec.open(f"{URL}::memory://disk.img").open()
    with fsspec.open(f"{URL}::simplecache::memory://disk.img") as file:
        assert file.read() == b"example\n"
    memory.rm("/disk.img")


def test_image_at_a_url_is_read(server: str, sample: Path) -> None:
    for url, options in [
        (f"{URL}::{server}/sample.img", {}),
        (URL, {"image": f"{server}/sample.img"}),
        (f"{URL}::simplecache::{server}/sample.img", {}),
    ]:
        with fsspec.open(url, **options) as file:
            assert (url, file.read()) == (url, b"example\n")


def test_image_in_an_object_store_is_read_with_the_options_of_s3fs(server: str, sample: Path) -> None:
    bucket = sample.parent / "bucket"
    bucket.mkdir(exist_ok=True)
    (bucket / "chained.img").write_bytes(sample.read_bytes())
    for s3 in [{"anon": True, "endpoint_url": server}, {"anon": True, "client_kwargs": {"endpoint_url": server}}]:
        with fsspec.open(f"{URL}::s3://bucket/chained.img", s3=s3) as file:
            assert file.read() == b"example\n"
    with pytest.raises(ValueError, match="does not have: key, secret"):
        fsspec.open(f"{URL}::s3://bucket/chained.img", s3={"key": "k", "secret": "s"}).open()


def test_instances_share_the_open_image(sample: Path) -> None:
    fs = fsspec.filesystem("ext4", image=str(sample))
    assert fsspec.filesystem("ext4", image=str(sample)) is fs
    others: list[Ext4FileSystem] = []
    thread = threading.Thread(target=lambda: others.append(fsspec.filesystem("ext4", image=str(sample))))
    thread.start()
    thread.join()
    # fsspec has an instance for each thread.
    assert others[0] is not fs and others[0].image is fs.image
    assert pickle.loads(pickle.dumps(fs)) is fs
    assert fs.fsid == f"ext4-{sample}"
    with fs.open("/big") as file:
        file.seek(5)
        assert pickle.loads(pickle.dumps(file)).read(1) == b"\5"
    fs.close()
    assert fsspec.filesystem("ext4", image=str(sample)).exists("/etc")


def test_relative_image_is_that_of_the_current_directory(sample: Path, image: Path, monkeypatch) -> None:
    (image.parent / sample.name).write_bytes(image.read_bytes())
    instances = []
    for options in [{"image": sample.name}, {"fo": sample.name}]:
        monkeypatch.chdir(sample.parent)
        fs = fsspec.filesystem("ext4", **options)
        pickled = pickle.dumps(fs)
        monkeypatch.chdir(image.parent)
        other = fsspec.filesystem("ext4", **options)
        assert fs.exists("/etc") and not other.exists("/etc")
        assert pickle.loads(pickled) is fs
        instances += [fs, other]
    assert fsspec.filesystem("ext4", image=sample) is instances[0]
    for fs in instances:
        fs.close()


def test_replaced_image_is_opened_again(image: Path, sample: Path) -> None:
    fs = fsspec.filesystem("ext4", image=image)
    assert not fs.exists("/etc")
    replacement = image.with_name("new.img")
    shutil.copyfile(sample, replacement)
    os.replace(replacement, image)
    assert fsspec.filesystem("ext4", image=image).exists("/etc")
    # Without a file at the path, the open image is used.
    image.unlink()
    assert fsspec.filesystem("ext4", image=image).exists("/etc")
    fs.close()


def test_image_of_the_configuration_is_that_of_the_current_directory(
    image: Path, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, source in [("one", image), ("other", sample)]:
        (tmp_path / name).mkdir()
        shutil.copyfile(source, tmp_path / name / "disk.img")
    monkeypatch.setitem(fsspec.config.conf, "ext4", {"image": "disk.img"})
    monkeypatch.chdir(tmp_path / "one")
    one = fsspec.filesystem("ext4")
    monkeypatch.chdir(tmp_path / "other")
    other = fsspec.filesystem("ext4")
    assert not one.exists("/etc") and other.exists("/etc")
    one.close()
    other.close()


def test_target_of_a_chained_url_can_be_a_url(sample: Path) -> None:
    fs = fsspec.filesystem("ext4", fo=f"file://{sample}", target_protocol="file")
    assert fs.exists("/etc")
    fs.close()


def test_image_is_closed_although_a_wrapper_was_detached(image: Path) -> None:
    fs = fsspec.filesystem("ext4", image=image, read_write=True)
    with fs.open("/text", "w").detach() as buffer:
        buffer.write(b"content")
    fs.close()
    assert fsspec.filesystem("ext4", image=image).cat_file("/text") == b"content"


def test_options_of_every_file_system_are_accepted(sample: Path) -> None:
    options = {
        "asynchronous": False, "batch_size": 4, "listings_expiry_time": 1, "loop": None, "max_paths": 10,
        "skip_instance_cache": True, "use_listings_cache": False,
    }
    fs = fsspec.filesystem("ext4", image=sample, **options)
    assert fs.exists("/etc") and fs is not fsspec.filesystem("ext4", image=sample, **options)
    with pytest.raises(TypeError, match="unknown options: cache"):
        fsspec.filesystem("ext4", image=sample, cache=1)
    fs.close()


def test_text_is_written_if_the_image_is_closed_first(image: Path) -> None:
    options = {"image": image, "read_write": True}
    fs = fsspec.filesystem("ext4", **options)
    files = [fs.open("/text", "w"), fs.open("/compressed", "wt", compression="gzip")]
    for file in files:
        file.write("content")
    # fsspec itself puts a wrapper around this file.
    wrapper = fsspec.open("ext4://wrapped", "w", **options).open()
    wrapper.write("content")
    fs.close()
    for file in files:
        assert file.closed
        file.close()
    with pytest.raises(ValueError, match="closed"):
        wrapper.close()
    script = f"""
        import fsspec
        fs = fsspec.filesystem("ext4", image={str(image)!r}, read_write=True)
        file = fs.open("/exit", "w")
        file.write("content")
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(script)], check=True)
    fs = fsspec.filesystem("ext4", image=image)
    assert fs.read_text("/text") == fs.read_text("/exit") == "content"
    assert fs.read_text("/compressed", compression="gzip") == "content"
    fs.close()


def test_parts_of_files_are_read(writable_fs: Ext4FileSystem) -> None:
    content = b"first\nsecond\nthird\n"
    writable_fs.pipe_file("/file", content)
    assert writable_fs.tail("/file", 6) == b"third\n"
    assert writable_fs.read_block("/file", 0, 8, b"\n") == b"first\nsecond\n"
    for start, end in [(-6, None), (None, -6), (-6, -1), (3, -3), (-100, 3)]:
        assert (start, end, writable_fs.cat_file("/file", start, end)) == (start, end, content[start:end])


def test_files_are_moved_as_by_the_local_file_system(writable_fs: Ext4FileSystem, tmp_path: Path) -> None:
    host = tmp_path / "host"
    (host / "dir").mkdir(parents=True)
    (host / "folder").symlink_to("dir")
    for name in ["a", "b", "c", "d"]:
        (host / name).mkdir()
        (host / name / "file").write_bytes(name.encode())
    writable_fs.image.copy_in(host, "/host")
    local = fsspec.filesystem("file")
    for source, target in [("a", "dir"), ("b", "dir/"), ("c/file", "folder"), ("d", "new"), ("new", "new")]:
        for fs, root in [(writable_fs, "/host"), (local, str(host))]:
            fs.mv(f"{root}/{source}", f"{root}/{target}")
    writable_fs.image.copy_out("/host", tmp_path / "copy")
    found, expected = (
        sorted((str(path.relative_to(root)), path.is_file() and path.read_bytes()) for path in root.rglob("*"))
        for root in [tmp_path / "copy", host]
    )
    assert found == expected
    assert ("dir/a/file", b"a") in found and ("dir/file", b"c") in found
    with pytest.raises(FileNotFoundError):
        writable_fs.mv("/host/new", "/host/missing/")
    # The directory has a file with this name.
    writable_fs.pipe_file("/host/file", b"other")
    with pytest.raises(FileExistsError):
        writable_fs.mv("/host/file", "/host/dir")
    assert writable_fs.cat_file("/host/dir/file") == b"c"


def test_attributes_are_those_of_the_local_file_system(writable_fs: Ext4FileSystem, tmp_path: Path) -> None:
    host = tmp_path / "host"
    (host / "dir").mkdir(parents=True)
    (host / "file").write_bytes(b"content")
    (host / "link").symlink_to("file")
    (host / "dangling").symlink_to("missing")
    writable_fs.image.copy_in(host, "/host")
    local = fsspec.filesystem("file")

    def info(fs: Any, root: str, name: str) -> dict[str, Any]:
        info = dict(fs.info(f"{root}/{name}"))
        info["name"] = info["name"].removeprefix(root)
        # The size of a directory is that of its blocks.
        for key in ["ino", "created", *(["size"] if name == "dir" else [])]:
            del info[key]
        if "destination" in info:
            info["destination"] = os.fsdecode(info["destination"])
        return info

    for name in ["dir", "file", "link"]:
        assert info(writable_fs, "/host", name) == info(local, str(host), name)
    dangling = writable_fs.info("/host/dangling")
    assert (dangling["type"], dangling["islink"], dangling["destination"]) == ("link", True, "missing")
    listed = writable_fs.ls("/host")
    assert sorted(one["name"].rpartition("/")[2] for one in listed) == ["dangling", "dir", "file", "link"]
    assert all(one == writable_fs.info(one["name"]) for one in listed)
    writable_fs.symlink("dir", "/host/folder")
    (host / "folder").symlink_to("dir")
    # Followed to a directory only if it is named, and not if it is listed.
    assert writable_fs.info("/host/folder")["type"] == local.info(f"{host}/folder")["type"] == "directory"
    (found,) = [one for one in writable_fs.ls("/host") if one["name"] == "/host/folder"]
    (expected,) = [one for one in local.ls(str(host), detail=True) if one["name"] == f"{host}/folder"]
    assert (found.pop("type"), expected.pop("type")) == ("link", "other")
    same = found.keys() - {"name", "size", "created", "mtime", "ino", "destination"}
    assert {key: found[key] for key in same} == {key: expected[key] for key in same}
    assert found["ino"] == writable_fs.image.lstat("/host/folder").st_ino
    assert writable_fs.created("/host/file").tzinfo is not None
    assert writable_fs.modified("/host/file") == local.modified(str(host / "file"))
    assert writable_fs.islink("/host/link") and writable_fs.lexists("/host/dangling")
    assert writable_fs.ls("/host/file", detail=False) == ["/host/file"]
    with pytest.raises(FileNotFoundError):
        writable_fs.info("/missing")


def test_links_to_directories_are_not_followed_by_walks(writable_fs: Ext4FileSystem, tmp_path: Path) -> None:
    host = tmp_path / "host"
    (host / "dir" / "sub").mkdir(parents=True)
    for file in ["file", "dir/file", "dir/sub/file"]:
        (host / file).write_bytes(b"content")
    for target, link in [
        (".", "X11"), ("dir", "folder"), ("folder", "again"), ("file", "link"),
        ("..", "dir/parent"), ("sub", "dir/below"), ("../../dir", "dir/sub/loop"), ("file", "dir/sub/link"),
    ]:
        (host / link).symlink_to(target)
    writable_fs.image.copy_in(host, "/host")
    sides: list[tuple[Any, str]] = [(writable_fs, "/host"), (fsspec.filesystem("file"), str(host))]

    def seen(fs: Any, top: str) -> dict[str, Any]:
        def short(paths: list[str]) -> list[str]:
            return sorted(path.removeprefix(top) for path in paths)

        seen: dict[str, Any] = {}
        for place in ["", "/X11", "/folder"]:
            seen[f"walk {place}"] = sorted(
                (root.removeprefix(top), sorted(dirs), sorted(files)) for root, dirs, files in fs.walk(top + place)
            )
            seen[f"find {place}"] = short(fs.find(top + place))
            seen[f"find with directories {place}"] = short(fs.find(top + place, withdirs=True))
            for pattern in ["**", "*", "*/*", "*/file", "**/file"]:
                seen[f"glob {place} {pattern}"] = short(fs.glob(f"{top}{place}/{pattern}"))
        out = tmp_path / f"out-{fs.protocol[0]}"
        fs.get(f"{top}/", f"{out}/", recursive=True)
        seen["get"] = sorted(
            (str(path.relative_to(out)), path.read_bytes() if path.is_file() else None) for path in out.rglob("*")
        )
        return seen

    found, expected = (seen(*side) for side in sides)
    assert found == expected
    assert len(found["find "]) == 11


def test_directory_with_two_paths_is_entered_once(image: Path) -> None:
    """Only a damaged image has such a directory, because Linux does not permit links to directories."""
    with larder.open(image, read_write=True) as fs:
        fs.makedirs("/a/b")
        fs.write_bytes("/a/b/file", b"content")
    subprocess.run(["debugfs", "-w", "-R", "ln /a /a/b/again", str(image)], check=True)
    fs = fsspec.filesystem("ext4", image=str(image))
    assert fs.find("/") == ["/a/b/file"]
    assert fs.glob("/**/file") == ["/a/b/file"]
    assert [root for root, _, _ in fs.walk("/a", topdown=False)] == ["/a/b", "/a"]
    with pytest.raises(OSError, match="two paths"):
        fs.ls("/a/b/again", entered={fs.info("/a")["ino"]})
    fs.close()


def test_files_are_changed(writable_fs: Ext4FileSystem) -> None:
    fs = writable_fs
    fs.mkdir("/a/b/c")
    with pytest.raises(FileExistsError):
        fs.mkdir("/a")
    with pytest.raises(FileNotFoundError):
        fs.mkdir("/x/y", create_parents=False)
    with pytest.raises(FileExistsError):
        fs.makedirs("/a")
    fs.pipe({"/a/one": b"1", "ext4://a/two": b"22"})
    assert fs.cat(["/a/one", "/a/two"]) == {"/a/one": b"1", "/a/two": b"22"}
    assert fs.cat_file("/a/two", start=1) == b"2"
    assert fs.glob("ext4://a/t*") == ["/a/two"] and fs.find("/a") == ["/a/one", "/a/two"]
    with pytest.raises(FileNotFoundError):
        fs.mv("/a/one", "/new/moved")
    fs.mv("/a/one", "/a/moved")
    fs.cp_file("/a/moved", "/a/copy")
    fs.touch("/a/copy", truncate=False)
    assert fs.cat("/a/copy") == b"1"
    fs.touch("/a/copy")
    assert fs.size("/a/copy") == 0
    fs.chmod("/a/copy", 0o600)
    fs.link("/a/moved", "/a/hard")
    fs.symlink("moved", "/a/soft")
    assert fs.cat("/a/soft") == fs.cat("/a/hard") == b"1"
    fs.rm_file("/a/soft")
    fs.rmdir("/a/b/c")
    with pytest.raises(ValueError, match="recursive"):
        fs.rm("/a")
    fs.rm("/a", recursive=True)
    assert not fs.exists("/a")
    with pytest.raises(NotImplementedError), fs.transaction:
        fs.open("/file", "wb")


def table() -> Any:
    import pyarrow

    return pyarrow.table({"number": range(1000), "name": [f"row {number}" for number in range(1000)]})


@pytest.fixture
def tables(tmp_path: Path):
    """The path of an image with tables, which pyarrow and pandas have written to it."""
    import pandas
    import pyarrow.parquet

    image = make_image(tmp_path / "tables.img")
    fs = fsspec.filesystem("ext4", image=str(image), read_write=True)
    fs.mkdir("/data")
    pyarrow.parquet.write_table(table(), "/data/first.parquet", filesystem=fs)
    options = {"image": str(image), "read_write": True}
    table().to_pandas().to_csv("ext4://data/table.csv", index=False, storage_options=options)
    table().to_pandas().to_parquet("ext4://data/second.parquet", storage_options=options)
    fs.close()
    fsck(image)
    assert pandas.read_csv(f"ext4://data/table.csv::{image}").shape == (1000, 2)
    return image


@pytest.fixture(params=["file", "url"])
def place(request: pytest.FixtureRequest, tables: Path, sample: Path) -> str:
    """The path of the image with tables, and its URL."""
    if request.param == "file":
        return str(tables)
    shutil.copyfile(tables, sample.parent / "tables.img")
    return f"{request.getfixturevalue('server')}/tables.img"


def test_pandas_reads_tables(place: str) -> None:
    import pandas

    expected = table().to_pandas()
    options = {"image": place}
    assert pandas.read_csv("ext4://data/table.csv", storage_options=options).equals(expected)
    assert pandas.read_parquet("ext4:///data/first.parquet", storage_options=options).equals(expected)
    assert pandas.read_parquet(f"ext4://data/second.parquet::{place}").equals(expected)


def test_pyarrow_reads_tables(place: str) -> None:
    import pyarrow.dataset
    import pyarrow.parquet

    fs = fsspec.filesystem("ext4", image=place)
    assert pyarrow.parquet.read_table("/data/first.parquet", filesystem=fs).equals(table())
    dataset = pyarrow.dataset.dataset("/data", filesystem=fs, format="parquet", exclude_invalid_files=True)
    assert dataset.count_rows() == 2000
    # A file of larder is a file of Python, without fsspec.
    with larder.open(place) as image, image.open("/data/first.parquet", "rb") as file:
        assert pyarrow.parquet.read_table(file).equals(table())


def test_duckdb_reads_tables(place: str) -> None:
    import duckdb

    fs = fsspec.filesystem("ext4", image=place)
    with duckdb.connect() as connection:
        connection.register_filesystem(fs)
        total = "select count(*), sum(number) from"
        assert connection.sql(f"{total} 'ext4://data/first.parquet'").fetchall() == [(1000, 499500)]
        assert connection.sql(f"{total} read_csv('ext4://data/table.csv')").fetchall() == [(1000, 499500)]
        assert connection.sql(f"{total} 'ext4://data/*.parquet'").fetchall() == [(2000, 999000)]


def test_dask_reads_tables(place: str) -> None:
    import dask.dataframe

    frame = dask.dataframe.read_csv("ext4://data/table.csv", storage_options={"image": place})
    assert frame.number.sum().compute() == 499500
