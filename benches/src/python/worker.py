"""Runs a workload of the benches of the Python package twice, and prints the times in seconds.

The argument is a job in JSON: the side, the workload, the source of the files, the paths of the small files, the number
of reads and the seed. Nothing is timed before the first operation: the image is open, and the modules are loaded.
"""

import json
import os
import random
import sys
import time

PAGE = 4096
BIG_FILE = "big.bin"


def opener(side: str, source: str):
    """Returns a function that opens a file for reading."""
    if side == "larder":
        import larder

        fs = larder.open(source)
        return lambda path: fs.open(path, "rb")
    if side in ("mount", "kernel"):
        return lambda path: open(os.path.join(source, path), "rb")
    import fsspec

    if side == "fsspec-ext4":
        fs = fsspec.filesystem("ext4", image=source)
        return lambda path: fs.open("/" + path, "rb")
    if side == "fsspec-local":
        fs = fsspec.filesystem("file")
        return lambda path: fs.open(os.path.join(source, path), "rb")
    fs = fsspec.filesystem("zip", fo=source)
    return lambda path: fs.open(path, "rb")


def make_zip(image: str, target: str) -> None:
    """Writes an archive with the files of an image, which are not compressed."""
    import zipfile

    import larder

    with larder.open(image) as fs, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for root, _, files in fs.walk("/"):
            for name in files:
                path = os.path.join(root, name)
                archive.writestr(path.lstrip("/"), fs.read_bytes(path))


def main() -> None:
    job = json.loads(sys.argv[1])
    if job["side"] == "make-zip":
        make_zip(job["source"], job["paths"])
        print("{}")
        return
    open_file = opener(job["side"], job["source"])
    rng = random.Random(job["seed"])
    seconds = []
    if job["workload"] == "random":
        with open_file(BIG_FILE) as file:
            pages = file.seek(0, os.SEEK_END) // PAGE
            offsets = [rng.randrange(pages) * PAGE for _ in range(job["reads"])]
            for _ in range(2):
                start, read_bytes = time.perf_counter(), 0
                for offset in offsets:
                    file.seek(offset)
                    read_bytes += len(file.read(PAGE))
                seconds.append(time.perf_counter() - start)
        count = len(offsets)
    else:
        with open(job["paths"]) as file:
            paths = json.load(file)
        rng.shuffle(paths)
        for _ in range(2):
            start, read_bytes = time.perf_counter(), 0
            for path in paths:
                with open_file(path) as file:
                    read_bytes += len(file.read())
            seconds.append(time.perf_counter() - start)
        count = len(paths)
    cold, warm = seconds
    print(json.dumps({"cold_seconds": cold, "warm_seconds": warm, "count": count, "bytes": read_bytes}))


main()
