"""The user's code and ours: where it lies here, and how it comes to executors that have neither."""

from __future__ import annotations

import atexit
import importlib.util
import os
import shutil
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

from highwater.pipeline.definition import Definition

CODE = "highwater_code"
"""The folder, in an executor's working directory, where code is unpacked."""
PACKAGES = ("highwater", "pyspark_highwater", "pyspark_highwater_table")


def code_archive(definition: Definition) -> Path:
    """Our packages and the user's modules, as they are here.

    An archive that executors unpack, since a compiled module cannot be loaded from a zip file.
    """
    folder = tempfile.mkdtemp(prefix="highwater-code-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "code.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as archive:
        for package in PACKAGES:
            found = _installed(package)
            if found is None:
                raise RuntimeError(f"the package {package} is not installed")
            archive.add(found, arcname=package, filter=_without_sources)
        for module in user_modules(definition):
            archive.add(module, arcname=module.name, filter=_without_caches)
    return path


def user_modules(definition: Definition) -> list[Path]:
    """The files and folders that the definition names, and the module or the whole package of its transform."""
    found = list(definition.py_files)
    if (own := _transform_module(definition)) is not None:
        found.append(own)
    return list(dict.fromkeys(found))


def make_importable(definition: Definition) -> None:
    """For this process, and for those that Spark starts from it."""
    roots = [str(module.parent) for module in user_modules(definition)]
    if not roots:
        return
    sys.path[:0] = [root for root in dict.fromkeys(roots) if root not in sys.path]
    inherited = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys([*roots, *filter(None, inherited)]))


def module_name(file: Path) -> str:
    """By which a file is imported that may lie in a package."""
    return ".".join([*(folder.name for folder in reversed(_packages_around(file))), file.stem])


def _packages_around(file: Path) -> list[Path]:
    """From the inmost to the outmost."""
    found: list[Path] = []
    while ((found[-1] if found else file).parent / "__init__.py").is_file():
        found.append((found[-1] if found else file).parent)
    return found


def _transform_module(definition: Definition) -> Path | None:
    """Its file, or the folder of the outmost package that it lies in; None where executors need not be sent it."""
    transform = definition.transform
    if transform is None:
        return None
    if isinstance(transform, str) and ".py:" in transform:
        file = definition.file(transform.rpartition(":")[0])
        return [file, *_packages_around(file)][-1]
    # What is defined in the script that runs, or by hand in no module at all, travels by value.
    name = transform.rpartition(":")[0] if isinstance(transform, str) else transform.__module__ or "__main__"
    top = name.partition(".")[0]
    if top in ("__main__", *PACKAGES) or top in sys.stdlib_module_names:
        return None
    found = _installed(top)
    # What was installed here must be there too, as the packages that it needs.
    return None if found is None or found.is_relative_to(sysconfig.get_path("purelib")) else found


def _installed(module: str) -> Path | None:
    """The folder of a package, or the file of a module."""
    found = importlib.util.find_spec(module)
    if found is None:
        return None
    if found.submodule_search_locations:
        return Path(next(iter(found.submodule_search_locations)))
    return Path(found.origin) if found.origin and found.has_location else None


def _without_caches(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    hidden = any(part.startswith(".") for part in Path(entry.name).parts)
    return None if hidden or "__pycache__" in entry.name else entry


def _without_sources(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Of compiled modules."""
    return None if entry.name.endswith((".c", ".pyx", ".pxi")) else _without_caches(entry)
