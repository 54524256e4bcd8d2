"""Which modules executors are sent, and under which names."""

from __future__ import annotations

import json
import os
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from highwater.pipeline import Pipeline
from highwater.pipeline.definition import Definition, define
from highwater.pipeline.query import transform_of
from highwater.pipeline.sections import Mistake
from highwater.pipeline.shipping import code_archive, make_importable, user_modules

OURS = {"highwater", "pyspark_highwater", "pyspark_highwater_table"}


@pytest.fixture(autouse=True)
def imports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """As they were; what a test was the first to import of a library stays, since few can be imported twice."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        namespace = vars(sys.modules[name])
        places = [namespace.get("__file__"), *namespace.get("__path__", ())]
        if any(place is not None and Path(place).is_relative_to(tmp_path) for place in places):
            del sys.modules[name]


def definition(folder: Path, transform: str, *py_files: str) -> Definition:
    source = {"bootstrap_servers": "127.0.0.1:9092", "topic": "t"}
    sink = {"table": "delta", "path": "table"}
    data = {"name": "n", "source": source, "sink": sink, "transform": transform, "py_files": list(py_files)}
    return define(data, folder)


def write(folder: Path, **modules: str) -> None:
    """Dots in names are written as two underscores."""
    for name, text in modules.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def shipped(definition: Definition) -> set[str]:
    with tarfile.open(code_archive(definition)) as archive:
        return {name for name in archive.getnames() if name.split("/")[0] not in OURS}


def test_executors_are_sent_our_packages_and_the_file_of_the_transform(tmp_path: Path) -> None:
    write(tmp_path, clean_orders="def clean(frame):\n    return frame\n", other="")
    with tarfile.open(code_archive(definition(tmp_path, "clean_orders.py:clean"))) as archive:
        names = set(archive.getnames())
    wanted = {"highwater/pipeline/tasks.py", "highwater/client/client.py", "pyspark_highwater/__init__.py"}
    assert wanted | {"pyspark_highwater_table/__init__.py", "clean_orders.py"} <= names
    assert not [name for name in names if "__pycache__" in name or name.endswith(".pyx")]
    assert {name for name in names if name.split("/")[0] not in OURS} == {"clean_orders.py"}


def package(folder: Path) -> None:
    write(folder, shop__cleaning__rules="def twice(number):\n    return 2 * number\n")
    write(folder, shop__cleaning__orders="from .rules import twice\n\n\ndef clean(frame):\n    return twice(frame)\n")
    for name in ("shop/__init__.py", "shop/cleaning/__init__.py", "shop/.hidden"):
        (folder / name).write_text("")


def test_a_transform_in_a_package_comes_with_all_of_the_package(tmp_path: Path) -> None:
    package(tmp_path)
    defined = definition(tmp_path, "shop/cleaning/orders.py:clean")
    function = transform_of(defined)
    assert function is not None and function(21) == 42
    assert function.__module__ == "shop.cleaning.orders", "the name that it has on the executors, too"
    inner = {"__init__.py", "cleaning", "cleaning/__init__.py", "cleaning/orders.py", "cleaning/rules.py"}
    assert shipped(defined) == {"shop"} | {f"shop/{name}" for name in inner}


def test_a_transform_in_an_importable_module_comes_with_its_outmost_package(tmp_path: Path) -> None:
    package(tmp_path)
    sys.path.insert(0, str(tmp_path))
    assert user_modules(definition(tmp_path, "shop.cleaning.orders:clean")) == [tmp_path / "shop"]
    assert user_modules(definition(tmp_path, "json:loads")) == [], "executors have that"
    assert user_modules(definition(tmp_path, "pyarrow:table")) == [], "and what is installed must be installed there"


def test_a_function_of_python_comes_with_its_module_unless_it_travels_by_value(tmp_path: Path) -> None:
    write(tmp_path, functions_here="def clean(frame):\n    return frame\n")
    sys.path.insert(0, str(tmp_path))
    for name, found in (("functions_here", [tmp_path / "functions_here.py"]), ("__main__", []), ("json", [])):
        function = lambda frame: frame  # noqa: E731
        function.__module__ = name
        pipeline = Pipeline("n").source("127.0.0.1:9092", topic="t").transform(function)
        assert user_modules(pipeline.sink(table="delta", path="x").definition()) == found


def test_py_files_are_importable_here_and_shipped_under_their_names(tmp_path: Path) -> None:
    write(tmp_path / "lib", rates_here="RATE = 3\n")
    write(tmp_path, prices_here__tax="TAX = 2\n")
    write(tmp_path, clean="import rates_here\nfrom prices_here.tax import TAX\n\n\ndef clean(frame):\n    return TAX\n")
    defined = definition(tmp_path, "clean.py:clean", "lib/rates_here.py", "prices_here")
    function = transform_of(defined)
    assert function is not None and function(None) == 2
    assert shipped(defined) == {"rates_here.py", "prices_here", "prices_here/tax.py", "clean.py"}
    make_importable(defined)
    roots = os.environ["PYTHONPATH"].split(os.pathsep)
    assert roots[:2] == [str(tmp_path / "lib"), str(tmp_path)], "for the workers that Spark starts here"
    assert len(roots) == len(set(roots))


def test_the_same_files_are_given_to_a_pipeline_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, rates_here="")
    monkeypatch.chdir(tmp_path)
    pipeline = Pipeline("n", py_files=["rates_here.py"]).source("127.0.0.1:9092", topic="t").transform(json.loads)
    assert pipeline.sink(table="delta", path="x").definition().py_files == (tmp_path / "rates_here.py",)


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (["nowhere.py"], "py_files: names 'nowhere.py': there is no /"),
        (["notes.txt"], "py_files: names 'notes.txt': expected a file that ends with .py, or a folder"),
        (["my-rules.py"], "py_files: names 'my-rules.py': 'my-rules' is no name that can be imported"),
        (["json.py"], "py_files: names 'json.py': executors have a module json already"),
        (["highwater"], "py_files: names 'highwater': executors have a module highwater already"),
        (["rules.py", "more/rules.py"], "py_files: names 'more/rules.py': /.*/rules.py is a module rules already"),
        ([5], "py_files: expected a text or a list of texts, found 5 in it"),
    ],
)
def test_files_that_could_not_be_imported_are_refused(tmp_path: Path, names: list[str], reason: str) -> None:
    (tmp_path / "highwater").mkdir()
    (tmp_path / "more").mkdir()
    for name in ("notes.txt", "my-rules.py", "json.py", "rules.py", "more/rules.py"):
        (tmp_path / name).write_text("")
    with pytest.raises(Mistake, match=f"^{reason}"):
        definition(tmp_path, "clean.py:clean", *names)
