"""The file of a pipeline, as commands are given it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from highwater.cli.tool import fail

file_argument = click.argument("file", type=click.Path(path_type=Path), default="pipeline.yml")


@contextmanager
def with_spark() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        fail(f"{error.name} is missing: pipelines need the packages of `pip install 'highwater[spark]'`")


def loaded(file: Path) -> Any:
    with with_spark():
        from highwater.pipeline.yaml_file import BadDefinition, load
    if not file.exists():
        fail(f"{file}: there is no such file; `highwater pipeline init` writes one to begin with")
    try:
        return load(file)
    except BadDefinition as error:
        fail(str(error))
