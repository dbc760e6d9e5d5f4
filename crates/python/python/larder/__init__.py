"""Reads and writes ext2, ext3 and ext4 images in this process, without a mount.

>>> import larder
>>> fs = larder.open("disk.img")
>>> with fs.open("/etc/hostname") as file:
...     print(file.read(), end="")
example

The methods of `Fs` have the names of their counterparts in `os`, `pathlib` and `shutil`. Every path begins at the root
of the image.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import io
import math
import os
import pathlib
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, AnyStr, BinaryIO, Generic, Literal, Self, TextIO, TypedDict, Unpack, cast, overload

from . import _larder
from ._larder import DirEntry

__all__ = ["DirEntry", "File", "Fs", "Options", "open"]

StrPath = str | os.PathLike[str]
BytesPath = bytes | os.PathLike[bytes]
StrOrBytesPath = str | bytes | os.PathLike[str] | os.PathLike[bytes]

# The default size of buffers, in bytes: a page of the cache, as for the builtin `open` on most file systems. A read of
# at least this size does not use the buffer, which avoids a copy.
BUFFER_SIZE = 4096

# An error of an image that is damaged.
_EUCLEAN = 117


class Options(TypedDict, total=False):
    """The options of `open`. Those from `endpoint` on have an effect only on images at URLs."""

    read_write: bool
    """Whether the image is open for writing, with an exclusive lock. Default: False."""
    partition: int | None
    """The number of the partition. 0 is the whole image. Default: the only one with an ext file system."""
    offset: int
    """The offset of the file system in the image, in bytes. Default: 0."""
    format: Literal["raw", "qcow2", "vmdk", "zstd"] | None
    """The format of the image. Default: the one that its first bytes show."""
    cache_size: int | None
    """The memory of all caches, in bytes. Default: 256 MiB."""
    noload: bool
    """Whether a journal that needs recovery is ignored. Default: False."""
    endpoint: str | None
    """The URL of a server that is compatible with S3, Google Cloud Storage or Azure."""
    anonymous: bool
    """Whether no credentials are sent. Default: False."""
    allow_unversioned: bool
    """Whether an object without a strong ETag is accepted. Default: False."""
    offline: bool
    """Whether only the disk cache is read, and no request is sent. Default: False."""
    cache_dir: str | os.PathLike[str] | None
    """The directory of the disk cache. Default: $XDG_CACHE_HOME/larder or ~/.cache/larder."""
    cache_disk_size: int | None
    """The maximum size of the disk cache, in bytes. 0 disables it. Default: 10 GiB."""
    sha256: str | None
    """The SHA-256 that the content must have, in hexadecimal digits. All of the image is read to check it."""


def open(image: StrOrBytesPath, **options: Unpack[Options]) -> Fs:
    """Opens the image at a path, or at a URL with the scheme https, http, s3, gs or az."""
    return Fs(image, **options)


class Fs(_larder.BaseFs):
    """An open image. To write, use it as a context manager, or call `close` at the end."""

    _image: str
    _options: Options
    # The open files, in the order in which they were opened. The values are not used.
    _files: weakref.WeakKeyDictionary[io.IOBase, None]
    _process: int
    # The `Fs` in `_shared` whose open image this one uses. The reference keeps it alive.
    _source: Fs | None

    def __new__(cls, image: StrOrBytesPath, **options: Unpack[Options]) -> Self:
        unknown = options.keys() - Options.__annotations__.keys()
        if unknown:
            raise TypeError(f"unknown options: {', '.join(sorted(unknown))}")
        cache_dir = options.get("cache_dir")
        if cache_dir is not None:
            options["cache_dir"] = absolute(cache_dir)
        return cls._new(absolute(image), options)

    @classmethod
    def _new(cls, image: str, options: Options, source: Fs | None = None) -> Self:
        """Opens an image, or uses the one that `source` has opened."""
        self = super().__new__(cls, {"image": image, **options}, source)
        self._image = image
        self._options = options
        self._files = weakref.WeakKeyDictionary()
        self._process = os.getpid()
        self._source = source
        if self.read_write:
            _written.add(self)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def __del__(self) -> None:
        # Do not close the image here: if it and its files are in one reference cycle, this method can be called before
        # the files have written their buffers. The image is closed when the memory of `BaseFs` is freed, which is after
        # its files are freed.
        if self.read_write and not self.closed and self._process == os.getpid():
            warnings.warn(f"unclosed image {self!r}", ResourceWarning, 2)

    def __repr__(self) -> str:
        state = "closed" if self.closed else "read-write" if self.read_write else "read-only"
        return f"<larder.Fs {self.image!r} {state}>"

    def __reduce__(self) -> tuple[Any, ...]:
        if self.read_write:
            raise TypeError("an image that is open for writing cannot be pickled, because only one process can open it")
        return _unpickled, (self._image, self._options)

    def close(self) -> None:
        """Closes the files of the image that are open, writes all changes, and closes the image.

        After an error, continues with the next file, and then raises the first error.
        """
        # What a child has in buffers belongs to its parent.
        is_own = not self.closed and self._process == os.getpid()
        # A wrapper, such as a text file, is opened after the file in it, and must be closed before it.
        files = [file for file in self._files if not _is_detached(file)][::-1] if is_own else []
        try:
            _call_all([*(getattr(file, "_end", file.close) for file in files), super().close])
        finally:
            self._source = None
            _written.discard(self)

    @overload
    def open(
        self,
        path: StrOrBytesPath,
        mode: Literal["r", "w", "a", "x", "r+", "w+", "a+", "x+", "rt", "wt", "at", "xt"] = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> TextIO: ...

    @overload
    def open(
        self,
        path: StrOrBytesPath,
        mode: Literal["rb", "wb", "ab", "xb", "rb+", "wb+", "ab+", "xb+", "r+b", "w+b", "a+b", "x+b"],
        buffering: int = -1,
        encoding: None = None,
        errors: None = None,
        newline: None = None,
    ) -> BinaryIO: ...

    @overload
    def open(
        self,
        path: StrOrBytesPath,
        mode: str,
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]: ...

    def open(
        self,
        path: StrOrBytesPath,
        mode: str = "r",
        buffering: int = -1,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> IO[Any]:
        """Opens the file at `path` like the builtin `open`. Returns a `File` if `buffering` is 0."""
        letters = set(mode)
        if len(letters) < len(mode) or letters - set("rwaxbt+") or len(letters & set("rwax")) != 1:
            raise ValueError(f"invalid mode: {mode!r}")
        is_binary = "b" in letters
        if is_binary and "t" in letters:
            raise ValueError("can't have text and binary mode at once")
        if is_binary and (encoding, errors, newline) != (None, None, None):
            raise ValueError("binary mode doesn't take an encoding, errors or newline argument")
        if buffering == 0 and not is_binary:
            raise ValueError("can't have unbuffered text I/O")
        access = "".join(letters & set("rwax")) + "+" * ("+" in letters)
        raw = File(self, path, access)
        file: Any = raw
        if buffering != 0:
            size = buffering if buffering > 1 else BUFFER_SIZE
            if "+" in letters:
                file = BufferedRandom(raw, size)
            elif "r" in letters:
                file = BufferedReader(raw, size)
            else:
                file = BufferedWriter(raw, size)
        if not is_binary:
            file = TextFile(file, encoding, errors, newline, line_buffering=buffering == 1)
            file.mode = mode
        self._files[file] = None
        return cast(IO[Any], file)

    @overload
    def listdir(self, path: StrPath = "/") -> list[str]: ...

    @overload
    def listdir(self, path: BytesPath) -> list[bytes]: ...

    def listdir(self, path: StrOrBytesPath = "/") -> list[Any]:
        """Returns the names in a directory, without `.` and `..`, in the order of the directory."""
        names: list[Any] = super().listdir(path)
        return names

    @overload
    def scandir(self, path: StrPath = "/") -> ScandirIterator[str]: ...

    @overload
    def scandir(self, path: BytesPath) -> ScandirIterator[bytes]: ...

    def scandir(self, path: StrOrBytesPath = "/") -> ScandirIterator[Any]:
        """Returns an iterator over the entries of a directory, like `os.scandir`."""
        entries: list[Any] = self.entries(path)
        return ScandirIterator(entries)

    def statvfs(self, path: StrOrBytesPath = "/") -> os.statvfs_result:
        """Returns the sizes and the free space of the file system, like `os.statvfs`."""
        return super().statvfs(path)

    @overload
    def walk(
        self,
        top: StrPath = "/",
        topdown: bool = True,
        onerror: Callable[[OSError], object] | None = None,
        followlinks: bool = False,
    ) -> Iterator[tuple[str, list[str], list[str]]]: ...

    @overload
    def walk(
        self,
        top: BytesPath,
        topdown: bool = True,
        onerror: Callable[[OSError], object] | None = None,
        followlinks: bool = False,
    ) -> Iterator[tuple[bytes, list[bytes], list[bytes]]]: ...

    def walk(
        self,
        top: StrOrBytesPath = "/",
        topdown: bool = True,
        onerror: Callable[[OSError], object] | None = None,
        followlinks: bool = False,
    ) -> Iterator[tuple[Any, list[Any], list[Any]]]:
        """Walks a tree like `os.walk`. Enters no directory twice, so that a damaged image does not make it endless."""
        entered: set[int] = set()
        # Paths of directories to list. If `topdown` is false, also results of directories, which are returned after the
        # results of their subdirectories.
        stack: list[Any] = [os.fspath(top)]
        while stack:
            item = stack.pop()
            if isinstance(item, tuple):
                yield item
                continue
            try:
                ino = self.stat(item).st_ino
                if ino in entered:
                    raise reached_twice(item)
                entered.add(ino)
                entries: list[DirEntry[Any]] = self.entries(item)
                directories = [entry.name for entry in entries if _leads_to_directory(entry)]
                links = {entry.name for entry in entries if entry.is_symlink()}
            except OSError as error:
                if onerror is not None:
                    onerror(error)
                continue
            listed = set(directories)
            files = [entry.name for entry in entries if entry.name not in listed]
            result = (item, directories, files)
            if topdown:
                # The caller can change the list of directories.
                yield result
            else:
                stack.append(result)
            below = (name for name in reversed(directories) if followlinks or name not in links)
            stack.extend(os.path.join(item, name) for name in below)

    def read_text(
        self,
        path: StrOrBytesPath,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> str:
        """Returns the content of a file as text."""
        with self.open(path, "r", encoding=encoding, errors=errors, newline=newline) as file:
            return file.read()

    def write_text(
        self,
        path: StrOrBytesPath,
        data: str,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
    ) -> int:
        """Writes text to a file, which is created, or emptied first. Returns the number of characters."""
        with self.open(path, "w", encoding=encoding, errors=errors, newline=newline) as file:
            return file.write(data)

    def rmtree(self, path: StrOrBytesPath, ignore_errors: bool = False) -> None:
        """Removes a directory with everything in it, like `shutil.rmtree`. A symbolic link is an error."""
        with contextlib.suppress(OSError) if ignore_errors else contextlib.nullcontext():
            if self.is_symlink(path):
                raise NotADirectoryError(errno.ENOTDIR, "rmtree does not remove symbolic links", path)
            if not ignore_errors:
                self.remove_tree(path)
                return
            self._remove_tree_of(path)

    def _remove_tree_of(self, path: StrOrBytesPath) -> None:
        """Removes what can be removed of a directory."""
        tree: Iterator[tuple[Any, list[Any], list[Any]]] = self.walk(path, topdown=False)
        for root, directories, files in tree:
            # The list of directories also has the links to directories.
            for name in directories + files:
                with contextlib.suppress(OSError):
                    self.remove(os.path.join(root, name))
            with contextlib.suppress(OSError):
                self.rmdir(root)

    unlink = _larder.BaseFs.remove
    replace = _larder.BaseFs.rename

    def utime(
        self,
        path: StrOrBytesPath,
        times: tuple[float, float] | None = None,
        *,
        ns: tuple[int, int] | None = None,
        follow_symlinks: bool = True,
    ) -> None:
        """Sets the times of the last access and of the last change of the content, like `os.utime`."""
        if times is not None:
            if ns is not None:
                raise ValueError("utime: you may specify either 'times' or 'ns' but not both")
            ns = (_nanoseconds(times[0]), _nanoseconds(times[1]))
        self.set_times(path, ns, follow_symlinks=follow_symlinks)


class ScandirIterator(Iterator[DirEntry[AnyStr]], Generic[AnyStr]):
    """The entries of a directory. It is also a context manager, like that of `os.scandir`."""

    def __init__(self, entries: list[DirEntry[AnyStr]]) -> None:
        self._entries: Iterator[DirEntry[AnyStr]] = iter(entries)

    def __next__(self) -> DirEntry[AnyStr]:
        return next(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the iteration."""
        self._entries = iter(())


