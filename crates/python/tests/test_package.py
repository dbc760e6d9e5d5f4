"""The package: its types, its wheel and its pages."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest

import larder

CRATE = Path(__file__).parents[1]
ROOT = CRATE.parents[1]


def run(*command: str, cwd: Path = CRATE) -> None:
    done = subprocess.run([sys.executable, *command], capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr


def test_types_are_complete(tmp_path: Path) -> None:
    options = ["--config-file", str(CRATE / "pyproject.toml"), "--cache-dir", str(tmp_path)]
    run("-m", "mypy", *options, "-p", "larder", cwd=tmp_path)
    program = tmp_path / "program.py"
    program.write_text(
        """\
import larder
from typing import BinaryIO, TextIO, assert_type

with larder.open("disk.img", read_write=True, partition=2, format="raw") as fs:
    assert_type(fs, larder.Fs)
    assert_type(fs.open("/file"), TextIO)
    assert_type(fs.open("/file", "rb"), BinaryIO)
    assert_type(fs.read_bytes("/file"), bytes)
    assert_type([entry.name for entry in fs.scandir("/")], list[str])
    assert_type([entry.path for entry in fs.scandir(b"/")], list[bytes])
    assert_type((fs.listdir(), fs.listdir(b"/")), tuple[list[str], list[bytes]])
    assert_type([root for root, _, _ in fs.walk(b"/")], list[bytes])
    assert_type(fs.readlink(b"/link"), bytes)
    larder.open("disk.img", unknown=1)  # type: ignore[call-arg]
"""
    )
    run("-m", "mypy", *options, str(program), cwd=tmp_path)


def test_stubs_agree_with_the_module(tmp_path: Path) -> None:
    run("-m", "mypy.stubtest", "larder._larder", cwd=tmp_path)


def test_wheel_is_for_all_later_versions_of_python_and_names_its_platform() -> None:
    wheel = importlib.metadata.distribution("larder").read_text("WHEEL") or ""
    tags = re.findall("^Tag: (.*)$", wheel, re.MULTILINE)
    matches = [re.fullmatch(r"cp311-abi3-manylinux_2_(\d+)_\w+", tag) for tag in tags]
    oldest = [int(match[1]) for match in matches if match]
    assert oldest and len(oldest) == len(tags), wheel
    module = sys.modules["larder._larder"].__file__ or ""
    assert module.endswith("_larder.abi3.so")
    # Each symbol of glibc has the version in which it was added.
    symbols = subprocess.run(["readelf", "-VW", module], check=True, capture_output=True, text=True).stdout
    needed = max(int(version) for version in re.findall(r"\bGLIBC_2\.(\d+)", symbols))
    assert needed <= min(oldest), f"{wheel} needs glibc 2.{needed}"


def blocks(page: Path) -> list[tuple[str, str]]:
    return re.findall(r"^```(\w+)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", ["docs/guide/python.md", "crates/python/README.md"])
def test_code_of_pages_runs(page: str, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All Python blocks of a page are one program, which runs in a directory with a writable image."""
    (tmp_path / "disk.img").write_bytes(sample.read_bytes())
    found = blocks(ROOT / page)
    # crates/cli/tests/guide.rs checks the other blocks.
    assert {language for language, _ in found} <= {"console", "python", "sh"}
    program = tmp_path / "page.py"
    program.write_text("\n".join(code for language, code in found if language == "python"))
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_docstring_of_the_package_runs(sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import doctest

    (tmp_path / "disk.img").write_bytes(sample.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(larder).failed == 0
