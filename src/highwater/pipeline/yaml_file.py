"""Definitions in YAML: every mistake is one line that names the file, the line and the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from highwater.pipeline.definition import Definition, define
from highwater.pipeline.sections import Mistake, Place


class BadDefinition(Exception):
    """What is wrong with a file, in one line."""


def load(path: Path) -> Definition:
    """Raises BadDefinition; starts nothing."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise BadDefinition(f"{path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BadDefinition(f"{path}: byte {error.start} is not UTF-8") from error
    lines: dict[Place, int] = {}
    try:
        data = _plain(yaml.compose(text, Loader=yaml.SafeLoader), (), lines)
        return define(data, path.parent)
    except Mistake as mistake:
        raise BadDefinition(f"{path}:{_line(mistake.place, lines)}: {mistake}") from mistake
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise BadDefinition(f"{path}:{mark.line + 1 if mark else 1}: not YAML: {error.problem}") from error


def _plain(node: yaml.Node | None, place: Place, lines: dict[Place, int]) -> Any:
    """The data of a node, with the line of every key."""
    if node is None:
        raise Mistake((), "the file is empty: a pipeline needs name, source and sink")
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        data: dict[Any, Any] = {}
        for key_node, value_node in node.value:
            key = _scalar(key_node)
            inner = (*place, str(key))
            lines[inner] = key_node.start_mark.line + 1
            if key in data:
                raise Mistake(inner, "is given twice")
            data[key] = _plain(value_node, inner, lines)
        return data
    if isinstance(node, yaml.SequenceNode):
        return [_plain(each, (*place, str(index)), lines) for index, each in enumerate(node.value)]
    return _scalar(node)


def _scalar(node: yaml.Node) -> Any:
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    finally:
        loader.dispose()


def _line(place: Place, lines: dict[Place, int]) -> int:
    """Of the key, or of the nearest one around it."""
    while place not in lines and place:
        place = place[:-1]
    return lines.get(place, 1)
