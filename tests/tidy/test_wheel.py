"""The wheel: with the compiled kernel where there is a compiler, for every platform where there is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.apache import free_ports
from tests.cluster.nodes import default_properties
from tests.tidy.repository import ROOT

pytestmark = pytest.mark.slow

NEEDED = ("pyproject.toml", "setup.py", "README.md", "LICENSE")
NOT_SOURCES = shutil.ignore_patterns("*.so", "*.c", "__pycache__", "*.egg-info")


def wheel(folder: Path, **environment: str) -> Path:
    source = folder / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=NOT_SOURCES)
    for name in NEEDED:
        shutil.copy(ROOT / name, source)
    offline = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "wheel", *offline, "--wheel-dir", str(folder / "wheels"), str(source)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = (folder / "wheels").glob("*.whl")
    return found


def files_of_kernel(found: Path) -> set[str]:
    names = zipfile.ZipFile(found).namelist()
    return {name.rpartition("/")[2] for name in names if name.startswith("highwater/kernel/")}


def output_of(found: Path, *arguments: str) -> str:
    """By the command as it is in the wheel."""
    unpacked = found.parent / "unpacked"
    zipfile.ZipFile(found).extractall(unpacked)
    done = subprocess.run(
        [sys.executable, "-m", "highwater", *arguments],
        env=os.environ | {"PYTHONPATH": str(unpacked)},
        cwd=unpacked,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout + done.stderr


def test_a_wheel_built_without_a_compiler_is_for_every_platform_and_reports_the_slow_kernel(tmp_path: Path) -> None:
    found = wheel(tmp_path, CC="false")

    assert found.name.endswith("-py3-none-any.whl")
    assert "Root-Is-Purelib: true" in metadata(found, "WHEEL")
    assert not [name for name in files_of_kernel(found) if name.endswith((".c", ".so"))]
    assert "kernel: pure (plain Python, and slower" in output_of(found, "--version")
    settings = default_properties(tmp_path / "never formatted", *free_ports(2))
    (tmp_path / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
    assert "WARNING kernel: pure" in output_of(found, "node", "--config", str(tmp_path / "server.properties"))


def test_a_wheel_built_with_a_compiler_has_the_compiled_kernel_and_no_c_source(tmp_path: Path) -> None:
    found = wheel(tmp_path)

    assert not found.name.endswith("-any.whl")
    assert "Root-Is-Purelib: false" in metadata(found, "WHEEL")
    kinds = {Path(name).suffix for name in files_of_kernel(found)}
    assert kinds == {".py", ".pyx", ".pxi", ".so"}
    assert "kernel: cython (compiled)" in output_of(found, "--version")
    others = {"highwater-interpreter.pth", "highwater_interpreter/__init__.py"}
    pages = {f"highwater/console/static/{path.name}" for path in (ROOT / "src/highwater/console/static").iterdir()}
    assert others | pages <= {*zipfile.ZipFile(found).namelist()}


def metadata(found: Path, name: str) -> str:
    (path,) = (each for each in zipfile.ZipFile(found).namelist() if each.endswith(f".dist-info/{name}"))
    return zipfile.ZipFile(found).read(path).decode()