class File(io.RawIOBase):
    """An open file without a buffer, like `io.FileIO`. `Fs.open` returns it if `buffering` is 0."""

    name: StrOrBytesPath
    mode: str

    def __init__(self, fs: Fs, path: StrOrBytesPath, mode: str = "r") -> None:
        """Opens the file. `mode` has the letters of the builtin `open`, except `b` and `t`."""
        self._file = _larder.BaseFile(fs, path, mode)
        self._fs = fs
        self._access = mode
        self.name = path
        # The name that `io.FileIO` gives to the mode.
        self.mode = mode.replace("+", "b+") if mode != "w+" else "rb+"
        if "+" not in mode:
            self.mode += "b"

    def __repr__(self) -> str:
        return f"<larder.File name={self.name!r} mode={self.mode!r}>"

    def readable(self) -> bool:
        self._check_open()
        return "r" in self._access or "+" in self._access

    def writable(self) -> bool:
        self._check_open()
        return "r" not in self._access or "+" in self._access

    def seekable(self) -> bool:
        self._check_open()
        return True

    def readinto(self, buffer: Any, /) -> int:
        self._check(self.readable(), "reading")
        return self._file.readinto(buffer)

    def read(self, size: int | None = -1, /) -> bytes:
        self._check(self.readable(), "reading")
        return self._file.read(-1 if size is None else size)

    def readall(self) -> bytes:
        return self.read()

    def write(self, buffer: Any, /) -> int:
        self._check(self.writable(), "writing")
        return self._file.write(buffer)

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def truncate(self, size: int | None = None, /) -> int:
        self._check(self.writable(), "writing")
        size = self.tell() if size is None else size
        self._file.truncate(size)
        return size

    def sync(self) -> None:
        """Makes the content and the attributes durable, like `os.fsync`. Flush buffered files first."""
        self._file.sync()

    def close(self) -> None:
        super().close()
        # The attribute `_file` is missing if `__init__` could not open the file.
        if hasattr(self, "_file"):
            self._file.close()

    def _end(self) -> None:
        """Ends the use of the file, because its image is closed.

        `closed` stays false until the program closes the file. Otherwise, a buffer that the program has put around the
        file would drop its data without an error when it is closed.
        """
        self._file.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self.writable():
            raise TypeError("a file that is open for writing cannot be pickled")
        return _reopened_file, (self._fs, self.name, self.tell())

    def _check_open(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")

    @staticmethod
    def _check(is_open: bool, purpose: str) -> None:
        if not is_open:
            raise io.UnsupportedOperation(f"File not open for {purpose}")


class BufferedReader(io.BufferedReader):
    """A buffered file that can be pickled. It is opened again, at the same position."""

    def __init__(self, raw: File, buffer_size: int) -> None:
        super().__init__(raw, buffer_size)
        self._buffer_size = buffer_size

    @property
    def size(self) -> int:
        """The size of the file, in bytes, as fsspec expects it."""
        raw: Any = self.raw
        return cast(int, raw._file.size())

    def __reduce__(self) -> tuple[Any, ...]:
        raw: Any = self.raw
        return _reopened_reader, (raw._fs, raw.name, self.tell(), self._buffer_size)

    def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
        return self.__reduce__()


class _Writer(io.BufferedIOBase):
    """What differs from `io` in a buffered file that is open for writing.

    If its image is closed first, the buffer is written, but `closed` stays false until the program closes the file.
    Otherwise, an `io.TextIOWrapper` that the program has put around the file would drop its text without an error.
    """

    raw: Any
    _is_closed = False

    @property
    def closed(self) -> bool:
        return self._is_closed

    def flush(self) -> None:
        # If only `raw` is closed, nothing has to be written: `_end` has written the buffer, or raised an error.
        if self._is_closed or not self.raw.closed:
            super().flush()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._is_closed = True

    def _end(self) -> None:
        """Ends the use of the file, because its image is closed."""
        try:
            if not self._is_closed:
                self.flush()
        finally:
            self.raw.close()


class BufferedWriter(_Writer, io.BufferedWriter):
    """A buffered file that is open for writing."""


class BufferedRandom(_Writer, io.BufferedRandom):
    """A buffered file that is open for reading and writing."""


class TextFile(io.TextIOWrapper):
    """A text file that can be pickled if it is open for reading. It is opened again, at the same position."""

    mode: str

    def __init__(
        self,
        buffer: Any,
        encoding: str | None = None,
        errors: str | None = None,
        newline: str | None = None,
        line_buffering: bool = False,
    ) -> None:
        # The warning about a missing encoding names the caller of `Fs.open`.
        encoding = io.text_encoding(encoding, 3)
        super().__init__(buffer, encoding, errors, newline, line_buffering)
        self._newline = newline

    def __reduce__(self) -> tuple[Any, ...]:
        if not isinstance(self.buffer, BufferedReader):
            raise TypeError("a file that is open for writing cannot be pickled")
        return _reopened_text, (self.buffer, self.encoding, self.errors, self._newline, self.mode, self.tell())

    def __reduce_ex__(self, _protocol: Any) -> tuple[Any, ...]:
        return self.__reduce__()


def _reopened_file(fs: Fs, path: StrOrBytesPath, position: int) -> File:
    file = File(fs, path)
    file.seek(position)
    fs._files[file] = None
    return file


def _reopened_reader(fs: Fs, path: StrOrBytesPath, position: int, buffer_size: int) -> BufferedReader:
    reader = BufferedReader(File(fs, path), buffer_size)
    reader.seek(position)
    fs._files[reader] = None
    return reader


def _reopened_text(
    buffer: BufferedReader, encoding: str, errors: str | None, newline: str | None, mode: str, cookie: int
) -> TextFile:
    buffer.seek(0)
    file = TextFile(buffer, encoding, errors, newline)
    file.mode = mode
    file.seek(cookie)
    return file


def reached_twice(path: str | bytes) -> OSError:
    """Returns the error of a walk that enters the directory at `path` a second time."""
    return OSError(_EUCLEAN, "the directory is reached by two paths", path)


def _is_detached(file: Any) -> bool:
    """Returns whether the program has detached the buffer from a wrapper. The buffer is then closed separately."""
    try:
        getattr(file, "buffer", None)
    except ValueError:
        return True
    return False


def _leads_to_directory(entry: DirEntry[Any]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        # The target of a link cannot be found.
        return False


def _nanoseconds(seconds: float) -> int:
    whole = math.floor(seconds)
    return whole * 10**9 + math.floor((seconds - whole) * 10**9)


def absolute(name: StrOrBytesPath) -> str:
    """Returns a URL unchanged, and a path as an absolute one. Keeps `..`, because the name before it can be a link."""
    name = os.fsdecode(name)
    return name if _larder.is_url(name) else str(pathlib.Path(name).absolute())


def _call_all(functions: Iterable[Callable[[], object]]) -> None:
    """Calls all functions, and then raises the first error."""
    first: BaseException | None = None
    for function in functions:
        try:
            function()
        except BaseException as error:
            first = first or error
    if first is not None:
        raise first


# The images that `shared` has opened.
_shared: weakref.WeakValueDictionary[tuple[Any, ...], Fs] = weakref.WeakValueDictionary()
_shared_lock = threading.Lock()

# The images that are open for writing.
_written: weakref.WeakSet[Fs] = weakref.WeakSet()


def shared(image: StrOrBytesPath, options: Options) -> Fs:
    """Opens an image like `open`, or returns the one that this function has opened with the same options.

    Unpickled objects and instances of `larder.fsspec.Ext4FileSystem` share an image in this way, and so its caches. If
    the path now refers to another file, that file is opened. If the path no longer exists, the image that is still open
    is returned.
    """
    image = absolute(image)
    identity = _identity(image, options)
    key = (image, identity, *sorted(options.items()))
    with _shared_lock:
        fs = _shared.get(key)
        if identity is None:
            opened = list(_shared.items())
            fs = next((one for (name, _, *rest), one in opened if (name, *rest) == (image, *key[2:]) and not one.closed), fs)
        if fs is None or fs.closed:
            fs = _shared[key] = open(image, **options)
        return fs


def _identity(image: str, options: Options) -> tuple[int, ...] | None:
    """Returns numbers that differ between an image and the file that replaces it, or `None` for a URL."""
    try:
        found = os.stat(image)
    except OSError:
        return None
    # This process itself changes an image that it has open for writing.
    modified = 0 if options.get("read_write") else found.st_mtime_ns
    return found.st_dev, found.st_ino, modified


def _unpickled(image: str, options: Options) -> Fs:
    """Returns a new `Fs` for the image that `shared` opens. Closing it does not affect other `Fs` of this image."""
    return Fs._new(image, options, shared(image, options))


def _after_fork() -> None:
    global _shared_lock
    # Another thread of the parent may hold the lock.
    _shared_lock = threading.Lock()


def _close_written() -> None:
    _call_all([fs.close for fs in list(_written)])


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_close_written)
