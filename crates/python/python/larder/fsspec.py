"""The file systems of images for fsspec, with the protocol `ext4`.

`ext4://path/in/image` needs the storage option `image`: a path or a URL. A chained URL names the image itself, as in
`ext4://path/in/image::file:///disk.img` and `ext4://path/in/image::s3://bucket/disk.img`.
"""

from __future__ import annotations

import datetime
import errno
import io
import os
import stat
from typing import Any, cast

import fsspec
from fsspec.config import apply_config
from fsspec.implementations.local import LocalFileSystem
from fsspec.spec import AbstractFileSystem, _Cached
from fsspec.utils import stringify_path

from . import Fs, Options, StrOrBytesPath, absolute, reached_twice, shared

# The protocols of images that larder opens itself, and the schemes of their URLs.
_SCHEMES = {
    "http": None,
    "https": None,
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "abfs": "az",
    "abfss": "az",
}


# The options of every file system of fsspec. They are for caches of listings and for asynchronous file systems, and
# have no effect here.
_FSSPEC_OPTIONS = {
    "asynchronous",
    "batch_size",
    "listings_expiry_time",
    "loop",
    "max_paths",
    "use_listings_cache",
}


class _Instances(_Cached):
    """Finds the instance for the arguments of a call, as fsspec does."""

    def __call__(cls, *args: Any, **options: Any) -> Any:
        if args:
            # No other argument is positional.
            (options["image"],) = args
        options = apply_config(cls, options)
        # fsspec compares and pickles the arguments as they are.
        makers = {"image": absolute, "cache_dir": absolute}
        if options.get("target_protocol") is None:
            makers["fo"] = absolute
        elif options["target_protocol"] in ("file", "local"):
            # A URL, or a path that can begin with a tilde.
            makers["fo"] = LocalFileSystem._strip_protocol
        for name, made_absolute in makers.items():
            if options.get(name) is not None:
                options[name] = made_absolute(options[name])
        fs = super().__call__(**options)
        # The image of an instance that was made before may be closed or replaced.
        fs.image = shared(fs._target, fs._options)
        return fs


class Ext4FileSystem(AbstractFileSystem, metaclass=_Instances):
    """The files of an image.

    Instances with the same image and options share the open image, and so its caches. fsspec keeps all instances, and
    so the images stay open, until `close` or `clear_instance_cache` is called.

    Walks, and the methods that use them, such as `find`, do not follow links to directories, and enter no directory
    twice. Therefore they end on every image.
    """

    protocol = "ext4"
    root_marker = "/"
    image: Fs

    def __init__(
        self,
        image: StrOrBytesPath | None = None,
        *,
        fo: StrOrBytesPath | None = None,
        target_protocol: str | None = None,
        target_options: dict[str, Any] | None = None,
        auto_mkdir: bool = False,
        **options: Any,
    ) -> None:
        """
        Parameters
        ----------
        image: the path or the URL of the image
        fo, target_protocol, target_options: the same in a chained URL, as fsspec passes it
        auto_mkdir: whether directories of new files are made, as by the local file system of fsspec
        options: the options of `larder.open`, such as read_write, and those of every file system of fsspec
        """
        super().__init__(**{name: options.pop(name) for name in _FSSPEC_OPTIONS & options.keys()})
        target = image if image is not None else fo
        if target is None:
            raise ValueError("name the image with the storage option image, or with a chained URL")
        if target_protocol is not None:
            target, more = _image(os.fsdecode(target), target_protocol, target_options or {})
            options = {**more, **options}
        self._target = target
        self._options = cast(Options, options)
        self.auto_mkdir = auto_mkdir

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = stringify_path(path)
        for prefix in ("ext4://", "ext4:"):
            if path.startswith(prefix):
                path = path.removeprefix(prefix)
                break
        return "/" + path.strip("/")

    @property
    def fsid(self) -> str:
        return f"ext4-{self.image.image}"

    def close(self) -> None:
        """Closes the image, also for other instances with the same image and options."""
        try:
            self.image.close()
        finally:
            self.clear_instance_cache()

    def ls(self, path: str, detail: bool = True, entered: set[int] | None = None, **kwargs: Any) -> list[Any]:
        """Lists a directory. A link to a directory has the type `link`, so that walks do not follow it.

        A directory whose number is in `entered` is an error, and the number of another one is added.
        """
        path = self._strip_protocol(path)
        info = self.info(path)
        if info["type"] != "directory":
            return [info] if detail else [path]
        if entered is not None:
            if info["ino"] in entered:
                raise reached_twice(path)
            entered.add(info["ino"])
        prefix = path.rstrip("/")
        paths = [f"{prefix}/{name}" for name in self.image.listdir(path)]
        return [self._info(one, follows_to_directories=False) for one in paths] if detail else paths

    def walk(
        self, path: str, maxdepth: int | None = None, topdown: bool = True, on_error: Any = "omit", **kwargs: Any
    ) -> Any:
        # fsspec passes the further arguments to `ls`, and to the walks of subdirectories.
        kwargs.setdefault("entered", set())
        return super().walk(path, maxdepth, topdown, on_error, **kwargs)

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        return self._info(self._strip_protocol(path), follows_to_directories=True)

    def _info(self, path: str, follows_to_directories: bool) -> dict[str, Any]:
        found = own = self.image.lstat(path)
        info: dict[str, Any] = {"name": path, "islink": stat.S_ISLNK(own.st_mode)}
        if info["islink"]:
            info["destination"] = self.image.readlink(path)
            if self.image.exists(path):
                found = self.image.stat(path)
        info["size"] = found.st_size
        if stat.S_ISDIR(found.st_mode) and not follows_to_directories:
            found = own
        kinds = {stat.S_IFDIR: "directory", stat.S_IFREG: "file", stat.S_IFLNK: "link"}
        info["type"] = kinds.get(stat.S_IFMT(found.st_mode), "other")
        info["created"] = found.st_ctime
        for field in ("mode", "uid", "gid", "mtime", "ino", "nlink"):
            info[field] = getattr(found, f"st_{field}")
        return info

    def exists(self, path: str, **kwargs: Any) -> bool:
        return self.image.exists(self._strip_protocol(path))

    def lexists(self, path: str, **kwargs: Any) -> bool:
        return self.image.lexists(self._strip_protocol(path))

    def isfile(self, path: str) -> bool:
        return self.image.is_file(self._strip_protocol(path))

    def isdir(self, path: str) -> bool:
        return self.image.is_dir(self._strip_protocol(path))

    def islink(self, path: str) -> bool:
        """Returns whether the file is a symbolic link."""
        return self.image.is_symlink(self._strip_protocol(path))

    def created(self, path: str) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.info(path)["created"], tz=datetime.UTC)

    def modified(self, path: str) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(self.info(path)["mtime"], tz=datetime.UTC)

    def open(self, path: str, mode: str = "rb", *args: Any, **kwargs: Any) -> Any:
        file = super().open(path, mode, *args, **kwargs)
        if isinstance(file, io.TextIOWrapper):
            # The image writes the text when it is closed.
            self.image._files[file] = None
        return file

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        if not autocommit and "r" not in mode:
            raise NotImplementedError("ext4 has no transactions")
        path = self._strip_protocol(path)
        if "r" not in mode:
            self._make_parent(path)
        return self.image.open(path, mode)

    def _make_parent(self, path: str) -> None:
        if self.auto_mkdir:
            self.image.makedirs(self._parent(path), exist_ok=True)

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        if start is None and end is None:
            return self.image.read_bytes(self._strip_protocol(path))
        content: bytes = super().cat_file(path, start, end, **kwargs)
        return content

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        if create_parents:
            self.image.makedirs(path)
        else:
            self.image.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.image.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self.image.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        self.image.remove(self._strip_protocol(path))

    def rm(self, path: str | list[str], recursive: bool = False, maxdepth: int | None = None) -> None:
        if maxdepth is not None:
            raise ValueError("maxdepth is not supported")
        for one in path if isinstance(path, list) else [path]:
            one = self._strip_protocol(one)
            if self.image.is_dir(one) and not self.image.is_symlink(one):
                if not recursive:
                    raise ValueError("cannot remove a directory: set recursive=True")
                self.image.rmtree(one)
            else:
                self.image.remove(one)

    def cp_file(self, path1: str, path2: str, **kwargs: Any) -> None:
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.image.is_dir(path1):
            self.image.makedirs(path2, exist_ok=True)
        else:
            self._make_parent(path2)
            self.image.copy(path1, path2)

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any) -> None:
        """Moves a file or a directory, into `path2` if that is a directory or ends in a slash."""
        is_into = stringify_path(path2).endswith("/") or self.isdir(path2)
        path1, path2 = self._strip_protocol(path1), self._strip_protocol(path2)
        if path1 == path2:
            return
        if is_into:
            path2 = f"{path2.rstrip('/')}/{path1.rpartition('/')[2]}"
            if path1 == path2:
                return
            if self.image.lexists(path2):
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), path2)
        self._make_parent(path2)
        self.image.rename(path1, path2)

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        path = self._strip_protocol(path)
        self._make_parent(path)
        self.image.open(path, "wb" if truncate else "ab", 0).close()
        self.image.utime(path)

    def chmod(self, path: str, mode: int) -> None:
        """Sets the permission bits."""
        self.image.chmod(self._strip_protocol(path), mode)

    def symlink(self, src: str, dst: str, **kwargs: Any) -> None:
        """Creates the symbolic link `dst`."""
        self.image.symlink(src, self._strip_protocol(dst))

    def link(self, src: str, dst: str, **kwargs: Any) -> None:
        """Adds the name `dst` to the file `src`."""
        self.image.link(self._strip_protocol(src), self._strip_protocol(dst))


def _image(fo: str, protocol: str, options: dict[str, Any]) -> tuple[str, Options]:
    """Returns the path or the URL of the image `fo` of another file system, and options for it."""
    if protocol not in _SCHEMES:
        target = fsspec.filesystem(protocol, **options)
        if not getattr(target, "local_file", False):
            raise ValueError(f"cannot open an image at {protocol}://: copy it first, with ::simplecache::{protocol}://")
        with target.open(fo) as file:
            return file.name, {}
    scheme = _SCHEMES[protocol]
    image = fo if scheme is None else f"{scheme}://{fo}"
    options = dict(options)
    client = dict(options.pop("client_kwargs", None) or {})
    converted: Options = {}
    if options.pop("anon", False):
        converted["anonymous"] = True
    endpoint = options.pop("endpoint_url", None) or client.pop("endpoint_url", None)
    if endpoint is not None:
        converted["endpoint"] = endpoint
    unknown = sorted([*options, *client])
    if unknown:
        raise ValueError(
            f"storage options of {protocol} that larder does not have: {', '.join(unknown)}; "
            "it finds credentials as the tools of the server do, for example in the environment"
        )
    return image, converted
